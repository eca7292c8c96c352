"""The folder of a campaign: what survives it, however it ends.

::

    DIR/lock            held by the campaign that works here
        campaign.json   format, tallies, which seeds were used
        corpus/TARGET/  traces worth keeping, one file each, named by their content
        findings/       the smallest failing trace of each target and signature
        damaged/        files that could not be read, set aside

A file is written in one step, as soon as there is something to write. So there is nothing to save
when a campaign ends, and nothing to lose when it is killed. What cannot be written, since the disk
is full, is kept and tried again.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

from radixcheck.campaign.unit import Harvest
from radixcheck.corpus import NAME_DIGITS, SUFFIX
from radixcheck.known import Signature
from radixcheck.trace import Found, Trace, TraceError, dumps, loads, write_in_one_step

FORMAT = 1
"""The format that this release writes. Older ones are upgraded by `UPGRADES`, newer ones refused; a
field may be added without a new one."""

UPGRADES: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}
"""How a format becomes the next one."""

TALLIES, CORPUS, FINDINGS, DAMAGED = "campaign.json", "corpus", "findings", "damaged"


class StateError(Exception):
    """The folder cannot be used; the message names it, and says why."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class Tally(Struct):
    """What was done with one target, in all runs of a campaign."""

    operations: int = 0
    traces: int = 0
    elapsed_s: float = 0
    turns: dict[str, int] = field(default_factory=dict)
    """Tasks that each driver was given: their seeds are used up."""

    def add(self, harvest: Harvest) -> None:
        """Count what a task has brought."""
        self.operations += harvest.operations
        self.traces += harvest.traces
        self.elapsed_s += harvest.elapsed_s


class Tallies(Struct):
    """What is counted from run to run."""

    format: int = FORMAT
    runs: int = 0
    elapsed_s: float = 0
    targets: dict[str, Tally] = field(default_factory=dict)

    def of(self, spec: str) -> Tally:
        """Return the tally of a target."""
        return self.targets.setdefault(spec, Tally())


