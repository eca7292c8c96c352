"""A document as Markdown, for ``$GITHUB_STEP_SUMMARY`` and for the comment on a pull request.

Text that nobody vouches for goes into ``<code>``, each character that Markdown might understand as
an entity: so it is no link, no mention, no table cell and no tag.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from urllib.parse import urlsplit

from radixcheck.report.document import Document, FindingPart, TargetPart
from radixcheck.report.words import counted, goes_on, show_duration

LIMIT_BYTES = 1_000_000
"""GitHub takes 1 MiB of a step, and none of it if it is more."""

TEXT = 2_000
PROGRAM = 12_000
"""Characters of an expectation, and of a program."""

MARKS = {
    "clean": "✅",
    "violation": "❌",
    "inconclusive": "⚠️",
    "nothing": "⚠️",
    "interrupted": "⏹️",
    "error": "💥",
}

CASES = {"passed": "✅", "failed": "❌", "error": "💥", "skipped": "⚪"}

SHOWN_CASES, SHOWN_TARGETS = 300, 200

_STEERS = re.compile(r"[^A-Za-z0-9 ,=/'-]")


def dumps(document: Document) -> bytes:
    """Write `document` as Markdown of at most `LIMIT_BYTES`: what does not fit is counted."""
    head, foot = "\n".join(_head(document)), _foot(document)
    findings = [_finding(target, each) for target in document.targets for each in target.findings]
    blocks = [*findings, *(table for target in document.targets for table in _tables(target))]
    room = LIMIT_BYTES - sum(len(_bytes(each)) + 1 for each in (head, foot, _left(len(blocks))))
    shown: list[str] = []
    for block in blocks:
        room -= len(_bytes(block)) + 1
        if room < 0:
            foot = f"{_left(len(blocks) - len(shown))}\n{foot}"
            break
        shown.append(block)
    return _bytes("\n".join([head, *shown, foot]))


def _left(number: int) -> str:
    return (
        f"\n{counted(number, 'more block')}: too long for this page, all is in the other reports.\n"
    )


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")


# ---- the head ----------------------------------------------------------------------------


def _head(document: Document) -> Iterator[str]:
    yield "## radixcheck"
    yield ""
    yield from (f"> {_text(note)}\n" for note in document.notes)
    yield "| | target | verdict | operations | traces | time | seed |"
    yield "|---|---|---|--:|--:|--:|--:|"
    for target in document.targets[:SHOWN_TARGETS]:
        seed = "" if target.seed is None else str(target.seed)
        seen = f"{target.operations:,} | {target.traces:,} | {show_duration(target.elapsed_s)}"
        canary = " (the canary)" if target.canary else ""
        words = _text(target.words)
        mark = MARKS[target.verdict]
        yield f"| {mark} | {code(target.spec)}{canary} | {words} | {seen} | {seed} |"
    if (left := len(document.targets) - SHOWN_TARGETS) > 0:
        yield f"\nand {counted(left, 'more target')}"
    yield ""
    for target in document.targets[:SHOWN_TARGETS]:
        if target.error:
            yield f"{code(target.spec)}: {_text(target.error)}\n"
        yield from _cases(target)
        yield from _missing(target)
    yield ""


def _cases(target: TargetPart) -> Iterator[str]:
    if not target.cases:
        return
    yield f"<details><summary>{counted(len(target.cases), 'trace')}</summary>\n"
    yield "| | trace | |"
    yield "|---|---|---|"
    for case in target.cases[:SHOWN_CASES]:
        yield f"| {CASES[case.status]} | {code(case.name)} | {_text(case.words)} |"
    yield "\n</details>\n"


def _missing(target: TargetPart) -> Iterator[str]:
    if target.missing and not target.canary:
        names = ", ".join(map(code, target.missing))
        told = "About these the run proves nothing."
        yield f"⚠️ {code(target.spec)} was never there: {names}. {told}\n"


# ---- a finding ---------------------------------------------------------------------------


def _finding(target: TargetPart, finding: FindingPart) -> str:
    return "\n".join(_lines(target, finding))


def _lines(target: TargetPart, finding: FindingPart) -> Iterator[str]:
    told = f" <i>{', '.join(flags)}</i>" if (flags := [*_flags(finding)]) else ""
    broken = f"<b>{_text(finding.rule)}</b> at {code(finding.operation)} by {code(target.spec)}"
    yield f"<details><summary>{broken}{told}</summary>\n"
    statement = finding.statement[0].upper() + finding.statement[1:]
    under = f" Under {code(finding.config)}." if finding.config else ""
    yield f"{_text(statement)}: {_text(finding.cost)}.{under}\n"
    if finding.excused:
        yield "It fails on the baseline too: no violation.\n"
    if finding.shrunk:
        yield f"⚠️ {_text(goes_on(finding.shrunk).capitalize())}.\n"
    yield "| | |"
    yield "|---|---|"
    yield f"| expected | {code(finding.expected)} |"
    yield f"| actual | {code(finding.actual)} |"
    if finding.detail:
        yield f"| detail | {code(finding.detail)} |"
    yield ""
    yield from _fenced(finding.program, "python")
    if finding.reproduce:
        yield "Reproduce:\n"
        yield from _fenced(finding.reproduce, "sh")
    yield "</details>\n"


def _flags(finding: FindingPart) -> Iterator[str]:
    if finding.flaky:
        yield "flaky"
    if finding.new is not None:
        yield "new" if finding.new else "not new"
    if finding.shrunk:
        yield f"{finding.shrunk} shrunk"


def _fenced(text: str, language: str) -> Iterator[str]:
    """Put a text into a fence that is longer than any in it."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    cut = text if len(text) <= PROGRAM else f"{text[:PROGRAM]}\n# cut: all of it is in the others"
    yield f"{fence}{language}\n{cut.rstrip()}\n{fence}\n"


