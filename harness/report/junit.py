"""A document as JUnit XML, in the dialect that GitHub's actions, GitLab and Jenkins all read.

::

    testsuites                     the command
    ├─ testsuite                   a target
    │  ├─ testcase                 a rule by which it was judged, or a trace that was replayed
    │  └─ testcase "situations"    whether the run was where caches have failed
    └─ testsuite                   a canary
       └─ testcase "canary"        whether it was found

A rule is a case, whatever the seed; so two runs can be compared, and "newly failed" means a rule.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree import ElementTree as ET

from radixcheck.report.document import CasePart, Document, FindingPart, TargetPart

_UNPRINTABLE = re.compile("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]|[\x7f-\x9f]")
"""What XML 1.0 does not allow in any spelling, and what it advises against."""

ATTRIBUTE = 300
"""Characters of a message: CI systems show it in one line."""

TEXT = 40_000
"""Characters of a failure's text; all of it is in the other reports."""


def dumps(document: Document) -> bytes:
    """Write `document` as JUnit XML."""
    root = ET.Element("testsuites", name="radixcheck", time=_seconds(document.elapsed_s))
    for target in document.targets:
        root.append(_suite(target, document))
    for name in ("tests", "failures", "errors", "skipped"):
        root.set(name, str(sum(int(suite.get(name, "0")) for suite in root)))
    ET.indent(root)
    written: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return written + b"\n"


def _suite(target: TargetPart, document: Document) -> ET.Element:
    cases = [*(_replayed(target, case) for case in target.cases)] or [*_judged(target)]
    suite = ET.Element(
        "testsuite",
        name=_safe(target.spec, ATTRIBUTE),
        tests=str(len(cases)),
        failures=_count(cases, "failure"),
        errors=_count(cases, "error"),
        skipped=_count(cases, "skipped"),
        time=_seconds(target.elapsed_s),
        timestamp=document.began.removesuffix("Z"),
    )
    properties = ET.SubElement(suite, "properties")
    for name, value in _properties(target):
        ET.SubElement(properties, "property", name=name, value=_safe(value, ATTRIBUTE))
    suite.extend(cases)
    return suite


def _properties(target: TargetPart) -> Iterator[tuple[str, str]]:
    yield "verdict", target.words
    yield "operations", str(target.operations)
    yield "traces", str(target.traces)
    if target.seed is not None:
        yield "seed", str(target.seed)
    if target.configurations:
        yield "configurations", target.configurations


# ---- a run -------------------------------------------------------------------------------


def _judged(target: TargetPart) -> Iterator[ET.Element]:
    """Yield a case per rule, in the order of the rules, then what says whether they were tried."""
    if target.error:
        yield _with(_case(target, "open"), "error", "cannot be judged", target.error)
        return
    if target.canary:
        yield _canary(target)
        return
    broken: dict[str, list[FindingPart]] = {}
    for finding in target.findings:
        broken.setdefault(finding.rule, []).append(finding)
    for rule in dict.fromkeys([*target.rules, *broken]):
        yield _rule(target, rule, broken.get(rule, []))
    for unjudged in target.unjudged:
        yield from (
            _with(_case(target, rule), "skipped", unjudged.reason)
            for rule in unjudged.rules
            if rule not in target.rules and rule not in broken
        )
    yield _situations(target)


def _rule(target: TargetPart, rule: str, findings: list[FindingPart]) -> ET.Element:
    case = _case(target, rule)
    if not findings:
        return case
    red = [each for each in findings if not (each.flaky or each.excused)]
    text = "\n\n".join(map(_told, red or findings))
    first = (red or findings)[0]
    message = f"{first.operation}: expected {first.expected}, got {first.actual}"
    if red:
        return _with(case, "failure", message, text, rule)
    return _with(case, "skipped", f"{_why_not_red(first)}: {message}", text)


def _why_not_red(finding: FindingPart) -> str:
    """Say why a finding is no failure."""
    if finding.excused:
        return "not new, it fails on the baseline too"
    return "flaky, it did not come back"


def _told(finding: FindingPart) -> str:
    lines = [
        f"{finding.rule} ({finding.severity}): {finding.statement}; {finding.cost}.",
        f"under {finding.config}" if finding.config else "",
        f"expected  {finding.expected}",
        f"actual    {finding.actual}",
        finding.detail,
        "",
        finding.program.rstrip(),
        "",
        f"reproduce: {finding.reproduce}" if finding.reproduce else "",
    ]
    return "\n".join(
        line for line, before in zip(lines, ["", *lines], strict=False) if line or before
    )


def _situations(target: TargetPart) -> ET.Element:
    case, missing = _case(target, "situations"), target.missing
    if not target.traces:
        return _with(case, "skipped", "nothing ran")
    cut_short = any(not each.excused for each in target.findings)
    if not missing or cut_short:  # by a finding: then a run owes nothing
        return case
    statement = {each.name: each.statement for each in target.situations}
    text = "\n".join(f"{name}: {statement.get(name, '')}" for name in missing)
    return _with(case, "failure", f"never reached: {', '.join(missing)}", text, "inconclusive")


def _canary(target: TargetPart) -> ET.Element:
    case = _case(target, "canary")
    if target.verdict == "clean":
        return case
    kind = "failure" if target.verdict == "inconclusive" else "skipped"
    return _with(case, kind, f"the canary: {target.words}", type_="inconclusive")


# ---- a replay ----------------------------------------------------------------------------


def _replayed(target: TargetPart, part: CasePart) -> ET.Element:
    case = _case(target, part.name, part.elapsed_s)
    if part.status == "passed":
        return case
    kind = {"failed": "failure", "error": "error", "skipped": "skipped"}[part.status]
    told = [_told(each) for each in target.findings if each.path == part.name]
    return _with(case, kind, part.words, "\n\n".join(told), part.rule)


# ---- elements ----------------------------------------------------------------------------


def _case(target: TargetPart, name: str, elapsed_s: float = 0) -> ET.Element:
    classname = f"radixcheck.{target.spec}"
    return ET.Element(
        "testcase",
        classname=_safe(classname, ATTRIBUTE),
        name=_safe(name, ATTRIBUTE),
        time=_seconds(elapsed_s),
    )


def _with(case: ET.Element, kind: str, message: str, text: str = "", type_: str = "") -> ET.Element:
    element = ET.SubElement(case, kind, message=_safe(message, ATTRIBUTE))
    if kind != "skipped":
        element.set("type", _safe(type_ or kind, ATTRIBUTE))
    if text:
        element.text = _safe(text, TEXT)
    return case


def _safe(text: str, limit: int) -> str:
    """Keep what an XML parser takes; ElementTree escapes the rest."""
    cut = text if len(text) <= limit else f"{text[:limit]} [{len(text) - limit} more characters]"
    return _UNPRINTABLE.sub("\ufffd", cut)


def _seconds(elapsed_s: float) -> str:
    return f"{elapsed_s:.3f}"


def _count(cases: list[ET.Element], kind: str) -> str:
    return str(sum(case.find(kind) is not None for case in cases))
