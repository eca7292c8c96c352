"""From a whole trace to a verdict: one fresh target, every operation in turn, up to the first that
breaks a rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from radixcheck.buffers import BadAnswer
from radixcheck.capabilities import AnyCapabilities
from radixcheck.clock import Clock
from radixcheck.finding import Snapshot, Step
from radixcheck.levels import Judge, Level, level_of
from radixcheck.rules import Violation
from radixcheck.trace import Config, Trace

Open: TypeAlias = Callable[[Config, Clock], Any]
"""Builds a fresh target from a configuration and the clock that it may use."""


SURE = 3
"""So often must a trace fail with buffers that are reused, and pass with others, to prove an
alias."""


class Verdict(Struct, frozen=True):
    """What came out of one trace."""

    violation: Violation | None
    capabilities: AnyCapabilities
    operations: int
    """Operations applied, the broken one included."""
    reached: Counter[str]
    skipped: Counter[str]


class Replay(Struct, frozen=True):
    """A verdict, and everything that happened on the way to it."""

    verdict: Verdict
    steps: tuple[Step, ...]
    before: Snapshot
    """What was stored before the last step."""
    after: Snapshot


class _Trial(Struct):
    """One trace on its way through one fresh target."""

    level: Level
    judge: Judge
    trace: Trace

    def run(self) -> Verdict:
        """Apply one operation after the other, up to the first that breaks a rule."""
        judge, violation, place = self.judge, None, -1
        for place, operation in enumerate(self.trace.operations):
            if operation.kind not in self.level.kinds:
                judge.skipped[f"{operation.kind} is no operation of a {self.level.name}"] += 1
                continue
            try:
                violation = judge.apply(operation)
            except BadAnswer as error:
                error.add_note(f"operation {place + 1} of the trace: {operation}")
                raise
            if violation is not None:
                violation = msgspec.structs.replace(violation, step=place)
                break
        return Verdict(violation, judge.capabilities, place + 1, judge.reached, judge.skipped)


def check(open_target: Open, trace: Trace, *, thorough: bool = True) -> Verdict:
    """Judge a fresh target by `trace`.

    If not `thorough`, what makes a target walk its whole tree is asked only now and then.

    Raises:
        TargetError: the target cannot be opened.
        BadAnswer: the adapter answered what cannot be read.
    """
    verdict = _trial(open_target, trace, thorough=thorough).run()
    return _named(open_target, trace, verdict)


def replay(open_target: Open, trace: Trace) -> Replay:
    """Judge as `check` does, and keep every step for people to look at."""
    trial = _trial(open_target, trace)
    trial.judge.record(draws=True)
    verdict = _named(open_target, trace, trial.run())
    after = trial.judge.draw()
    return Replay(verdict, tuple(trial.judge.steps), trial.judge.before or after, after)


def same_answers(open_target: Open, trace: Trace) -> Violation | None:
    """Run `trace` twice, and tell where the second run's answers differ from the first's."""
    first, second = (_outcomes(open_target, trace) for _ in range(2))
    for place, (ours, theirs) in enumerate(zip(first, second, strict=False)):
        if ours.outcome != theirs.outcome:
            kind = ours.operation.kind
            return Violation("nondeterminism", kind, place, str(ours.outcome), str(theirs.outcome))
    return None


def _outcomes(open_target: Open, trace: Trace) -> list[Step]:
    trial = _trial(open_target, trace)
    trial.judge.record(draws=False)
    trial.run()
    return trial.judge.steps


def _trial(
    open_target: Open, trace: Trace, *, thorough: bool = True, overwrites: bool = True
) -> _Trial:
    clock = Clock()
    target = open_target(trace.config, clock)
    level = level_of(target)
    judge = level.judge(
        target,
        clock,
        misuse=trace.misuse,
        disabled=bool(trace.config.get("disable")),
        overwrites=overwrites,
        thorough=thorough,
    )
    return _Trial(level, judge, trace)


def _named(open_target: Open, trace: Trace, verdict: Verdict) -> Verdict:
    """Name an alias for what it is: if nothing goes wrong while the caller leaves its buffers
    alone, one was kept."""
    violation = verdict.violation
    if violation is None or verdict.capabilities.arguments == "given":
        return verdict
    if violation.rule == "mutated-argument":
        return verdict
    for _ in range(SURE):
        careful = _trial(open_target, trace, overwrites=False).run().violation
        if careful is not None and careful.step <= violation.step:
            return verdict
        again = _trial(open_target, trace).run().violation
        if again is None or (again.signature, again.step) != (violation.signature, violation.step):
            return verdict  # the target is fickle, so nothing follows from one good run
    alias = Violation(
        "mutated-argument",
        violation.operation,
        violation.step,
        "no alias of a buffer that the caller reuses",
        f"{violation.rule}: {violation.actual}, where {violation.expected} was expected",
        "the same operations go well if the caller leaves its buffers alone",
    )
    return msgspec.structs.replace(verdict, violation=alias)
