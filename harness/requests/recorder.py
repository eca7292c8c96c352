"""The pool as a cache under judgement sees it: every alloc and free goes through the ledger
first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from radixcheck.buffers import make_slots, read_slots
from radixcheck.checker.broken import listed
from radixcheck.pools import answers
from radixcheck.protocol import Pool, Slots
from radixcheck.reference.ledger import Ledger
from radixcheck.requests.request import Request

TREE = "the tree"
"""The owner of what is stored."""

NOBODY = "nobody"
"""The owner of what was taken from the pool while no request was served."""


EVICTS = frozenset(("begin", "append", "evict"))
"""Calls in which a cache may evict."""


INTERRUPTED = "interrupted in the midst of an eviction"


class Interrupted(Exception):
    """An error of the caller's own, raised once in the midst of an eviction."""


class Watched:
    """The pool that a cache under judgement is given: a recorder's methods, and whatever else the
    real pool has.

    It is none of the recorder's own, as a `__getattr__` makes every attribute beside it slow.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._pool = recorder.pool
        self.capabilities = recorder.capabilities
        self.alloc = recorder.alloc
        self.free = recorder.free
        self.available_size = recorder.available_size
        self.add_refs = recorder.add_refs
        self.reset = recorder.reset

    def __getattr__(self, name: str) -> Any:
        """Pass on whatever else the pool has."""
        return getattr(self._pool, name)


class Recorder:
    """Stands between a cache and its `Pool`.

    Args:
        pool: the real one; it is full of free slots.
        running: whose rows name slots, by their names.
        breaks: told every broken rule.
    """

    def __init__(
        self, pool: Pool, running: Mapping[str, Request], breaks: Callable[..., None]
    ) -> None:
        self.capabilities = can = pool.capabilities
        self.ledger = Ledger(can.capacity, can.page_size if can.partial_pages == "counted" else 1)
        self.frees = 0
        """Calls that gave slots back: as long as there is none more, every row names held slots."""
        self.starving = 0
        """So many allocs more are asked for more than there is, to be refused as the pool does."""
        self.interrupting: int | None = None
        """In a call that evicts, the free after so many others raises."""
        self.interrupted = False
        """Whether slots may be left over from an eviction that was interrupted: until all is free
        nobody can tell them from victims."""
        self.evictions = 0
        """Frees of the tree's slots in this call, counted while one is to be interrupted."""
        self.freed: list[int] = []
        """The tree's slots that were freed in this call."""
        self.given: set[int] = set()
        """Slots of the request's own row that were freed in this call."""
        self.taken = 0
        """Slots that were handed out in this call."""
        self.before: int | None = None
        """Free slots before this call, if it has freed any."""
        self.owned = 0
        """Slots that the request that is served owned before this call."""
        self.refused = 0
        """Allocs that were refused in this call although there was enough."""
        self.counts = hasattr(pool, "available_size")
        """Whether the pool can tell how many slots are free."""
        self.reused = 0
        """Allocs whose first slot another request had before."""
        self._past: dict[int, str] = {}
        """Who had a slot last that was the first of an alloc."""
        self.pool = pool
        """The real one."""
        self._range = range(can.reserved, can.end)
        self._size, self._ordered = can.page_size, can.ordered
        self._running = running
        self._breaks = breaks
        self._request: Request | None = None
        self._method = ""
        in_tensors = can.slots_as == "torch"
        self._read = partial(answers.read, can=can) if in_tensors else read_slots

    def serve(self, request: Request | None, method: str) -> None:
        """A call begins; what it takes is for `request`."""
        self._request, self._method = request, method
        self.taken, self.refused, self.evictions, self.before = 0, 0, 0, None
        self.owned = len(request.own) if request is not None else 0
        if self.freed or self.given:
            self.freed, self.given = [], set()

    # ---- the pool's methods --------------------------------------------------------------

    def alloc(self, num_tokens: int) -> Slots | None:
        """Hand out slots, and see whose they were."""
        if self.starving:
            self.starving -= 1
            self.refused += num_tokens <= self.ledger.free_tokens
            num_tokens = self.capabilities.capacity + self._size
        answer = self.pool.alloc(num_tokens)
        if answer is not None:
            self._took(self._read(answer), num_tokens)
        return answer

    def free(self, slots: Slots) -> None:
        """Take slots back, and see who still needs them."""
        numbers = read_slots(slots)
        if self.interrupting is not None and self._evicts(numbers):
            self._interrupt()
        self._gave(numbers)
        self.pool.free(slots)

    def available_size(self) -> int:
        """Pass on how many slots the pool says are free."""
        return self.pool.available_size()

    def add_refs(self, slots: Slots) -> None:
        """Count one holder more for each slot."""
        numbers = read_slots(slots)
        if ghosts := [slot for slot in numbers if slot not in self.ledger.owner]:
            self._breaks("use-after-free", "slots that are held", listed(ghosts))
        self.ledger.share(numbers)
        self.pool.add_refs(slots)

    def reset(self) -> None:
        """Take everything back, if need be slot by slot."""
        held = sorted(self.ledger.owner)
        self.ledger.clear()
        self.interrupted = False
        self.frees += 1
        if hasattr(self.pool, "reset"):
            self.pool.reset()
        elif held:
            can = self.capabilities
            self.pool.free(make_slots(can.slots_as, held, can.device))

    # ---- the ledger ----------------------------------------------------------------------

    def adopt(self, slots: Iterable[int]) -> None:
        """A request's own slots are the tree's from now on."""
        self.ledger.move(slots, TREE)

    def _took(self, slots: list[int], num_tokens: int) -> None:
        fresh, ledger, request = set(slots), self.ledger, self._request
        if not self._plainly_good(slots, fresh, num_tokens):
            for broken in answers.faults(slots, num_tokens, ledger, self.capabilities):
                self._breaks(*broken)
        self.taken += len(slots)
        owner = NOBODY
        if request is not None:
            owner = request.name
            request.own |= fresh
        ledger.take(slots, owner)
        if slots and self._past.setdefault(first := slots[0], owner) != owner:
            self._past[first] = owner
            self.reused += 1

    def _plainly_good(self, slots: Sequence[int], fresh: set[int], num_tokens: int) -> bool:
        """Tell at a glance that nothing is wrong, where that can be told at a glance."""
        if self._ordered or not len(slots) == num_tokens == len(fresh):
            return False
        if num_tokens == 1:  # a decode
            return self._size == 1 and slots[0] in self._range and slots[0] not in self.ledger.owner
        return (
            self.ledger.owner.keys().isdisjoint(fresh)
            and not (fresh and (min(fresh) < self._range.start or max(fresh) >= self._range.stop))
            and (self._size == 1 or not answers.torn(slots, self._size))
        )

    def _gave(self, slots: Sequence[int]) -> None:
        ledger = self.ledger
        if self.before is None:
            self.before = ledger.free_tokens + self.taken
        if ledger.extra:
            slots = self._last_holders(slots)
        unique, owners = set(slots), set(map(ledger.owner.get, slots))
        if None in owners or len(unique) < len(slots):
            slots, owners = self._held_once(slots)
        self._see_readers(unique)
        if self._request:
            self._request.own -= unique
            self.given |= unique & self._request.named
        self.freed += self._victims(slots, owners)
        if owners != {TREE}:
            self._see_strangers(slots, owners)
        self.frees += 1
        ledger.give(slots)

    def _victims(self, slots: Sequence[int], owners: set[Any]) -> Sequence[int]:
        """Return which slots the tree lets go: not what the request that is served gives up."""
        named = self._request.named if self._request else set[int]()
        if owners == {TREE} and named.isdisjoint(slots):
            return slots
        owner = self.ledger.owner
        return [slot for slot in slots if owner[slot] == TREE and slot not in named]

    def _evicts(self, slots: Sequence[int]) -> bool:
        """Tell whether slots are freed because they were evicted."""
        return self._method in EVICTS and set(map(self.ledger.owner.get, slots)) == {TREE}

    def _interrupt(self) -> None:
        """Raise, if enough was freed before in this call."""
        self.evictions += 1
        if self.evictions > (self.interrupting or 0):
            self.interrupting, self.interrupted = None, True
            raise Interrupted(INTERRUPTED)

    def _last_holders(self, slots: Sequence[int]) -> list[int]:
        """Take one holder off where there are more, and return the slots that had no more."""
        extra, last = self.ledger.extra, list[int]()
        for slot in slots:
            if more := extra.pop(slot, 0):
                extra.update({slot: more - 1} if more > 1 else {})
            else:
                last.append(slot)
        return last

    def _held_once(self, slots: Sequence[int]) -> tuple[list[int], set[Any]]:
        """See which slots are free already; return the others, once each, and their owners."""
        owner = self.ledger.owner
        twice = [slot for slot, times in Counter(slots).items() if times > 1 or slot not in owner]
        self._breaks("double-free", "slots that are held, once each", listed(twice))
        held = [slot for slot in dict.fromkeys(slots) if slot in owner]
        return held, {owner[slot] for slot in held}

    def _see_readers(self, slots: set[int]) -> None:
        """See whether slots are freed that were lent to a running request. The one that is served
        is judged by the row that it tells after the call."""
        for request in self._running.values():
            if request is self._request:
                continue
            lent = request.row[: request.lent]
            if not slots.isdisjoint(lent):
                read = [slot for slot in lent if slot in slots]
                self._breaks(
                    "use-after-free",
                    "slots that no running request names",
                    listed(read),
                    f"slot {read[0]} is freed while {request.name}, which is running, names it",
                )
                return

    def _see_strangers(self, slots: Sequence[int], owners: set[Any]) -> None:
        """See whether slots are freed that the row of a request names which is not being served.

        What it has taken ahead may be taken back, as long as its row never names it.
        """
        owner = self.ledger.owner
        for other in [self._running[name] for name in owners if name in self._running]:
            if other is self._request:
                continue
            theirs = [slot for slot in slots if owner[slot] == other.name]
            if read := other.named.intersection(theirs):
                self._breaks(
                    "use-after-free",
                    "slots that no running request names",
                    listed(slots),
                    f"slot {min(read)} is {other.name}'s own",
                )
            other.own.difference_update(theirs)
