"""docs/recording.md: its programs run, and its tables are those of the code."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import radixcheck
from radixcheck.trace import load
from radixcheck.verdict import check

TEXT = (Path(__file__).parents[2] / "docs" / "recording.md").read_text(encoding="utf-8")
PROGRAMS = re.findall(r"^```python\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)


def test_the_programs_run_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for program in PROGRAMS:
        exec(program, names)
    assert len(PROGRAMS) == 4
    assert {path.name for path in tmp_path.iterdir()} == {"last-calls.jsonl", "leak.jsonl"}
    loses_one: Any = names["LosesOne"]
    verdict = check(lambda config, clock: loses_one(config["capacity"]), load(Path("leak.jsonl")))
    assert verdict.violation is not None
    assert verdict.violation.rule == "leaked-slot"


def test_every_argument_of_record_is_told() -> None:
    told = set(re.findall(r"`(\w+)[=`]", TEXT))
    assert set(inspect.signature(radixcheck.record).parameters) - {"cache"} <= told


def test_every_argument_of_watch_is_told() -> None:
    told = set(re.findall(r"`(\w+)[=`]", TEXT))
    assert set(inspect.signature(radixcheck.watch).parameters) - {"cache"} <= told
