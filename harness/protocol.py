"""All that the author of a target must read: what a cache looks like to radixcheck.

A target needs no base class. It is one of three, and is known by its methods: a tree of prefixes
(`Target`), a pool of slots (`Pool`), or a cache that keeps the books of whole requests
(`RequestCache`). Write the methods around an existing one, and a factory (usually the class itself)
that builds a fresh, empty one from keyword arguments. Worked examples: docs/writing-a-target.md,
docs/pools.md and docs/requests.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

from radixcheck.capabilities import Capabilities, PoolCapabilities

Slots: TypeAlias = Any
"""A list, tuple, `array`, numpy array or torch tensor of slot numbers, one per token."""

Handle: TypeAlias = Any
"""Whatever the target uses to name a matched prefix (usually a node); radixcheck only hands it
back."""


class Refused(Exception):
    """A target raises this to say no: nothing was done, and nothing changed."""


class Crashed(Exception):
    """A target in another process raises this when that process has died.

    Args:
        what: how it ended, such as ``died of SIGSEGV`` or ``exited with status 3``.
        said: the end of what it wrote to stderr.
    """

    def __init__(self, what: str, said: str = "") -> None:
        super().__init__(what, said)
        self.what = what
        self.said = said

    def __str__(self) -> str:
        return f"{self.what}; its stderr ends: {self.said}" if self.said else self.what


class Hung(Crashed):
    """A target in another process raises this when that process gave no answer in time. It has
    been ended, and is as dead as any."""


class Foreseen:
    """What a lock answers in a batch: its change is compared by whoever made the batch."""


class Match(NamedTuple):
    """The answer to `match_prefix`."""

    length: int
    """Matched tokens, a multiple of the page size."""
    slots: Slots
    """`length` slots, in the order of the tokens."""
    handle: Handle
    """Names exactly the matched prefix, also for a match of length 0, and also after the edge under
    it is cut."""


class Evicted(NamedTuple):
    """The answer to `evict` of a target that can tell its victims apart."""

    groups: Sequence[Slots]
    """The freed slots, one group per evicted leaf, in the order of eviction."""


class Target(Protocol):
    """A prefix cache under test.

    `match_prefix`, `insert` and `capabilities` are required. Each further method may be missing,
    and then the rules that need it do not apply; `protected_size`, `total_size`, `reset` and `dump`
    are called only where the capability of the same name says so.
    """

    capabilities: Capabilities

    def match_prefix(self, tokens: Sequence[int], namespace: tuple[str, ...] = ()) -> Match:
        """Find the longest stored prefix of `tokens` (an ``array('q')``) in `namespace`."""
        ...

    def insert(
        self,
        tokens: Sequence[int],
        slots: Slots,
        namespace: tuple[str, ...] = (),
        priority: int = 0,
        owned_from: int = 0,
    ) -> int:
        """Store `tokens` with one slot each, and return how many leading tokens were stored before.

        ``slots[:owned_from]`` are the cache's own, lent by an earlier match. The cache takes
        ownership of the slots of the whole pages that are new; the caller keeps the rest (see the
        capability `duplicates`).
        """
        ...

    def evict(self, num_tokens: int) -> Slots | Evicted:
        """Evict unlocked leaves until at least `num_tokens` tokens are free or none is left; return
        the freed slots."""
        ...

    def inc_ref(self, handle: Handle) -> int | None:
        """Lock the prefix behind `handle`; return the change of the evictable size (0 or below), or
        None."""
        ...

    def dec_ref(self, handle: Handle) -> int | None:
        """Give one lock back; return the change of the evictable size (0 or above), or None."""
        ...

    def evictable_size(self) -> int:
        """Count the stored tokens that no lock covers."""
        ...

    def protected_size(self) -> int:
        """Count the stored tokens that a lock covers."""
        ...

    def total_size(self) -> int:
        """Count all stored tokens."""
        ...

    def reset(self) -> None:
        """Forget everything. The slots go back to the caller without being named."""
        ...

    def dump(self) -> Iterable[DumpedNode]:
        """List every node but the root: a look inside, for the rule `structure`."""
        ...


class DumpedNode(NamedTuple):
    """One node of a target's tree as its `dump` tells it."""

    tokens: Sequence[int]
    """The token run of the edge into the node."""
    slots: Slots
    """One slot per token."""
    locks: int
    """Every lock that ends at the node or below it; a handle that is locked twice counts twice."""
    parent: int | None
    """Index of the parent in the same list; None below a root."""


