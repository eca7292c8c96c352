"""The correct caller of a tree: it turns a prefix cache and a pool into a cache of requests.

It does what a server's scheduler does with the row of each request, `Books` in its own words. A row
names one slot per token; what the tree owns of it is locked::

    tokens   [0 ...... owned ...... computed ... allocated)
              the tree's   the request's own    slots of the last page that wait for tokens

`publish` and `end` hand whole pages to the tree, which may have some of them from another request
already. Then the request's own copies of those are the duplicates, and nobody needs them::

    own row  [0 ... owned ... existing ... aligned ... computed)
              lent    duplicate    new        tail
              kept    freed        the tree's  kept until the end
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from inspect import signature
from typing import Any, ClassVar, get_args

from msgspec.structs import replace

from radixcheck.buffers import make_slots, read_slots
from radixcheck.capabilities import Capabilities
from radixcheck.operations import QueueOrder
from radixcheck.protocol import Evicted, Handle, Match, Pool, Refused, Slots, Supports, Target
from radixcheck.targets.pools.plain import PoolPaged
from radixcheck.targets.pools.tensors import PoolTorch
from radixcheck.targets.radix_paged import RadixPaged

CAPACITIES = (8, 16, 64, 512)
"""Slots of the pools that a run sweeps: requests must get into each other's way."""

EXTRA = 0
"""A token behind a key, for trees that never answer the last one."""


@dataclass(slots=True)
class Books:
    """What is written down for one running request."""

    namespace: tuple[str, ...]
    tokens: array[int]
    handle: Handle
    """Names the prefix on which the request holds its one lock."""
    slots: list[int] = field(default_factory=list)
    owned: int = 0
    """Leading tokens whose slots are the tree's, lent under the lock."""
    computed: int = 0


