"""Every trace up to a bound: each of them once, the smallest that fails, and no copy that lies."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import pytest

from radixcheck.copies import Unfaithful
from radixcheck.drivers import exhaustive
from radixcheck.drivers.exhaustive import Alphabet, Scope, Search, Shape, search
from radixcheck.hosts import Here
from radixcheck.operations import (
    AnyOperation,
    Audit,
    DecRef,
    Evict,
    IncRef,
    Insert,
    MatchPrefix,
    Reset,
    Tokens,
)
from radixcheck.registry import TargetError, resolve
from radixcheck.targets.honest import HONEST
from radixcheck.targets.liars import LIARS
from radixcheck.trace import Trace
from radixcheck.verdict import check

pytestmark = pytest.mark.slow

Operations: TypeAlias = tuple[AnyOperation, ...]

SMALL = Scope(operations=3, tokens=2, key_length=2)


def searched(spec: str, scope: Scope = SMALL, **more: Any) -> Search:
    return search(Here(resolve(spec)), scope, **more)


def without_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every trace be run from the start."""

    def refuse(*_: object) -> None:
        raise Unfaithful("not wanted")

    monkeypatch.setattr(exhaustive, "_copied", refuse)


# ---- which traces there are --------------------------------------------------------------


def enumerated(scope: Scope, alphabet: Alphabet) -> Iterator[Operations]:
    """Yield what the driver judges: its traces, and every prefix of them."""
    layer: list[tuple[Operations, Shape]] = [((), Shape())]
    for _ in range(scope.operations):
        further = [
            ((*trace, move.operation), move.shape)
            for trace, shape in layer
            for move in alphabet.moves(shape)
        ]
        yield from (trace for trace, _ in further)
        layer = [(trace, shape) for trace, shape in further if shape is not None]


def by_brute_force(scope: Scope) -> set[Operations]:
    """List every sequence of operations, and keep those that make sense, named as we name."""
    tokens = range(1, scope.tokens + 1)
    keys = [key for n in range(scope.key_length + 1) for key in product(tokens, repeat=n)]
    handles = [f"h{number}" for number in range(1, scope.operations)]
    every: list[AnyOperation] = [Audit(), Reset(), *map(Evict, scope.evictions)]
    every += [kind(key) for kind in (MatchPrefix, Insert) for key in keys]
    every += [kind(handle) for kind in (IncRef, DecRef) for handle in handles]
    return {
        named(trace)
        for length in range(1, scope.operations + 1)
        for trace in product(every, repeat=length)
        if makes_sense(trace, scope.locks)
    }


def makes_sense(trace: Operations, most_locks: int) -> bool:
    """Tell whether each handle was matched, only locks are given back, and an audit comes last."""
    matches, alive, locked = 0, set[str](), list[str]()
    for place, operation in enumerate(trace, start=1):
        match operation:
            case MatchPrefix():
                matches += 1
                alive.add(f"h{matches}")
            case Reset():
                alive, locked = set(), []
            case Audit() if place < len(trace):
                return False
            case IncRef(handle):
                locked.append(handle)
                if handle not in alive or len(locked) > most_locks:
                    return False
            case DecRef(handle):
                if handle not in locked:
                    return False
                locked.remove(handle)
            case _:
                pass
    return True


def named(trace: Operations) -> Operations:
    """Number tokens and handles as they come."""
    tokens: dict[int, int] = {}
    matches = 0
    answer: list[AnyOperation] = []
    for operation in trace:
        if isinstance(operation, MatchPrefix | Insert):
            key: Tokens = tuple(
                tokens.setdefault(each, len(tokens) + 1) for each in operation.tokens
            )
            if isinstance(operation, MatchPrefix):
                matches += 1
                answer.append(MatchPrefix(key, handle=f"h{matches}"))
            else:
                answer.append(Insert(key))
        else:
            answer.append(operation)
    return tuple(answer)


