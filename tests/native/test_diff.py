"""The tree in Python and the tree in C++, on the same traces."""

from __future__ import annotations

from contextlib import closing

from radixcheck.hosts import Here, Host, Isolated
from radixcheck.hosts.lockstep import Lockstep
from radixcheck.loop import Budget, run
from radixcheck.registry import resolve

BUDGET = Budget(max_operations=8_000, first_only=True)


def test_both_trees_keep_every_rule_in_lockstep() -> None:
    hosts: list[Host] = [Here(resolve("radix-paged")), Isolated("radix-cpp")]
    with closing(Lockstep(hosts)) as both:
        report = run(both, seed=1, budget=BUDGET)
    assert ([], []) == (report.findings, report.missing)


def test_a_planted_bug_is_where_they_part() -> None:
    mutant = Isolated("radix-cpp?mutant=split-keeps-slots")
    hosts: list[Host] = [Here(resolve("radix-paged")), mutant]
    with closing(Lockstep(hosts)) as both:
        (finding,) = run(both, seed=1, budget=BUDGET).findings
    assert "divergence" == finding.violation.rule
    assert "radix-cpp?mutant=split-keeps-slots" == finding.violation.cause
