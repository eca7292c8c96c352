"""``radixcheck replay``: what became of the traces that once broke something."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from radixcheck.cli.codes import Code, severest
from radixcheck.cli.errors import guarded, show_error
from radixcheck.cli.options import (
    MEMORY_LIMIT,
    OP_TIMEOUT,
    REPORT_DIR,
    Isolate,
    MemoryLimit,
    OpTimeout,
    Quiet,
    ReportDir,
    ReportKinds,
    Target,
    Verbose,
)

if TYPE_CHECKING:
    from radixcheck.cli.reports import Reports
    from radixcheck.cli.results import Result, Saved
    from radixcheck.finding import Finding
    from radixcheck.hosts import Host
    from radixcheck.report import Screen

SHOWN_FIXED = 40
"""Of so many traces, those that are fixed are listed too; of more, they are only counted."""

SHOWN_BLOCKS = 3
"""So many failures are shown as a block, the others in a line."""

STYLES = {"FIXED": "green", "FAILED": "bold red", "ERROR": "red", "NOT APPLICABLE": "yellow"}


@guarded
def replay(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="PATH",
            help="Trace files, folders of *.jsonl, or names that `corpus list` prints. Default: "
            "all of the latter.",
            show_default=False,
        ),
    ] = None,
    target: Target = None,
    isolate: Isolate = None,
    op_timeout: OpTimeout = OP_TIMEOUT,
    memory_limit: MemoryLimit = MEMORY_LIMIT,
    report: ReportKinds = None,
    report_dir: ReportDir = REPORT_DIR,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Run saved traces again: FIXED, FAILED, ERROR or NOT APPLICABLE."""
    from radixcheck.cli.hosting import hosts, isolation
    from radixcheck.cli.reports import Reports
    from radixcheck.cli.results import packaged, saved_in
    from radixcheck.report import Screen

    screen = Screen(verbosity=verbose - quiet)
    reports = Reports(report, report_dir)
    with hosts(isolation(isolate, op_timeout, memory_limit)) as at_hand:
        if target is not None:
            _see_that_it_opens(at_hand.of(target))
        found = list(saved_in(paths) if paths else packaged())
        code = replay_all(screen, found, target, at_hand.of, reports)
        raise typer.Exit(reports.written(screen, code))


def _see_that_it_opens(host: Host) -> None:
    """Fail once, and not once per trace."""
    host.look(host.source.configurations()[0])


def replay_all(
    screen: Screen,
    found: Sequence[Saved],
    target: str | None,
    host_of: Callable[[str], Host],
    reports: Reports | None = None,
) -> Code:
    """Replay traces one after the other, each on `target` or on its own, show what became of them,
    and tell `reports`."""
    from radixcheck.cli.inside import stopped
    from radixcheck.cli.results import replayed
    from radixcheck.report.words import clean

    results: list[Result] = []
    began, interrupted, running = time.monotonic(), False, ""
    with screen.busy("replaying") as doing:
        try:
            for number, saved in enumerate(found, start=1):
                running = saved.name
                doing(f"replaying {number:,} of {len(found):,}: {running}")
                results.append(replayed(saved, target, host_of))
                _show(screen, results[-1], terse=len(found) > SHOWN_FIXED)
        except KeyboardInterrupt as stop:
            interrupted = True
            if where := stopped(stop):
                screen.say(clean(f"Ctrl-C came in {running}: {where}"))
    findings = _findings(screen, results, reports)
    _show_blocks(screen, results, findings)
    if reports is not None and reports.wanted:
        from radixcheck.cli.told import replays_told

        for part in replays_told(results, findings, interrupted=interrupted):
            reports.add(part)
    _show_counts(screen, results, len(found), time.monotonic() - began)
    return Code.INTERRUPTED if interrupted else severest(result.code for result in results)


def _show(screen: Screen, result: Result, *, terse: bool) -> None:
    good = result.status in ("FIXED", "NOT APPLICABLE")
    if good and (screen.verbosity < 0 or (terse and screen.verbosity < 1)):
        return
    from radixcheck.report.words import clean

    status = (f"{result.status:<14}", STYLES[result.status])
    screen.say_whole(status, f"  {clean(result.name, 4096)}", (f"  {clean(result.words)}", "dim"))
    if result.error is not None and (screen.verbosity > 0 or result.code is Code.HARNESS):
        show_error(result.error, verbose=True)


def _findings(
    screen: Screen, results: Sequence[Result], reports: Reports | None
) -> dict[str, Finding]:
    """Run those failures once more that somebody will look at; answer them by name."""
    from radixcheck.cli.results import as_finding

    failures = {result.name: result.failed for result in results if result.failed is not None}
    wanted = len(failures)
    if reports is None or not reports.wanted:
        wanted = {-1: 0, 0: SHOWN_BLOCKS}.get(screen.verbosity, wanted)
    return {name: as_finding(failed) for name, failed in islice(failures.items(), wanted)}


def _show_blocks(
    screen: Screen, results: Sequence[Result], findings: Mapping[str, Finding]
) -> None:
    from radixcheck.cli.runner import show

    failures = [(result.name, result.failed) for result in results if result.failed is not None]
    if screen.verbosity < 0 or not failures:
        return
    screen.blank()
    shown = failures if screen.verbosity > 0 else failures[:SHOWN_BLOCKS]
    for number, (name, failed) in enumerate(shown, start=1):
        show(screen, failed.host, findings[name], _path(name), number)


def _path(name: str) -> Path | None:
    """Return where a trace lies; one that comes along lies in no place that a person would name."""
    return Path(name) if Path(name).exists() else None


def _show_counts(screen: Screen, results: Sequence[Result], total: int, elapsed_s: float) -> None:
    from radixcheck.report.words import counted, show_duration

    counts = Counter(str(result.status) for result in results)
    shown = [(f"{counts[each]:,} {each}", style) for each, style in STYLES.items() if counts[each]]
    parts = [part for each in shown for part in (each, ", ")][:-1] or ["nothing to replay"]
    of_all = f", interrupted before the other {left:,}" if (left := total - len(results)) else ""
    screen.say(f"{counted(len(results), 'trace')} in {show_duration(elapsed_s)}: ", *parts, of_all)
