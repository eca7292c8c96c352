"""docs/pools.md against the code: its tables are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

from radixcheck.capabilities import PoolCapabilities, choices_of
from radixcheck.levels import POOL
from radixcheck.pools import SITUATIONS
from radixcheck.rules import RULES

TEXT = (Path(__file__).parents[2] / "docs" / "pools.md").read_text(encoding="utf-8")


def table(heading: str) -> dict[str, list[str]]:
    """Return the rows of the first table below a heading, by the name in their first cell."""
    _, _, rest = TEXT.partition(f"\n## {heading}\n")
    lines = [line for line in rest.partition("\n## ")[0].splitlines() if line.startswith("| `")]
    cells = [re.split(r" *\| *", line.strip("| ")) for line in lines]
    return {first.strip("`"): rest for first, *rest in cells}


def test_every_operation_of_pools_is_told() -> None:
    assert POOL.kinds == set(table("What a pool is asked"))


def test_every_rule_of_pools_is_told_with_its_severity_and_statement() -> None:
    expected = {
        name: [rule.severity, rule.statement]
        for name, rule in RULES.items()
        if rule.level == "pool"
    }
    assert expected == table("Rules")


def test_every_situation_of_pools_is_told() -> None:
    assert {name: [each.statement] for name, each in SITUATIONS.items()} == table("Situations")


def test_every_capability_of_pools_is_told_with_its_default_and_its_choices() -> None:
    told = table("Capabilities")
    can = PoolCapabilities(capacity=1)
    assert PoolCapabilities.__struct_fields__ == tuple(told)
    named = {name for name in told if told[name][0] == f"`{getattr(can, name)}`"}
    assert {*told} - {"capacity"} == named
    words = {name: set(re.findall(r"`([^`]+)`", " ".join(row))) for name, row in told.items()}
    choices = choices_of(PoolCapabilities)
    assert [] == [name for name in choices if name != "ordered" if not _told(choices, words, name)]


def _told(choices: dict[str, tuple[object, ...]], words: dict[str, set[str]], name: str) -> bool:
    return bool in map(type, choices[name]) or set(choices[name]) <= words[name]