@pytest.mark.parametrize(
    "scope",
    [
        Scope(operations=2, tokens=2, key_length=2),
        Scope(operations=3, tokens=2, key_length=1, evictions=(0, 2)),
        Scope(operations=4, tokens=1, key_length=1, locks=2, evictions=()),
    ],
    ids=["keys", "evictions", "locks"],
)
def test_every_trace_in_a_scope_is_judged_once_up_to_names(scope: Scope) -> None:
    alphabet = Alphabet(scope, Here(resolve("radix")).look({}))
    traces = list(enumerated(scope, alphabet))
    assert by_brute_force(scope) == set(traces)
    assert len(traces) == len(set(traces))


def test_a_trace_with_an_operation_that_is_skipped_does_not_count() -> None:
    scope = Scope(operations=4, tokens=1, key_length=1)
    spec = "radix-paged?misuse=unspecified"  # then nobody locks what was evicted
    alphabet = Alphabet(scope, Here(resolve(spec)).look({}))
    skips = [
        trace
        for trace in enumerated(scope, alphabet)
        if {"evict", "inc_ref"} <= {operation.kind for operation in trace}
        and check(resolve(spec).open, Trace(trace, {"page_size": 1})).skipped
    ]
    assert skips
    assert searched(spec, scope).traces == len(list(enumerated(scope, alphabet))) - len(skips)


# ---- what is shared ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "page_size"),
    [("radix", 1), ("radix-paged", 2), ("radix-paged?eviction=lfu", 1)],
)
def test_copies_judge_the_same_traces_as_runs_from_the_start(
    spec: str, page_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    scope = Scope(operations=3, tokens=2, key_length=2, config={"page_size": page_size})
    shared = searched(spec, scope)
    without_copies(monkeypatch)
    single = searched(spec, scope)
    assert ("", "not wanted") == (shared.replayed_because, single.replayed_because)
    assert (shared.traces, set(shared.reached)) == (single.traces, set(single.reached))
    assert shared.runs < single.runs == single.traces


@pytest.mark.parametrize("rule", ["foreign-slot", "changed-slot", "size-drift", "eviction-order"])
def test_copies_find_as_small_a_counterexample_as_runs_from_the_start(
    rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = f"{LIARS[rule].__module__}:{LIARS[rule].__name__}"
    shared = searched(spec).smallest
    without_copies(monkeypatch)
    single = searched(spec).smallest
    assert shared is not None and single is not None
    assert (shared.trace, rule) == (single.trace, single.violation.rule)


@pytest.mark.parametrize("name", ["one-node-per-page", "cuts-when-locked", "keeps-both-copies"])
def test_an_honest_target_has_no_counterexample(name: str) -> None:
    factory = HONEST[name]
    found = searched(f"{factory.__module__}:{factory.__name__}")
    assert (None, "", True) == (found.smallest, found.replayed_because, found.finished)


HIDDEN = '''
import select

import numpy
from radixcheck.targets.radix import Radix

KEYS = {}


class Beside(Radix):
    """Keeps beside its objects what it answers by."""

    def reset(self):
        super().reset()
        KEYS.clear()

    def insert(self, tokens, slots, **more):
        KEYS[tuple(tokens)] = True
        return super().insert(tokens, slots, **more)

    def total_size(self):
        return super().total_size() if KEYS or not self._root.children else -1


class Numbers(Radix):
    """Keeps what cannot be copied for sure."""

    def __init__(self, clock=None):
        super().__init__(clock)
        self.numbers = numpy.zeros(3)


class Polls(Radix):
    """Keeps what lies outside Python."""

    def __init__(self, clock=None):
        super().__init__(clock)
        self.poll = select.poll()


class Once(Radix):
    """Breaks a rule in its tenth life only."""

    lives = 0

    def __init__(self, clock=None):
        super().__init__(clock)
        self.numbers = numpy.zeros(3)
        type(self).lives += 1

    def evictable_size(self):
        return super().evictable_size() + (self.lives == 10)
'''


@pytest.fixture
def hidden(tmp_path: Path) -> Path:
    """A file of targets that cannot be copied."""
    path = tmp_path / "hidden.py"
    path.write_text(HIDDEN)
    return path


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("Beside", "its copies do not answer as it does"),
        ("Numbers", "numpy.ndarray has its own"),
        ("Polls", "select.poll cannot be copied"),
    ],
)
def test_a_target_that_cannot_be_copied_is_run_from_the_start(
    name: str, reason: str, hidden: Path
) -> None:
    found = searched(f"{hidden}:{name}", Scope(operations=2))
    assert found.replayed_because.startswith(reason)
    assert (None, 2, found.traces) == (found.smallest, found.depth, found.runs)


