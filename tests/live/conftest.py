"""Whoever calls a living cache in these tests: the checker itself, with a seed's operations. So it
is known what is called, and that the cache is right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import pytest

from radixcheck.checker import Checker
from radixcheck.clock import Clock
from radixcheck.generate import generate
from radixcheck.operations import AnyOperation
from radixcheck.rules import Violation

Serve: TypeAlias = Callable[[Any, Sequence[AnyOperation]], Violation | None]
Traffic: TypeAlias = Callable[..., tuple[AnyOperation, ...]]


@pytest.fixture
def serve() -> Serve:
    """Call a target, up to the first violation."""
    return _serve


@pytest.fixture
def traffic() -> Traffic:
    """Return what a run would try on a target: called with it, a seed and a number."""
    return _traffic


def _serve(target: Any, operations: Sequence[AnyOperation]) -> Violation | None:
    caller = Checker(target, Clock())
    for operation in operations:
        if (violation := caller.apply(operation)) is not None:
            return violation
    return None


def _traffic(target: Any, seed: int, num_operations: int = 300) -> tuple[AnyOperation, ...]:
    return generate(seed, target.capabilities, num_operations)
