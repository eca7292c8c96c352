"""How a living cache is called. What an engine calls its methods, what they take and what they
answer is brought into the words of `radixcheck.protocol`; nothing after this knows of engines.

::

    cache.lookup(prompt)  -->  given     (tokens, namespace)
         |
         `--------------->  answered  Match(length, slots, handle)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from gc import is_finalized
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from weakref import ReferenceType, ref

from radixcheck.capabilities import AnyCapabilities, Capabilities
from radixcheck.live.nodes import Node
from radixcheck.protocol import REQUIRED, DumpedNode, Evicted
from radixcheck.trace import Config

if TYPE_CHECKING:
    from radixcheck.live.ledgers import Follower
    from radixcheck.live.naming import Words
    from radixcheck.live.reading import Reader
    from radixcheck.live.taps import Look, Taps
    from radixcheck.live.writing import Writer

Given: TypeAlias = Callable[..., tuple[Any, ...]]
Answered: TypeAlias = Callable[[Any], Any]
Keep: TypeAlias = Callable[[Any], Any]
Seeing: TypeAlias = Callable[[str, Any, Any], tuple[Any, ...]]


def kept(slots: Any) -> Any:
    """Copy a run of slots where it lies: a tensor on its device, which is not waited for."""
    if hasattr(slots, "clone"):
        return slots.clone()
    if isinstance(slots, memoryview):
        return slots.tolist()
    return slots.copy() if hasattr(slots, "copy") else slots[:]


def kept_key(tokens: Any) -> Any:
    """Copy a key likewise; of bytes each is a token."""
    return list(tokens) if isinstance(tokens, bytes | bytearray) else kept(tokens)


def _kept_victims(freed: Any, keep: Keep) -> Any:
    """Copy what an eviction has answered, in groups or not."""
    if isinstance(freed, Evicted):
        return Evicted([keep(group) for group in freed.groups])
    return None if freed is None else keep(freed)


def forgotten(_slots: Any) -> None:
    """Do not even look at slots: a trace holds none."""


class Call(NamedTuple):
    """One method of an engine's cache, in the words of the protocol."""

    method: str
    """What the engine calls it."""
    given: Given | None = None
    """Called with the arguments of the method; answers those of the protocol's. None: they are the
    same."""
    answered: Answered | None = None
    """Called with the answer; returns what the protocol's method would have answered. None: it is
    the same."""
    seen: Seeing | None = None
    """For a method that takes one argument, called ``params``: makes the whole note of its kind, of
    that and of the answer, without slots, as `radixcheck.live.tape.whole` reads it. It is only a
    quicker way."""


Calls: TypeAlias = Mapping[str, "Call | str"]
"""By the name of the protocol's method, the engine's: as a name alone where the rest is alike."""


def _match(tokens: Any, namespace: Any = (), *_: Any, **__: Any) -> tuple[Any, ...]:
    return tokens, namespace


def _insert(
    tokens: Any,
    slots: Any = None,
    namespace: Any = (),
    priority: int = 0,
    owned_from: int = 0,
    *_: Any,
    **__: Any,
) -> tuple[Any, ...]:
    return tokens, slots, namespace, priority, owned_from


def _evict(num_tokens: int, *_: Any, **__: Any) -> tuple[Any, ...]:
    return (num_tokens,)


def _lock(handle: Any, *_: Any, **__: Any) -> tuple[Any, ...]:
    return (handle,)


def _reset(*_: Any, **__: Any) -> tuple[Any, ...]:
    return ()


GIVEN: dict[str, Given] = {
    "match_prefix": _match,
    "insert": _insert,
    "evict": _evict,
    "inc_ref": _lock,
    "dec_ref": _lock,
    "reset": _reset,
}
"""What the protocol's methods are given, by position or by name."""

UNKNOWN = Capabilities(evictable_size="absent")
"""The promises of a cache that makes none."""

SIZES = ("evictable_size", "protected_size", "total_size")


