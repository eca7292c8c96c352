"""SARIF, against the schema of its standard."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastjsonschema
import msgspec
import pytest
from msgspec import structs

from radixcheck.report import sarif
from radixcheck.report.document import Document, FindingPart

SCHEMA = Path(__file__).parent / "data/sarif-2.1.0.json"


@pytest.fixture(scope="module")
def valid() -> Callable[[Document], Any]:
    """Reads what is written, once the schema has found it valid."""
    checked = fastjsonschema.compile(msgspec.json.decode(SCHEMA.read_bytes()), use_default=False)
    return lambda document: checked(msgspec.json.decode(sarif.dumps(document)))


Valid = Callable[[Document], Any]


def result(log: Any) -> Any:
    """Return the only result of a log."""
    (one,) = log["runs"][0]["results"]
    return one


def test_a_clean_run_is_valid_and_has_no_results(
    valid: Valid, make: Callable[..., Document]
) -> None:
    assert [] == valid(make())["runs"][0]["results"]


def test_a_finding_is_a_result_at_its_trace_file(
    valid: Valid, make: Callable[..., Document], found: FindingPart
) -> None:
    one = result(valid(make([found])))
    place = one["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert ("phantom-prefix", "error", "found/1.jsonl") == (one["ruleId"], one["level"], place)


def test_the_rule_is_told_with_help(
    valid: Valid, make: Callable[..., Document], found: FindingPart
) -> None:
    (rule,) = valid(make([found]))["runs"][0]["tool"]["driver"]["rules"]
    expected = "A match is longer than any stored prefix: another context's KV can be served."
    assert expected == rule["fullDescription"]["text"]
    assert rule["help"]["text"].startswith(expected)


def test_a_finding_that_was_not_saved_is_at_the_source_of_its_target(
    valid: Valid, make: Callable[..., Document], found: FindingPart
) -> None:
    unsaved = make([structs.replace(found, path="")], spec="./my cache.py:Cache?a=1")
    place = result(valid(unsaved))["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert "my%20cache.py" == place


def test_a_finding_without_any_file_has_no_place_in_one(
    valid: Valid, make: Callable[..., Document], found: FindingPart
) -> None:
    one = result(valid(make([structs.replace(found, path="")])))
    assert ["logicalLocations"] == list(one["locations"][0])


def test_a_fingerprint_outlives_seeds_and_keys(
    valid: Valid, make: Callable[..., Document], found: FindingPart
) -> None:
    other = structs.replace(found, seed=99, program="else", expected="5 tokens", actual="6 tokens")
    first, second = (result(valid(make([each])))["partialFingerprints"] for each in (found, other))
    assert first == second


def test_a_flaky_finding_is_a_note(
    valid: Valid, make: Callable[..., Document], found: FindingPart
) -> None:
    assert "note" == result(valid(make([structs.replace(found, flaky=True)])))["level"]


def test_what_is_not_new_is_a_note_where_only_news_count(
    valid: Valid, make: Callable[..., Document], found: FindingPart
) -> None:
    one = result(valid(make([structs.replace(found, new=False, excused=True)])))
    assert ("note", "unchanged") == (one["level"], one["baselineState"])


@pytest.mark.parametrize(("new", "state"), [(True, "new"), (False, "unchanged")])
def test_what_the_baseline_says_is_told(
    valid: Valid, make: Callable[..., Document], found: FindingPart, new: bool, state: str
) -> None:
    assert state == result(valid(make([structs.replace(found, new=new)])))["baselineState"]


def test_an_attack_is_valid_and_makes_no_link(valid: Valid, attack: Document) -> None:
    text = result(valid(attack))["message"]["text"]
    assert "\\[c\\](javascript" in text
