"""Pools that count holders wrongly in one place only: the generated traces get there."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from random import Random
from typing import Any, ClassVar

import pytest

from radixcheck.capabilities import PoolCapabilities
from radixcheck.generate.keys import pick
from radixcheck.pools import generate
from radixcheck.pools.stream import LARGE, STORIES, Caller
from radixcheck.protocol import Slots
from radixcheck.targets.pools.plain import PoolCounted
from radixcheck.trace import Trace
from radixcheck.verdict import check

TRACES = 60


class Lying(PoolCounted):
    """Counts right, but that a subclass forgets holders before a free, an alloc or a reset."""

    promises: ClassVar = {"ownership": "counted", "misuse": "unspecified"}

    def free(self, slots: Slots) -> None:
        """Take one holder off each slot."""
        self.forget(Counter(slots))
        for slot in slots:
            self._held[slot] -= 1
            if not self._held[slot]:
                self._free.append(slot)

    def forget(self, given: Counter[int]) -> None:
        """Count holders down that have not gone."""

    def shared(self) -> list[int]:
        """Return the slots with several holders."""
        return [slot for slot, times in self._held.items() if times > 1]


class KeepsTwo(Lying):
    def add_refs(self, slots: Slots) -> None:
        self._held.update(slot for slot in slots if self._held[slot] < 2)


class DropsThree(Lying):
    def forget(self, given: Counter[int]) -> None:
        self._held.update({slot: -2 for slot in given if self._held[slot] == 3})


class ForgetsBeside(Lying):
    def forget(self, given: Counter[int]) -> None:
        self._held.update({slot: -1 for slot in self.shared() if slot not in given})


class HandsOutShared(Lying):
    def alloc(self, num_tokens: int) -> Any:
        slots = super().alloc(num_tokens)
        return [*self.shared()[:1], *slots[1:]] if self.shared() and slots else slots


class LosesTheAlone(Lying):
    def free(self, slots: Slots) -> None:
        alone = [slot for slot in slots if self._held[slot] == 1]
        super().free(slots)
        if len(alone) < len(set(slots)):
            self._free = [slot for slot in self._free if slot not in alone]


class RemembersAfterReset(Lying):
    old: tuple[int, ...] = ()

    def reset(self) -> None:
        self.old = tuple(self.shared()) if hasattr(self, "_held") else ()
        super().reset()

    def alloc(self, num_tokens: int) -> Any:
        slots = super().alloc(num_tokens)
        self._held.update(slot for slot in slots if slot in self.old)
        return slots


LIES = (KeepsTwo, DropsThree, ForgetsBeside, HandsOutShared, LosesTheAlone, RemembersAfterReset)


@pytest.mark.parametrize("pool", [Lying, *LIES])
def test_holders_that_are_counted_wrongly_anywhere_are_found(pool: type[Lying]) -> None:
    can = pool(64).capabilities
    traces = (Trace(generate(seed, can, 100, swarm=bool(seed % 2))) for seed in range(TRACES))
    found = (check(lambda *_: pool(64), trace).violation is not None for trace in traces)
    assert (pool is not Lying) == any(found)


def test_allocs_of_all_small_amounts_and_of_any_others_are_made() -> None:
    can = PoolCapabilities(capacity=256)
    operations = [each for seed in range(60) for each in generate(seed, can, 200)]
    amounts = {getattr(each, "num_tokens", 0) for each in operations}
    assert set() == {*range(1, 18), 32, 33} - amounts
    assert len(amounts & set(range(34, 250))) > 100


def test_a_trace_of_a_huge_pool_takes_it_all_once_at_most() -> None:
    can = PoolCapabilities(capacity=1_000_000, ownership="counted")
    assert {1} == {_large_allocs(Caller(Random(seed), can)) for seed in range(40)}


def _large_allocs(caller: Caller) -> int:
    """Play some stories; count the allocs that take much at once."""
    taken: list[int] = []
    for _ in range(100):
        before = caller.books.free
        for _ in pick(caller.rng, list(STORIES.values()))[1](caller):
            taken.append(before - caller.books.free)
            before = caller.books.free
    return sum(num_tokens > LARGE for num_tokens in taken)


def test_the_same_slots_are_shared_by_several_at_once() -> None:
    can = PoolCapabilities(capacity=64, ownership="counted")
    verdicts = (
        check(lambda *_: PoolCounted(64), Trace(generate(seed, can, 100))) for seed in range(TRACES)
    )
    reached = sum((each.reached for each in islice(verdicts, 8)), Counter[str]())
    wanted = {
        "three-holders",
        "several-shared",
        "alloc-while-shared",
        "part-of-shared-freed",
        "freed-beside-shared",
        "shared-and-alone-freed",
        "reset-while-shared",
    }
    assert set() == wanted - reached.keys()