class _StandIn:
    """Stands for a handle in what is noted, so that nobody keeps the handle alive."""

    __slots__ = ("handle",)

    def __init__(self, handle: ReferenceType[Any]) -> None:
        self.handle = handle

    def is_for(self, handle: Any) -> bool:
        """Tell whether this stands for an object of the same address. When a ring of objects goes,
        references to them end first, and then what they do at the end is done."""
        found = self.handle()
        return found is handle or (found is None and is_finalized(handle))


class Handles:
    """The handles of one cache, and what stands for each."""

    def __init__(self) -> None:
        self._known: dict[int, _StandIn] = {}
        self._room = 4_096

    def __call__(self, handle: Any) -> Any:
        """Return what stands for a handle: the same as long as it lives. What cannot be referred to
        weakly stands for itself: numbers, names, tuples, lists, and what has slots."""
        if isinstance(handle, int | str | tuple):
            return handle
        known = self._known.get(id(handle))
        if known is not None and known.is_for(handle):
            return known
        try:
            fresh = _StandIn(ref(handle))
        except TypeError:
            return handle
        if len(self._known) > self._room:
            self._forget()
        self._known[id(handle)] = fresh
        return fresh

    def _forget(self) -> None:
        """Forget those that are gone."""
        living = {place: each for place, each in self._known.items() if each.handle() is not None}
        self._known, self._room = living, 4_096 + 2 * len(living)

    def noting(self, calls: Mapping[str, Call], keep: Keep) -> dict[str, Call]:
        """Let what calls say be noted, without their handles."""
        noted = noting(calls, keep)
        match = noted["match_prefix"]
        noted["match_prefix"] = match._replace(answered=self._matched(match.answered))
        for kind in ("inc_ref", "dec_ref"):
            if kind in noted:
                noted[kind] = noted[kind]._replace(given=self._locked(noted[kind].given or _lock))
        return noted

    def _matched(self, answered: Answered | None) -> Answered:
        def matched(answer: Any) -> tuple[Any, ...]:
            length, slots, handle = answer if answered is None else answered(answer)
            return length, slots, self(handle)

        return matched

    def _locked(self, given: Given) -> Given:
        return lambda *arguments, **named: (self(given(*arguments, **named)[0]),)

    def walking(self, walk: Callable[[], Iterable[Node]]) -> Callable[[], list[Node]]:
        """Let what is stored be listed likewise."""

        def walked() -> list[Node]:
            return [
                node._replace(handles=[(self(handle), locks) for handle, locks in node.handles])
                for node in walk()
            ]

        return walked


class Level(NamedTuple):
    """How the calls of a pool, or of a cache of requests, become operations and verdicts."""

    reader: Callable[[Words], Reader]
    """Makes what reads calls as they are noted."""
    follower: Callable[[], Follower]
    """Makes what judges them."""
    writer: Callable[[], Writer]
    """Makes what writes them down."""
    look: Callable[[Taps], Look]
    """Makes what is looked at after each call, if it is followed."""
    is_new: Callable[[], bool]
    """Tells whether nothing is held yet, as far as anybody can tell."""
    names_slots: bool = False
    """Whether a trace tells by their slots which calls belong together."""


class Manner(NamedTuple):
    """All that must be known of a living cache to write down what is done with it."""

    calls: Callable[[Keep], Mapping[str, Call]]
    """Given what is kept of slots, answers by the protocol's name how each method is noted. `given`
    copies the tokens, and `answered` makes of a match a triple like `Match`."""
    capabilities: Any
    """`Capabilities`, or `PoolCapabilities`."""
    config: Config
    """What replays the recording: the configuration of a trace."""
    walk: Callable[[], Iterable[Node]] | None = None
    """Lists what is stored now, parents first; None where nobody can look inside."""
    dump: Callable[[], Iterable[DumpedNode]] | None = None
    """A look inside, for the rule `structure`."""
    key_of: Callable[[Any], tuple[Any, Any] | None] | None = None
    """Answers the tokens and the namespace of a handle that no match was seen to answer."""
    pool: Any = None
    """What slots are taken from and given back to, if it is not the caller."""
    frees: Mapping[str, Given] = {}
    """Methods of `pool` that take slots back: each answers the runs of slots it is given."""
    allocs: tuple[str, ...] = ()
    """Methods of `pool` that hand slots out."""
    unwatched: str = ""
    """Why such a cache can be recorded, but not judged; empty if it can."""
    level: Level | None = None
    """How calls are followed that are none of a tree's; None for a tree."""
    parts: Mapping[str, Call] = {}
    """Methods of `pool` that are a part of the call that makes them."""
    handles: Handles | None = None
    """What stands for handles in what is noted; None, if they do so themselves."""
    requests: tuple[tuple[str, str, Given], ...] = ()
    """Methods that do the bookkeeping of whole requests: what each is, its name, and what answers
    `radixcheck.live.requests.Heard` of it, and of a request that ends its row of slots."""


