"""Traces of requests: the same for the same seed, and full of what matters."""

from __future__ import annotations

from collections import Counter

import pytest

from radixcheck.arena import arenas, missing
from radixcheck.capabilities import Capabilities
from radixcheck.drivers.swarm import proposals
from radixcheck.levels import LEVELS
from radixcheck.operations import Schedule
from radixcheck.registry import resolve
from radixcheck.requests import SITUATIONS, generate
from radixcheck.verdict import check

PAGED = Capabilities(page_size=4, namespaces="structured", interrupted_evict="loses-nothing")
LONG = 4000
OF_THE_QUEUE = {"queue-reordered", "deferred", "admission-undone"}
"""Situations that are not required of every target, but reached all the same."""


def test_the_same_seed_is_the_same_trace() -> None:
    assert generate(7, PAGED, 100) == generate(7, PAGED, 100)


def test_another_seed_is_another_trace() -> None:
    assert generate(7, PAGED, 100) != generate(8, PAGED, 100)


def test_a_trace_is_made_of_all_operations_of_its_level() -> None:
    kinds = {operation.kind for operation in generate(1, PAGED, LONG)}
    assert LEVELS["requests"].kinds == kinds


def test_a_trace_puts_the_queue_in_every_order() -> None:
    seen = {each.order for each in generate(1, PAGED, LONG) if isinstance(each, Schedule)}
    assert {"fcfs", "random", "lpm", "weight"} == seen


def test_nothing_is_interrupted_where_nothing_is_promised() -> None:
    kinds = {operation.kind for operation in generate(1, Capabilities(), LONG)}
    assert LEVELS["requests"].kinds - {"interrupt"} == kinds


@pytest.mark.parametrize("capacity", [8, 64])
def test_little_is_tried_in_vain(capacity: int) -> None:
    source = resolve(f"requests:radix-paged?page_size=4&capacity={capacity}&eviction=lru")
    traces = proposals(1, arenas(source))
    verdicts = [check(source.open, next(traces)) for _ in range(40)]
    skipped = sum(verdict.skipped.total() for verdict in verdicts)
    assert skipped < 0.35 * sum(verdict.operations for verdict in verdicts)


def test_there_are_no_namespaces_where_the_cache_has_none() -> None:
    seen = {getattr(each, "namespace", ()) for each in generate(1, Capabilities(), LONG)}
    assert {()} == seen


@pytest.mark.parametrize("page_size", [1, 4, 16])
def test_a_run_reaches_every_situation_and_accuses_nobody(page_size: int) -> None:
    source = resolve(f"requests:radix-paged?page_size={page_size}&eviction=lru")
    found, reached, operations = [], Counter[str](), 0
    places = arenas(source)
    for trace in proposals(5, places):
        verdict = check(source.open, trace)
        found += [verdict.violation] if verdict.violation else []
        reached += verdict.reached
        operations += verdict.operations
        done = not missing(reached, places) and OF_THE_QUEUE <= reached.keys()
        if operations > 60_000 or done:
            break
    assert ([], [], set()) == (found, missing(reached, places), OF_THE_QUEUE - reached.keys())


@pytest.mark.parametrize("order", ["fcfs", "random", "lpm", "weight"])
def test_a_server_may_know_one_order_only(order: str) -> None:
    source = resolve(f"requests:radix-paged?page_size=4&order={order}&eviction=lru")
    traces = proposals(1, arenas(source))
    assert [None] * 40 == [check(source.open, next(traces)).violation for _ in range(40)]


def test_the_level_has_a_table_of_situations() -> None:
    assert len(SITUATIONS) >= 20
