"""Medians, intervals and comparisons are what they claim to be."""

from __future__ import annotations

import math

import pytest

from radixcheck.bite.chart import draw, survival
from radixcheck.bite.figures import Interval, compare, interval, quantile, rows, share_within
from radixcheck.bite.trial import Trial


def trial(
    elapsed_s: float, *, mutant: str = "m", driver: str = "swarm", seed: int = 0, shrunk: int = 0
) -> Trial:
    """Make a kill after so many seconds; after 60 s it is a survivor."""
    rule = "size-drift" if elapsed_s < 60 else ""
    return Trial(mutant, driver, seed, 60.0, elapsed_s, 10, rule, "insert", 5, shrunk)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([3.0], Interval(3, 3, 3)),
        ([1.0, 2.0, 4.0], Interval(2, 1, 4)),
        ([5.0, 4.0, 3.0, 2.0, 1.0, 6.0], Interval(3.5, 1, 6)),
        ([float(each) for each in range(1, 11)], Interval(5.5, 2, 9)),
        ([1.0, 2.0, math.inf, math.inf], Interval(math.inf, 1, math.inf)),
        ([math.inf, math.inf], Interval(math.inf, math.inf, math.inf)),
    ],
)
def test_an_interval_is_a_pair_of_order_statistics(values: list[float], expected: Interval) -> None:
    assert expected == interval(values)


@pytest.mark.parametrize(("share", "expected"), [(0.5, 5), (0.95, 10), (0.01, 1), (1.0, 10)])
def test_a_quantile_is_a_value_that_was_seen(share: float, expected: float) -> None:
    assert expected == quantile(range(1, 11), share)


def test_only_kills_within_a_time_count() -> None:
    assert 0.5 == share_within([trial(0.05), trial(0.2), trial(60), trial(0.1)], 0.1)


def test_a_row_tells_kills_rules_and_sizes() -> None:
    made = [trial(1, shrunk=3), trial(2, seed=1, shrunk=5), trial(60, seed=2)]
    (row,) = rows(made, {}).values()
    assert (2, ("size-drift",), 4, (0, 2)) == (row.kills, row.rules, row.shrunk, row.excess)


def test_the_smallest_known_trace_may_be_one_that_was_there_before() -> None:
    (row,) = rows([trial(1, shrunk=3)], {("m", "size-drift", "insert"): 2}).values()
    assert (1,) == row.excess


def test_a_peer_is_compared_by_the_ratios_of_its_medians() -> None:
    made = [
        *(trial(1, mutant=name) for name in ("easy", "hard")),
        trial(0.05, mutant="easy", driver="uniform"),
        trial(9, mutant="hard", driver="uniform"),
    ]
    found = compare(rows(made, {}), "swarm", "uniform")
    assert found.all is not None and found.hard is not None and found.worst is not None
    name, times = found.worst
    assert found.easy is not None
    told = (found.all.middle**2, found.hard.middle, found.easy.middle, found.num_hard, times)
    assert pytest.approx((0.45, 9.0, 0.05, 1, 20.0)) == told
    assert "easy" == name


def test_a_hunt_that_was_given_up_counts_as_its_limit() -> None:
    made = [trial(6), trial(60, driver="uniform")]
    found = compare(rows(made, {}), "swarm", "uniform")
    assert found.all is not None
    assert pytest.approx((10, 10, 10)) == (found.all.middle, found.all.low, found.all.high)


def test_a_survivor_keeps_the_curve_up() -> None:
    assert [(0.5, 0.75), (1, 0.5)] == survival([trial(1), trial(60), trial(0.5), trial(60)])


def test_a_drawing_has_a_curve_and_a_name_per_driver() -> None:
    drawn = draw({"swarm": [trial(1)], "a<b": [trial(60)]})
    assert (2, True) == (drawn.count("<path"), "a&lt;b" in drawn)
