"""Honest near-misses of memory: caches that keep more than they store, for good reasons."""

from __future__ import annotations

from array import array
from collections import deque
from typing import Any

from radixcheck.protocol import Evicted
from radixcheck.targets.memory_liars import RadixArrays
from radixcheck.targets.radix_torch import RadixTorch

BLOCKS = 12
"""So many freed blocks are kept for later."""


class Preallocates(RadixArrays):
    """Has taken memory for more slots than it will ever store, and all edges are views of that."""

    def reset(self) -> None:
        """Forget everything, and begin at the front of the buffer again."""
        super().reset()
        self._buffer = getattr(self, "_buffer", array("q", bytes(8 * 100_000)))
        self._used = 0

    def _array(self, slots: list[int]) -> Any:
        if self._used + len(slots) > len(self._buffer):
            return array("q", slots)
        start, self._used = self._used, self._used + len(slots)
        self._buffer[start : self._used] = array("q", slots)
        return memoryview(self._buffer)[start : self._used]


class Doubles(RadixArrays):
    """Counts the uses of every slot in one array, which is doubled whenever it is too short."""

    def _array(self, slots: list[int]) -> Any:
        uses: array[int] = getattr(self, "_uses", array("q", bytes(8)))
        while slots and len(uses) <= max(slots):
            uses = uses + array("q", bytes(8 * len(uses)))
        for slot in slots:
            uses[slot] += 1
        self._uses = uses
        return super()._array(slots)


class KeepsFreedBlocks(RadixArrays):
    """Keeps the latest freed blocks for later, as allocators do."""

    def evict(self, num_tokens: int) -> Evicted:
        """Evict, and keep the blocks; the oldest of them go."""
        self._kept: deque[Any] = getattr(self, "_kept", deque(maxlen=BLOCKS))
        freed = super().evict(num_tokens)
        self._kept.extend(freed.groups)
        return freed


class KeepsTimes(RadixArrays):
    """Keeps when each of its first thousand evictions was."""

    def evict(self, num_tokens: int) -> Evicted:
        """Evict, and look at the clock."""
        self._times = getattr(self, "_times", array("d"))
        if len(self._times) < 1000:
            self._times.append(self._clock())
        return super().evict(num_tokens)


class ClonesOneHalf(RadixTorch):
    """Clones the front of a cut edge only: the end goes first, so nothing of the rest stays."""

    def _parts(self, slots: Any, at: int) -> tuple[Any, Any]:
        return slots[:at].clone(), slots[at:]
