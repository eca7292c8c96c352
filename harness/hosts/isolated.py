"""The host that is a worker: a target may crash, hang or eat memory, and is found to do so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from copy import copy
from typing import Any, NamedTuple

from msgspec import structs

from radixcheck.arena import Arena
from radixcheck.claims import BY_LEVEL, Claim, Tried, try_claims
from radixcheck.claims.bench import Trouble
from radixcheck.hosts.deaths import cause, detail
from radixcheck.hosts.process import Ended, Worker
from radixcheck.journal import AFTER, OUTSIDE
from radixcheck.operations import Unanswered
from radixcheck.registry import Source, TargetError
from radixcheck.rules import Violation
from radixcheck.trace import Config, Trace
from radixcheck.verdict import Replay, Verdict

ECHO = "An earlier call has damaged the process: a build with a sanitizer says which one."

PLAYED = frozenset(("replay", "until"))
"""What is asked of a process that has judged nothing: what it shows must be the trace's own."""

HURRIED_S = 0.25
"""The patience of a host in a hurry."""


class Limits(NamedTuple):
    """What a target may take."""

    op_timeout_s: float = 10.0
    """For one call."""
    memory_bytes: int = 2 * 2**30
    """For the process, its interpreter and the model included."""


LIMITS = Limits()


class Isolated:
    """Judges a target in a worker, whole traces at a time: generator and shrinker stay here, model,
    checker and target are there. The target is never imported in this process.

    Raises:
        TargetError: the target cannot be resolved, or its import ended the process.
    """

    def __init__(self, spec: str, limits: Limits = LIMITS) -> None:
        self._worker = Worker(spec, limits.memory_bytes)
        self._patience_s = limits.op_timeout_s
        self._fresh = False
        """Whether every question goes to a process that has judged nothing yet."""
        self._echo: Ended | None = None
        """A death of which nobody has been told yet."""
        self._known: dict[tuple[tuple[str, Any], ...], Arena] = {}
        self.source: Source = self._ask("describe")

    @property
    def kills(self) -> int:
        """How often something else ended the process, and a trace was judged again."""
        return self._worker.kills

    def command(self, path: str) -> list[str]:
        """Return the command that replays a trace file in a worker."""
        return ["replay", path, "--target", self.source.spec, "--isolate"]

    def teller(self, violation: Violation) -> Isolated:
        """There is only one target."""
        return self

    def arenas(self) -> list[Arena]:
        """Open the target once in every configuration that it supports."""
        arenas: list[Arena] = self._opened("arenas")
        self._known |= {tuple(arena.config.items()): arena for arena in arenas}
        return arenas

    def look(self, config: Config) -> Arena:
        """Open the target once under any configuration."""
        key = tuple(config.items())
        if key not in self._known:
            self._known[key] = self._opened("look", config)
        return self._known[key]

    def begin(self, trace: Trace) -> None:
        """Let the worker judge, while this process does something else."""
        self._worker.begin(self._patience_s, "check", trace, False)

    def check(self, trace: Trace, thorough: bool = True) -> Verdict:
        """Judge a trace; a death is a verdict too."""
        try:
            verdict: Verdict = self._ask("check", trace, thorough)
        except Ended as end:
            return self._verdict(end, trace)
        echo, self._echo = self._echo, None
        return verdict if echo is None else _with_echo(verdict, echo, trace)

    def record(self, trace: Trace) -> Replay:
        """Judge, and keep every step."""
        return self._played("record", trace)

    def replay(self, trace: Trace) -> Replay:
        """Judge, and keep every step and the last pictures."""
        return self._played("replay", trace)

    def again(self, rule: str, trace: Trace) -> Violation | None:
        """Run a trace several times, for a rule of `radixcheck.hosts.here.AGAIN`."""
        try:
            violation: Violation | None = self._ask("again", rule, trace)
        except Ended as end:
            return self._broken(end, trace)
        return violation

    def raised(self, trace: Trace, what: str) -> list[str]:
        """Run a trace for the traceback of an exception."""
        lines: list[str] = self._opened("raised", trace, what)
        return lines

    def claims(self) -> Iterator[Tried]:
        """Check the plain claims in turn, each as if nothing had happened before."""
        return try_claims(self._claim)

    def hurried(self) -> Isolated:
        """Return the same host with less patience, which also takes a new process each time: what
        one trace has damaged, another shall not pay for."""
        hurried = copy(self)
        hurried._patience_s, hurried._fresh = min(HURRIED_S, self._patience_s), True
        return hurried

    def close(self) -> None:
        """End the worker."""
        self._worker.close()

    def _ask(self, name: str, *arguments: Any) -> Any:
        """Ask; and once more where what earlier traces have left may have ended the process. Memory
        that they have kept is no fault: a module may well remember something."""
        fresh = self._fresh or name in PLAYED
        try:
            return self._worker.ask(self._patience_s, name, *arguments, fresh=fresh)
        except Ended as end:
            damaged = end.death.place == OUTSIDE and not end.death.limit
            if fresh or not (damaged or end.death.limit == "memory"):
                raise
            answer = self._worker.ask(self._patience_s, name, *arguments, fresh=True)
            self._echo = end if damaged else self._echo
            return answer

    def _opened(self, name: str, *arguments: Any) -> Any:
        """Ask what ends in a verdict about the whole target, if it ends the process."""
        try:
            return self._ask(name, *arguments)
        except Ended as end:
            raise self._unopened(end) from end

    def _unopened(self, end: Ended) -> TargetError:
        message = f"{self.source.name}: its process {end} while it was opened"
        return TargetError(message, detail(end.death.said), "target")

    # ---- deaths --------------------------------------------------------------------------

    def _broken(self, end: Ended, trace: Trace) -> Violation:
        """Say which rule a death breaks, at the operation that was running."""
        if end.death.place == OUTSIDE or not trace.operations:
            raise self._unopened(end) from end
        place = len(trace.operations) - 1 if end.death.place == AFTER else end.death.place
        kind, told, what = trace.operations[place].kind, detail(end.death.said), _what(end)
        rule = "hang" if end.death.limit == "time" else "crash"
        named = cause(end.death)
        return Violation(rule, kind, place, "an answer", what, told, cause=named)

    def _verdict(self, end: Ended, trace: Trace) -> Verdict:
        violation = self._broken(end, trace)
        can = self.look(trace.config).capabilities
        return Verdict(violation, can, violation.step + 1, Counter(), Counter())

    def _played(self, name: str, trace: Trace) -> Replay:
        """Play a trace; if that is fatal, once more up to the fatal call."""
        try:
            seen: Replay = self._ask(name, trace)
        except Ended as end:
            return self._until(end, trace)
        return seen

    def _until(self, end: Ended, trace: Trace) -> Replay:
        verdict = self._verdict(end, trace)
        try:
            seen: Replay = self._ask("until", trace, end.death.calls)
        except Ended:  # it comes sooner or later each time
            return Replay(verdict, ())
        if seen.verdict.violation is not None or not seen.steps:
            return seen
        last = structs.replace(seen.steps[-1], outcome=Unanswered(_what(end)))
        reached, skipped = seen.verdict.reached, seen.verdict.skipped
        verdict = structs.replace(verdict, reached=reached, skipped=skipped)
        return structs.replace(seen, verdict=verdict, steps=(*seen.steps[:-1], last))

    def _claim(self, number: int) -> Tried | None:
        try:
            tried: Tried | None = self._ask("claim", number)
        except Ended as end:
            trouble = Trouble(f"its process {end}", "cache", detail(end.death.said))
            return Tried(self._claims()[number], trouble)
        return tried

    def _claims(self) -> tuple[Claim, ...]:
        try:
            level = self.look(self.source.configurations()[0]).level.name
        except TargetError:
            level = "tree"
        return tuple(BY_LEVEL[level][1])


def _what(end: Ended) -> str:
    """Say how a process ended, and when, if not in the midst of a call."""
    return f"{end}, when the target was let go" if end.death.place == AFTER else str(end)


def _with_echo(verdict: Verdict, echo: Ended, trace: Trace) -> Verdict:
    """Tell of a death between two traces. An earlier call is to blame, and nobody knows which: it
    is told at the first operation of the next trace, with which it will not come back."""
    if verdict.violation is not None or not trace.operations:
        return verdict
    kind, actual = trace.operations[0].kind, f"{echo}, between two traces"
    told = " ".join(filter(None, [ECHO, detail(echo.death.said)]))
    what = cause(echo.death)
    violation = Violation("crash", kind, 0, "an answer", actual, told, cause=what)
    return structs.replace(verdict, violation=violation, operations=1)
