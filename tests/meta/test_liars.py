"""The tester is tested: each rule has a liar, whom fuzzing convicts of that rule and no other."""

from __future__ import annotations

from functools import cache

import pytest

from radixcheck.finding import Finding
from radixcheck.hosts import Here
from radixcheck.loop import Budget, run
from radixcheck.registry import Source, resolve
from radixcheck.rules import RULES, Violation
from radixcheck.targets.liars import LIARS
from radixcheck.verdict import check, same_answers

SEEDS = range(4)

TREE_RULES = [name for name, rule in RULES.items() if rule.level == "tree"]

SMALLEST = {  # rule: operations of the smallest trace known that breaks it
    "foreign-slot": 2,
    "phantom-prefix": 2,
    "namespace-leak": 2,
    "unaligned-match": 2,
    "length-mismatch": 2,
    "evicted-locked": 4,
    "evicted-unknown": 2,
    "changed-slot": 3,
    "mutated-argument": 2,
    "handle-mismatch": 3,
    "wrong-existing-length": 2,
    "orphaned-suffix": 3,
    "under-evicted": 2,
    "leaked-slot": 2,
    "refused-with-effect": 2,
    "size-drift": 3,
    "delta-mismatch": 4,
    "lock-underflow": 3,
    "eviction-order": 3,
    "over-evicted": 2,
    "missed-prefix": 2,
    "lost-insert": 5,
    "structure": 1,
    "nondeterminism": 3,
    "unexpected-error": 1,
}


def source_of(rule: str) -> Source:
    """Return the liar that breaks `rule`, as a run opens it."""
    liar = LIARS[rule]
    return resolve(f"{liar.__module__}:{liar.__qualname__}")


@cache
def finding_of(rule: str, seed: int) -> Finding:
    """Return the first finding about the liar that breaks `rule`."""
    report = run(Here(source_of(rule)), seed=seed, budget=Budget(max_time_s=10, first_only=True))
    (finding,) = report.findings
    return finding


def judged_again(finding: Finding, source: Source) -> Violation | None:
    """Judge the shrunk trace as the run judged the whole one."""
    if finding.violation.rule == "nondeterminism":
        return same_answers(source.open, finding.trace)
    return check(source.open, finding.trace).violation


def test_every_rule_of_trees_has_a_liar() -> None:
    assert set(TREE_RULES) == set(LIARS)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("rule", TREE_RULES)
def test_the_first_finding_about_a_liar_is_its_lie(rule: str, seed: int) -> None:
    assert finding_of(rule, seed).violation.rule == rule


@pytest.mark.parametrize("rule", TREE_RULES)
def test_a_lie_is_shrunk_to_the_fewest_operations_that_show_it(rule: str) -> None:
    lengths = [len(finding_of(rule, seed).trace.operations) for seed in SEEDS]
    assert max(lengths) <= SMALLEST[rule]


@pytest.mark.parametrize("rule", TREE_RULES)
def test_a_shrunk_lie_is_still_the_same_lie(rule: str) -> None:
    findings = [finding_of(rule, seed) for seed in SEEDS]
    again = [judged_again(finding, source_of(rule)) for finding in findings]
    expected = [finding.violation.signature for finding in findings]
    assert expected == [violation and violation.signature for violation in again]
