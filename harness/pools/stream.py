"""From a seed to the operations of a pool.

How much is free after each operation does not depend on which slots a pool chooses, so the caller
that is played here counts along, and knows when the pool is full, short or empty. It looks at no
answer: the same seed gives the same trace for every pool and every run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import TypeAlias

from radixcheck.capabilities import PoolCapabilities
from radixcheck.generate.keys import pick
from radixcheck.generate.rounds import ROUNDS
from radixcheck.generate.stream import ROUNDS_EVERY
from radixcheck.operations import AddRefs, Alloc, AnyOperation, Audit, Free, Reset, Weigh
from radixcheck.pools.books import Books

Story: TypeAlias = Iterator[AnyOperation]

FEW_PAGES = (1, 1, 1, 2, 2, 3, 5, 8)
SOME_PAGES: tuple[int, ...] = (*range(1, 18), 32, 33)
"""Either side of where a bulk path may begin."""

MOST_HOLDERS = 8

LARGE = 1 << 15
LARGE_PER_TRACE = 1
"""An operation on more slots than `LARGE` takes a while, so that a trace has few of them: a run
looks at its time limit between traces."""

SWARM_FACTORS = (0, 0, 1, 1, 3)
"""A swarm mix multiplies each weight by one of these."""


class Caller:
    """Plays a caller that knows what it holds."""

    def __init__(self, rng: Random, capabilities: PoolCapabilities) -> None:
        self.rng = rng
        self.can = capabilities
        self.size = capabilities.page_size
        self.unit = 1 if capabilities.partial_pages == "counted" else self.size
        """So many slots come back together."""
        self.books = Books(capabilities.capacity, self.size)
        self._names = 0
        self._large_left = LARGE_PER_TRACE

    # ---- alloc ---------------------------------------------------------------------------

    def alloc(self) -> Story:
        """Take a few pages, or what is left of them."""
        wanted = self.size * self._pages()
        yield self._alloc(min(wanted, self.books.free) if self.rng.random() < 0.7 else wanted)

    def alloc_all(self) -> Story:
        """Take all that is free; then there is nothing for the next one."""
        if self._affords(self.books.free):
            yield self._alloc(self.books.free)
            if self.rng.random() < 0.5:
                yield self._alloc(self.size)

    def alloc_too_much(self) -> Story:
        """Ask for a page more than is free, and then for what is."""
        yield self._alloc(self.books.free + self.size * pick(self.rng, (1, 1, 2, 50)))
        yield self._alloc(min(self.books.free, self.size * self._pages()))

    def alloc_nothing(self) -> Story:
        """Ask for no slot."""
        yield Alloc(0)

    # ---- free ----------------------------------------------------------------------------

    def give_back(self) -> Story:
        """Take one holder off all that some alloc answered."""
        if self.books.held:
            yield self._free(self._any())

    def in_parts(self) -> Story:
        """Give back the front, the end or the middle of what some alloc answered."""
        if self.books.held:
            handle = self._any()
            yield self._free(handle, *self._part(handle))

    def drain(self) -> Story:
        """Give everything back, in any order."""
        for handle in sorted(self.books.held, key=lambda _: self.rng.random()):
            yield from self._free_all(handle)

    def churn(self) -> Story:
        """Take the whole pool in one piece, and give it back in one."""
        if self._affords(self.books.capacity):
            yield from self.drain()
            yield self._alloc(self.books.capacity)
            if self.rng.random() < 0.5:
                yield self._alloc(self.size)
                yield self._free(f"h{self._names - 1}")
            else:
                yield self._free(self._last())

    # ---- several holders -----------------------------------------------------------------

    def share(self) -> Story:
        """Let a second holder come, and go before the first or after it."""
        if self.books.held:
            handle = self._any()
            if not self._affords(self._span(handle)):
                return
            yield self._add_refs(handle)
            if self.rng.random() < 0.4:
                yield self._free(handle, times=2)
                return
            yield self._free(handle)
            yield self._alloc(min(self.size, self.books.free))
            if self.rng.random() < 0.5:
                yield self._free(handle)

    def share_on(self) -> Story:
        """Let one to three holders come to all or a part of what some alloc answered, and stay."""
        if self.books.held:
            handle = self._any()
            whole = self.rng.random() < 0.5 and self._affords(self._span(handle))
            part = (0, None) if whole else self._part(handle)
            for _ in range(pick(self.rng, (1, 1, 2, 3))):
                if self.books.holders(handle) < MOST_HOLDERS:
                    yield self._add_refs(handle, *part)

    def unshare(self) -> Story:
        """Let all holders of what some alloc answered go."""
        if self.books.held:
            yield from self._free_all(max(self.books.held, key=self.books.holders))

    def reset(self) -> Story:
        """Take everything back, while some of it is held."""
        yield self._alloc(min(self.size, self.books.free))
        if self._shares(self._last()):
            yield self._add_refs(self._last())
        yield Reset()
        self.books.clear()

    # ---- what no caller should do --------------------------------------------------------

    def free_again(self) -> Story:
        """Give something back twice, and see what the pool hands out then."""
        yield self._alloc(self.size)
        yield self._free(self._last())
        yield Free(self._last())
        if self._affords(self.books.free):
            yield self._alloc(self.books.free)

    def free_outside(self) -> Story:
        """Give back what was never handed out."""
        yield Free(start=self._nowhere())

    def list_twice(self) -> Story:
        """List what is held in one free, once more than it is held."""
        yield self._alloc(self.size)
        handle = self._last()
        if self._shares(handle) and self.rng.random() < 0.5:
            yield self._add_refs(handle)
        yield Free(handle, times=1 + max(1, self.books.holders(handle)))
        yield from self._free_all(handle)

    def half_good(self) -> Story:
        """List what is held, and behind it what was never handed out."""
        yield self._alloc(self.size * pick(self.rng, FEW_PAGES))
        if (handle := self._last()) in self.books.held:
            _, stop = self.books.extent(handle)
            yield Free(handle, 0, stop + 1 + self._nowhere())
            yield self._free(handle)

    # ---- inside --------------------------------------------------------------------------

    def _pages(self) -> int:
        """Draw a number of pages: mostly few, at times any that are free."""
        draw, free = self.rng.random(), self.books.free // self.size
        if draw < 0.6:
            return pick(self.rng, FEW_PAGES)
        if draw < 0.85:
            return pick(self.rng, SOME_PAGES)
        return 1 + int(self.rng.random() * min(free, LARGE // self.size))

    def _part(self, handle: str) -> tuple[int, int]:
        """Draw places at the front, at the end, or anywhere in what is held of a handle."""
        start, stop = self.books.extent(handle)
        units = (stop - start) // self.unit
        length = 1 + int(self.rng.random() * min(units, LARGE))
        skipped = pick(self.rng, (0, units - length, int(self.rng.random() * (units - length + 1))))
        first = start + self.unit * skipped
        return first, first + self.unit * length

    def _span(self, handle: str) -> int:
        start, stop = self.books.extent(handle)
        return stop - start

    def _nowhere(self) -> int:
        """Draw a page that the pool never hands out: one of its ends, or a reserved one."""
        return int(self.rng.random() * (3 + min(16, self.can.reserved // self.size)))

    def _shares(self, handle: str) -> bool:
        """Tell whether what an alloc answered may get another holder."""
        return self.can.ownership == "counted" and handle in self.books.held

    def _affords(self, num_tokens: int) -> bool:
        """Tell whether so many slots may be taken at once, once more in this trace."""
        if num_tokens > LARGE:
            self._large_left -= 1
        return num_tokens <= LARGE or self._large_left >= 0

    def _alloc(self, num_tokens: int) -> AnyOperation:
        self._names += 1
        if 0 < num_tokens <= self.books.free:
            self.books.take(self._last(), num_tokens)
        return Alloc(num_tokens, self._last())

    def _free(
        self, handle: str, start: int = 0, stop: int | None = None, times: int = 1
    ) -> AnyOperation:
        self.books.change(handle, start, self.books.capacity if stop is None else stop, -times)
        return Free(handle, start, stop, times)

    def _free_all(self, handle: str) -> Story:
        while runs := self.books.held.get(handle):
            yield self._free(handle, times=runs[0][2] if self.rng.random() < 0.5 else 1)

    def _add_refs(self, handle: str, start: int = 0, stop: int | None = None) -> AnyOperation:
        self.books.change(handle, start, self.books.capacity if stop is None else stop, +1)
        return AddRefs(handle, start, stop)

    def _any(self) -> str:
        return pick(self.rng, list(self.books.held))

    def _last(self) -> str:
        return f"h{self._names}"


STORIES: dict[str, tuple[int, Callable[[Caller], Story]]] = {
    "alloc": (16, Caller.alloc),
    "alloc-all": (3, Caller.alloc_all),
    "alloc-too-much": (3, Caller.alloc_too_much),
    "alloc-nothing": (1, Caller.alloc_nothing),
    "give-back": (12, Caller.give_back),
    "in-parts": (6, Caller.in_parts),
    "drain": (2, Caller.drain),
    "churn": (2, Caller.churn),
    "share": (4, Caller.share),
    "share-on": (6, Caller.share_on),
    "unshare": (3, Caller.unshare),
    "reset": (1, Caller.reset),
    "free-again": (3, Caller.free_again),
    "free-outside": (3, Caller.free_outside),
    "list-twice": (2, Caller.list_twice),
    "half-good": (3, Caller.half_good),
}
"""How often each occurs in the plain mix, and what it is."""

SHARING = {"share", "share-on", "unshare"}
MISUSE = {"free-again", "free-outside", "list-twice", "half-good"}


def generate(
    seed: int,
    capabilities: PoolCapabilities,
    num_operations: int,
    *,
    swarm: bool = False,
    misuse: bool = False,
    capacity: int | None = None,
) -> tuple[AnyOperation, ...]:
    """Return about `num_operations` operations of a pool, and an audit at the end.

    Args:
        seed: the same seed and capabilities give the same operations.
        swarm: leave much out, and do more of the rest.
        misuse: also free what is not held.
        capacity: means nothing here, as the capabilities tell it.
    """
    rng = Random(seed)
    if capabilities.storage == "present" and rng.random() * ROUNDS_EVERY < 1:
        return (*_rounds(capabilities.page_size), Audit(seed & 0xFFFF))
    table = _mix(rng if swarm else None, _possible(capabilities, misuse=misuse))
    caller = Caller(rng, capabilities)
    operations: list[AnyOperation] = []
    idle = 0
    while len(operations) < num_operations and idle < num_operations:
        before = len(operations)
        operations += pick(rng, table)(caller)
        idle += len(operations) == before
    operations.append(Audit(seed & 0xFFFF))
    return tuple(operations)


def _rounds(page_size: int) -> Story:
    """Take a page and keep it, take some more and give them back, and weigh: again and again."""
    yield Weigh()
    for number in range(ROUNDS):
        yield Alloc(page_size, f"s{2 * number + 1}")
        yield Alloc(2 * page_size, f"s{2 * number + 2}")
        yield Free(f"s{2 * number + 2}")
        yield Weigh()


def _possible(can: PoolCapabilities, *, misuse: bool) -> dict[str, int]:
    left_out = set() if can.ownership == "counted" else SHARING
    if not misuse and can.misuse == "unspecified":
        left_out = left_out | MISUSE
    return {name: weight for name, (weight, _) in STORIES.items() if name not in left_out}


def _mix(rng: Random | None, weights: dict[str, int]) -> list[Callable[[Caller], Story]]:
    """Return the stories, each as often as it is to be drawn."""
    if rng is not None:
        some = {name: each * pick(rng, SWARM_FACTORS) for name, each in weights.items()}
        weights = {**some, "alloc": max(1, some["alloc"])}
    return [STORIES[name][1] for name, weight in weights.items() for _ in range(weight)]
