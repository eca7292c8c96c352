"""The same room for nested calls at any depth of the stack."""

from __future__ import annotations

import sys
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from radixcheck.generate.stairs import stairs
from radixcheck.nesting import OUR_FRAMES, evenly
from radixcheck.registry import resolve
from radixcheck.targets.mutants import MUTANTS
from radixcheck.trace import Trace
from radixcheck.verdict import check


def nested(calls: int, call: Callable[[], Any]) -> Any:
    return call() if not calls else nested(calls - 1, call)


def room() -> int:
    """Count how many calls may still be nested."""
    try:
        return 1 + room()
    except RecursionError:
        return 0


@evenly()
def room_within() -> int:
    return room()


def test_there_is_as_much_room_from_anywhere() -> None:
    rooms = {nested(calls, room_within) for calls in (0, 1, 50, 400)}
    assert len(rooms) == 1


def test_there_is_more_room_than_in_a_program_of_its_own() -> None:
    assert sys.getrecursionlimit() < room_within() < sys.getrecursionlimit() + 2 * OUR_FRAMES


def test_the_limit_is_what_it_was() -> None:
    limit = sys.getrecursionlimit()
    with pytest.raises(ZeroDivisionError), evenly():
        _ = 1 // 0
    assert limit == sys.getrecursionlimit()


def test_a_limit_that_was_set_within_stays() -> None:
    limit = sys.getrecursionlimit()
    try:
        with evenly():
            sys.setrecursionlimit(limit + 500)
        assert limit + 500 == sys.getrecursionlimit()
    finally:
        sys.setrecursionlimit(limit)


def test_a_trace_overflows_at_the_same_operation_from_anywhere() -> None:
    source = resolve(MUTANTS["aibrix-2052-deep-key"].spec)
    trace = Trace(tuple(stairs(Random(1), 1)), {"page_size": 1})
    verdicts = [nested(calls, lambda: check(source.open, trace)) for calls in (0, 300)]
    rules = {verdict.violation and verdict.violation.rule for verdict in verdicts}
    assert ({"unexpected-error"}, 1) == (rules, len({each.operations for each in verdicts}))
