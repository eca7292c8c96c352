"""Requests, and the order in which they begin and end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import NamedTuple, TypeAlias

from radixcheck.operations import Namespace, Tokens


class Request(NamedTuple):
    """What is asked, and what will be answered."""

    prompt: Tokens
    answer: Tokens
    namespace: Namespace = ()


class Begin(NamedTuple):
    """A request begins, and gets a number that no other has."""

    number: int
    request: Request


class End(NamedTuple):
    """The request of this number has its answer."""

    number: int


Flow: TypeAlias = Iterator[Begin | End]
Batch: TypeAlias = Sequence[Request]
"""Requests that run together."""


class Terms(NamedTuple):
    """What a workload must fit."""

    page_size: int
    longest: int
    """Tokens of the longest prompt."""
    namespaces: Sequence[Namespace] = ((),)

    @property
    def unit(self) -> int:
        """So many tokens stand for a page of text: a page, or a few tokens where a page is one."""
        return min(max(self.page_size, 4), max(1, self.longest // 16))


Workload: TypeAlias = Callable[[Random, Terms, int], Flow]
"""Called with the only source of chance, the terms, and how many requests earlier traces have had,
from where a recording goes on."""


def interleaved(rng: Random, begun: Callable[[], Iterator[Batch]], lines: int) -> Flow:
    """Let so many lines run beside each other, without end. A line goes on with its next batch when
    the last is answered, and a line that is over makes room for a new one::

        line 1   ──a──  ──b──      ──c──
        line 2     ──d──────   ──e──
                        ──f──
    """
    numbers = count(1)
    running: list[list[int]] = [[] for _ in range(lines)]
    rest = [begun() for _ in range(lines)]
    while True:
        line = int(rng.random() * lines)
        if running[line]:
            yield End(running[line].pop(int(rng.random() * len(running[line]))))
        elif batch := next(rest[line], ()):
            for request, number in zip(batch, numbers, strict=False):
                running[line].append(number)
                yield Begin(number, request)
        else:
            rest[line] = begun()


def timed(requests: Iterable[tuple[float, float, Request]]) -> Flow:
    """Order requests by the times at which they begin and end; they come sorted by the first."""
    running: list[tuple[float, int]] = []
    for number, (begins, ends, request) in enumerate(requests, start=1):
        while running and running[0][0] <= begins:
            yield End(heappop(running)[1])
        yield Begin(number, request)
        heappush(running, (ends, number))
    while running:
        yield End(heappop(running)[1])


def first(flow: Flow, num_requests: int) -> Flow:
    """Yield what happens until so many requests have begun, and then the end of all that run."""
    running: dict[int, None] = {}
    left = num_requests
    for event in flow:
        if isinstance(event, End):
            del running[event.number]
        elif left:
            left -= 1
            running[event.number] = None
        else:
            break
        yield event
    yield from map(End, running)
