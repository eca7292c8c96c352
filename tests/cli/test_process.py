"""The command as a shell runs it: exit codes, pipes, interrupts, encodings, start-up."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from traceback import walk_stack
from types import FunctionType
from typing import TypeAlias

import pytest

from radixcheck import trace
from radixcheck.cli.inside import running
from radixcheck.operations import Insert, MatchPrefix

Save: TypeAlias = Callable[..., Path]
Process: TypeAlias = Callable[..., "subprocess.CompletedProcess[str]"]

HEAVY = ("radixcheck.loop", "radixcheck.checker", "radixcheck.registry", "numpy", "torch")


def test_a_pipe_gets_neither_escape_codes_nor_progress(process: Process) -> None:
    result = process("run", "radix-first-release", "--seed", "3", "--max-time", "3s", "-x")
    assert (1, False, False) == (
        result.returncode,
        "\x1b" in result.stdout + result.stderr,
        "operations/s" in result.stdout,
    )


def test_an_encoding_without_boxes_gets_ascii(process: Process) -> None:
    result = process(
        "run", "radix-first-release", "--seed", "3", "-x", PYTHONIOENCODING="ascii", PYTHONUTF8="0"
    )
    assert (1, True) == (result.returncode, result.stdout.isascii())
    assert "`- [1, " in result.stdout


def interrupted(folder: Path, *arguments: str, until: str) -> tuple[int, str]:
    """Start a command, send it Ctrl-C once it has printed `until`, return exit code and output."""
    command = [sys.executable, "-u", "-m", "radixcheck", *arguments]
    started = subprocess.Popen(
        command,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
    )
    assert started.stdout is not None
    seen = ""
    while until not in seen:
        seen += started.stdout.readline()
    time.sleep(0.3)
    started.send_signal(signal.SIGINT)
    rest, _ = started.communicate(timeout=60)
    return started.returncode, seen + rest


def test_an_interrupted_run_prints_what_it_has_seen(folder: Path) -> None:
    code, shown = interrupted(folder, "run", "./cache.py:Slow", "--max-time", "1h", until="seed")
    assert (130, True) == (code, ", interrupted" in shown)
    assert "required reached" in shown


def test_an_interrupted_run_keeps_its_findings(folder: Path) -> None:
    arguments = ("run", "./cache.py:Broken", "--seed", "3", "--max-time", "1h")
    code, shown = interrupted(folder, *arguments, until="reproduce:")
    (path,) = (folder / "radixcheck-findings").iterdir()
    found = trace.load(path).found
    assert (130, "phantom-prefix", True) == (code, found and found.rule, "1 violation in" in shown)


def test_an_interrupt_ends_a_run_of_several_targets(folder: Path) -> None:
    specs = ("./cache.py:Slow", "./cache.py:Honest")
    code, shown = interrupted(folder, "run", *specs, "--max-time", "1h", until="cache.py:Slow")
    assert (130, False) == (code, "── ./cache.py:Honest" in shown)


@pytest.mark.parametrize(
    ("arguments", "call"),
    [
        (("run", "./cache.py:Hangs", "--seed", "3"), "Ctrl-C came in trace 1: operation "),
        (("smoke", "./cache.py:Hangs"), "interrupted: a plain insert was running: Hangs.insert"),
        (
            ("replay", "hang.jsonl", "--target", "./cache.py:Hangs"),
            "Ctrl-C came in hang.jsonl: operation 2 of 2, insert([1]), was running: Hangs.insert",
        ),
        (
            ("shrink", "hang.jsonl", "--target", "./cache.py:Hangs"),
            "interrupted: operation 2 of 2, insert([1]), was running: Hangs.insert",
        ),
    ],
)
def test_an_interrupt_of_a_call_that_hangs_names_the_call(
    folder: Path, save: Save, arguments: tuple[str, ...], call: str
) -> None:
    save("hang.jsonl", MatchPrefix((1,)), Insert((1,)))
    code, shown = interrupted(folder, *arguments, until="hangs")
    assert (130, True) == (code, call in " ".join(shown.split()))
    assert "Hangs.insert, cache.py:" in " ".join(shown.split())


def test_an_interrupt_of_our_own_code_names_no_call() -> None:
    def ours() -> str:
        return running(walk_stack(sys._getframe()))

    assert "" == FunctionType(ours.__code__, {**globals(), "__name__": "radixcheck.checker"})()


def test_a_reader_that_leaves_ends_the_command_as_a_shell_expects(folder: Path) -> None:
    command = f"{sys.executable} -m radixcheck demo | true; exit ${{PIPESTATUS[0]}}"
    result = subprocess.run(["bash", "-c", command], cwd=folder, capture_output=True, check=False)
    assert (128 + signal.SIGPIPE, b"") == (result.returncode, result.stderr)


def test_help_loads_none_of_what_a_run_needs() -> None:
    program = (
        "import sys\n"
        "from radixcheck.cli.app import app\n"
        "try:\n    app(['--help'])\n"
        "except SystemExit:\n    pass\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert "[]" == result.stdout.splitlines()[-1]


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="nothing is read-only for root")
def test_a_read_only_folder_is_told_before_the_run(process: Process, folder: Path) -> None:
    folder.chmod(0o500)
    try:
        result = process("run", "radix", "--max-ops", "10")
    finally:
        folder.chmod(0o700)
    assert (2, True) == (result.returncode, "not writable" in result.stderr)
