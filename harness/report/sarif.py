"""A document as SARIF 2.1.0, for GitHub's code scanning and for editors that show such results.

A result needs a file to point at. That is the trace file that was saved, at its first line; else
the source file of the target, if its spec names one; else nothing, which the standard allows.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any, TypeAlias
from urllib.parse import quote

import msgspec

from radixcheck.report.document import Document, FindingPart, TargetPart, encode
from radixcheck.rules import COST, RULES, Rule, Severity

SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)

LEVELS = {Severity.POLICY: "warning", Severity.WASTE: "warning"}
"""How much a broken rule weighs, where it is no error."""

SECURITY = {Severity.CORRUPTION: "8.0", Severity.LEAK: "5.0"}
"""By this number GitHub sorts results: another user's KV is a matter of security."""

Json: TypeAlias = dict[str, Any]

_FILE = re.compile(r"(?P<path>[^?]+\.py):")


def dumps(document: Document) -> bytes:
    """Write `document` as one run of one tool."""
    log = {"$schema": SCHEMA, "version": "2.1.0", "runs": [_run(document)]}
    return msgspec.json.format(encode(log), indent=1) + b"\n"


def _run(document: Document) -> Json:
    broken = {each.rule for target in document.targets for each in target.findings}
    rules = [RULES[name] for name in RULES if name in broken]
    place = {rule.name: number for number, rule in enumerate(rules)}
    return {
        "tool": {
            "driver": {
                "name": "radixcheck",
                "semanticVersion": document.radixcheck_version,
                "rules": [_rule(rule) for rule in rules],
            }
        },
        "automationDetails": {"id": "radixcheck/"},
        "columnKind": "unicodeCodePoints",
        "invocations": [_invocation(document)],
        "results": [
            _result(target, finding, place[finding.rule])
            for target in document.targets
            for finding in target.findings
        ],
    }


def _rule(rule: Rule) -> Json:
    statement = rule.statement[0].upper() + rule.statement[1:]
    return {
        "id": rule.name,
        "name": "".join(word.capitalize() for word in rule.name.split("-")),
        "shortDescription": {"text": f"{statement}."},
        "fullDescription": {"text": f"{statement}: {COST[rule.severity]}."},
        "help": {
            "text": f"{statement}: {COST[rule.severity]}. Seen before in {rule.source}.",
            "markdown": f"**{rule.name}** ({rule.severity}). {statement}: {COST[rule.severity]}."
            f"\n\nSeen before in {rule.source}.",
        },
        "defaultConfiguration": {"level": LEVELS.get(rule.severity, "error")},
        "properties": {
            "tags": ["correctness", str(rule.severity)],
            "precision": "very-high",
            **({"security-severity": SECURITY[rule.severity]} if rule.severity in SECURITY else {}),
        },
    }


def _invocation(document: Document) -> Json:
    notes = [
        *document.notes,
        *(f"{each.spec}: {each.error}" for each in document.targets if each.error),
    ]
    return {
        "commandLine": document.command,
        "startTimeUtc": document.began,
        "exitCode": document.exit_code,
        "executionSuccessful": document.exit_code in (0, 1, 4),
        "toolExecutionNotifications": [
            {"level": "note", "message": {"text": _plain(note)}} for note in notes
        ],
    }


# ---- a finding ---------------------------------------------------------------------------


def _result(target: TargetPart, finding: FindingPart, rule: int) -> Json:
    severity = Severity(finding.severity)
    level = "note" if finding.flaky or finding.excused else LEVELS.get(severity, "error")
    result: Json = {
        "ruleId": finding.rule,
        "ruleIndex": rule,
        "level": level,
        "message": {"text": _plain(_message(target, finding))},
        "locations": [*_locations(target, finding)],
        "partialFingerprints": {"signature/v1": _fingerprint(target, finding)},
        "properties": {
            "target": target.spec,
            "operation": finding.operation,
            "config": finding.config,
            "seed": finding.seed,
            "reproduce": finding.reproduce,
            "program": finding.program,
            "flaky": finding.flaky,
        },
    }
    if finding.new is not None:
        result["baselineState"] = "new" if finding.new else "unchanged"
    return result


def _message(target: TargetPart, finding: FindingPart) -> str:
    statement = finding.statement[0].upper() + finding.statement[1:]
    under = f" under {finding.config}" if finding.config else ""
    detail = f" {finding.detail}" if finding.detail else ""
    told = f"{target.spec}{under} broke {finding.rule} at {finding.operation}"
    seen = f"expected {_cut(finding.expected)}, got {_cut(finding.actual)}"
    again = f" Reproduce: {finding.reproduce}" if finding.reproduce else ""
    return f"{statement}. {told}: {seen}.{detail}{again}"


def _locations(target: TargetPart, finding: FindingPart) -> Iterator[Json]:
    path = finding.path if finding.path.endswith(".jsonl") else ""
    if not path and (named := _FILE.match(target.spec)):
        path = named["path"]
    place: Json = {"logicalLocations": [{"name": target.spec, "fullyQualifiedName": target.spec}]}
    if path:
        region = {"startLine": 1, "startColumn": 1}
        place["physicalLocation"] = {"artifactLocation": {"uri": _uri(path)}, "region": region}
    yield place


def _uri(path: str) -> str:
    """Write a path as a reference: relative if it is, since a checkout may lie anywhere."""
    pure = PurePath(path)
    slashed = quote(pure.as_posix())
    return f"file://{slashed}" if pure.is_absolute() else slashed


def _fingerprint(target: TargetPart, finding: FindingPart) -> str:
    """Name what stays the same from run to run: the target and the signature."""
    named = "\n".join([target.spec, *finding.signature])
    return hashlib.sha256(named.encode("utf-8", "replace")).hexdigest()


def _plain(text: str) -> str:
    """Keep links out of a message: in SARIF, ``[text](target)`` is one."""
    return text.replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]")


def _cut(text: str, limit: int = 400) -> str:
    return text if len(text) <= limit else f"{text[:limit]} [{len(text) - limit} more characters]"
