"""Every hunter that is installed finds what it should, and none accuses a correct target."""

from __future__ import annotations

from itertools import islice

import pytest

from radixcheck.arena import arenas
from radixcheck.bite import plain, sums
from radixcheck.bite.hunt import DRIVERS, OURS, known
from radixcheck.bite.work import Task, hunt, tasks
from radixcheck.drivers.swarm import proposals
from radixcheck.registry import TargetError, resolve
from radixcheck.targets.mutants import MUTANTS
from radixcheck.verdict import check

pytestmark = pytest.mark.slow

CORRECT = ("radix", "radix-paged", "pool-counted", "pool-paged", "requests:radix-paged")
TRACES = 40

HERE = [name for name, driver in DRIVERS.items() if "atheris" not in driver.libraries]
"""Those that hunt in this process."""

each_level = pytest.mark.parametrize(
    "id", ["smg-946-duplicate-store", "sglang-38941-seam", "sglang-4977-padded-retract"]
)


@each_level
@pytest.mark.parametrize("driver", HERE)
def test_a_hunter_kills_an_easy_mutant_at_each_level(driver: str, id: str) -> None:
    trial = hunt(Task(id, driver, 0, 20.0))
    assert (True, True) == (trial.killed, 0 < trial.found <= trial.operations)


@pytest.mark.parametrize("driver", ["atheris", "atheris-hypothesis"])
def test_atheris_hunts_in_a_process_of_its_own(driver: str) -> None:
    pytest.importorskip("atheris")
    trial = hunt(Task("minisgl-head-empty-match", driver, 0, 30.0))
    assert (True, "unexpected-error") == (trial.killed, trial.rule)


def test_only_ours_shrinks() -> None:
    shrunk = {driver: hunt(Task("sglang-38941-seam", driver, 0, 20.0)).shrunk for driver in HERE}
    assert shrunk == {driver: 2 if driver == OURS else 0 for driver in HERE}


def test_replicas_part_under_hypothesis_too() -> None:
    assert "divergence" == hunt(Task("tokenspeed-248-pointer-ties", "hypothesis", 0, 60.0)).rule


@pytest.mark.parametrize("driver", HERE)
def test_a_hunt_ends_with_its_time(driver: str) -> None:
    trial = hunt(Task("aibrix-2052-deep-key", driver, 0, 0.2))
    assert (False, True) == (trial.killed, 0.2 <= trial.elapsed_s < 3)


def test_the_same_seed_is_the_same_hunt() -> None:
    one, other = (hunt(Task("sglang-7-edge-split", "uniform", 3, 20.0)) for _ in range(2))
    assert (one.operations, one.rule) == (other.operations, other.rule)


@pytest.mark.parametrize("spec", CORRECT)
def test_a_plain_loop_accuses_no_correct_target(spec: str) -> None:
    source = resolve(spec)
    traces = islice(plain.proposals(1, arenas(source)), TRACES)
    assert [] == [each for trace in traces if (each := check(source.open, trace).violation)]


@pytest.mark.parametrize("spec", CORRECT)
def test_sums_of_a_correct_target_add_up(spec: str) -> None:
    source = resolve(spec)
    traces = islice(proposals(1, arenas(source)), TRACES)
    assert [] == [each for trace in traces if (each := sums.check(source.open, trace))]


@pytest.mark.parametrize(
    "id", ["sglang-7-edge-split", "sglang-24638-joined-namespace", "minisgl-94fe255-slots-aliased"]
)
def test_sums_miss_whose_slots_those_are(id: str) -> None:
    assert not hunt(Task(id, "sums", 0, 0.5)).killed


def test_every_way_makes_the_operation_that_it_names() -> None:
    made = {
        operation.kind
        for spec in CORRECT
        for trace in islice(plain.proposals(2, arenas(resolve(spec))), TRACES)
        for operation in trace.operations
    }
    assert {way.kind for way in plain.WAYS.values()} - {"weigh"} == made - {"audit"}


@pytest.mark.parametrize("name", ["atheris", "nobody"])
def test_a_hunter_that_is_not_there_is_an_error(name: str) -> None:
    if name in DRIVERS and not DRIVERS[name].missing():
        pytest.skip("it is installed")
    with pytest.raises(TargetError):
        known([name])


def test_hunts_go_seed_by_seed() -> None:
    seeds = [task.seed for task in tasks(MUTANTS, [OURS], 2, 1.0)]
    assert [0] * len(MUTANTS) + [1] * len(MUTANTS) == seeds
