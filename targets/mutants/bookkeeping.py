"""Bugs of the bookkeeping of requests: in between the tree and the pool, both of which are
correct."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from radixcheck.protocol import Match, Refused, Slots, Target
from radixcheck.targets.bookkeeper import Books, RadixRequests
from radixcheck.targets.mutants.blocks import ComparesTheLastPageOnly
from radixcheck.targets.mutants.catalogue import mutant
from radixcheck.targets.radix_paged import TOKEN_BYTES, RadixPaged
from radixcheck.targets.request_honest import HasRows


class _TrustingTree(RadixPaged):
    """A tree that believes its caller: it takes fewer slots than tokens, and keeps them as they
    are."""

    def insert(
        self,
        tokens: Sequence[int],
        slots: Slots,
        namespace: tuple[str, ...] = (),
        priority: int = 0,
        owned_from: int = 0,
    ) -> int:
        """Store `tokens`, whatever the number of slots."""
        padded = [*slots, *[None] * (len(tokens) - len(slots))]
        return super().insert(tokens, padded, namespace, priority, owned_from)

    def match_prefix(self, tokens: Sequence[int], namespace: tuple[str, ...] = ()) -> Match:
        """Match, and answer the length of what was matched, not of the slots."""
        match = super().match_prefix(tokens, namespace)
        node, length = match.handle, 0
        while node is not None:
            length += len(node.run) // TOKEN_BYTES
            node = node.parent
        return match._replace(length=length)

    def _copy_slots(self, slots: Slots, start: int, end: int) -> Slots:
        return [slot for slot in slots[start:end] if slot is not None]


@mutant(
    "sglang-v1-short-value",
    "SGLang's first scheduler",
    "length-mismatch",
    "stale-content",
    capacity=64,
)
class InsertsTheLastTokenToo(RadixRequests):
    """Inserts n tokens with n-1 slots: the last one that was sampled has no KV.

    Key and value of a node differ by one, and whoever goes on from there gets shifted slots::

        tokens   1  2  3  4
        slots    s1 s2 s3
    """

    make_tree: ClassVar[Callable[..., Target]] = _TrustingTree

    def end(self, request: str, tokens: Sequence[int]) -> None:
        """Store all `tokens` with the slots that there are."""
        books = self._books.pop(request)
        self._store(books, tokens, len(tokens))
        self.tree.dec_ref(books.handle)


@mutant(
    "sglang-1787-chunk-rematched",
    "SGLang #1787, #1797, #1837, #1858",
    "leaked-slot",
    "size-drift",
    capacity=64,
)
class LocksEveryChunk(RadixRequests):
    """Sets a request up as if new between two chunks, and forgets the lock that it had."""

    def _move_lock(self, books: Books, found: Match) -> None:
        self.tree.inc_ref(found.handle)
        books.handle, books.owned = found.handle, found.length


@mutant("sglang-10871-row-kept", "SGLang #10871", "leaked-slot", capacity=64)
class KeepsTheRow(HasRows):
    """Frees the slots of a request that ends in its first prefill, and not its row."""

    def end(self, request: str, tokens: Sequence[int]) -> None:
        """Give the row back, if a token was sampled."""
        if len(tokens) > self._books[request].computed:
            self.free_row(request)
        RadixRequests.end(self, request, tokens)


@mutant("sglang-11970-overlap-retract", "SGLang #11970", "leaked-slot", capacity=64)
class FreesByTokens(RadixRequests):
    """Holds a slot for the step in flight, and frees one slot per token when it is retracted."""

    def _needed(self, books: Books, num_tokens: int) -> int:
        return super()._needed(books, num_tokens + 1)

    def retract(self, request: str) -> None:
        """Free what the tokens need."""
        books = self._books.pop(request)
        books.slots = books.slots[: books.computed]
        self._close(books, books.owned)


@mutant("sgljax-982-last-step-twice", "sglang-jax #982", "double-free", page_size=4, capacity=64)
class FreesTheLastStepTwice(RadixRequests):
    """Frees the slot of the last step as part of the tail, and once more on its own."""

    def _close(self, books: Books, kept: int) -> None:
        super()._close(books, kept)
        self._give(books.slots[kept:][-1:])


@mutant("sglang-26972-clamped-row", "SGLang #26972", "leaked-slot", page_size=4, capacity=64)
class ClampsTheRow(RadixRequests):
    """Takes a page ahead, and finds in a row of 8 slots only what fits into it."""

    width: ClassVar[int] = 8

    def _needed(self, books: Books, num_tokens: int) -> int:
        return super()._needed(books, num_tokens + self._page_size)

    def _close(self, books: Books, kept: int) -> None:
        self._give(books.slots[kept : self.width])
        self.tree.dec_ref(books.handle)


@mutant(
    "sglang-24175-published-early",
    "SGLang #24175",
    "stale-content",
    "double-owner",
    "leaked-slot",
    capacity=64,
)
class PublishesAhead(RadixRequests):
    """Takes slots for a whole prompt at its first chunk, and publishes them before they are
    written. If the request is aborted then, they stay where nobody was told that they are."""

    def append(self, request: str, tokens: Sequence[int], num_tokens: int) -> None:
        """Take slots for all that is known of the request."""
        books = self._books[request]
        known = books.tokens
        super().append(request, tokens, num_tokens)
        if len(known) > books.computed:
            books.slots += self._take(self._needed(books, len(known) - books.computed))
            books.tokens = known

    def _whole_pages(self, books: Books, num_tokens: int) -> int:
        return super()._whole_pages(books, len(books.tokens))


@mutant("sglang-36926-late-chunk", "SGLang #36926", "leaked-slot", page_size=4, capacity=64)
class ForgetsTheChunkInFlight(RadixRequests):
    """Frees on an abort what the last finished chunk left, and not what the next one took."""

    def append(self, request: str, tokens: Sequence[int], num_tokens: int) -> None:
        """Take slots, and note how many there were before."""
        self._landed = len(self._books[request].slots)
        super().append(request, tokens, num_tokens)

    def abort(self, request: str) -> None:
        """Free the slots that were there before the last chunk."""
        books = self._books[request]
        if books.computed < len(books.slots):
            del books.slots[max(self._landed, books.owned) :]
        super().abort(request)


@mutant("sglang-36855-never-advances", "SGLang #36855", "leaked-slot", "hang", capacity=64)
class StartsEveryChunkAnew(RadixRequests):
    """Takes slots for the whole prompt so far at each chunk of a request that is not stored."""

    def _needed(self, books: Books, num_tokens: int) -> int:
        return books.computed - books.owned + num_tokens

    def append(self, request: str, tokens: Sequence[int], num_tokens: int) -> None:
        """Take new slots for the new tokens, and for those that have some."""
        super().append(request, tokens, num_tokens)
        books = self._books[request]
        del books.slots[books.computed :]

    def publish(self, request: str) -> None:
        """Store nothing."""


@mutant(
    "vllm-18957-stale-hit",
    "vLLM #18957",
    "use-after-free",
    "phantom-prefix",
    "stale-content",
    capacity=64,
)
class TrustsAnOldMatch(RadixRequests):
    """Admits a request with what was matched for it when it was last looked at. Its slots are free
    by then, or already another's."""

    def __init__(self, **config: Any) -> None:
        super().__init__(**config)
        self._known: dict[tuple[tuple[str, ...], bytes], Match] = {}

    def match(self, tokens: Sequence[int], namespace: tuple[str, ...] = ()) -> int:
        """Match, and keep the answer."""
        match = self._match(tokens[:-1], namespace)
        self._known[namespace, array("q", tokens).tobytes()] = match
        return match.length

    def begin(self, request: str, tokens: Sequence[int], namespace: tuple[str, ...] = ()) -> int:
        """Begin with the slots of the kept answer; only the lock is new."""
        fresh = self._match(tokens[:-1], namespace)
        known = self._known.get((namespace, array("q", tokens).tobytes()), fresh)
        return self._admit(request, tokens, namespace, known._replace(handle=fresh.handle))


