"""Compilers, cmake and ninja as processes: what they are asked, and what becomes of a complaint."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

PAGE = "docs/writing-a-native-target.md has one that builds"

MORE_SOURCES = (
    "are there more sources? give `radixcheck native build` a folder whose CMakeLists.txt names all"
)


class BuildError(ImportError):
    """There is nothing to build with, or it does not build. The message ends with what was said."""

    def __init__(self, message: str, hint: str = PAGE) -> None:
        super().__init__(message)
        self.hint = hint
        """What to do about it."""


def run(words: Sequence[str], trouble: str) -> str:
    """Run a tool, and return what it prints.

    Raises:
        BuildError: it fails. The message is `trouble`, and what was said.
    """
    ended = subprocess.run(words, capture_output=True, text=True, errors="replace", check=False)
    if ended.returncode:
        said = (ended.stderr or ended.stdout).strip()
        raise BuildError(f"{trouble}: {shlex.join(words)}\n{said}")
    return ended.stdout


def prerequisites(rule: str) -> list[Path]:
    """List the files behind the colon of a rule, as a compiler writes it for make: a source and all
    that it includes."""
    _, _, files = rule.replace("\\\n", " ").partition(": ")
    return [Path(file.replace("$$", "$")) for file in shlex.split(files)]
