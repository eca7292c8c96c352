"""JUnit XML, as ElementTree and so every other parser reads it."""

from __future__ import annotations

from collections.abc import Callable
from xml.etree import ElementTree as ET

import pytest
from msgspec import structs

from radixcheck.report import junit
from radixcheck.report.document import CasePart, Document, FindingPart


def read(document: Document) -> ET.Element:
    """Parse what is written."""
    return ET.fromstring(junit.dumps(document))


def test_a_rule_that_was_kept_is_a_case_that_passed(make: Callable[..., Document]) -> None:
    cases = {
        case.get("name"): [each.tag for each in case] for case in read(make()).iter("testcase")
    }
    expected: dict[str, list[str]] = {
        "foreign-slot": [],
        "phantom-prefix": [],
        "unexpected-error": [],
        "namespace-leak": ["skipped"],
        "situations": [],
    }
    assert expected == cases


def test_a_broken_rule_is_a_failure_with_the_program(
    found: FindingPart, make: Callable[..., Document]
) -> None:
    failure = read(make([found])).find(".//testcase[@name='phantom-prefix']/failure")
    assert failure is not None
    assert "match_prefix: expected 1 token, got 2 tokens" == failure.get("message")
    assert found.program.rstrip() in (failure.text or "")


def test_the_counts_are_those_of_the_cases(
    found: FindingPart, make: Callable[..., Document]
) -> None:
    root = read(make([found]))
    counts = [root.get(name) for name in ("tests", "failures", "errors", "skipped")]
    assert ["5", "1", "0", "1"] == counts


def test_a_second_finding_of_a_rule_is_no_second_case(
    found: FindingPart, make: Callable[..., Document]
) -> None:
    other = structs.replace(found, operation="evict")
    assert "1" == read(make([found, other])).get("failures")


def test_a_flaky_finding_is_skipped_and_not_red(
    found: FindingPart, make: Callable[..., Document]
) -> None:
    root = read(make([structs.replace(found, flaky=True)]))
    assert ("0", "2") == (root.get("failures"), root.get("skipped"))


def test_what_is_not_new_is_skipped_where_only_what_is_new_counts(
    found: FindingPart, make: Callable[..., Document]
) -> None:
    old = structs.replace(found, new=False, excused=True)
    skipped = read(make([old])).find(".//testcase[@name='phantom-prefix']/skipped")
    assert skipped is not None
    assert "0" == read(make([old])).get("failures")
    assert (skipped.get("message") or "").startswith("not new, it fails on the baseline too: match")
    assert found.program.rstrip() in (skipped.text or "")


def test_what_is_not_new_is_a_failure_where_everything_counts(
    found: FindingPart, make: Callable[..., Document]
) -> None:
    assert "1" == read(make([structs.replace(found, new=False)])).get("failures")


def test_what_is_new_is_a_failure_beside_what_is_not(
    found: FindingPart, make: Callable[..., Document]
) -> None:
    old = structs.replace(found, new=False, excused=True, operation="evict")
    failure = read(make([old, found])).find(".//failure")
    assert failure is not None
    assert "match_prefix: expected 1 token, got 2 tokens" == failure.get("message")


def test_a_run_that_found_nothing_new_owes_its_situations(
    found: FindingPart, make: Callable[..., Document]
) -> None:
    old = structs.replace(found, new=False, excused=True)
    root = read(make([old], missing=("match-misses",), verdict="inconclusive"))
    assert "1" == root.get("failures")


@pytest.mark.parametrize(
    ("verdict", "words", "expected"),
    [
        ("clean", "found", []),
        ("inconclusive", "missed", ["failure"]),
        ("interrupted", "not found yet", ["skipped"]),
    ],
)
def test_of_a_canary_only_whether_it_was_found_is_a_case(
    make: Callable[..., Document], verdict: str, words: str, expected: list[str]
) -> None:
    cases = read(make(canary=True, verdict=verdict, words=words)).iter("testcase")
    assert [("canary", expected)] == [
        (each.get("name"), [one.tag for one in each]) for each in cases
    ]


def test_a_missed_situation_is_a_failure(make: Callable[..., Document]) -> None:
    root = read(make(missing=("match-misses",), verdict="inconclusive"))
    failure = root.find(".//testcase[@name='situations']/failure")
    assert failure is not None
    assert ("never reached: match-misses", "match-misses: a match finds nothing") == (
        failure.get("message"),
        failure.text,
    )


def test_a_target_that_could_not_be_judged_is_one_error(make: Callable[..., Document]) -> None:
    root = read(make(error="no GPU", verdict="error"))
    assert ("1", "1") == (root.get("tests"), root.get("errors"))


def test_a_replay_has_a_case_for_each_trace(
    found: FindingPart, make: Callable[..., Document]
) -> None:
    parts = [
        CasePart("a.jsonl", "passed", "was phantom-prefix", 0.5),
        CasePart(found.path, "failed", "phantom-prefix at match_prefix", 0.25, "phantom-prefix"),
        CasePart("c.jsonl", "error", "no such file"),
        CasePart("d.jsonl", "skipped", "a pool's"),
    ]
    cases = [*read(make([found], cases=tuple(parts))).iter("testcase")]
    seen = [(case.get("name"), [each.tag for each in case]) for case in cases]
    assert seen == [
        ("a.jsonl", []),
        (found.path, ["failure"]),
        ("c.jsonl", ["error"]),
        ("d.jsonl", ["skipped"]),
    ]
    assert found.program.rstrip() in (cases[1][0].text or "")


def test_an_attack_is_text_and_its_control_characters_are_replaced(attack: Document) -> None:
    text = "".join(read(attack).itertext()) + "".join(
        value for element in read(attack).iter() for value in element.attrib.values()
    )
    assert "</script><script>alert(1)</script> ]]> <img" in text
    assert set() == {"\x00", "\x07", "\x1b", "\ud800"} & set(text)


def test_a_long_exception_is_cut_in_a_message(attack: Document) -> None:
    messages = [each.get("message", "") for each in read(attack).iter()]
    assert 340 > max(map(len, messages))
