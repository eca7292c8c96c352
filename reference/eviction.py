"""Which victims the policy allows, without knowing where the target cuts its edges.

Many trees stamp a whole edge first and cut it afterwards, so the target's own key of a leaf is
known only to lie in an interval. A victim is wrong only if the intervals leave no doubt::

        victim   |-------------|                       low(victim) <= its key
        survivor                    |--------|         its key <= high(survivor)
                 old                        fresh

    lru: wrong if low(victim) > high(survivor): the victim was surely fresher than a leaf that
        stayed.

Every policy is turned so that the smallest rank goes first, and one comparison serves them all.
Source: docs/contract.md, "Eviction order".
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from radixcheck.capabilities import Capabilities
from radixcheck.reference.positions import (
    NEVER,
    Position,
    Uses,
    chain,
    only_child,
    uses,
)

Key: TypeAlias = tuple[float, float]
"""A bound of a leaf's rank, and of its age."""

_UNUSED = Uses()


@dataclass(slots=True)
class Reach:
    """The largest values that the target may have stamped on the edge into a leaf."""

    age: float
    hits: int
    priority: float


@dataclass(slots=True)
class Bounds:
    """Where the target's key of a leaf lies: `low` to `high` in the policy's rank, and the same for
    its age. Made for every victim, so no tuple with names, which costs half as much again."""

    low: float
    high: float
    age_low: float
    age_high: float


class Contradiction(NamedTuple):
    """A victim that the policy forbids while this survivor stays."""

    victim: Position
    survivor: Position
    victim_bounds: Bounds
    survivor_bounds: Bounds


_UNKNOWN = Reach(float("inf"), 0, 0)


def reach(leaf: Position, hits_per_insert: int = 1) -> Reach:
    """Fold the uses of the positions that may lie on the edge into `leaf`: those of its chain."""
    age, hits, priority = NEVER, 0, NEVER
    position = leaf
    while True:
        if (use := position.uses) is not None:
            if use.touched > age:
                age = use.touched
            if use.brushed > age:
                age = use.brushed
            if use.stirred > age:
                age = use.stirred
            hits += use.matches + hits_per_insert * (use.inserts + use.stirs + use.passed)
            if use.priority > priority:
                priority = use.priority
            if use.stirred_priority > priority:
                priority = use.stirred_priority
        above = position.parent
        if above is None or above.parent is None or len(above.children) > 1:
            return Reach(age, hits, priority)
        position = above


def exact_reach(leaf: Position, hits_per_insert: int = 1) -> Reach:
    """What a target stamps that promises to stamp only what an operation passed through."""
    use = leaf.uses or _UNUSED
    hits = use.matches + hits_per_insert * (use.inserts + use.passed)
    return Reach(max(use.touched, use.brushed), hits, use.priority)


_FEWEST_HITS: dict[str, Callable[[Uses], int]] = {
    # The insert that created a leaf may or may not count as its first hit.
    "inserts": lambda use: max(0, use.inserts - 1),
    "matches": lambda use: use.matches,
    "both": lambda use: max(0, use.inserts - 1) + use.matches,
    "any": lambda use: min(max(0, use.inserts - 1), use.matches),
}


@dataclass(slots=True)
class _Policy:
    """A policy as data: the smallest rank goes first."""

    low: Callable[[Position, Uses, Reach], float]
    high: Callable[[Position, Uses, Reach], float]
    bound: Callable[[Position, Uses], float]
    """A lower bound of `high` that needs no chain; it orders the queue of leaves."""
    timed: bool
    """Whether ranks are clock readings."""
    steady: bool
    """Whether `high` never falls while a leaf stays a leaf, so that once known it is a bound for
    ever."""


