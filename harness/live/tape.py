"""The last calls, and what was stored before them.

Calls are kept in two segments. When the younger one is full, the older one is dropped, and what is
stored then is noted as the base of a new one::

    base 1  [ calls ............ ]  base 2  [ calls ....      ]
             '- dropped next                 '- as many again may come

So the last calls are always there, at least as many as were asked for (once there were so many),
and what was stored before the first of them.
"""

from __future__ import annotations

import signal
import traceback
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from radixcheck.checker.calls import failure
from radixcheck.protocol import Refused

Called: TypeAlias = tuple[str, tuple[Any, ...], Any, Any]
"""A call: its kind, what it was given, what it answered (or `Raised`), and the sizes after it."""

LOST = "lost"
"""A kind that is no call: what came before can be judged, and what comes after cannot. It is given
why."""

TOKEN_BYTES = 8
"""The bytes of an ``array('q')`` are its quickest copy: keys may be noted so."""

KEYED = ("match_prefix", "insert")
"""Calls that are given a key."""

Base: TypeAlias = Sequence[Any]
"""What was stored at the beginning of a segment, in the form that the owner of the tape likes."""

MOST_TOKENS = 4_000_000
"""A segment is full with so many tokens, however few calls they are: 32 MB."""

LOOK = 64
"""After so many calls it is seen whether a segment is full: it may get as many calls more."""

WORK_PER_NODE = 4
"""To look at a stored node costs less than a call. A segment has at least so many calls per node
that was looked at, so that looking stays cheap beside calling however large the tree is."""


def whole(noted: tuple[Any, ...]) -> Called:
    """Return the call that is meant by a note, which may be as short as it can be: to make a call
    of it costs more than all the rest, where calls are many and short.

    ::

        kind, given                                               a lock, an unlock, an eviction
        kind, tokens, namespace, length, handle                   a match
        kind, tokens, namespace, priority, owned from, existing   an insert
    """
    match noted:
        case kind, given:
            return kind, (given,), None, None
        case kind, tokens, namespace, length, handle:
            return kind, (tokens, namespace), (length, None, handle), None
        case kind, tokens, namespace, priority, owned_from, existing:
            return kind, (tokens, None, namespace, priority, owned_from), existing, None
        case kind, given, answer, seen:
            return kind, given, answer, seen
    raise AssertionError(f"no note of a call: {noted!r}")


def tokens_of_notes(notes: Sequence[Sequence[Any]]) -> int:
    """Count the tokens of calls, as they are noted."""
    keys = [note[1] if len(note) > 4 else note[1][0] for note in notes if note[0] in KEYED]
    return sum([len(key) // (TOKEN_BYTES if type(key) is bytes else 1) for key in keys])


class Raised:
    """In the place of an answer: the cache raised an error.

    Only what the error says is kept, since an error keeps all frames alive that it passed through.
    """

    def __init__(self, error: BaseException) -> None:
        what = failure(error)
        kind = Refused if isinstance(error, Refused) else type(what.error, (Exception,), {})
        self.error: Exception = kind(what.message)
        """One that looks the same."""
        vars(self.error)["where"] = what.where
        self.interrupted = interrupted(error)
        """Whether it was none of the cache's doing."""


def interrupted(error: BaseException) -> bool:
    """Tell whether an error came from without, in the midst of a call: Ctrl-C, the end of a
    program, or what a handler of signals has raised."""
    if not isinstance(error, Exception):
        return True
    handlers = map(signal.getsignal, signal.valid_signals())
    codes = {getattr(getattr(each, "__func__", each), "__code__", None) for each in handlers}
    return any(frame.f_code in codes for frame, _ in traceback.walk_tb(error.__traceback__))


class Tape:
    """Two segments of calls, each with its base.

    Args:
        last: calls that are kept in any case.
        look: answers what is stored now, for the base of the next segment.
        weigh: counts the tokens of calls.
        base: what is stored already.
    """

    def __init__(
        self,
        last: int,
        look: Callable[[], Base],
        weigh: Callable[[Sequence[Any]], int],
        base: Base = (),
    ) -> None:
        self._last = last
        self._look = look
        self._weigh = weigh
        self._older: tuple[Base, list[Any]] | None = None
        self._base = base
        self.calls: list[Any] = []
        """The younger segment. Who appends to it without `add` leaves the look to a later call."""
        self._tokens = 0
        """Tokens in it, up to the last look."""
        self._next_look = LOOK
        self.dropped = 0
        """Calls that are no longer there."""
        self._room = max(last, WORK_PER_NODE * len(base))

    def add(self, call: Any) -> None:
        """Append a call, and now and then see whether the segment is full."""
        calls = self.calls
        calls.append(call)
        if len(calls) >= self._next_look:
            self._tokens += self._weigh(calls[self._next_look - LOOK :])
            self._next_look = len(calls) + LOOK
            if len(calls) >= self._room or self._tokens > MOST_TOKENS:
                self.turn()

    def turn(self) -> None:
        """Begin a new segment, and forget the older one."""
        if self._older is not None:
            self.dropped += len(self._older[1])
        self._older = self._base, self.calls[:]
        self._base = self._look()
        self.calls.clear()  # the list stays the same: somebody may append to it by a quicker way
        self._tokens, self._next_look = 0, LOOK
        self._room = max(self._last, WORK_PER_NODE * len(self._base))

    def content(self) -> tuple[Base, list[Any]]:
        """Return all that is kept: what was stored first, and the calls since."""
        if self._older is None:
            return self._base, list(self.calls)
        return self._older[0], [*self._older[1], *self.calls]
