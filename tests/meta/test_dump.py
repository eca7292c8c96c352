"""A target that shows other nodes than it has is convicted, by all that is stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeAlias

import pytest

from radixcheck.capabilities import Capabilities
from radixcheck.checker import Checker
from radixcheck.checker.structure import contradictions, differences
from radixcheck.clock import Clock
from radixcheck.operations import AnyOperation, Audit, DecRef, Evict, IncRef, Insert, MatchPrefix
from radixcheck.protocol import DumpedNode, Refused
from radixcheck.reference.model import Model
from radixcheck.rules import Violation
from radixcheck.targets.radix_paged import RadixPaged

Nodes: TypeAlias = list[DumpedNode]

STORED = (
    Insert((1, 2, 3)),
    Insert((1, 2, 4), ("other",)),
    MatchPrefix((1, 2), handle="h"),
    IncRef("h"),
    IncRef("h"),
)

LIES: dict[str, Callable[[Nodes], Nodes]] = {
    "nothing": lambda nodes: [],
    "tops": lambda nodes: [node for node in nodes if node.parent is None],
    "twice": lambda nodes: nodes + [node for node in nodes if node.parent is None],
    "other tokens": lambda nodes: [node._replace(tokens=node.slots) for node in nodes],
    "other slots": lambda nodes: [node._replace(slots=[9] * len(node.slots)) for node in nodes],
    "slots in disorder": lambda nodes: [node._replace(slots=node.slots[::-1]) for node in nodes],
    "no locks": lambda nodes: [node._replace(locks=0) for node in nodes],
    "a lock too many": lambda nodes: [node._replace(locks=node.locks + 1) for node in nodes],
    "one lock for two": lambda nodes: [node._replace(locks=min(node.locks, 1)) for node in nodes],
}


class Shows(RadixPaged):
    """A correct tree that shows what `lie` makes of its nodes."""

    def __init__(self, lie: Callable[[Nodes], Nodes], clock: Clock) -> None:
        super().__init__(clock=clock)
        self.lie = lie

    def dump(self) -> Nodes:
        return self.lie(super().dump())


def verdict_on(
    lie: Callable[[Nodes], Nodes], operations: Sequence[AnyOperation]
) -> Violation | None:
    clock = Clock()
    checker = Checker(Shows(lie, clock), clock)
    broken = map(checker.apply, operations)
    return next((each for each in broken if each is not None), None)


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
def test_an_audit_sees_what_a_dump_makes_up(lie: Callable[[Nodes], Nodes]) -> None:
    violation = verdict_on(lie, (*STORED, Audit()))
    assert violation is not None
    assert ("structure", "audit") == violation.signature


def test_a_slot_that_is_shown_twice_hides_another() -> None:
    """Both edges of token 5 are shown with the slot of one::

        1 --> 5, slot 2     shown as     1 --> 5, slot 2
        3 --> 5, slot 4                  3 --> 5, slot 2

    As many slots are shown as are stored, and each with its token.
    """

    def lie(nodes: Nodes) -> Nodes:
        fives = [node for node in nodes if node.tokens[0] == 5]
        return [node._replace(slots=fives[0].slots) if node in fives else node for node in nodes]

    cut = Insert((1, 5)), Insert((3, 5)), MatchPrefix((1,)), MatchPrefix((3,))
    violation = verdict_on(lie, (*cut, Audit()))
    assert violation is not None and violation.rule == "structure"


HONEST = {"none": (), "some": STORED, "what is locked": (*STORED, Evict(9))}


@pytest.mark.parametrize("operations", HONEST.values(), ids=HONEST)
def test_a_dump_that_shows_what_is_there_is_spared(operations: Sequence[AnyOperation]) -> None:
    assert verdict_on(lambda nodes: nodes, (*operations, Audit())) is None


def test_what_an_empty_tree_shows_is_seen() -> None:
    violation = verdict_on(lambda nodes: [DumpedNode([1], [7], 0, None)], [Audit()])
    assert violation is not None and violation.rule == "structure"


class NeverMindsUnlocks(Shows):
    """Counts below 0 when unlocked once too often, and shows it."""

    promises: ClassVar = {"misuse": "unspecified"}
    unlocked = 0

    def dec_ref(self, handle: Any) -> int | None:
        try:
            return super().dec_ref(handle)
        except Refused:
            self.unlocked += 1
            return 0

    def dump(self) -> Nodes:
        return [node._replace(locks=node.locks - self.unlocked) for node in super().dump()]


def test_locks_that_are_off_since_an_unlock_too_many_bear_its_name() -> None:
    clock = Clock()
    checker = Checker(NeverMindsUnlocks(lambda nodes: nodes, clock), clock, misuse=True)
    operations: list[AnyOperation] = [*STORED[:3], DecRef("h"), Audit()]
    (violation,) = filter(None, map(checker.apply, operations))
    assert ("lock-underflow", "audit") == violation.signature


COPIED = DumpedNode([1], [11], 0, None), DumpedNode([1], [12], 3, None)


def copied() -> Model:
    """Store one token twice."""
    model = Model(Capabilities(duplicates="both-kept"))
    model.inserted(None, (1,), [11], (), 0, 1.0)
    (position,) = set(model.owner.values())
    model.kept_copy(position, [12])
    return model


@pytest.mark.parametrize("nodes", [COPIED, COPIED[:1], COPIED[1:], ()], ids=str)
def test_a_cache_that_keeps_copies_may_show_any_of_them(nodes: Sequence[DumpedNode]) -> None:
    model, can = copied(), Capabilities(duplicates="both-kept")
    assert [] == [*contradictions(nodes, model, can), *differences(nodes, model, can)]


@pytest.mark.parametrize("node", [DumpedNode([1], [13], 0, None), DumpedNode([2], [12], 0, None)])
def test_but_nothing_else(node: DumpedNode) -> None:
    (broken,) = differences([node], copied(), Capabilities(duplicates="both-kept"))
    assert "structure" == broken.rule


@pytest.mark.parametrize(("locks", "rules"), [(0, []), (1, []), (2, ["structure"])])
def test_a_lock_inside_an_edge_that_no_match_has_cut_may_count_or_not(
    locks: int, rules: list[str]
) -> None:
    model = Model(Capabilities())
    model.inserted(None, (1, 2), [1, 2], (), 0, 1.0)
    model.lock(model.handle(model.find((1,), ()).end), 2.0)
    nodes = [DumpedNode([1, 2], [1, 2], locks, None)]
    assert rules == [each.rule for each in differences(nodes, model, Capabilities())]
