"""Flags beat the environment, the environment beats pyproject.toml, and mistakes there are told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest
from typer.testing import Result

from radixcheck import loop
from radixcheck.cli.settings import SettingsError, read_settings, settings_for
from radixcheck.hosts import Host
from radixcheck.loop import Report

Call: TypeAlias = Callable[..., Result]


def write(folder: Path, *lines: str) -> Path:
    """Write ``[tool.radixcheck]`` with `lines` into a pyproject.toml."""
    path = folder / "pyproject.toml"
    path.write_text("\n".join(["[tool.radixcheck]", *lines]))
    return path


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch, call: Call) -> Callable[..., dict[str, object]]:
    """Run without running, and return what `loop.run` was called with."""
    seen: dict[str, object] = {}

    def run(host: Host, **given: object) -> Report:
        seen.update(given)
        return Report("radix", 1, host.arenas())

    def plan(*arguments: str, **environment: str) -> dict[str, object]:
        monkeypatch.setattr(loop, "run", run)
        result = call(*arguments, **environment)
        assert result.exit_code == 5, result.output
        return seen

    return plan


Planned: TypeAlias = Callable[..., dict[str, object]]


def test_pyproject_sets_what_nothing_else_does(planned: Planned, folder: Path) -> None:
    write(folder, "seed = 11", 'max-time = "90s"', "max-ops = 7", "misuse = true", "exitfirst=true")
    plan = planned("run", "radix")
    assert (11, loop.Budget(90, 7, True), True) == (plan["seed"], plan["budget"], plan["misuse"])


def test_the_environment_beats_pyproject(planned: Planned, folder: Path) -> None:
    write(folder, "seed = 11", 'max-time = "90s"')
    plan = planned("run", "radix", RADIXCHECK_SEED="12", RADIXCHECK_MAX_TIME="1m")
    assert (12, loop.Budget(60)) == (plan["seed"], plan["budget"])


def test_flags_beat_the_environment(planned: Planned) -> None:
    arguments = ("run", "radix", "--seed", "13", "--max-time", "2s")
    plan = planned(*arguments, RADIXCHECK_SEED="12", RADIXCHECK_MAX_TIME="1m")
    assert (13, loop.Budget(2)) == (plan["seed"], plan["budget"])


def test_a_profile_beats_a_time_from_further_away(planned: Planned, folder: Path) -> None:
    write(folder, 'max-time = "8h"')
    assert loop.Budget(3) == planned("run", "radix", "--profile", "smoke")["budget"]


def test_a_time_beats_a_profile_from_further_away(planned: Planned, folder: Path) -> None:
    write(folder, 'profile = "nightly"')
    assert loop.Budget(5) == planned("run", "radix", RADIXCHECK_MAX_TIME="5")["budget"]


def test_smoke_stays_short_whatever_the_project_says(planned: Planned, folder: Path) -> None:
    write(folder, 'max-time = "8h"', "seed = 11")
    plan = planned("smoke", "radix")
    assert (11, loop.Budget(2)) == (plan["seed"], plan["budget"])


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("sed = 1", "unknown key 'sed' in [tool.radixcheck]"),
        ("max_time = 1", "unknown key 'max_time' in [tool.radixcheck]"),
        ("seed = true", "seed = True"),
        ('seed = "1"', "seed = '1'"),
        ('max-time = "soon"', "max-time = 'soon'"),
        ("max-ops = 0", "max-ops = 0"),
        ('profile = "weekly"', "profile = 'weekly'"),
        ('findings-dir = ""', "findings-dir = ''"),
        ("misuse = 1", "misuse = 1"),
    ],
)
def test_a_mistake_in_pyproject_is_told_with_key_and_choices(
    call: Call, folder: Path, line: str, words: str
) -> None:
    write(folder, line)
    result = call("run", "radix", "--max-ops", "1")
    assert (2, True) == (result.exit_code, words in result.stderr.replace("\n", " "))


def test_the_nearest_key_is_proposed(folder: Path) -> None:
    with pytest.raises(SettingsError) as raised:
        read_settings(write(folder, "sed = 1"))
    assert raised.value.hint.startswith("nearest: seed; known: seed, max-time")


@pytest.mark.parametrize("content", ["[tool", "[tool]\nradixcheck = 3", "tool = 3"])
def test_a_damaged_file_is_an_error_or_says_nothing(folder: Path, content: str) -> None:
    path = folder / "pyproject.toml"
    path.write_text(content)
    if content == "tool = 3":
        assert {} == read_settings(path)
    else:
        with pytest.raises(SettingsError):
            read_settings(path)


def test_commands_without_settings_read_none(folder: Path) -> None:
    write(folder, "sed = 1")
    assert {} == settings_for("targets")


def test_another_tools_table_is_not_ours(folder: Path) -> None:
    (folder / "pyproject.toml").write_text("[tool.ruff]\nline-length = 100\n")
    assert {} == settings_for("run")
