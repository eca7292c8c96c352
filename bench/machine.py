"""A plain Hypothesis state machine with our key shapes and our checker, to compare rates with."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from radixcheck.checker.judge import Checker
from radixcheck.clock import Clock
from radixcheck.operations import AnyOperation, DecRef, Evict, IncRef, Insert, MatchPrefix
from radixcheck.registry import Source

EXAMPLES = 60
STEPS = 50
TOKEN = st.integers(1, 50)
FRESH_KEY = st.one_of(
    st.lists(st.integers(1, 2), max_size=40),
    st.lists(TOKEN, max_size=64),
    st.integers(0, 40).map(lambda length: list(range(1, length + 1))),
    st.tuples(TOKEN, st.integers(0, 40)).map(lambda pair: [pair[0]] * pair[1]),
)


def rate(source: Source) -> float:
    """Return the operations per second of a state machine that judges `source` with our checker."""
    applied = 0

    def count(operation: AnyOperation) -> None:
        nonlocal applied
        applied += 1

    machine = _machine(source, count)
    limits = settings(
        max_examples=EXAMPLES,
        stateful_step_count=STEPS,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    began = time.perf_counter()
    run_state_machine_as_test(machine, settings=limits)
    return applied / (time.perf_counter() - began)


def _machine(source: Source, count: Callable[[AnyOperation], None]) -> Any:
    class Cache(RuleBasedStateMachine):
        keys = Bundle("keys")

        @initialize()
        def open(self) -> None:
            clock = Clock()
            self.checker = Checker(source.open({}, clock), clock)
            self.idle: list[str] = []
            self.locked: list[str] = []
            self.names = 0

        def apply(self, operation: AnyOperation) -> None:
            count(operation)
            assert self.checker.apply(operation) is None

        @rule(target=keys, key=FRESH_KEY)
        def fresh(self, key: list[int]) -> list[int]:
            self.apply(Insert(tuple(key)))
            return key

        @rule(target=keys, key=keys, more=st.lists(TOKEN, max_size=16))
        def extend(self, key: list[int], more: list[int]) -> list[int]:
            self.apply(Insert(tuple(key + more)))
            return key + more

        @rule(key=keys, place=st.integers(0, 64), more=st.lists(TOKEN, max_size=16))
        def match(self, key: list[int], place: int, more: list[int]) -> None:
            self.names += 1
            self.idle.append(f"h{self.names}")
            self.apply(MatchPrefix(tuple(key[:place] + more), handle=self.idle[-1]))

        @precondition(lambda self: self.idle)
        @rule(place=st.integers(0, 1000))
        def lock(self, place: int) -> None:
            self.locked.append(self.idle.pop(place % len(self.idle)))
            self.apply(IncRef(self.locked[-1]))

        @precondition(lambda self: self.locked)
        @rule(place=st.integers(0, 1000))
        def unlock(self, place: int) -> None:
            self.idle.append(self.locked.pop(place % len(self.locked)))
            self.apply(DecRef(self.idle[-1]))

        @rule(num_tokens=st.sampled_from((0, 1, 2, 5, 20, 1000)))
        def evict(self, num_tokens: int) -> None:
            self.apply(Evict(num_tokens))

    return Cache