class Pool(Protocol):
    """A pool of slots under test, or under a `RequestCache`.

    `alloc`, `free` and `capabilities` are required. A pool hands out slots ``[reserved, reserved +
    capacity)``. Amounts are numbers of tokens, always whole pages.
    """

    capabilities: PoolCapabilities

    def alloc(self, num_tokens: int) -> Slots | None:
        """Hand out `num_tokens` distinct slots that nobody holds. With pages: whole, aligned pages
        one after the other, the slots of each in ascending order.

        Where too few are free, raise `Refused` or answer None, and change nothing. An alloc of 0
        tokens answers no slots.
        """
        ...

    def free(self, slots: Slots) -> None:
        """Take slots back, in any order of their pages.

        Exclusive: each is held, and is free afterwards. Counted: each has one holder less, and is
        free when none is left; a slot with several holders may be listed as often in one call.
        """
        ...

    def available_size(self) -> int:
        """Count the free slots. Asked after every operation where there is this method."""
        ...

    def add_refs(self, slots: Slots) -> None:
        """Count one holder more for each slot, all of them held. Counted pools only."""
        ...

    def reset(self) -> None:
        """Take everything back. May be missing."""
        ...


class RequestCache(Protocol):
    """A prefix cache that does the bookkeeping of requests itself: what it matches, allocates,
    stores, frees and locks for each of them.

    A request is named by a string. Its *row* is the slots of its tokens computed so far, in order:
    first those that it matched and that the cache owns, then its own::

        tokens   [0 ......... matched ......... computed)
        row       lent by cache | the request's own

    `begin`, `append`, `publish`, `table`, `end` and `abort` are required; the rest may be missing.
    All of them but `begin` name a request that is running.
    """

    capabilities: Capabilities
    """`page_size` and `namespaces` are what matters here."""
    pool: Pool
    """Where it takes slots from and gives them back to. radixcheck puts a recorder in its place
    before the first call, so read the attribute anew for every use.

    A second pool, `row_pool`, may hand out the rows themselves, a number per running request. It is
    only counted: whenever nothing runs, all of them are free."""

    def begin(self, request: str, tokens: Sequence[int], namespace: tuple[str, ...] = ()) -> int:
        """Start `request`, whose prompt is `tokens` (an ``array('q')``): match it, lock what was
        found, and return how many leading tokens need not be computed.

        That is fewer than all of them, since the last token is always computed, and whole pages.

        Raises:
            Refused: the request cannot be admitted now. Nothing changed.
        """
        ...

    def append(self, request: str, tokens: Sequence[int], num_tokens: int) -> None:
        """Take slots from the pool for the next `num_tokens` tokens, whose KV is written right
        after this call. `tokens` are all tokens of the request up to them, the prompt included.

        Short of slots, the cache evicts what it may.

        Raises:
            Refused: there are too few all the same. The request keeps what it had.
        """
        ...

    def publish(self, request: str) -> None:
        """Store what is computed so far, as between two chunks of a long prompt. The row names the
        cache's slots for it afterwards, duplicates are freed, and the lock covers it."""
        ...

    def table(self, request: str) -> Slots:
        """Return the row: one slot per token computed so far."""
        ...

    def end(self, request: str, tokens: Sequence[int]) -> None:
        """The request is done: store what is computed, free what is the request's alone, unlock.

        `tokens` are all that it has, its answer included. The last one that it sampled has no KV:
        n tokens come with n-1 slots.
        """
        ...

    def abort(self, request: str) -> None:
        """The request goes away: free what is its own, unlock, store nothing more."""
        ...

    def match(self, tokens: Sequence[int], namespace: tuple[str, ...] = ()) -> int:
        """Count what `begin` would match for a request that still waits; nothing is locked."""
        ...

    def evict(self, num_tokens: int) -> None:
        """Free at least `num_tokens` slots of what is stored and not locked, or all of it."""
        ...

    def evictable_size(self) -> int:
        """Count the stored tokens that no lock covers: what an eviction could bring."""
        ...

    def total_size(self) -> int:
        """Count the stored tokens."""
        ...

    def reset(self) -> None:
        """Forget everything; every request is gone, and every slot free."""
        ...


KINDS: dict[str, type] = {"requests": RequestCache, "pool": Pool, "tree": Target}
"""The levels at which targets are judged, and what a target of each looks like."""

REQUIRED: dict[str, tuple[str, ...]] = {
    "requests": ("begin", "append", "publish", "table", "end", "abort"),
    "pool": ("alloc", "free"),
    "tree": ("match_prefix", "insert"),
}
"""The methods by which a target of each level is known."""


def level_name(target: object) -> str | None:
    """Name the level at which `target` is judged, by the methods that it has."""
    return next((name for name in REQUIRED if has_all(target, REQUIRED[name])), None)


def has_all(target: object, methods: Iterable[str]) -> bool:
    """Tell whether `target` has all of `methods`."""
    return all(hasattr(target, method) for method in methods)


Factory: TypeAlias = Callable[..., Any]
"""Builds a fresh, empty target. It is called with those keyword arguments of the run's
configuration that it accepts: ``page_size``, ``eviction``, ``clock`` (a callable without arguments
that answers the time), ``disable``, ``capacity``, ``device``, and what the spec's ``?key=value``
adds."""

Supports: TypeAlias = Mapping[str, Sequence[Any]]
"""The attribute ``supports`` of a factory: the values of each configuration key that a run may
sweep and the shrinker may try, such as ``{"page_size": [1, 4], "eviction": ["lru", "lfu"]}``. Where
that depends on the spec, it is a function of the spec's arguments that answers such a mapping."""
