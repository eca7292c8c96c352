"""The small pool from which the harness hands slots to a target, last in, first out.

A freed slot is the next to be handed out, so that a stale slot in a target soon belongs to another
prefix. Pages are whole and aligned, as paged pools make them: page ``k`` is the slots ``k *
page_size`` and on. Page 0 is never used.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence


class SlotPool:
    """Endless, but greedy: it prefers what came back last over what is new."""

    def __init__(self, page_size: int) -> None:
        self._page_size = page_size
        self._free: list[int] = []
        self._unused = page_size
        self.reused = 0
        """Pages handed out for a second time."""

    def take(self, num_tokens: int) -> list[int]:
        """Return slots for `num_tokens` tokens; a last, partly used page is taken whole."""
        size, free = self._page_size, self._free
        count = -(-num_tokens // size)
        again = min(count, len(free))
        self.reused += again
        pages = free[len(free) - again :]
        pages.reverse()
        del free[len(free) - again :]
        if again < count:
            end = self._unused + (count - again) * size
            pages += range(self._unused, end, size)
            self._unused = end
        if size == 1:
            return pages
        slots: list[int] = []
        for page in pages:
            slots += range(page, page + size)
        return slots[:num_tokens]

    def give(self, slots: Sequence[int]) -> None:
        """Take back slots in the order of their tokens: whole pages, and perhaps a part of one."""
        self._free += slots[:: self._page_size]

    def give_in_any_order(self, slots: Iterable[int]) -> None:
        """Take back whole pages whose slots are shuffled."""
        size = self._page_size
        self._free += slots if size == 1 else [slot for slot in slots if not slot % size]
