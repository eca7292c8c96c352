"""The model against the plainest table of prefixes, and the few things that it must remember."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from radixcheck.capabilities import Capabilities
from radixcheck.operations import Tokens
from radixcheck.reference.model import Model
from radixcheck.reference.positions import Position


def stored(model: Model, tokens: Tokens) -> int:
    return model.find(tokens, ()).length


def insert(model: Model, tokens: Tokens, now: float = 1, first_slot: int = 1000) -> None:
    slots = list(range(first_slot, first_slot + len(tokens)))
    model.inserted(model.find(tokens, ()).end, tokens, slots, (), 0, now)


def evict(model: Model, tokens: Tokens) -> None:
    """Remove the last page of `tokens`, as an eviction of a leaf does."""
    model.find(tokens[: -model.page_size], ())  # cuts the last page off
    model.evicted(model.find(tokens, ()).path[-1:])


@pytest.mark.parametrize("page_size", [1, 2, 3])
def test_it_stores_what_a_table_of_prefixes_stores(page_size: int) -> None:
    rng, table = Random(page_size), set[Tokens]()
    model = Model(Capabilities(page_size=page_size))
    for step in range(400):
        tokens = tuple(rng.randrange(2) for _ in range(rng.randrange(9)))
        whole = [tokens[:end] for end in range(page_size, len(tokens) + 1, page_size)]
        known = [prefix for prefix in whole if prefix in table]
        assert stored(model, tokens) == (len(known[-1]) if known else 0)
        if rng.random() < 0.6:
            insert(model, tokens, step, step * 10)
            table.update(whole)
        elif known and not any(other[: len(known[-1])] == known[-1] != other for other in table):
            evict(model, known[-1])
            table.remove(known[-1])
        assert model.total_tokens == len(table) * page_size
        assert {key for _, key, _ in model.leaves()} <= table


def test_slots_come_back_in_the_order_of_the_tokens() -> None:
    model = Model(Capabilities(page_size=2))
    insert(model, (1, 2, 3, 4, 5), first_slot=10)
    assert model.find((1, 2, 3, 4), ()).slots == [10, 11, 12, 13]


def test_namespaces_share_nothing() -> None:
    model = Model(Capabilities(namespaces="structured"))
    model.inserted(None, (1, 2), [5, 6], ("ab", "c"), 0, 1)
    assert model.find((1, 2), ("a", "bc")).length == 0
    assert model.find((1, 2), ("ab", "c")).length == 2


def test_a_lock_covers_every_prefix_and_two_locks_cover_it_once() -> None:
    model = Model(Capabilities())
    insert(model, (1, 2, 3))
    short, whole = (model.handle(model.find(key, ()).end) for key in ((1, 2), (1, 2, 3)))
    covered = [
        model.lock(whole, 2),
        model.lock(short, 3),
        model.unlock(whole, 4),
        model.unlock(short, 5),
    ]
    assert covered == [3, 0, 1, 2]
    assert model.evictable_tokens == 3


def test_a_handle_survives_a_fork_and_dies_with_its_prefix() -> None:
    model = Model(Capabilities())
    insert(model, (1, 2, 3))
    handle = model.handle(model.find((1, 2, 3), ()).end)
    insert(model, (1, 2, 9), first_slot=50)
    assert handle.alive
    evict(model, (1, 2, 3))
    assert not handle.alive


def test_where_a_match_cuts_nothing_a_lock_may_reach_down_to_the_next_branch() -> None:
    model = Model(Capabilities(match_splits=False))
    insert(model, (1, 2, 3, 4))
    handle = model.handle(model.find((1, 2), ()).end)
    model.lock(handle, 2)
    assert (model.covered_tokens, model.maybe_tokens) == (2, 2)
    insert(model, (1, 2, 3, 9), first_slot=50)
    assert (model.covered_tokens, model.maybe_tokens) == (2, 2)
    model.unlock(handle, 3)
    assert (model.covered_tokens, model.maybe_tokens) == (0, 0)


def test_an_evicted_parent_that_keeps_a_child_is_hollow_until_it_is_stored_again() -> None:
    model = Model(Capabilities(closed=False, duplicates="both-kept"))
    insert(model, (1, 2))
    model.evicted(model.find((1,), ()).path)
    assert (stored(model, (1, 2)), model.total_tokens) == (0, 1)
    insert(model, (1,), first_slot=50)
    assert (stored(model, (1, 2)), model.total_tokens) == (2, 2)


def test_a_second_copy_counts_and_leaves_alone() -> None:
    model = Model(Capabilities(duplicates="both-kept"))
    insert(model, (1,), first_slot=10)
    (position,) = model.find((1,), ()).path
    model.kept_copy(position, [20])
    assert model.total_tokens == 2
    model.drop_copy(position, position.slots)
    assert (model.total_tokens, position.slots, model.owner) == (1, [20], {20: position})


def test_a_handle_below_an_evicted_parent_dies_too() -> None:
    model = Model(Capabilities(closed=False, duplicates="both-kept"))
    insert(model, (1, 2))
    handle = model.handle(model.find((1, 2), ()).end)
    model.evicted(model.find((1,), ()).path)
    assert not handle.alive


def test_a_suffix_that_was_stored_all_along_is_stored_once_where_the_target_frees_duplicates() -> (
    None
):
    model = Model(Capabilities(closed=False, duplicates="target-frees"))
    insert(model, (1, 2))
    model.evicted(model.find((1,), ()).path)
    insert(model, (1, 2), first_slot=50)
    assert model.total_tokens == 2


def test_a_lock_surely_covers_one_copy_of_a_page_and_may_cover_the_others() -> None:
    model = Model(Capabilities(duplicates="both-kept"))
    insert(model, (1,), first_slot=10)
    path = model.find((1,), ()).path
    handle = model.handle(path[0])
    model.lock(handle, 2)
    model.kept_copy(path[0], [20])
    assert (model.evictable_tokens, model.maybe_tokens) == (1, 1)
    model.drop_copy(path[0], path[0].slots)
    assert (model.evictable_tokens, model.maybe_tokens) == (0, 0)
    model.unlock(handle, 3)
    assert (model.evictable_tokens, model.maybe_tokens) == (1, 0)


def test_a_locked_handle_survives_what_its_lock_only_may_have_covered() -> None:
    model = Model(Capabilities(match_splits=False))
    insert(model, (1, 2))
    handle = model.handle(model.find((1,), ()).end)
    model.lock(handle, 2)
    evict(model, (1, 2))
    assert handle.alive
    model.unlock(handle, 3)
    assert (model.evictable_tokens, model.maybe_tokens) == (1, 0)


KEY = (1, 2, 3)


@pytest.mark.parametrize(
    ("happens", "expected"),
    [
        (lambda model, end: model.drop_copy(end, end.slots), (2, [10, 21])),
        (lambda model, end: model.evicted([end]), (1, [10])),
        (lambda model, end: insert(model, (1, 2, 3), first_slot=50), (3, [10, 11, 52])),
        (lambda model, end: model.reset(), (0, [])),
    ],
)
def test_a_key_that_is_looked_for_twice_gets_the_answer_of_now(
    happens: Callable[[Model, Position], Any], expected: tuple[int, list[int]]
) -> None:
    model = Model(Capabilities(duplicates="both-kept", page_size=1))
    insert(model, (1, 2), first_slot=10)
    for position, slot in zip(model.find(KEY, ()).path, (20, 21), strict=True):
        model.kept_copy(position, [slot])
    end = model.find(KEY, ()).path[-1]
    happens(model, end)
    found = model.find(KEY, ())
    assert expected == (found.length, found.slots)


def test_a_run_that_was_cut_into_pages_is_found_as_pages() -> None:
    model = Model(Capabilities())
    insert(model, KEY)
    (end,) = model.find(KEY, ()).path
    model.cut_into_pages(end)
    assert [1, 2, 3] == [position.length for position in model.find(KEY, ()).path]
