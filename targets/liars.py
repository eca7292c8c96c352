"""Liars: caches with one planted lie each, by which radixcheck itself is tested.

Every rule has its liar, which breaks that rule and, until then, no other. The lie is one method,
and the docstring of its class says it; all the rest is the correct tree of `RadixPaged`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import count
from typing import Any, ClassVar

from radixcheck.protocol import DumpedNode, Evicted, Factory, Match, Refused, Slots
from radixcheck.targets.radix_paged import Node, RadixPaged, Rank

LIARS: dict[str, Factory] = {}
"""One liar per rule of `radixcheck.rules.RULES`, by the name of the rule."""

PAGES_OF_SEVERAL_TOKENS: Mapping[str, Sequence[Any]] = {
    **RadixPaged.supports,
    "page_size": [2, 3, 4, 16],
}


def breaks(rule: str) -> Callable[[type[RadixPaged]], type[RadixPaged]]:
    """List a class in `LIARS` as the one that breaks `rule`."""

    def enlist(liar: type[RadixPaged]) -> type[RadixPaged]:
        LIARS[rule] = liar
        return liar

    return enlist


# Matches.


@breaks("foreign-slot")
class SwapsSlots(RadixPaged):
    """Answers the first two slots of a match in the wrong order."""

    def _join_slots(self, path: list[Node]) -> Slots:
        slots = super()._join_slots(path)
        return slots[1::-1] + slots[2:]


@breaks("phantom-prefix")
class RepeatsLastPage(RadixPaged):
    """Answers one page more than is stored: the last one twice."""

    promises: ClassVar = {"namespaces": "absent"}

    def _join_slots(self, path: list[Node]) -> Slots:
        slots = super()._join_slots(path)
        return slots + slots[-self.capabilities.page_size :]


@breaks("namespace-leak")
class AsksTheNeighbours(RadixPaged):
    """Answers from another namespace where its own has nothing."""

    def match_prefix(self, tokens: Sequence[int], namespace: tuple[str, ...] = ()) -> Match:
        """Look at home first, and then around."""
        match = super().match_prefix(tokens, namespace)
        for neighbour in list(self._roots):
            if not match.length:
                match = super().match_prefix(tokens, neighbour)
        return match


@breaks("unaligned-match")
class CutsInsidePages(RadixPaged):
    """Leaves the last token of a match to compute, but keeps the rest of its page."""

    supports: ClassVar = PAGES_OF_SEVERAL_TOKENS

    def _join_slots(self, path: list[Node]) -> Slots:
        return super()._join_slots(path)[:-1]


@breaks("length-mismatch")
class MislaysASlot(RadixPaged):
    """Answers one slot less than the length it tells."""

    def match_prefix(self, tokens: Sequence[int], namespace: tuple[str, ...] = ()) -> Match:
        """Match, and mislay the last slot."""
        length, slots, node = super().match_prefix(tokens, namespace)
        return Match(length, slots[:-1], node)


@breaks("missed-prefix")
class MatchesWholeEdges(RadixPaged):
    """Leaves out the edge above a branch, which no audit notices: its matches end at leaves."""

    def match_prefix(self, tokens: Sequence[int], namespace: tuple[str, ...] = ()) -> Match:
        """Match, and go up one edge unless the match ends at a leaf."""
        length, slots, node = super().match_prefix(tokens, namespace)
        if node.children and node.parent:
            length -= len(node.slots)
            node = node.parent
        return Match(length, slots[:length], node)


@breaks("lost-insert")
class LosesTheUnread(RadixPaged):
    """Finds nothing for the last leaf, when every leaf is asked for in a row.

    An audit does that, and hardly any trace.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._asked: set[Any] = set()
        self._asked_at: float = 0

    def match_prefix(self, tokens: Sequence[int], namespace: tuple[str, ...] = ()) -> Match:
        """Match, unless this is the last leaf of a row."""
        match = super().match_prefix(tokens, namespace)
        if self._time != self._asked_at + 1:
            self._asked.clear()
        self._asked_at = self._time
        self._asked.add(match.handle)
        leaves = {node for node in self._nodes() if not node.children}
        if len(leaves) > 3 and self._asked >= leaves:
            return super().match_prefix(tokens[:0], namespace)
        return match


# Inserts.


@breaks("wrong-existing-length")
class OverlooksAPage(RadixPaged):
    """Tells an insert that one page less was stored."""

    def insert(self, tokens: Sequence[int], slots: Slots, *args: Any, **kwargs: Any) -> int:
        """Store `tokens`, and count one page too few."""
        existing = super().insert(tokens, slots, *args, **kwargs)
        return max(existing - self.capabilities.page_size, 0)


@breaks("changed-slot")
class PrefersDuplicates(RadixPaged):
    """Answers the duplicates that the last insert offered instead of the slots that it stores."""

    _duplicates: Mapping[int, int] = {}

    def _adopt(self, path: list[Node], slots: Slots, owned_from: int, existing: int) -> None:
        stored = super()._join_slots(path)
        self._duplicates = dict(zip(stored, slots[:existing], strict=True))

    def _join_slots(self, path: list[Node]) -> Slots:
        return [self._duplicates.get(slot, slot) for slot in super()._join_slots(path)]


