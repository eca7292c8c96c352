"""Correct pools in plain Python: one holder per slot, counted holders, and pages.

All three hand out the slots ``[reserved, reserved + capacity)``, what came back last first, and
refuse what no caller should ask for, without effect.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from radixcheck.capabilities import PoolCapabilities
from radixcheck.protocol import Refused, Slots, Supports


class PoolExclusive:
    """A pool in which every slot has one holder.

    Args:
        capacity: slots that can be held at once; slot 0 is reserved, as padding needs one.

    Raises:
        ValueError: there is not a single page.
    """

    promises: ClassVar[Mapping[str, Any]] = {}
    """What a subclass promises differently."""
    supports: ClassVar[Supports] = {"capacity": [8, 64, 512]}

    def __init__(self, capacity: int = 64) -> None:
        self._open(capacity, 1)

    def _open(self, capacity: int, page_size: int) -> None:
        if capacity < page_size:
            raise ValueError(f"capacity={capacity}: a page has {page_size} slots")
        known: dict[str, Any] = {
            "capacity": capacity // page_size * page_size,
            "page_size": page_size,
            "reserved": page_size,
            "misuse": "raises",
            "deterministic": True,
        }
        self.capabilities = PoolCapabilities(**{**known, **self.promises})
        self.reset()

    def reset(self) -> None:
        """Take everything back."""
        can = self.capabilities
        self._free = list(range(can.reserved, can.end, can.page_size))[::-1]
        self._held: Counter[int] = Counter()

    def alloc(self, num_tokens: int) -> list[int]:
        """Hand out `num_tokens` slots, the last that came back first."""
        size = self.capabilities.page_size
        pages = self._take(num_tokens // size)
        slots = [slot for page in pages for slot in range(page, page + size)]
        self._held.update(slots)
        return slots

    def free(self, slots: Slots) -> None:
        """Take one holder off each slot; what has none left is free."""
        back = Counter(map(int, slots))
        if strange := [slot for slot, times in back.items() if self._held[slot] < times]:
            raise Refused(f"not held: {strange}")
        self._held.subtract(back)
        for slot in back:
            if not self._held[slot]:
                del self._held[slot]
        self._put(self._idle_pages(back))

    def available_size(self) -> int:
        """Count the free slots."""
        return len(self._free) * self.capabilities.page_size

    def _take(self, count: int) -> Sequence[int]:
        """Take the first slots of so many free pages."""
        if count > len(self._free):
            raise Refused(f"{count} pages: {len(self._free)} are free")
        return [self._free.pop() for _ in range(count)]

    def _put(self, pages: Iterable[int]) -> None:
        """Take pages back, the first of them to be handed out first."""
        self._free += reversed(list(pages))

    def _idle_pages(self, slots: Iterable[int]) -> list[int]:
        """Return the pages of `slots` of which no slot is held, each by its first slot."""
        size = self.capabilities.page_size
        pages = dict.fromkeys(slot // size * size for slot in slots)
        return [page for page in pages if self._held.keys().isdisjoint(range(page, page + size))]


class PoolCounted(PoolExclusive):
    """A pool that counts the holders of every slot: a freed one is free when the last has gone."""

    promises: ClassVar[Mapping[str, Any]] = {"ownership": "counted"}

    def add_refs(self, slots: Slots) -> None:
        """Count one holder more for slots that are held."""
        more = Counter(map(int, slots))
        if strange := [slot for slot in more if slot not in self._held]:
            raise Refused(f"free: {strange}")
        self._held.update(more)


class PoolPaged(PoolExclusive):
    """A pool of pages: slots come by whole pages, and go by any parts of them.

    ::

        alloc(8)         page 1: 4 5 6 7    page 2: 8 9 10 11
        free([4 ... 9])  page 1 is free     page 2 is held by 10 and 11
        free([10, 11])                      page 2 is free, once

    Args:
        capacity: slots that can be held at once; what fills no page is never used.
    """

    promises: ClassVar[Mapping[str, Any]] = {"partial_pages": "counted"}
    supports: ClassVar[Supports] = {"page_size": [1, 4, 16], "capacity": [64, 512]}

    def __init__(self, page_size: int = 4, capacity: int = 64) -> None:
        self._open(capacity, page_size)
