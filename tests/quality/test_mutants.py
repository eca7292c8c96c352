"""Planted bugs are found: each mutant dies on its own trace, and under plain fuzzing."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest

from radixcheck.bite.hunt import host_of
from radixcheck.corpus import packaged
from radixcheck.drivers.swarm import proposals
from radixcheck.hosts import Here, Host
from radixcheck.hosts.lockstep import Lockstep
from radixcheck.registry import resolve
from radixcheck.rules import RESERVED_RULES, RULES
from radixcheck.targets.bookkeeper import Bookkeeper
from radixcheck.targets.memory_liars import RadixArrays
from radixcheck.targets.mutants import CANARIES, LATER, MUTANTS, Mutant
from radixcheck.targets.mutants.blocks import RadixListed
from radixcheck.targets.mutants.memory import PoolArrays
from radixcheck.targets.pools.plain import PoolCounted, PoolExclusive, PoolPaged
from radixcheck.trace import Found
from radixcheck.verdict import Verdict

pytestmark = pytest.mark.slow

SEED = 1
MOST_OPERATIONS = 30_000
TRIES = 40
"""Replicas that differ by chance may agree by chance: each time with the odds of a coin."""

BEYOND_FUZZING = {"aibrix-2052-deep-key"}
"""A path of a thousand edges is made so seldom that a test has no time for it."""

CORRECT: dict[type, list[str]] = {
    RadixArrays: ["radixcheck.targets.memory_liars:RadixArrays"],
    RadixListed: ["radixcheck.targets.mutants.blocks:RadixListed", "radix-paged"],
    PoolArrays: ["radixcheck.targets.mutants.memory:PoolArrays"],
    PoolCounted: ["pool-counted"],
    PoolPaged: ["pool-paged"],
    PoolExclusive: ["pool-exclusive"],
    Bookkeeper: ["requests:radix-paged"],
    object: ["radix", "radix-paged"],
}
"""Targets without a bug, by what a mutant is made of; the last one can do all that it can."""

TRACES = {entry.id: entry.trace for entry in packaged().entries}

each_mutant = pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS)


@cache
def verdict_on(id: str) -> Verdict:
    """Judge a mutant by its own trace."""
    mutant, trace = MUTANTS[id], TRACES[id]
    host = host_of(mutant)
    verdict = host.check(trace)
    for _ in range(TRIES if mutant.replicas > 1 else 0):
        verdict = verdict if verdict.violation else host.check(trace)
    return verdict


def correct(mutant: Mutant) -> list[str]:
    """Name the targets that are as a mutant is, but for its bug."""
    return next(specs for base, specs in CORRECT.items() if issubclass(mutant.factory, base))


@cache
def verdict_without_bug(spec: str, id: str) -> Verdict:
    """Judge a correct target by the trace of a bug."""
    hosts = [Here(resolve(spec)) for _ in range(MUTANTS[id].replicas)]
    host: Host = hosts[0] if len(hosts) == 1 else Lockstep(hosts, exact=True)
    return host.check(TRACES[id])


def rules_broken(verdict: Verdict) -> list[str]:
    """Return the rule that names the violation, and those broken with it."""
    violation = verdict.violation
    return [violation.rule, *violation.also] if violation else []


def rules_broken_by_fuzzing(host: Host) -> Iterator[str]:
    """Yield what plain fuzzing finds, trace after trace."""
    operations = 0
    for trace in proposals(SEED, host.arenas()):
        verdict = host.check(trace)
        yield from rules_broken(verdict)
        operations += verdict.operations
        if operations > MOST_OPERATIONS:
            return


def test_every_mutant_has_its_trace() -> None:
    assert set(MUTANTS) - set(TRACES) == set()


def test_no_bug_is_both_planted_and_put_off() -> None:
    assert set(MUTANTS) & set(LATER) == set()


@each_mutant
def test_a_mutant_names_rules_that_exist_and_first_one_that_is_judged(mutant: Mutant) -> None:
    assert mutant.rules[0] in RULES
    assert set(mutant.rules) - set(RULES) - RESERVED_RULES == set()


def test_canaries_are_mutants_of_every_kind_that_fuzzing_can_reach() -> None:
    kinds = {mutant.factory.__module__ for mutant in MUTANTS.values()}
    flown = {MUTANTS[id].factory.__module__ for id in CANARIES}
    assert (flown, set(CANARIES) & BEYOND_FUZZING) == (kinds, set())


@each_mutant
def test_a_mutant_dies_on_its_trace_by_its_first_rule(mutant: Mutant) -> None:
    assert mutant.rules[0] in rules_broken(verdict_on(mutant.id))


@each_mutant
def test_a_trace_tells_what_it_found_and_where(mutant: Mutant) -> None:
    violation, trace = verdict_on(mutant.id).violation, TRACES[mutant.id]
    assert violation is not None
    found = Found(violation.rule, violation.operation, mutant.spec, source=mutant.source)
    assert (found, mutant.config) == (trace.found, trace.config)


@each_mutant
def test_a_correct_target_passes_the_trace_of_every_mutant(mutant: Mutant) -> None:
    broken = [rules_broken(verdict_without_bug(spec, mutant.id)) for spec in correct(mutant)]
    assert [[] for _ in broken] == broken


@each_mutant
def test_a_correct_target_skips_no_operation_of_a_trace(mutant: Mutant) -> None:
    assert verdict_without_bug(correct(mutant)[-1], mutant.id).skipped == {}


def test_a_correct_tree_with_a_table_of_pages_is_spared() -> None:
    assert [] == list(rules_broken_by_fuzzing(Here(resolve(CORRECT[RadixListed][0]))))


@pytest.mark.parametrize("id", [id for id in MUTANTS if id not in BEYOND_FUZZING])
def test_plain_fuzzing_finds_a_mutant_by_its_first_rule(id: str) -> None:
    assert MUTANTS[id].rules[0] in rules_broken_by_fuzzing(host_of(MUTANTS[id]))