@breaks("mutated-argument")
class RewritesTheRow(RadixPaged):
    """Writes the slots that it stores over the duplicates, in the caller's own buffer."""

    def _adopt(self, path: list[Node], slots: Slots, owned_from: int, existing: int) -> None:
        slots[:existing] = self._join_slots(path)


# Evictions.


@breaks("evicted-locked")
class EvictsLockedLeaves(RadixPaged):
    """Takes a locked leaf for any other."""

    def _may_evict(self, node: Node) -> bool:
        return not node.children and node.parent is not None


@breaks("evicted-unknown")
class FreesTwice(RadixPaged):
    """Answers the slots of the last victim twice."""

    def _answer_victims(self, victims: list[Slots]) -> Slots | Evicted:
        return Evicted(victims + victims[-1:])


@breaks("orphaned-suffix")
class EvictsParents(RadixPaged):
    """Evicts the parent of the leaf that it should evict, and forgets the leaf."""

    def _victim(self) -> Node | None:
        leaf = super()._victim()
        above = leaf.parent if leaf else None
        return above if above and above.parent and not above.locks else leaf


@breaks("under-evicted")
class AsksForLess(RadixPaged):
    """Is content with one token less than was asked for."""

    def evict(self, num_tokens: int) -> Slots | Evicted:
        """Evict until one token is missing."""
        return super().evict(num_tokens - 1)


@breaks("over-evicted")
class AsksForMore(RadixPaged):
    """Goes on until one token more is free than was asked for."""

    def evict(self, num_tokens: int) -> Slots | Evicted:
        """Evict one token more."""
        return super().evict(num_tokens + 1)


@breaks("refused-with-effect")
class EvictsThenRefuses(RadixPaged):
    """Evicts all there is, and then refuses because it was not enough."""

    promises: ClassVar = {"short_evict": "refuses"}

    def evict(self, num_tokens: int) -> Slots | Evicted:
        """Evict all of `num_tokens`.

        Raises:
            Refused: fewer were evictable.
        """
        evicted = super().evict(num_tokens)
        if sum(map(len, evicted.groups)) < num_tokens:
            raise Refused(f"{num_tokens} tokens asked for, fewer were evictable")
        return evicted


@breaks("leaked-slot")
class KeepsTheChange(RadixPaged):
    """Keeps the last slot of a page for itself when nobody asked for it."""

    supports: ClassVar = PAGES_OF_SEVERAL_TOKENS

    def evict(self, num_tokens: int) -> Slots | Evicted:
        """Evict, and give back one slot less unless that is too few."""
        freed = [slot for victim in super().evict(num_tokens).groups for slot in victim]
        return freed[: max(num_tokens, len(freed) - 1)]


@breaks("eviction-order")
class EvictsTheLast(RadixPaged):
    """Evicts first what its policy would evict last."""

    def _rank(self, leaf: Node) -> Rank:
        return tuple(-part for part in super()._rank(leaf))


@breaks("nondeterminism")
class TurnsRound(RadixPaged):
    """Evicts the oldest leaf first in one cache, and the youngest in the next."""

    supports: ClassVar = {"page_size": RadixPaged.supports["page_size"]}
    promises: ClassVar = {"eviction": "unspecified", "tie_break": "any"}
    _caches: ClassVar = count()

    @cached_property
    def _direction(self) -> int:
        return 1 if next(self._caches) % 2 else -1

    def _rank(self, leaf: Node) -> Rank:
        return (self._direction * leaf.stamp,)


# Handles and locks.


@breaks("handle-mismatch")
class HandsOutTheParent(RadixPaged):
    """Answers the parent of the matched node as the handle."""

    promises: ClassVar = {"deltas": "absent"}

    def match_prefix(self, tokens: Sequence[int], namespace: tuple[str, ...] = ()) -> Match:
        """Match, and go up one edge."""
        length, slots, node = super().match_prefix(tokens, namespace)
        return Match(length, slots, node.parent or node)


@breaks("lock-underflow")
class CountsBelowZero(RadixPaged):
    """Takes back locks that nobody holds."""

    promises: ClassVar = {"namespaces": "absent"}
    supports: ClassVar = {"page_size": [1]}

    def _check_held(self, handle: Node) -> None:
        pass


@breaks("delta-mismatch")
class TellsTheWrongSign(RadixPaged):
    """Tells an unlock that the evictable size fell by what it rose."""

    def dec_ref(self, handle: Node) -> int | None:
        """Unlock, and turn the sign round."""
        return -(super().dec_ref(handle) or 0)


# What it tells about itself.


@breaks("size-drift")
class ForgetsTheLocked(RadixPaged):
    """Leaves what is locked out of its total."""

    def total_size(self) -> int:
        """Count the evictable tokens."""
        return self.evictable_size()


@breaks("structure")
class ShowsAnEmptyEdge(RadixPaged):
    """Lists a node below the root to which an edge without tokens leads."""

    def dump(self) -> list[DumpedNode]:
        """List all nodes, and one that is not there."""
        return [*super().dump(), DumpedNode((), (), 0, None)]


@breaks("unexpected-error")
class FailsOnShortKeys(RadixPaged):
    """Looks at the first token of every key, even of one that fills no page."""

    def _find(self, root: Node, key: bytes) -> tuple[list[Node], int]:
        if not key:
            raise IndexError("the first token of a key that has none")
        return super()._find(root, key)
