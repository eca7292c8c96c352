"""Time is shared by what is still discovered, and nobody is starved."""

from __future__ import annotations

from collections import Counter

from radixcheck.campaign.shares import (
    CANARY,
    FLOOR,
    Share,
    charge,
    first_due,
    give,
    weights,
    worth_judging,
)
from radixcheck.campaign.unit import Harvest, Judged


def spent(shares: list[Share], tasks: int, finds: dict[str, int]) -> Counter[str]:
    """Give tasks of a second each; answer how many each driver has had."""
    seconds: Counter[str] = Counter()
    for _ in range(tasks):
        share = first_due(shares)
        assert share is not None
        give(share, shares, 1.0)
        share.note(Harvest(traces=10, elapsed_s=1.0), finds.get(share.driver, 0))
        seconds[share.driver] += 1
    return seconds


def test_who_discovers_more_gets_more() -> None:
    shares = [Share("radix", driver) for driver in ("rich", "poor")]
    seconds = spent(shares, 100, {"rich": 20})
    assert seconds["rich"] > 5 * seconds["poor"]


def test_nobody_is_starved() -> None:
    shares = [Share("radix", driver) for driver in ("rich", "a", "b", "c")]
    seconds = spent(shares, 200, {"rich": 1_000})
    assert min(seconds.values()) >= 200 * FLOOR / 4 / 2


def test_equals_get_equal_time() -> None:
    shares = [Share("radix", driver) for driver in "abcd"]
    assert {25} == set(spent(shares, 100, {}).values())


def test_everybody_is_tried_before_anybody_is_tried_twice() -> None:
    shares = [Share("radix", driver) for driver in "abcdef"]
    assert set("abcdef") == set(spent(shares, 6, {"a": 1_000}))


def test_who_comes_late_does_not_catch_up() -> None:
    shares = [Share("radix", driver) for driver in "ab"]
    spent(shares, 100, {})
    late = Share("radix", "late")
    seconds = spent([*shares, late], 30, {})
    assert seconds["late"] <= 20


def test_canaries_get_a_small_part_of_all_time() -> None:
    shares = [Share("radix", driver) for driver in "abcd"]
    canaries = [Share(spec, "swarm", canary=True) for spec in ("one", "other")]
    weighed = weights([*shares, *canaries])
    assert abs(sum(weighed[4:]) / sum(weighed) - CANARY) < 1e-9


def test_who_is_benched_gets_nothing() -> None:
    shares = [Share("radix", "a", benched="it was lost"), Share("radix", "b")]
    assert {"b": 10} == spent(shares, 10, {})


def test_a_driver_whose_traces_are_cut_short_promises_less() -> None:
    whole, cut = (Share("radix", "a", traces=100, cut=each) for each in (0, 80))
    assert whole.promise > 4 * cut.promise


def test_a_task_that_took_longer_is_paid_for() -> None:
    shares = [Share("radix", driver) for driver in "ab"]
    for share in shares:
        give(share, shares, 1.0)
    charge(shares[0], shares, 4.0)
    assert {"b": 2} == spent(shares, 2, {})


def test_configurations_that_known_failures_cut_short_are_spared_mostly() -> None:
    judged = {"good": Judged(100, 3), "bad": Judged(100, 90)}
    chosen = [worth_judging(["good", "bad", "new"], judged, turn) for turn in range(4)]
    assert [[0, 2], [0, 2], [0, 2], [0, 1, 2]] == chosen


def test_where_all_are_cut_short_none_is_spared() -> None:
    assert [0, 1] == worth_judging(["a", "b"], {each: Judged(10, 9) for each in "ab"}, 0)
