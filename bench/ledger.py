"""What it costs to see every slot: requests of 64 tokens, bare and judged, in pools of 10**3 to
10**6 slots.

    python bench/ledger.py

Bare are the calls that a cache of requests gets; judged is all of the ledger, the rows that are
read, and the content oracle. Each request counts by the quickest of its lives, as other work on the
machine disturbs now one and now another; and the pools take turns, so that a slow minute is a slow
minute for all. Exits 1 if a figure is above its bar.
"""

from __future__ import annotations

import sys
import time
from array import array
from collections.abc import Callable, Sequence
from itertools import pairwise, product
from random import Random
from typing import Any, TypeAlias

from radixcheck.clock import Clock
from radixcheck.collecting import rare_collections
from radixcheck.operations import Admit, AnyOperation, Arrive, Decode, Finish, Prefill
from radixcheck.requests import Checker
from radixcheck.targets.bookkeeper import RadixRequests

CAPACITIES = (10**3, 10**4, 10**5, 10**6)
PAGE_SIZES = (1, 16)
REQUESTS = 300
PROMPT_TOKENS, ANSWER_TOKENS = 56, 9
"""The last token of an answer has no slot: 64 slots at the end."""

BAR_US = 20.0
FLAT_BAR = 1.5
TRIES = 9

Times: TypeAlias = list[float]
"""Seconds of processor time, one per request."""


def lives() -> list[Arrive]:
    """Return requests of which every other one shares its prompt with an earlier one."""
    rng = Random(1)
    fresh = [tuple(rng.randrange(30_000) for _ in range(PROMPT_TOKENS)) for _ in range(REQUESTS)]
    prompts = [fresh[place - place % 2] for place in range(REQUESTS)]
    return [Arrive(f"r{place}", prompt, 100) for place, prompt in enumerate(prompts)]


def operations(arrival: Arrive) -> list[AnyOperation]:
    """Return what one request does."""
    name = arrival.request
    decodes = [Decode(name, token) for token in range(ANSWER_TOKENS)]
    return [arrival, Admit(name), Prefill(name), *decodes, Finish(name)]


def timed(do: Callable[[Any], object], all_of: Sequence[Any]) -> Times:
    """Return how long each takes."""
    marks = [time.process_time()]
    for each in all_of:
        do(each)
        marks.append(time.process_time())
    return [after - before for before, after in pairwise(marks)]


def judged(page_size: int, capacity: int) -> Times:
    """Time all operations of each request under the judge."""
    checker = Checker(RadixRequests(page_size=page_size, capacity=capacity), Clock())
    broken: list[AnyOperation] = []

    def live(todo: list[AnyOperation]) -> None:
        broken.extend(each for each in todo if checker.apply(each))

    times = timed(live, [operations(arrival) for arrival in lives()])
    assert (broken, checker.skipped.total()) == ([], 0)
    return times


def bare(page_size: int, capacity: int) -> Times:
    """Time the same calls without a judge."""
    cache = RadixRequests(page_size=page_size, capacity=capacity)
    keys = [array("q", [*arrival.tokens, *range(ANSWER_TOKENS)]) for arrival in lives()]
    names = [arrival.request for arrival in lives()]
    return timed(lambda life: serve(cache, *life), list(zip(names, keys, strict=True)))


def serve(cache: RadixRequests, name: str, key: array[int]) -> None:
    """Let one request run from its admission to its end; its row is read as an engine reads it."""
    matched = cache.begin(name, key[:PROMPT_TOKENS])
    cache.table(name)
    cache.append(name, key[:PROMPT_TOKENS], PROMPT_TOKENS - matched)
    cache.publish(name)
    cache.table(name)
    for stop in range(PROMPT_TOKENS + 1, len(key)):
        cache.append(name, key[:stop], 1)
        cache.table(name)
    cache.end(name, key)


def costs_us() -> dict[tuple[int, int], tuple[float, float]]:
    """Return microseconds per operation, bare and on top of that, by page size and capacity."""
    tries: dict[tuple[int, int], list[tuple[Times, Times]]] = {
        pool: [] for pool in product(PAGE_SIZES, CAPACITIES)
    }
    for _ in range(TRIES):
        for pool, times in tries.items():
            times.append((bare(*pool), judged(*pool)))
    return {pool: _cost_us(times) for pool, times in tries.items()}


def _cost_us(tries: Sequence[tuple[Times, Times]]) -> tuple[float, float]:
    quickest = [sum(map(min, *times)) for times in zip(*tries, strict=True)]
    without, with_it = (each / (REQUESTS * (ANSWER_TOKENS + 4)) * 1e6 for each in quickest)
    return without, with_it - without


@rare_collections()
def main() -> int:
    """Measure each page size in each pool, and tell whether all are below their bars."""
    good = True
    measured = costs_us()
    for page_size in PAGE_SIZES:
        costs = {capacity: measured[page_size, capacity] for capacity in CAPACITIES}
        for capacity, (without, on_top) in costs.items():
            good &= on_top <= BAR_US
            print(
                f"page {page_size}, {capacity:,} slots: {without:.1f} us bare, judged "
                f"{on_top:.1f} us more (bar {BAR_US:.0f})"
            )
        spread = max(each for _, each in costs.values()) / min(each for _, each in costs.values())
        good &= spread <= FLAT_BAR
        print(f"page {page_size}, largest over smallest: {spread:.2f} (bar {FLAT_BAR})")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
