"""The waiting queue: orders that keep their promise and are told from those that do not."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixcheck.operations import QueueOrder
from radixcheck.reference.scheduler import (
    Waiting,
    arrange,
    claim,
    contradiction,
    deferred,
    fits,
    room,
)

ORDERS: Sequence[QueueOrder] = get_args(QueueOrder)

A = Waiting("a", (1, 2, 9), matched=2)
B = Waiting("b", (1, 2, 3), matched=3)
C = Waiting("c", (1, 2, 3, 4), matched=3)
D = Waiting("d", (7, 8), matched=1)
E = Waiting("e", (5,))
QUEUE = [D, A, E, B, C]
"""Below the root a, b, c share ``1 2``, of which b and c went on to ``1 2 3``; d is apart, and e
matched nothing."""


def names(queue: Sequence[Waiting]) -> str:
    """Return who waits, in one word."""
    return "".join(waiting.request for waiting in queue)


@st.composite
def queues(draw: st.DrawFn) -> list[Waiting]:
    """Make queues of kin: few tokens, two namespaces, matches of any length."""
    prompts = draw(st.lists(st.lists(st.integers(1, 2), max_size=5), max_size=12))
    return [
        Waiting(
            f"r{number}",
            tuple(prompt),
            namespace=draw(st.sampled_from([(), ("x",)])),
            matched=draw(st.integers(0, len(prompt))),
        )
        for number, prompt in enumerate(prompts)
    ]


@pytest.mark.parametrize(
    ("order", "expected"), [("fcfs", "daebc"), ("lpm", "bcade"), ("weight", "bcade")]
)
def test_a_queue_is_put_in_order(order: QueueOrder, expected: str) -> None:
    assert expected == names(arrange(QUEUE, order))


def test_a_random_order_is_the_seeds_alone() -> None:
    seeds = [names(arrange(QUEUE, "random", seed)) for seed in (1, 1, 2)]
    assert [True, False] == [seeds[0] == seeds[1], seeds[0] == seeds[2]]


@given(queues(), st.integers(0, 9))
def test_no_order_contradicts_itself(queue: list[Waiting], seed: int) -> None:
    said = {order: contradiction(order, queue, arrange(queue, order, seed)) for order in ORDERS}
    assert dict.fromkeys(ORDERS) == said


@given(queues(), st.integers(0, 9))
def test_an_order_by_weight_runs_each_subtree_together(queue: list[Waiting], seed: int) -> None:
    Random(seed).shuffle(queue)
    paths = [waiting.path for waiting in arrange(queue, "weight")]
    for prefix in {path[:length] for path in paths for length in range(1, len(path) + 1)}:
        below = [place for place, path in enumerate(paths) if path[: len(prefix)] == prefix]
        assert list(range(below[0], below[0] + len(below))) == below


@pytest.mark.parametrize(
    ("order", "arranged", "expected"),
    [
        ("fcfs", [A, D, E, B, C], "not in order of arrival"),
        ("lpm", [B, C, D, A, E], "d matched 1 tokens, a 2"),
        ("weight", [B, A, C, D, E], "a in the midst of the subtrees below it"),
        ("weight", [B, D, C, A, E], "c apart from its subtree"),
        ("weight", [D, B, C, A, E], "d of 1 before b of 3"),
        ("weight", [B, C, A, E, D], "e in the midst of the subtrees below it"),
        ("random", [A, B, C, D], "e lost from the queue"),
        ("random", [A, B, C, D, E, E], "e not in the queue, or twice"),
        ("lpm", [B, C, A, D, Waiting("f", ())], "f not in the queue, or twice"),
    ],
)
def test_a_broken_order_is_told(order: QueueOrder, arranged: list[Waiting], expected: str) -> None:
    assert expected == contradiction(order, QUEUE, arranged)


@pytest.mark.parametrize("arranged", ["cbade", "acbde", "ebcad", "eabcd"])
def test_an_order_by_weight_may_break_ties_and_visit_a_node_first_or_last(arranged: str) -> None:
    known = {waiting.request: waiting for waiting in QUEUE}
    assert contradiction("weight", QUEUE, [known[name] for name in arranged]) is None


@pytest.mark.parametrize(
    ("order", "expected"), [("fcfs", 15), ("random", 15), ("lpm", 16), ("weight", 16)]
)
def test_orders_that_know_the_cache_expect_fewer_new_tokens(
    order: QueueOrder, expected: float
) -> None:
    assert expected == room(8, 12, [4, 6], order)


def test_a_request_claims_what_it_must_compute_and_may_generate() -> None:
    assert 5 == claim(to_compute=1, may_generate=4)


@pytest.mark.parametrize(("room_tokens", "expected"), [(8, False), (8.5, True), (9, True)])
def test_a_request_fits_below_the_room_and_not_at_it(room_tokens: float, expected: bool) -> None:
    assert expected == fits(5, room_tokens, claimed_tokens=3)


def test_a_request_waits_for_one_that_computes_its_next_page() -> None:
    first, same, stored, other = (
        Waiting("first", (1, 2, 3, 4, 5)),
        Waiting("same", (1, 2, 3, 4, 6)),
        Waiting("stored", (1, 2, 3, 4, 7), matched=4),
        Waiting("other", (1, 2, 3, 4, 6), namespace=("x",)),
    )
    assert {"same"} == deferred([first, same, stored, other], page_size=4)
