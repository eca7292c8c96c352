"""The time that orders evictions: an injected clock that ticks as the trace says, or an estimate of
the target's own."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeAlias

from radixcheck.capabilities import Capabilities

UNKNOWN_RESOLUTION_S = 2.0
"""What an own clock that says nothing is trusted with: even one that counts whole seconds has moved
on by then."""


Method: TypeAlias = Callable[[], Any]

OFFSET = 1 / 1024
"""A clock that is set back goes on beside its old readings. If it met one again, a target that saw
nothing in between would take two moments for one, and rightly so."""


class Clock:
    """Call it for the reading that a target with an injected clock sees: one value during one
    operation."""

    def __init__(self) -> None:
        self.reading: float = 0
        self.moves = 0
        """How often the reading has changed."""
        self._delta = 1

    def __call__(self) -> float:
        return self.reading

    def tick(self, delta: int) -> None:
        """Let the next advance be by `delta`, which may be 0 or negative, instead of 1."""
        self._delta = delta

    def advance(self) -> float:
        """Move on to the next operation, and return its reading."""
        before = self.reading
        if (delta := self._delta) == 1:
            self.reading = before + 1
        else:
            self._delta = 1
            self.reading = before + (delta if delta >= 0 else delta + OFFSET)
        if self.reading != before:  # far from 0 a float has no next second
            self.moves += 1
        return self.reading

    def counted(self, method: Method) -> Method:
        """Return a method of the target as it is to be called where somebody counts the calls."""
        return method


class Ages:
    """What the model writes down as the time of an operation, so that comparing two never claims
    too much.

    ================== =========================== ==========================================
    the target's clock  age of an operation         two ages differ surely if
    ================== =========================== ==========================================
    injected            the reading                 they differ
    injected-steps      grows unless readings tie   they differ, also when the clock ran back
    own, resolution 0   number of the operation     they differ
    own, else           time when it began, in s    they differ by resolution + longest operation
    ================== =========================== ==========================================
    """

    def __init__(self, capabilities: Capabilities, clock: Clock) -> None:
        resolution_s = capabilities.resolution_s
        self._resolution_s = UNKNOWN_RESOLUTION_S if resolution_s is None else resolution_s
        self._clock = clock
        self._age: float = 0
        self._longest_s = 0.0
        own = "counter" if resolution_s == 0 else "timer"
        kind = own if capabilities.clock == "own" else capabilities.clock
        self.is_timer = kind == "timer"
        self.next: Callable[[], float] = {
            "injected": clock.advance,
            "injected-steps": self._step,
            "counter": self._count,
            "timer": self._time,
        }[kind]
        """Advance the clock and return the age of the operation that begins now."""

    @property
    def slack(self) -> float:
        """Ages that differ by no more than this may be the same reading."""
        return self._resolution_s + self._longest_s if self.is_timer else 0

    def _step(self) -> float:
        self._clock.advance()
        return self._clock.moves

    def _count(self) -> float:
        self._clock.advance()
        self._age += 1
        return self._age

    def _time(self) -> float:
        self._clock.advance()
        now = time.perf_counter()
        if self._age:
            self._longest_s = max(self._longest_s, now - self._age)
        self._age = now
        return now
