"""Liars among pools: one planted lie each, by which radixcheck itself is tested.

Every rule that is judged at a pool has its liar, which breaks that rule and, until then, no other.
The lie is one method, and the docstring of its class says it.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

from radixcheck.protocol import Factory, Refused, Slots
from radixcheck.targets.pools.plain import PoolCounted, PoolExclusive, PoolPaged

POOL_LIARS: dict[str, Factory] = {}
"""One liar per rule that pools can break, by the name of the rule."""


def breaks(rule: str) -> Callable[[type[PoolExclusive]], type[PoolExclusive]]:
    """List a class in `POOL_LIARS` as the one that breaks `rule`."""

    def enlist(liar: type[PoolExclusive]) -> type[PoolExclusive]:
        POOL_LIARS[rule] = liar
        return liar

    return enlist


# Slots.


@breaks("double-free")
class AcceptsWhatIsFree(PoolExclusive):
    """Takes back what nobody holds, although it promises to raise."""

    def free(self, slots: Slots) -> None:
        """Take back what is held of `slots`, and say nothing of the rest."""
        super().free([slot for slot in slots if slot in self._held])


@breaks("double-owner")
class ForgetsWhoHolds(PoolCounted):
    """Hands a slot out again when the first of its two holders has gone."""

    def available_size(self) -> int:
        """Count the slots that nobody holds, whatever is in the list."""
        return self.capabilities.capacity - len(self._held)

    def _idle_pages(self, slots: Iterable[int]) -> list[int]:
        return [slot for slot in slots if slot not in self._free]


@breaks("outside-pool")
class HandsOutPadding(PoolExclusive):
    """Hands out the reserved slot in place of the last one."""

    def _take(self, count: int) -> Sequence[int]:
        slots = super()._take(count)
        return [slot if slot < self.capabilities.end - 1 else 0 for slot in slots]


@breaks("length-mismatch")
class CutsLongAllocs(PoolExclusive):
    """Answers five slots at most."""

    def alloc(self, num_tokens: int) -> list[int]:
        """Hand out slots, and mislay those beyond the fifth."""
        return super().alloc(num_tokens)[:5]


@breaks("partial-page")
class CountsPagesDown(PoolPaged):
    """Answers the slots of its pages in descending order."""

    supports: ClassVar = {**PoolPaged.supports, "page_size": [4, 16]}

    def alloc(self, num_tokens: int) -> list[int]:
        """Hand out whole pages, upside down."""
        return super().alloc(num_tokens)[::-1]


@breaks("alloc-order")
class PromisesOrder(PoolExclusive):
    """Promises ascending slots, and answers them in the order in which they came back."""

    promises: ClassVar = {"ordered": True}


# Numbers.


@breaks("leaked-slot")
class LosesTheSixth(PoolExclusive):
    """Puts five slots of a free back, and loses the others."""

    def _put(self, pages: Iterable[int]) -> None:
        super()._put(list(pages)[:5])


@breaks("size-drift")
class CountsReserved(PoolExclusive):
    """Counts the reserved slot as free once everything is held."""

    def available_size(self) -> int:
        """Count the free slots, and the one that is none."""
        return super().available_size() or 1


@breaks("refused-with-effect")
class KeepsWhatIsShort(PoolExclusive):
    """Takes what there is before it finds that this is too little."""

    def _take(self, count: int) -> Sequence[int]:
        if count > len(self._free):
            self._free.clear()
        return super()._take(count)


# The rest.


@breaks("mutated-argument")
class SortsInPlace(PoolExclusive):
    """Sorts the caller's slots."""

    def free(self, slots: Slots) -> None:
        """Take slots back, the highest first."""
        slots.sort(reverse=True)
        super().free(slots)


@breaks("nondeterminism")
class Shuffles(PoolExclusive):
    """Hands out any free slots, and promises the same ones every time."""

    def _take(self, count: int) -> Sequence[int]:
        random.shuffle(self._free)
        return super()._take(count)


@breaks("unexpected-error")
class CannotTakeNothing(PoolExclusive):
    """Raises where no slot is asked for."""

    def alloc(self, num_tokens: int) -> list[int]:
        """Hand out slots."""
        assert num_tokens > 0
        return super().alloc(num_tokens)


# What an adapter answers that cannot be read, or is no set of slots: bad input.


class AnswersFloats(PoolExclusive):
    """Answers slots as floats."""

    def alloc(self, num_tokens: int) -> Any:
        """Hand out slots."""
        return list(map(float, super().alloc(num_tokens)))


class AnswersTables(PoolExclusive):
    """Answers slots in two dimensions."""

    def alloc(self, num_tokens: int) -> Any:
        """Hand out slots."""
        return [super().alloc(num_tokens)]


class Overlaps(PoolExclusive):
    """Answers the first slot twice."""

    def alloc(self, num_tokens: int) -> list[int]:
        """Hand out slots."""
        slots = super().alloc(num_tokens)
        return slots[:1] + slots[:-1]


class RefusesAfterwards(PoolExclusive):
    """Refuses a free that names too much, when it has already taken back the rest."""

    def free(self, slots: Slots) -> None:
        """Take back what can be, and raise for what cannot."""
        held = [slot for slot in dict.fromkeys(slots) if slot in self._held]
        super().free(held)
        if Counter(slots) != Counter(held):
            raise Refused("not held")
