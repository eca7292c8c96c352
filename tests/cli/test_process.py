"""The command as a shell runs it: exit codes, pipes, interrupts, encodings, start-up."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from radixcheck import trace

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
        command, cwd=folder, stdout=subprocess.PIPE, text=True, encoding="utf-8"
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