def noting(calls: Mapping[str, Call], keep: Keep) -> dict[str, Call]:
    """Let what calls say be noted: tokens are copied, and of slots what `keep` makes of them."""
    match, insert = calls["match_prefix"], calls["insert"]
    evict = calls.get("evict")
    return {
        **calls,
        **({} if evict is None else {"evict": _keeping_victims(evict, keep)}),
        "match_prefix": match._replace(
            given=_copying(match.given or _match), answered=_keeping_match(match.answered, keep)
        ),
        "insert": insert._replace(given=_keeping_slots(insert.given or _insert, keep)),
    }


def _keeping_victims(evict: Call, keep: Keep) -> Call:
    own = evict.answered
    return evict._replace(
        answered=lambda answer: _kept_victims(answer if own is None else own(answer), keep)
    )


def _copying(given: Given) -> Given:
    def copied(*arguments: Any, **named: Any) -> tuple[Any, ...]:
        tokens, namespace = given(*arguments, **named)
        return kept_key(tokens), namespace

    return copied


def _keeping_slots(given: Given, keep: Keep) -> Given:
    def copied(*arguments: Any, **named: Any) -> tuple[Any, ...]:
        tokens, slots, *rest = given(*arguments, **named)
        return (kept_key(tokens), keep(slots), *rest)

    return copied


def _keeping_match(answered: Answered | None, keep: Keep) -> Answered:
    def triple(answer: Any) -> tuple[Any, ...]:
        length, slots, handle = answer if answered is None else answered(answer)
        return length, keep(slots), handle

    return triple


def completed(
    cache: Any, calls: Calls | None, given: Mapping[str, Given], required: Sequence[str]
) -> dict[str, Call]:
    """Fill in what is as in the protocol.

    Args:
        given: what the methods of the protocol are given, by their names.
        required: those that must be there.

    Raises:
        ValueError: a name is no method of the protocol, or of the cache, or one is missing.
    """
    named = calls or {kind: kind for kind in given if hasattr(cache, kind)}
    if strange := sorted(named.keys() - given.keys()):
        raise ValueError(f"calls: {strange[0]!r} is none of {', '.join(given)}")
    if not set(required) <= named.keys():
        raise ValueError(f"calls: name at least {', '.join(required)}")
    found = {kind: Call(call) if isinstance(call, str) else call for kind, call in named.items()}
    if missing := [call.method for call in found.values() if not hasattr(cache, call.method)]:
        raise ValueError(f"calls: {type(cache).__name__} has no method {missing[0]!r}")
    return found


def manner_of_tree(cache: Any, calls: Calls | None, promised: AnyCapabilities | None) -> Manner:
    """Describe a tree of our protocol, or one whose methods `calls` names.

    Raises:
        ValueError: it has no such methods.
    """
    named = completed(cache, calls, GIVEN, REQUIRED["tree"])
    can: Any = promised or getattr(cache, "capabilities", None) or UNKNOWN
    config: Config = {"page_size": can.page_size}
    if can.eviction != "unspecified":
        config["eviction"] = can.eviction
    dump = getattr(cache, "dump", None) if can.dump == "present" else None
    handles = Handles()
    return Manner(partial(handles.noting, named), can, config, dump=dump, handles=handles)
