"""Honest near-misses among the caches of requests: correct ones, each of which uses one freedom.

An alarm against one of them is a bug of radixcheck, never of the target.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, TypeVar

from msgspec import structs

from radixcheck.protocol import Match, Refused
from radixcheck.targets.bookkeeper import Books, RadixRequests
from radixcheck.targets.pools.plain import PoolCounted, PoolExclusive, PoolPaged

Kind = TypeVar("Kind", bound=type[RadixRequests])

REQUEST_HONEST: dict[str, type[RadixRequests]] = {}
"""Every honest near-miss by the name of its class."""


def honest(target: Kind) -> Kind:
    """List a class in `REQUEST_HONEST`."""
    REQUEST_HONEST[target.__name__] = target
    return target


@honest
class StoresAtTheEnd(RadixRequests):
    """Publishes nothing between two chunks, as the first schedulers did."""

    def publish(self, request: str) -> None:
        """Wait."""


@honest
class StoresNothing(RadixRequests):
    """Takes no request's tokens in, and gives every slot back."""

    def publish(self, request: str) -> None:
        """Store nothing."""

    def end(self, request: str, tokens: Sequence[int]) -> None:
        """Free all that is the request's own."""
        self.abort(request)


@honest
class StoresOnRetract(RadixRequests):
    """Stores what a retracted request has computed, so that it will match it again."""

    def retract(self, request: str) -> None:
        """End it as if it were done."""
        self.end(request, self._books[request].tokens)


@honest
class TakesAPageAhead(RadixRequests):
    """Holds a page more than its tokens need, for steps that are in flight."""

    def _needed(self, books: Books, num_tokens: int) -> int:
        return super()._needed(books, num_tokens + self._page_size)


@honest
class TakesPageByPage(RadixRequests):
    """Takes page by page, and gives all of them back when there is no further one."""

    def append(self, request: str, tokens: Sequence[int], num_tokens: int) -> None:
        """Take a page as long as one is needed."""
        books = self._books[request]
        before = len(books.slots)
        try:
            while self._needed(books, num_tokens):
                books.slots += self._take(self._page_size)
        except Exception:  # the pool may also raise in the midst of an eviction
            self._give(books.slots[before:])
            del books.slots[before:]
            raise
        super().append(request, tokens, num_tokens)


@honest
class HasRows(RadixRequests):
    """Needs a row for every request that runs, and has few of them."""

    def __init__(self, **config: Any) -> None:
        super().__init__(**config)
        self.row_pool = PoolExclusive(capacity=4)
        self._rows: dict[str, list[int]] = {}

    def begin(self, request: str, tokens: Sequence[int], namespace: tuple[str, ...] = ()) -> int:
        """Take a row, or refuse."""
        self._rows[request] = self.row_pool.alloc(1)
        return super().begin(request, tokens, namespace)

    def end(self, request: str, tokens: Sequence[int]) -> None:
        """Give the row back."""
        self.free_row(request)
        super().end(request, tokens)

    def abort(self, request: str) -> None:
        """Give the row back."""
        self.free_row(request)
        super().abort(request)

    def reset(self) -> None:
        """Give all rows back."""
        self._rows.clear()
        self.row_pool.reset()
        super().reset()

    def free_row(self, request: str) -> None:
        """Give a row back."""
        self.row_pool.free(self._rows.pop(request))


@honest
class EvictsInBatches(RadixRequests):
    """Evicts 8 slots more than are missing, so that it need not do so at every step."""

    batch: ClassVar[int] = 8

    def __init__(self, **config: Any) -> None:
        super().__init__(**config)
        self.capabilities = structs.replace(self.capabilities, evict_batch=self.batch)

    def _shortfall(self, num_tokens: int) -> int:
        missing = super()._shortfall(num_tokens)
        return missing + self.batch if missing > 0 else missing


@honest
class EvictsOneByOne(RadixRequests):
    """Gives back what each victim brings before it looks for the next one."""

    def evict(self, num_tokens: int) -> None:
        """Evict as long as there is not enough."""
        enough = self.pool.available_size() + num_tokens
        while self.pool.available_size() < enough and self.evictable_size():
            super().evict(1)


