"""One hunt, and the file that keeps many: a line of JSON each, appended as soon as it is over.

A run that was broken off goes on where it stopped. What its last line lost is hunted again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct

Line = TypeVar("Line", bound=Struct)


class Trial(Struct, frozen=True, omit_defaults=True):
    """How one hunt has ended. Times are processor time of one core, the start left out."""

    mutant: str
    driver: str
    seed: int
    limit_s: float
    elapsed_s: float
    """Until the kill, or until the hunt was given up."""
    operations: int
    """Applied to the target until then, the one that broke a rule included."""
    rule: str = ""
    """The rule that the kill is named by; empty for a survivor."""
    kind: str = ""
    """The kind of the operation that broke it."""
    found: int = 0
    """Operations of the trace, up to that one."""
    shrunk: int = 0
    """Operations that were left of them; 0 where nobody shrank."""
    shrink_s: float = 0.0
    machine: str = ""

    @property
    def killed(self) -> bool:
        """Whether the bug was found."""
        return bool(self.rule)


class TrialsError(ValueError):
    """A file of trials cannot be read; the message names it, and the line."""


def read(path: Path) -> list[Trial]:
    """Read a file of trials. Of trials that were made twice, the last counts.

    Raises:
        TrialsError: a whole line is no trial.
        OSError: it cannot be read.
    """
    found = {(each.mutant, each.driver, each.seed): each for each in decoded(path, Trial)}
    return list(found.values())


def decoded(path: Path, kind: type[Line]) -> Iterator[Line]:
    """Yield the lines of a file, or none where there is no file. An end without a line break is
    what an interrupted run has left, and is dropped.

    Raises:
        TrialsError: a whole line is of another kind.
        OSError: it cannot be read.
    """
    whole, _, _rest = path.read_bytes().rpartition(b"\n") if path.exists() else (b"", b"", b"")
    for number, line in enumerate(whole.splitlines(), start=1):
        try:
            yield msgspec.json.decode(line, type=kind)
        except msgspec.DecodeError as error:
            raise TrialsError(f"{path}:{number}: no trial: {error}") from None


def mend(path: Path) -> None:
    """Cut off a last line that was not written to its end.

    Raises:
        OSError: it cannot be written.
    """
    if path.exists() and not (data := path.read_bytes()).endswith(b"\n"):
        path.write_bytes(data[: data.rfind(b"\n") + 1])


def append(path: Path, trial: Struct) -> None:
    """Add a trial to a file, in one write.

    Raises:
        OSError: it cannot be written.
    """
    with path.open("ab", buffering=0) as file:
        file.write(msgspec.json.encode(trial) + b"\n")


def settled(trials: Iterable[Trial], limit_s: float) -> set[tuple[str, str, int]]:
    """Name the trials that need not be made again for this limit: kills, and what survived as long
    a hunt."""
    return {
        (each.mutant, each.driver, each.seed)
        for each in trials
        if (each.killed and each.elapsed_s <= limit_s) or each.limit_s >= limit_s
    }
