"""docs/recording.md: its programs run, and its tables are those of the code."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

import radixcheck

TEXT = (Path(__file__).parents[2] / "docs" / "recording.md").read_text(encoding="utf-8")
PROGRAMS = re.findall(r"^```python\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)


def test_the_programs_run_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for program in PROGRAMS:
        exec(program, names)
    assert len(PROGRAMS) == 3
    assert [path.name for path in tmp_path.iterdir()] == ["last-calls.jsonl"]


def test_every_argument_of_record_is_told() -> None:
    told = set(re.findall(r"`(\w+)[=`]", TEXT))
    assert set(inspect.signature(radixcheck.record).parameters) - {"cache"} <= told


def test_every_argument_of_watch_is_told() -> None:
    told = set(re.findall(r"`(\w+)[=`]", TEXT))
    assert set(inspect.signature(radixcheck.watch).parameters) - {"cache"} <= told
