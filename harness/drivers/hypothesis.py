"""The driver that lets Hypothesis choose: from what it draws to operations.

Hypothesis shrinks what it drew, not what was made of it. So a key is drawn as three small things,
which say how it relates to the keys that the trace has named before, the latest first::

    trace so far      insert 5 6 7 8        insert 5 6 7 9

    back=0                       then=4     no earlier key                              4
    back=1  dropped=1            then=4     the latest, its last token replaced         5 6 7 4
    back=2  dropped=3                       the one before, without its last 3 tokens   5
    back=2  dropped=0            then=2 2   the one before, extended                    5 6 7 8 2 2

Where a number shrinks, the key becomes simpler; where an operation goes away, the others still mean
something. Handles and requests are referred to in the same way. A draw costs several times what an
operation does, so that a whole run of tokens is one draw, of bytes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, TypeAlias, TypeVar, get_args

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from radixcheck.arena import Arena
from radixcheck.generate.keys import ALPHABETS
from radixcheck.operations import (
    Abort,
    AddRefs,
    Admit,
    Alloc,
    AnyOperation,
    Arrive,
    Decode,
    DecRef,
    Evict,
    Finish,
    Free,
    Idle,
    IncRef,
    Insert,
    Interrupt,
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
)

T = TypeVar("T")
Asked: TypeAlias = tuple[Tokens, Namespace]
"""A key and where it is looked up or stored."""

Numbers: TypeAlias = Mapping[str, SearchStrategy[Any]]
"""What is drawn for one operation: the arguments of the function that makes it."""

LONGEST_RUN = 40
REPEATED, TIMES = 255, 101
"""This byte stands for so many pages that are alike: a long key is rare, and cheap to draw."""

TYPICAL_CAPACITY = 64
MOST_NAMES = {"absent": 0, "one": 1, "structured": 9}
NAMESPACES: tuple[Namespace, ...] = ((), ("a",), ("",), ("a", "b"), ("a:b",), ("a", ""), ("", "a"))
COMMON = 8
"""So often there is no namespace for each time that there is one of the others."""
DELTAS = {"own": (1,), "injected": (1, 0, 7, 1000), "injected-steps": (1, 0, 7, 1000, -1, -50)}


class Past:
    """What the operations of one trace have named so far, for the next one to refer to.

    It looks at no answer, as no driver does: it may know a handle that is dead.
    """

    def __init__(self, arena: Arena, alphabet: Sequence[int], *, misuse: bool = False) -> None:
        capabilities = arena.capabilities
        self.page_size = capabilities.page_size
        self.capacity = getattr(capabilities, "capacity", arena.capacity) or TYPICAL_CAPACITY
        self.misuses = misuse or capabilities.misuse != "unspecified"
        self.alphabet = alphabet
        self.keys: list[Tokens] = []
        self.namespaces: list[Namespace] = []
        """Of each key."""
        self.handles: dict[str, Asked] = {}
        """Each with the key that it was asked for by."""
        self.locks: list[str] = []
        """Handles, once per lock."""
        self.waiting: list[str] = []
        self.running: list[str] = []
        self._named = 0

    @property
    def misusable(self) -> Collection[str]:
        """Handles that are unlocked whether they are locked or not, where that is wanted."""
        return self.handles if self.misuses else ()

    @property
    def last_handle(self) -> str:
        """The latest handle."""
        return next(reversed(self.handles))

    # ---- keys ----------------------------------------------------------------------------

    def key(self, back: int, dropped: int, then: bytes, namespace: Namespace) -> Asked:
        """Make a key, and remember it."""
        made = key(self.page_size, self.alphabet, self.keys, back, dropped, then)
        self.remember(made, namespace)
        return made, namespace

    def old(self, back: int) -> Asked:
        """Return a key as it was."""
        return latest(self.keys, back), latest(self.namespaces, back)

    def remember(self, tokens: Tokens, namespace: Namespace) -> None:
        """Take a key for the latest."""
        self.keys.append(tokens)
        self.namespaces.append(namespace)

    # ---- handles and requests ------------------------------------------------------------

    def handle(self, asked: Asked) -> str:
        """Return the name of a new handle."""
        name = self._name("h")
        self.handles[name] = asked
        return name

    def match(self, asked: Asked) -> AnyOperation:
        """Look a key up, and keep the handle."""
        return MatchPrefix(*asked, self.handle(asked))

    def lock(self, back: int) -> AnyOperation:
        """Lock one of the latest handles."""
        self.locks.append(latest(list(self.handles), back))
        return IncRef(self.locks[-1])

    def unlock(self, handle: str) -> AnyOperation:
        """Give one lock of `handle` back, if it has any."""
        if handle in self.locks:
            self.locks.remove(handle)
        return DecRef(handle)

    def part(self, start: int, pages: int) -> tuple[int, int | None]:
        """Return places of what an alloc answered: some pages, or with 0 all the rest."""
        first = start * self.page_size
        return first, first + pages * self.page_size if pages else None

    def arrive(self, asked: Asked, most: int) -> AnyOperation:
        """Let a request join the queue."""
        self.waiting.append(self._name("r"))
        tokens, namespace = asked
        return Arrive(self.waiting[-1], tokens, most, namespace)

    def moved(self, old: list[str], back: int, new: list[str] | None = None) -> str:
        """Take one of the latest requests out of a list, and into another one."""
        request = latest(old, back)
        old.remove(request)
        if new is not None:
            new.append(request)
        return request

    def forget(self) -> None:
        """Let every handle and request die."""
        for named in (self.handles, self.locks, self.waiting, self.running):
            named.clear()

    def _name(self, letter: str) -> str:
        self._named += 1
        return f"{letter}{self._named}"


def latest(things: Sequence[T], back: int) -> T:
    """Return the latest of `things`, or the one that is so many places before it, or the first."""
    return things[max(-1 - back, -len(things))]


# ---------------------------------------------------------------------------------------- keys


def key(
    page_size: int,
    alphabet: Sequence[int],
    earlier: Sequence[Tokens],
    back: int,
    dropped: int,
    then: bytes,
) -> Tokens:
    """Make a key from the one so far back among `earlier`, or from nothing."""
    base = latest(earlier, back - 1) if back and earlier else ()
    return base[: max(0, len(base) - _tokens(page_size, dropped))] + _run(page_size, alphabet, then)


def _tokens(page_size: int, dropped: int) -> int:
    """Turn a small number into tokens: with pages into boundaries, and one token either side."""
    if page_size == 1:
        return dropped
    pages, beside = divmod(dropped, 3)
    return pages * page_size + (0, 1, -1)[beside]


def _run(page_size: int, alphabet: Sequence[int], run: bytes) -> Tokens:
    """Write out a run of pages. Two bytes may share all of a page but its last token::

    pages of 4     0 -> 1 1 1 1     1 -> 1 1 1 2     2 -> 2 2 2 1     3 -> 2 2 2 2
    """
    size = len(alphabet)
    if page_size == 1 and REPEATED not in run:
        return tuple([alphabet[byte % size] for byte in run])
    pages = (
        ((alphabet[byte // 2 % size],) * (page_size - 1) + (alphabet[byte % size],))
        * (TIMES if byte == REPEATED else 1)
        for byte in run
    )
    return tuple([token for page in pages for token in page])


# -------------------------------------------------------------------------------------- the ways

Operations: TypeAlias = Iterator[AnyOperation]


class Way(NamedTuple):
    """One way to go on with a trace."""

    go: Callable[..., Operations]
    """Called with the past, which moves on, and what was drawn for each further parameter."""
    kinds: frozenset[str]
    """The kinds of the operations that it yields."""
    needs: str
    """What of the past must not be empty."""

    def is_open(self, past: Past) -> bool:
        """Tell whether there is something to refer to."""
        return not self.needs or bool(getattr(past, self.needs))


WAYS: dict[str, Way] = {}
"""Every way by its name, each as likely as any other. None leads to an audit, as that ends a trace,
or to a weighing, which means nothing outside of a round."""

Go = TypeVar("Go", bound=Callable[..., Operations])


def _way(kinds: str, needs: str = "") -> Callable[[Go], Go]:
    def register(go: Go) -> Go:
        WAYS[go.__name__[1:]] = Way(go, frozenset(kinds.split()), needs)
        return go

    return register


@_way("match_prefix")
def _match(
    past: Past, back: int, dropped: int, then: bytes, namespace: Namespace = ()
) -> Operations:
    yield past.match(past.key(back, dropped, then, namespace))


@_way("match_prefix", "keys")
def _match_again(past: Past, back: int) -> Operations:
    yield past.match(past.old(back))


@_way("match_prefix inc_ref")
def _match_and_lock(
    past: Past, back: int, dropped: int, then: bytes, namespace: Namespace = ()
) -> Operations:
    yield past.match(past.key(back, dropped, then, namespace))
    yield past.lock(0)


@_way("match_prefix inc_ref insert dec_ref")
def _request(
    past: Past, back: int, dropped: int, then: bytes, namespace: Namespace = (), priority: int = 0
) -> Operations:
    """Lock what is stored of a prompt, store the prompt and its answer, unlock."""
    asked = past.key(back, dropped, b"", namespace)
    yield past.match(asked)
    handle = past.last_handle
    yield past.lock(0)
    yield Insert(*past.key(1, 0, then, namespace), priority, handle)
    yield past.unlock(handle)


@_way("insert")
def _insert(
    past: Past, back: int, dropped: int, then: bytes, namespace: Namespace = (), priority: int = 0
) -> Operations:
    yield Insert(*past.key(back, dropped, then, namespace), priority)


@_way("insert match_prefix", "keys")
def _insert_again(past: Past, back: int, priority: int = 0) -> Operations:
    """Store a key as it was, and look it up."""
    yield Insert(*past.old(back), priority)
    yield past.match(past.old(back))


@_way("insert", "handles")
def _insert_lent(past: Past, back: int, then: bytes, priority: int = 0) -> Operations:
    """Store what a match asked for and what comes then, as a request does that is done."""
    handle = latest(list(past.handles), back)
    asked, namespace = past.handles[handle]
    past.remember(asked, namespace)
    yield Insert(*past.key(1, 0, then, namespace), priority, handle)


@_way("evict", "keys")
def _evict(past: Past, amount: int) -> Operations:
    yield Evict(amount)


@_way("inc_ref", "handles")
def _lock(past: Past, back: int) -> Operations:
    yield past.lock(back)


@_way("dec_ref", "locks")
def _unlock(past: Past, back: int) -> Operations:
    yield past.unlock(latest(past.locks, back))


@_way("dec_ref", "misusable")
def _unlock_any(past: Past, back: int) -> Operations:
    yield past.unlock(latest(list(past.handles), back))


@_way("reset")
def _reset(past: Past, seldom: int) -> Operations:
    """Mostly do nothing: or no trace would grow old."""
    if not seldom:
        past.forget()
        yield Reset()


@_way("tick")
def _tick(past: Past, delta: int) -> Operations:
    yield Tick(delta)


# ---- pools -------------------------------------------------------------------------------


@_way("alloc")
def _alloc(past: Past, pages: int, share: int) -> Operations:
    """Take a few pages, half of the pool, all of it, or a page more than it has."""
    size, half = past.page_size, past.capacity // past.page_size // 2 * past.page_size
    wanted = (pages * size, half, past.capacity, past.capacity + size)[share]
    yield Alloc(wanted, past.handle(((), ())))


@_way("free", "handles")
def _free(past: Past, back: int, start: int, pages: int, times: int = 0) -> Operations:
    yield Free(latest(list(past.handles), back), *past.part(start, pages), 1 + times)


@_way("add_refs", "handles")
def _add_refs(past: Past, back: int, start: int, pages: int) -> Operations:
    yield AddRefs(latest(list(past.handles), back), *past.part(start, pages))


# ---- requests ----------------------------------------------------------------------------


@_way("arrive")
def _arrive(
    past: Past, back: int, dropped: int, then: bytes, most: int, namespace: Namespace = ()
) -> Operations:
    yield past.arrive(past.key(back, dropped, then, namespace), most)


@_way("arrive admit prefill decode finish")
def _serve(
    past: Past, back: int, dropped: int, then: bytes, most: int, namespace: Namespace = ()
) -> Operations:
    """Take one request from its arrival to its end."""
    yield past.arrive(past.key(back, dropped, then, namespace), most)
    request = past.waiting.pop()
    yield Admit(request)
    yield Prefill(request)
    for place in range(most):
        yield Decode(request, past.alphabet[place % len(past.alphabet)])
    yield Finish(request)


@_way("schedule")
def _schedule(past: Past, order: QueueOrder, most: int) -> Operations:
    yield Schedule(order, most)


@_way("match", "waiting")
def _match_waiting(past: Past, back: int) -> Operations:
    yield MatchRequest(latest(past.waiting, back))


@_way("admit", "waiting")
def _admit(past: Past, back: int) -> Operations:
    yield Admit(past.moved(past.waiting, back, past.running))


@_way("prefill", "running")
def _prefill(past: Past, back: int, pages: int) -> Operations:
    request = latest(past.running, back)
    yield Prefill(request, pages * past.page_size) if pages else Prefill(request)


@_way("decode", "running")
def _decode(past: Past, back: int, most: int) -> Operations:
    token = past.alphabet[most % len(past.alphabet)]
    yield Decode(latest(past.running, back), token)


@_way("finish", "running")
def _finish(past: Past, back: int) -> Operations:
    yield Finish(past.moved(past.running, back))


@_way("abort", "running")
def _abort(past: Past, back: int) -> Operations:
    yield Abort(past.moved(past.running, back))


@_way("abort", "waiting")
def _abort_waiting(past: Past, back: int) -> Operations:
    yield Abort(past.moved(past.waiting, back))


@_way("retract", "running")
def _retract(past: Past, back: int) -> Operations:
    yield Retract(past.moved(past.running, back, past.waiting))


@_way("starve")
def _starve(past: Past, most: int) -> Operations:
    yield Starve(most)


@_way("interrupt")
def _interrupt(past: Past, most: int) -> Operations:
    yield Interrupt(most)


@_way("idle")
def _idle(past: Past) -> Operations:
    """Let everybody end who runs, and look at what is left."""
    while past.running:
        yield Abort(past.running.pop())
    yield Idle()


# -------------------------------------------------------------------------------- what is drawn

FEW = st.integers(0, 3)

ALWAYS: Numbers = {
    "back": st.integers(0, 15),
    "dropped": st.sampled_from((0, 0, 0, 0, 1, 1, 1, 2, 2, 3, 3, 4, 5, 6, 7, 9, 12, 24, 40)),
    "then": st.binary(max_size=LONGEST_RUN),
    "seldom": st.integers(0, 7),
    "amount": st.sampled_from((1, 1, 1, 1, 2, 2, 3, 5, 8, 16, 50, 1_000_000, 0)),
    "pages": st.integers(0, 4),
    "share": FEW,
    "start": FEW,
    "most": st.integers(0, 5),
    "order": st.sampled_from(get_args(QueueOrder)),
}
"""What is drawn for a parameter of that name, whatever the target."""

ALPHABET = st.sampled_from(ALPHABETS)
"""The tokens that the keys of a trace are made of."""


def numbers(arenas: Iterable[Arena]) -> Numbers:
    """Return what is drawn for a parameter, where at least one of `arenas` has a use for it."""
    capabilities = [arena.capabilities for arena in arenas]
    most_names = max(MOST_NAMES[getattr(can, "namespaces", "absent")] for can in capabilities)
    clocks = [getattr(can, "clock", "own") for can in capabilities]
    drawn = dict(ALWAYS, delta=st.sampled_from(max((DELTAS[each] for each in clocks), key=len)))
    if most_names:
        names = [each for each in NAMESPACES if len(each) <= most_names]
        drawn["namespace"] = st.sampled_from([names[0]] * COMMON + names[1:])
    if any(getattr(can, "priorities", "absent") == "present" for can in capabilities):
        drawn["priority"] = st.sampled_from((0, 1, 2, 5, -3))
    if any(getattr(can, "ownership", "exclusive") == "counted" for can in capabilities):
        drawn["times"] = FEW
    return drawn


def ways(arenas: Sequence[Arena], only: Iterable[str] | None = None) -> dict[str, Numbers]:
    """Return what is drawn for each way that at least one of `arenas` can go.

    Args:
        only: the kinds of operation that are wanted.

    Raises:
        ValueError: one of these is none that the arenas know, or they all need an earlier one.
    """
    kinds = {kind for kind in _kinds() if any(_can_do(arena, kind) for arena in arenas)}
    wanted = kinds if only is None else set(only)
    for kind in wanted - kinds:
        raise ValueError(f"no operation {kind!r} here: choose of {', '.join(sorted(kinds))}")
    chosen = {name: way for name, way in WAYS.items() if way.kinds <= wanted}
    if all(way.needs for way in chosen.values()):
        raise ValueError(f"{', '.join(sorted(wanted))}: none of these can begin a trace")
    drawn = numbers(arenas)
    return {
        name: {each: drawn[each] for each in _parameters(way) if each in drawn}
        for name, way in chosen.items()
    }


def _kinds() -> set[str]:
    return set().union(*(way.kinds for way in WAYS.values()))


def _parameters(way: Way) -> list[str]:
    return list(inspect.signature(way.go).parameters)[1:]


def _can_do(arena: Arena, kind: str) -> bool:
    """Tell whether such an operation is more than skipped."""
    can: Any = arena.capabilities
    promised = {
        "tick": getattr(can, "clock", "own") != "own",
        "add_refs": getattr(can, "ownership", "") == "counted",
        "interrupt": getattr(can, "interrupted_evict", "") == "loses-nothing",
    }
    lacks = set(arena.level.methods) - arena.operations
    return kind in arena.level.kinds - lacks and promised.get(kind, True)


# ------------------------------------------------------------------------------------ strategies


def operations(
    arena: Arena, only: Iterable[str] | None, max_size: int, *, misuse: bool = False
) -> SearchStrategy[tuple[AnyOperation, ...]]:
    """Draw the operations of one trace, of all kinds or `only` some, and no audit at the end."""
    steps = st.one_of(
        [
            st.tuples(st.just(name), st.fixed_dictionaries(dict(drawn)))
            for name, drawn in ways([arena], only).items()
        ]
    )
    drawn = st.sampled_from((0, max_size // 4, max_size // 2, max_size)).flatmap(
        lambda length: st.lists(steps, min_size=length, max_size=max_size)
    )
    return st.builds(
        lambda *made: tuple(islice(_made(arena, *made, misuse=misuse), max_size)), ALPHABET, drawn
    )


def _made(
    arena: Arena, alphabet: Sequence[int], steps: Iterable[tuple[str, Any]], *, misuse: bool
) -> Iterator[AnyOperation]:
    """Yield one operation after the other; what has nothing to refer to is left out."""
    past = Past(arena, alphabet, misuse=misuse)
    for name, drawn in steps:
        if WAYS[name].is_open(past):
            yield from WAYS[name].go(past, **drawn)
