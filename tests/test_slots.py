"""The harness's own pool."""

from __future__ import annotations

from radixcheck.slots import SlotPool


def test_what_came_back_last_is_handed_out_first() -> None:
    pool = SlotPool(1)
    first = pool.take(3)
    pool.give(first)
    assert (first, pool.take(2), pool.take(2)) == ([1, 2, 3], [3, 2], [1, 4])


def test_pages_are_whole_and_aligned() -> None:
    pool = SlotPool(4)
    assert pool.take(6) == [4, 5, 6, 7, 8, 9]
    assert pool.take(1) == [12]


def test_a_partly_used_page_comes_back_whole() -> None:
    pool = SlotPool(4)
    pool.give(pool.take(6))
    assert (pool.take(8), pool.reused) == ([8, 9, 10, 11, 4, 5, 6, 7], 2)
