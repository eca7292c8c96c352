"""A finding in one block: what broke, a program that shows it, what was stored, how to go on."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from os.path import commonprefix
from pathlib import Path
from typing import NamedTuple

from rich.text import Text

from radixcheck.capabilities import AnyCapabilities
from radixcheck.finding import Finding
from radixcheck.levels import TREE, Level
from radixcheck.operations import Operation
from radixcheck.registry import Source
from radixcheck.report.holdings import show_holdings
from radixcheck.report.owners import claims
from radixcheck.report.screen import Screen, line
from radixcheck.report.steps import show_operation, show_outcome
from radixcheck.report.tree import show_trees
from radixcheck.report.words import clean, counted, goes_on, show_slots
from radixcheck.rules import COST, RULES

WHOLE_LINES, LAST_LINES = 40, 12
"""A program of more lines is shown by its last ones; only a finding that was not shrunk has one."""

LONGEST_LINE, HEAD, TAIL = 400, 200, 60
"""A longer line of a program is shown by its ends, in so many characters."""

SHOWN_CLAIMS = 12

LONG_ANSWER = 120
"""Characters from which an answer is shown from where it differs."""


class Origin(NamedTuple):
    """Where a finding comes from, and where it can be found again."""

    source: Source
    capabilities: AnyCapabilities
    """What the target promises under the finding's configuration."""
    saved: Path | None
    """None where it was not saved."""
    level: Level = TREE
    raised: Sequence[str] = ()
    """The traceback of what the target raised, if it is known."""
    command: Sequence[str] = ()
    """The command that shows the finding again, where it is no plain `replay`."""


def show_finding(screen: Screen, finding: Finding, origin: Origin, number: int = 1) -> None:
    """Print the whole block of `finding`, the `number`-th of its run."""
    rule = RULES[finding.violation.rule]
    style = "bold yellow" if finding.flaky else "bold red"
    screen.heading(f"finding {number}: {rule.name} ({rule.severity})", style)
    _say_what(screen, finding)
    screen.blank()
    _show_program(screen, finding, origin)
    screen.blank()
    _show_step(screen, finding)
    _show_raised(screen, finding, origin)
    screen.blank()
    _show_stored(screen, finding)
    screen.blank()
    _say_how(screen, finding, origin)
    screen.blank()


def config_of(config: Iterable[tuple[str, object]]) -> str:
    """Write a configuration as ``page_size=4, eviction=lru``."""
    return clean(", ".join(f"{key}={value}" for key, value in config))


def reproduce_words(finding: Finding, origin: Origin) -> str:
    """Write the command that shows the finding again, on the host where it was found."""
    own = shlex.join(["radixcheck", *origin.command]) if origin.command else ""
    return own or reproduce_command(finding, origin.saved)


def reproduce_command(finding: Finding, saved: Path | None) -> str:
    """Write the command that shows the finding again, ready for a shell."""
    if saved is not None:
        return shlex.join(["radixcheck", "replay", str(saved), "--target", finding.target])
    if finding.seed is not None:
        return shlex.join(["radixcheck", "run", finding.target, "--seed", str(finding.seed)])
    return ""


def _say_what(screen: Screen, finding: Finding) -> None:
    rule = RULES[finding.violation.rule]
    statement = rule.statement[0].upper() + rule.statement[1:]
    screen.say(f"{statement}: {COST[rule.severity]}.")
    where = [f"Broken by {clean(finding.target)}"]
    if finding.trace.config:
        where.append(f"under {config_of(finding.trace.config.items())}")
    if finding.violation.operation == "audit":
        where.append("seen by the audit")
    if finding.seed is not None:
        where.append(f"with seed {finding.seed}")
    screen.say(f"{', '.join(where)}. {_length(finding)}")
    if finding.flaky:
        flaky = "It did not come back when the same trace ran again: inconclusive, no violation."
        screen.say((f"Flaky. {flaky}", "yellow"))
    elif finding.unfinished:
        screen.say((f"{goes_on('partly' if finding.steps else 'not').capitalize()}.", "yellow"))


def _length(finding: Finding) -> str:
    now, before = len(finding.trace.operations), finding.original_operations
    shrunk = f", shrunk from {before:,}" if before > now else ""
    return f"{counted(now, 'operation')}{shrunk}."


# ---- the program -------------------------------------------------------------------------


def program_of(finding: Finding, origin: Origin) -> str:
    """Write the program that shows the finding, ready to paste."""
    can, violation = origin.capabilities, finding.violation
    return origin.level.render(
        finding.steps,
        origin.source,
        finding.trace.config,
        violation,
        slots_as=can.slots_as,
        overwrites=violation.rule == "mutated-argument" and can.arguments == "borrowed",
    )


def _show_program(screen: Screen, finding: Finding, origin: Origin) -> None:
    program = program_of(finding, origin)
    lines = [clean(each, len(each)) for each in program.rstrip("\n").split("\n")]
    if screen.verbosity < 1:
        lines = list(_readable(lines))
    for each in _highlighted(screen, "\n".join(lines)):
        screen.console.print(each, soft_wrap=True)


