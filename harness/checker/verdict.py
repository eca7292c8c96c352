"""From a whole trace to a verdict: one fresh target, every operation in turn, up to the first that
breaks a rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TypeAlias

import msgspec
from msgspec import Struct

from radixcheck.buffers import BadAnswer
from radixcheck.capabilities import Capabilities
from radixcheck.checker.judge import Checker
from radixcheck.clock import Clock
from radixcheck.finding import Snapshot, Step
from radixcheck.protocol import Target
from radixcheck.rules import Violation
from radixcheck.trace import Config, Trace

Open: TypeAlias = Callable[[Config, Clock], Target]
"""Builds a fresh target from a configuration and the clock that it may use."""


SURE = 3
"""So often must a trace fail with buffers that are reused, and pass with others, to prove an
alias."""


class Verdict(Struct, frozen=True):
    """What came out of one trace."""

    violation: Violation | None
    capabilities: Capabilities
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


def check(open_target: Open, trace: Trace, *, thorough: bool = True) -> Verdict:
    """Judge a fresh target by `trace`.

    If not `thorough`, what makes a target walk its whole tree is asked only now and then.

    Raises:
        TargetError: the target cannot be opened.
        BadAnswer: the adapter answered what cannot be read.
    """
    checker = _checker(open_target, trace, thorough=thorough)
    return _named(open_target, trace, _run(checker, trace))


def replay(open_target: Open, trace: Trace) -> Replay:
    """Judge as `check` does, and keep every step for people to look at."""
    checker = _checker(open_target, trace)
    checker.record(draws=True)
    verdict = _named(open_target, trace, _run(checker, trace))
    after = checker.draw()
    return Replay(verdict, tuple(checker.steps), checker.before or after, after)


def same_answers(open_target: Open, trace: Trace) -> Violation | None:
    """Run `trace` twice, and tell where the second run's answers differ from the first's."""
    first, second = (_outcomes(open_target, trace) for _ in range(2))
    for place, (ours, theirs) in enumerate(zip(first, second, strict=False)):
        if ours.outcome != theirs.outcome:
            kind = ours.operation.kind
            return Violation("nondeterminism", kind, place, str(ours.outcome), str(theirs.outcome))
    return None


def _outcomes(open_target: Open, trace: Trace) -> list[Step]:
    checker = _checker(open_target, trace)
    checker.record(draws=False)
    _run(checker, trace)
    return checker.steps


def _checker(
    open_target: Open, trace: Trace, *, thorough: bool = True, overwrites: bool = True
) -> Checker:
    clock = Clock()
    return Checker(
        open_target(trace.config, clock),
        clock,
        misuse=trace.misuse,
        disabled=bool(trace.config.get("disable")),
        overwrites=overwrites,
        thorough=thorough,
    )


def _run(checker: Checker, trace: Trace) -> Verdict:
    violation: Violation | None = None
    for operation in trace.operations:
        try:
            violation = checker.apply(operation)
        except BadAnswer as error:
            error.add_note(f"operation {checker.trial.step + 1} of the trace: {operation}")
            raise
        if violation is not None:
            break
    return Verdict(
        violation,
        checker.trial.capabilities,
        checker.trial.step + 1,
        checker.trial.witness.reached,
        checker.trial.skipped,
    )


def _named(open_target: Open, trace: Trace, verdict: Verdict) -> Verdict:
    """Name an alias for what it is: if nothing goes wrong while the caller leaves its buffers
    alone, one was kept."""
    violation = verdict.violation
    if violation is None or verdict.capabilities.arguments == "given":
        return verdict
    if violation.rule == "mutated-argument":
        return verdict
    for _ in range(SURE):
        careful = _run(_checker(open_target, trace, overwrites=False), trace).violation
        if careful is not None and careful.step <= violation.step:
            return verdict
        again = _run(_checker(open_target, trace), trace).violation
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
