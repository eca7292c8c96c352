"""A document against the issues that are open: one issue per target and signature.

An issue is known by a mark in its body, which no reader sees, so a person may retitle it::

    seen in this report      no issue                open it
                             open                     bring its body up to date
                             closed as completed      open it again
                             closed as not planned    leave it
    not seen any more        open                     close it, if the report is complete

A finding that did not come back, or is not new where only what is new was asked for, is no reason
to open an issue, and none to close one. As long as one of an earlier run was not looked at again,
no issue of its target is closed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Literal, NamedTuple, TypeAlias

from msgspec import Struct, structs

from radixcheck.report import markdown
from radixcheck.report.document import Document, FindingPart, TargetPart
from radixcheck.report.words import clean

LONGEST_TITLE, LONGEST_BODY = 200, 60_000
"""GitHub takes 256 characters and 65,536."""

LONGEST_WORDS = 600
"""Characters of an expectation in a body, so that body and escapes fit."""

COMPLETE = {"clean", "violation"}
"""Verdicts after which what was not seen is gone."""

Deed: TypeAlias = Literal["open", "update", "reopen", "close"]
Mark: TypeAlias = tuple[str, str]
"""What stands for a target, and what stands for one of its signatures."""

_MARK = re.compile(r"<!-- radixcheck target=([0-9a-f]{16}) signature=([0-9a-f]{16}) -->")


class Issue(Struct, rename="camel"):
    """An issue as ``gh issue list --json`` tells of it."""

    number: int
    title: str = ""
    body: str = ""
    state: str = "OPEN"
    state_reason: str | None = ""

    @property
    def mark(self) -> Mark | None:
        """The mark in its body, if a report has made it."""
        found = _MARK.search(self.body)
        return (found[1], found[2]) if found else None


class Change(NamedTuple):
    """One thing to do."""

    deed: Deed
    number: int
    """Of the issue; 0 for one that is not there yet."""
    title: str
    body: str
    """For `close` and `reopen` what to say there."""


def changes(document: Document, issues: Iterable[Issue], link: str = "") -> Iterator[Change]:
    """Yield what makes `issues` say what `document` says.

    Args:
        link: where the run can be looked at.
    """
    best_last = sorted(issues, key=lambda each: (each.state == "OPEN", -each.number))
    filed = {each.mark: each for each in best_last}
    seen = set[Mark]()
    for target in document.targets:
        for finding in () if target.canary else target.findings:
            mark = _mark(target.spec, finding.signature)
            if mark not in seen and not (finding.flaky or finding.excused):
                yield from _told(document, target, finding, filed.get(mark), link)
            seen.add(mark)
        seen |= {_mark(target.spec, (each.rule, each.operation)) for each in target.known}
    judged = {_short(each.spec) for each in document.targets if _is_complete(document, each)}
    for made, issue in filed.items():
        if made and made[0] in judged and made not in seen and issue.state == "OPEN":
            yield Change("close", issue.number, issue.title, f"Not seen any more. {link}".strip())


def _told(
    document: Document, target: TargetPart, finding: FindingPart, issue: Issue | None, link: str
) -> Iterator[Change]:
    """Let an issue tell of a finding."""
    title, body = title_of(target, finding), body_of(document, target, finding, link)
    if issue is None:
        yield Change("open", 0, title, body)
        return
    if issue.state != "OPEN":
        if issue.state_reason == "NOT_PLANNED":
            return
        yield Change("reopen", issue.number, issue.title, f"Seen again. {link}".strip())
    if issue.body.split() != body.split():
        yield Change("update", issue.number, issue.title, body)


def _is_complete(document: Document, target: TargetPart) -> bool:
    """Tell whether what this report does not say of a target is not so."""
    found = all(each.verdict == "clean" for each in document.targets if each.canary)
    return found and not target.canary and not target.pending and target.verdict in COMPLETE


def _mark(spec: str, signature: tuple[str, str]) -> Mark:
    return _short(spec), _short("\n".join(signature))


def _short(text: str) -> str:
    return sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


# ---- text --------------------------------------------------------------------------------


def title_of(target: TargetPart, finding: FindingPart) -> str:
    """Name an issue: ``radixcheck: ./my_cache.py:MyCache: eviction-order at evict``."""
    rule, what = finding.signature
    said = f": {rule} at {what}"
    return f"radixcheck: {clean(target.spec, 4096)}"[: LONGEST_TITLE - len(said)] + said


def body_of(document: Document, target: TargetPart, finding: FindingPart, link: str = "") -> str:
    """Write the body of an issue: a hidden mark, the finding, and how to be rid of it."""
    short = structs.replace(
        finding,
        expected=clean(finding.expected, LONGEST_WORDS),
        actual=clean(finding.actual, LONGEST_WORDS),
        detail=clean(finding.detail, LONGEST_WORDS),
    )
    alone = structs.replace(
        target, findings=(short,), situations=(), missing=(), known=(), unjudged=(), cases=()
    )
    only = structs.replace(document, targets=(alone,), notes=())
    told = markdown.dumps(only).decode().replace("<details>", "<details open>", 1)
    where, what = _mark(target.spec, finding.signature)
    mark = f"<!-- radixcheck target={where} signature={what} -->"
    return f"{mark}\n{told[:LONGEST_BODY]}\n\n{_RID.format(link=f' by {link}' if link else '')}\n"


_RID = (
    "Last seen{link}. `radixcheck issues` keeps this up to date, and closes it when a complete run "
    "does not see it any more. If it is to stay as it is, close it as not planned, or write it "
    "down in the file of known failures."
)
