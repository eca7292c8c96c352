"""The operations that anybody would think of: keys drawn token by token, cut, and gone on with.

This is what a plain test of a cache does, and what our own generator must be better than. A *way*
makes one operation of a few small numbers; who draws the numbers is the difference between the
peers: a random loop here, Hypothesis in `machine`, bytes under coverage in `covering`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any, NamedTuple, TypeAlias, TypeVar, get_args

from radixcheck.arena import Arena
from radixcheck.operations import (
    Abort,
    AddRefs,
    Admit,
    Alloc,
    AnyOperation,
    Arrive,
    Audit,
    Decode,
    DecRef,
    Evict,
    Finish,
    Free,
    Idle,
    IncRef,
    Insert,
    MatchPrefix,
    MatchRequest,
    Namespace,
    Prefill,
    QueueOrder,
    Reset,
    Retract,
    Schedule,
    Starve,
    Tick,
    Tokens,
    Weigh,
)
from radixcheck.trace import Trace

T = TypeVar("T")

LENGTH = 50
"""Operations of one trace."""

NAMESPACES: tuple[Namespace, ...] = ((), ("a",), ("b",), ("a", "b"), ("ab",), ("", "a"), ("a", ""))
MOST_NAMES = {"absent": 0, "one": 1, "structured": 9}
ORDERS: tuple[QueueOrder, ...] = get_args(QueueOrder)


class Numbers(NamedTuple):
    """What is drawn for one parameter of a way."""

    low: int
    high: int
    most: int | None = None
    """So many numbers at most, as a list; None: one number."""


class Way(NamedTuple):
    """One way to go on with a trace."""

    kind: str
    """The kind of operation that it makes."""
    needs: str
    """What of `Past` must not be empty; empty where it can begin a trace."""
    make: Callable[..., AnyOperation]
    """Called with a `Past` and with what was drawn for its parameters."""


class Past:
    """What a trace has named so far. It looks at no answer."""

    def __init__(self, arena: Arena) -> None:
        can: Any = arena.capabilities
        self.page_size: int = can.page_size
        self.names = _names(arena)
        self.in_parts = getattr(can, "partial_pages", "") == "counted"
        self.keys: list[tuple[Tokens, Namespace]] = []
        self.handles: list[str] = []
        self.locks: list[str] = []
        self.waiting: list[str] = []
        self.running: list[str] = []
        self._made = 0

    def name(self) -> str:
        """Return a name that is new."""
        self._made += 1
        return f"n{self._made}"

    def key(self, place: int, kept: int, then: Sequence[int]) -> tuple[Tokens, Namespace]:
        """Return an earlier key, cut and gone on with, and where it was used."""
        earlier, namespace = pick(self.keys, place)
        self.keys.append(((*earlier[:kept], *then), namespace))
        return self.keys[-1]

    def fresh(self, tokens: Sequence[int], namespace: int) -> tuple[Tokens, Namespace]:
        """Return a new key."""
        self.keys.append((tuple(tokens), self.names[namespace]))
        return self.keys[-1]


def pick(things: Sequence[T], place: int) -> T:
    """Return one of `things`, whatever number was drawn."""
    return things[place % len(things)]


def moved(things: list[str], place: int, to: list[str] | None = None) -> str:
    """Take one of `things` away, and put it elsewhere."""
    thing = things.pop(place % len(things))
    if to is not None:
        to.append(thing)
    return thing


# ---- the ways ----------------------------------------------------------------------------

WAYS: dict[str, Way] = {}
Make = TypeVar("Make", bound=Callable[..., AnyOperation])


def way(kind: str, needs: str = "") -> Callable[[Make], Make]:
    """List a function in `WAYS`."""

    def enlist(make: Make) -> Make:
        WAYS[make.__name__.strip("_")] = Way(kind, needs, make)
        return make

    return enlist


@way("insert")
def _insert(past: Past, key: Sequence[int], namespace: int, priority: int) -> AnyOperation:
    return Insert(*past.fresh(key, namespace), priority)


@way("insert", "keys")
def _extend(past: Past, place: int, kept: int, key: Sequence[int], priority: int) -> AnyOperation:
    return Insert(*past.key(place, kept, key), priority)


@way("match_prefix")
def _match(past: Past, key: Sequence[int], namespace: int) -> AnyOperation:
    past.handles.append(past.name())
    return MatchPrefix(*past.fresh(key, namespace), past.handles[-1])


@way("match_prefix", "keys")
def _match_again(past: Past, place: int, kept: int, key: Sequence[int]) -> AnyOperation:
    past.handles.append(past.name())
    return MatchPrefix(*past.key(place, kept, key), past.handles[-1])


@way("inc_ref", "handles")
def _lock(past: Past, place: int) -> AnyOperation:
    past.locks.append(pick(past.handles, place))
    return IncRef(past.locks[-1])


@way("dec_ref", "locks")
def _unlock(past: Past, place: int) -> AnyOperation:
    return DecRef(moved(past.locks, place))


@way("dec_ref", "handles")
def _misuse(past: Past, place: int) -> AnyOperation:
    return DecRef(pick(past.handles, place))


@way("evict")
def _evict(past: Past, amount: int) -> AnyOperation:
    return Evict(amount)


@way("reset")
def _reset(past: Past) -> AnyOperation:
    past.handles.clear()
    past.locks.clear()
    past.running.clear()
    past.waiting.clear()
    return Reset()


@way("tick")
def _tick(past: Past, delta: int) -> AnyOperation:
    return Tick(delta)


@way("weigh")
def _weigh(past: Past) -> AnyOperation:
    return Weigh()


@way("alloc")
def _alloc(past: Past, amount: int) -> AnyOperation:
    past.handles.append(past.name())
    return Alloc(amount * past.page_size, past.handles[-1])


@way("free", "handles")
def _free(past: Past, place: int, kept: int, times: int) -> AnyOperation:
    stop = kept if past.in_parts and kept else None
    return Free(pick(past.handles, place), 0, stop, times)


@way("free")
def _misuse_free(past: Past, kept: int) -> AnyOperation:
    return Free(start=kept)


@way("add_refs", "handles")
def _share(past: Past, place: int) -> AnyOperation:
    return AddRefs(pick(past.handles, place))


@way("arrive")
def _arrive(past: Past, key: Sequence[int], namespace: int, amount: int) -> AnyOperation:
    past.waiting.append(past.name())
    return Arrive(past.waiting[-1], past.fresh(key, namespace)[0], amount, past.keys[-1][1])


@way("arrive", "keys")
def _arrive_again(
    past: Past, place: int, kept: int, key: Sequence[int], amount: int
) -> AnyOperation:
    past.waiting.append(past.name())
    tokens, namespace = past.key(place, kept, key)
    return Arrive(past.waiting[-1], tokens, amount, namespace)


@way("schedule")
def _schedule(past: Past, place: int) -> AnyOperation:
    return Schedule(pick(ORDERS, place))


@way("match", "waiting")
def _look(past: Past, place: int) -> AnyOperation:
    return MatchRequest(pick(past.waiting, place))


@way("admit", "waiting")
def _admit(past: Past, place: int) -> AnyOperation:
    return Admit(moved(past.waiting, place, past.running))


@way("prefill", "running")
def _prefill(past: Past, place: int, amount: int) -> AnyOperation:
    request = pick(past.running, place)
    return Prefill(request, amount) if amount else Prefill(request)


@way("decode", "running")
def _decode(past: Past, place: int, amount: int) -> AnyOperation:
    return Decode(pick(past.running, place), amount)


@way("finish", "running")
def _finish(past: Past, place: int) -> AnyOperation:
    return Finish(moved(past.running, place))


@way("abort", "running")
def _abort(past: Past, place: int) -> AnyOperation:
    return Abort(moved(past.running, place))


@way("retract", "running")
def _retract(past: Past, place: int) -> AnyOperation:
    return Retract(moved(past.running, place, past.waiting))


@way("starve")
def _starve(past: Past, amount: int) -> AnyOperation:
    return Starve(amount)


@way("idle")
def _idle(past: Past) -> AnyOperation:
    return Idle()


# ---- what is drawn -----------------------------------------------------------------------


def numbers(arena: Arena) -> dict[str, Numbers]:
    """Return what is drawn for each parameter of a way."""
    size = arena.capabilities.page_size
    counted = getattr(arena.capabilities, "ownership", "") == "counted"
    ranked = getattr(arena.capabilities, "priorities", "") == "present"
    back = getattr(arena.capabilities, "clock", "own") == "injected-steps"
    return {
        "key": Numbers(1, 3 if size == 1 else 2, 4 * size + 2),
        "place": Numbers(0, 15),
        "kept": Numbers(0, 4 * size),
        "namespace": Numbers(0, len(_names(arena)) - 1),
        "priority": Numbers(0, 3 * ranked),
        "amount": Numbers(0, 8),
        "delta": Numbers(-10 * back, 10),
        "times": Numbers(1, 1 + counted),
    }


def ways(arena: Arena) -> dict[str, Mapping[str, Numbers]]:
    """Return what is drawn for each way that a target can go."""
    drawn = numbers(arena)
    return {
        name: {each: drawn[each] for each in list(inspect.signature(way.make).parameters)[1:]}
        for name, way in WAYS.items()
        if _can_go(arena, name, way.kind)
    }


def is_open(name: str, past: Past) -> bool:
    """Tell whether there is something for a way to refer to."""
    needs = WAYS[name].needs
    return not needs or bool(getattr(past, needs))


def _can_go(arena: Arena, name: str, kind: str) -> bool:
    can: Any = arena.capabilities
    promised = {
        "tick": getattr(can, "clock", "own") != "own",
        "add_refs": getattr(can, "ownership", "") == "counted",
        "weigh": getattr(can, "storage", "") == "present",
    }
    proper = not name.startswith("misuse") or can.misuse != "unspecified"
    lacks = set(arena.level.methods) - arena.operations - {"retract"}  # is an abort then
    return kind in arena.level.kinds - lacks and promised.get(kind, True) and proper


def _names(arena: Arena) -> list[Namespace]:
    most = MOST_NAMES[getattr(arena.capabilities, "namespaces", "absent")]
    return [each for each in NAMESPACES if len(each) <= most]


# ---- the loop ----------------------------------------------------------------------------

Draw: TypeAlias = Callable[[int, int], int]
"""Draws a number between two, both included."""


def proposals(seed: int, arenas: Sequence[Arena]) -> Iterator[Trace]:
    """Yield traces without end whose every choice is uniform."""
    rng, place = Random(seed), 0
    while True:
        arena = arenas[place % len(arenas)]
        yield trace(arena, LENGTH, lambda low, high: low + int(rng.random() * (high - low + 1)))
        place += 1


def trace(arena: Arena, length: int, draw: Draw) -> Trace:
    """Make a trace of so many operations, each choice drawn, and an audit at the end."""
    past, known = Past(arena), ways(arena)
    made: list[AnyOperation] = []
    for _ in range(length):
        can_go = [name for name in known if is_open(name, past)]
        name = can_go[draw(0, len(can_go) - 1)]
        drawn = {each: _drawn(draw, what) for each, what in known[name].items()}
        made.append(WAYS[name].make(past, **drawn))
    return Trace((*made, Audit()), arena.config)


def _drawn(draw: Draw, what: Numbers) -> int | list[int]:
    if what.most is None:
        return draw(what.low, what.high)
    return [draw(what.low, what.high) for _ in range(draw(0, what.most))]