def _policies(capabilities: Capabilities) -> dict[str, _Policy]:
    fewest, protected = _FEWEST_HITS[capabilities.hits], capabilities.slru_threshold
    exact = capabilities.stamps == "matched"

    def newest(leaf: Position, reach: Reach) -> float:
        return leaf.created if exact else reach.age  # a cut may recreate the front node

    return {
        "lru": _Policy(
            lambda leaf, use, reach: use.touched,
            lambda leaf, use, reach: reach.age,
            lambda leaf, use: use.touched,
            True,
            True,
        ),
        "mru": _Policy(
            lambda leaf, use, reach: -reach.age,
            lambda leaf, use, reach: -use.touched,
            lambda leaf, use: -use.touched,
            True,
            False,
        ),
        "fifo": _Policy(
            lambda leaf, use, reach: leaf.created,
            lambda leaf, use, reach: newest(leaf, reach),
            lambda leaf, use: leaf.created,
            True,
            True,
        ),
        "filo": _Policy(
            lambda leaf, use, reach: -newest(leaf, reach),
            lambda leaf, use, reach: -leaf.created,
            lambda leaf, use: -leaf.created,
            True,
            False,
        ),
        "lfu": _Policy(
            lambda leaf, use, reach: fewest(use),
            lambda leaf, use, reach: reach.hits,
            lambda leaf, use: use.inserts + use.matches,
            False,
            False,
        ),
        "slru": _Policy(
            lambda leaf, use, reach: fewest(use) >= protected,
            lambda leaf, use, reach: reach.hits >= protected,
            lambda leaf, use: use.inserts + use.matches >= protected,
            False,
            False,
        ),
        "priority": _Policy(
            lambda leaf, use, reach: use.priority,
            lambda leaf, use, reach: reach.priority,
            lambda leaf, use: use.priority,
            False,
            False,
        ),
    }


def is_judged(capabilities: Capabilities) -> bool:
    """Whether the order of eviction can be judged for such a target at all."""
    policy = capabilities.eviction
    if policy == "unspecified" or not capabilities.closed:
        return False
    if capabilities.edges == "cut-only":
        return True
    # A merged edge may carry any stamp of its parts, and nobody can tell how far a lock reaches.
    return policy == "lru" and capabilities.match_splits