def test_what_fails_only_once_is_no_counterexample(hidden: Path) -> None:
    found = searched(f"{hidden}:Once", Scope(operations=2))
    assert (None, 1, 2) == (found.smallest, found.flaky, found.depth)


# ---- what is found -----------------------------------------------------------------------


def test_the_match_bug_of_the_first_release_takes_three_operations_and_seven_tokens() -> None:
    found = searched("radix-first-release", Scope(operations=4))
    assert found.smallest is not None
    expected = (Insert((1, 1)), Insert((1, 1, 2)), MatchPrefix((1, 2), handle="h1"))
    assert (expected, 7, True) == (
        found.smallest.trace.operations,
        found.smallest.tokens,
        found.proven,
    )


def test_nothing_smaller_than_the_smallest_fails() -> None:
    scope = Scope(operations=3, tokens=2, key_length=3)
    source = resolve("radix-first-release")
    alphabet = Alphabet(scope, Here(source).look({}))
    sizes = [
        (len(trace), tokens)
        for trace in enumerated(scope, alphabet)
        if (tokens := sum(len(getattr(each, "tokens", ())) for each in trace)) < 8
        and check(source.open, Trace(trace)).violation is not None
    ]
    assert (3, 7) == min(sizes)


def test_no_longer_trace_is_tried_once_a_shorter_one_fails() -> None:
    found = searched("radixcheck.targets.liars:ShowsAnEmptyEdge", Scope(operations=6))
    assert found.smallest is not None
    assert found.depth == len(found.smallest.trace.operations)


# ---- when it ends ------------------------------------------------------------------------


def test_a_time_limit_keeps_what_was_done() -> None:
    found = searched("radix", max_time_s=0)
    assert (1, 11, 11, False) == (found.depth, found.complete, found.traces, found.finished)


def test_the_time_that_is_left_grows_with_every_layer_to_come() -> None:
    estimates: list[float] = []

    def stop(found: Search) -> None:
        if found.depth == 2 and found.left_s is not None:
            estimates.append(found.left_s)
            raise KeyboardInterrupt

    for operations in (3, 4, 5):
        searched("radix", Scope(operations=operations, key_length=1), watch=stop)
    assert sorted(estimates) == estimates and estimates[2] > 10 * estimates[0]


def test_an_interrupt_keeps_what_was_done() -> None:
    def stop(found: Search) -> None:
        if found.depth == 2 and found.traces > found.complete:
            raise KeyboardInterrupt

    found = searched("radix", watch=stop)
    assert (True, 2, False) == (found.interrupted, found.depth, found.finished)
    assert 161 == found.complete < found.traces


@pytest.mark.parametrize(
    ("spec", "scope", "message"),
    [
        ("pool-exclusive", Scope(), "judged as pool"),
        ("radix", Scope(config={"page_size": 2}), "pages of 1, not of 2"),
        ("radix", Scope(namespaces=1), "no namespaces"),
    ],
)
def test_a_target_that_is_not_made_for_a_scope_is_refused(
    spec: str, scope: Scope, message: str
) -> None:
    with pytest.raises(TargetError, match=message):
        searched(spec, scope)


@pytest.mark.parametrize("bound", ["operations", "tokens", "key_length", "locks", "namespaces"])
def test_a_bound_that_is_none_is_refused(bound: str) -> None:
    with pytest.raises(ValueError, match=f"{bound} -1"):
        msgspec.structs.replace(Scope(), **{bound: -1})


def test_namespaces_are_searched_beside_the_one_without_a_name() -> None:
    scope = Scope(operations=2, tokens=1, key_length=1, locks=0, namespaces=1, evictions=())
    found = searched("radix-paged", scope)
    with_keys, others = 2 * 2 * 2, 2  # two kinds, two keys, two namespaces; a reset, an audit
    first = with_keys + others
    assert first + (first - 1) * first == found.traces
