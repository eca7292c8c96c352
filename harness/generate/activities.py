"""What is done to a cache: short stories of one to a dozen operations, told from the caller's
side."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import NamedTuple, TypeAlias

from radixcheck.generate.keys import Keys, pick
from radixcheck.operations import (
    AnyOperation,
    DecRef,
    Evict,
    IncRef,
    Insert,
    MatchPrefix,
    Namespace,
    Reset,
    Tick,
    Tokens,
)

Story: TypeAlias = Iterator[AnyOperation]

IDLE_HANDLES = 24
"""So many unlocked handles are kept at most; older ones are forgotten at random."""

MORE_THAN_THERE_IS = 1_000_000


class Request(NamedTuple):
    """A running request: it holds a lock on the prefix that it matched."""

    handle: str
    namespace: Namespace
    tokens: Tokens


class Caller:
    """The caller's own books: which handles it holds, which requests run. It never looks at an
    answer."""

    def __init__(self, rng: Random, keys: Keys, *, ranked: bool, steps_back: bool) -> None:
        self.rng = rng
        self.keys = keys
        self.idle: list[str] = []
        self.locked: list[str] = []
        """Handles, once per lock."""
        self.running: list[Request] = []
        self._names = 0
        self._priorities = (0, 0, 1, 2, 5, -3) if ranked else (0,)
        self._deltas = (0, 0, 0, 7, 1000, -1, -50) if steps_back else (0, 0, 0, 7, 1000)

    # ---- match and insert ----------------------------------------------------------------

    def match(self) -> Story:
        """Look a key up, and drop the handle."""
        yield MatchPrefix(self.keys.new(), self.keys.namespace())

    def keep(self) -> Story:
        """Look a key up, and keep the handle for later."""
        yield self._kept_match(self.keys.new(), self.keys.namespace())

    def insert(self) -> Story:
        """Store a key that was not matched before."""
        yield Insert(self.keys.new(), self.keys.namespace(), self._priority())

    def insert_again(self) -> Story:
        """Store a used key, perhaps several times in a row."""
        key, namespace = self.keys.old(), self.keys.namespace()
        for _ in range(pick(self.rng, (1, 1, 2, 4))):
            yield Insert(key, namespace, self._priority())

    def refresh(self) -> Story:
        """Use an old key once more, and evict a little: what was just used must not go first.

        Nor what was used more often than another; and seldom all of it goes on for long.
        """
        key, namespace = self.keys.old(), self.keys.namespace()
        way = self.rng.random()
        if way < 0.5:
            yield Insert(key, namespace, self._priority())
        elif way < 0.85:
            yield MatchPrefix(key, namespace)
        elif way < 0.95:
            yield from self.outnumber(key, self.keys.new(), namespace)
        else:
            yield from self.wear(namespace)
        yield from self.evict_little()

    def outnumber(self, few: Tokens, many: Tokens, namespace: Namespace) -> Story:
        """Use `few` some times, by matches or below it, and `many` more often::

            few     insert  match  match  match      or      insert  child  child  child
            many    insert  insert  insert  insert  insert  insert

        So much more often that it is no question whether a first insert counts.
        """
        yield Evict(MORE_THAN_THERE_IS)
        yield Insert(few, namespace)
        above = self.rng.random() < 0.5
        for token in (1, 2, 3):
            child = few + (token,) * self.keys.page_size
            yield Insert(child, namespace) if above else MatchPrefix(few, namespace)
        for _ in range(6):
            yield Insert(many, namespace)
        if above:
            yield Evict(3 * self.keys.page_size)

    def wear(self, namespace: Namespace) -> Story:
        """Store two old keys and evict one, again and again: whatever a cache only marks as out of
        date piles up."""
        for _ in range(24):
            yield Insert(self.keys.old(), namespace)
            yield Insert(self.keys.old(), namespace)
            yield Evict(1)

    def fan_out(self) -> Story:
        """Give one prefix many children."""
        prefix, namespace = pick(self.rng, self.keys.prompts), self.keys.namespace()
        first = int(self.rng.random() * 1000)
        for token in range(first, first + pick(self.rng, (5, 5, 17, 17, 49, 260))):
            yield Insert(prefix + (token,) * self.keys.page_size, namespace)

    # ---- requests ------------------------------------------------------------------------

    def begin_request(self) -> Story:
        """Match a prompt and lock what was found."""
        key, namespace = self.keys.new(), self.keys.namespace()
        match = self._kept_match(key, namespace)
        yield match
        handle = self.idle.pop()
        self.running.append(Request(handle, namespace, key))
        yield IncRef(handle)

    def finish_request(self) -> Story:
        """Store what a request computed, handing its lent slots back; then unlock, or go on as the
        next turn."""
        if not self.running:
            yield from self.begin_request()
            return
        request = self.running.pop(int(self.rng.random() * len(self.running)))
        answer = self.keys.grow(request.tokens) if self.rng.random() < 0.6 else request.tokens
        yield Insert(answer, request.namespace, self._priority(), request.handle)
        if self.rng.random() < 0.3:
            match = self._kept_match(answer, request.namespace)
            yield match
            following = self.idle.pop()
            yield IncRef(following)
            self.running.append(Request(following, request.namespace, answer))
        yield DecRef(request.handle)
        self._keep(request.handle)

    # ---- locks ---------------------------------------------------------------------------

    def lock(self) -> Story:
        """Lock an idle handle, however old."""
        if not self.idle:
            yield from self.keep()
        handle = self.idle.pop(int(self.rng.random() * len(self.idle)))
        self.locked.append(handle)
        yield IncRef(handle)

    def lock_twice(self) -> Story:
        """Lock one handle twice: a fresh one, or one that is locked already."""
        if not self.locked or self.rng.random() < 0.5:
            yield from self.keep()
            self.locked.append(self.idle.pop())
            yield IncRef(self.locked[-1])
            handle = self.locked[-1]
        else:
            handle = pick(self.rng, self.locked)
        self.locked.append(handle)
        yield IncRef(handle)

    def unlock(self) -> Story:
        """Give back any lock, whatever the order in which they were taken."""
        if not self.locked:
            yield from self.lock()
        handle = self.locked.pop(int(self.rng.random() * len(self.locked)))
        yield DecRef(handle)
        if handle not in self.locked:
            self._keep(handle)

    def misuse(self) -> Story:
        """Unlock what is not locked. Only for targets that promise an answer, or on demand."""
        if self.idle:
            yield DecRef(pick(self.rng, self.idle))

    # ---- evictions -----------------------------------------------------------------------

    def evict_little(self) -> Story:
        """Ask for a few tokens, mostly less than a leaf."""
        yield Evict(pick(self.rng, (1, 1, 1, 2, 3, 5, 8, 2 * self.keys.page_size)))

    def evict_much(self) -> Story:
        """Ask for a large part of the cache, or for more than there is."""
        yield Evict(pick(self.rng, (20, 50, 100, 300, MORE_THAN_THERE_IS)))

    def evict_nothing(self) -> Story:
        """Ask for 0 tokens."""
        yield Evict(0)

    def siege(self) -> Story:
        """Lock a prefix, evict all the rest, and ask for more when everything is locked."""
        yield from self.lock()
        yield Evict(MORE_THAN_THERE_IS)
        yield Evict(pick(self.rng, (1, 5)))
        yield Insert(self.keys.old(), self.keys.namespace(), self._priority())

    def resurrect(self) -> Story:
        """Let the prefix of a handle die, and store it again: the handle must stay dead."""
        key, namespace = self.keys.old(), self.keys.namespace()
        yield Insert(key, namespace, self._priority())
        yield self._kept_match(key, namespace)
        yield Evict(MORE_THAN_THERE_IS)
        yield Insert(key, namespace, self._priority())

    def pressure(self) -> Story:
        """Store and evict in turn, so that slots change hands quickly."""
        for _ in range(pick(self.rng, (2, 3, 5))):
            key = self.keys.new()
            yield Insert(key, self.keys.namespace(), self._priority())
            yield Evict(max(1, len(key) + pick(self.rng, (-2, 0, 1))))

    # ---- the rest ------------------------------------------------------------------------

    def tick(self) -> Story:
        """Hold the clock, let it jump, or set it back, and do something at the new reading."""
        yield Tick(pick(self.rng, self._deltas))
        yield from self.insert_again() if self.rng.random() < 0.5 else self.match()

    def tie(self) -> Story:
        """Leave two entries of the same age, and ask for one of them."""
        yield Evict(MORE_THAN_THERE_IS)
        yield Insert(self.keys.new(), self.keys.namespace(), self._priority())
        yield Tick(0)
        yield Insert(self.keys.new(), self.keys.namespace(), self._priority())
        yield Evict(1)

    def reset(self) -> Story:
        """Forget everything, what was asked for just before too. The caller's handles are dead."""
        match = MatchPrefix(self.keys.old(), self.keys.namespace())
        yield match
        yield Reset()
        yield match
        self.idle.clear()
        self.locked.clear()
        self.running.clear()

    def _priority(self) -> int:
        return pick(self.rng, self._priorities)

    def _kept_match(self, key: Tokens, namespace: Namespace) -> MatchPrefix:
        self._names += 1
        name = f"h{self._names}"
        self._keep(name)
        return MatchPrefix(key, namespace, name)

    def _keep(self, handle: str) -> None:
        """Remember an idle handle, as the last one."""
        if len(self.idle) >= IDLE_HANDLES:
            self.idle.pop(int(self.rng.random() * len(self.idle)))
        self.idle.append(handle)


STORIES: dict[str, Callable[[Caller], Story]] = {
    "match": Caller.match,
    "keep": Caller.keep,
    "insert": Caller.insert,
    "insert-again": Caller.insert_again,
    "refresh": Caller.refresh,
    "fan-out": Caller.fan_out,
    "begin-request": Caller.begin_request,
    "finish-request": Caller.finish_request,
    "lock": Caller.lock,
    "lock-twice": Caller.lock_twice,
    "unlock": Caller.unlock,
    "evict-little": Caller.evict_little,
    "evict-much": Caller.evict_much,
    "evict-nothing": Caller.evict_nothing,
    "siege": Caller.siege,
    "resurrect": Caller.resurrect,
    "pressure": Caller.pressure,
    "tick": Caller.tick,
    "tie": Caller.tie,
    "reset": Caller.reset,
    "misuse": Caller.misuse,
}
