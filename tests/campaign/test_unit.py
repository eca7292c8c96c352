"""The unit of work: the same task, the same harvest, wherever it runs."""

from __future__ import annotations

from datetime import date
from itertools import islice

import pytest
from msgspec import structs

from radixcheck.arena import arenas
from radixcheck.campaign.drivers import MUTATION, NAMES
from radixcheck.campaign.unit import Harvest, Task, encode, read_harvest, read_task, work
from radixcheck.drivers import mutated
from radixcheck.known import Failure
from radixcheck.registry import resolve
from radixcheck.trace import Trace, dumps, loads

pytestmark = pytest.mark.slow

PLANTED = "radix-first-release"
SIGNATURE = ("phantom-prefix", "match_prefix")


def travelled(task: Task) -> Harvest:
    """Do a task that has come as bytes, and send its harvest back as bytes."""
    return read_harvest(encode(work(read_task(encode(task)))))


def timeless(harvest: Harvest) -> Harvest:
    """Leave out how long it took, and lines that a thread of the test run has added."""
    harvest.elapsed_s = 0
    own = [structs.replace(each, features=_own(each.features)) for each in harvest.kept]
    harvest.kept = [each for each in own if each.features]
    return harvest


def _own(features: frozenset[str]) -> frozenset[str]:
    return frozenset(each for each in features if ".py:" not in each or each.startswith("targets/"))


def kept(spec: str) -> tuple[bytes, ...]:
    """Return traces that are worth keeping."""
    return tuple(each.content for each in work(Task(spec, "swarm", 1, max_operations=2_000)).kept)


@pytest.mark.parametrize("driver", NAMES)
@pytest.mark.parametrize("spec", ["radix-paged", "pool-paged", "requests:radix-paged"])
def test_the_same_task_brings_the_same_harvest(spec: str, driver: str) -> None:
    task = Task(spec, driver, 7, max_operations=1_000, corpus=kept(spec))
    assert timeless(work(task)) == timeless(travelled(task))


@pytest.mark.parametrize("driver", NAMES)
def test_another_seed_brings_another_harvest(driver: str) -> None:
    first, second = (work(Task("radix", driver, seed, max_operations=1_000)) for seed in (1, 2))
    assert first.reached != second.reached


def test_a_finding_travels() -> None:
    task = Task(PLANTED, "swarm", 1, max_operations=5_000)
    (failing,) = work(task).failing
    shrunk = Task(PLANTED, "shrink", corpus=(dumps(failing.trace),), violation=failing.violation)
    assert work(shrunk).finding == travelled(shrunk).finding


def test_a_failing_trace_is_shrunk() -> None:
    (failing,) = work(Task(PLANTED, "swarm", 1, max_operations=5_000)).failing
    finding = work(Task(PLANTED, "shrink", corpus=(dumps(failing.trace),))).finding
    assert finding is not None
    assert (SIGNATURE, 3) == (finding.violation.signature, len(finding.trace.operations))


def test_a_shrinker_without_time_keeps_what_it_has() -> None:
    (failing,) = work(Task(PLANTED, "swarm", 1, max_operations=5_000)).failing
    finding = work(Task(PLANTED, "shrink", corpus=(dumps(failing.trace),), max_time_s=0)).finding
    assert finding is not None
    assert (SIGNATURE, False) == (finding.violation.signature, finding.flaky)


def test_what_fails_no_more_is_no_finding() -> None:
    (failing,) = work(Task(PLANTED, "swarm", 1, max_operations=5_000)).failing
    assert work(Task("radix", "shrink", corpus=(dumps(failing.trace),))).finding is None


def test_a_trace_is_confirmed_where_it_fails_only() -> None:
    (failing,) = work(Task(PLANTED, "swarm", 1, max_operations=5_000)).failing
    told = [
        len(work(Task(spec, "confirm", corpus=(dumps(failing.trace),))).failing)
        for spec in (PLANTED, "radix")
    ]
    assert [1, 0] == told


def test_a_signature_that_was_told_is_only_counted() -> None:
    harvest = work(Task(PLANTED, "swarm", 1, max_operations=5_000, told=(SIGNATURE,)))
    assert ([], {SIGNATURE}) == (harvest.failing, set(harvest.no_news))


def test_a_known_failure_is_only_counted_and_cuts_its_traces_short() -> None:
    known = (Failure("phantom-prefix", "the first release", expires=date(2000, 1, 1)),)
    harvest = work(Task(PLANTED, "swarm", 1, max_operations=5_000, known=known))
    cut = sum(each.cut for each in harvest.judged.values())
    assert ([], harvest.no_news[SIGNATURE]) == (harvest.failing, cut)


def test_operations_behind_a_known_failure_are_counted_as_not_judged() -> None:
    (failing, *_) = work(Task(PLANTED, "swarm", 1, max_operations=5_000)).failing
    again = Task(PLANTED, "replay", corpus=(dumps(failing.trace),))
    known = (Failure("phantom-prefix", "the first release"),)
    behind = len(failing.trace.operations) - failing.violation.step - 1
    assert behind > 0
    tasks = structs.replace(again, known=known), again
    assert [behind, 0] == [work(task).cut_short for task in tasks]


def test_only_traces_that_reach_something_new_are_kept() -> None:
    task = Task("radix", "swarm", 1, max_operations=3_000)
    features = frozenset().union(*(each.features for each in work(task).kept))
    again = Task("radix", "swarm", 1, max_operations=3_000, seen=features)
    assert work(again).kept == []


def test_a_replay_tells_all_that_each_trace_reaches() -> None:
    corpus = kept("radix")
    harvest = work(Task("radix", "replay", corpus=corpus))
    assert list(corpus) == [each.content for each in harvest.kept]


def test_a_target_that_is_not_there_is_a_harvest_too() -> None:
    failed = work(Task("nowhere:Cache", "swarm", max_operations=10)).failed
    assert failed is not None
    assert failed.kind == "target"


def test_a_crash_is_found_in_an_isolated_target() -> None:
    spec = "radixcheck.targets.fatal:CutsWildly"
    harvest = work(Task(spec, "swarm", 1, max_operations=500, isolate=True))
    assert ["crash"] == [each.violation.rule for each in harvest.failing]


def test_only_the_configurations_that_are_asked_for_are_judged() -> None:
    harvest = work(Task("radix-paged", "swarm", 1, max_operations=1_000, arenas=(2,)))
    config = resolve("radix-paged").configurations()[2]
    assert [" ".join(f"{key}={value}" for key, value in config.items())] == list(harvest.judged)


def test_mutation_needs_no_corpus() -> None:
    assert work(Task("radix", MUTATION, 1, max_operations=300)).failed is None


@pytest.mark.parametrize("spec", ["radix", "radix-paged", "pool-counted", "requests:radix-paged"])
def test_changed_traces_accuse_no_correct_target(spec: str) -> None:
    harvest = work(Task(spec, MUTATION, 3, max_operations=15_000, corpus=kept(spec)))
    assert [] == [each.violation for each in harvest.failing]


def test_a_changed_trace_is_no_longer_than_it_may_be() -> None:
    long = Trace(loads(kept("radix")[0]).operations * 20)
    traces = mutated.proposals(1, arenas(resolve("radix-paged")), [long])
    assert mutated.LONGEST * 4 > max(len(each.operations) for each in islice(traces, 40))
