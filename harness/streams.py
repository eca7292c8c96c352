"""Streams of writes to a KV buffer: real ones of CUDA, and simulated ones that any machine has.

A device does what one stream is told in order, and what different streams are told in any order.
So a slot that changes hands may still get a write of its last holder, on the stream of that::

    stream 1  ... write A to slot 7 ...............#   lands late
    host            free 7, alloc 7
    stream 2                     write B to 7 #        lands first, and is lost

Who hands a slot on must let the new holder's stream wait for an event of the old one's. Both kinds
of streams have the same methods, so that what is tried on a CPU is what runs on a GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Any, Protocol, TypeAlias

Event: TypeAlias = Any
"""What `record` answers: all that a stream was told before."""

DELAYS = (0, 5, 14)
"""How long a write takes on each stream, in ticks. The first is quick, the last is busy."""

TICK_CYCLES = 2_000_000
"""What a tick is on a GPU: about a millisecond."""


class Streams(Protocol):
    """A KV buffer of one tag per slot, and the streams that write to it. They are numbered."""

    count: int

    def write(self, stream: int, slots: Sequence[int], tags: Sequence[int]) -> None:
        """Tell a stream to write one tag into each slot, and do not wait for it."""
        ...

    def record(self, stream: int) -> Event:
        """Return an event for all that a stream was told so far."""
        ...

    def wait(self, stream: int, event: Event) -> None:
        """Let all that a stream is told from now on come after `event`; the host goes on."""
        ...

    def read(self, stream: int, slots: Sequence[int]) -> list[int]:
        """Return the tags in `slots`, after all that this one stream was told before."""
        ...

    def tick(self) -> None:
        """Let a little time pass."""
        ...

    def settle(self) -> None:
        """Wait until everything has landed."""
        ...


class SimulatedStreams:
    """Streams whose writes land after a fixed number of ticks: the same in every run.

    An event is the tick at which all before it will have landed.

    Args:
        num_slots: slots of the buffer.
        delays: the ticks that a write takes, per stream.
    """

    def __init__(self, num_slots: int, delays: Sequence[int] = DELAYS) -> None:
        self.count = len(delays)
        self._kv = [0] * num_slots
        self._delays = delays
        self._now = 0
        self._free_at = [0] * self.count
        """The tick at which each stream has done all that it was told."""
        self._number = 0
        self._flying: list[tuple[int, int, Sequence[int], Sequence[int]]] = []
        """A heap of writes by the tick at which they land, and by their age."""

    def write(self, stream: int, slots: Sequence[int], tags: Sequence[int]) -> None:
        """Let a write land once the stream has got to it, and then takes its time."""
        due = max(self._now, self._free_at[stream]) + self._delays[stream]
        self._free_at[stream] = due
        self._number += 1
        heappush(self._flying, (due, self._number, list(slots), list(tags)))

    def record(self, stream: int) -> Event:
        """Return the tick at which the stream is idle."""
        return self._free_at[stream]

    def wait(self, stream: int, event: Event) -> None:
        """Keep the stream busy until that tick."""
        self._free_at[stream] = max(self._free_at[stream], event)

    def read(self, stream: int, slots: Sequence[int]) -> list[int]:
        """Wait for the stream, and look."""
        self._run_until(self._free_at[stream])
        return [self._kv[slot] for slot in slots]

    def tick(self) -> None:
        """Let one tick pass."""
        self._run_until(self._now + 1)

    def settle(self) -> None:
        """Let as many pass as any stream needs."""
        self._run_until(max(self._free_at))

    def _run_until(self, tick: int) -> None:
        self._now = max(self._now, tick)
        while self._flying and self._flying[0][0] <= self._now:
            _, _, slots, tags = heappop(self._flying)
            for slot, tag in zip(slots, tags, strict=True):
                self._kv[slot] = tag


class CudaStreams:
    """The same on a GPU: streams and events of torch, and a kernel that only takes time.

    Args:
        num_slots, delays: as of `SimulatedStreams`.
        device: ``cuda`` or ``cuda:1``.

    Raises:
        ImportError: torch is not installed.
        ValueError: there is no such device.
    """

    def __init__(
        self, num_slots: int, delays: Sequence[int] = DELAYS, device: str = "cuda"
    ) -> None:
        import torch

        if not torch.cuda.is_available():
            raise ValueError(f"device={device!r} is not there")
        self.count = len(delays)
        self._torch: Any = torch
        self._device = device
        self._delays = delays
        self._streams: list[Any] = [self._torch.cuda.Stream(device) for _ in delays]
        self._kv = torch.zeros(num_slots, dtype=torch.int64, device=device)
        self.settle()

    def write(self, stream: int, slots: Sequence[int], tags: Sequence[int]) -> None:
        """Queue a pause and a write; both numbers are on the device before, so nobody waits."""
        mine, places, values = self._streams[stream], self._tensor(slots), self._tensor(tags)
        with self._torch.cuda.stream(mine):
            if self._delays[stream]:
                self._torch.cuda._sleep(self._delays[stream] * TICK_CYCLES)
            self._kv.index_copy_(0, places, values)
        for used in (places, values):
            used.record_stream(mine)

    def record(self, stream: int) -> Event:
        """Return an event of torch."""
        return self._streams[stream].record_event()

    def wait(self, stream: int, event: Event) -> None:
        """Let the device wait; the host goes on."""
        self._streams[stream].wait_event(event)

    def read(self, stream: int, slots: Sequence[int]) -> list[int]:
        """Gather on the stream itself, and wait for the copy to the host."""
        mine, places = self._streams[stream], self._tensor(slots)
        places.record_stream(mine)
        with self._torch.cuda.stream(mine):
            return list(self._kv[places].tolist())

    def tick(self) -> None:
        """Time passes by itself."""

    def settle(self) -> None:
        """Wait for the whole device."""
        self._torch.cuda.synchronize(self._device)

    def _tensor(self, numbers: Sequence[int]) -> Any:
        """Copy numbers to the device: the host waits for this copy, and for no stream of ours."""
        return self._torch.tensor(numbers, dtype=self._torch.int64, device=self._device)
