"""Honest near-misses among pools: correct ones, each of which uses one freedom.

An alarm against one of them is a bug of radixcheck, never of the pool.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from contextlib import suppress
from importlib.util import find_spec
from typing import Any, ClassVar, TypeVar

from radixcheck.capabilities import PoolCapabilities
from radixcheck.protocol import Factory, Refused, Slots
from radixcheck.targets.pools.plain import PoolCounted, PoolExclusive, PoolPaged

HONEST_POOLS: dict[str, Factory] = {}
"""Every honest near-miss whose libraries are installed, by the name of its class."""

Honest = TypeVar("Honest", bound=type)


def honest(pool: Honest) -> Honest:
    """List `pool` in `HONEST_POOLS`."""
    HONEST_POOLS[pool.__name__] = pool
    return pool


@honest
class KeepsSorted(PoolPaged):
    """Hands out the lowest free pages, in ascending order."""

    promises: ClassVar = {**PoolPaged.promises, "ordered": True}

    def _take(self, count: int) -> Sequence[int]:
        self._free.sort(reverse=True)
        return super()._take(count)


@honest
class FirstInFirstOut(PoolExclusive):
    """Hands out what has been free for longest."""

    def _put(self, pages: Iterable[int]) -> None:
        self._free[:0] = reversed(list(pages))


@honest
class AnyOrder(PoolPaged):
    """Hands out any free pages."""

    promises: ClassVar = {**PoolPaged.promises, "deterministic": False}

    def _take(self, count: int) -> Sequence[int]:
        random.shuffle(self._free)
        return super()._take(count)


@honest
class MergesLate(PoolPaged):
    """Leaves freed pages aside, until those in the list are too few."""

    def reset(self) -> None:
        """Take everything back."""
        self._aside: list[int] = []
        super().reset()

    def available_size(self) -> int:
        """Count the free slots, those aside too."""
        return super().available_size() + len(self._aside) * self.capabilities.page_size

    def _take(self, count: int) -> Sequence[int]:
        if count > len(self._free):
            self._free = sorted(self._free + self._aside, reverse=True)
            self._aside = []
        return super()._take(count)

    def _put(self, pages: Iterable[int]) -> None:
        self._aside += pages


@honest
class WastesTheRest(PoolPaged):
    """Has a capacity that is no multiple of its page, and never uses what is left over."""

    supports: ClassVar = {"page_size": [4, 16], "capacity": [18, 67]}


@honest
class CountsPages(PoolCounted):
    """Counts the holders of every slot of a page, which is free with the last holder of the last
    one."""

    promises: ClassVar = {**PoolCounted.promises, **PoolPaged.promises}
    supports: ClassVar = PoolPaged.supports

    def __init__(self, page_size: int = 4, capacity: int = 64) -> None:
        self._open(capacity, page_size)


@honest
class ReservesNothing(PoolExclusive):
    """Hands out slot 0 like any other."""

    promises: ClassVar = {"reserved": 0}


@honest
class AnswersNone(PoolExclusive):
    """Answers None where too few slots are free."""

    def alloc(self, num_tokens: int) -> Any:
        """Hand out slots, or nothing."""
        try:
            return super().alloc(num_tokens)
        except Refused:
            return None


@honest
class IgnoresMisuse(PoolCounted):
    """Takes back what is held, and nothing else, whatever is named."""

    promises: ClassVar = {**PoolCounted.promises, "misuse": "ignored"}

    def free(self, slots: Slots) -> None:
        """Take one holder off each slot that has one."""
        for slot in slots:
            if slot in self._held:
                super().free([slot])


@honest
class IgnoresWholeLists(PoolExclusive):
    """Takes back nothing of a list in which a slot is named that is not held, or named twice."""

    promises: ClassVar = {"misuse": "ignored"}

    def free(self, slots: Slots) -> None:
        """Take slots back, all or none."""
        with suppress(Refused):
            super().free(slots)


@honest
class WholePagesOnly(PoolPaged):
    """Counts on it that whole pages come back, and looks at the first slot of each only."""

    promises: ClassVar = {"partial_pages": "misuse", "misuse": "unspecified"}

    def free(self, slots: Slots) -> None:
        """Take back the pages that begin in `slots`."""
        size = self.capabilities.page_size
        self._held.subtract(slots)
        self._put(slot for slot in slots if slot % size == 0)


@honest
class TellsNoSize:
    """Has no method but the two that are required, and keeps the caller's buffers."""

    supports: ClassVar = {"capacity": [8, 64]}

    def __init__(self, capacity: int = 64) -> None:
        self.capabilities = PoolCapabilities(capacity=capacity)
        self._returned: list[list[int]] = [list(range(capacity))]

    def alloc(self, num_tokens: int) -> list[int] | None:
        """Hand out slots from the buffers that came back."""
        free = [slot for buffer in self._returned for slot in buffer]
        if num_tokens > len(free):
            return None
        self._returned = [free[num_tokens:]]
        return free[:num_tokens]

    def free(self, slots: list[int]) -> None:
        """Keep the buffer."""
        self._returned.append(slots)


class AnswersArrays(PoolPaged):
    """Takes and answers numpy arrays."""

    promises: ClassVar = {**PoolPaged.promises, "slots_as": "numpy", "arguments": "borrowed"}

    def alloc(self, num_tokens: int) -> Any:
        """Hand out slots."""
        import numpy

        return numpy.array(super().alloc(num_tokens), dtype=numpy.int64)


if find_spec("numpy") is not None:
    honest(AnswersArrays)
