"""Readings and ages."""

from __future__ import annotations

import pytest

from radixcheck.capabilities import Capabilities
from radixcheck.clock import UNKNOWN_RESOLUTION_S, Ages, Clock


def ages(deltas: list[int | None], **capabilities: object) -> list[float]:
    clock = Clock()
    ages = Ages(Capabilities(**capabilities), clock)  # type: ignore[arg-type]  # a row of the table
    seen = []
    for delta in deltas:
        if delta is not None:
            clock.tick(delta)
        seen.append(ages.next())
    return seen


def test_a_clock_advances_by_one_and_by_what_a_tick_says() -> None:
    assert ages([None, None, 0, 5, None], clock="injected") == [1, 2, 2, 7, 8]


def test_ages_grow_although_the_clock_runs_back() -> None:
    assert ages([None, -10, None, 0], clock="injected-steps") == [1, 2, 3, 3]


def test_a_counter_ages_with_every_operation() -> None:
    assert ages([None, None, None], clock="own", resolution_s=0.0) == [1, 2, 3]


def test_a_clock_that_ran_back_never_meets_an_old_reading() -> None:
    clock, seen = Clock(), set[float]()
    for step in range(300):
        if step % 7 == 6:
            clock.tick(-3)
        clock.advance()
        seen.add(clock.reading)
    assert len(seen) == 300


@pytest.mark.parametrize(
    ("resolution_s", "least"), [(None, UNKNOWN_RESOLUTION_S), (0.5, 0.5), (0.0, 0)]
)
def test_readings_of_an_own_clock_may_tie(resolution_s: float | None, least: float) -> None:
    ages = Ages(Capabilities(clock="own", resolution_s=resolution_s), Clock())
    ages.next()
    ages.next()
    assert least <= ages.slack < least + 1


def test_far_from_zero_a_clock_that_cannot_move_has_not_moved() -> None:
    clock = Clock()
    clock.tick(-(2**53) - 3)
    moves = [(clock.advance(), clock.moves) for _ in range(3)]
    readings = [reading for reading, _ in moves]
    assert len(set(readings)) == moves[-1][1]