@mutant(
    "atlas-158-unlocked-chunk",
    "Avarok atlas #158",
    "use-after-free",
    "evicted-locked",
    "double-owner",
    capacity=16,
)
class LeavesChunksUnlocked(RadixRequests):
    """Stores the chunks of a running request, and leaves its lock where the first match ended. What
    is evicted may come back to the same request as the slots of its next chunk."""

    def _move_lock(self, books: Books, found: Match) -> None:
        books.owned = found.length


@mutant(
    "sglang-28754-balanced-alias",
    "SGLang #28754",
    "double-owner",
    "use-after-free",
    page_size=4,
    capacity=16,
)
class WritesPastItsPages(RadixRequests):
    """Counts pages rounded down, and takes the slots behind its last page for its own."""

    def _needed(self, books: Books, num_tokens: int) -> int:
        pages = (books.computed + num_tokens) // self._page_size
        return max(0, pages * self._page_size - len(books.slots))

    def append(self, request: str, tokens: Sequence[int], num_tokens: int) -> None:
        """Take whole pages, and number on from there."""
        super().append(request, tokens, num_tokens)
        books = self._books[request]
        missing = books.computed - len(books.slots)
        first = books.slots[-1] + 1 if books.slots else self._page_size
        books.slots += range(first, first + missing)


