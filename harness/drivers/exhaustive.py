"""The driver that leaves nothing out: every trace up to a bound, the shortest first.

Traces of one operation more are made from those of the layer before. Nothing is begun anew that can
be gone on with, and nothing is judged twice::

    [] --- insert 1 --- match 1        a state is where a trace leads: target, model, handles.
       `-- match 1 ---- insert 1       What goes on from it is judged from a copy of the state,
       `-- match 2                     and traces that lead to the same state share what follows.

Two states are the same if all that can be reached from target and judge is: then every further
operation has the same answer and the same verdict. What cannot be copied (`radixcheck.copies`) is
judged from the start each time, and no two of its traces share anything.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import cached_property
from hashlib import blake2b
from itertools import count
from typing import NamedTuple, Protocol

from msgspec import Struct, field

from radixcheck.arena import Arena
from radixcheck.checker.judge import Checker
from radixcheck.clock import Clock
from radixcheck.collecting import rare_collections
from radixcheck.copies import Copies, Unfaithful
from radixcheck.hosts import Here, Host
from radixcheck.operations import (
    AnyOperation,
    Audit,
    DecRef,
    Evict,
    IncRef,
    Insert,
    MatchPrefix,
    Namespace,
    Outcome,
    Reset,
    Tokens,
)
from radixcheck.registry import Source, TargetError
from radixcheck.rules import Violation
from radixcheck.trace import Config, Trace

FINGERPRINT_BYTES = 16
"""Of so many bits is a state told from another; a mistake is less likely than one of the machine's.
"""

PROBES, PROBE_LENGTH = 24, 12
"""Traces on which going back to a copy is tried against a fresh run, and operations of each."""


class Scope(Struct, frozen=True):
    """The bound: which traces are all traces.

    Raises:
        ValueError: a bound is out of range.
    """

    operations: int = 4
    tokens: int = 2
    """Different tokens in the keys of one trace."""
    key_length: int = 3
    locks: int = 1
    """Locks that may be held at the same time."""
    evictions: tuple[int, ...] = (1,)
    """The amounts, in tokens, that an eviction may ask for."""
    namespaces: int = 0
    """Namespaces beside the one without a name."""
    config: Config = field(default_factory=dict)

    def __post_init__(self) -> None:
        least = {"operations": 1, "tokens": 1, "key_length": 0, "locks": 0, "namespaces": 0}
        for name, bound in least.items():
            if getattr(self, name) < bound:
                raise ValueError(f"{name} {getattr(self, name)}: must be {bound} or more")
        if min(self.evictions, default=0) < 0:
            raise ValueError(f"evictions {min(self.evictions)}: must be 0 or more")


class Smallest(NamedTuple):
    """The trace of the fewest operations, and of these the one of the fewest tokens, that breaks a
    rule."""

    trace: Trace
    violation: Violation
    tokens: int


class Search(Struct):
    """What a search has seen so far."""

    spec: str
    scope: Scope
    arena: Arena
    traces: int = 0
    """Traces that are judged. A prefix of a trace is one too."""
    runs: int = 0
    """Those that were run; the others lead where one of these does."""
    depth: int = 0
    """All traces of so many operations are done."""
    complete: int = 0
    """How many that are."""
    smallest: Smallest | None = None
    proven: bool = False
    """Whether nothing in the scope that is smaller breaks a rule."""
    flaky: int = 0
    """Traces that broke a rule and then did not."""
    reached: Counter[str] = field(default_factory=Counter)
    replayed_because: str = ""
    """Why every trace was run from the start; empty if none was."""
    elapsed_s: float = 0
    left_s: float | None = None
    """An estimate."""
    interrupted: bool = False

    @property
    def finished(self) -> bool:
        """Whether all that was asked for is done."""
        return self.proven or self.depth == self.scope.operations


Watch = Callable[[Search], None]
"""Called after every state, to show progress."""


class _Late(Exception):
    """The time limit has come."""


@rare_collections()
def search(
    host: Host,
    scope: Scope,
    *,
    max_time_s: float | None = None,
    watch: Watch = lambda search: None,
) -> Search:
    """Judge a tree by every trace in `scope`, up to the first number of operations at which one
    breaks a rule.

    A time limit and Ctrl-C keep what was done.

    Raises:
        TargetError: the target cannot be opened, is no tree, or is not made for such a scope.
        BadAnswer: its adapter answered what cannot be read.
    """
    seen = Search(host.source.spec, scope, _arena(host, scope))
    began = time.monotonic()

    def note(left_s: float | None) -> None:
        seen.elapsed_s, seen.left_s = time.monotonic() - began, left_s
        watch(seen)
        if max_time_s is not None and seen.traces and seen.elapsed_s >= max_time_s:
            raise _Late

    try:
        try:
            _Layers(seen, host, _copied(host, scope, seen.arena), note).run()
        except Unfaithful as reason:
            seen = Search(seen.spec, scope, seen.arena, replayed_because=str(reason))
            _Layers(seen, host, _Replayed(host, scope.config), note).run()
    except _Late:
        pass
    except KeyboardInterrupt:
        seen.interrupted = True
    seen.elapsed_s = time.monotonic() - began
    return seen


def _arena(host: Host, scope: Scope) -> Arena:
    arena, name = host.look(scope.config), host.source.name
    if arena.level.name != "tree":
        raise TargetError(f"{name} is judged as {arena.level.name}", "only a tree is searched")
    wanted = scope.config.get("page_size", 1)
    if (actual := getattr(arena.capabilities, "page_size", 1)) != wanted:
        hint = f"search it with pages of {actual}"
        raise TargetError(f"{name} has pages of {actual}, not of {wanted}", hint)
    if scope.namespaces and getattr(arena.capabilities, "namespaces", "absent") == "absent":
        raise TargetError(f"{name} has no namespaces", "search it without")
    return arena


# ---- all operations ----------------------------------------------------------------------


class Shape(NamedTuple):
    """What a trace has used up: all that decides which operations may come next."""

    choices: int = 1
    """What a key may go on with is 1 to this. Tokens are numbered as they come, so that no two
    traces differ in the names of tokens alone: one is new, the smaller ones have occurred."""
    handles: int = 0
    """Matches so far: handle ``h1`` is that of the first."""
    dead: int = 0
    """Of these, how many came before the last reset."""
    locked: tuple[int, ...] = ()


class Move(NamedTuple):
    """One operation, and how a trace goes on after it; not at all after an audit."""

    operation: AnyOperation
    shape: Shape | None
    tokens: int = 0


class Alphabet:
    """Every operation that may come next in a scope. Without locks no match needs a handle."""

    def __init__(self, scope: Scope, arena: Arena) -> None:
        self._scope = scope
        self._has = arena.operations
        self._moves: dict[Shape, tuple[Move, ...]] = {}
        self._locks = scope.locks if self._has >= {"inc_ref", "dec_ref"} else 0
        self._resets = getattr(arena.capabilities, "reset", "absent") == "present"

    def moves(self, shape: Shape) -> tuple[Move, ...]:
        """List them, short keys first."""
        if shape not in self._moves:
            self._moves[shape] = tuple(self._all(shape))
        return self._moves[shape]

    @cached_property
    def kinds(self) -> list[str]:
        """The kinds of operations that traces are made of, in the order of the vocabulary."""
        locks = ["inc_ref", "dec_ref"] if self._locks else []
        evicts = ["evict"] if "evict" in self._has and self._scope.evictions else []
        resets = ["reset"] if self._resets else []
        return ["match_prefix", "insert", *evicts, *locks, *resets, "audit"]

    def _all(self, shape: Shape) -> Iterator[Move]:
        yield from self._with_keys(shape)
        if "evict" in self._has:
            yield from (Move(Evict(amount), shape) for amount in self._scope.evictions)
        if len(shape.locked) < self._locks:
            for handle in range(shape.dead + 1, shape.handles + 1):
                locked = tuple(sorted((*shape.locked, handle)))
                yield Move(IncRef(f"h{handle}"), shape._replace(locked=locked))
        for handle in sorted(set(shape.locked)):
            rest = list(shape.locked)
            rest.remove(handle)
            yield Move(DecRef(f"h{handle}"), shape._replace(locked=tuple(rest)))
        if self._resets:
            yield Move(Reset(), shape._replace(dead=shape.handles, locked=()))
        yield Move(Audit(), None)

    def _with_keys(self, shape: Shape) -> Iterator[Move]:
        names = [("x" * number,) for number in range(1, self._scope.namespaces + 1)]
        spaces: list[Namespace] = [(), *names]
        number = shape.handles + 1
        handle = f"h{number}" if self._locks else None
        for key, choices in self._keys(shape.choices):
            inserted = shape._replace(choices=choices)
            matched = inserted._replace(handles=number) if self._locks else inserted
            for space in spaces:
                yield Move(MatchPrefix(key, space, handle), matched, len(key))
                yield Move(Insert(key, space), inserted, len(key))

    def _keys(self, choices: int) -> list[tuple[Tokens, int]]:
        """List the keys up to renaming of tokens that did not occur yet, short ones first, each
        with the choices that it leaves."""
        start: list[tuple[Tokens, int]] = [((), choices)]
        keys = layer = start
        for _ in range(self._scope.key_length):
            layer = [
                ((*key, token), max(choices, min(token + 1, self._scope.tokens)))
                for key, choices in layer
                for token in range(1, choices + 1)
            ]
            keys = keys + layer
        return keys


# ---- going on ----------------------------------------------------------------------------


class _Way(Protocol):
    """How one gets to where a trace leads."""

    reached: Counter[str]

    def stand(self, operations: Sequence[AnyOperation]) -> None:
        """Go where `operations` lead, none of which breaks a rule."""
        ...

    def judge(self, operation: AnyOperation) -> tuple[Violation | None, bool]:
        """Apply `operation` there: which rule does it break, and was it skipped?"""
        ...

    def fingerprint(self) -> Hashable:
        """Tell where the last operation has led: equal only for the same state."""
        ...


class _Copied:
    """Goes back to a copy of the state."""

    def __init__(self, source: Source, config: Config) -> None:
        clock = Clock()
        self._checker = Checker(source.open(config, clock), clock, thorough=True)
        self.reached, self._skipped = self._checker.reached, self._checker.skipped
        self._copies = Copies(self._checker, (self.reached, self._skipped))
        self._start = self._here = self._copies.save()

    def stand(self, operations: Sequence[AnyOperation]) -> None:
        self._copies.restore(self._start)
        for operation in operations:
            self._checker.apply(operation)
        self._here = self._copies.save()

    def judge(self, operation: AnyOperation) -> tuple[Violation | None, bool]:
        self._copies.restore(self._here)
        before = self._skipped.total()
        violation = self._checker.apply(operation)
        return violation, self._skipped.total() > before

    def fingerprint(self) -> bytes:
        """Judge and model remember the last key, for speed alone; let that be the same for all."""
        trial = self._checker.trial
        trial.model.find((), ())
        trial.token_buffer(())
        return blake2b(self._copies.save(), digest_size=FINGERPRINT_BYTES).digest()

    def outcomes(
        self, operations: Sequence[AnyOperation], others: Iterable[AnyOperation]
    ) -> list[Outcome]:
        """Apply `operations`, and before each of them another one, from which one goes back."""
        self._copies.restore(self._start)
        self._checker.record()
        for operation, other in zip(operations, others, strict=True):
            here = self._copies.save()
            self._checker.apply(other)
            self._copies.restore(here)
            if self._checker.apply(operation) is not None:
                break
        return [step.outcome for step in self._checker.steps]


class _Replayed:
    """Begins anew each time."""

    def __init__(self, host: Host, config: Config) -> None:
        self.reached: Counter[str] = Counter()
        self._host = host
        self._config = config
        self._before: tuple[AnyOperation, ...] = ()
        self._serial = count()

    def stand(self, operations: Sequence[AnyOperation]) -> None:
        self._before = tuple(operations)

    def judge(self, operation: AnyOperation) -> tuple[Violation | None, bool]:
        verdict = self._host.check(Trace((*self._before, operation), self._config))
        self.reached += verdict.reached
        return verdict.violation, bool(verdict.skipped)

    def fingerprint(self) -> int:
        """Take no two states for the same."""
        return next(self._serial)


def _copied(host: Host, scope: Scope, arena: Arena) -> _Copied:
    """Find out whether the target can be copied, and its copies do what it does.

    Raises:
        Unfaithful: it cannot, or they do not.
    """
    if not isinstance(host, Here) or host.source.spec.startswith("cmd:"):
        raise Unfaithful("the target lives in a process of its own")
    way, alphabet = _Copied(host.source, scope.config), Alphabet(scope, arena)
    rng = random.Random(0)
    for _ in range(PROBES):
        ours, others = (_drawn(alphabet, PROBE_LENGTH, rng) for _ in range(2))
        fresh = [step.outcome for step in host.record(Trace(ours, scope.config)).steps]
        if way.outcomes(ours, others) != fresh:
            raise Unfaithful("its copies do not answer as it does")
    return _Copied(host.source, scope.config)


def _drawn(alphabet: Alphabet, length: int, rng: random.Random) -> tuple[AnyOperation, ...]:
    operations: list[AnyOperation] = []
    shape = Shape()
    while len(operations) < length:
        move = rng.choice(alphabet.moves(shape))
        if move.shape is not None:
            operations.append(move.operation)
            shape = move.shape
    return tuple(operations)


# ---- layer by layer ----------------------------------------------------------------------


class _State(Struct, gc=False):
    """Where at least one trace leads."""

    operations: tuple[AnyOperation, ...]
    """Of the traces that lead here, the one of the fewest tokens."""
    shape: Shape
    tokens: int
    traces: int
    """How many lead here."""


class _Layers:
    """Goes on from the traces of one length to those of the next."""

    def __init__(
        self, seen: Search, host: Host, way: _Way, note: Callable[[float | None], None]
    ) -> None:
        self._seen = seen
        self._host = host
        self._way = way
        self._note = note
        self._alphabet = Alphabet(seen.scope, seen.arena)
        seen.reached = way.reached

    def run(self) -> None:
        """Judge layer after layer, up to the first in which a rule is broken."""
        seen, states = self._seen, [_State((), Shape(), 0, 1)]
        while states and not seen.finished:
            states = self._layer(states)
            seen.depth += 1
            seen.complete = seen.traces
            seen.proven = seen.smallest is not None

    def _layer(self, states: Sequence[_State]) -> list[_State]:
        """Judge all that goes on from `states`, and return where it leads."""
        further: dict[Hashable, _State] = {}
        began, longer = time.monotonic(), self._layers_left > 0
        for done, state in enumerate(states):
            spent_s = time.monotonic() - began
            self._note(self._left_s(spent_s, done, len(states), len(further)))
            self._way.stand(state.operations)
            for move in self._alphabet.moves(state.shape):
                if self._goes_on(state, move) and longer and move.shape is not None:
                    self._join(further, state, move, move.shape)
        return list(further.values())

    @property
    def _layers_left(self) -> int:
        """Layers after the one that is being judged."""
        return self._seen.scope.operations - self._seen.depth - 1

    def _left_s(self, spent_s: float, done: int, states: int, further: int) -> float | None:
        """Estimate the time that is left, if every layer grows as this one does."""
        if not done:
            return None
        growth = further / done
        later = sum(growth**layer for layer in range(1, self._layers_left + 1))
        return spent_s / done * (states - done + states * later)

    def _goes_on(self, state: _State, move: Move) -> bool:
        """Judge one operation more; tell whether there is a new trace that breaks no rule."""
        seen = self._seen
        tokens = state.tokens + move.tokens
        if seen.smallest is not None and tokens >= seen.smallest.tokens:
            return False
        violation, skipped = self._way.judge(move.operation)
        if skipped:  # the trace without it is one of the layer before
            return False
        seen.traces += state.traces
        seen.runs += 1
        if violation is None:
            return True
        self._broken((*state.operations, move.operation), tokens)
        return False

    def _broken(self, operations: tuple[AnyOperation, ...], tokens: int) -> None:
        """Take a trace for the smallest, if it breaks a rule from the start too."""
        trace = Trace(operations, self._seen.scope.config)
        violation = self._host.check(trace).violation
        if violation is not None:
            self._seen.smallest = Smallest(trace, violation, tokens)
        elif self._seen.replayed_because:
            self._seen.flaky += 1
        else:
            raise Unfaithful("a copy of it broke a rule, and the target did not")

    def _join(
        self, further: dict[Hashable, _State], state: _State, move: Move, shape: Shape
    ) -> None:
        """Note where a trace has led. If another one has led there, both go on as one."""
        key = self._way.fingerprint(), shape
        there, tokens = further.get(key), state.tokens + move.tokens
        if there is None:
            operations = (*state.operations, move.operation)
            further[key] = _State(operations, shape, tokens, state.traces)
            return
        there.traces += state.traces
        if tokens < there.tokens:
            there.operations, there.tokens = (*state.operations, move.operation), tokens
