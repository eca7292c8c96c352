"""What commands have seen, told for their reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from radixcheck import known
from radixcheck.cli.codes import Code, severest
from radixcheck.cli.results import Result, Status
from radixcheck.finding import Finding
from radixcheck.hosts import Host
from radixcheck.loop import Report
from radixcheck.report.block import Origin
from radixcheck.report.document import (
    CasePart,
    CaseStatus,
    DriverPart,
    FindingPart,
    KnownPart,
    Outcome,
    TargetPart,
)
from radixcheck.report.parts import finding_part
from radixcheck.report.words import clean

OUTCOMES: Mapping[Code, Outcome] = {
    Code.CLEAN: "clean",
    Code.VIOLATION: "violation",
    Code.INCONCLUSIVE: "inconclusive",
    Code.NOTHING: "nothing",
    Code.INTERRUPTED: "interrupted",
}
"""What an exit code says of one target; any other is an error."""

CASES: Mapping[Status, CaseStatus] = {
    Status.FIXED: "passed",
    Status.FAILED: "failed",
    Status.ERROR: "error",
    Status.NOT_APPLICABLE: "skipped",
}
"""What a report calls what became of a trace."""


def outcome(code: Code) -> Outcome:
    """Say what an exit code says of one target."""
    return OUTCOMES.get(code, "error")


# ---- findings ----------------------------------------------------------------------------


def origin_of(
    host: Host,
    finding: Finding,
    saved: Path | None,
    *,
    raises: bool = False,
    plainly: bool = False,
) -> Origin:
    """Say where a finding comes from.

    Args:
        raises: whether to tell the traceback.
        plainly: whether any replay shows it again, and not only one in such a host.
    """
    told = host.teller(finding.violation)
    arena = told.look(finding.trace.config)
    lines = told.raised(finding.trace, finding.violation.actual) if raises else ()
    command = host.command(str(saved)) if saved and not plainly else ()
    return Origin(told.source, arena.capabilities, saved, arena.level, lines, command)


def finding_told(
    host: Host, finding: Finding, saved: Path | None, repeats: int = 0, *, plainly: bool = False
) -> FindingPart:
    """Tell all of a finding.

    Args:
        repeats: how often it was seen again.
        plainly: whether any replay shows it again, and not only one in such a host.
    """
    raises = finding.violation.rule == "unexpected-error"
    origin = origin_of(host, finding, saved, raises=raises, plainly=plainly)
    return finding_part(finding, origin, repeats=repeats)


# ---- a run -------------------------------------------------------------------------------


def findings_told(
    host: Host, report: Report, saved: Sequence[Path | None]
) -> Iterator[FindingPart]:
    """Tell the findings of a run, each with where it was saved."""
    for finding, path in zip(report.findings, saved, strict=True):
        yield finding_told(host, finding, path, report.repeats[finding.violation.signature])


def known_told(report: Report, failures: Sequence[known.Failure]) -> Iterator[KnownPart]:
    """Tell how often each known failure was seen."""
    for signature, times in report.known.items():
        covering = known.covering(failures, report.spec, signature, known.today())
        reason, issue = (covering.reason, covering.issue) if covering else ("", "")
        yield KnownPart(*signature, times, clean(reason), clean(issue))


def driver_told(report: Report, name: str) -> DriverPart:
    """Tell of the only driver of a run: all that came, came of it."""
    found = sum(1 for count in report.reached.values() if count) + len(report.findings)
    return DriverPart(name, report.operations, report.traces, report.elapsed_s, found)


# ---- a replay ----------------------------------------------------------------------------


def replays_told(
    results: Sequence[Result], findings: Mapping[str, Finding], *, interrupted: bool
) -> Iterator[TargetPart]:
    """Tell what became of some traces, one part for each target.

    Args:
        findings: those that failed, by the names of the traces.
    """
    by_spec: dict[str, list[Result]] = {}
    for result in results:
        by_spec.setdefault(result.spec or "no target", []).append(result)
    for spec, some in by_spec.items():
        code = Code.INTERRUPTED if interrupted else severest(result.code for result in some)
        counts = Counter(result.status for result in some)
        failed = [(result.name, result.failed) for result in some if result.failed is not None]
        yield TargetPart(
            spec=clean(spec),
            verdict=outcome(code),
            words=", ".join(f"{counts[each]:,} {each}" for each in Status if counts[each]),
            operations=sum(result.operations for result in some),
            traces=len(some),
            elapsed_s=sum(result.elapsed_s for result in some),
            findings=tuple(
                finding_told(each.host, findings[name], Path(name)) for name, each in failed
            ),
            cases=tuple(map(_case, some)),
        )


def _case(result: Result) -> CasePart:
    rule = result.failed.violation.rule if result.failed is not None else ""
    name = clean(result.name, 4096)
    return CasePart(name, CASES[result.status], result.words, result.elapsed_s, rule)
