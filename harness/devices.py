"""The memory of a device, as its allocator counts it.

An allocator tells two numbers apart: what is *allocated* is in use, and what is *reserved* it has
taken from the device and keeps for the next time. Only the first must come back.
"""

from __future__ import annotations

from typing import Any, Protocol


class Allocator(Protocol):
    """What counts the memory of one device. A target may bring its own as ``allocator``."""

    def allocated(self) -> int:
        """Count the bytes in use."""
        ...

    def reserved(self) -> int:
        """Count the bytes taken from the device, in use or not."""
        ...


class CudaAllocator:
    """The caching allocator of torch.

    Args:
        device: ``cuda`` or ``cuda:1``, with torch imported.
    """

    def __init__(self, device: str) -> None:
        import torch

        self._cuda: Any = torch.cuda
        self._device = device

    def allocated(self) -> int:
        """Wait for the device, and count."""
        self._cuda.synchronize(self._device)
        return int(self._cuda.memory_allocated(self._device))

    def reserved(self) -> int:
        """Count, without waiting."""
        return int(self._cuda.memory_reserved(self._device))


class SimulatedAllocator:
    """An allocator without a device: a freed block stays reserved, and is used again first."""

    def __init__(self) -> None:
        self._allocated = self._reserved = 0

    def allocated(self) -> int:
        """Count the bytes of blocks that somebody holds."""
        return self._allocated

    def reserved(self) -> int:
        """Count the most bytes that were ever held at once."""
        return self._reserved

    def take(self, num_bytes: int) -> Block:
        """Hand out a block, which is free again when nobody refers to it."""
        return Block(self, num_bytes)

    def count(self, change: int) -> None:
        """A block came or went."""
        self._allocated += change
        self._reserved = max(self._reserved, self._allocated)


class Block:
    """Memory of a `SimulatedAllocator`."""

    def __init__(self, allocator: SimulatedAllocator, num_bytes: int) -> None:
        self._allocator = allocator
        self._num_bytes = num_bytes
        allocator.count(num_bytes)

    def __del__(self) -> None:
        self._allocator.count(-self._num_bytes)


def allocator_of(target: Any) -> Allocator | None:
    """Return what counts the memory of a target's device; None on a CPU, which nobody counts."""
    own: Allocator | None = getattr(target, "allocator", None)
    device = str(getattr(target.capabilities, "device", "cpu"))
    return CudaAllocator(device) if own is None and device.startswith("cuda") else own
