"""docs/requests.md against the code: its tables are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

from radixcheck.levels import LEVELS
from radixcheck.protocol import RequestCache
from radixcheck.requests import SITUATIONS
from radixcheck.rules import RULES

TEXT = (Path(__file__).parents[2] / "docs" / "requests.md").read_text(encoding="utf-8")


def table(heading: str) -> dict[str, list[str]]:
    """Return the rows of the first table below a heading, by the name in their first cell."""
    _, _, rest = TEXT.partition(f"# {heading}\n")
    lines = [line for line in rest.partition("\n## ")[0].splitlines() if line.startswith("| `")]
    cells = [re.split(r" *\| *", line.strip("| ")) for line in lines]
    return {first.strip("`"): rest for first, *rest in cells}


def test_every_operation_of_requests_is_told() -> None:
    assert LEVELS["requests"].kinds == set(table("What a request does"))


def test_every_rule_of_requests_is_told_with_its_severity_and_statement() -> None:
    expected = {
        name: [rule.severity, rule.statement]
        for name, rule in RULES.items()
        if rule.level == "requests"
    }
    assert expected == table("Rules")


def test_every_situation_of_requests_is_told() -> None:
    assert {name: [each.statement] for name, each in SITUATIONS.items()} == table("Situations")


def test_every_method_of_a_cache_of_requests_is_told() -> None:
    told = set(re.findall(r"(\w+)\(", " ".join(table("What it answers"))))
    methods = {name for name, each in vars(RequestCache).items() if callable(each)}
    assert {name for name in methods if name[0] != "_"} | {"retract"} == told
