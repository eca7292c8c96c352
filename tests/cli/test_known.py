"""``run --known-failures``: what a project knows of is counted, and not red."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest
from typer.testing import Result

Call: TypeAlias = Callable[..., Result]

RUN = ("run", "radix-first-release", "--seed", "1", "--max-ops", "15000", "--known-failures")
KNOWN = """
[[failure]]
rule = "{0}"
reason = "the bug of 2024"
clean_runs = 2
"""


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a file to write known failures into, in a folder of the test's own."""
    monkeypatch.chdir(tmp_path)
    return tmp_path / "known.toml"


def test_a_known_failure_is_counted_and_not_red(call: Call, write: Path) -> None:
    write.write_text(KNOWN.format("phantom-prefix"))
    result = call(*RUN, str(write))
    assert 0 == result.exit_code
    assert "no new violation, " in result.output
    assert "the bug of 2024" in result.output


def test_a_run_says_how_much_known_failures_kept_it_from_judging(call: Call, write: Path) -> None:
    write.write_text(KNOWN.format("phantom-prefix"))
    (line,) = [each for each in call(*RUN, str(write)).output.splitlines() if "behind" in each]
    number = line.removeprefix("known  ").removesuffix(" operations behind one were not judged")
    assert int(number.replace(",", "")) > 0


def test_what_is_not_known_stays_red(call: Call, write: Path) -> None:
    write.write_text(KNOWN.format("foreign-slot"))
    assert 1 == call(*RUN, str(write)).exit_code


def test_an_entry_is_to_be_removed_when_it_stays_clean(call: Call, write: Path) -> None:
    write.write_text(KNOWN.format("double-free"))
    run = ("run", "radix", "--seed", "1", "--max-ops", "100", "--known-failures", str(write))
    said = [call(*run).output for _ in range(2)]
    assert "double-free did not occur (1 of 2 clean runs)" in said[0]
    assert "remove me: double-free did not occur in 2 runs" in said[1]


def test_a_file_that_is_not_understood_is_the_user_s_mistake(call: Call, write: Path) -> None:
    write.write_text(KNOWN.format("phantom"))
    result = call(*RUN, str(write))
    assert 2 == result.exit_code
    assert "no rule 'phantom': phantom-prefix" in result.output
