"""Calls of a pool and of a cache of requests, as they are noted, in words that a trace can use:
slots become lists, tokens get their new names, and every request gets a name that no other one has.

An engine may use a name again, or begin once more what was refused or retracted. That goes on under
its old name only if it goes on with the same tokens::

    begin(7, [5, 6])      r1                    begin(7, [5, 6])      r1
    retract(7)            r1 waits              end(7)                r1 is gone
    begin(7, [5, 6, 8])   r1 goes on            begin(7, [5, 6])      r2
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from radixcheck.buffers import read_slots
from radixcheck.live.naming import Words
from radixcheck.live.tape import Called, Raised
from radixcheck.operations import Namespace, Tokens

POOL = "pool."
"""In front of the kind of a call to the pool below a cache of requests."""

MOST_LOOKED_UP = 1_024
"""Requests that were looked up and have not begun; the oldest are forgotten."""


class Seen(NamedTuple):
    """What is looked at right after a call."""

    parts: Sequence[Called] = ()
    """What was called of the pool meanwhile."""
    row: Any = None
    """The row of the request that was served; `Raised`, if the cache did not tell it."""
    sizes: tuple[Any, Any] = (None, None)
    """`total_size` and `evictable_size`, where the cache can tell."""
    free: Any = None
    """The slots that the pool says are free."""
    rows: Any = None
    """The same of the pool of rows."""


class Reader(Protocol):
    """Reads calls as they are noted."""

    def read(self, call: Called) -> Sequence[Called]:
        """Return a call in words of a trace: mostly one, none of what nobody knows about."""
        ...


class PoolReader:
    """Reads the calls of a pool; nothing of them has a name."""

    def __init__(self, _words: Words) -> None:
        pass

    def read(self, call: Called) -> Sequence[Called]:
        """Return the call with its slots in lists. Here a device is waited for."""
        return [_with_slots(call)]


def _with_slots(call: Called) -> Called:
    kind, given, answer, seen = call
    if kind in ("free", "add_refs"):
        given = (read_slots(given[0]),)
    elif kind == "alloc" and answer is not None and not isinstance(answer, Raised):
        answer = read_slots(answer)
    return kind, given, answer, seen


class _Served:
    """A request, as far as its name goes."""

    __slots__ = ("computed", "name", "namespace", "tokens")

    def __init__(self, name: str, tokens: Tokens, namespace: Namespace) -> None:
        self.name = name
        self.namespace = namespace
        self.tokens = tokens
        """What it last began with, or was looked up for."""
        self.computed = 0

    def goes_on(self, tokens: Tokens, namespace: Namespace) -> bool:
        """Tell whether a request that begins with `tokens` is this one: with what it had, and with
        the one token more that is sampled once all others are computed."""
        known = len(self.tokens)
        length = self.computed + 1 if self.computed >= known else known
        same = self.namespace == namespace and tokens[:known] == self.tokens
        return same and len(tokens) == length


class RequestsReader:
    """Reads the calls of a cache of requests, and of the pool below it.

    Args:
        words: names tokens and namespaces.
    """

    def __init__(self, words: Words) -> None:
        self._words = words
        self._running: dict[Any, _Served] = {}
        self._waiting: dict[Any, _Served] = {}
        """Who was refused or retracted."""
        self._looked_up: dict[tuple[Namespace, Tokens], _Served] = {}
        """Who was matched, and has no name of the caller's yet."""
        self._count = 0
        self._readers: dict[str, Callable[..., list[Called]]] = {
            "match": self._match,
            "begin": self._begin,
            "append": self._append,
            "end": self._end,
            "abort": self._abort,
            "retract": self._retract,
            "reset": self._reset,
        }

    def read(self, call: Called) -> Sequence[Called]:
        """Return the calls of a trace's requests. Here a device is waited for."""
        kind, given, answer, seen = call
        if kind.startswith(POOL):
            return [_with_slots((kind.removeprefix(POOL), *call[1:]))]
        read: Callable[..., list[Called]] = self._readers.get(kind, self._other)
        calls = read(kind, answer, *given)
        seen = _fetched(seen)
        return [(*each[:3], seen if each[0] == kind else None) for each in calls]

    def _new(self, tokens: Tokens, namespace: Namespace) -> _Served:
        self._count += 1
        return _Served(f"r{self._count}", tokens, namespace)

    def _match(self, kind: str, answer: Any, buffer: Any, namespace: Any) -> list[Called]:
        tokens, names = self._words.tokens(buffer), self._words.namespace(namespace)
        key = names, tokens
        fresh = key not in self._looked_up
        served = self._looked_up.pop(key, None) or self._new(tokens, names)
        self._looked_up[key] = served
        calls: list[Called] = [(kind, (served.name, tokens, names, fresh), answer, None)]
        if len(self._looked_up) > MOST_LOOKED_UP:
            oldest = self._looked_up.pop(next(iter(self._looked_up)))
            calls.append(("abort", (oldest.name,), None, None))
        return calls

    def _begin(
        self, kind: str, answer: Any, request: Any, buffer: Any, namespace: Any
    ) -> list[Called]:
        tokens, names = self._words.tokens(buffer), self._words.namespace(namespace)
        calls: list[Called] = []
        served = self._waiting.pop(request, None)
        if served is not None and not served.goes_on(tokens, names):
            calls.append(("abort", (served.name,), None, None))
            served = None
        served = served or self._looked_up.pop((names, tokens), None)
        fresh = served is None
        served = served or self._new(tokens, names)
        served.tokens, refused = tokens, isinstance(answer, Raised)
        served.computed = 0 if refused else int(answer)
        (self._waiting if refused else self._running)[request] = served
        return [*calls, (kind, (served.name, tokens, names, fresh), answer, None)]

    def _append(self, kind: str, answer: Any, request: Any, tail: Any, length: int) -> list[Called]:
        if (served := self._running.get(request)) is None:
            return []
        if not isinstance(answer, Raised):
            served.computed = length
        given = served.name, length - len(tail), self._words.tokens(tail)
        return [(kind, given, answer, None)]

    def _end(self, kind: str, answer: Any, request: Any, buffer: Any) -> list[Called]:
        if (served := self._running.pop(request, None)) is None:
            return []
        rest = self._words.tokens(buffer[served.computed :])
        return [(kind, (served.name, rest), answer, None)]

    def _abort(self, kind: str, answer: Any, request: Any) -> list[Called]:
        served = self._running.pop(request, None) or self._waiting.pop(request, None)
        return [(kind, (served.name,), answer, None)] if served else []

    def _retract(self, kind: str, answer: Any, request: Any) -> list[Called]:
        if (served := self._running.pop(request, None)) is None:
            return []
        self._waiting[request] = served
        return [(kind, (served.name,), answer, None)]

    def _reset(self, kind: str, answer: Any) -> list[Called]:
        self._running.clear()
        self._waiting.clear()
        self._looked_up.clear()
        return [(kind, (), answer, None)]

    def _other(self, kind: str, answer: Any, *given: Any) -> list[Called]:
        """Read what names a running request and no more, or none at all."""
        if kind == "evict":
            return [(kind, (max(0, int(given[0])),), answer, None)]
        served = self._running.get(given[0])
        return [(kind, (served.name,), answer, None)] if served else []


def _fetched(seen: Seen | None) -> Seen | None:
    """Read the slots of what was seen."""
    if seen is None:
        return None
    parts = [_with_slots((part[0].removeprefix(POOL), *part[1:])) for part in seen.parts]
    row = seen.row if seen.row is None or isinstance(seen.row, Raised) else read_slots(seen.row)
    return seen._replace(parts=parts, row=row)