@mutant("sglang-5556-evicts-whole-need", "SGLang #5556", "over-evicted", capacity=8)
class EvictsTheWholeNeed(RadixRequests):
    """Short of slots, evicts as many as it needs instead of as many as are missing."""

    def _shortfall(self, num_tokens: int) -> int:
        return num_tokens if super()._shortfall(num_tokens) > 0 else 0


@mutant("sglang-4977-padded-retract", "SGLang #4977", "leaked-slot", page_size=4, capacity=64)
class KeepsAPaddedPrefix(RadixRequests):
    """Rounds what a retracted request keeps up to a page, and nobody ever gives that page back."""

    def retract(self, request: str) -> None:
        """Free all but the pages that the request has begun."""
        books = self._books.pop(request)
        begun = -(-books.computed // self._page_size) * self._page_size
        self._close(books, begun)


@mutant("sglang-22819-exact-page", "SGLang #22819", "stale-content", page_size=4, capacity=64)
class MixesUpOnePage(RadixRequests):
    """Puts the slots of a matched prefix of exactly one page into the row in the wrong order."""

    def begin(self, request: str, tokens: Sequence[int], namespace: tuple[str, ...] = ()) -> int:
        """Begin, with a row that is turned around if it has one page."""
        matched = super().begin(request, tokens, namespace)
        if matched == self._page_size:
            self._books[request].slots.reverse()
        return matched


@mutant("imp-1115-one-block", "kekzl/imp #1115", "leaked-slot", page_size=4, capacity=64)
class LosesABlock(RadixRequests):
    """Never gives back the last block that a request has begun."""

    def _close(self, books: Books, kept: int) -> None:
        self._give(books.slots[kept : -self._page_size])
        self.tree.dec_ref(books.handle)


@mutant("xllm-639-no-rollback", "xLLM #639", "refused-with-effect", "leaked-slot", capacity=16)
class TakesWhatItGets(RadixRequests):
    """Takes slots in two parts, and keeps the first one when the second is refused."""

    def _take(self, num_tokens: int) -> list[int]:
        half = num_tokens // 2
        return super()._take(half) + super()._take(num_tokens - half) if half else super()._take(1)


@mutant(
    "sglang-15840-copy-slot-kept",
    "SGLang #15840",
    "refused-with-effect",
    "leaked-slot",
    capacity=16,
)
class KeepsTheCopy(RadixRequests):
    """Takes slots for a copy of a request's state before it looks for room, and keeps them where
    there is none."""

    def __init__(self, **config: Any) -> None:
        super().__init__(**config)
        self._copies: dict[str, list[int]] = {}

    def begin(self, request: str, tokens: Sequence[int], namespace: tuple[str, ...] = ()) -> int:
        """Take a copy, and begin if a prompt as long as this has room.

        Raises:
            Refused: it has none; the copy is forgotten.
        """
        copy = self._take(self._page_size)
        if len(tokens) > self.pool.available_size():
            raise Refused("no room for the prompt")
        self._copies[request] = copy
        return super().begin(request, tokens, namespace)

    def end(self, request: str, tokens: Sequence[int]) -> None:
        """Give the copy back."""
        self._give(self._copies.pop(request))
        super().end(request, tokens)

    def abort(self, request: str) -> None:
        """Give the copy back."""
        self._give(self._copies.pop(request))
        super().abort(request)


@mutant(
    "nanovllm-f64d821-stale-hash",
    "nano-vllm f64d821",
    "stale-content",
    "foreign-slot",
    page_size=2,
    capacity=8,
)
class ReusesListedPages(RadixRequests):
    """Serves the pages that its table lists, whatever was written there since."""

    make_tree: ClassVar[Callable[..., Target]] = ComparesTheLastPageOnly


@mutant("xllm-1503-restart-at-zero", "xLLM #1503", "length-mismatch", "double-owner", capacity=64)
class StartsAtZeroAgain(RadixRequests):
    """Goes on from a prefix that it holds, and counts what was found from zero on once more."""

    def _rewrite(self, books: Books, slots: list[int]) -> None:
        books.slots[books.owned : len(slots)] = slots
        books.computed += books.owned