class Bookkeeper:
    """A `RequestCache` around a tree with `evict`, `inc_ref` and `dec_ref`, and a pool.

    Each decision has a method of its own, to be overridden one at a time:

    ==================  ==========================================================================
    `_match`            find what is stored of a key
    `_admit`            lock what was matched, and open the books
    `_take`             slots from the pool, after an eviction if need be
    `_shortfall`        how much to evict
    `_needed`           slots for so many tokens more
    `_whole_pages`      how much of a row the tree is given
    `_store`            give it to the tree, and free the duplicates
    `_free_duplicates`  ... those
    `_rewrite`          let the row name the tree's slots
    `_move_lock`        hold the new prefix instead of the old one
    `_close`            free what no tree took, and unlock
    ==================  ==========================================================================

    Args:
        tree: an empty cache.
        pool: hands out whole pages of the tree's page size.
    """

    def __init__(self, tree: Target, pool: Any) -> None:
        self.tree = tree
        self.pool: Pool = pool
        self.order: str | None = None
        """The order of its queue, if there is only one."""
        self.capabilities = self._promise(tree.capabilities)
        self._page_size = tree.capabilities.page_size
        self._leaves_last = tree.capabilities.longest_match == "n-1"
        self._find = _fitted(tree.match_prefix, "namespace")
        self._insert = _fitted(tree.insert, "namespace", "owned_from")
        self._books: dict[str, Books] = {}
        self._owed: list[int] = []
        """Slots that the tree has evicted, and the pool has not taken back yet."""

    def _promise(self, of_the_tree: Capabilities) -> Capabilities:
        """A request cannot do without storing, its tokens are copied in any case, and what the pool
        did not take back is remembered here."""
        return replace(
            of_the_tree,
            disable="absent",
            arguments="given",
            interrupted_evict="loses-nothing",
        )

    # ---- what a request does -------------------------------------------------------------

    def match(self, tokens: Sequence[int], namespace: tuple[str, ...] = ()) -> int:
        """Count what the tree has of `tokens`, the last of which is computed anew in any case."""
        return self._match(tokens[:-1], namespace).length

    def begin(self, request: str, tokens: Sequence[int], namespace: tuple[str, ...] = ()) -> int:
        """Match and lock all of `tokens` but the last; return how many need not be computed."""
        return self._admit(request, tokens, namespace, self._match(tokens[:-1], namespace))

    def append(self, request: str, tokens: Sequence[int], num_tokens: int) -> None:
        """Take slots for the next `num_tokens` of `tokens`.

        Raises:
            Refused: the pool has too few, after an eviction too.
        """
        books = self._books[request]
        if needed := self._needed(books, num_tokens):
            books.slots += self._take(needed)
        books.tokens = array("q", tokens)
        books.computed += num_tokens

    def publish(self, request: str) -> None:
        """Hand the whole pages computed so far to the tree, and go on with its slots."""
        books = self._books[request]
        stored = self._store(books, books.tokens, self._whole_pages(books, books.computed))
        if stored > books.owned:
            found = self._match(books.tokens[:stored], books.namespace)
            self._rewrite(books, read_slots(found.slots))
            self._move_lock(books, found)

    def table(self, request: str) -> Slots:
        """Return one slot per token computed so far."""
        books = self._books[request]
        return books.slots[: books.computed]

    def end(self, request: str, tokens: Sequence[int]) -> None:
        """Hand the whole pages to the tree; free the rest; unlock."""
        books = self._books.pop(request)
        self._close(books, self._store(books, tokens, self._whole_pages(books, books.computed)))

    def abort(self, request: str) -> None:
        """Free all but what the tree owns; unlock."""
        books = self._books.pop(request)
        self._close(books, books.owned)

    # ---- what a cache does ---------------------------------------------------------------

    def evict(self, num_tokens: int) -> None:
        """Evict from the tree, and give to the pool what came of it.

        The tree has let go of its slots by then. If the pool raises, they are owed to it: they
        count as stored and evictable, and the next eviction begins with them.
        """
        if (missing := num_tokens - len(self._owed)) > 0:
            self._owed += _flat(self.tree.evict(missing))
        self._give(self._owed)
        self._owed = []

    def evictable_size(self) -> int:
        """Count what an eviction may bring."""
        return self.tree.evictable_size() + len(self._owed)

    def total_size(self) -> int:
        """Count what the tree stores, and what it has evicted in vain."""
        return self.tree.total_size() + len(self._owed)

    def reset(self) -> None:
        """Forget every request and the tree, and free all that they hold."""
        self._books.clear()
        self._owed = []
        self.tree.reset()
        self.pool.reset()

    # ---- the decisions -------------------------------------------------------------------

    def _match(self, key: Sequence[int], namespace: tuple[str, ...]) -> Match:
        if self._leaves_last:
            key = array("q", [*key, EXTRA])
        return Match(*self._find(array("q", key), namespace=namespace))

    def _admit(
        self, request: str, tokens: Sequence[int], namespace: tuple[str, ...], match: Match
    ) -> int:
        self.tree.inc_ref(match.handle)
        self._books[request] = Books(
            namespace,
            array("q", tokens),
            match.handle,
            read_slots(match.slots),
            match.length,
            match.length,
        )
        return match.length

    def _needed(self, books: Books, num_tokens: int) -> int:
        pages = -(-(books.computed + num_tokens) // self._page_size)
        return max(0, pages * self._page_size - len(books.slots))

    def _take(self, num_tokens: int) -> list[int]:
        slots = self._alloc(num_tokens)
        if slots is None and (shortfall := self._shortfall(num_tokens)) > 0:
            self.evict(shortfall)
            slots = self._alloc(num_tokens)
        if slots is None:
            raise Refused(f"no {num_tokens} slots, and nothing to evict for them")
        return slots

    def _alloc(self, num_tokens: int) -> list[int] | None:
        try:
            slots = self.pool.alloc(num_tokens)
        except Refused:
            return None
        return None if slots is None else read_slots(slots)

    def _shortfall(self, num_tokens: int) -> int:
        return num_tokens - self.pool.available_size()

    def _whole_pages(self, books: Books, num_tokens: int) -> int:
        return num_tokens - num_tokens % self._page_size

    def _store(self, books: Books, tokens: Sequence[int], aligned: int) -> int:
        """Hand over the first `aligned` tokens, and return how many the tree has now.

        A tree may refuse: then it has what it had, and all else stays the request's own.
        """
        if aligned <= books.owned:
            return books.owned
        slots = self._as_the_tree_wants(books.slots[:aligned])
        try:
            existing = self._insert(
                array("q", tokens[:aligned]),
                slots,
                namespace=books.namespace,
                owned_from=books.owned,
            )
        except Refused:
            return books.owned
        self._free_duplicates(books, existing)
        return aligned

    def _free_duplicates(self, books: Books, existing: int) -> None:
        if self.capabilities.duplicates != "both-kept":
            self._give(books.slots[books.owned : existing])

    def _rewrite(self, books: Books, slots: list[int]) -> None:
        books.slots[: len(slots)] = slots

    def _move_lock(self, books: Books, found: Match) -> None:
        self.tree.inc_ref(found.handle)
        self.tree.dec_ref(books.handle)
        books.handle, books.owned = found.handle, found.length

    def _close(self, books: Books, kept: int) -> None:
        self._give(books.slots[kept:])
        self.tree.dec_ref(books.handle)

    def _give(self, slots: list[int]) -> None:
        if slots:
            promises = self.pool.capabilities
            self.pool.free(make_slots(promises.slots_as, slots, promises.device))

    def _as_the_tree_wants(self, slots: list[int]) -> Any:
        return make_slots(self.capabilities.slots_as, slots, self.pool.capabilities.device)


def _fitted(method: Callable[..., Any], *keywords: str) -> Callable[..., Any]:
    """Let `method` be called with all of `keywords`, whichever of them it takes."""
    parameters = signature(method).parameters
    if any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
        return method
    taken = parameters.keys() & set(keywords)

    def call(*arguments: Any, **named: Any) -> Any:
        return method(*arguments, **{key: named[key] for key in taken})

    return method if taken == set(keywords) else call


def _flat(freed: Slots | Evicted) -> list[int]:
    if isinstance(freed, Evicted):
        return [slot for group in freed.groups for slot in read_slots(group)]
    return read_slots(freed)


class RadixRequests(Bookkeeper):
    """A cache of requests that brings its own tree and pool: where bugs are planted.

    Args:
        page_size, eviction, clock: as of `RadixPaged`.
        capacity: slots of the pool.
    """

    make_tree: ClassVar[Callable[..., Target]] = RadixPaged
    supports: ClassVar[Supports] = {"page_size": [1, 4], "capacity": [8, 16, 64]}

    def __init__(
        self,
        page_size: int = 1,
        eviction: str = "lru",
        capacity: int = 64,
        clock: Callable[[], float] | None = None,
    ) -> None:
        tree = self.make_tree(page_size=page_size, eviction=eviction, clock=clock)
        super().__init__(tree, PoolPaged(page_size, capacity))


def requests(tree: Target, capacity: int = 64, order: str | None = None) -> Bookkeeper:
    """Turn a tree into a cache of requests with a pool of its own: the target ``requests:SPEC``.

    A tree that wants tensors gets a pool on its own device.

    Args:
        tree: an empty cache with `evict`, `inc_ref` and `dec_ref`.
        capacity: slots of the pool, at least one page.
        order: put the queue in this order only: ``fcfs``, ``random``, ``lpm`` or ``weight``.

    Raises:
        ValueError: a method is missing, or there is no such order.
    """
    lacking = [name for name in ("evict", "inc_ref", "dec_ref") if not hasattr(tree, name)]
    if lacking:
        raise ValueError(f"requests need a tree with {', '.join(lacking)}")
    if order not in (None, *get_args(QueueOrder)):
        raise ValueError(f"order={order!r}: choose one of {', '.join(get_args(QueueOrder))}")
    page_size = tree.capabilities.page_size
    capacity = max(capacity, page_size)
    on_device = tree.capabilities.slots_as == "torch"
    pool: Any = (
        PoolTorch(page_size, capacity, device=tree.capabilities.device)
        if on_device
        else PoolPaged(page_size, capacity)
    )
    cache = Bookkeeper(tree, pool)
    cache.order = order
    return cache


requests.supports = {"capacity": list(CAPACITIES)}  # type: ignore[attr-defined]  # read by registry
