"""From a whole trace to a verdict: one fresh target, every operation in turn, up to the first that
breaks a rule."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from traceback import walk_tb
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from radixcheck.ahead import judged
from radixcheck.buffers import BadAnswer
from radixcheck.capabilities import AnyCapabilities
from radixcheck.clock import Clock
from radixcheck.finding import Pictured, Snapshot, Step
from radixcheck.journal import AFTER, JOURNAL, OUTSIDE, PLACE, Stopped
from radixcheck.levels import Judge, Level, level_of
from radixcheck.nesting import evenly
from radixcheck.operations import AnyOperation, Audit, Outcome, Unanswered
from radixcheck.rules import Violation
from radixcheck.trace import Config, Trace

Open: TypeAlias = Callable[[Config, Clock], Any]
"""Builds a fresh target from a configuration and the clock that it may use."""


SURE = 3
"""So often must a trace fail with buffers that are reused, and pass with others, to prove an
alias."""

FILM_NUMBERS = 2_000_000
"""Of pictures with more tokens and slots than this, the first are let go."""


class Verdict(Struct, frozen=True):
    """What came out of one trace."""

    violation: Violation | None
    capabilities: AnyCapabilities
    operations: int
    """Operations applied, the broken one included."""
    reached: Counter[str]
    skipped: Counter[str]


class Replay(Pictured, frozen=True):
    """A verdict, and everything that happened on the way to it."""

    verdict: Verdict
    steps: tuple[Step, ...]
    answers: tuple[tuple[str, Outcome], ...] = ()
    """What each of several targets answered at the last step, by its spec."""

    def up_to(self, num_steps: int) -> Replay:
        """Leave out what happened after so many steps."""
        left = max(0, len(self.pictures) - len(self.steps[num_steps:]))
        steps, pictures = self.steps[:num_steps], self.pictures[:left]
        return msgspec.structs.replace(self, steps=steps, pictures=pictures)


class _Film(list[Step]):
    """The steps of a judge, and pictures of what was stored before the first and after each."""

    def __init__(self, judge: Judge) -> None:
        super().__init__()
        self._draw = judge.draw
        self._pictures = deque([self._draw()])
        self._numbers = 0

    @property
    def pictures(self) -> tuple[Snapshot, ...]:
        """The last of them, as many as there is memory for."""
        return tuple(self._pictures)

    def append(self, step: Step) -> None:
        """Note a step that is over."""
        super().append(step)
        self._pictures.append(self._draw())
        self._numbers += _numbers(self._pictures[-1])
        while self._numbers > FILM_NUMBERS and len(self._pictures) > 2:
            self._numbers -= _numbers(self._pictures.popleft())


def _numbers(picture: Snapshot) -> int:
    """Count the tokens and slots of a picture."""
    waiting = [edge for tree in picture.trees.values() for edge in tree]
    count = sum(len(each.slots) for each in picture.holdings)
    while waiting:
        edge = waiting.pop()
        count += len(edge.tokens) + len(edge.slots)
        waiting += edge.children
    return count


class _Trial(Struct):
    """One trace on its way through one fresh target."""

    level: Level
    judge: Judge
    trace: Trace

    def film(self) -> _Film:
        """Keep every step from now on, and pictures of what is stored."""
        film = _Film(self.judge)
        self.judge.record()
        self.judge.steps = film
        return film

    @evenly()
    def run(self) -> Verdict:
        """Apply one operation after the other, up to the first that breaks a rule."""
        judge, violation, place, cells = self.judge, None, -1, JOURNAL.cells
        for place, operation in enumerate(self.trace.operations):
            cells[PLACE] = place
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
        cells[PLACE] = AFTER
        return Verdict(violation, judge.capabilities, place + 1, judge.reached, judge.skipped)


def check(open_target: Open, trace: Trace, *, thorough: bool = True) -> Verdict:
    """Judge a fresh target by `trace`.

    If not `thorough`, what makes a target walk its whole tree is asked only now and then.

    Raises:
        TargetError: the target cannot be opened.
        BadAnswer: the adapter answered what cannot be read.
    """
    verdict = judged(open_target, lambda opened: _trial(opened, trace, thorough=thorough))
    return _named(open_target, trace, verdict)


def replay(open_target: Open, trace: Trace) -> Replay:
    """Judge as `check` does, and keep every step for people to look at."""
    trial = _trial(open_target, trace)
    film = trial.film()
    verdict = _named(open_target, trace, trial.run())
    return Replay(verdict, tuple(film), pictures=film.pictures)


def replay_until(open_target: Open, trace: Trace, calls: int) -> Replay:
    """Replay a trace in a worker up to a call that would end it; the last step is that call,
    unanswered.

    Args:
        calls: counts the calls since the journal was set to 0, the one to come included.
    """
    with JOURNAL.stopping(calls):
        trial = _trial(open_target, trace)
    film = trial.film()
    try:
        verdict = trial.run()
    except Stopped as stop:
        place = JOURNAL.cells[PLACE]
        operation = _made(stop) or trace.operations[place]
        audit = isinstance(trace.operations[place], Audit)
        last = Step(operation, Unanswered("the trace was stopped here"), stop.reading, audit)
        judge = trial.judge
        verdict = Verdict(None, judge.capabilities, place + 1, judge.reached, judge.skipped)
        pictures = (*film.pictures, judge.draw())
        return Replay(verdict, (*film, last), pictures=pictures)
    return Replay(verdict, tuple(film), pictures=film.pictures)


def _made(stop: Stopped) -> AnyOperation | None:
    """Return the operation whose call was stopped: an audit makes several, and only its own frames
    know which one comes next."""
    known = [frame.f_locals.get("operation") for frame, _ in walk_tb(stop.__traceback__)]
    return next((each for each in reversed(known) if isinstance(each, AnyOperation)), None)


def record(open_target: Open, trace: Trace) -> Replay:
    """Judge as `check` does, and keep every step, but draw nothing."""
    trial = _trial(open_target, trace)
    trial.judge.record()
    return Replay(trial.run(), tuple(trial.judge.steps))


def same_answers(open_target: Open, trace: Trace) -> Violation | None:
    """Run `trace` twice, and tell where the second run's answers differ from the first's."""
    first, second = (record(open_target, trace).steps for _ in range(2))
    for place, (ours, theirs) in enumerate(zip(first, second, strict=False)):
        if ours.outcome != theirs.outcome:
            kind = ours.operation.kind
            return Violation("nondeterminism", kind, place, str(ours.outcome), str(theirs.outcome))
    return None


def _trial(
    open_target: Open, trace: Trace, *, thorough: bool = True, overwrites: bool = True
) -> _Trial:
    clock = JOURNAL.clock()
    JOURNAL.cells[PLACE] = OUTSIDE
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
