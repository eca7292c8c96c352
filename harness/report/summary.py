"""What a run has seen: verdict, configurations, situations, and what was not judged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from math import ceil

from rich.text import Text

from radixcheck.arena import required, situations
from radixcheck.finding import Finding
from radixcheck.loop import MAX_FINDINGS, Report
from radixcheck.report.block import config_of
from radixcheck.report.screen import ASCII, Glyphs, Screen, line
from radixcheck.report.unjudged import Promises, Unjudged, unjudged_in
from radixcheck.report.words import clean, counted, show_duration
from radixcheck.rules import RULES, Severity
from radixcheck.trace import Config

SHOWN_REASONS = 3

SHOWN_MISSING, NAMED_MISSING = 6, 3
"""A run that has missed more situations was too short, and names a few of them."""


def show_report(screen: Screen, report: Report, promises: Iterable[Promises]) -> None:
    """Print what `report` has seen, the verdict first.

    Args:
        promises: what the target promises, one entry per configuration.
    """
    screen.say(*verdict(report, screen.glyphs))
    _show_findings(screen, report)
    if screen.verbosity < 0:
        return
    screen.table(_facts(report), indent=2)
    _show_unjudged(screen, unjudged_in(promises), len(report.arenas))
    if not report.findings or screen.verbosity > 0:
        _show_situations(screen, report)
        _show_missing(screen, report)
    screen.blank()


def verdict(report: Report, glyphs: Glyphs) -> list[str | tuple[str, str]]:
    """Say in one line how a run ended."""
    seen = (
        f"{counted(report.operations, 'operation')}, {counted(report.traces, 'trace')}, "
        f"{show_duration(report.elapsed_s)}"
    )
    mark, words, style = _verdict(report, glyphs)
    interrupted = ", interrupted" if report.interrupted else ""
    return [(f"{mark} {clean(report.spec)}: {words}", f"bold {style}"), f" in {seen}{interrupted}"]


def verdict_words(report: Report) -> str:
    """Say how a run ended, in a few words."""
    return _verdict(report, ASCII)[1].removesuffix(",")


def _verdict(report: Report, glyphs: Glyphs) -> tuple[str, str, str]:
    if found := len(report.violations):
        return glyphs.bad, counted(found, "violation"), "red"
    if report.findings:
        words = f"inconclusive, {counted(len(report.findings), 'flaky finding')}"
        return glyphs.unsure, words, "yellow"
    if not report.traces:
        return glyphs.unsure, "nothing ran", "yellow"
    if missing := len(report.missing):
        words = f"no violation, but {counted(missing, 'required situation')} missed"
        return glyphs.unsure, words, "yellow"
    new = f"new violation, {report.known.total():,} known," if report.known else "violation"
    return glyphs.good, f"no {new}", "green"


def _show_findings(screen: Screen, report: Report) -> None:
    for finding in sorted(report.findings, key=_least_telling):
        violation = finding.violation
        style = "yellow" if finding.flaky else "red"
        more = report.repeats[violation.signature]
        again = f", seen {counted(more, 'more time')}" if more else ""
        flaky = " (flaky)" if finding.flaky else ""
        named = (f"  {violation.rule}", style)
        screen.say_whole(named, f" at {violation.operation}{flaky}{again}")


def _least_telling(finding: Finding) -> tuple[bool, int, int]:
    """Order what is sure before what is flaky, then the worst and the shortest first."""
    severity = RULES[finding.violation.rule].severity
    return finding.flaky, list(Severity).index(severity), len(finding.trace.operations)


# ---- facts -------------------------------------------------------------------------------


def _facts(report: Report) -> Iterator[tuple[Text, Text]]:
    yield line(("configurations", "dim")), _configurations(report)
    wanted = required(report.arenas)
    reached = len(wanted) - len(report.missing)
    style = "yellow" if report.missing else ""
    yield line(("situations", "dim")), line((f"{reached} of {len(wanted)} required reached", style))
    if report.skipped:
        yield line(("skipped", "dim")), Text(_skipped(report))
    if report.kills:
        killed = f"{counted(report.kills, 'time')}, not by its target; each trace was judged again"
        yield line(("worker killed", "dim")), Text(killed)
    if len(report.findings) >= report.most_findings:
        yield line(("ended early", "dim")), Text(f"{MAX_FINDINGS} findings are enough for one run")


def _configurations(report: Report) -> Text:
    configs = [arena.config for arena in report.arenas]
    shown = describe_configs(configs)
    if report.traces >= len(configs):
        return Text(shown)
    return line((f"only the first {report.traces} of ", "yellow"), shown)


def describe_configs(configs: Sequence[Config]) -> str:
    """Say what a sweep covers: ``10: page_size 1, 4; eviction lru, mru, fifo, filo, lfu``."""
    if len(configs) == 1:
        return config_of(configs[0].items()) or "its own defaults"
    axes = {key: list(dict.fromkeys(each[key] for each in configs)) for key in configs[0]}
    swept = (f"{key} {', '.join(map(str, values))}" for key, values in axes.items())
    return f"{len(configs)}: {clean('; '.join(swept))}"


def _skipped(report: Report) -> str:
    reasons = report.skipped.most_common(SHOWN_REASONS)
    shown = "; ".join(f"{clean(reason)} ({count:,})" for reason, count in reasons)
    more = "; ..." if len(report.skipped) > SHOWN_REASONS else ""
    return f"{counted(report.skipped.total(), 'operation')}: {shown}{more}"


# ---- situations --------------------------------------------------------------------------


def _show_missing(screen: Screen, report: Report) -> None:
    missing = report.missing
    if not missing:
        return
    too_short = report.interrupted or len(missing) > SHOWN_MISSING
    if too_short and screen.verbosity < 1:
        such = ", ".join(missing[:NAMED_MISSING])
        told = f"missed: {counted(len(missing), 'required situation')}, such as {such}"
        screen.say((f"{told}: the run was too short for them; -v names all", "yellow"), indent=2)
        return
    warning = "missed: about these the run proves nothing; try a longer one"
    screen.say((warning, "bold yellow"), indent=2)
    known = situations(report.arenas)
    rows = [(line((name, "bold yellow")), known[name].statement) for name in missing]
    screen.table(rows, indent=4)


def _show_situations(screen: Screen, report: Report) -> None:
    """Print how often each situation was reached, in as many columns as fit."""
    known = situations(report.arenas)
    names = [name for name in known if report.reached[name]]
    if not names:
        return
    screen.say(("  situations reached, and how often", "dim"))
    if screen.verbosity > 0:
        rows = [(f"{report.reached[name]:>9,}", name, known[name].statement) for name in names]
        screen.table(rows, indent=4)
        return
    counts = {name: short_count(report.reached[name]) for name in names}
    cell = max(map(len, names)) + max(map(len, counts.values())) + 2
    across = max(1, (screen.width - 4) // (cell + 3))
    down = ceil(len(names) / across)
    for row in range(down):
        cells = [f"{name} {counts[name]:>{cell - len(name) - 1}}" for name in names[row::down]]
        screen.say_whole(("    " + "   ".join(cells), "dim"))


def short_count(number: int) -> str:
    """Write a number in at most four characters: ``853``, ``4.8k``, ``48k``, ``1.2M``."""
    for unit, size in (("M", 1_000_000), ("k", 1_000)):
        if number >= size:
            return (
                f"{number / size:.1f}{unit}" if number < 9.95 * size else f"{number // size}{unit}"
            )
    return str(number)


# ---- what was not judged -----------------------------------------------------------------


def _show_unjudged(
    screen: Screen, found: Sequence[tuple[Unjudged, int]], configurations: int
) -> None:
    """Print one row per reason, so that a missing method does not fill the screen."""
    shown = [(each, count) for each, count in found if count == configurations or each.hint]
    if not shown:
        return
    screen.say(("not judged, since the target does not promise it", "dim"), indent=2)
    for (reason, hint, count), same in groupby(shown, key=lambda pair: (*pair[0][1:], pair[1])):
        rules = ", ".join(each.rule for each, _ in same)
        where = f" in {count} of {configurations} configurations" if count < configurations else ""
        more = f"; to judge it: {hint}" if hint else ""
        screen.say((rules, "cyan"), f": {reason}{where}{more}", indent=4)
