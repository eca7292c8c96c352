"""The order of requests: lines beside each other, times, and an end for everybody."""

from __future__ import annotations

from itertools import islice
from random import Random

from radixcheck.workloads.traffic import (
    Batch,
    Begin,
    End,
    Request,
    first,
    interleaved,
    timed,
)

A, B, C = (Request((token,), ()) for token in (1, 2, 3))


def test_a_batch_begins_only_when_the_one_before_is_answered() -> None:
    running: set[int] = set()  # 1 and 2 are of the first batch, 3 is of the second
    for event in islice(interleaved(Random(1), lambda: iter([[A, A], [B]]), 1), 100):
        if isinstance(event, End):
            running.remove(event.number)
            continue
        others = {event.number - 1} if event.number % 3 == 2 else set()
        assert others >= running
        running.add(event.number)


def test_a_line_that_is_over_makes_room_for_a_new_one() -> None:
    begun: list[list[Batch]] = []

    def line() -> list[Batch]:
        begun.append([[A]])
        return begun[-1]

    list(islice(interleaved(Random(1), lambda: iter(line()), 2), 40))
    assert len(begun) > 10


def test_lines_run_beside_each_other() -> None:
    running, most = 0, 0
    for event in islice(interleaved(Random(1), lambda: iter([[A]]), 4), 200):
        running += 1 if isinstance(event, Begin) else -1
        most = max(most, running)
    assert 4 == most


def test_times_decide_who_ends_before_whom() -> None:
    flow = timed([(0, 9, A), (1, 3, B), (3, 4, C)])
    expected = [Begin(1, A), Begin(2, B), End(2), Begin(3, C), End(3), End(1)]
    assert expected == list(flow)


def test_the_first_requests_all_end() -> None:
    flow = timed([(0, 9, A), (1, 8, B), (2, 3, C)])
    assert [Begin(1, A), Begin(2, B), End(1), End(2)] == list(first(flow, 2))
