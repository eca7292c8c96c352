"""What the caller of a generated trace holds, and so how much of the pool is free.

It follows from the operations alone, as which slots a pool chooses makes no difference to it::

    h1   places 0 1 2 3 4 5 6 7        one run, held once
    AddRefs("h1", 2, 4)    0 1 | 2 3 | 4 5 6 7      three runs, held once, twice, once
    Free("h1", 0, 3)             2 | 3 | 4 5 6 7    held once, twice, once
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

Run: TypeAlias = tuple[int, int, int]
"""Places ``[start, stop)`` of what an alloc answered, and how many hold each."""


class Books:
    """Every handle of which something is held, with the runs of places that are.

    Args:
        capacity: slots of the pool, all of them free.
        page_size: a page is free when no place in it is held.
    """

    def __init__(self, capacity: int, page_size: int) -> None:
        self.capacity = self.free = capacity
        self.page_size = page_size
        self.held: dict[str, list[Run]] = {}
        """The runs of each handle, in ascending order."""

    def take(self, handle: str, num_tokens: int) -> None:
        """Hold what an alloc of so many tokens answered."""
        self.held[handle] = [(0, num_tokens, 1)]
        self.free -= num_tokens

    def change(self, handle: str, start: int, stop: int, holders: int) -> None:
        """Count so many holders more, or fewer, for the places of ``[start, stop)`` that are held
        often enough."""
        before = self.held.pop(handle, [])
        after = list(_changed(before, start, stop, holders))
        self.free += self._tokens(before) - self._tokens(after)
        if after:
            self.held[handle] = after

    def clear(self) -> None:
        """Hold nothing."""
        self.held.clear()
        self.free = self.capacity

    def extent(self, handle: str) -> tuple[int, int]:
        """Return where the first and the last run of a handle begin and end."""
        runs = self.held[handle]
        return runs[0][0], runs[-1][1]

    def holders(self, handle: str) -> int:
        """Count the holders of the place that has most of them."""
        return max((times for _, _, times in self.held.get(handle, ())), default=0)

    def _tokens(self, runs: Sequence[Run]) -> int:
        """Count the tokens of all pages that `runs` touch."""
        pages = done = 0
        for start, stop, _ in runs:
            first, end = max(start // self.page_size, done), -(-stop // self.page_size)
            pages += max(0, end - first)
            done = max(done, end)
        return pages * self.page_size


def _changed(runs: Sequence[Run], start: int, stop: int, holders: int) -> Iterator[Run]:
    for first, last, times in runs:
        low, high = max(first, start), min(last, stop)
        if low >= high or times + holders < 0:
            yield first, last, times
            continue
        parts = (first, low, times), (low, high, times + holders), (high, last, times)
        yield from (part for part in parts if part[0] < part[1] and part[2])