class State:
    """A folder, held by this process until it is closed.

    Raises:
        StateError: another campaign holds it, or a newer radixcheck has written it.
        OSError: it cannot be made or written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.notes: list[str] = []
        """What is to be said of the folder."""
        self._owed: dict[Path, bytes] = {}
        """What could not be written yet."""
        self.trouble: OSError | None = None
        """Why not."""
        folder.mkdir(parents=True, exist_ok=True)
        self._lock: int | None = _locked(folder)
        for left in folder.rglob("*.tmp"):  # whoever wrote it was killed
            left.unlink(missing_ok=True)
        try:
            self.tallies = self._read_tallies()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let others have the folder."""
        lock, self._lock = self._lock, None
        if lock is not None:
            os.close(lock)

    # ---- tallies -------------------------------------------------------------------------

    def save(self) -> None:
        """Write the tallies, and what is owed."""
        self._write(self.folder / TALLIES, msgspec.json.encode(self.tallies))
        for path, content in list(self._owed.items()):
            self._write(path, content)

    def _read_tallies(self) -> Tallies:
        path = self.folder / TALLIES
        try:
            told = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
            return msgspec.convert(_upgraded(told, path), Tallies)
        except FileNotFoundError:
            return Tallies()
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            self._set_aside(path, str(error))
            return Tallies()

    # ---- corpus --------------------------------------------------------------------------

    def corpus(self, spec: str) -> list[str]:
        """Name the traces that are kept for a target; what cannot be read is set aside."""
        shelf = self.folder / CORPUS / folder_name(spec)
        return [path.stem for path, _ in self._traces(shelf)]

    def read(self, spec: str, names: Iterable[str]) -> tuple[bytes, ...]:
        """Read traces that are kept, as far as they are still there."""
        return tuple(
            content for name in names if (content := self._content(self._kept(spec, name)))
        )

    def keep(self, spec: str, name: str, content: bytes) -> None:
        """Keep a trace file for a target."""
        self._write(self._kept(spec, name), content)

    def drop(self, spec: str, name: str) -> None:
        """Keep it no longer."""
        self._remove(self._kept(spec, name))

    def _kept(self, spec: str, name: str) -> Path:
        return self.folder / CORPUS / folder_name(spec) / f"{name}{SUFFIX}"

    # ---- findings ------------------------------------------------------------------------

    def findings(self) -> dict[str, Trace]:
        """Read the failing traces by the names of their files; what was found says of whom."""
        seen = self._traces(self.folder / FINDINGS)
        return {path.name: trace for path, trace in seen if trace.found is not None}

    def finding(self, name: str) -> Path:
        """Return where a finding lies."""
        return self.folder / FINDINGS / name

    def find(self, name: str, trace: Trace, found: Found) -> bool:
        """Save a failing trace, unless one is there that is as small; tell whether it was saved."""
        path = self.finding(name)
        with suppress(TraceError):
            if (there := self._content(path)) and _size(loads(there)) <= _size(trace):
                return False
        self._write(path, dumps(trace.replace(found=found)))
        return True

    def retire(self, name: str) -> None:
        """Remove what is no finding any more."""
        self._remove(self.finding(name))

    # ---- files ---------------------------------------------------------------------------

    def _traces(self, folder: Path) -> Iterator[tuple[Path, Trace]]:
        paths = sorted(folder.glob(f"*{SUFFIX}")) if folder.is_dir() else []
        for path in paths:
            try:
                yield path, loads(path.read_bytes(), str(path))
            except (TraceError, OSError) as error:
                self._set_aside(path, str(error))

    def _content(self, path: Path) -> bytes:
        """Return what a file holds, or should hold; nothing if it is not there."""
        if path in self._owed:
            return self._owed[path]
        try:
            return path.read_bytes()
        except OSError:
            return b""

    def _write(self, path: Path, content: bytes) -> None:
        try:
            write_in_one_step(path, content)
        except OSError as error:
            error.filename = str(path)
            self.trouble, self._owed[path] = error, content
        else:
            self._owed.pop(path, None)
            self.trouble = self.trouble if self._owed else None

    def _remove(self, path: Path) -> None:
        self._owed.pop(path, None)
        with suppress(OSError):
            path.unlink(missing_ok=True)

    def _set_aside(self, path: Path, why: str) -> None:
        aside = self.folder / DAMAGED / path.name
        try:
            aside.parent.mkdir(exist_ok=True)
            path.rename(aside)
        except OSError:
            self.notes.append(f"{path} cannot be read, and is left out: {why}")
        else:
            self.notes.append(f"{path} cannot be read, and now lies in {aside.parent}: {why}")


def finding_name(spec: str, signature: Signature) -> str:
    """Name the file of a finding: a target and a signature have one."""
    return f"{signature[0]}-{_digest(spec, *signature)}{SUFFIX}"


def folder_name(spec: str) -> str:
    """Name the folder of a target's corpus, so that people know it and no two are alike."""
    plain = "".join(each if each.isalnum() or each in "-_." else "-" for each in spec)
    return f"{plain[:40].strip('-.')}-{_digest(spec)}"


def _digest(*words: str) -> str:
    return sha256("\0".join(words).encode()).hexdigest()[:NAME_DIGITS]


def _size(trace: Trace) -> tuple[int, int]:
    return len(trace.operations), len(dumps(trace.replace(found=None)))


def _locked(folder: Path) -> int:
    """Lock the folder, and answer the descriptor that holds it as long as it is open."""
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        owner = os.pread(lock, 32, 0).decode(errors="replace").strip() or "unknown"
        os.close(lock)
        raise StateError(
            f"{folder}: another campaign, process {owner}, works in this folder",
            "wait for it, or give this one a folder of its own with --state",
        ) from None
    with suppress(OSError):  # a full disk keeps nobody from holding a lock
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
    return lock


def _upgraded(told: dict[str, Any], path: Path) -> dict[str, Any]:
    form = told.get("format", FORMAT)
    if isinstance(form, int) and form > FORMAT:
        raise StateError(
            f"{path}: format {form}, but this radixcheck reads 1 to {FORMAT}", "upgrade it"
        )
    while isinstance(form, int) and form in UPGRADES:
        told, form = UPGRADES[form](told), form + 1
    return {**told, "format": FORMAT}
