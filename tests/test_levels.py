"""Levels: what an opened target can do decides how it is judged, and nothing else does."""

from __future__ import annotations

import pytest

from radixcheck.arena import arenas
from radixcheck.levels import LEVELS, level_of
from radixcheck.operations import OPERATIONS, Alloc, Free, Insert
from radixcheck.protocol import REQUIRED
from radixcheck.registry import TargetError, resolve
from radixcheck.rules import RULES
from radixcheck.trace import Trace
from radixcheck.verdict import check


@pytest.mark.parametrize(
    ("spec", "level"),
    [("radix", "tree"), ("pool-paged", "pool"), ("requests:radix-paged", "requests")],
)
def test_a_target_is_judged_by_what_it_can_do(spec: str, level: str) -> None:
    source = resolve(spec)
    opened = {level_of(source.open({})).name, *(arena.level.name for arena in arenas(source))}
    assert {level} == opened


def test_every_operation_belongs_to_a_level_and_no_level_has_others() -> None:
    assert set(OPERATIONS) == set().union(*(level.kinds for level in LEVELS.values()))


def test_every_level_is_known_by_methods_and_has_rules() -> None:
    others = {"memory", "process"}
    assert set(LEVELS) == set(REQUIRED) == {rule.level for rule in RULES.values()} - others


def test_a_violation_is_where_it_is_in_the_trace_whatever_is_skipped_before() -> None:
    trace = Trace((Insert((1,)), Alloc(8, "h1"), Free("h1")), {"capacity": 8})
    verdict = check(resolve("radixcheck.targets.pools.liars:LosesTheSixth").open, trace)
    assert verdict.violation is not None
    assert (2, 3, 1) == (verdict.violation.step, verdict.operations, verdict.skipped.total())


@pytest.mark.parametrize(
    ("methods", "lacking"),
    [
        ("", "match_prefix and no insert"),
        ("alloc", "free"),
        ("insert", "match_prefix"),
        ("begin append publish table end", "abort"),
    ],
)
def test_what_is_nearly_a_target_is_told_what_it_lacks(
    methods: str, lacking: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from radixcheck.targets import radix

    members = dict.fromkeys(methods.split(), lambda self: None)
    monkeypatch.setattr(radix, "Nearly", type("Nearly", (), members), raising=False)
    with pytest.raises(TargetError, match=f"Nearly has no {lacking}$"):
        resolve("radixcheck.targets.radix:Nearly").open({})


# ---- one target around another ------------------------------------------------------------


def test_what_the_wrapper_takes_is_not_the_inner_target_s() -> None:
    source = resolve("requests:radix-paged?page_size=4&capacity=16&eviction=fifo")
    cache = source.open({})
    can = cache.capabilities
    assert (4, "fifo", 16) == (can.page_size, can.eviction, cache.pool.capabilities.capacity)


def test_an_inner_target_that_is_unknown_is_named() -> None:
    with pytest.raises(TargetError, match="unknown target 'nope'"):
        resolve("requests:nope")
