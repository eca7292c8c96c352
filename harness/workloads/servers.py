"""Traffic as a server passes it to a cache of requests: arrive, be admitted, compute, decode,
finish."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import NamedTuple

from radixcheck.capabilities import Capabilities
from radixcheck.generate.keys import pick
from radixcheck.operations import (
    Abort,
    Admit,
    AnyOperation,
    Arrive,
    Decode,
    Finish,
    MatchRequest,
    Prefill,
)
from radixcheck.workloads.room import Room
from radixcheck.workloads.traffic import Begin, Flow, Request, Terms

ABORTED = 0.1
"""One request in ten goes away before its end."""

MATCHED = 0.3
"""Three requests in ten are looked up while they wait."""


class Running(NamedTuple):
    """A request that was let in, and the slots that it claims."""

    request: Request
    claim: int


class Server:
    """Plays a server that lets nobody in for whom it believes there is no room."""

    def __init__(self, rng: Random, page_size: int, capacity: int) -> None:
        self.rng = rng
        self.running: dict[int, Running] = {}
        self._page_size = page_size
        self._left = capacity - page_size
        """Slots that nobody claims; one page always stays over."""
        self._room = Room(page_size, capacity)
        self._chunk = pick(rng, (2 * page_size, 3 * page_size + 1, capacity, capacity))

    def begin(self, number: int, request: Request) -> Iterator[AnyOperation]:
        """Let a request in, once the first who run have made room for it."""
        prompt = request.prompt
        known = self._room.take(request.namespace, prompt).known
        claim = self._rounded(len(prompt) + len(request.answer) - known)
        while self.running and claim > self._left:
            yield from self.end(next(iter(self.running)))
        self._left -= claim
        self.running[number] = Running(request, claim)
        name = f"r{number}"
        yield Arrive(name, prompt, len(request.answer), request.namespace)
        if self.rng.random() < MATCHED:
            yield MatchRequest(name)
        yield Admit(name)
        for _ in range(known + self._chunk, len(prompt), self._chunk):
            yield Prefill(name, self._chunk)
        yield Prefill(name)

    def end(self, number: int) -> Iterator[AnyOperation]:
        """Let a request say its answer and go; it may have been sent away before."""
        if number not in self.running:
            return
        (_, answer, _), claim = self.running.pop(number)
        self._left += claim
        aborted = self.rng.random() < ABORTED
        said = answer[: int(self.rng.random() * len(answer))] if aborted else answer
        name = f"r{number}"
        for token in said:
            yield Decode(name, token)
        yield Abort(name) if aborted else Finish(name)

    def _rounded(self, num_tokens: int) -> int:
        """Return the slots of all whole and begun pages."""
        return -(-num_tokens // self._page_size) * self._page_size


def play(
    rng: Random, flow: Flow, capabilities: Capabilities, terms: Terms
) -> Iterator[AnyOperation]:
    """Yield the operations of a server under this traffic."""
    server = Server(rng, capabilities.page_size, 2 * terms.longest)
    for event in flow:
        if isinstance(event, Begin):
            yield from server.begin(*event)
        else:
            yield from server.end(*event)
