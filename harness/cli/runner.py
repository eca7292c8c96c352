"""What several commands share: judge one target, show and save each finding as it comes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from hashlib import sha256
from json import dumps
from os import W_OK, access
from pathlib import Path
from random import randrange
from typing import NamedTuple

from msgspec import Struct, field

from radixcheck import known, loop, trace
from radixcheck.cli.codes import Code
from radixcheck.cli.errors import show_error
from radixcheck.cli.inside import interrupts
from radixcheck.cli.options import FINDINGS_DIR
from radixcheck.cli.progress import Bar
from radixcheck.cli.reports import Rates, Reports
from radixcheck.cli.told import driver_told, findings_told, known_told, origin_of, outcome
from radixcheck.corpus import NAME_DIGITS, SUFFIX, content_name
from radixcheck.finding import Finding
from radixcheck.hosts import Host
from radixcheck.loop import Budget, Report
from radixcheck.report import Screen, show_finding, show_report
from radixcheck.report.document import TargetPart
from radixcheck.report.parts import target_part
from radixcheck.report.summary import verdict
from radixcheck.report.unjudged import Promises
from radixcheck.report.words import clean


class Plan(NamedTuple):
    """How to judge a target, whichever it is."""

    seed: int
    budget: Budget
    misuse: bool = False
    findings_dir: Path | None = None
    """Where findings are saved; None to save none."""
    known: Sequence[known.Failure] = ()
    """What is no news."""
    beside: loop.Driver | None = None
    """What takes turns with the swarm."""
    reports: Reports | None = None
    """What is told when the command ends."""


class Shown(Struct):
    """The findings of a run, shown and saved as soon as they are found."""

    screen: Screen
    host: Host
    findings_dir: Path | None
    seen: list[Finding] = field(default_factory=list)
    saved: list[Path | None] = field(default_factory=list)
    """Where each of them was saved."""
    traces: int = 0
    """Traces that were judged to the end."""

    def __call__(self, report: Report) -> None:
        """Show those findings of `report` that are new; a flaky one may be replaced by a steady."""
        before, self.seen = self.seen, list(report.findings)
        for place, finding in enumerate(report.findings):
            if place >= len(before) or finding is not before[place]:
                self.saved[place:] = [keep(finding, self.findings_dir), *self.saved[place + 1 :]]
                show(self.screen, self.host, finding, self.saved[place], place + 1)


def announced(screen: Screen, seed: int | None) -> int:
    """Choose a seed if there is none, and print it before anything else happens."""
    chosen = randrange(10**6) if seed is None else seed
    screen.say((f"seed {chosen}", "bold"), (f"  repeat this run with --seed {chosen}", "dim"))
    return chosen


def judge(screen: Screen, host: Host, plan: Plan) -> tuple[Report, Code]:
    """Run the target of `host` by `plan`, show everything, and answer what came of it.

    Raises:
        TargetError, BadAnswer: as `radixcheck.loop.run`.
    """
    shown, rates = Shown(screen, host, plan.findings_dir), Rates()
    with Bar(screen, clean(host.source.spec, 24), plan.budget) as bar, interrupts() as stops:

        def watch(report: Report) -> None:
            shown.traces += 1
            bar(report)
            rates(report)
            shown(report)

        report = loop.run(
            host,
            seed=plan.seed,
            budget=plan.budget,
            misuse=plan.misuse,
            watch=watch,
            known=partial(_is_known, host.source.spec, plan.known),
            beside=plan.beside,
        )
    shown(report)
    show_report(screen, report, promises_of(report, plan.misuse))
    show_known(screen, report, plan)
    if report.interrupted and stops and stops[-1]:
        screen.say(clean(f"Ctrl-C came in trace {shown.traces + 1}: {stops[-1]}"))
    if plan.reports is not None and plan.reports.wanted:
        rates(report, last=True)
        plan.reports.add(_told(host, report, plan, shown.saved, rates))
    return report, code_of(report)


def _told(
    host: Host, report: Report, plan: Plan, saved: Sequence[Path | None], rates: Rates
) -> TargetPart:
    driver = "swarm" if plan.beside is None else "swarm and workload in turn"
    return target_part(
        report,
        outcome(code_of(report)),
        promises_of(report, plan.misuse),
        findings_told(host, report, saved),
        known_told(report, plan.known),
        [driver_told(report, driver)],
        rates.parts,
    )


def code_of(report: Report) -> Code:
    """Answer what a run is worth."""
    if report.interrupted:
        return Code.INTERRUPTED
    if report.violations:
        return Code.VIOLATION
    if report.operations == report.skipped.total():
        return Code.NOTHING
    return Code.INCONCLUSIVE if report.findings or report.missing else Code.CLEAN


def _is_known(spec: str, failures: Sequence[known.Failure], signature: known.Signature) -> bool:
    return known.covering(failures, spec, signature, known.today()) is not None


def show_known(screen: Screen, report: Report, plan: Plan) -> None:
    """Say which known failures occurred how often, and which of them should go."""
    today, spec = known.today(), report.spec
    seen = []
    for signature, times in report.known.items():
        if (failure := known.covering(plan.known, spec, signature, today)) is not None:
            seen.append(failure)
            issue = f", {clean(failure.issue)}" if failure.issue else ""
            rule, operation = signature
            told = f"{clean(failure.reason)}{issue}"
            screen.say(("known  ", "yellow"), f"{rule} at {operation}, {times:,} times: {told}")
    if report.cut_short:
        told = f"{report.cut_short:,} operations behind one were not judged"
        screen.say(("known  ", "yellow"), told)
    concerning = [failure for failure in plan.known if failure.concerns(spec)]
    if not concerning or report.interrupted:
        return
    path = (plan.findings_dir or FINDINGS_DIR) / known.TALLY
    tally = known.read_tally(path)
    for notice in known.settle(concerning, seen, tally, today):
        screen.say(("known  ", "yellow"), clean(notice))
    known.write_tally(path, tally)


def promises_of(report: Report, misuse: bool) -> list[Promises]:
    """Collect what the target promises in every configuration, and which methods it has."""
    return [
        Promises(arena.capabilities, arena.methods, misuse, arena.level.name)
        for arena in report.arenas
    ]


# ---- findings ----------------------------------------------------------------------------


def show(screen: Screen, host: Host, finding: Finding, saved: Path | None, number: int = 1) -> None:
    """Print a finding as one block, or in a line where only verdicts are wanted."""
    if screen.verbosity < 0:
        violation = finding.violation
        screen.say(
            (f"{violation.rule}", "bold red"),
            f" at {violation.operation}: expected {clean(violation.expected)},"
            f" got {clean(violation.actual)}",
        )
        if saved is not None:
            screen.say_whole(f"  saved as {clean(str(saved), 4096)}")
        return
    raises = screen.verbosity > 0 and finding.violation.rule == "unexpected-error"
    show_finding(screen, finding, origin_of(host, finding, saved, raises=raises), number)


def keep(finding: Finding, folder: Path | None) -> Path | None:
    """Save `finding` under its own name, and answer where; if it cannot be saved, say why."""
    if folder is None:
        return None
    path = folder / file_name(finding)
    try:
        trace.save(finding.trace, path)
    except OSError as error:
        error.add_note(f"the finding could not be saved as {path}: it is only shown")
        show_error(error)
        return None
    return path


def file_name(finding: Finding) -> str:
    """Name a finding by target, signature and content: found again, it gets the same name again."""
    rule, what = finding.violation.signature
    named = dumps((finding.target, what, content_name(finding.trace)))
    return f"{rule}-{sha256(named.encode()).hexdigest()[:NAME_DIGITS]}{SUFFIX}"


def check_folder(folder: Path) -> None:
    """See before a long run that its findings can be saved after it. Creates nothing.

    Raises:
        OSError: `folder` is no folder, or nobody may write there.
    """
    there = next(each for each in (folder, *folder.absolute().parents) if each.exists())
    if not there.is_dir():
        raise NotADirectoryError(20, "not a folder, so no finding can be saved there", str(there))
    if not access(there, W_OK):
        raise PermissionError(13, "not writable, so no finding can be saved there", str(there))


def show_verdicts(screen: Screen, reports: Sequence[Report]) -> None:
    """Print one verdict per target, after a run of several."""
    screen.heading(f"{len(reports)} targets")
    for report in reports:
        screen.say(*verdict(report, screen.glyphs))
