"""Traffic as an engine's calls of its tree: lock what matches, compute the rest, store it,
unlock."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import NamedTuple

from radixcheck.capabilities import Capabilities
from radixcheck.generate.keys import pick
from radixcheck.operations import (
    AnyOperation,
    DecRef,
    Evict,
    IncRef,
    Insert,
    MatchPrefix,
    Tick,
    Tokens,
)
from radixcheck.workloads.room import Room
from radixcheck.workloads.traffic import Begin, Flow, Request, Terms

ABORTED = 0.1
"""One request in ten goes away before its end, and stores no more."""

TIED = 0.2
"""One request in five begins at the same reading of an injected clock as the one before."""


QUARTERS = (1, 2, 4, 12)
"""An engine has room for so many quarters of the longest prompt: often too little for those who
run, so that evictions meet locks."""


class Held(NamedTuple):
    """A running request, and the handle that it has locked."""

    request: Request
    handle: str


class Engine:
    """Plays an engine that serves traffic with one tree."""

    def __init__(self, rng: Random, capabilities: Capabilities, terms: Terms) -> None:
        self.rng = rng
        self.running: dict[int, Held] = {}
        self._may_hold = capabilities.clock != "own"
        size = capabilities.page_size
        self._room = Room(size, pick(rng, QUARTERS) * terms.longest // 4)
        self._chunk = pick(rng, (2 * size, 3 * size + 1, terms.longest, terms.longest))
        """Tokens of a prompt that are computed at once."""
        self._handles = 0

    def begin(self, number: int, request: Request) -> Iterator[AnyOperation]:
        """Lock what is stored of a prompt, and compute the rest; what is done is stored after each
        chunk but the last::

            |---- stored ----|-- chunk --|-- chunk --|-- last --|
            ^ locked         ^ then      ^ then      ^ then
        """
        if self._may_hold and self.rng.random() < TIED:
            yield Tick(0)
        need = self._room.take(request.namespace, request.prompt)
        yield from self._evict(need.surplus)
        yield from self._lock(number, request, request.prompt)
        for end in range(need.known + self._chunk, len(request.prompt), self._chunk):
            done, handle = request.prompt[:end], self.running[number].handle
            yield Insert(done, request.namespace, lent=handle)
            yield from self._lock(number, request, done)
            yield DecRef(handle)

    def end(self, number: int) -> Iterator[AnyOperation]:
        """Store what a request has computed, unless it was aborted, and unlock."""
        request, handle = self.running.pop(number)
        if self.rng.random() >= ABORTED:
            computed = request.prompt + request.answer
            yield from self._evict(self._room.take(request.namespace, computed).surplus)
            yield Insert(computed, request.namespace, lent=handle)
        yield DecRef(handle)

    def _lock(self, number: int, request: Request, tokens: Tokens) -> Iterator[AnyOperation]:
        self._handles += 1
        handle = f"h{self._handles}"
        self.running[number] = Held(request, handle)
        yield MatchPrefix(tokens, request.namespace, handle)
        yield IncRef(handle)

    def _evict(self, surplus: int) -> Iterator[AnyOperation]:
        if surplus:
            yield Evict(surplus)


def play(
    rng: Random, flow: Flow, capabilities: Capabilities, terms: Terms
) -> Iterator[AnyOperation]:
    """Yield the operations of an engine under this traffic."""
    engine = Engine(rng, capabilities, terms)
    for event in flow:
        if isinstance(event, Begin):
            yield from engine.begin(*event)
        else:
            yield from engine.end(*event)