class EvictionOrder:
    """Keeps the unlocked leaves queued by a bound of their rank, and finds a survivor that should
    have gone first.

    An operation only *notes* the leaf that it changed; the queue is brought up to date when an
    eviction asks. So an operation pays a list append, and an eviction pays for the leaves that
    changed and for those that look older than its victims, never for the tree.
    """

    def __init__(self, capabilities: Capabilities) -> None:
        self.judged = is_judged(capabilities)
        self.slack: float = 0
        """Readings of an own clock tie when they differ by no more than this, in seconds."""
        self._policy = _policies(capabilities).get(
            capabilities.eviction, _policies(capabilities)["lru"]
        )
        self._exact = capabilities.stamps == "matched"
        self._merges = capabilities.edges == "grow-or-merge"
        # An insert that looks its key up first may count twice, where nothing is said about hits.
        self._hits_per_insert = 2 if capabilities.hits == "any" else 1
        self._second_key = capabilities.tie_break == "lru" and not self._policy.timed
        self._noted: list[Position] = []
        self.note = self._noted.append
        """Remember that a position may have become an unlocked leaf, or has another key now."""
        self._queue: list[tuple[Key, int, Position]] = []
        self._pushes = 0

    def bounds(self, leaf: Position) -> Bounds:
        """Return the interval of the target's key of `leaf`."""
        use = leaf.uses or _UNUSED
        fold = exact_reach if self._exact else reach
        reached = fold(leaf, self._hits_per_insert)
        low, high = self._policy.low(leaf, use, reached), self._policy.high(leaf, use, reached)
        if leaf.merged_over and self._merges:
            low = NEVER  # the merged edge may have kept the older stamp
        return Bounds(low, high, use.touched, reached.age)

    def victim_bounds(self, leaf: Position) -> Bounds:
        """Return as much of the bounds of a leaf as can tell that it was the wrong victim.

        Where the policy is steady that is the lower ones, which need no look at its chain.
        """
        if not self._policy.steady or leaf.merged_over:
            return self.bounds(leaf)
        use = leaf.uses or _UNUSED
        low = self._policy.low(leaf, use, _UNKNOWN)
        return Bounds(low, _UNKNOWN.age, use.touched, _UNKNOWN.age)

    def contradiction(
        self, victims: list[tuple[Position, Bounds]], uncovered: set[Position]
    ) -> Contradiction | None:
        """Find a leaf that the policy would have evicted before one of `victims`.

        Args:
            victims: unlocked leaves when the eviction began, with their bounds then; no longer in
                the tree.
            uncovered: positions that became leaves during this eviction, and so were no choice when
                it began.
        """
        if not victims:
            return None
        limit = max((bounds.low, bounds.age_low) for _, bounds in victims)
        examined: list[tuple[Key, Position]] = []
        found: Contradiction | None = None
        slack = self.slack if self._policy.timed else 0
        self._bring_up_to_date()
        queue = self._queue
        while queue and queue[0][0] < limit and found is None:
            entry = heapq.heappop(queue)
            if not self._is_current(entry):
                continue
            leaf = entry[2]
            bounds = self.bounds(leaf)
            key = (bounds.high, bounds.age_high) if self._policy.steady else self._key(leaf)
            examined.append((key, leaf))
            # Unless ties count, none of the victims is wrong if the one of the highest rank is not.
            doubtful = limit[0] > bounds.high + slack or self._second_key
            if doubtful and leaf not in uncovered and not leaf.maybe:
                found = self._against(victims, leaf, bounds, slack)
        for key, leaf in examined:
            self._push(key, leaf)
        return found

    def rival(self, uncovered: set[Position]) -> float | None:
        """Return the least rank of an unlocked leaf that could have been chosen instead, if one is
        left."""
        self._bring_up_to_date()
        while self._queue and not self._is_current(self._queue[0]):
            heapq.heappop(self._queue)
        if not self._queue or self._queue[0][2] in uncovered:
            return None
        leaf = self._queue[0][2]
        return self._key(leaf)[0] if self._policy.steady else self.bounds(leaf).low

    def _against(
        self,
        victims: list[tuple[Position, Bounds]],
        survivor: Position,
        theirs: Bounds,
        slack: float,
    ) -> Contradiction | None:
        for victim, bounds in victims:
            if self._contradicts(bounds, theirs, slack):
                return Contradiction(victim, survivor, bounds, theirs)
        return None

    def _contradicts(self, victim: Bounds, survivor: Bounds, slack: float) -> bool:
        if victim.low > survivor.high + slack:
            return True
        same_key = victim.low == victim.high == survivor.low == survivor.high
        return self._second_key and same_key and victim.age_low > survivor.age_high + self.slack

    def _key(self, leaf: Position) -> Key:
        use = leaf.uses or _UNUSED
        return self._policy.bound(leaf, use), use.touched

    def _push(self, key: Key, leaf: Position) -> None:
        leaf.queued = key
        self._pushes += 1
        heapq.heappush(self._queue, (key, self._pushes, leaf))

    def _bring_up_to_date(self) -> None:
        """Queue the leaves that were noted. An entry that is too low stays: it is set right when it
        is examined."""
        for leaf in self._noted:
            if leaf.slots and not leaf.children and not leaf.cover:
                key = self._key(leaf)
                if leaf.queued is None or key < leaf.queued:
                    self._push(key, leaf)
        self._noted.clear()

    def _is_current(self, entry: tuple[Key, int, Position]) -> bool:
        """Tell whether a popped entry still stands for an unlocked leaf; if not, it is dropped for
        good."""
        key, _, leaf = entry
        if leaf.queued != key:
            return False
        if leaf.children or leaf.cover or not leaf.slots:
            leaf.queued = None
            return False
        return True


def stir(end: Position, now: float, *, hits: int = 0, priority: float = NEVER) -> None:
    """Write down that the edge below `end` may have been stamped by an operation that ended at
    `end`.

    Only an unbranched way down can share an edge with `end`::

        --- end --- child        the edge may go on: child is stirred
        --- end --< children     an edge ends here for sure
    """
    if len(end.children) == 1:
        (child,) = end.children.values()
        use = child.uses or uses(child)
        use.stirred = now
        use.stirs += hits
        if priority > use.stirred_priority:
            use.stirred_priority = priority


def hand_down(end: Position, *, merges: bool) -> None:
    """Before a branch grows at `end`, give its only child what the edge through both may carry.

    Hits and priorities of a cut edge are inherited by its lower part, which then lies in another
    chain::

        chain before    [ a --- end --- child ]           stirs at a, end, child
        chain after     [ a --- end ]--[ child ]          child may still carry those of a and end
                                `-----[ new ]
    """
    child = only_child(end)
    if child is None:
        return
    carried = [position.uses for position in chain(end) if position.uses is not None]
    if not carried:
        return
    use = uses(child)
    use.stirs += sum(each.stirs + (each.inserts + each.matches) * merges for each in carried)
    use.stirred_priority = max(
        use.stirred_priority,
        *(max(each.stirred_priority, each.priority if merges else NEVER) for each in carried),
    )
