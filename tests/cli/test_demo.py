"""``radixcheck demo`` and ``targets``: what a newcomer sees first."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pytest
from typer.testing import Result

from radixcheck.cli import demo

Call: TypeAlias = Callable[..., Result]


def test_the_demo_is_green_then_red_then_points_the_way(call: Call) -> None:
    result = call("demo")
    green = result.stdout.index("✔ radix: no violation")
    shrunk = result.stdout.index("with seed 11. 3 operations, shrunk from")
    red = result.stdout.index("✘ radix-first-release: 1 violation")
    way = result.stdout.index("radixcheck smoke ./my_cache.py:MyCache")
    assert (0, True) == (result.exit_code, green < shrunk < red < way)


def test_the_demo_reaches_every_required_situation(call: Call) -> None:
    (line,) = (
        line
        for line in call("demo").stdout.partition("2. a cache")[0].splitlines()
        if "required reached" in line
    )
    _, reached, _, wanted, *_ = line.split()
    assert reached == wanted


def test_an_unexpected_verdict_of_the_demo_is_our_failure(
    monkeypatch: pytest.MonkeyPatch, call: Call
) -> None:
    monkeypatch.setattr(demo, "GREEN", "radix-first-release")
    result = call("demo", "-q")
    assert (3, True) == (result.exit_code, "Please report it." in result.stdout)


def test_targets_lists_what_is_registered_and_what_it_sweeps(call: Call) -> None:
    result = call("targets")
    rows = [line for line in result.stdout.splitlines() if line.startswith(("radix ", "radix-"))]
    names = ["radix", "radix-cpp", "radix-first-release", "radix-paged", "radix-torch"]
    assert (0, names) == (
        result.exit_code,
        [row.split()[0] for row in rows],
    )
    assert "35: page_size 1, 2, 3, 4, 16; eviction lru" in result.stdout


def test_the_version_is_that_of_the_package(call: Call) -> None:
    assert "radixcheck 0.1.0\n" == call("--version").stdout


def test_help_names_every_command_and_the_exit_codes(call: Call) -> None:
    shown = call("--help").stdout
    commands = ("demo", "smoke", "run", "replay", "shrink", "targets", "corpus")
    assert ([], True) == ([name for name in commands if name not in shown], "Exit codes:" in shown)