@honest
class StoresBeforeItIsWritten(RadixRequests):
    """Stores pages as soon as they have slots; whoever matches them comes after the KV."""

    def append(self, request: str, tokens: Sequence[int], num_tokens: int) -> None:
        """Take slots, and publish them at once where nobody has stored the like."""
        super().append(request, tokens, num_tokens)
        books = self._books[request]
        aligned = self._whole_pages(books, books.computed)
        if self._match(books.tokens[:aligned], books.namespace).length == books.owned:
            super().publish(request)


@honest
class CountsHolders(RadixRequests):
    """Counts the holders of each slot: the tree is one, and so is every request.

    What was matched gets one holder more, and a request that ends gives back one of each.
    """

    supports: ClassVar = {"page_size": [1], "capacity": [8, 16, 64]}

    def __init__(self, **config: Any) -> None:
        super().__init__(**config)
        self.pool = PoolCounted(config.get("capacity", 64))

    def _admit(
        self, request: str, tokens: Sequence[int], namespace: tuple[str, ...], match: Match
    ) -> int:
        self._hold(list(match.slots))
        return super()._admit(request, tokens, namespace, match)

    def _free_duplicates(self, books: Books, existing: int) -> None:
        """Free nothing yet: let the tree hold what is new to it."""
        self._hold(books.slots[existing : self._whole_pages(books, books.computed)])

    def _rewrite(self, books: Books, slots: list[int]) -> None:
        self._hold(slots)
        self._give(books.slots[: len(slots)])
        super()._rewrite(books, slots)

    def _close(self, books: Books, kept: int) -> None:
        super()._close(books, 0)

    def _hold(self, slots: list[int]) -> None:
        if slots:
            self.pool.add_refs(slots)


class AnswersNone(PoolPaged):
    """A pool that answers None when it is full, and raises nothing."""

    def alloc(self, num_tokens: int) -> Any:
        """Hand out `num_tokens` slots, or none."""
        return super().alloc(num_tokens) if num_tokens <= self.available_size() else None


@honest
class TakesThePromptAtOnce(RadixRequests):
    """Takes the slots of a whole prompt at its admission, from a pool that never raises."""

    def __init__(self, **config: Any) -> None:
        super().__init__(**config)
        can = self.pool.capabilities
        pool: Any = AnswersNone(can.page_size, can.capacity)
        self.pool = pool

    def begin(self, request: str, tokens: Sequence[int], namespace: tuple[str, ...] = ()) -> int:
        """Match, and take the rest; unlock again where there is too little."""
        matched = super().begin(request, tokens, namespace)
        books = self._books[request]
        slots = self.pool.alloc(self._needed(books, len(tokens) - matched))
        if slots is None:
            self.abort(request)
            raise Refused("no slots for the whole prompt")
        books.slots += slots
        return matched


@honest
class PublishesEverySecondTime(RadixRequests):
    """Stores at every second chunk, and until then frees no duplicate."""

    def __init__(self, **config: Any) -> None:
        super().__init__(**config)
        self._waiting: set[str] = set()

    def publish(self, request: str) -> None:
        """Store, or wait until the next time."""
        self._waiting ^= {request}
        if request not in self._waiting:
            super().publish(request)


@honest
class TakesBackWhatIsAhead(TakesAPageAhead):
    """Takes the pages back that others hold ahead, as soon as it is short of slots."""

    def append(self, request: str, tokens: Sequence[int], num_tokens: int) -> None:
        """Take from those who do not need it yet before anything is evicted."""
        needed = self._needed(self._books[request], num_tokens)
        for other, books in self._books.items():
            if other != request and self.pool.available_size() < needed:
                kept = -(-books.computed // self._page_size) * self._page_size
                self._give(books.slots[kept:])
                del books.slots[kept:]
        super().append(request, tokens, num_tokens)


@honest
class FreesPageByPage(RadixRequests):
    """Gives back page by page, the last one first: an error may leave several pages over."""

    def _give(self, slots: list[int]) -> None:
        while slots:
            super()._give(slots[-self._page_size :])
            del slots[-self._page_size :]


@honest
class KnowsNoNamespace(RadixRequests):
    """Has one namespace, and no parameter for it."""

    def __init__(self, **config: Any) -> None:
        super().__init__(**config)
        self.capabilities = structs.replace(self.capabilities, namespaces="absent")

    def match(self, tokens: Sequence[int]) -> int:  # type: ignore[override]  # no namespace
        """Count what is stored of `tokens`."""
        return super().match(tokens)

    def begin(self, request: str, tokens: Sequence[int]) -> int:  # type: ignore[override]  # same
        """Match and lock."""
        return super().begin(request, tokens)