# ---- the tables and the foot -------------------------------------------------------------


def _tables(target: TargetPart) -> Iterator[str]:
    for lines in (_situations(target), _known(target), _unjudged(target)):
        if block := "\n".join(lines):
            yield block


def _foot(document: Document) -> str:
    return f"radixcheck {_text(document.radixcheck_version)}: {code(document.command)}\n"


def _situations(target: TargetPart) -> Iterator[str]:
    if not target.situations:
        return
    wanted = [each for each in target.situations if each.required]
    reached = sum(each.count > 0 for each in wanted)
    told = f"{reached} of {len(wanted)} required situations reached by {code(target.spec)}"
    rows = (
        f"| {code(each.name)} | {_text(each.statement)} | {'yes' if each.required else ''} "
        f"| {each.count:,} |"
        for each in target.situations
    )
    yield from _table(told, "| situation | | required | times |\n|---|---|---|--:|", rows)


def _known(target: TargetPart) -> Iterator[str]:
    rows = [
        f"| {code(each.rule)} at {code(each.operation)} | {each.times:,} | {_text(each.reason)} "
        f"| {_link(each.issue)} |"
        for each in target.known
    ]
    if rows:
        head = "| failure | times | why | |\n|---|--:|---|---|"
        rows.append(f"\n{_cut_short(target)}")
        yield from _table(f"known failures of {code(target.spec)}", head, rows)


def _cut_short(target: TargetPart) -> str:
    """Say what the known failures of a target have cost: each that was seen has ended its trace."""
    times, operations = sum(each.times for each in target.known), target.cut_short
    behind = f"; {counted(operations, 'operation')} behind them were not judged" * bool(operations)
    return f"They cut short {times:,} of {counted(target.traces, 'trace')}{behind}."


def _unjudged(target: TargetPart) -> Iterator[str]:
    rows = [
        f"| {', '.join(map(code, each.rules))} | {_text(each.reason)} | {code(each.hint)} |"
        for each in target.unjudged
    ]
    if rows:
        head = "| rules | why not | to judge it |\n|---|---|---|"
        yield from _table(f"not judged of {code(target.spec)}", head, rows)


def _table(summary: str, head: str, rows: Iterable[str]) -> Iterator[str]:
    yield f"<details><summary>{summary}</summary>\n\n{head}"
    yield from rows
    yield "\n</details>\n"


# ---- text --------------------------------------------------------------------------------


def code(text: str) -> str:
    """Write text that nobody vouches for as code, in one line."""
    return f"<code>{_text(text)}</code>" if text else ""


def _text(text: str) -> str:
    cut = text if len(text) <= TEXT else f"{text[:TEXT]} ... ({len(text) - TEXT} more characters)"
    return _STEERS.sub(lambda found: _entity(found[0]), " ".join(cut.split()))


def _entity(character: str) -> str:
    return character if character.isalnum() else f"&#{ord(character)};"


def _link(issue: str) -> str:
    """Link to an issue, if it is an address of the web; else write it."""
    if is_link(issue):
        return f'<a href="{_text(issue)}">{_text(issue)}</a>'
    return code(issue)


def is_link(address: str) -> bool:
    """Tell whether `address` may be linked: http or https, with a host, printable."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.netloc) and address.isprintable()
