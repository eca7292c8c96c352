"""The conductor: what becomes of tasks, of workers that are lost, and of what was found."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

import pytest
from msgspec.structs import replace

from radixcheck.arena import arenas
from radixcheck.campaign import night as night_module
from radixcheck.campaign import standing as standing_module
from radixcheck.campaign.drivers import NAMES as DRIVERS
from radixcheck.campaign.night import LAST_S, MOST_TRIES, Night, Plan
from radixcheck.campaign.pool import Done
from radixcheck.campaign.standing import Standing
from radixcheck.campaign.state import State, finding_name
from radixcheck.campaign.unit import CHORES, Harvest, Task, work
from radixcheck.known import Failure
from radixcheck.loop import Budget
from radixcheck.registry import resolve
from radixcheck.trace import load, loads

pytestmark = pytest.mark.slow

PLANTED = "radix-first-release"
OTHERWISE = f"{Path(__file__).with_name('otherwise.py')}:AlwaysOff"

Spend: TypeAlias = Callable[..., Night]


class Inline:
    """A pool of one worker, which is this process.

    Args:
        loses: says how the worker of a task is lost; nothing if it is not.
    """

    size = 1
    stuck = False

    def __init__(self, loses: Callable[[Task], str] = lambda task: "") -> None:
        self.notes: list[str] = []
        self.tasks: list[Task] = []
        """All that were given."""
        self._loses = loses
        self._waiting: list[Task] = []

    @property
    def running(self) -> int:
        """How many tasks wait."""
        return len(self._waiting)

    def submit(self, task: Task) -> None:
        """Take a task."""
        self.tasks.append(task)
        self._waiting.append(task)

    def done(self, wait_s: float) -> list[Done]:
        """Do it."""
        task = self._waiting.pop()
        lost = self._loses(task)
        harvest: Harvest | None = None if lost else work(task)
        return [Done(task, harvest, lost)]

    def close(self) -> None:
        """Forget what waits."""
        self._waiting.clear()


@pytest.fixture
def spend(state: State) -> Spend:
    """Spend a night on targets, in this process."""

    def spent(
        *specs: str,
        canary: str = "",
        operations: int | None = 4_000,
        seconds: float | None = None,
        pool: Inline | None = None,
        known: tuple[Failure, ...] = (),
        seed: int = 1,
        baseline: str = "",
        only_new: bool = False,
        first_only: bool = False,
    ) -> Night:
        standings = [
            Standing(spec, arenas(resolve(spec)), seed, state, known=known) for spec in specs
        ]
        if canary:
            found = arenas(resolve(canary))
            standings.append(Standing(canary, found, seed, state, canary=True))
        budget = Budget(seconds, operations, first_only)
        plan = Plan(seed, budget, Task("", ""), baseline, only_new=only_new)
        began_s = pool.monotonic() if isinstance(pool, Timed) else time.monotonic()
        night = Night(plan, state, pool or Inline(), standings, began_s)
        night.run()
        return night

    return spent


MANY = 60
"""So many tasks are enough for anything."""

SIGNATURE = ("phantom-prefix", "match_prefix")
NAME = finding_name(PLANTED, SIGNATURE)
KNOWN = (Failure("phantom-prefix", "the first release"),)


def found(night: Night) -> list[tuple[str, str]]:
    """Name what was found."""
    return [each.violation.signature for each in night.standings[0].report.findings]


def drivers(tasks: Sequence[Task]) -> set[str]:
    """Name the drivers that were asked."""
    return {task.driver for task in tasks} - set(CHORES)


class Slow(Inline):
    """A pool in which the time for shrinking is always up before it is done."""

    def submit(self, task: Task) -> None:
        """Take a task, with no time for shrinking."""
        super().submit(replace(task, max_time_s=0) if task.driver == "shrink" else task)


class Timed(Inline):
    """A pool, and the only clock, by which a task takes as long as it is meant to."""

    def __init__(self) -> None:
        super().__init__()
        self._now_s = time.monotonic()

    def monotonic(self) -> float:
        """Tell the time."""
        return self._now_s

    def done(self, wait_s: float) -> list[Done]:
        """Let time pass."""
        task = self._waiting.pop()
        self._now_s += task.max_time_s / 2
        return [Done(task, Harvest(elapsed_s=task.max_time_s / 2))]


FIVE = ("radix", "radix-paged", "pool-exclusive", "pool-counted", "requests:radix")


# ---- turns -------------------------------------------------------------------------------


def test_every_target_has_a_turn_before_any_has_two(spend: Spend) -> None:
    pool = Inline()
    spend(*FIVE, operations=12_000, pool=pool)
    assert FIVE == tuple(task.spec for task in pool.tasks[:5])
    assert {"swarm"} == {task.driver for task in pool.tasks[:5]}


def test_few_operations_are_enough_for_a_turn_of_every_target(spend: Spend) -> None:
    night = spend(*FIVE, operations=2_000)
    assert 5 == sum(each.report.operations > 0 for each in night.standings)


def test_little_time_is_enough_for_a_turn_of_every_target(
    spend: Spend, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = Timed()
    monkeypatch.setattr(night_module, "time", pool)
    spend(*FIVE, canary="radix", operations=None, seconds=0.6, pool=pool)
    assert ["radix", *FIVE] == [task.spec for task in pool.tasks[:6]]


def test_a_campaign_that_is_stopped_again_and_again_begins_with_others(
    spend: Spend, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    for _ in range(3):
        pool = Timed()
        monkeypatch.setattr(night_module, "time", pool)
        spend("radix", "radix-paged", operations=None, seconds=0.01, pool=pool)
        seen += [task.spec for task in pool.tasks]
    assert ["radix", "radix-paged", "radix"] == seen


def test_a_canary_has_its_turn_first_and_is_not_held_short(spend: Spend) -> None:
    pool = Inline()
    spend(*FIVE, canary="radix", operations=3_000, pool=pool)
    first, second = pool.tasks[:2]
    assert (True, False) == (first.canary, second.canary)
    assert ((first.max_operations or 0) > 1_000, second.max_operations) == (True, 600)


def test_the_corpora_of_all_targets_are_replayed_in_turn(
    spend: Spend, monkeypatch: pytest.MonkeyPatch
) -> None:
    spend("radix", "radix-paged", operations=4_000)
    monkeypatch.setattr(standing_module, "REPLAYED", 2)
    pool = Inline()
    spend("radix", "radix-paged", operations=4_000, pool=pool)
    replays = [task.spec for task in pool.tasks if task.driver == "replay"]
    assert [2, 2] == [replays[:4].count(spec) for spec in ("radix", "radix-paged")]


# ---- findings ----------------------------------------------------------------------------


def test_a_planted_bug_is_found_shrunk_and_saved(spend: Spend, state: State) -> None:
    night = spend(PLANTED)
    assert ([SIGNATURE], 3) == (found(night), len(load(state.finding(NAME)).operations))


def test_a_signature_is_shrunk_once(spend: Spend) -> None:
    pool = Inline()
    spend(PLANTED, pool=pool, operations=8_000)
    assert 1 == sum(task.driver == "shrink" for task in pool.tasks)


def test_a_failing_trace_is_saved_before_it_is_shrunk(spend: Spend, state: State) -> None:
    seen: list[int] = []

    def loses(task: Task) -> str:
        if task.driver == "shrink":
            seen.append(len(load(state.finding(NAME)).operations))
        return ""

    spend(PLANTED, pool=Inline(loses))
    assert seen[0] > 3


def test_shrinking_that_ran_out_of_time_goes_on_in_the_next_run(spend: Spend) -> None:
    (cut_off,) = spend(PLANTED, pool=Slow()).standings[0].report.findings
    (done,) = spend(PLANTED, operations=100).standings[0].report.findings
    assert (True, False) == (cut_off.unfinished, done.unfinished)


def test_a_correct_target_is_clean_whichever_driver_proposes(state: State) -> None:
    pool, standing = Inline(), Standing("radix", arenas(resolve("radix")), 1, state)
    night = Night(Plan(1, Budget(), Task("", "")), state, pool, [standing], time.monotonic())

    def stop(night: Night) -> None:
        night.stopped = len(drivers(pool.tasks)) == len(DRIVERS) or len(pool.tasks) > MANY

    night.run(stop)
    assert ([], set(DRIVERS)) == (found(night), drivers(pool.tasks))


def test_a_night_ends_with_its_operations(spend: Spend) -> None:
    assert 5_000 <= spend("radix", operations=5_000).operations < 7_000


def test_a_night_ends_with_its_time(spend: Spend) -> None:
    began_s = time.monotonic()
    spend("radix", operations=None, seconds=1.5)
    assert time.monotonic() - began_s < 1.5 + LAST_S


def test_a_night_ends_with_the_first_finding_where_that_is_wanted(spend: Spend) -> None:
    night = spend(PLANTED, operations=200_000, first_only=True)
    assert ([SIGNATURE], True) == (found(night), night.operations < 200_000)


# ---- the next night ----------------------------------------------------------------------


def test_a_finding_is_looked_at_again_and_stays(spend: Spend, state: State) -> None:
    spend(PLANTED)
    before = load(state.finding(NAME))
    night = spend(PLANTED, operations=100)
    assert ([SIGNATURE], before) == (found(night), load(state.finding(NAME)))


def test_what_fails_no_more_joins_the_corpus(spend: Spend, state: State) -> None:
    spend(PLANTED)
    trace = load(state.finding(NAME))
    moved = trace.replace(found=trace.found and replace(trace.found, target="radix"))
    state.retire(NAME)
    assert moved.found is not None
    state.find("old.jsonl", moved, moved.found)
    night = spend("radix", operations=100)
    kept = [loads(each).operations for each in state.read("radix", state.corpus("radix"))]
    assert ([], False) == (found(night), state.finding("old.jsonl").exists())
    assert trace.operations in kept


def test_a_finding_that_nobody_looked_at_again_is_pending_and_stays(
    spend: Spend, state: State
) -> None:
    spend(PLANTED)
    before = load(state.finding(NAME))
    lost = Inline(lambda task: "died" if task.driver == "shrink" else "")
    (standing,) = spend("radix", PLANTED, pool=lost, operations=100).standings[1:]
    assert ([NAME], before) == ([*standing.pending], load(state.finding(NAME)))
    (standing,) = spend(PLANTED, operations=100).standings
    assert [] == [*standing.pending]


def test_a_finding_that_another_one_hides_is_pending_and_stays(spend: Spend, state: State) -> None:
    spend(PLANTED)
    trace = load(state.finding(NAME))
    assert trace.found is not None
    name = finding_name(OTHERWISE, SIGNATURE)
    state.find(name, trace, replace(trace.found, target=OTHERWISE))
    (standing,) = spend(OTHERWISE, operations=100).standings
    assert ([name], True) == ([*standing.pending], state.finding(name).exists())
    assert "size-drift" in {each.violation.rule for each in standing.report.findings}


def test_the_corpus_is_replayed_and_nothing_is_discovered_twice(spend: Spend, state: State) -> None:
    first = spend("radix", operations=6_000).standings[0]
    pool = Inline()
    again = spend("radix", operations=100, pool=pool).standings[0]
    replayed = sum(len(task.corpus) for task in pool.tasks if task.driver == "replay")
    assert (len(first.entries), first.features) == (replayed, first.features & again.features)


def test_no_seed_is_used_twice(spend: Spend) -> None:
    pools = [Inline(), Inline()]
    for pool in pools:
        spend("radix", pool=pool, operations=6_000)
    seeds = Counter(task.seed for pool in pools for task in pool.tasks if task.driver not in CHORES)
    assert {1} == set(seeds.values())


def test_tallies_go_on(spend: Spend, state: State) -> None:
    operations = sum(spend("radix", operations=2_000).operations for _ in range(2))
    assert (2, operations) == (state.tallies.runs, state.tallies.of("radix").operations)


# ---- what is no news ---------------------------------------------------------------------


def test_a_known_failure_is_counted_and_no_finding(spend: Spend) -> None:
    night = spend(PLANTED, known=KNOWN)
    report = night.standings[0].report
    assert ([], [SIGNATURE]) == (found(night), list(report.known))
    assert sum(share.cut for share in night.standings[0].shares) >= report.known[SIGNATURE]


def test_what_fails_on_the_baseline_too_is_not_new(spend: Spend) -> None:
    night = spend(PLANTED, baseline=PLANTED, only_new=True)
    assert ([SIGNATURE], []) == (found(night), night.violations(night.standings[0]))


def test_what_the_baseline_does_wrong_otherwise_is_new(spend: Spend) -> None:
    night = spend(PLANTED, baseline=OTHERWISE, only_new=True)
    assert {SIGNATURE: True} == night.standings[0].new


def test_what_the_baseline_can_do_is_new(spend: Spend) -> None:
    night = spend(PLANTED, baseline="radix", only_new=True)
    told = [each.violation.signature for each in night.violations(night.standings[0])]
    assert ([SIGNATURE], {SIGNATURE: True}) == (told, night.standings[0].new)


# ---- canaries ----------------------------------------------------------------------------


def test_a_canary_is_found_and_then_left_alone(spend: Spend) -> None:
    pool = Inline()
    night = spend("radix", canary=PLANTED, operations=20_000, pool=pool)
    canary = night.standings[1]
    asked = [task for task in pool.tasks if task.canary]
    assert (True, False) == (canary.found, any(task.driver == "shrink" for task in asked))
    assert canary.report.operations < 5_000


def test_a_canary_that_is_well_is_never_found(spend: Spend) -> None:
    assert not spend("radix", canary="radix").standings[1].found


# ---- lost workers ------------------------------------------------------------------------


def test_a_task_whose_worker_is_lost_is_done_again_isolated(spend: Spend) -> None:
    pool = Inline(lambda task: "" if task.isolate else "died of SIGKILL")
    night = spend("radix", operations=1_000, pool=pool)
    first, second = pool.tasks[:2]
    assert (first.seed, False, True) == (second.seed, first.isolate, second.isolate)
    assert night.operations >= 1_000


def test_a_task_that_loses_every_worker_is_given_up(spend: Spend) -> None:
    pool = Inline(lambda task: "died of SIGKILL")
    night = spend("radix", operations=1_000, pool=pool)
    each = Counter(task.seed for task in pool.tasks)
    assert {MOST_TRIES} == set(each.values())
    assert (0, []) == (night.operations, night.standings[0].able())
    assert "given up" in night.notes[0]


def test_a_driver_that_loses_every_worker_does_not_keep_others_from_it(spend: Spend) -> None:
    pool = Inline(lambda task: "died of SIGKILL" if task.driver == "swarm" else "")
    night = spend("radix", operations=4_000, pool=pool)
    assert (True, True) == (night.operations >= 4_000, "swarm" in night.notes[0])


def test_a_crash_is_found_after_its_worker_was_lost(spend: Spend) -> None:
    pool = Inline(lambda task: "" if task.isolate else "died of SIGSEGV")
    night = spend("radixcheck.targets.fatal:CutsWildly", operations=2_000, pool=pool)
    assert [("crash", "SIGSEGV")] == found(night)


def test_a_target_that_cannot_be_judged_is_left_alone(spend: Spend, state: State) -> None:
    good = Standing("radix", arenas(resolve("radix")), 1, state)
    bad = Standing("nowhere:Cache", arenas(resolve("radix")), 1, state)
    plan = Plan(1, Budget(max_operations=3_000), Task("", ""))
    night = Night(plan, state, Inline(), [bad, good], time.monotonic())
    night.run()
    assert bad.failed is not None
    assert (0, True) == (bad.report.operations, good.report.operations >= 3_000)


def test_stopped_at_any_moment_a_night_ends_in_order(spend: Spend, state: State) -> None:
    standing = Standing("radix", arenas(resolve("radix")), 1, state)
    plan = Plan(1, Budget(), Task("", ""))
    night = Night(plan, state, Inline(), [standing], time.monotonic())

    def stop(night: Night) -> None:
        night.stopped = night.operations > 0

    night.run(stop)
    assert state.tallies.of("radix").operations == night.operations > 0
