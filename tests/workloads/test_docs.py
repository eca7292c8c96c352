"""docs/workloads.md against the code."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random
from typing import Any

from radixcheck.capabilities import Capabilities
from radixcheck.workloads import WORKLOADS, play
from radixcheck.workloads.mooncake import Row, load
from radixcheck.workloads.stream import PLAYS

DOCUMENT = Path(__file__).resolve().parents[2].joinpath("docs", "workloads.md").read_text("utf-8")


def block(language: str) -> str:
    """Return the first fenced block of `language`."""
    (text, *_) = re.findall(rf"^```{language}\n(.*?)^```$", DOCUMENT, re.MULTILINE | re.DOTALL)
    return str(text)


def rows(heading: str) -> list[str]:
    """Return the first cell of each row of the table below `heading`."""
    text = DOCUMENT.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(r"^\| `?([\w-]+)`? \|", text, re.MULTILINE)[1:]


def test_every_workload_is_told() -> None:
    assert list(WORKLOADS) == rows("The five that have a name")


def test_every_field_is_told() -> None:
    assert list(Row.__struct_fields__) == rows("Recorded ones")


def test_every_level_is_told() -> None:
    assert list(PLAYS) == rows("At each level")


def test_the_recording_that_is_shown_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "shown.jsonl"
    path.write_text(block("json"))
    assert [(0, 1, 2), (0, 1, 3), (0, 4)] == [row.hash_ids for row in load(path)]


def test_the_program_that_is_shown_plays_a_trace() -> None:
    names: dict[str, Any] = {}
    exec(block("python"), names)
    expected = play(WORKLOADS["chat"], Random(1), "tree", Capabilities(page_size=16))
    assert expected == names["operations"]
