"""The tester of pools is tested: liars are convicted of their lie, and near-misses are spared."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from radixcheck.finding import Finding
from radixcheck.hosts import Here
from radixcheck.loop import Budget, Report, run
from radixcheck.registry import Source, resolve
from radixcheck.rules import RULES
from radixcheck.targets.pools.honest import HONEST_POOLS
from radixcheck.targets.pools.liars import POOL_LIARS

pytestmark = pytest.mark.slow

SHIPPED = ("pool-exclusive", "pool-counted", "pool-paged")
OPERATIONS = 4000

SMALLEST = {  # rule: operations of the smallest trace known that breaks it
    "double-free": 3,
    "double-owner": 5,
    "outside-pool": 1,
    "length-mismatch": 1,
    "partial-page": 1,
    "alloc-order": 5,
    "leaked-slot": 2,
    "size-drift": 1,
    "refused-with-effect": 1,
    "mutated-argument": 2,
    "nondeterminism": 1,
    "unexpected-error": 1,
}


def source_of(factory: object) -> Source:
    """Return a class of these modules as a run opens it."""
    return resolve(f"{factory.__module__}:{getattr(factory, '__qualname__', '')}")


def judged(source: Source, seed: int, **budget: int | bool) -> Report:
    limits: Any = budget
    return run(Here(source), seed=seed, budget=Budget(**limits))


@cache
def finding_of(rule: str, seed: int) -> Finding:
    """Return the first finding about the liar that breaks `rule`."""
    source = source_of(POOL_LIARS[rule])
    (finding,) = judged(source, seed, max_time_s=10, first_only=True).findings
    return finding


def test_every_rule_of_pools_has_a_liar() -> None:
    assert {name for name, rule in RULES.items() if rule.level == "pool"} - set(POOL_LIARS) == set()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("rule", POOL_LIARS)
def test_the_first_finding_about_a_liar_is_its_lie(rule: str, seed: int) -> None:
    assert rule == finding_of(rule, seed).violation.rule


@pytest.mark.parametrize("rule", POOL_LIARS)
def test_a_lie_is_shrunk_to_the_fewest_operations_that_show_it(rule: str) -> None:
    lengths = [len(finding_of(rule, seed).trace.operations) for seed in range(4)]
    assert max(lengths) <= SMALLEST[rule]


@pytest.mark.parametrize("name", [*HONEST_POOLS])
def test_a_near_miss_is_spared(name: str) -> None:
    report = judged(source_of(HONEST_POOLS[name]), len(name), max_operations=OPERATIONS)
    assert ([], []) == (report.findings, report.missing)


@pytest.mark.parametrize("spec", SHIPPED)
def test_a_shipped_pool_is_spared_and_every_situation_is_reached(spec: str) -> None:
    report = judged(resolve(spec), 7, max_operations=OPERATIONS)
    assert ([], []) == (report.findings, report.missing)


def test_a_pool_of_tensors_is_spared() -> None:
    pytest.importorskip("torch")
    report = judged(resolve("pool-torch"), 7, max_operations=OPERATIONS)
    assert ([], []) == (report.findings, report.missing)