def _readable(lines: list[str]) -> Iterator[str]:
    """Leave out what nobody reads; the lines that are left are whole unless they say otherwise."""
    left_out = len(lines) - LAST_LINES if len(lines) > WHOLE_LINES else 0
    if left_out:
        yield f"# {counted(left_out, 'line')} before these: -v shows them"
    for each in lines[left_out:]:
        if len(each) > LONGEST_LINE:
            yield f"{each[:HEAD]} ...{each[-TAIL:]}  # cut: -v shows it"
        else:
            yield each


def _highlighted(screen: Screen, code: str) -> Iterable[Text]:
    if screen.console.color_system is None:
        return map(Text, code.split("\n"))
    from rich.syntax import Syntax

    text = Syntax(code, "python", theme="ansi_dark").highlight(code)
    text.rstrip()
    return text.split("\n", allow_blank=True)


# ---- the step that diverged --------------------------------------------------------------


def _show_step(screen: Screen, finding: Finding) -> None:
    violation = finding.violation
    place = f"step {violation.step + 1} of {len(finding.trace.operations)}"
    if finding.steps:
        last = finding.steps[-1]
        call = f"{'audit, ' if last.audit else ''}{show_operation(last.operation)}"
        screen.say((f"{place}: ", "bold"), call)
        if not finding.answers:
            screen.say(("answer: ", "dim"), show_outcome(last.outcome), indent=2)
    else:
        screen.say((place, "bold"))
    for spec, outcome in finding.answers:
        screen.say((f"{clean(spec)}: ", "bold"), show_outcome(outcome), indent=2)
    _side_by_side(screen, *_where_they_differ(violation.expected, violation.actual))
    for each in violation.detail.splitlines():
        screen.say(clean(each), indent=2)
    if violation.also:
        screen.say(("also broken: ", "dim"), ", ".join(violation.also), indent=2)


def _show_raised(screen: Screen, finding: Finding, origin: Origin) -> None:
    """Print the traceback, or in fewer words that there is one."""
    if screen.verbosity > 0:
        for each in origin.raised:
            screen.say_whole(f"  {clean(each, len(each))}".rstrip())
    elif finding.violation.rule == "unexpected-error":
        screen.say(("-v shows the target's own traceback", "dim"), indent=2)


def _side_by_side(screen: Screen, expected: str, actual: str) -> None:
    if len(expected) + len(actual) + 6 <= screen.width:
        heads = line(("expected", "green")), line(("actual", "red"))
        screen.table([heads, (expected, actual)], indent=2, gap=4)
    else:
        rows = [(line(("expected", "green")), expected), (line(("actual", "red")), actual)]
        screen.table(rows, indent=2)


def _where_they_differ(expected: str, actual: str) -> tuple[str, str]:
    """Cut what two long answers have in common."""
    if max(len(expected), len(actual)) <= LONG_ANSWER:
        return clean(expected), clean(actual)
    start = max(0, len(commonprefix([expected, actual])) - 20)
    dots = "... " if start else ""
    return f"{dots}{clean(expected[start:])}", f"{dots}{clean(actual[start:])}"


# ---- what was stored ---------------------------------------------------------------------


def _show_stored(screen: Screen, finding: Finding) -> None:
    operation = finding.steps[-1].operation if finding.steps else Operation()
    key, namespace = getattr(operation, "tokens", ()), getattr(operation, "namespace", ())
    if finding.before.holdings or finding.after.holdings:
        show_holdings(screen, finding.before, finding.after)
    else:
        show_trees(screen, finding.before, finding.after, key, namespace)
    found = claims(finding.steps[-1], finding.before) if finding.steps else []
    if not found:
        return
    screen.blank()
    verb = "freed" if operation.kind == "evict" else "answered"
    screen.say((f"who owned the slots that were {verb}", "bold"))
    ellipsis = screen.glyphs.ellipsis
    shown = sorted(found, key=lambda claim: not claim.trouble)[:SHOWN_CLAIMS]
    rows = [
        (
            f"slot{'s' * (len(claim.slots) > 1)} {show_slots(claim.slots, ellipsis)}",
            line((str(claim), "red" if claim.trouble else "")),
        )
        for claim in found
        if claim in shown
    ]
    screen.table(rows, indent=2)
    if left := len(found) - len(rows):
        screen.say((f"and {counted(left, 'more run')} of slots", "dim"), indent=2)


# ---- how to see it again -----------------------------------------------------------------


def _say_how(screen: Screen, finding: Finding, origin: Origin) -> None:
    if finding.situations and screen.verbosity > 0:
        screen.say(("situations: ", "dim"), ", ".join(finding.situations))
    if command := reproduce_words(finding, origin):
        screen.say_whole(("reproduce: ", "bold"), clean(command, 4096))
