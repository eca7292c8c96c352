"""What a trace is kept for, and which few traces have all of it."""

from __future__ import annotations

import random
import sys
from random import Random

import pytest

from radixcheck import loop
from radixcheck.campaign.features import cover, own_name, situations_of, watched_lines
from radixcheck.targets import radix
from radixcheck.targets.radix import Radix

MONITORED = sys.version_info >= (3, 12)


def test_a_situation_counts_for_its_configuration_and_a_pair_for_all() -> None:
    features = list(situations_of({"page_size": 4, "disable": True}, ["reset", "audit"]))
    assert ["page_size=4 reset", "page_size=4 audit", "reset > audit"] == features


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (radix.__file__, "targets/radix.py"),
        ("/home/me/site-packages/sglang/radix_cache.py", "sglang/radix_cache.py"),
        ("/home/me/site-packages/torch/nn.py", ""),
        (loop.__file__, ""),
        (random.__file__, ""),
        ("<string>", ""),
    ],
)
def test_only_a_targets_own_files_have_a_name(path: str, expected: str) -> None:
    assert expected == own_name(path)


@pytest.mark.skipif(MONITORED, reason="this Python can tell of lines")
def test_no_line_is_seen_where_python_cannot_tell() -> None:
    lines = watched_lines()
    Radix().match_prefix((1,))
    assert set() == lines.new()


@pytest.mark.skipif(not MONITORED, reason="lines are seen on Python 3.12 and later")
def test_each_line_is_told_once_and_again_to_the_next_who_asks() -> None:
    seen = []
    for _ in range(2):
        lines = watched_lines()
        for _ in range(2):
            Radix().match_prefix((1,))
            seen.append({line for line in lines.new() if line.startswith("targets/")})
        lines.close()
    assert (seen[0], set(), seen[0], set()) == tuple(seen)
    assert {"targets/radix.py"} == {line.partition(":")[0] for line in seen[0]}


def test_few_traces_have_every_feature() -> None:
    features = {
        "a": frozenset("12"),
        "b": frozenset("23"),
        "c": frozenset("1234"),
        "d": frozenset("5"),
    }
    assert ["c", "d"] == cover(features, dict.fromkeys(features, 1))


def test_of_traces_that_reach_the_same_the_cheapest_is_chosen() -> None:
    features = dict.fromkeys("abc", frozenset("12"))
    assert ["b"] == cover(features, {"a": 9, "b": 3, "c": 5})


def test_nothing_is_lost_by_minimising() -> None:
    rng = Random(1)
    features = {str(name): frozenset(map(str, rng.sample(range(300), 20))) for name in range(200)}
    chosen = cover(features, dict.fromkeys(features, 1))
    every = frozenset().union(*features.values())
    assert (every, True) == (
        frozenset().union(*(features[name] for name in chosen)),
        len(chosen) < len(features) / 2,
    )
