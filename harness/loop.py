"""The loop: propose a trace, judge it, and turn what breaks a rule into a finding, until time or
operations run out."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence

from msgspec import Struct, field, structs

from radixcheck.arena import Arena, arenas, missing
from radixcheck.buffers import BadAnswer
from radixcheck.collecting import rare_collections
from radixcheck.drivers.swarm import proposals
from radixcheck.finding import Finding
from radixcheck.leaks import leak
from radixcheck.registry import Source, TargetError
from radixcheck.rules import Violation
from radixcheck.shrink import shrink, tell_apart
from radixcheck.trace import Found, Trace
from radixcheck.verdict import Open, check, replay, same_answers

AGAIN_EVERY = 100
"""One trace in this many is run again, for the rules that no single run can break."""

AGAIN: dict[str, Callable[[Open, Trace], Violation | None]] = {
    "nondeterminism": same_answers,
    "device-leak": leak,
}
"""What runs a trace again, by the rule that it judges."""

TRIES = 2
"""A trace that fails in so many further runs is taken to fail always."""

MORE_TRIES = 12
"""Any other is run so often before it counts as clean. If the original is, the finding is flaky."""

SHRINK_TIME_S = 20.0
"""Then a finding is taken as small as it is: a slow target may need seconds for a long trace."""

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


@rare_collections()
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
    except KeyboardInterrupt as stop:
        if isinstance(stop, ShrinkingInterrupted):
            report.findings.append(stop.finding)
        report.interrupted = True
        report.elapsed_s = time.monotonic() - began
    return report


class ShrinkingInterrupted(KeyboardInterrupt):
    """Ctrl-C came while a finding was shrunk; here it is as far as it had got."""

    def __init__(self, finding: Finding) -> None:
        super().__init__()
        self.finding = finding


def investigate(source: Source, trace: Trace, violation: Violation, seed: int | None) -> Finding:
    """Shrink a failing trace, and run what is left once more to see what happens on the way.

    Raises:
        ShrinkingInterrupted: on Ctrl-C.
    """
    original = trace.replace(operations=trace.operations[: violation.step + 1])
    if (sooner := _violation(source, original, violation.rule)) is not None:
        violation = sooner  # a run looks inside the target now and then, an investigation always
        original = trace.replace(operations=trace.operations[: violation.step + 1])
    smallest, interrupted = original, False
    deadline = time.monotonic() + SHRINK_TIME_S

    def still_fails(candidate: Trace) -> bool:
        nonlocal smallest
        if time.monotonic() > deadline:
            return False
        fails = any(_fails(source, candidate, violation) for _ in range(tries))
        smallest = candidate if fails else smallest
        return fails

    steady = all(_fails(source, original, violation) for _ in range(TRIES))
    tries = 1 if steady else MORE_TRIES  # a target may break ties by chance
    flaky = not still_fails(original)
    try:
        if not flaky:
            shrunk = shrink(original, still_fails, supports=_freely(source)).trace
            smallest = tell_apart(shrunk, still_fails)
    except ValueError:  # it failed a moment ago, and now it does not
        flaky = True
    except KeyboardInterrupt:
        interrupted = True
    length = len(original.operations)
    finding = _finding(source, smallest, violation, seed, length, flaky=flaky)
    if interrupted:
        raise ShrinkingInterrupted(finding)
    return finding


def _judge(source: Source, trace: Trace, report: Report) -> None:
    verdict = check(source.open, trace, thorough=False)
    report.traces += 1
    report.operations += verdict.operations
    report.reached += verdict.reached
    report.skipped += verdict.skipped
    violation = verdict.violation
    if violation is None and report.traces % AGAIN_EVERY == 1:
        violation = _run_again(source, trace, deterministic=verdict.capabilities.deterministic)
    if violation is None:
        return
    known = {finding.violation.signature: finding for finding in report.findings}
    earlier = known.get(violation.signature)
    if earlier is not None:
        report.repeats[violation.signature] += 1
        if not earlier.flaky or report.repeats[violation.signature] > TRIES:
            return
    finding = investigate(source, trace, violation, report.seed)
    if earlier is None:
        report.findings.append(finding)
    elif not finding.flaky:
        report.findings[report.findings.index(earlier)] = finding


def _spent(report: Report, budget: Budget) -> bool:
    return (
        (budget.max_time_s is not None and report.elapsed_s >= budget.max_time_s)
        or (budget.max_operations is not None and report.operations >= budget.max_operations)
        or (budget.first_only and bool(report.violations))
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
    if rule in AGAIN:
        return AGAIN[rule](source.open, trace)
    return check(source.open, trace).violation


def _run_again(source: Source, trace: Trace, *, deterministic: bool) -> Violation | None:
    """Judge by the rules that need several runs; the same answers must have been promised."""
    for rule, judge in AGAIN.items():
        if rule != "nondeterminism" or deterministic:
            violation = judge(source.open, trace)
            if violation is not None:
                return violation
    return None


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
        if seen.verdict.violation is not None or violation.rule in AGAIN:
            break
        seen = replay(source.open, trace)
    shown = seen.verdict.violation or _violation(source, trace, violation.rule)
    if shown is None:
        shown, flaky = structs.replace(violation, step=len(trace.operations) - 1), True
    situations = tuple(sorted(seen.verdict.reached))
    found = Found(shown.rule, shown.operation, source.spec, seed, situations=situations)
    return Finding(
        source.spec,
        trace.replace(found=found),
        shown,
        seen.steps[: shown.step + 1] if shown.rule == "nondeterminism" else seen.steps,
        seen.before,
        seen.after,
        seed,
        length,
        situations,
        flaky,
    )
