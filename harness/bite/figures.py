"""What many trials say: medians with their intervals, buckets, and how two hunters compare.

A survivor has no time to its kill, only one that is longer than its limit. So medians and intervals
are order statistics, which need not know how much longer; and where a ratio needs a number, the
limit stands for it, which flatters whoever gave up.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from random import Random
from statistics import median

from msgspec import Struct

from radixcheck.bite.trial import Trial

BUCKETS_S = (0.1, 1.0, 10.0, 60.0)
CONFIDENCE = 0.95
DRAWS = 1000
"""Of the bootstrap."""

SLOW_S = 0.1
"""A mutant on which the uniform loop needs more is one that is worth a better hunter."""

Rows = Mapping[tuple[str, str], "Row"]


class Interval(Struct, frozen=True):
    """A figure, and where it lies with 95 % confidence. Infinite where hunts were given up."""

    middle: float
    low: float
    high: float


class Row(Struct, frozen=True):
    """One mutant and one driver."""

    mutant: str
    driver: str
    trials: tuple[Trial, ...]
    limit_s: float
    kills: int
    rules: tuple[str, ...]
    """By which rules it was killed, the most frequent first."""
    time_s: Interval
    operations: Interval
    shrunk: int | None
    """The median of what was left, in operations; None where nobody shrank."""
    excess: tuple[int, ...]
    """Per kill how many operations more were left than the smallest known trace of its signature
    has."""
    shrink_s: float | None
    """The median."""


def rows(trials: Iterable[Trial], smallest: Mapping[tuple[str, str, str], int]) -> Rows:
    """Fold trials into a row per mutant and driver, in the order in which they are first met.

    Args:
        smallest: by mutant, rule and kind of operation how many operations the smallest trace has
            that is known beside those of the trials.
    """
    every = list(trials)
    least = dict(smallest)
    for each in every:
        if each.shrunk:
            key = (each.mutant, each.rule, each.kind)
            least[key] = min(each.shrunk, least.get(key, each.shrunk))
    groups: dict[tuple[str, str], list[Trial]] = {}
    for each in every:
        groups.setdefault((each.mutant, each.driver), []).append(each)
    return {key: _row(*key, group, least) for key, group in groups.items()}


def _row(
    mutant: str, driver: str, trials: list[Trial], least: Mapping[tuple[str, str, str], int]
) -> Row:
    kills = [each for each in trials if each.killed]
    shrunk = [each for each in kills if each.shrunk]
    return Row(
        mutant,
        driver,
        tuple(trials),
        max(each.limit_s for each in trials),
        len(kills),
        tuple(rule for rule, _ in Counter(each.rule for each in kills).most_common()),
        interval([each.elapsed_s if each.killed else math.inf for each in trials]),
        interval([each.operations if each.killed else math.inf for each in trials]),
        round(median(each.shrunk for each in shrunk)) if shrunk else None,
        tuple(each.shrunk - least[each.mutant, each.rule, each.kind] for each in shrunk),
        median(each.shrink_s for each in shrunk) if shrunk else None,
    )


# ---- order statistics --------------------------------------------------------------------


def interval(values: Sequence[float]) -> Interval:
    """Return the median, and the smallest pair of order statistics that holds the true one with 95
    % confidence: of fewer than 6 values, the least and the largest, which hold it less surely."""
    ordered = sorted(values)
    rank = _rank(len(ordered))
    return Interval(_middle(ordered), ordered[rank], ordered[-1 - rank])


def _rank(count: int) -> int:
    """Return how many values may be left out at each end: a value is below the median as often as a
    coin shows heads."""
    tail, rank = 0.0, -1
    while rank + 1 < count / 2:
        tail += math.comb(count, rank + 1) / 2**count
        if tail > (1 - CONFIDENCE) / 2:
            break
        rank += 1
    return max(rank, 0)


def _middle(ordered: Sequence[float]) -> float:
    low, high = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
    return low if low == high else (low + high) / 2  # two infinities have no mean


def share_within(trials: Sequence[Trial], limit_s: float) -> float:
    """Return the share of `trials` that ended in a kill within a time."""
    return sum(each.killed and each.elapsed_s <= limit_s for each in trials) / len(trials)


def buckets_s(trials: Iterable[Trial]) -> list[float]:
    """Return those of `BUCKETS_S` of which some hunt could tell."""
    longest_s = max((each.limit_s for each in trials), default=0.0)
    return [each for each in BUCKETS_S if each <= longest_s]


def quantile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that so large a share of all does not exceed."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


# ---- one hunter against another ----------------------------------------------------------


class Comparison(Struct, frozen=True):
    """How many times longer a peer takes than ours."""

    peer: str
    all: Interval | None
    """Geometric mean over all mutants that both have hunted."""
    hard: Interval | None
    """... over those on which the uniform loop's median exceeds `SLOW_S`."""
    easy: Interval | None
    """... over the others."""
    num_hard: int
    worst: tuple[str, float] | None
    """Of the easy ones: on which ours takes how many times longer than the peer, at worst."""


def compare(found: Rows, ours: str, peer: str, yardstick: str = "uniform") -> Comparison:
    """Compare the medians of two hunters, mutant by mutant."""
    both = [id for id, driver in found if driver == ours and (id, peer) in found]
    hard = [
        id
        for id in both
        if (row := found.get((id, yardstick))) is not None and row.time_s.middle > SLOW_S
    ]
    easy = [id for id in both if (id, yardstick) in found and id not in hard]
    worst = min(((_ratio(found, ours, peer, id), id) for id in easy), default=None)
    return Comparison(
        peer,
        _mean(found, ours, peer, both),
        _mean(found, ours, peer, hard),
        _mean(found, ours, peer, easy),
        len(hard),
        None if worst is None else (worst[1], 1 / worst[0]),
    )


def _seconds(trials: Sequence[Trial]) -> float:
    """Return the median time; the limit stands for a hunt that was given up."""
    return median(each.elapsed_s if each.killed else each.limit_s for each in trials)


def _ratio(found: Rows, ours: str, peer: str, id: str) -> float:
    return _seconds(found[id, peer].trials) / _seconds(found[id, ours].trials)


def _mean(found: Rows, ours: str, peer: str, ids: Sequence[str]) -> Interval | None:
    """Return the geometric mean of ratios, with an interval from drawing each mutant's trials
    anew."""
    if not ids:
        return None
    rng = Random(0)

    def drawn(driver: str, id: str) -> float:
        trials = found[id, driver].trials
        return _seconds(rng.choices(trials, k=len(trials)))

    def geometric(logs: list[float]) -> float:
        return math.exp(sum(logs) / len(logs))

    means = [
        geometric([math.log(drawn(peer, id) / drawn(ours, id)) for id in ids]) for _ in range(DRAWS)
    ]
    middle = geometric([math.log(_ratio(found, ours, peer, id)) for id in ids])
    tail = (1 - CONFIDENCE) / 2
    return Interval(middle, quantile(means, tail), quantile(means, 1 - tail))
