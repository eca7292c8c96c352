"""What the tests of the command line share: commands in a folder of their own, small targets."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest
from typer.testing import CliRunner, Result

from radixcheck import trace
from radixcheck.cli.app import app
from radixcheck.operations import AnyOperation
from radixcheck.trace import Config, Found, Trace

Call: TypeAlias = Callable[..., Result]
Process: TypeAlias = Callable[..., "subprocess.CompletedProcess[str]"]
Save: TypeAlias = Callable[..., Path]

TARGETS = '''
import os
import time

from radixcheck.capabilities import Capabilities
from radixcheck.protocol import Match, Refused
from radixcheck.targets.first_release import RadixFirstRelease
from radixcheck.targets.radix import Radix
from radixcheck.targets.radix_paged import RadixPaged


class Honest(Radix):
    pass


class Broken(RadixFirstRelease):
    pass


class Timed(Radix):
    def __init__(self):
        super().__init__()
        self.capabilities = Capabilities(protected_size="present")


class Raises(Radix):
    def match_prefix(self, tokens, namespace=()):
        raise ValueError("[red]bad[/red] \\x1b[31m")


class CannotOpen(Radix):
    def __init__(self):
        raise RuntimeError("no [bold]GPU[/bold]")


class RaisesDeep(Radix):
    def match_prefix(self, tokens, namespace=()):
        return self.look(tokens)

    def look(self, tokens):
        raise KeyError("deep")


class LeavesAtOnce(Radix):
    def __init__(self):
        raise SystemExit(0)


class CannotRead(Radix):
    def __init__(self):
        __import__("json").loads("{")


class Hangs(Radix):
    def insert(self, tokens, slots):
        print("hangs", flush=True)
        while True:
            pass


class Tiny(Radix):
    def insert(self, tokens, slots):
        if len(tokens) > 2:
            raise Refused("full")
        return super().insert(tokens, slots)


class Leaves(Radix):
    def match_prefix(self, tokens, namespace=()):
        raise SystemExit(0)


class Once(Radix):
    """Breaks a rule in its first life only."""

    lives = 0

    def match_prefix(self, tokens, namespace=()):
        found = super().match_prefix(tokens)
        if type(self).lives == 0 and found.length:
            type(self).lives = 1
            return Match(found.length - 1, found.slots[:-1], found.handle)
        return found


class Slow(Radix):
    def insert(self, *arguments, **keywords):
        time.sleep(0.01)
        return super().insert(*arguments, **keywords)


class BadAnswers(Radix):
    def match_prefix(self, tokens, namespace=()):
        return None
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with ``cache.py``, and an environment without settings."""
    for name in [name for name in os.environ if name.startswith("RADIXCHECK_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cache.py").write_text(TARGETS)
    return tmp_path


@pytest.fixture
def call(folder: Path) -> Call:
    """Run a command in this process, in `folder`, 80 columns wide."""

    def run(*arguments: str, **environment: str) -> Result:
        return CliRunner().invoke(app, arguments, env={"COLUMNS": "80", **environment})

    return run


@pytest.fixture
def process(folder: Path) -> Process:
    """Run a command in a process of its own, its output in a pipe."""

    def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "radixcheck", *arguments],
            cwd=folder,
            env=os.environ | environment,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=120,
            check=False,
        )

    return run


@pytest.fixture
def save(folder: Path) -> Save:
    """Write a trace file into `folder`."""

    def write(
        name: str,
        *operations: AnyOperation,
        config: Config | None = None,
        found: Found | None = None,
    ) -> Path:
        path = folder / name
        trace.save(Trace(operations, config or {}, found=found), path)
        return path

    return write
