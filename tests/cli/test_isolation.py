"""``--isolate`` and its limits, as a person types them and as a project sets them."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest
from typer.testing import Result

from radixcheck.cli import hosting
from radixcheck.cli.hosting import Isolation, hosts, isolation
from radixcheck.cli.options import size
from radixcheck.hosts import Here, Host, Isolated, Limits
from radixcheck.operations import Insert, MatchPrefix
from radixcheck.registry import Clash

pytestmark = pytest.mark.slow

Call: TypeAlias = Callable[..., Result]
Save: TypeAlias = Callable[..., Path]

FATAL = "radixcheck.targets.fatal"


# ---- which host, and with which limits -----------------------------------------------------


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, call: Call) -> Callable[..., Isolation]:
    """Run `smoke` without running it, and return what it makes of its options."""
    seen: list[Isolation] = []

    class Enough(Exception):
        pass

    def make(spec: str, isolation: Isolation) -> Host:
        seen.append(isolation)
        raise Enough

    def run(*arguments: str, **environment: str) -> Isolation:
        monkeypatch.setattr(hosting, "make_host", make)
        call("run", "radix", *arguments, **environment)
        return seen[-1]

    return run


Made: TypeAlias = Callable[..., Isolation]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), Isolation(None, Limits(10, 2 * 2**30))),
        (("--isolate",), Isolation(True, Limits(10, 2 * 2**30))),
        (("--no-isolate",), Isolation(False, Limits(10, 2 * 2**30))),
        (("--op-timeout", "1.5s"), Isolation(None, Limits(1.5, 2 * 2**30))),
        (("--memory-limit", "512M"), Isolation(None, Limits(10, 512 * 2**20))),
    ],
)
def test_flags_say_how_a_target_is_isolated(
    made: Made, arguments: tuple[str, ...], expected: Isolation
) -> None:
    assert expected == made(*arguments)


def test_flags_beat_the_environment_which_beats_the_project(made: Made, folder: Path) -> None:
    settings = 'isolate = true\nop-timeout = "3s"\nmemory-limit = "1G"\n'
    (folder / "pyproject.toml").write_text(f"[tool.radixcheck]\n{settings}")
    environment = {"RADIXCHECK_OP_TIMEOUT": "4s", "RADIXCHECK_MEMORY_LIMIT": "3G"}
    expected = Isolation(True, Limits(4, 5 * 2**30))
    assert expected == made("--memory-limit", "5G", **environment)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("2G", 2**31), ("512M", 2**29), ("1.5k", 1536), ("4096", 4096), ("1 GiB", 2**30)],
)
def test_an_amount_of_memory_is_read(text: str, expected: int) -> None:
    assert expected == size(text)


@pytest.mark.parametrize("text", ["", "0", "lots", "-1G", "2X"])
def test_what_is_no_amount_of_memory_is_a_usage_error(call: Call, text: str) -> None:
    result = call("run", "radix", "--memory-limit", text)
    assert (2, True) == (result.exit_code, "write 2G or" in result.output)


@pytest.mark.parametrize(
    ("spec", "isolate", "expected"),
    [
        ("radix", None, Here),
        ("radix", True, Isolated),
        ("requests:radix-paged", None, Here),
    ],
)
def test_only_native_targets_are_isolated_unless_asked(
    spec: str, isolate: bool | None, expected: type[Host]
) -> None:
    with hosts(isolation(isolate, 10, 2**31)) as at_hand:
        assert type(at_hand.of(spec)) is expected
        assert at_hand.of(spec) is at_hand.of(spec)


def test_targets_whose_modules_have_one_name_live_apart_unless_that_is_forbidden(
    tmp_path: Path,
) -> None:
    for folder in ("old", "new"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "inner_of_two.py").write_text(
            "from radixcheck.targets.radix import Radix"
        )
        (tmp_path / folder / "cache.py").write_text("from inner_of_two import Radix as Cache")
    specs = [f"{tmp_path / folder / 'cache.py'}:Cache" for folder in ("old", "new")]
    with hosts(Isolation()) as at_hand:
        assert [Here, Isolated] == [type(at_hand.of(spec)) for spec in specs]
    with hosts(Isolation(isolate=False)) as at_hand, pytest.raises(Clash):
        at_hand.of(specs[1])


# ---- what is seen --------------------------------------------------------------------------


def test_a_crash_is_shown_and_replayed(call: Call, folder: Path) -> None:
    found = call("run", f"{FATAL}:CutsWildly", "--isolate", "--seed", "1", "-x")
    assert (1, True) == (found.exit_code, "── finding 1: crash (failure)" in found.stdout)
    assert "  # died of SIGSEGV" in found.stdout
    (path,) = (folder / "radixcheck-findings").iterdir()
    again = call("replay", str(path), "--isolate")
    assert (1, True) == (again.exit_code, "crash at insert" in again.stdout)


def test_a_hang_is_shrunk_by_its_own_command(call: Call, save: Save) -> None:
    save("a.jsonl", Insert((7,)), Insert((1, 2, 3)), MatchPrefix((1, 4)))
    arguments = ("a.jsonl", "-t", f"{FATAL}:NeverReturns", "--isolate", "--op-timeout", "1s")
    result = call("shrink", *arguments)
    assert (1, True) == (result.exit_code, "2 operations, shrunk from 3." in result.stdout)
    assert "gave no answer within 1 s" in result.stdout


def test_smoke_tells_which_plain_claim_is_fatal(call: Call) -> None:
    arguments = ("--isolate", "--op-timeout", "1s", "--max-ops", "5", "--seed", "1")
    result = call("smoke", f"{FATAL}:NeverReturns", *arguments)
    assert 1 == result.exit_code
    seen = result.stdout.partition("FAILED  ")[2].splitlines()
    assert "match ends where the key parts" == seen[0]
    assert "        its process gave no answer within 1 s" == seen[1]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("run", "--seed", "1"), "Ctrl-C came in trace 1: operation 2 of 26, match_prefix("),
        (("replay", "a.jsonl", "-t"), "Ctrl-C came in a.jsonl: operation 2 of 2, match_prefix("),
        (("shrink", "a.jsonl", "-t"), "interrupted: operation 2 of 2, match_prefix([1, 4]), was"),
    ],
)
def test_ctrl_c_says_which_operation_was_running_in_the_worker(
    folder: Path, save: Save, arguments: tuple[str, ...], expected: str
) -> None:
    save("a.jsonl", Insert((1, 2, 3)), MatchPrefix((1, 4)))
    command = [sys.executable, "-m", "radixcheck", *arguments, f"{FATAL}:NeverReturns", "--isolate"]
    started = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    time.sleep(3)
    started.send_signal(signal.SIGINT)
    shown, _ = started.communicate(timeout=60)
    assert (130, True) == (started.returncode, expected in " ".join(shown.split())), shown
    assert "was running in its worker" in " ".join(shown.split())
