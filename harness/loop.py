"""The loop: propose a trace, judge it, and turn what breaks a rule into a finding, until time or
operations run out."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from math import inf

from msgspec import Struct, field, structs

from radixcheck.arena import Arena, missing
from radixcheck.buffers import BadAnswer
from radixcheck.collecting import rare_collections
from radixcheck.drivers.swarm import proposals
from radixcheck.finding import Finding
from radixcheck.hosts import Host
from radixcheck.hosts.here import AGAIN
from radixcheck.registry import Source, TargetError
from radixcheck.rules import FATAL, Violation
from radixcheck.shrink import shrink, tell_apart
from radixcheck.trace import Found, Trace
from radixcheck.verdict import Verdict

AGAIN_EVERY = 100
"""One trace in this many is run again, for the rules that no single run can break."""

TRIES = 2
"""A trace that fails in so many further runs is taken to fail always."""

MORE_TRIES = 12
"""Any other is run so often before it counts as clean. If the original is, the finding is flaky."""

SHRINK_TIME_S = 20.0
"""Then a finding is taken as small as it is: a slow target may need seconds for a long trace."""

GRACE_S = 5.0
"""So long a run may shrink a finding for which its own time would be too short."""

FATAL_GRACE_S = 15.0
"""The same where each attempt costs a process, and may have to wait for what hangs."""

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
    aliases: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)
    """Signatures that turned out to be that of an earlier finding, when looked at more closely."""
    known: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How often each signature was seen that is no news."""
    cut_short: int = 0
    """Operations that were not judged, since what is no news had ended their trace."""
    reached: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    kills: int = 0
    """How often something else ended the process that judged, and its trace was judged again."""
    interrupted: bool = False
    most_findings: float = MAX_FINDINGS
    """The run ends when it has so many."""

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

Known = Callable[[tuple[str, str]], bool]
"""Called with the signature of a violation."""

Driver = Callable[[int, Sequence[Arena]], Iterator[Trace]]
"""Called with a seed and configurations; yields traces without end."""


@rare_collections()
def run(
    host: Host,
    *,
    seed: int,
    budget: Budget,
    misuse: bool = False,
    watch: Watch = lambda report: None,
    arenas: Sequence[Arena] | None = None,
    known: Known = lambda signature: False,
    beside: Driver | None = None,
) -> Report:
    """Judge a target by generated traces.

    Ctrl-C ends the run like a time limit: the report says so and keeps what was found.

    Args:
        arenas: the configurations to judge it in; without them, all that it supports.
        known: tells which signatures are no news; they are only counted.
        beside: a driver that takes turns with the swarm.

    Raises:
        TargetError: the target cannot be opened.
        BadAnswer: its adapter answered what cannot be read.
    """
    report = Report(host.source.spec, seed, list(arenas or host.arenas()))
    traces = proposals(seed, report.arenas, misuse=misuse)
    if beside is not None:
        traces = chain.from_iterable(zip(traces, beside(seed, report.arenas), strict=True))
    began = time.monotonic()
    end = began + (inf if budget.max_time_s is None else budget.max_time_s)
    try:
        for trace in begun(host, traces):
            _judge(host, trace, report, known, end)
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


class _OutOfTime(Exception):
    """There is no more time to shrink a finding."""


def investigate(
    host: Host,
    trace: Trace,
    violation: Violation,
    seed: int | None,
    limit_s: float = SHRINK_TIME_S,
    known: Known = lambda signature: False,
) -> Finding:
    """Shrink a failing trace, and run what is left once more to see what happens on the way.

    Args:
        known: tells which signatures are no news. A trace that shows one of them as soon as one
            looks closely is left as it is: it must not lose its own name to that.
        limit_s: then no further run is begun that only makes the trace simpler or surer. What a run
            takes that hangs comes on top.

    Raises:
        ShrinkingInterrupted: on Ctrl-C.
    """
    deadline = time.monotonic() + limit_s
    seen, (violation, original) = violation, _soonest(host, trace, violation)
    if violation.signature != seen.signature and known(violation.signature):
        return _as_it_is(host, trace, seen, seed)
    smallest, interrupted, unfinished = original, False, False
    quick = host.hurried() if violation.rule == "hang" else host

    def fails(candidate: Trace) -> bool:
        return any(_fails(quick, candidate, violation) for _ in _until(deadline, tries))

    def still_fails(candidate: Trace) -> bool:
        nonlocal smallest
        if time.monotonic() > deadline:
            raise _OutOfTime
        if not fails(candidate):
            return False
        smallest = candidate
        return True

    steady = all(_fails(quick, original, violation) for _ in range(TRIES))
    tries = 1 if steady else MORE_TRIES  # a target may break ties by chance
    flaky = not (steady or fails(original))
    try:
        if not flaky:
            shrunk = shrink(original, still_fails, supports=_freely(host.source)).trace
            smallest = tell_apart(shrunk, still_fails)
    except _OutOfTime:
        unfinished = True
    except ValueError:  # it failed a moment ago, and now it does not, or there is no more time
        unfinished = time.monotonic() > deadline
        flaky = not unfinished
    except KeyboardInterrupt:
        interrupted = True
    length = len(original.operations)
    shown = partial(_finding, host, violation=violation, seed=seed, length=length, flaky=flaky)
    finding = shown(smallest, deadline=deadline, unfinished=unfinished or interrupted)
    if finding.flaky and not flaky and quick is not host:  # what is only slow had too little time
        finding = shown(original, deadline=deadline, unfinished=True)
    if interrupted:
        raise ShrinkingInterrupted(finding)
    return finding


