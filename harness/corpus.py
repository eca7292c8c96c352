"""A corpus: a folder of trace files, such as the regressions that come along with radixcheck.

One damaged file does not hide the others: it is listed with what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from radixcheck.trace import Trace, TraceError, dumps, loads

SUFFIX = ".jsonl"
NAME_DIGITS = 12
"""Hexadecimal digits of a name: a million traces share none, but for bad luck of 1 in 500."""


class Entry(Struct, frozen=True):
    """One trace of a corpus."""

    id: str
    """Its path below the folder, without the suffix: for a regression, the id of the bug."""
    trace: Trace

    @property
    def name(self) -> str:
        """The name that the content gives it, whatever the file is called."""
        return content_name(self.trace)

    @property
    def rule(self) -> str:
        """The rule that it broke when it was saved, or nothing."""
        return self.trace.found.rule if self.trace.found else ""

    @property
    def source(self) -> str:
        """The public bug that it stands for, or nothing."""
        return self.trace.found.source if self.trace.found else ""


class Corpus(NamedTuple):
    """What was found in a folder."""

    entries: tuple[Entry, ...]
    """In the order of their ids."""
    damaged: tuple[TraceError, ...]
    """One for each file that is no trace; the message names the file, the line and the field."""


def packaged(folder: str = "regressions") -> Corpus:
    """Read a folder of the corpus that comes along with radixcheck."""
    return load(files("radixcheck.corpora") / folder)


def load(folder: Path | Traversable) -> Corpus:
    """Read every trace file in `folder` and below.

    Raises:
        OSError: there is no such folder.
    """
    entries: list[Entry] = []
    damaged: list[TraceError] = []
    for id, file in _files(folder):
        try:
            entries.append(Entry(id, _read(file)))
        except TraceError as error:
            damaged.append(error)
    return Corpus(tuple(entries), tuple(damaged))


def content_name(trace: Trace) -> str:
    """Name `trace` by its content: two that run alike have one name, whatever they have found."""
    config = dict(sorted(trace.config.items()))
    bare = trace.replace(config=config, found=None, note="")
    return sha256(dumps(bare)).hexdigest()[:NAME_DIGITS]


def without_duplicates(entries: Iterable[Entry]) -> list[Entry]:
    """Keep the first of the entries that have the same content."""
    first: dict[str, Entry] = {}
    for entry in entries:
        first.setdefault(entry.name, entry)
    return list(first.values())


def _files(folder: Path | Traversable, above: str = "") -> Iterator[tuple[str, Path | Traversable]]:
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        if file.is_dir():
            yield from _files(file, f"{above}{file.name}/")
        elif file.name.endswith(SUFFIX):
            yield above + file.name.removesuffix(SUFFIX), file


def _read(file: Path | Traversable) -> Trace:
    try:
        return loads(file.read_bytes(), str(file))
    except OSError as error:
        raise TraceError(f"{file}: {error.strerror or error}") from None
