"""What several commands share: judge one target, show and save each finding as it comes."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from json import dumps
from os import W_OK, access
from pathlib import Path
from random import randrange
from typing import NamedTuple

from msgspec import Struct, field

from radixcheck import loop, trace
from radixcheck.cli.codes import Code
from radixcheck.cli.errors import show_error
from radixcheck.cli.inside import interrupts, raised
from radixcheck.cli.progress import Bar
from radixcheck.corpus import NAME_DIGITS, SUFFIX, content_name
from radixcheck.finding import Finding
from radixcheck.levels import level_of
from radixcheck.loop import Budget, Report
from radixcheck.registry import METHODS, Source
from radixcheck.report import Screen, show_finding, show_report
from radixcheck.report.block import Origin
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


class Shown(Struct):
    """The findings of a run, shown and saved as soon as they are found."""

    screen: Screen
    source: Source
    findings_dir: Path | None
    seen: list[Finding] = field(default_factory=list)
    traces: int = 0
    """Traces that were judged to the end."""

    def __call__(self, report: Report) -> None:
        """Show those findings of `report` that are new; a flaky one may be replaced by a steady."""
        before, self.seen = self.seen, list(report.findings)
        for place, finding in enumerate(report.findings):
            if place >= len(before) or finding is not before[place]:
                saved = keep(finding, self.findings_dir)
                show(self.screen, self.source, finding, saved, place + 1)


def announced(screen: Screen, seed: int | None) -> int:
    """Choose a seed if there is none, and print it before anything else happens."""
    chosen = randrange(10**6) if seed is None else seed
    screen.say((f"seed {chosen}", "bold"), (f"  repeat this run with --seed {chosen}", "dim"))
    return chosen


def judge(screen: Screen, source: Source, plan: Plan) -> tuple[Report, Code]:
    """Run `source` by `plan`, show everything, and answer what came of it.

    Raises:
        TargetError, BadAnswer: as `radixcheck.loop.run`.
    """
    shown = Shown(screen, source, plan.findings_dir)
    with Bar(screen, clean(source.spec, 24), plan.budget) as bar, interrupts() as stops:

        def watch(report: Report) -> None:
            shown.traces += 1
            bar(report)
            shown(report)

        report = loop.run(
            source, seed=plan.seed, budget=plan.budget, misuse=plan.misuse, watch=watch
        )
    shown(report)
    show_report(screen, report, promises_of(source, report, plan.misuse))
    if report.interrupted and stops and stops[-1]:
        screen.say(clean(f"Ctrl-C came in trace {shown.traces + 1}: {stops[-1]}"))
    return report, code_of(report)


def code_of(report: Report) -> Code:
    """Answer what a run is worth."""
    if report.interrupted:
        return Code.INTERRUPTED
    if report.violations:
        return Code.VIOLATION
    if report.operations == report.skipped.total():
        return Code.NOTHING
    return Code.INCONCLUSIVE if report.findings or report.missing else Code.CLEAN


def promises_of(source: Source, report: Report, misuse: bool) -> list[Promises]:
    """Collect what the target promises in every configuration, and which methods it has."""
    methods = methods_of(source.open(report.arenas[0].config, clock))
    return [
        Promises(arena.capabilities, methods, misuse, arena.level.name) for arena in report.arenas
    ]


def methods_of(target: object) -> frozenset[str]:
    """Name the methods of the protocol that `target` has."""
    return frozenset(name for name in METHODS if hasattr(target, name))


def clock() -> float:
    """Stand still: what a target is opened with only to be asked what it promises."""
    return 0.0


# ---- findings ----------------------------------------------------------------------------


def show(
    screen: Screen, source: Source, finding: Finding, saved: Path | None, number: int = 1
) -> None:
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
    target, violation = source.open(finding.trace.config, clock), finding.violation
    wanted = screen.verbosity > 0 and violation.rule == "unexpected-error"
    lines = raised(source, finding.trace, violation.actual) if wanted else ()
    origin = Origin(source, target.capabilities, saved, level_of(target), lines)
    show_finding(screen, finding, origin, number)


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
    rule, kind = finding.violation.signature
    named = dumps((finding.target, kind, content_name(finding.trace)))
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