def _soonest(host: Host, trace: Trace, violation: Violation) -> tuple[Violation, Trace]:
    """Return what a trace breaks first, and the trace up to there: a run looks inside the target
    only now and then, an investigation always. What hangs is not waited for again."""
    original = trace.replace(operations=trace.operations[: violation.step + 1])
    sooner = None if violation.rule == "hang" else _violation(host, original, violation.rule)
    if sooner is None:
        return violation, original
    return sooner, trace.replace(operations=trace.operations[: sooner.step + 1])


def _as_it_is(host: Host, trace: Trace, violation: Violation, seed: int | None) -> Finding:
    """Make a finding of a trace that is not looked at any closer."""
    found = Found(violation.rule, violation.operation, host.source.spec, seed)
    operations = trace.operations[: violation.step + 1]
    failing, length = trace.replace(operations=operations, found=found), len(operations)
    return Finding(host.source.spec, failing, violation, (), seed, length, unfinished=True)


def _until(deadline: float, times: int) -> Iterator[int]:
    """Count up to `times`, but not beyond a deadline; there is always a first time."""
    for number in range(times):
        if number and time.monotonic() > deadline:
            return
        yield number


def begun(host: Host, traces: Iterator[Trace]) -> Iterator[Trace]:
    """Yield `traces`, each being judged already while those after it are generated.

    One more is begun than is waited for, so that whoever judges need not wait for the next.
    """
    waiting: deque[Trace] = deque()
    for trace in traces:
        host.begin(trace)
        waiting.append(trace)
        if len(waiting) > 1:
            yield waiting.popleft()
    yield from waiting


def judge(host: Host, trace: Trace, report: Report) -> Verdict:
    """Judge a trace and count it in `report`; now and then also by the rules that need two runs."""
    verdict = host.check(trace, thorough=False)
    report.traces += 1
    report.kills = host.kills
    report.operations += verdict.operations
    report.reached += verdict.reached
    report.skipped += verdict.skipped
    if verdict.violation is None and report.traces % AGAIN_EVERY == 1:
        deterministic = verdict.capabilities.deterministic
        violation = _run_again(host, trace, deterministic=deterministic)
        verdict = structs.replace(verdict, violation=violation)
    return verdict


def _judge(host: Host, trace: Trace, report: Report, known: Known, end: float) -> None:
    violation = judge(host, trace, report).violation
    if violation is None:
        return
    if known(violation.signature):
        report.known[violation.signature] += 1
        report.cut_short += len(trace.operations) - violation.step - 1
        return
    found = {finding.violation.signature: finding for finding in report.findings}
    signature = report.aliases.get(violation.signature, violation.signature)
    earlier = found.get(signature)
    if earlier is not None:
        report.repeats[signature] += 1
        if not earlier.flaky or report.repeats[signature] > TRIES:
            return
    grace_s = FATAL_GRACE_S if violation.rule in FATAL else GRACE_S
    limit_s = min(SHRINK_TIME_S, max(grace_s, end - time.monotonic()))
    finding = investigate(host, trace, violation, report.seed, limit_s, known)
    closer = finding.violation.signature
    if closer != violation.signature and closer in found:
        report.aliases[violation.signature] = closer
        report.repeats[closer] += 1
    elif earlier is None:
        report.findings.append(finding)
    elif not finding.flaky:
        report.findings[report.findings.index(earlier)] = finding


def _spent(report: Report, budget: Budget) -> bool:
    return (
        (budget.max_time_s is not None and report.elapsed_s >= budget.max_time_s)
        or (budget.max_operations is not None and report.operations >= budget.max_operations)
        or (budget.first_only and bool(report.violations))
        or len(report.findings) >= report.most_findings
    )


def _fails(host: Host, trace: Trace, wanted: Violation) -> bool:
    """Tell whether `trace` shows the same signature again."""
    try:
        violation = _violation(host, trace, wanted.rule)
    except (TargetError, BadAnswer):
        return False
    return violation is not None and violation.signature == wanted.signature


def _violation(host: Host, trace: Trace, rule: str) -> Violation | None:
    return host.again(rule, trace) if rule in AGAIN else host.check(trace).violation


def _run_again(host: Host, trace: Trace, *, deterministic: bool) -> Violation | None:
    """Judge by the rules that need several runs; the same answers must have been promised."""
    for rule in AGAIN:
        if rule != "nondeterminism" or deterministic:
            violation = host.again(rule, trace)
            if violation is not None:
                return violation
    return None


def _freely(source: Source) -> dict[str, Sequence[object]]:
    """Return the configuration values that the spec leaves open, for the shrinker to try."""
    return {key: values for key, values in source.supports.items() if key not in source.arguments}


def _finding(
    host: Host,
    trace: Trace,
    violation: Violation,
    seed: int | None,
    length: int,
    *,
    flaky: bool,
    deadline: float,
    unfinished: bool,
) -> Finding:
    seen, tries = host.replay(trace), 1 if violation.rule in AGAIN else MORE_TRIES
    while (tries := tries - 1) and not seen.verdict.violation and time.monotonic() < deadline:
        seen = host.replay(trace)
    shown = seen.verdict.violation or _violation(host, trace, violation.rule)
    if shown is None:
        shown, flaky = structs.replace(violation, step=len(trace.operations) - 1), True
    if shown.rule == "nondeterminism":
        seen = seen.up_to(shown.step + 1)
    situations = tuple(sorted(seen.verdict.reached))
    found = Found(shown.rule, shown.operation, host.source.spec, seed, situations=situations)
    return Finding(
        host.source.spec,
        trace.replace(found=found),
        shown,
        seen.steps,
        seed,
        length,
        situations,
        seen.answers,
        flaky,
        unfinished=unfinished,
        pictures=seen.pictures,
    )
