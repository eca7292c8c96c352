"""All that the author of a target must read: what a cache looks like to radixcheck.

A target needs no base class. Write the methods below around an existing cache, and a factory
(usually the class itself) that builds a fresh, empty one from keyword arguments.
docs/writing-a-target.md has a worked example.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

from radixcheck.capabilities import Capabilities

Slots: TypeAlias = Any
"""A list, tuple, `array`, numpy array or torch tensor of slot numbers, one per token."""

Handle: TypeAlias = Any
"""Whatever the target uses to name a matched prefix (usually a node); radixcheck only hands it
back."""


class Refused(Exception):
    """A target raises this to say no: nothing was done, and nothing changed."""


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
    """The node's reference counter: every lock on it or below it."""
    parent: int | None
    """Index of the parent in the same list; None below a root."""


Factory: TypeAlias = Callable[..., Target]
"""Builds a fresh, empty cache. It is called with those keyword arguments of the run's configuration
that it accepts: ``page_size``, ``eviction``, ``clock`` (a callable without arguments that answers
the time), ``disable``, ``capacity``, ``device``, and what the spec's ``?key=value`` adds."""

Supports: TypeAlias = Mapping[str, Sequence[Any]]
"""The attribute ``supports`` of a factory: the values of each configuration key that a run may
sweep and the shrinker may try, such as ``{"page_size": [1, 4], "eviction": ["lru", "lfu"]}``. Where
that depends on the spec, it is a function of the spec's arguments that answers such a mapping."""
