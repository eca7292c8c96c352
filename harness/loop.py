"""The loop: propose a trace, judge it, and turn what breaks a rule into a finding, until time or
operations run out."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence

from msgspec import Struct, field

from radixcheck.arena import Arena, arenas
from radixcheck.buffers import BadAnswer
from radixcheck.checker import check, replay, same_answers
from radixcheck.drivers.swarm import proposals
from radixcheck.finding import Finding
from radixcheck.registry import Source, TargetError
from radixcheck.rules import Violation
from radixcheck.shrink import shrink
from radixcheck.situations import missing
from radixcheck.trace import Found, Trace

TWICE_EVERY = 100
"""One trace in this many is run twice, where the target promises to be deterministic."""

TRIES = 3
"""A violation that does not come back in so many runs of the same trace is flaky."""

MORE_TRIES = 8
"""So often is a trace run again that fails only now and then."""

MAX_FINDINGS = 12
"""A run ends when it has so many: nobody reads more of them before mending some."""


class Budget(Struct, frozen=True):
    """When a run ends: whichever comes first."""

    max_time_s: float | None = None
    max_operations: int | None = None
    first_only: bool = False
    """End with the first finding."""


class Report(Struct):
    """What a run has seen so far. Complete when the run has ended."""

    spec: str
    seed: int
    arenas: list[Arena]
    traces: int = 0
    operations: int = 0
    elapsed_s: float = 0
    findings: list[Finding] = field(default_factory=list)
    repeats: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How often each signature was seen again after its finding."""
    reached: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    interrupted: bool = False

    @property
    def missing(self) -> list[str]:
        """Required situations that were never reached."""
        return missing(self.reached, self.arenas)

    @property
    def violations(self) -> list[Finding]:
        """Findings that came back when the same trace ran again."""
        return [finding for finding in self.findings if not finding.flaky]


Watch = Callable[[Report], None]
"""Called after every trace, to show progress."""


def run(
    source: Source,
    *,
    seed: int,
    budget: Budget,
    misuse: bool = False,
    watch: Watch = lambda report: None,
) -> Report:
    """Judge a target by generated traces.

    Ctrl-C ends the run like a time limit: the report says so and keeps what was found.

    Raises:
        TargetError: the target cannot be opened.
        BadAnswer: its adapter answered what cannot be read.
    """
    report = Report(source.spec, seed, arenas(source))
    began = time.monotonic()
    try:
        for trace in proposals(seed, report.arenas, misuse=misuse):
            _judge(source, trace, report)
            report.elapsed_s = time.monotonic() - began
            watch(report)
            if _spent(report, budget):
                break
    except KeyboardInterrupt:
        report.interrupted = True
        report.elapsed_s = time.monotonic() - began
    return report


def investigate(source: Source, trace: Trace, violation: Violation, seed: int | None) -> Finding:
    """Shrink a failing trace, and run what is left once more to see what happens on the way."""
    original = trace.replace(operations=trace.operations[: violation.step + 1])
    seen = sum(_fails(source, original, violation) for _ in range(TRIES))
    tries = 1 if seen == TRIES else MORE_TRIES  # a target may break ties by chance

    def still_fails(candidate: Trace) -> bool:
        return any(_fails(source, candidate, violation) for _ in range(tries))

    smallest, flaky = original, not seen
    if not flaky:
        try:
            smallest = shrink(original, still_fails, supports=_freely(source)).trace
        except ValueError:  # it failed a moment ago, and now it does not
            flaky = True
    return _finding(source, smallest, violation, seed, len(original.operations), flaky=flaky)


def _judge(source: Source, trace: Trace, report: Report) -> None:
    verdict = check(source.open, trace)
    report.traces += 1
    report.operations += verdict.operations
    report.reached += verdict.reached
    report.skipped += verdict.skipped
    violation = verdict.violation
    if (
        violation is None
        and verdict.capabilities.deterministic
        and report.traces % TWICE_EVERY == 1
    ):
        violation = same_answers(source.open, trace)
    if violation is None:
        return
    if violation.signature in [finding.violation.signature for finding in report.findings]:
        report.repeats[violation.signature] += 1
    else:
        finding = investigate(source, trace, violation, report.seed)
        report.findings.append(finding)


def _spent(report: Report, budget: Budget) -> bool:
    return (
        (budget.max_time_s is not None and report.elapsed_s >= budget.max_time_s)
        or (budget.max_operations is not None and report.operations >= budget.max_operations)
        or (budget.first_only and bool(report.findings))
        or len(report.findings) >= MAX_FINDINGS
    )


def _fails(source: Source, trace: Trace, wanted: Violation) -> bool:
    """Tell whether `trace` shows the same signature again."""
    try:
        violation = _violation(source, trace, wanted.rule)
    except (TargetError, BadAnswer):
        return False
    return violation is not None and violation.signature == wanted.signature


def _violation(source: Source, trace: Trace, rule: str) -> Violation | None:
    if rule == "nondeterminism":
        return same_answers(source.open, trace)
    return check(source.open, trace).violation


def _freely(source: Source) -> dict[str, Sequence[object]]:
    """Return the configuration values that the spec leaves open, for the shrinker to try."""
    return {key: values for key, values in source.supports.items() if key not in source.arguments}


def _finding(
    source: Source,
    trace: Trace,
    violation: Violation,
    seed: int | None,
    length: int,
    *,
    flaky: bool,
) -> Finding:
    seen = replay(source.open, trace)
    for _ in range(MORE_TRIES):
        if seen.verdict.violation is not None:
            break
        seen = replay(source.open, trace)
    shown = seen.verdict.violation or _violation(source, trace, violation.rule) or violation
    situations = tuple(sorted(seen.verdict.reached))
    found = Found(shown.rule, shown.operation, source.spec, seed, situations=situations)
    return Finding(
        source.spec,
        trace.replace(found=found),
        shown,
        seen.steps if seen.verdict.violation is not None else seen.steps[: shown.step + 1],
        seen.before,
        seen.after,
        seed,
        length,
        situations,
        flaky,
    )
