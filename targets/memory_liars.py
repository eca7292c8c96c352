"""Liars of memory: caches that answer as they should, and do not give back what they took."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Any, ClassVar

from msgspec.structs import replace

from radixcheck.devices import SimulatedAllocator
from radixcheck.protocol import Evicted, Factory
from radixcheck.targets.radix import Node, Radix
from radixcheck.targets.radix_torch import RadixTorch

MEMORY_LIARS: dict[str, tuple[str, Factory]] = {}
"""The rule that each breaks, and its class, by the name of the class."""


def breaks(rule: str) -> Callable[[type], type]:
    """List a class in `MEMORY_LIARS` as one that breaks `rule`."""

    def enlist(liar: type) -> type:
        MEMORY_LIARS[liar.__name__] = rule, liar
        return liar

    return enlist


class RadixArrays(Radix):
    """The first tree, with an array of slots per edge: correct, and its memory can be looked at."""

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        super().__init__(clock)
        self.capabilities = replace(self.capabilities, disable="absent", storage="present")

    def _hang(self, parent: Node, leaf: Node) -> None:
        super()._hang(parent, leaf)
        leaf.slots = self._array(leaf.slots)

    def _array(self, slots: list[int]) -> Any:
        return array("q", slots)


@breaks("retained-storage")
class CutsIntoViews(RadixArrays):
    """Cuts an edge into two views of one buffer, which lives until both are gone."""

    def _array(self, slots: list[int]) -> Any:
        return memoryview(array("q", slots))


@breaks("retained-storage")
class CutsTensorsIntoViews(RadixTorch):
    """Does the same with tensors, as a release of SGLang did."""

    def _parts(self, slots: Any, at: int) -> tuple[Any, Any]:
        return slots[:at], slots[at:]


@breaks("retained-storage")
class KeepsWhatWasEvicted(RadixArrays):
    """Writes down every eviction, and never reads it."""

    def evict(self, num_tokens: int) -> Evicted:
        """Evict, and remember."""
        freed = super().evict(num_tokens)
        self._diary = [*getattr(self, "_diary", []), freed]
        return freed


class OnDevice(list[int]):
    """Slots that take memory of a simulated device; so does each part that is cut off."""

    def __init__(self, slots: list[int], allocator: SimulatedAllocator) -> None:
        super().__init__(slots)
        self.block = allocator.take(8 * len(slots))
        self._allocator = allocator

    def __getitem__(self, place: Any) -> Any:
        found = super().__getitem__(place)
        return OnDevice(found, self._allocator) if isinstance(place, slice) else found


class RadixAllocating(RadixArrays):
    """The first tree on a simulated device, whose memory comes back: correct."""

    allocator: ClassVar = SimulatedAllocator()

    def _array(self, slots: list[int]) -> Any:
        return OnDevice(slots, self.allocator)


@breaks("device-leak")
class LosesBlocks(RadixAllocating):
    """Loses the memory of what is evicted: no reference of the cache leads there any more."""

    allocator: ClassVar = SimulatedAllocator()
    lost: ClassVar[list[Any]] = []

    def evict(self, num_tokens: int) -> Evicted:
        """Evict, and do not free."""
        freed = super().evict(num_tokens)
        self.lost.extend(freed.groups)
        return freed


class LosesTensors(RadixTorch):
    """Does the same with tensors. On a CPU nobody counts them; on a GPU that is ``device-leak``."""

    lost: ClassVar[list[Any]] = []

    def evict(self, num_tokens: int) -> Evicted:
        """Evict, and do not free."""
        freed = super().evict(num_tokens)
        self.lost.extend(freed.groups)
        return freed
