"""``radixcheck issues`` with a ``gh`` that writes down what it is asked."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from typer.testing import Result

from radixcheck.report.document import Document, FindingPart, TargetPart, dumps

Call: TypeAlias = Callable[..., Result]
Asked: TypeAlias = Callable[[], list[tuple[list[str], str]]]

GH = """#!{python}
import json, os, sys
asked = sys.argv[1:]
body = sys.stdin.read() if "-" in asked else ""
with open("asked.jsonl", "a") as file:
    file.write(json.dumps([asked, body]) + "\\n")
if os.path.exists("fails"):
    sys.exit("HTTP 403: no \\x1b[31mtoken")
if asked[:2] == ["issue", "list"]:
    print(open("issues.json").read())
"""


@pytest.fixture
def asked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Asked:
    """Put a ``gh`` first in the path that knows no issue; return what it was asked."""
    program = folder / "bin" / "gh"
    program.parent.mkdir()
    program.write_text(GH.format(python=sys.executable))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    (folder / "issues.json").write_text("[]")

    def read() -> list[tuple[list[str], str]]:
        lines = (folder / "asked.jsonl").read_text().splitlines()
        return [(arguments, body) for arguments, body in map(json.loads, lines)]

    return read


def report(folder: Path, *rules: str, **changes: Any) -> None:
    """Save a report about a target that broke `rules`."""
    findings = tuple(
        FindingPart(
            rule=rule,
            severity="corruption",
            statement="a statement",
            cost="a cost",
            operation="evict",
            signature=(rule, "evict"),
            config="",
            program="import this",
            expected="1",
            actual="2",
        )
        for rule in rules
    )
    target = TargetPart(spec="-x $(touch y)", verdict="violation", words="", findings=findings)
    document = Document(
        radixcheck_version="1",
        command="radixcheck fuzz",
        began="2027-01-31T23:59:59Z",
        elapsed_s=1,
        exit_code=1,
        targets=(target,),
        **changes,
    )
    (folder / "report.json").write_bytes(dumps(document))


def test_an_issue_is_opened_with_its_body_through_a_pipe(
    call: Call, folder: Path, asked: Asked
) -> None:
    report(folder, "size-drift")
    result = call("issues", "report.json")
    (_, label, (create, body)) = asked()
    assert 0 == result.exit_code
    assert ["label", "create", "radixcheck", "--force"] == label[0][:4]
    title = "--title=radixcheck: -x $(touch y): size-drift at evict"
    assert ["issue", "create", title, "--label", "radixcheck", "--body-file", "-"] == create
    assert "import this" in body


def test_an_issue_is_updated_closed_and_opened_again(
    call: Call, folder: Path, asked: Asked
) -> None:
    report(folder, "size-drift")
    call("issues", "report.json", "--link", "https://example.org/1")
    body = asked()[-1][1]
    filed = {"number": 3, "title": "t", "body": body, "state": "OPEN", "stateReason": ""}
    (folder / "issues.json").write_text(json.dumps([filed]))
    call("issues", "report.json", "--link", "https://example.org/2")
    assert ["issue", "edit", "3", "--body-file", "-"] == asked()[-1][0]
    report(folder)
    call("issues", "report.json", "--link", "https://example.org/3")
    comment = "--comment=Not seen any more. https://example.org/3"
    assert ["issue", "close", "3", "--reason", "completed", comment] == asked()[-1][0]
    (folder / "issues.json").write_text(json.dumps([{**filed, "state": "CLOSED"}]))
    report(folder, "size-drift")
    call("issues", "report.json", "--link", "https://example.org/1")
    assert ["issue", "reopen", "3"] == asked()[-1][0][:3]


def test_a_dry_run_only_asks_what_there_is(call: Call, folder: Path, asked: Asked) -> None:
    report(folder, "size-drift")
    result = call("issues", "report.json", "--dry-run")
    assert [["issue", "list"]] == [arguments[:2] for arguments, _ in asked()]
    assert "open" in result.output


def test_a_flood_is_let_in_slowly(call: Call, folder: Path, asked: Asked) -> None:
    report(folder, *(f"rule-{number}" for number in range(25)))
    result = call("issues", "report.json")
    assert 10 == sum(arguments[:2] == ["issue", "create"] for arguments, _ in asked())
    assert "15 more issues left for the next time" in result.output


def test_what_gh_refuses_is_told(call: Call, folder: Path, asked: Asked) -> None:
    report(folder, "size-drift")
    (folder / "fails").touch()
    result = call("issues", "report.json")
    assert (2, 1) == (result.exit_code, len(asked()))
    assert "gh: HTTP 403: no \\x1b[31mtoken" in result.output


def test_without_gh_nothing_can_be_done(
    call: Call, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report(folder, "size-drift")
    monkeypatch.setenv("PATH", str(folder))
    result = call("issues", "report.json")
    assert 2 == result.exit_code
    assert "gh: not found" in result.output


@pytest.mark.parametrize("text", ["", "{}", '{"format": "x"}'])
def test_what_is_no_report_is_an_error(call: Call, folder: Path, text: str) -> None:
    (folder / "report.json").write_text(text)
    result = call("issues", "report.json")
    assert 2 == result.exit_code
    assert "report.json is no report" in result.output


def test_a_report_of_a_release_to_come_is_refused(call: Call, folder: Path) -> None:
    report(folder, format=99)
    assert 2 == call("issues", "report.json").exit_code


def test_a_report_that_is_not_there_is_an_error(call: Call, folder: Path) -> None:
    assert 2 == call("issues", "report.json").exit_code
