"""A trace file that grows with what it records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from pathlib import Path

import msgspec

from radixcheck.live.calls import Manner
from radixcheck.live.naming import Naming, Words
from radixcheck.live.tape import Called
from radixcheck.live.writing import Writer
from radixcheck.operations import Audit
from radixcheck.trace import Trace, dumps

_encode = msgspec.json.Encoder().encode

HEADER = -1
"""The place of the header, before all operations."""

ROOM = 40
"""Blanks behind a line that may change: more than any number or word that is put in."""


class TraceFile:
    """Gets every call of a recording.

    Each write ends at the end of a line, so that what is there can be replayed whatever becomes of
    the process. A line that may still change has room behind it, and is written over.

    Raises:
        OSError: it cannot be written.
    """

    def __init__(self, path: Path, manner: Manner, words: Words) -> None:
        self._config, self._ends = manner.config, manner.level is not None
        self._writer, self._read = _writing(manner, words)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("wb")
        self._count, self._misuse = 0, False
        self._lines: dict[int, tuple[int, int]] = {}
        """By its place, where a line begins that may change, and how long it is."""
        self._append(HEADER, self._header(), room=ROOM)

    def write(self, calls: Iterable[Called]) -> None:
        """Append calls. Keys are written out: what a line refers to may be in any other."""
        if self._file.closed:
            return
        writer = self._writer
        told = chain.from_iterable(map(self._read, calls))
        operations = list(chain.from_iterable(map(writer.write, told)))
        still_open = writer.open_places()
        for place, operation in enumerate(operations, self._count):
            line = _encode(writer.changed.pop(place, operation))
            self._append(place, line, room=ROOM if place in still_open else 0)
        self._count += len(operations)
        self._put_in(still_open)
        self._file.flush()

    def close(self) -> None:
        """Write nothing more. What is left behind shows only in an audit, where slots are all that
        is known."""
        if self._ends and not self._file.closed:
            self._append(self._count, _encode(Audit()), room=0)
        self._file.close()

    def _header(self) -> bytes:
        return dumps(Trace((), self._config, misuse=self._misuse)).rstrip()

    def _append(self, place: int, line: bytes, *, room: int) -> None:
        length = len(line) + room
        if room:
            self._lines[place] = self._file.tell(), length
        self._file.write(line.ljust(length) + b"\n")

    def _put_in(self, still_open: set[int]) -> None:
        """Write over what is known better by now."""
        changed = {place: _encode(each) for place, each in self._writer.changed.items()}
        self._writer.changed.clear()
        if self._writer.misuse > self._misuse:
            self._misuse = True
            changed[HEADER] = self._header()
        for place, line in changed.items():
            begins, length = self._lines[place]
            self._file.seek(begins)
            self._file.write(line.ljust(length))
        self._file.seek(0, 2)
        for place in self._lines.keys() - still_open - {HEADER}:
            del self._lines[place]


def _writing(manner: Manner, words: Words) -> tuple[Writer, Callable[[Called], Sequence[Called]]]:
    """Return what writes the calls of an object, and what reads them before."""
    if manner.level is None:
        return Naming(words, manner.key_of), lambda call: (call,)
    return manner.level.writer(), manner.level.reader(words).read
