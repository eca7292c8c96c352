"""Misuse of pools: what a list may do that is half good, and which slots are no pool's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from radixcheck.operations import AddRefs, Alloc, AnyOperation, Free, Refusal
from radixcheck.pools import generate
from radixcheck.protocol import Refused, Slots
from radixcheck.targets.pools.honest import IgnoresMisuse, IgnoresWholeLists
from radixcheck.targets.pools.plain import PoolCounted, PoolExclusive
from radixcheck.trace import Trace
from radixcheck.verdict import Verdict, check, replay

TWICE = (Alloc(2, "h1"), Free("h1", times=2), Free("h1"), Alloc(8))
HALF_GOOD = (Alloc(2, "h1"), Free("h1", 0, 3), Free("h1"), Alloc(8))


def judged(make: Callable[[], Any], *operations: AnyOperation) -> Verdict:
    return check(lambda *_: make(), Trace(operations))


@pytest.mark.parametrize("operations", [TWICE, HALF_GOOD])
@pytest.mark.parametrize("pool", [IgnoresMisuse, IgnoresWholeLists])
def test_a_half_good_list_is_ignored_slot_by_slot_or_as_a_whole(
    pool: type[PoolExclusive], operations: tuple[AnyOperation, ...]
) -> None:
    verdict = judged(lambda: pool(8), *operations)
    assert (None, True) == (verdict.violation, verdict.reached["misuse"] > 0)


def test_a_half_good_list_is_left_out_where_nothing_tells_what_it_did() -> None:
    class TellsNothing(IgnoresMisuse):
        def __getattribute__(self, name: str) -> Any:
            if name == "available_size":
                raise AttributeError(name)
            return super().__getattribute__(name)

    verdict = judged(lambda: TellsNothing(8), *TWICE)
    assert {"nothing would tell what such a free did": 1} == verdict.skipped


def test_what_is_listed_twice_and_freed_twice_is_found_although_misuse_is_ignored() -> None:
    class FreesTwice(IgnoresMisuse):
        def free(self, slots: Slots) -> None:
            held = [slot for slot in slots if slot in self._held]
            super().free(held)
            self._free += held[len(set(held)) :]

    violation = judged(lambda: FreesTwice(8), *TWICE).violation
    assert violation is not None
    assert "double-free" == violation.rule


def test_every_page_that_is_no_pool_s_can_be_freed() -> None:
    class Reserves(PoolExclusive):
        promises: ClassVar = {"reserved": 4}

    operations = tuple(Free(start=which) for which in range(6))
    steps = replay(lambda *_: Reserves(8), Trace(operations)).steps
    said = [step.outcome for step in steps]
    assert [Refusal(f"not held: [{slot}]") for slot in (0, 12, -1, 3, 2, 1)] == said


class Trusts(PoolExclusive):
    """Checks a free but for one kind of slots."""

    def trusted(self, slot: int) -> bool:
        """Tell whether `slot` is not looked at."""
        raise NotImplementedError

    def free(self, slots: Slots) -> None:
        """Take slots back."""
        super().free([slot for slot in slots if not self.trusted(slot)])


class TrustsReserved(Trusts):
    promises: ClassVar = {"reserved": 8}

    def trusted(self, slot: int) -> bool:
        return slot == 7


class TrustsBeyond(Trusts):
    def trusted(self, slot: int) -> bool:
        return slot >= self.capabilities.end


class TrustsNegative(Trusts):
    def trusted(self, slot: int) -> bool:
        return slot < 0


class StopsHalfWay(PoolExclusive):
    """Frees slot by slot until one is not held."""

    def free(self, slots: Slots) -> None:
        """Take slots back."""
        if len(set(slots)) < len(slots):
            super().free(slots)
        for slot in slots:
            super().free([slot])


class ChecksBeforeItCounts(PoolCounted):
    """Sees that each slot is held, not how often it is listed."""

    def free(self, slots: Slots) -> None:
        """Take one holder off each slot."""
        if not self._held.keys() >= set(slots):
            raise Refused("not held")
        for slot in dict.fromkeys(slots):
            super().free([slot] * min(slots.count(slot), self._held[slot] or 1))


@pytest.mark.parametrize(
    ("pool", "rule"),
    [
        (PoolExclusive, None),
        (PoolCounted, None),
        (TrustsReserved, "double-free"),
        (TrustsBeyond, "double-free"),
        (TrustsNegative, "double-free"),
        (StopsHalfWay, "refused-with-effect"),
        (ChecksBeforeItCounts, "double-free"),
    ],
)
def test_a_refusal_that_is_promised_is_looked_for_in_each_kind_of_list(
    pool: type[PoolExclusive], rule: str | None
) -> None:
    can = pool(64).capabilities
    traces = (Trace(generate(seed, can, 100)) for seed in range(40))
    violations = (check(lambda *_: pool(64), trace).violation for trace in traces)
    assert rule == next((each.rule for each in violations if each is not None), None)


def test_a_pool_that_counts_is_asked_for_one_holder_too_many() -> None:
    operations = Alloc(1, "h1"), AddRefs("h1"), Free("h1", times=3)
    verdict = judged(lambda: ChecksBeforeItCounts(8), *operations)
    assert verdict.violation is not None
    assert ("double-free", 2) == (verdict.violation.rule, verdict.violation.step)
