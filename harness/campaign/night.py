"""The conductor: hands out tasks and takes in harvests, until time is up or somebody stops it.

::

      chores: replay, shrink, confirm ──┐
                                        ├──► pool ──► harvest ──► corpus, counts, findings
      drivers, the first due ───────────┘     │                        │
                   ▲                          └─ lost? again,          └─ new signature? shrink it,
                   └── by what they discover     isolated                 ask the baseline

Whatever a harvest brings is on disk before the next one is looked at.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from itertools import chain, zip_longest
from math import inf

from msgspec import Struct, structs

from radixcheck.campaign.drivers import ATHERIS, SWARM
from radixcheck.campaign.drivers import NAMES as DRIVERS
from radixcheck.campaign.pool import Done, Pool
from radixcheck.campaign.shares import Share, charge, first_due, give
from radixcheck.campaign.standing import Standing
from radixcheck.campaign.state import State, finding_name
from radixcheck.campaign.unit import CHORES, Harvest, Task
from radixcheck.finding import Finding
from radixcheck.hosts.wire import Failed
from radixcheck.known import Signature
from radixcheck.loop import SHRINK_TIME_S, Budget
from radixcheck.rules import FATAL, Violation
from radixcheck.trace import Trace, dumps

LOOK_EVERY_S = 0.1
SHORTEST_S, LONGEST_S = 0.5, 5.0
"""How long a task is meant to take: short ones at first, so that every driver has its turn soon."""

HANDLING_S = 0.01
"""What a task may cost the conductor. With many workers tasks are longer, so that it keeps up."""

TURNS = 4
"""Tasks grow so slowly that every driver has about so many turns before."""

LAST_S = 2.0
"""So long after its end a campaign waits for what is being shrunk."""

SAVE_EVERY_S = 0.5
"""Tallies are written no more often; what is found is written at once."""

MOST_TRIES = 3
"""A task that so many workers were lost over is given up."""

MOST_GIVEN_UP = 3
"""A driver that had to give up so many tasks gets no more."""


class Plan(Struct, frozen=True):
    """How a campaign is to go."""

    seed: int
    budget: Budget
    like: Task
    """What all tasks have in common."""
    baseline: str = ""
    """The target on which a finding must not fail."""
    only_new: bool = False
    """Whether a finding that fails on the baseline too is no violation."""


class Night:
    """One run of a campaign.

    Args:
        began_s: reading of the monotonic clock from which the time limit counts.
    """

    def __init__(
        self, plan: Plan, state: State, pool: Pool, standings: Sequence[Standing], began_s: float
    ) -> None:
        self.standings = standings
        self.notes: list[str] = []
        self.lost: Counter[tuple[str, str]] = Counter()
        """How often a worker was lost, by the target of its task and how."""
        self.stopped = False
        """Whether somebody has stopped it; may be set at any moment."""
        self._plan, self._state, self._pool, self._began_s = plan, state, pool, began_s
        self._chores: deque[Task] = deque()
        self._doing = 0
        """Chores that are running."""
        self._chore_last = False
        self._out = 0
        """Operations that running tasks may still judge."""
        self._asked: dict[str, tuple[Standing, Signature]] = {}
        """Findings about which the baseline is asked, by name."""
        self._given_up: Counter[tuple[str, str]] = Counter()
        self._saved_s = 0.0

    @property
    def elapsed_s(self) -> float:
        """Seconds since the campaign began, whatever the clock on the wall says."""
        return time.monotonic() - self._began_s

    @property
    def left_s(self) -> float:
        """Seconds until the limit; without end where there is none."""
        limit_s = self._plan.budget.max_time_s
        return inf if limit_s is None else limit_s - self.elapsed_s

    @property
    def done(self) -> float:
        """The part that is over, of time or operations."""
        time_s, most = self._plan.budget.max_time_s, self._plan.budget.max_operations
        spent = [self.elapsed_s / time_s if time_s else 0.0, self.operations / most if most else 0]
        return min(1.0, max(spent))

    @property
    def operations(self) -> int:
        """Operations judged in this run, those on canaries left out."""
        return sum(each.report.operations for each in self.standings if not each.canary)

    def violations(self, standing: Standing) -> list[Finding]:
        """Return the findings of a target that people want to be woken for."""
        found = standing.report.violations
        if not self._plan.only_new:
            return found
        return [each for each in found if standing.new.get(each.violation.signature) is not False]

    def run(self, watch: Callable[[Night], None] = lambda night: None) -> None:
        """Go on until time, operations or targets are used up, or it is stopped.

        Raises:
            PoolError: there is nobody left to run tasks. All that was found is saved.
        """
        self._state.tallies.runs += 1
        self._chores.extend(self._left_over())
        try:
            while not self.stopped and (self._hand_out() or self._pool.running):
                for done in self._pool.done(LOOK_EVERY_S):
                    self._take_in(done)
                self._save()
                watch(self)
                if self.left_s < -LAST_S:
                    break
        finally:
            self._pool.close()
            self._save(always=True)
            watch(self)

    # ---- tasks ---------------------------------------------------------------------------

    def _hand_out(self) -> bool:
        """Give idle workers tasks; tell whether all are busy then."""
        while self._pool.running < self._pool.size:
            task = self._next()
            if task is None:
                return False
            self._pool.submit(task)
        return True

    def _next(self) -> Task | None:
        over = self._is_over()
        if self._chores and (over or self._has_room()):
            self._doing += 1
            self._chore_last = True
            task = self._chores.popleft()
            left_s = max(0.0, self.left_s + LAST_S / 2)
            return structs.replace(task, max_time_s=min(task.max_time_s, left_s))
        self._chore_last = False
        return None if over else self._driven()

    def _has_room(self) -> bool:
        """Tell whether a chore may be done beside the drivers: by half of the workers, and by an
        only one in turn with them."""
        size = self._pool.size
        return self._doing < size // 2 if size > 1 else not self._chore_last

    def _is_over(self) -> bool:
        budget = self._plan.budget
        return (
            self.left_s <= 0
            or (budget.max_operations is not None and self._operations_left() <= 0)
            or (budget.first_only and any(map(self._settled, self.standings)))
            or not any(each.able() for each in self.standings if not each.canary)
        )

    def _operations_left(self) -> float:
        most = self._plan.budget.max_operations
        return inf if most is None else most - self.operations - self._out

    def _settled(self, standing: Standing) -> bool:
        """Tell whether a target has a violation about which nothing more is asked."""
        nobody_to_ask = not self._plan.baseline
        return not standing.canary and any(
            finding.steps and (nobody_to_ask or finding.violation.signature in standing.new)
            for finding in self.violations(standing)
        )

    def _driven(self) -> Task | None:
        """Make the next task of the driver that is due first. Targets that had no turn yet come
        before all others, and each gets no more than its part of what is left."""
        able, waiting = self._able(), self._waiting()
        share = first_due(waiting[0].able() if waiting else able)
        if share is None:
            return None
        turn_s = self.elapsed_s * self._pool.size / (TURNS * len(able))
        longest_s = max(LONGEST_S, HANDLING_S * self._pool.size)
        left_s = self.left_s * min(1.0, self._pool.size / max(1, len(waiting)))
        seconds = min(longest_s, max(SHORTEST_S, turn_s), max(0.05, left_s))
        task = self._of(share.spec, share.canary).task(
            share, _seed(self._plan.seed, share), seconds, self._plan.like
        )
        give(share, able, seconds)
        self._state.tallies.of(share.spec).turns[share.driver] = share.turns
        parts = 1 if share.canary else max(1, sum(not each.canary for each in waiting))
        most = min(task.max_operations or inf, max(1, self._operations_left() / parts))
        task = structs.replace(task, max_operations=int(most))
        self._out += 0 if share.canary else task.max_operations or 0
        return task

    def _waiting(self) -> list[Standing]:
        """List the targets that may have a turn and had none yet: canaries, then whoever has had
        the fewest in all runs, so that a campaign of many short ones begins with others each time.
        """
        had_none = (each for each in self.standings if not any(one.given for one in each.shares))
        return sorted(
            (each for each in had_none if each.able()),
            key=lambda each: (not each.canary, sum(share.turns for share in each.shares)),
        )

    def _able(self) -> list[Share]:
        """List who may get a task: one driver of all targets after the other, so that among equals
        every target has its turn."""
        every = (share for each in self.standings for share in each.able())
        return sorted(every, key=lambda share: [*DRIVERS, ATHERIS].index(share.driver))

    def _of(self, spec: str, canary: bool) -> Standing:
        alike = (each for each in self.standings if each.spec == spec and each.canary == canary)
        return next(alike)

    # ---- chores --------------------------------------------------------------------------

    def _left_over(self) -> Iterator[Task]:
        """Yield what earlier runs have left: findings to look at again, the corpus."""
        targets = {each.spec: each for each in self.standings if not each.canary}
        for name, trace in self._state.findings().items():
            if trace.found is not None and trace.found.target in targets:
                standing = targets[trace.found.target]
                standing.pending[name] = trace.found
                yield self._shrinking(standing, name, trace, trace.found.rule)
        by_time = sorted(targets, key=lambda spec: self._state.tallies.of(spec).elapsed_s)
        replays = (targets[spec].replays(self._plan.like) for spec in by_time)
        yield from filter(None, chain(*zip_longest(*replays)))  # no corpus before all others

    def _shrinking(
        self,
        standing: Standing,
        name: str,
        trace: Trace,
        rule: str,
        violation: Violation | None = None,
    ) -> Task:
        return structs.replace(
            self._plan.like,
            spec=standing.spec,
            driver="shrink",
            name=name,
            corpus=(dumps(trace),),
            violation=violation,
            known=standing.known,
            isolate=standing.isolate or rule in FATAL,
            max_time_s=SHRINK_TIME_S,
        )

    def _ask_baseline(self, standing: Standing, finding: Finding) -> None:
        """Have the shrunk trace of a finding tried on the baseline, in a process of its own: both
        may import modules of the same names."""
        signature = finding.violation.signature
        name = finding_name(standing.spec, signature)
        self._asked[name] = standing, signature
        self._chores.append(
            structs.replace(
                self._plan.like,
                spec=self._plan.baseline,
                driver="confirm",
                name=name,
                corpus=(dumps(finding.trace),),
                isolate=True,
                max_time_s=SHRINK_TIME_S,
            )
        )

    # ---- harvests ------------------------------------------------------------------------

    def _take_in(self, done: Done) -> None:
        task, harvest, _ = done
        if task.driver in CHORES or task.tries:
            self._doing -= 1
        elif not task.canary:
            self._out -= task.max_operations or 0
        if harvest is None:
            self._lost(task, done.lost)
        elif task.driver == "confirm":
            self._confirmed(task, harvest)
        elif harvest.failed is not None:
            self._failed(task, harvest.failed)
        elif task.driver == "shrink":
            self._shrunk(task, harvest.finding)
        else:
            self._judged(task, harvest)

    def _judged(self, task: Task, harvest: Harvest) -> None:
        standing = self._of(task.spec, task.canary)
        discovered = standing.take(harvest, saved=task.driver == "replay")
        for failing in harvest.failing:
            violation = failing.violation
            standing.isolate |= violation.rule in FATAL
            seed = task.seed if task.driver == SWARM else None
            if name := standing.fail(failing, seed):
                discovered += 1
                what = failing.trace, violation.rule, violation
                self._chores.append(self._shrinking(standing, name, *what))
        if not task.canary:
            self._state.tallies.of(task.spec).add(harvest)
        for share in standing.shares:
            if share.driver == task.driver:
                self._credit(share, task, harvest, discovered)

    def _credit(self, share: Share, task: Task, harvest: Harvest, discovered: int) -> None:
        share.note(harvest, discovered)
        able = self._able()
        if any(each is share for each in able):
            charge(share, able, harvest.elapsed_s - task.max_time_s / 2)
        if share.canary and self._of(share.spec, True).found:
            share.benched = "it was found"

    def _shrunk(self, task: Task, finding: Finding | None) -> None:
        standing = self._of(task.spec, False)
        if finding is None:
            standing.fails_no_more(task.name, task.corpus[0])
            self.notes.append(f"{task.name} fails no more on {task.spec}: its trace is kept")
        elif standing.shrunk(finding, task.name) and self._plan.baseline:
            self._ask_baseline(standing, finding)

    def _confirmed(self, task: Task, harvest: Harvest) -> None:
        standing, signature = self._asked[task.name]
        failing = {each.violation.signature for each in harvest.failing}
        standing.new[signature] = signature not in failing
        if harvest.failed is not None:
            told = f"{self._plan.baseline} cannot run the trace of {task.name}"
            self.notes.append(f"{told}: {harvest.failed.message}")

    # ---- what went wrong -----------------------------------------------------------------

    def _failed(self, task: Task, failed: Failed) -> None:
        """Leave a target alone that cannot be judged. If only its isolation failed, or an old
        trace does not fit any more, go on without."""
        standing = self._of(task.spec, task.canary)
        if task.driver in (*CHORES, ATHERIS) or task.tries:
            self._give_up(task, failed.message)
            return
        standing.failed = failed
        for share in standing.shares:
            share.benched = failed.message

    def _lost(self, task: Task, how: str) -> None:
        """Do a task again whose worker was lost: isolated, so that a crash becomes a finding."""
        self.lost[task.spec, how] += 1
        again = structs.replace(task, isolate=True, tries=task.tries + 1)
        if again.tries >= MOST_TRIES:
            self._give_up(task, f"{MOST_TRIES} workers were lost over it, the last one {how}")
        else:
            self._chores.append(again)

    def _give_up(self, task: Task, why: str) -> None:
        self.notes.append(f"a task of {task.driver} on {task.spec} was given up: {why}")
        self._given_up[task.spec, task.driver] += 1
        if self._given_up[task.spec, task.driver] < MOST_GIVEN_UP:
            return
        for standing in self.standings:
            for share in standing.shares:
                if (share.spec, share.driver) == (task.spec, task.driver):
                    share.benched = why

    # ---- the folder ----------------------------------------------------------------------

    def _save(self, *, always: bool = False) -> None:
        now_s = self.elapsed_s
        for standing in self.standings:
            standing.note_rate(now_s)
        if always or now_s - self._saved_s > SAVE_EVERY_S:
            self._state.tallies.elapsed_s += now_s - self._saved_s
            self._saved_s = now_s
            self._state.save()


def _seed(seed: int, share: Share) -> int:
    """Make a number of its own for each task of each driver."""
    named = f"{seed} {share.spec} {share.driver} {share.turns}"
    return int.from_bytes(sha256(named.encode()).digest()[:6])
