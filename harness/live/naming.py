"""From calls to operations. Tokens and namespaces get new names by order of appearance, so that a
recording tells which prompts share a prefix, and of none what it says; handles get the names of a
trace."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from radixcheck.live.tape import Called, Raised
from radixcheck.operations import (
    AnyOperation,
    DecRef,
    Evict,
    IncRef,
    Insert,
    MatchPrefix,
    Namespace,
    Reset,
    Tokens,
)
from radixcheck.trace import MAX_TOKEN

MOST_HANDLES = 4_096
"""Handles that are remembered without a lock; the oldest are forgotten."""


class _Numbers(dict[Any, int]):
    """A number for everything, by order of appearance."""

    def __missing__(self, key: Any) -> int:
        number = self[key] = len(self) + 1
        return number


class Words:
    """The new names of tokens and namespaces, the same during a whole recording.

    Args:
        keep_tokens: leave tokens and namespaces as they are, if a trace can hold them.
    """

    def __init__(self, *, keep_tokens: bool = False) -> None:
        self._keep = keep_tokens
        self._tokens = _Numbers()
        self._namespaces: dict[tuple[bool, Any], str] = {}
        """By whether it is a part of a tuple and what it is, what a name is called in the trace."""
        self._spelt: set[str] = set()
        self.confused = ""
        """A name that is spelt like another: the cache may take the two for one, or not."""

    def tokens(self, buffer: Iterable[Any]) -> Tokens:
        """Rename the tokens of a key."""
        if not self._keep:
            return tuple(map(self._tokens.__getitem__, buffer))
        tokens = tuple(buffer)
        if any(type(token) is not int or not 0 <= token <= MAX_TOKEN for token in tokens):
            raise ValueError("keep_tokens: a trace holds whole numbers from 0 to 2**63-1 only")
        return tokens

    def namespace(self, namespace: Any) -> Namespace:
        """Rename a namespace: None and () are none, a tuple keeps its length, and what is no tuple
        is something else than the tuple of it."""
        if namespace is None or namespace == ():
            return ()
        if not isinstance(namespace, tuple):
            return (self._name(False, namespace),)
        return tuple([self._name(True, each) for each in namespace])

    def _name(self, in_tuple: bool, name: Any) -> str:
        called = self._namespaces.get((in_tuple, name))
        return self._new_name(in_tuple, name) if called is None else called

    def _new_name(self, in_tuple: bool, name: Any) -> str:
        called, number = str(name), f"n{len(self._namespaces) + 1}"
        if called in self._spelt:
            self.confused, called = called, f"{called} {number}"
        self._spelt.add(str(name))
        self._namespaces[in_tuple, name] = called = called if self._keep else number
        return called


class _Known:
    """A handle of the cache: its name in the trace, and what a match of it found."""

    __slots__ = ("handle", "key", "locks", "name")

    def __init__(self, handle: Any, name: str, key: tuple[Namespace, Tokens]) -> None:
        self.handle = handle  # as long as it is here, no other object has its id
        self.name = name
        self.key = key
        self.locks = 0


class Naming:
    """Writes calls as operations of a tree.

    Args:
        words: names tokens and namespaces.
        key_of: answers the tokens and the namespace of a handle that no match has answered.
    """

    def __init__(
        self, words: Words, key_of: Callable[[Any], tuple[Any, Any] | None] | None = None
    ) -> None:
        self._words = words
        self._key_of = key_of
        self._handles: dict[Any, _Known] = {}
        self._locked: dict[tuple[Namespace, Tokens], str] = {}
        self._last: tuple[Any, Tokens] = (None, ())
        self._count = 0
        self.unknown = 0
        """Locks and unlocks that were left out: nothing is known of their handles."""
        self.underflows = 0
        """Unlocks of what was not locked."""
        self.changed: dict[int, AnyOperation] = {}
        """Nothing: all is known at once."""

    @property
    def misuse(self) -> bool:
        """Whether a call was one that no caller should make."""
        return self.underflows > 0

    def open_places(self) -> set[int]:
        """Return none: no operation changes any more."""
        return set()

    def names(self) -> set[str]:
        """Return the names that a lock may still use."""
        return {known.name for known in self._handles.values()}

    def operations(self, calls: Iterable[Called]) -> Iterator[AnyOperation]:
        """Yield the operations of many calls."""
        for called in calls:
            yield from self.write(called)

    def write(self, called: Called) -> list[AnyOperation]:
        """Return the operations of one call: mostly one, none for what is no call of a tree."""
        kind, given, answer, _ = called
        match kind:
            case "match_prefix":
                return [self._match(given[0], given[1], answer)]
            case "insert":
                return [self._insert(*given)]
            case "evict":
                return [Evict(max(0, int(given[0])))]
            case "inc_ref":
                return self._lock(given[0])
            case "dec_ref":
                return self._unlock(given[0])
            case "reset":
                self._handles.clear()
                self._locked.clear()
                return [Reset()]
        return []

    def _tokens(self, buffer: Any) -> Tokens:
        """Rename a key; an insert often brings that of the match before."""
        if (
            hasattr(buffer, "tolist") and type(buffer) is not array
        ):  # what it equals is no yes or no
            buffer = buffer.tolist()
        if type(buffer) is not type(self._last[0]) or buffer != self._last[0]:
            tokens = array("q", buffer) if type(buffer) is bytes else buffer
            self._last = buffer, self._words.tokens(tokens)
        return self._last[1]

    def _match(self, buffer: Any, namespace: Any, answer: Any) -> AnyOperation:
        tokens, names = self._tokens(buffer), self._words.namespace(namespace)
        if isinstance(answer, Raised) or answer[2] is None:
            return MatchPrefix(tokens, names)
        length, _, handle = answer
        known = self._known(handle, (names, tokens[:length]))
        return MatchPrefix(tokens, names, known.name)

    def _known(self, handle: Any, key: tuple[Namespace, Tokens]) -> _Known:
        """Name a handle. While it is locked it keeps its name, and a new one is for nobody; but one
        that is answered for another prefix is another handle, whatever object it is."""
        self._count += 1
        fresh = _Known(handle, f"h{self._count}", key)
        place = _key(handle)
        old = self._handles.get(place)
        if old is not None and old.locks and old.key[1] == key[1]:
            return fresh
        self._handles.pop(place, None)
        self._handles[place] = fresh
        if len(self._handles) > 2 * MOST_HANDLES:
            self._forget()
        return fresh

    def _forget(self) -> None:
        old = list(self._handles)[:MOST_HANDLES]
        for place in old:
            if not self._handles[place].locks:
                del self._handles[place]

    def _insert(
        self, buffer: Any, _slots: Any, namespace: Any, priority: int, owned_from: int
    ) -> AnyOperation:
        tokens, names = self._tokens(buffer), self._words.namespace(namespace)
        lent = self._locked.get((names, tokens[:owned_from])) if owned_from else None
        return Insert(tokens, names, int(priority or 0), lent)

    def _lock(self, handle: Any) -> list[AnyOperation]:
        known, before = self._find(handle)
        if known is None:
            return before
        known.locks += 1
        self._locked[known.key] = known.name
        return [*before, IncRef(known.name)]

    def _unlock(self, handle: Any) -> list[AnyOperation]:
        known, before = self._find(handle)
        if known is None:
            return before
        if known.locks:
            known.locks -= 1
        else:
            self.underflows += 1
        if not known.locks and self._locked.get(known.key) == known.name:
            del self._locked[known.key]
        return [*before, DecRef(known.name)]

    def _find(self, handle: Any) -> tuple[_Known | None, list[AnyOperation]]:
        """Find a handle; one that no match has answered gets a match of its own."""
        known = self._handles.get(_key(handle))
        if known is not None:
            return known, []
        key = self._key_of(handle) if self._key_of is not None else None
        if key is None:
            self.unknown += 1
            return None, []
        tokens, names = self._words.tokens(key[0]), self._words.namespace(key[1])
        if not tokens:
            return None, []
        known = self._known(handle, (names, tokens))
        return known, [MatchPrefix(tokens, names, known.name)]


def _key(handle: Any) -> Any:
    """Return what tells a handle from others: a number or a name by its value, all else by what it
    is."""
    if isinstance(handle, tuple):
        try:
            hash(handle)
        except TypeError:  # with a list in it
            return id(handle)
    return handle if isinstance(handle, int | str | tuple) else id(handle)
