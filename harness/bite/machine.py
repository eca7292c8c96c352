"""The peer from Hypothesis: a plain state machine, as its documentation teaches, with our checker.

Each way of `plain` is a rule, and each number that it wants is a strategy of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import HypothesisException
from hypothesis.stateful import (
    RuleBasedStateMachine,
    get_state_machine_test,
    initialize,
    precondition,
    rule,
)
from hypothesis.strategies import SearchStrategy
from msgspec.structs import replace

from radixcheck.bite.hunt import Hunt, Kill
from radixcheck.bite.plain import LENGTH, WAYS, Numbers, Past, is_open, ways
from radixcheck.clock import Clock
from radixcheck.levels import Judge
from radixcheck.operations import AnyOperation, Audit
from radixcheck.registry import resolve
from radixcheck.rules import Violation
from radixcheck.trace import Trace

MOST_EXAMPLES = 10**9
"""Time ends a hunt, and nothing else does."""


class Ended(BaseException):
    """The bug was found, or time is up. Nothing that Hypothesis would take for a failure."""


def run(hunt: Hunt) -> Kill | None:
    """Hunt until the bug is found or time is up."""
    limits = settings(phases=[Phase.generate], max_examples=MOST_EXAMPLES)
    test, ends = _test(hunt, limits)
    with until(ends):
        seed(hunt.seed)(test)()
    return ends[0] if ends else None


@contextmanager
def until(ends: list[Kill | None]) -> Iterator[None]:
    """Take the end of a hunt for no error, nor that Hypothesis finds an end in the midst of a test
    strange."""
    try:
        yield
    except (Ended, HypothesisException):
        if not ends:
            raise


def reader_of_bytes(hunt: Hunt) -> tuple[Callable[[bytes], object], list[Kill | None]]:
    """Return what lets the machine draw its choices from bytes, and where the end will be noted."""
    test, ends = _test(hunt, settings())
    read: Callable[[bytes], object] = test.hypothesis.fuzz_one_input
    return read, ends


def _test(hunt: Hunt, limits: settings) -> tuple[Any, list[Kill | None]]:
    """Return the test that Hypothesis makes of a machine, and where the end will be noted."""
    ends: list[Kill | None] = []
    limits = settings(
        limits,
        stateful_step_count=LENGTH,
        deadline=None,
        database=None,
        suppress_health_check=(HealthCheck.too_slow, HealthCheck.data_too_large),
    )
    rules = {name: _rule(name, drawn) for name, drawn in ways(hunt.arenas[0]).items()}
    shared = {"hunt": hunt, "ends": ends, "__module__": __name__}
    machine: Any = type("Machine", (_Base,), rules | shared)
    return get_state_machine_test(machine, settings=limits), ends


def _rule(name: str, drawn: Mapping[str, Numbers]) -> Any:
    def go(self: _Base, **drawn: Any) -> None:
        self.apply(WAYS[name].make(self.past, **drawn))

    go.__name__ = name
    strategies: dict[str, Any] = {each: _strategy(what) for each, what in drawn.items()}
    made: Any = rule(**strategies)
    step = made(go)
    can_go: Any = precondition(lambda self: is_open(name, self.past))
    return can_go(step) if WAYS[name].needs else step


def _strategy(what: Numbers) -> SearchStrategy[Any]:
    numbers = st.integers(what.low, what.high)
    return numbers if what.most is None else st.lists(numbers, max_size=what.most)


class _Base(RuleBasedStateMachine):
    """What the machines of all targets share."""

    hunt: Hunt
    ends: list[Kill | None]

    @initialize()
    def open(self) -> None:
        """Open a fresh target."""
        arena, source = self.hunt.arenas[0], resolve(self.hunt.mutant.spec)
        self.past, self.checkers = Past(arena), list[Judge]()
        for _ in range(self.hunt.mutant.replicas):
            clock = Clock()
            self.checkers.append(arena.level.judge(source.open(arena.config, clock), clock))
        if len(self.checkers) > 1:
            for checker in self.checkers:
                checker.record()
        self.done: list[AnyOperation] = []

    def apply(self, operation: AnyOperation) -> None:
        """Apply an operation, and see whether it is the last one of the hunt."""
        self.hunt.operations += 1
        self.done.append(operation)
        violations = [checker.apply(operation) for checker in self.checkers]
        if (violation := violations[0] or self._parting(operation)) is not None:
            config = self.hunt.arenas[0].config
            violation = replace(violation, step=len(self.done) - 1)
            self.end(Kill(Trace(tuple(self.done), config), violation))
        if self.hunt.is_over():
            self.end(None)

    def _parting(self, operation: AnyOperation) -> Violation | None:
        """Compare the answers of replicas, if there are any."""
        one, *others = ([step.outcome for step in each.steps] for each in self.checkers)
        if any(each != one for each in others):
            return Violation("divergence", operation.kind, 0, "equal answers", "others")
        return None

    def end(self, kill: Kill | None) -> NoReturn:
        """End the hunt.

        Raises:
            Ended: always.
        """
        self.ends.append(kill)
        raise Ended

    def teardown(self) -> None:
        """Look at everything once."""
        if hasattr(self, "checker") and not self.ends:
            self.apply(Audit())
