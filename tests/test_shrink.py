"""The shrinker alone: predicates on the trace itself, and a small cache with liars made from it."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from itertools import chain, product, takewhile
from os.path import commonprefix
from typing import Any, NamedTuple, TypeAlias
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radixcheck.operations import (
    Admit,
    Alloc,
    AnyOperation,
    Arrive,
    Audit,
    DecRef,
    Evict,
    Finish,
    Free,
    IncRef,
    Insert,
    MatchPrefix,
    Namespace,
    Reset,
    Tick,
    Tokens,
)
from radixcheck.shrink import (
    PASSES,
    Shrunk,
    Supports,
    is_simpler,
    passes_for,
    shrink,
    tell_apart,
)
from radixcheck.trace import MAX_TOKEN, Found, Trace, dumps

Predicate: TypeAlias = Callable[[Trace], bool]
Position: TypeAlias = tuple[Namespace, Tokens]

TYPICAL_STEPS = 150
NAMESPACES: list[Namespace] = [(), ("a",), ("ab", "c"), ("a", "bc")]
PAGE_SIZES: Supports = {"page_size": [1, 2, 4, 16]}


def trace_of(*operations: AnyOperation, **config: Any) -> Trace:
    """Write a trace as its operations."""
    return Trace(operations, config)


def haystack(seed: int, size: int = 150, **config: Any) -> Trace:
    """Make random operations: keys of up to 64 tokens that branch off each other, and locks."""
    choose = random.Random(seed)
    keys: list[Tokens] = [()]
    operations: list[AnyOperation] = []
    for number in range(size):
        known = choose.choice(keys)
        tail = tuple(choose.randrange(100) for _ in range(choose.randrange(24)))
        keys.append((known[: choose.randrange(len(known) + 1)] + tail)[:64])
        key, namespace = choose.choice(keys[-2:]), choose.choice(NAMESPACES)
        handle = f"h{number - choose.randrange(8)}"
        weights: dict[AnyOperation, float] = {
            Insert(key, namespace, priority=choose.randrange(-3, 3)): 8,
            Insert(key, namespace, lent=handle): 1,
            MatchPrefix(key, namespace, f"h{number}"): 9,
            Evict(choose.choice([1, 9, 40])): 4,
            IncRef(handle): 9,
            DecRef(handle): 4,
            Tick(choose.randrange(-2, 3)): 1,
            Reset(): 0.2,
        }
        operations += choose.choices(list(weights), list(weights.values()))
    return Trace(tuple(operations), config)


# A cache that is a table of prefixes, and liars that each get one thing wrong


class Cache:
    """Every stored prefix of whole pages, with the time at which it was last used."""

    def __init__(self, page_size: int = 1) -> None:
        self.page_size, self.now = page_size, 0
        self.used: dict[Position, int] = {}
        self.locks: Counter[Position] = Counter()
        self.handles: dict[str | None, list[Position]] = {}

    def answer(self, operation: AnyOperation) -> object:
        """Do what `operation` says, or nothing if there is no such thing here."""
        self.now += 1
        method = getattr(self, operation.kind, None)
        return method(operation) if method else None

    def prefixes(self, namespace: Namespace, tokens: Tokens) -> list[Position]:
        """All prefixes of whole pages, short ones first."""
        lengths = range(self.page_size, len(tokens) + 1, self.page_size)
        return [(namespace, tokens[:length]) for length in lengths]

    def stored(self, operation: MatchPrefix | Insert) -> list[Position]:
        """Those prefixes of the key that are in the table."""
        return list(
            takewhile(self.used.__contains__, self.prefixes(operation.namespace, operation.tokens))
        )

    def match_prefix(self, operation: MatchPrefix) -> int:
        """Answer how many tokens are stored."""
        found = self.stored(operation)
        self.used.update(dict.fromkeys(found, self.now))
        self.handles[operation.handle] = found
        return len(found) * self.page_size

    def insert(self, operation: Insert) -> int:
        """Answer how many tokens were stored before."""
        found = self.stored(operation)
        prefixes = self.prefixes(operation.namespace, operation.tokens)
        self.used.update(dict.fromkeys(prefixes, self.now))
        return len(found) * self.page_size

    def evict(self, operation: Evict) -> list[Tokens]:
        """Take one leaf after the other, and answer which."""
        freed: list[Position] = []
        while len(freed) * self.page_size < operation.num_tokens and (leaves := self.leaves()):
            freed.append(self.victim(leaves))
            del self.used[freed[-1]]
        return [tokens for _, tokens in freed]

    def leaves(self) -> list[Position]:
        """The unlocked prefixes that no other extends."""
        inner = {(namespace, tokens[: -self.page_size]) for namespace, tokens in self.used}
        return [place for place in self.used if place not in inner and not self.locks[place]]

    def victim(self, leaves: list[Position]) -> Position:
        """The leaf to go first."""
        return min(leaves, key=self.used.__getitem__)

    def inc_ref(self, operation: IncRef) -> None:
        """Lock all that the handle covers, if it is still there."""
        self.locks.update(self.covered(operation.handle))

    def dec_ref(self, operation: DecRef) -> None:
        """Give back one lock, if there is one."""
        self.locks -= Counter(self.covered(operation.handle))

    def covered(self, handle: str) -> list[Position]:
        """What a live handle covers."""
        prefixes = self.handles.get(handle, [])
        return prefixes if all(prefix in self.used for prefix in prefixes) else []

    def reset(self, operation: Reset) -> None:
        """Forget everything."""
        for table in (self.used, self.locks, self.handles):
            table.clear()


class IgnoresNamespaces(Cache):
    """Stores all keys in one namespace."""

    def prefixes(self, namespace: Namespace, tokens: Tokens) -> list[Position]:
        return super().prefixes((), tokens)


class GluesNamespaces(Cache):
    """Knows a namespace by its strings, one after the other."""

    def prefixes(self, namespace: Namespace, tokens: Tokens) -> list[Position]:
        return super().prefixes(("".join(namespace),), tokens)


class WalksOn(Cache):
    """Parts from a key in its middle, and goes on with what a longer key has behind it."""

    def __init__(self, page_size: int = 1) -> None:
        super().__init__(page_size)
        self.keys: list[Tokens] = []

    def insert(self, operation: Insert) -> int:
        self.keys.append(operation.tokens)
        return super().insert(operation)

    def match_prefix(self, operation: MatchPrefix) -> int:
        length = super().match_prefix(operation)
        parted, rest = operation.tokens[:length], operation.tokens[length:]
        near = [key for key in self.keys if length and key[:length] == parted]
        behind = {
            long[len(short)]
            for short in near
            for long in near
            if length < len(short) < len(long) and long[: len(short)] == short
        }
        return length + 1 if rest and rest[0] in behind else length


class AnswersHalfPages(Cache):
    """Counts the tokens that match, and not the pages."""

    def match_prefix(self, operation: MatchPrefix) -> int:
        super().match_prefix(operation)
        known = [tokens for namespace, tokens in self.used if namespace == operation.namespace]
        return max((len(commonprefix([tokens, operation.tokens])) for tokens in known), default=0)


class TakesZeroForNothing(Cache):
    """Ends a key at its first 0."""

    def prefixes(self, namespace: Namespace, tokens: Tokens) -> list[Position]:
        return super().prefixes(namespace, tuple(takewhile(bool, tokens)))


class ComparesOneByte(Cache):
    """Sees only the last bits of a token."""

    def prefixes(self, namespace: Namespace, tokens: Tokens) -> list[Position]:
        return super().prefixes(namespace, tuple(token % 32 for token in tokens))


class EvictsLocked(Cache):
    """Evicts what is locked."""

    def inc_ref(self, operation: IncRef) -> None:
        pass


class CountsOneLock(Cache):
    """Takes a second lock for the first."""

    def inc_ref(self, operation: IncRef) -> None:
        fresh = [place for place in self.covered(operation.handle) if not self.locks[place]]
        self.locks.update(fresh)


class EvictsNewest(Cache):
    """Evicts what was used last."""

    def victim(self, leaves: list[Position]) -> Position:
        return max(leaves, key=self.used.__getitem__)


class EvictsAnyOfMany(Cache):
    """Keeps the order only while there are few leaves."""

    def victim(self, leaves: list[Position]) -> Position:
        return super().victim(leaves if len(leaves) < 4 else leaves[-1:])


class EvictsFiveAtMost(Cache):
    """Never evicts more than five tokens."""

    def evict(self, operation: Evict) -> list[Tokens]:
        return super().evict(Evict(min(operation.num_tokens, 5)))


class ForgetsToReset(Cache):
    """Keeps what is stored in a namespace."""

    def reset(self, operation: Reset) -> None:
        self.used = {place: used for place, used in self.used.items() if place[0]}


def lie(liar: type[Cache], trace: Trace) -> tuple[str, int] | None:
    """Find the first operation that `liar` answers as no honest cache does: its kind and place."""
    size = int(trace.config.get("page_size", 1))
    honest, dishonest = Cache(size), liar(size)
    for place, operation in enumerate(trace.operations):
        if honest.answer(operation) != dishonest.answer(operation):
            return operation.kind, place
    return None


def lies(liar: type[Cache], kind: str) -> Predicate:
    """Say whether the first lie about a trace is about an operation of this kind."""
    return lambda trace: (lie(liar, trace) or ("", 0))[0] == kind


def cut_behind_the_lie(liar: type[Cache], trace: Trace) -> Trace:
    """Keep a trace up to the first lie."""
    _, place = lie(liar, trace) or ("", -1)
    return trace.replace(operations=trace.operations[: place + 1])


class Caught(NamedTuple):
    """A liar, a haystack that catches it, and the simplest trace that does."""

    liar: type[Cache]
    haystack: Trace
    simplest: Trace


LOCKED = (Insert((1,)), MatchPrefix((1,), handle="h1"), IncRef("h1"))
GLUED = ("a", "bc"), ("ab", "c")

CAUGHT = [
    Caught(
        IgnoresNamespaces, haystack(24), trace_of(Insert((1,)), MatchPrefix((1,), namespace=("a",)))
    ),
    Caught(GluesNamespaces, haystack(31), trace_of(*(Insert((1,), names) for names in GLUED))),
    Caught(WalksOn, haystack(30), trace_of(Insert((1, 1)), Insert((1, 1, 2)), MatchPrefix((1, 2)))),
    Caught(
        AnswersHalfPages,
        haystack(13, page_size=16),
        trace_of(Insert((1, 1)), MatchPrefix((1,)), page_size=2),
    ),
    Caught(TakesZeroForNothing, haystack(34), trace_of(Insert((0,)), MatchPrefix((0,)))),
    Caught(ComparesOneByte, haystack(2), trace_of(Insert((32,)), Evict(1))),
    Caught(EvictsLocked, haystack(36), trace_of(*LOCKED, Evict(1))),
    Caught(CountsOneLock, haystack(150), trace_of(*LOCKED, IncRef("h1"), DecRef("h1"), Evict(1))),
    Caught(EvictsNewest, haystack(34), trace_of(Insert((1,)), Insert((2,)), Evict(1))),
    Caught(
        EvictsAnyOfMany,
        haystack(43),
        trace_of(Insert((1,)), Insert((2,)), Insert((3,)), Insert((4,)), Evict(1)),
    ),
    Caught(EvictsFiveAtMost, haystack(18), trace_of(Insert((1,) * 6), Evict(6))),
    Caught(
        ForgetsToReset,
        haystack(40),
        trace_of(Insert((1,), ("a",)), Reset(), MatchPrefix((1,), ("a",))),
    ),
]


# Predicates on the trace itself


def inserts(trace: Trace) -> list[Insert]:
    """The inserts, in order."""
    return [operation for operation in trace.operations if isinstance(operation, Insert)]


def matches(trace: Trace) -> list[MatchPrefix]:
    """The matches, in order."""
    return [operation for operation in trace.operations if isinstance(operation, MatchPrefix)]


def prompts(trace: Trace) -> list[int]:
    """The tokens of all requests, in order."""
    arrivals = [each for each in trace.operations if isinstance(each, Arrive)]
    return [token for arrival in arrivals for token in arrival.tokens]


def keys(trace: Trace) -> list[Tokens]:
    """The keys of inserts and matches, in order."""
    keyed = (MatchPrefix, Insert)
    return [operation.tokens for operation in trace.operations if isinstance(operation, keyed)]


def namespaces(trace: Trace) -> list[Namespace]:
    """The namespaces of inserts and matches, in order."""
    keyed = (MatchPrefix, Insert)
    return [operation.namespace for operation in trace.operations if isinstance(operation, keyed)]


def kinds(trace: Trace) -> list[str]:
    """The kinds of the operations, in order."""
    return [operation.kind for operation in trace.operations]


def evicted(trace: Trace) -> int:
    """How much is to be evicted in all."""
    amounts = (operation for operation in trace.operations if isinstance(operation, Evict))
    return sum(evict.num_tokens for evict in amounts)


def parts_inside_an_extended_key(trace: Trace) -> bool:
    """Whether two inserts, one extending the other, precede a match that parts from both early."""
    for place, grown in enumerate(trace.operations):
        before, after = trace_of(*trace.operations[:place]), trace_of(*trace.operations[place:])
        for first in inserts(before) if isinstance(grown, Insert) else ():
            forks = [match for match in matches(after) if is_fork(first.tokens, match.tokens)]
            if forks and is_extension(*keys(trace_of(first, grown))):
                return True
    return False


def is_extension(short: Tokens, long: Tokens) -> bool:
    """Whether `long` begins with `short` and goes on."""
    return len(short) < len(long) and long[: len(short)] == short


def is_fork(one: Tokens, other: Tokens) -> bool:
    """Whether two keys have a beginning in common, and then part."""
    return 0 < len(commonprefix([one, other])) < min(len(one), len(other))


def borrows(trace: Trace) -> bool:
    """Whether an insert is lent what a match of the same two tokens or more was given."""
    return any(
        (match.handle, match.tokens) == (insert.lent, insert.tokens)
        for match, insert in product(matches(trace), inserts(trace))
        if len(match.tokens) > 1
    )


def fills_pages_and_a_rest(trace: Trace) -> bool:
    """Whether a key fills two pages, of two tokens or more, and leaves a rest."""
    size = int(trace.config["page_size"])
    return size > 1 and any(
        len(insert.tokens) > 2 * size and len(insert.tokens) % size for insert in inserts(trace)
    )


def hidden(*needle: AnyOperation, seed: int = 0, **config: Any) -> Trace:
    """Spread the operations of `needle` over a haystack."""
    hay = haystack(seed, **config).operations
    step = len(hay) // len(needle)
    parts = [(*hay[step * n : step * (n + 1)], operation) for n, operation in enumerate(needle)]
    return Trace(tuple(chain(*parts)), config)


class Hidden(NamedTuple):
    """A trace, what must stay true of it, and the simplest trace of which that is true."""

    trace: Trace
    predicate: Predicate
    simplest: Trace


LONG = tuple(range(200, 230))

HIDDEN = {
    "a match that parts inside an extended key": Hidden(
        hidden(Insert(LONG), Insert((*LONG, 7, 8, 9)), MatchPrefix((*LONG[:20], 7, 8, 9))),
        parts_inside_an_extended_key,
        trace_of(Insert((1, 1)), Insert((1, 1, 1)), MatchPrefix((1, 2))),
    ),
    "three keys that begin differently": Hidden(
        hidden(Insert((1, 5)), Insert((2, 5)), Insert((3, 5))),
        lambda trace: len({insert.tokens[:1] for insert in inserts(trace)} - {()}) >= 3,
        trace_of(Insert((1,)), Insert((2,)), Insert((3,))),
    ),
    "an insert of lent slots": Hidden(
        hidden(MatchPrefix(LONG, ("a",), "mine"), Insert(LONG, ("a",), lent="mine")),
        borrows,
        trace_of(MatchPrefix((1, 1), handle="h1"), Insert((1, 1), lent="h1")),
    ),
    "two priorities": Hidden(
        hidden(Insert(LONG, priority=-7), Insert(LONG, priority=5)),
        lambda trace: len({insert.priority for insert in inserts(trace)}) > 1,
        trace_of(Insert(()), Insert((), priority=1)),
    ),
    "a clock that runs back": Hidden(
        hidden(Tick(-30)),
        lambda trace: any(isinstance(op, Tick) and op.delta < 0 for op in trace.operations),
        trace_of(Tick(-1)),
    ),
    "many evicts": Hidden(
        hidden(Evict(3), Evict(3)), lambda trace: evicted(trace) >= 20, trace_of(Evict(20))
    ),
    "a large token": Hidden(
        hidden(Insert((1, 2, 500))),
        lambda trace: any(token > 40 for insert in inserts(trace) for token in insert.tokens),
        trace_of(Insert((41,))),
    ),
    "pages and a rest": Hidden(
        hidden(Insert((*LONG, *LONG)), page_size=16),
        fills_pages_and_a_rest,
        trace_of(Insert((1,) * 5), page_size=2),
    ),
}


# What comes out


@pytest.mark.parametrize("caught", CAUGHT, ids=lambda caught: caught.liar.__name__)
def test_a_liar_is_caught_by_the_simplest_trace_there_is(caught: Caught) -> None:
    trace = cut_behind_the_lie(caught.liar, caught.haystack)
    shrunk = shrink(trace, lies(caught.liar, trace.operations[-1].kind), PAGE_SIZES)
    assert Shrunk(caught.simplest, shrunk.steps, exhausted=False) == shrunk
    assert shrunk.steps <= TYPICAL_STEPS


@pytest.mark.parametrize("case", HIDDEN.values(), ids=HIDDEN)
def test_the_needle_is_found_in_the_haystack(case: Hidden) -> None:
    shrunk = shrink(case.trace, case.predicate, PAGE_SIZES)
    assert Shrunk(case.simplest, shrunk.steps, exhausted=False) == shrunk
    assert shrunk.steps <= TYPICAL_STEPS


def noted(predicate: Predicate, calls: list[Trace]) -> Predicate:
    """The same predicate, which also notes what it is asked about."""

    def fails(trace: Trace) -> bool:
        calls.append(trace)
        return predicate(trace)

    return fails


@pytest.mark.parametrize("case", HIDDEN.values(), ids=HIDDEN)
def test_the_same_trace_shrinks_in_the_same_way(case: Hidden) -> None:
    first, second = list[Trace](), list[Trace]()
    for calls in (first, second):
        shrink(case.trace, noted(case.predicate, calls), PAGE_SIZES)
    assert first == second


@pytest.mark.parametrize("case", HIDDEN.values(), ids=HIDDEN)
def test_no_pass_finds_anything_in_what_came_out(case: Hidden) -> None:
    shrunk = shrink(case.trace, case.predicate, PAGE_SIZES).trace
    after = {name: alone(name, shrunk, case.predicate, PAGE_SIZES) for name in PASSES}
    assert dict.fromkeys(PASSES, shrunk) == after


def test_a_trace_that_does_not_fail_is_refused() -> None:
    with pytest.raises(ValueError, match="does not fail"):
        shrink(haystack(0), lambda _: False)


def test_what_always_fails_shrinks_to_nothing() -> None:
    shrunk = shrink(haystack(0), lambda _: True)
    assert Shrunk(Trace(()), shrunk.steps, exhausted=False) == shrunk


def test_no_token_is_tried_that_a_trace_file_could_not_hold() -> None:
    trace = trace_of(Insert((MAX_TOKEN, MAX_TOKEN - 1), ("a",)), Insert((MAX_TOKEN,)), Evict(1))
    tried: list[Trace] = []
    shrink(trace, noted(lambda candidate: candidate == trace, tried))
    assert max(token for each in tried for key in keys(each) for token in key) == MAX_TOKEN


def test_misuse_is_given_up_where_it_is_not_needed() -> None:
    assert Trace(()) == shrink(Trace((Evict(1),), misuse=True), lambda _: True).trace


def test_what_is_no_operation_is_kept() -> None:
    found = Found("phantom-prefix", "match_prefix", "radix")
    trace = Trace((), {"page_size": 4, "eviction": "lfu"}, found=found)
    assert trace == shrink(trace, lambda _: True).trace


@pytest.mark.parametrize("budget", [1, 2, 7, 30])
def test_no_more_steps_are_taken_than_allowed(budget: int) -> None:
    case, calls = HIDDEN["a match that parts inside an extended key"], list[Trace]()
    shrunk = shrink(case.trace, noted(case.predicate, calls), max_steps=budget)
    assert (budget, budget, True) == (len(calls), shrunk.steps, shrunk.exhausted)
    assert case.predicate(shrunk.trace)


def test_what_fails_only_as_a_whole_costs_no_more_than_the_steps() -> None:
    trace = haystack(5)
    assert Shrunk(trace, 100, exhausted=True) == shrink(trace, trace.__eq__, max_steps=100)


# What each pass does


def alone(name: str, trace: Trace, predicate: Predicate, supports: Supports) -> Trace:
    """Let one pass run once, and return what it arrives at."""
    candidates = passes_for(supports)[name](trace)
    candidate = next(candidates, None)
    while candidate is not None:
        if is_simpler(candidate, trace, supports) and predicate(candidate):
            trace = candidate
        try:
            candidate = candidates.send(trace)
        except StopIteration:
            return trace
    return trace


def last_bits(trace: Trace) -> set[int]:
    """What a table of 64 buckets would see of the tokens."""
    return {token % 64 for key in keys(trace) for token in key}


class Example(NamedTuple):
    """What a pass makes of a trace while something stays true."""

    before: Trace
    predicate: Predicate
    after: Trace


EXAMPLES = {
    "keep_related": Example(
        trace_of(Insert((1, 2)), *(Insert((n,)) for n in range(5, 12)), MatchPrefix((1, 3))),
        lambda trace: (1, 2) in keys(trace) and (1, 3) in keys(trace),
        trace_of(Insert((1, 2)), Insert((10,)), Insert((11,)), MatchPrefix((1, 3))),
    ),
    "drop_operations": Example(
        trace_of(Insert((1,)), MatchPrefix((1,), (), "h1"), IncRef("h1"), Evict(1), Reset()),
        lambda trace: {"insert", "evict"} <= set(kinds(trace)),
        trace_of(Insert((1,)), Evict(1)),
    ),
    "drop_pairs": Example(
        trace_of(Insert((1,)), MatchPrefix((1,)), Evict(1), Reset()),
        lambda trace: kinds(trace).count("insert") == evicted(trace) and len(kinds(trace)) > 1,
        trace_of(MatchPrefix((1,)), Reset()),
    ),
    "drop_requests": Example(
        trace_of(Arrive("r1", (1,)), Admit("r1"), Arrive("r2", (2,)), Admit("r2"), Finish("r1")),
        lambda trace: "admit" in kinds(trace),
        trace_of(Arrive("r2", (2,)), Admit("r2")),
    ),
    "join_requests": Example(
        trace_of(Arrive("r1", (1,)), Admit("r1"), Arrive("r2", (2, 3)), Admit("r2")),
        lambda trace: len(prompts(trace)) == 3 and "admit" in kinds(trace),
        trace_of(Arrive("r1", (1, 2, 3)), Admit("r1")),
    ),
    "drop_locks": Example(
        trace_of(MatchPrefix((1,), (), "h1"), IncRef("h1"), Reset(), DecRef("h1"), Evict(1)),
        lambda trace: kinds(trace).count("inc_ref") == kinds(trace).count("dec_ref"),
        trace_of(MatchPrefix((1,), (), "h1"), Reset(), Evict(1)),
    ),
    "share_handles": Example(
        trace_of(
            MatchPrefix((1,), (), "h1"), MatchPrefix((1,), (), "h2"), IncRef("h1"), IncRef("h2")
        ),
        lambda trace: kinds(trace).count("inc_ref") > 1,
        trace_of(MatchPrefix((1,), (), "h1"), IncRef("h1"), IncRef("h1")),
    ),
    "join_evicts": Example(
        trace_of(Evict(2), Evict(3), Insert((1,)), Evict(4)),
        lambda trace: evicted(trace) > 8,
        trace_of(Evict(9), Insert((1,))),
    ),
    "trade_evicts": Example(
        trace_of(Insert((1, 2, 3)), Insert((4, 5)), Evict(4)),
        lambda trace: evicted(trace) == sum(map(len, keys(trace))) - 1,
        trace_of(Insert((1, 2, 3)), Evict(2)),
    ),
    "simplify_config": Example(
        trace_of(Insert((1, 2, 3, 4, 5, 6, 7, 8)), Evict(8), page_size=4),
        lambda trace: trace.config["page_size"] != 1 and len(keys(trace)[0]) == evicted(trace),
        trace_of(Insert((1, 1, 5, 2)), Evict(4), page_size=2),
    ),
    "lower_numbers": Example(
        trace_of(Insert((), priority=-7), Evict(9), Tick(-2)),
        lambda trace: abs(inserts(trace)[0].priority) > 1 and evicted(trace) > 4,
        trace_of(Insert((), priority=2), Evict(5), Tick(0)),
    ),
    "shorten_edges": Example(
        trace_of(Insert((1, 2, 3, 4)), Insert((1, 2, 3, 4, 5, 6)), MatchPrefix((1, 2, 3, 7))),
        lambda trace: is_extension(*keys(trace)[:2]) and is_fork(*keys(trace)[1:]),
        trace_of(Insert((1,)), Insert((1, 5)), MatchPrefix((1, 7))),
    ),
    "shorten_evicted": Example(
        trace_of(Insert((1, 2, 3, 4)), Evict(3)),
        lambda trace: len(keys(trace)[0]) == evicted(trace) + 1 > 1,
        trace_of(Insert((1, 2)), Evict(1)),
    ),
    "thin_edges": Example(
        trace_of(Insert((5, 6, 0)), MatchPrefix((5, 6, 0))),
        lambda trace: len(set(keys(trace))) == 1 and 0 in keys(trace)[0],
        trace_of(Insert((0,)), MatchPrefix((0,))),
    ),
    "shorten_keys": Example(
        trace_of(Insert((1, 2, 3)), MatchPrefix((1, 2, 3))),
        lambda trace: (1, 2, 3) == keys(trace)[0] and 3 in keys(trace)[1],
        trace_of(Insert((1, 2, 3)), MatchPrefix((3,))),
    ),
    "detach_keys": Example(
        trace_of(Insert((1,)), Insert((2, 1)), Insert((2, 2)), MatchPrefix((2, 2))),
        lambda trace: len(set(keys(trace))) == 3 and keys(trace)[2] == keys(trace)[3],
        trace_of(Insert((1,)), Insert((3,)), Insert((4,)), MatchPrefix((4,))),
    ),
    "reuse_keys": Example(
        trace_of(Insert((1, 2)), MatchPrefix((4, 5, 6)), MatchPrefix((4, 5, 7))),
        lambda trace: (1, 2) == keys(trace)[0] and len(keys(trace)[1]) > 1 and 7 in keys(trace)[2],
        trace_of(Insert((1, 2)), MatchPrefix((1, 2)), MatchPrefix((1, 7))),
    ),
    "simplify_namespaces": Example(
        trace_of(Insert((1,), ("one", "more")), MatchPrefix((1,), ("other",))),
        lambda trace: len({*namespaces(trace)}) == 2 and len({*keys(trace)}) == 1,
        trace_of(Insert((1,), ("a",)), MatchPrefix((1,))),
    ),
    "rename_tokens": Example(
        trace_of(Insert((9, 7)), Insert((9, 8))),
        lambda trace: is_fork(*keys(trace)),
        trace_of(Insert((1, 2)), Insert((1, 3))),
    ),
    "merge_tokens": Example(
        trace_of(Insert((1, 2)), Insert((1, 3, 4))),
        lambda trace: is_fork(*keys(trace)),
        trace_of(Insert((1, 1)), Insert((1, 2, 1))),
    ),
    "lower_tokens": Example(
        trace_of(Insert((13,)), Insert((141,))),
        lambda trace: keys(trace)[0] != keys(trace)[1] and len(last_bits(trace)) == 1,
        trace_of(Insert((1,)), Insert((65,))),
    ),
    "repeat_tokens": Example(
        trace_of(Insert((1, 2, 3, 1)), Insert((1, 2, 3, 2))),
        lambda trace: is_fork(*keys(trace)),
        trace_of(Insert((1, 1, 1, 1)), Insert((1, 1, 1, 2))),
    ),
    "drop_names": Example(
        trace_of(MatchPrefix((), (), "h1"), MatchPrefix((), (), "h2"), Insert((), lent="h2")),
        lambda trace: True,
        trace_of(MatchPrefix(()), MatchPrefix(()), Insert(())),
    ),
    "rename_handles": Example(
        trace_of(MatchPrefix((), (), "h2"), MatchPrefix((), (), "h1"), Insert((), lent="h1")),
        lambda trace: True,
        trace_of(MatchPrefix((), (), "h1"), MatchPrefix((), (), "h2"), Insert((), lent="h2")),
    ),
}


def test_every_pass_has_an_example() -> None:
    assert set(PASSES) == set(EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_pass_does_what_its_name_says(name: str) -> None:
    example = EXAMPLES[name]
    assert example.after == alone(name, example.before, example.predicate, PAGE_SIZES)


# Pools and requests


def test_a_part_that_may_be_left_out_is_left_out() -> None:
    before = trace_of(Alloc(8, "h1"), Free("h1", 2, 6, 3))
    after = trace_of(Alloc(0, "h1"), Free("h1"))
    assert after == alone("lower_numbers", before, lambda _: True, {})


def test_what_is_done_with_an_alloc_goes_with_it() -> None:
    before = trace_of(Alloc(8, "h1"), Alloc(4, "h2"), Free("h1"))
    after = trace_of(Alloc(4, "h2"))
    assert after == alone("drop_operations", before, has_h2, {})


def test_two_allocs_become_one_of_their_sum() -> None:
    before = trace_of(Alloc(3, "h1"), Alloc(2, "h2"), Free("h1"))
    after = trace_of(Alloc(5, "h1"), Free("h1"))
    assert after == alone(
        "join_evicts", before, lambda trace: allocated(trace) == 5 and "free" in kinds(trace), {}
    )


def has_h2(trace: Trace) -> bool:
    return Alloc(4, "h2") in trace.operations


def allocated(trace: Trace) -> int:
    return sum(each.num_tokens for each in trace.operations if isinstance(each, Alloc))


# Whatever the trace and the predicate

TOKENS = st.lists(st.integers(0, 3), max_size=4).map(tuple)
NAMES = st.sampled_from(["h1", "h2", "lock"])
OPERATIONS: st.SearchStrategy[AnyOperation] = st.one_of(
    st.builds(Insert, TOKENS, st.sampled_from(NAMESPACES), st.integers(-2, 2), st.none() | NAMES),
    st.builds(MatchPrefix, TOKENS, st.sampled_from(NAMESPACES), st.none() | NAMES),
    st.builds(Evict, st.integers(0, 9)),
    st.builds(IncRef, NAMES),
    st.builds(DecRef, NAMES),
    st.builds(Tick, st.integers(-3, 3)),
    st.builds(Audit, st.integers(0, 3)),
    st.just(Reset()),
)
TRACES = st.builds(
    Trace,
    st.lists(OPERATIONS, max_size=12).map(tuple),
    st.builds(dict, page_size=st.sampled_from([1, 2, 4])),
    st.booleans(),
)


@settings(max_examples=30)
@given(TRACES, st.integers(2, 5), st.integers(1, 200))
def test_what_comes_out_fails_and_is_never_worse(trace: Trace, chaos: int, budget: int) -> None:
    def fails(candidate: Trace) -> bool:
        return candidate == trace or crc32(dumps(candidate)) % chaos == 0

    calls: list[Trace] = []
    shrunk = shrink(trace, noted(fails, calls), PAGE_SIZES, budget)
    assert len(calls) == shrunk.steps <= budget
    assert fails(shrunk.trace)
    assert not is_simpler(trace, shrunk.trace, PAGE_SIZES)


@settings(max_examples=30)
@given(TRACES, st.data())
def test_the_operations_that_are_needed_are_all_that_is_left(
    trace: Trace, data: st.DataObject
) -> None:
    free = [kind for kind in kinds(trace) if not kind.endswith("_ref")]
    needed = Counter(data.draw(st.lists(st.sampled_from(free), unique=True)) if free else [])
    shrunk = shrink(trace, lambda candidate: needed <= Counter(kinds(candidate)), PAGE_SIZES)
    assert (needed, []) == (
        Counter(kinds(shrunk.trace)),
        [key for key in keys(shrunk.trace) if key],
    )


@settings(max_examples=20)
@given(TRACES, st.integers(1, 12))
def test_shrinking_again_changes_nothing(trace: Trace, tokens: int) -> None:
    wanted = min(tokens, sum(map(len, keys(trace))))
    once = shrink(trace, lambda candidate: sum(map(len, keys(candidate))) >= wanted, PAGE_SIZES)
    again = shrink(
        once.trace, lambda candidate: sum(map(len, keys(candidate))) >= wanted, PAGE_SIZES
    )
    assert once.trace == again.trace


TRACE = Trace((Insert((1, 1, 2)), Insert((1, 1)), MatchPrefix((1, 2)), Evict(1)))


def test_tokens_are_told_apart_wherever_keys_part() -> None:
    apart = Trace((Insert((1, 2, 3)), Insert((1, 2)), MatchPrefix((1, 4)), Evict(1)))
    assert tell_apart(TRACE, lambda _: True) == apart


def test_tokens_stay_alike_where_the_failure_needs_it() -> None:
    def ends_alike(trace: Trace) -> bool:
        first, _, match, _ = trace.operations
        return getattr(first, "tokens", ())[-1:] == getattr(match, "tokens", ())[-1:]

    apart = Trace((Insert((1, 2, 3)), Insert((1, 2)), MatchPrefix((1, 3)), Evict(1)))
    assert tell_apart(TRACE, ends_alike) == apart


def test_tokens_of_a_long_key_stay_as_they_are() -> None:
    long = Trace(tuple(Insert((1,) * length) for length in range(1, 200)))
    assert tell_apart(long, lambda _: True) is long
