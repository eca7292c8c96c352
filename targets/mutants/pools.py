"""Bugs of pools: what comes back twice, too often, or never."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from radixcheck.protocol import Slots
from radixcheck.targets.mutants.catalogue import mutant
from radixcheck.targets.pools.plain import PoolCounted, PoolExclusive, PoolPaged


@mutant(
    "vllm-42571-twice-in-one-free",
    "vLLM #42571",
    "double-free",
    "size-drift",
    "double-owner",
    capacity=8,
)
class QueuesEveryListing(PoolCounted):
    """Puts a slot among the free ones as often as the free that emptied it lists it."""

    def free(self, slots: Slots) -> None:
        """Take a holder off for each listing, and queue for each listing."""
        super().free(slots)
        for slot, times in Counter(map(int, slots)).items():
            if slot not in self._held:
                self._put([slot] * (times - 1))


@mutant("vllm-0221-free-of-free", "vLLM 0.22.1", "double-free", "unexpected-error", capacity=8)
class CountsBelowZero(PoolExclusive):
    """Accepts the free of what is free, and counts its holders from -1 on."""

    def free(self, slots: Slots) -> None:
        """Take a holder off, whether there is one or not."""
        back = list(map(int, slots))
        self._held.subtract(back)
        self._put(slot for slot in dict.fromkeys(back) if self._held[slot] <= 0)

    def alloc(self, num_tokens: int) -> list[int]:
        """Hand out slots, and insist that nobody held them."""
        slots = super().alloc(num_tokens)
        assert all(self._held[slot] == 1 for slot in slots)
        return slots


@mutant("mllm-688-free-anything", "mllm #688", "double-free", capacity=8)
class TakesAnySlot(PoolExclusive):
    """Takes back the reserved slot, and slots beyond the pool, and hands them out."""

    def free(self, slots: Slots) -> None:
        """Take back whatever comes."""
        self._held -= Counter(map(int, slots))
        self._put(map(int, slots))


@mutant("mlc-head-reset-shrinks", "MLC-LLM", "leaked-slot", "size-drift", capacity=64)
class ShrinksOnReset(PoolExclusive):
    """Rebuilds its list of free slots past the end, and loses what does not fit."""

    _resets = 0

    def reset(self) -> None:
        """Take everything back, but for the last sixteenth."""
        super().reset()
        if self._resets:
            del self._free[: self.capabilities.capacity // 16]
        self._resets += 1


@mutant(
    "minisgl-80-page-units",
    "mini-sglang #80",
    "double-owner",
    "leaked-slot",
    page_size=4,
    capacity=64,
)
class QueuesEverySlot(PoolPaged):
    """Puts every slot that comes back among the free pages, as if a page began there."""

    def available_size(self) -> int:
        """Count what is not held, so that the sum is right all the same."""
        size = self.capabilities.page_size
        return self.capabilities.capacity - size * len({slot // size for slot in self._held})

    def _idle_pages(self, slots: Iterable[int]) -> list[int]:
        return list(slots)


@mutant("sglang-38941-seam", "SGLang #38941", "double-free", page_size=4, capacity=64)
class FreesThePageAtBothSides(PoolPaged):
    """Takes a page back with the first of its slots, and with the last ones once more."""

    def _idle_pages(self, slots: Iterable[int]) -> list[int]:
        size = self.capabilities.page_size
        return list(dict.fromkeys(slot // size * size for slot in slots))


@mutant("sglang-27789-page-per-token", "SGLang #27789", "double-free", page_size=4, capacity=64)
class FreesAPagePerToken(PoolPaged):
    """Takes a whole page back with each of its slots, and forgets the holder of that one only."""

    def _idle_pages(self, slots: Iterable[int]) -> list[int]:
        size = self.capabilities.page_size
        return [slot // size * size for slot in slots]
