"""The protocol as it is written down: the schema, the examples, the server in JavaScript."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from radixcheck.hosts import Here
from radixcheck.loop import Budget, Report, run
from radixcheck.operations import DecRef, Evict, IncRef, Insert, MatchPrefix
from radixcheck.registry import resolve
from radixcheck.targets import messages
from radixcheck.targets.server import Server
from radixcheck.trace import Trace
from radixcheck.verdict import check

DOCS = Path(__file__).resolve().parents[2] / "docs"
DOCUMENT = (DOCS / "protocol.md").read_text(encoding="utf-8")
SCHEMA: dict[str, Any] = json.loads((DOCS / "protocol.schema.json").read_text(encoding="utf-8"))
DEFINITIONS = SCHEMA["definitions"]

Validate = Callable[[Any], Any]


def validator(definition: str) -> Validate:
    """Return what raises unless a value is what the schema calls `definition`."""
    library = pytest.importorskip("fastjsonschema")
    validate: Validate = library.compile(
        SCHEMA | {"anyOf": [{"$ref": f"#/definitions/{definition}"}]}
    )
    return validate


def is_valid(definition: str, line: str) -> bool:
    """Tell whether a line is what the schema calls `definition`."""
    library = pytest.importorskip("fastjsonschema")
    try:
        validator(definition)(json.loads(line))
    except library.JsonSchemaException:
        return False
    return True


# ----------------------------------------------------------------------------------- the schema

REQUESTS: dict[str, type[msgspec.Struct]] = {
    "hello": messages.Hello,
    "open": messages.Open,
    "match_prefix": messages.MatchPrefix,
    "insert": messages.Insert,
    "evict": messages.Evict,
    "inc_ref": messages.IncRef,
    "dec_ref": messages.DecRef,
    "reset": messages.Reset,
    "dump": messages.Dump,
    "sizes": messages.Sizes,
}

ANSWERS = "matched inserted freed changed dumped done refused failed".split()


def fields(definition: dict[str, Any]) -> set[str]:
    """Name the fields of an object in the schema, or of any that it may be."""
    names = set(definition.get("properties", ()))
    return names.union(*(fields(each) for each in definition.get("oneOf", ())))


@pytest.mark.parametrize("name", REQUESTS)
def test_the_schema_has_each_request_with_exactly_its_fields(name: str) -> None:
    struct = REQUESTS[name]
    assert {"op", *struct.__struct_encode_fields__} == fields(DEFINITIONS[name])
    needed = {field.encode_name for field in msgspec.structs.fields(struct) if field.required}
    optional = {"version"} if name == "hello" else set()
    assert {"op", *needed, *optional} == set(DEFINITIONS[name]["required"])


def test_the_schema_has_exactly_the_fields_that_an_answer_may_have() -> None:
    told = set().union(*(fields(DEFINITIONS[name]) for name in ANSWERS))
    assert set(messages.Answer.__struct_encode_fields__) == told
    assert set(messages.Node.__struct_encode_fields__) == fields(DEFINITIONS["node"])
    assert set(messages.Opened.__struct_encode_fields__) == fields(DEFINITIONS["opened"])
    assert set(messages.Welcome.__struct_encode_fields__) == fields(DEFINITIONS["welcome"])
    methods = DEFINITIONS["opened"]["properties"]["methods"]["items"]["enum"]
    assert messages.METHODS == set(methods)


WRONG = {
    "request": [
        '{"op": "fly"}',
        '{"op": "insert", "tokens": [1]}',
        '{"op": "evict", "num_tokens": -1}',
        '{"op": "match_prefix", "tokens": [1.5], "as": 1}',
        '{"op": "match_prefix", "tokens": [1], "as": 1, "namespace": "a"}',
        '[{"op": "hello", "version": 1}]',
        "[]",
        "7",
    ],
    "reply": [
        '{"length": 1}',
        '{"slots": ["1"]}',
        '{"groups": [1]}',
        '{"existing": null}',
        '{"methods": ["insert"], "capabilities": {}}',
        '{"refused": true}',
        '{"nodes": [{"tokens": [1]}]}',
        '[{"existing": 0, "hits": 1}]',
        "[]",
        "null",
    ],
}


@pytest.mark.parametrize(("definition", "line"), [(d, line) for d in WRONG for line in WRONG[d]])
def test_the_schema_knows_what_is_wrong(definition: str, line: str) -> None:
    assert not is_valid(definition, line)


# ------------------------------------------------------------------------------ the conversations

Line = tuple[bytes, bytes]


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> list[Line]:
    """Return what is asked and answered from now on."""
    heard: list[Line] = []
    ask = Server.ask

    def noted(self: Server, line: bytes, timeout_s: float) -> bytes:
        answer = ask(self, line, timeout_s)
        heard.append((line, answer))
        return answer

    monkeypatch.setattr(Server, "ask", noted)
    return heard


def report_of(spec: str, operations: int) -> Report:
    """Run a target for so many operations."""
    return run(Here(resolve(spec)), seed=2, budget=Budget(max_operations=operations))


@pytest.mark.parametrize("batch", ["64", "off"])
def test_all_that_is_said_is_as_the_schema_says(node: str, batch: str, lines: list[Line]) -> None:
    report_of(f"{node}?batch={batch}", 1500)
    request, reply = validator("request"), validator("reply")
    for asked, answered in lines:
        request(json.loads(asked))
        reply(json.loads(answered))
    batches = [len(json.loads(asked)) for asked, _ in lines if asked.startswith(b"[")]
    assert (batch == "64") == (max(batches, default=0) > 8)


def test_the_example_in_javascript_is_not_accused(node: str) -> None:
    report = report_of(node, 3000)
    assert ([], 8) == (report.findings, len(report.arenas))


STORY = Trace(
    (
        Insert((1, 2, 3, 4), ("a",)),
        MatchPrefix((1, 2), ("a",), handle="h"),
        IncRef("h"),
        Insert((1, 2, 9), ("a",)),
        Evict(9),
        DecRef("h"),
        MatchPrefix((1, 2, 9), ("b",)),
        Evict(1),
    )
)


def test_a_batch_gets_the_answers_of_its_operations_one_by_one(
    node: str, lines: list[Line]
) -> None:
    told = []
    for batch in ("64", "off"):
        lines.clear()
        assert None is check(resolve(f"{node}?batch={batch}").open, STORY, thorough=False).violation
        told.append([each for _, answer in lines for each in listed(json.loads(answer))])
    assert told[0][-len(STORY.operations) :] == told[1][-len(STORY.operations) :]


def listed(answer: Any) -> list[Any]:
    """Return the answers in a line."""
    return answer if isinstance(answer, list) else [answer]


# --------------------------------------------------------------------------------- the document


def blocks(mark: str) -> Iterator[str]:
    """Yield the fenced blocks that are marked so."""
    yield from re.findall(
        rf"<!-- {mark} -->\n```\w+\n(.*?)^```$", DOCUMENT, re.DOTALL | re.MULTILINE
    )


def test_the_conversation_in_the_document_is_as_the_schema_says() -> None:
    (talk,) = blocks("lines")
    said = talk.splitlines()
    valid = [
        (is_valid("request", asked), is_valid("reply", answered))
        for asked, answered in list(pairwise(said))[::2]
    ]
    assert [(True, True)] * (len(said) // 2) == valid


def test_the_server_in_the_document_is_a_correct_cache(tmp_path: Path) -> None:
    (program,) = blocks("file: server.py")
    (tmp_path / "server.py").write_text(program)
    report = report_of(f"cmd:{sys.executable} {tmp_path / 'server.py'}", 6000)
    assert ([], []) == (report.findings, report.missing)


def test_a_mistake_in_that_server_is_found(tmp_path: Path) -> None:
    (program,) = blocks("file: server.py")
    wrong = program.replace("reversed(found)", "found")
    assert wrong != program
    (tmp_path / "server.py").write_text(wrong)
    report = report_of(f"cmd:{sys.executable} {tmp_path / 'server.py'}", 3000)
    assert {"orphaned-suffix"} <= {finding.violation.rule for finding in report.findings}
