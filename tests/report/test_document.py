"""The document: what happened, as data that a program may read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import fastjsonschema
import msgspec
import pytest

from radixcheck import verdict
from radixcheck.cli.options import REPORTS
from radixcheck.finding import Edge, Finding, Snapshot
from radixcheck.operations import Insert
from radixcheck.registry import resolve
from radixcheck.report import document
from radixcheck.report.document import Document, EdgePart, FindingPart, OwnerPart
from radixcheck.report.unjudged import rules_of
from radixcheck.report.words import spell
from radixcheck.report.written import KINDS
from radixcheck.rules import RULES, Violation
from radixcheck.trace import Trace
from radixcheck.verdict import replay

SCHEMA = Path(__file__).parents[2] / "docs/report.schema.json"


def test_the_schema_in_docs_is_that_of_the_document() -> None:
    assert SCHEMA.read_bytes() == document.schema()


def test_a_document_fits_the_schema_in_docs(
    found: FindingPart, make: Callable[..., Document]
) -> None:
    told = msgspec.json.decode(document.dumps(make([found])))
    assert fastjsonschema.compile(msgspec.json.decode(SCHEMA.read_bytes()))(told) == told


def test_a_document_can_be_read_again(found: FindingPart, make: Callable[..., Document]) -> None:
    assert make([found]) == msgspec.json.decode(document.dumps(make([found])), type=Document)


def test_halves_of_characters_do_not_keep_a_document_from_being_written(attack: Document) -> None:
    assert "?" == msgspec.json.decode(document.dumps(attack))["notes"][1]


def test_the_options_know_every_kind_of_report() -> None:
    assert REPORTS == tuple(KINDS)


def test_numbers_are_spelled_by_their_runs() -> None:
    assert "1-3 7 9-10 9" == spell([1, 2, 3, 7, 9, 10, 9])


# ---- a finding ---------------------------------------------------------------------------


def test_a_finding_has_a_picture_before_each_step_and_one_after_the_last(
    found: FindingPart,
) -> None:
    assert len(found.steps) + 1 == len(found.pictures)


def test_the_pictures_show_what_was_stored(found: FindingPart) -> None:
    stored = [
        [found.edges[row.edge] for tree in picture.trees for row in tree.rows]
        for picture in found.pictures
    ]
    short, whole = EdgePart("1-2", "1-2"), EdgePart("1-3", "1-2 5")
    assert stored == [[], [short], [whole], [whole]]


def test_an_edge_that_stays_is_told_once(found: FindingPart) -> None:
    assert 2 == len(found.edges)


def test_a_step_tells_whose_the_slots_are_that_it_answered(found: FindingPart) -> None:
    expected = (OwnerPart("1", "[1]"), OwnerPart("5", "[1, 2, 3]", "answered for [1, 3]"))
    assert expected == found.steps[-1].owners


def test_a_long_key_is_told_whole_and_short(long_found: FindingPart) -> None:
    assert ("1-2999 3001", "1-2999 6001") == (
        long_found.steps[-1].tokens,
        long_found.steps[-1].slots,
    )


def test_the_program_of_a_finding_is_the_one_that_the_terminal_shows(found: FindingPart) -> None:
    assert "assert match.length == 1, match.length  # was 2" == found.program.splitlines()[-1]


# ---- pictures and rules ------------------------------------------------------------------


def test_a_finding_without_pictures_stores_nothing_before_and_after() -> None:
    finding = msgspec.structs.replace(_empty(), pictures=())
    assert (Snapshot({}), Snapshot({})) == (finding.before, finding.after)


def test_the_last_two_pictures_are_before_and_after() -> None:
    one, two, three = (Snapshot({(): (Edge((each,), (each,), 0),)}) for each in range(3))
    finding = msgspec.structs.replace(_empty(), pictures=(one, two, three))
    assert (two, three) == (finding.before, finding.after)


def test_of_heavy_pictures_only_the_last_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = Trace(tuple(Insert((each,) * 10) for each in range(1, 8)))
    monkeypatch.setattr(verdict, "FILM_NUMBERS", 400)
    whole = replay(resolve("radix").open, trace)
    assert (7, 3) == (len(whole.steps), len(whole.pictures))
    assert [5, 6, 7] == [len(each.trees[()]) for each in whole.pictures]


def test_what_came_after_a_step_can_be_left_out() -> None:
    seen = replay(resolve("radix").open, Trace((Insert((1,)), Insert((2,)), Insert((3,)))))
    cut = seen.up_to(2)
    assert (2, seen.pictures[:3]) == (len(cut.steps), cut.pictures)


def test_every_rule_of_a_level_is_judged_there() -> None:
    at = {rule.name for rule in RULES.values() if rule.level in ("tree", "pool", "requests")}
    assert at == {name for level in ("tree", "pool", "requests") for name in rules_of(level)} & at


def _empty() -> Finding:
    violation = Violation("size-drift", "evict", 0, "1", "2")
    return Finding("radix", Trace(()), violation, ())
