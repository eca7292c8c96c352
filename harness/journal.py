"""What a process that judges is at, noted before each call, where whoever watches it can read it.

Two numbers in memory that both have mapped. Nothing else is exchanged while a trace runs, and what
they say outlives the process::

    place   the operation of the trace that runs, or `OUTSIDE`, or `AFTER`
    calls   how many calls have begun: as long as it grows, nothing hangs

Nobody watches a process that judges its own target. Then they are two numbers in a list.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

from radixcheck.clock import Clock, Method

PLACE, CALLS = 0, 1
"""Where in `Cells` each number stands."""

OUTSIDE = -1
"""The place while no operation has run: a target is opened."""

AFTER = -2
"""The place when the last operation has run, and the target is let go."""

BYTES = 16

Cells: TypeAlias = "list[int] | memoryview[int]"


class Stopped(BaseException):
    """A trace was to be run up to this call. No target can catch it: it is raised outside of it."""

    def __init__(self, reading: float) -> None:
        super().__init__()
        self.reading = reading
        """What the clock shows during the call."""


class Journal:
    """The journal of a process. There is one: `JOURNAL`."""

    def __init__(self) -> None:
        self.cells: Cells = [OUTSIDE, 0]
        self.shared = False
        self._last = 0

    def share(self, descriptor: int) -> None:
        """From now on write into the first `BYTES` of this file, which others may map too."""
        self.cells = mapped(descriptor)
        self.shared = True

    def clock(self) -> Clock:
        """Make a clock for one trace; of a shared journal, one that counts the calls."""
        return _CountingClock(self.cells, self._last) if self.shared else Clock()

    @contextmanager
    def stopping(self, calls: int) -> Iterator[None]:
        """Meanwhile let the clocks that are made raise `Stopped` when so many calls have begun."""
        self._last = calls
        try:
            yield
        finally:
            self._last = 0


class _CountingClock(Clock):
    """Every call of an operation, and of an audit, begins with an advance."""

    def __init__(self, cells: Cells, last: int) -> None:
        super().__init__()
        self._cells = cells
        self._last = last

    def advance(self) -> float:
        self._cells[CALLS] = calls = self._cells[CALLS] + 1
        reading = super().advance()
        if calls == self._last:
            raise Stopped(reading)
        return reading

    def counted(self, method: Method) -> Method:
        cells, last = self._cells, self._last

        def call() -> Any:
            cells[CALLS] = calls = cells[CALLS] + 1
            if calls == last:
                raise Stopped(self.reading)
            return method()

        return call


def mapped(descriptor: int) -> Cells:
    """Map the cells that lie in a file of `BYTES` or more."""
    return memoryview(mmap.mmap(descriptor, BYTES)).cast("q")


JOURNAL = Journal()
