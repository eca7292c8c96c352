"""Who holds each slot of a pool: a dictionary, too simple to be wrong.

A slot that is not in it is free. Slots are told apart by their numbers, so that two errors never
cancel out as they do in a sum. What an operation costs depends on its own slots, never on the size
of the pool.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Hashable, Iterable, Sequence
from itertools import repeat
from operator import floordiv
from typing import TypeAlias

Owner: TypeAlias = Hashable


class Ledger:
    """The owner of every slot that is held, and how many more hold it.

    ::

        slot     4    5    6    7    8    9
        owner    h1   h1   h1   -    h2   h2       7 is free
        extra                        1    1        8 and 9 have two holders each

    Args:
        capacity: slots that can be held at once.
        together: so many neighbouring slots are free only when all of them are: the page size of a
            pool whose pages come back in parts, and 1 where slots come and go by whole pages.
    """

    def __init__(self, capacity: int, together: int = 1) -> None:
        self.capacity = capacity
        self.together = together
        self.owner: dict[int, Owner] = {}
        self.extra: dict[int, int] = {}
        """Holders of a slot beyond the first, for pools that count them."""
        self._held: dict[int, int] = {}
        """Held slots of each page that has one."""

    @property
    def free_tokens(self) -> int:
        """Slots that can be handed out: those of pages that nobody holds."""
        pages = self.owner if self.together == 1 else self._held
        return self.capacity - len(pages) * self.together

    def clash(self, slots: Collection[int]) -> list[int]:
        """Return those of `slots` that are held."""
        if self.owner.keys().isdisjoint(slots):
            return []
        return [slot for slot in slots if slot in self.owner]

    def take(self, slots: Sequence[int], owner: Owner) -> None:
        """Let `owner` hold `slots`, which are free."""
        owners = self.owner
        for slot in slots:
            owners[slot] = owner
        if self.together > 1:
            self._count(slots, +1)

    def move(self, slots: Iterable[int], owner: Owner) -> None:
        """Let slots that are held pass to `owner`."""
        owners = self.owner
        for slot in slots:
            owners[slot] = owner

    def share(self, slots: Iterable[int]) -> None:
        """Count one holder more for slots that are held."""
        for slot in slots:
            self.extra[slot] = self.extra.get(slot, 0) + 1

    def give(self, slots: Sequence[int]) -> Sequence[int]:
        """Take one holder off each slot, as often as it is listed; return those that are free now.

        Raises:
            KeyError: a slot is free already.
        """
        freed = [slot for slot in slots if not self._unshare(slot)] if self.extra else slots
        deque(map(self.owner.pop, freed), maxlen=0)
        if self.together > 1:
            self._count(freed, -1)
        return freed

    def waits(self, slot: int) -> bool:
        """Tell whether `slot`, which nobody holds, is not free since its page is held."""
        return slot // self.together in self._held

    def clear(self) -> None:
        """Let everything be free."""
        self.owner.clear()
        self.extra.clear()
        self._held.clear()

    def _unshare(self, slot: int) -> bool:
        """Take a further holder off `slot`, if it has one."""
        if not (more := self.extra.pop(slot, 0)):
            return False
        if more > 1:
            self.extra[slot] = more - 1
        return True

    def _count(self, slots: Iterable[int], sign: int) -> None:
        known = self._held
        for page, slots_of_it in Counter(map(floordiv, slots, repeat(self.together))).items():
            if held := known.pop(page, 0) + sign * slots_of_it:
                known[page] = held
