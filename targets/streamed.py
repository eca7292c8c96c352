"""A pool whose slots are written on several streams, and a cache of requests on top of it.

Each alloc gets the next stream in turn, and what it holds is written there. A slot that is freed
may have a write in flight: the next holder's stream must wait for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from radixcheck.capabilities import PoolCapabilities
from radixcheck.protocol import Refused, Supports
from radixcheck.streams import Event, SimulatedStreams, Streams
from radixcheck.targets.bookkeeper import Bookkeeper
from radixcheck.targets.radix import Radix


class StreamedKV(list[int]):
    """The buffer of a `StreamedPool` as its engine sees it: by slot, on that slot's stream."""

    def __init__(self, pool: StreamedPool) -> None:
        super().__init__([0] * pool.capabilities.end)
        self._pool = pool

    def __setitem__(self, slot: Any, tag: Any) -> None:
        self._pool.write([slot], [tag])

    def __getitem__(self, slot: Any) -> Any:
        return self._pool.read([slot])[0]


class StreamedPool:
    """A pool of single slots, which are handed out again last in, first out.

    Args:
        capacity: slots that can be held at once.
        streams: what writes to them.
    """

    def __init__(self, capacity: int = 64, streams: Streams | None = None) -> None:
        self.capabilities = PoolCapabilities(capacity=capacity, deterministic=True)
        self.streams = streams or SimulatedStreams(capacity)
        self.kv = StreamedKV(self)
        self.reset()

    def reset(self) -> None:
        """Take everything back, once nothing is in flight any more."""
        self.streams.settle()
        self._free = list(range(self.capabilities.capacity))
        self._stream = [0] * self.capabilities.capacity
        """The stream on which each slot is written."""
        self._freed: dict[int, Event] = {}
        """An event for all that was told to a free slot's stream before it came back."""
        self._turn = 0

    def alloc(self, num_tokens: int) -> list[int]:
        """Hand out slots, all of them on the next stream."""
        self.streams.tick()
        if num_tokens > len(self._free):
            raise Refused(f"{num_tokens} slots: {len(self._free)} are free")
        slots = [self._free.pop() for _ in range(num_tokens)]
        self._turn = (self._turn + 1) % self.streams.count
        for slot in slots:
            self._hand_over(slot, self._turn)
            self._stream[slot] = self._turn
        return slots

    def _hand_over(self, slot: int, stream: int) -> None:
        """Let what is in flight land before anything that the new holder writes."""
        if (event := self._freed.pop(slot, None)) is not None:
            self.streams.wait(stream, event)

    def free(self, slots: Sequence[int]) -> None:
        """Take slots back, and note what must land before they are written again."""
        self.streams.tick()
        events = {stream: self.streams.record(stream) for stream in range(self.streams.count)}
        self._freed.update((slot, events[self._stream[slot]]) for slot in slots)
        self._free += slots

    def available_size(self) -> int:
        """Count the free slots; meanwhile time passes."""
        self.streams.tick()
        return len(self._free)

    def write(self, slots: Sequence[int], tags: Sequence[int]) -> None:
        """Write tags into slots that came from one alloc."""
        self.streams.write(self._stream[slots[0]], slots, tags)

    def read(self, slots: Sequence[int]) -> list[int]:
        """Return the tags in slots that came from one alloc."""
        return self.streams.read(self._stream[slots[0]], slots)


class HastyPool(StreamedPool):
    """Hands a slot on while a write of its last holder may be in flight."""

    def _hand_over(self, slot: int, stream: int) -> None:
        self._freed.pop(slot, None)


class RadixStreamed(Bookkeeper):
    """A correct cache of requests whose KV is written on several streams.

    Args:
        capacity: slots of the pool.
        clock: answers the time.
    """

    make_pool: ClassVar[type[StreamedPool]] = StreamedPool
    supports: ClassVar[Supports] = {"capacity": [16, 64]}

    def __init__(self, capacity: int = 64, clock: Callable[[], float] | None = None) -> None:
        super().__init__(Radix(clock), self.make_pool(capacity))


class RadixHasty(RadixStreamed):
    """The same on a `HastyPool`: a request may find what another one wrote."""

    make_pool: ClassVar[type[StreamedPool]] = HastyPool
