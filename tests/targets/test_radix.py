"""The first tree, and the bug of its first release."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from radixcheck.protocol import Refused
from radixcheck.targets.first_release import RadixFirstRelease
from radixcheck.targets.radix import Radix, common_prefix_tokens, read_tokens


class HeldClock:
    """A clock that shows what it is set to."""

    def __init__(self) -> None:
        self.reading = 0.0

    def __call__(self) -> float:
        return self.reading


def stored(*keys: Sequence[int], make: Callable[[], Radix] = Radix) -> Radix:
    """Return a tree that stores `keys`; the slots of the first are 10, 11, ..., then 20, 21, ..."""
    tree = make()
    for number, key in enumerate(keys, start=1):
        tree.insert(key, [10 * number + place for place in range(len(key))])
    return tree


def shape(tree: Radix) -> list[tuple[list[int], int]]:
    """Return the runs and reference counters of all nodes, in the order of their tokens."""
    return sorted((list(node.tokens), node.locks) for node in tree.dump())


def sizes(tree: Radix) -> tuple[int, int, int]:
    """Return the evictable, protected and total size."""
    return tree.evictable_size(), tree.protected_size(), tree.total_size()


def test_an_empty_tree_matches_nothing() -> None:
    length, slots, _ = Radix().match_prefix(array("q", [1, 2]))
    assert (length, slots) == (0, [])


def test_a_match_ends_where_the_key_parts_from_the_edge() -> None:
    tree = stored([1, 2, 3])
    assert tree.match_prefix([1, 2, 9])[:2] == (2, [10, 11])


def test_a_match_goes_on_below_a_whole_edge() -> None:
    tree = stored([1, 2], [1, 2, 3, 4])
    assert tree.match_prefix([1, 2, 3])[:2] == (3, [10, 11, 22])


def test_a_longer_key_does_not_walk_on_from_inside_an_edge() -> None:
    tree = stored([1, 2, 3], [1, 2, 3, 4])
    assert tree.match_prefix([1, 4])[:2] == (1, [10])


def test_a_match_cuts_the_edge_in_which_it_ends() -> None:
    tree = stored([1, 2, 3])
    tree.match_prefix([1])
    assert shape(tree) == [([1], 0), ([2, 3], 0)]


def test_an_insert_answers_what_was_stored_and_keeps_its_slots() -> None:
    tree = stored([1, 2, 3])
    answers = tree.insert([1, 2, 7], [90, 91, 92]), tree.match_prefix([1, 2, 7]).slots
    assert answers == (2, [10, 11, 92])


def test_the_second_insert_of_a_key_stores_nothing() -> None:
    tree = stored([1, 2, 3])
    assert (tree.insert([1, 2, 3], [7, 8, 9]), tree.total_size()) == (3, 3)


def test_an_empty_key_stores_no_node() -> None:
    tree = stored([])
    assert tree.dump() == []


def test_a_lock_moves_the_path_from_evictable_to_protected() -> None:
    tree = stored([1, 2, 3], [1, 2, 4, 5])
    handle = tree.match_prefix([1, 2, 4, 5]).handle
    assert (tree.inc_ref(handle), sizes(tree)) == (-4, (1, 4, 5))


def test_the_second_lock_changes_no_size_and_the_last_unlock_gives_all_back() -> None:
    tree = stored([1, 2, 3])
    handle = tree.match_prefix([1, 2, 3]).handle
    deltas = [tree.inc_ref(handle), tree.inc_ref(handle), tree.dec_ref(handle)]
    assert [*deltas, tree.dec_ref(handle), sizes(tree)] == [-3, 0, 0, 3, (3, 0, 3)]


def test_a_locked_handle_means_the_same_prefix_after_its_edge_is_cut() -> None:
    tree = stored([1, 2, 3, 4])
    handle = tree.match_prefix([1, 2, 3, 4]).handle
    tree.inc_ref(handle)
    tree.insert([1, 2, 9], [90, 91, 92])
    assert shape(tree) == [([1, 2], 1), ([3, 4], 1), ([9], 0)]
    assert (tree.evict(9).groups, tree.dec_ref(handle)) == ([[92]], 4)


def test_a_handle_of_length_0_can_be_locked_and_protects_nothing() -> None:
    tree = stored([1])
    handle = tree.match_prefix([7]).handle
    assert (tree.inc_ref(handle), tree.evict(1).groups, tree.dec_ref(handle)) == (0, [[10]], 0)


def test_the_oldest_leaf_goes_first_and_a_parent_after_its_last_child() -> None:
    tree = stored([1, 2], [1, 2, 3], [7, 8])
    tree.match_prefix([1, 2, 3])
    assert tree.evict(5).groups == [[30, 31], [22], [10, 11]]


def test_an_insert_of_a_stored_key_refreshes_it() -> None:
    tree = stored([1, 2], [7, 8], [1, 2])
    assert tree.evict(1).groups == [[20, 21]]


def test_an_eviction_overshoots_by_its_last_leaf_only() -> None:
    tree = stored([1], [2, 3], [4, 5])
    assert tree.evict(2).groups == [[10], [20, 21]]


def test_an_eviction_stops_at_locked_prefixes() -> None:
    tree = stored([1, 2, 3])
    tree.inc_ref(tree.match_prefix([1]).handle)
    assert (tree.evict(3).groups, tree.evict(3).groups, sizes(tree)) == ([[11, 12]], [], (0, 1, 1))


def test_the_injected_clock_orders_evictions() -> None:
    clock = HeldClock()
    tree = Radix(clock)
    for reading, token in ((5, 1), (3, 2), (4, 3)):
        clock.reading = reading
        tree.insert([token], [token])
    assert tree.evict(3).groups == [[2], [3], [1]]


def test_a_reset_forgets_everything() -> None:
    tree = stored([1, 2])
    tree.inc_ref(tree.match_prefix([1]).handle)
    tree.reset()
    assert (sizes(tree), tree.match_prefix([1]).length, tree.dump()) == ((0, 0, 0), 0, [])


def _unlocked_twice(tree: Radix) -> None:
    handle = tree.match_prefix([1, 2]).handle
    tree.inc_ref(handle)
    tree.dec_ref(handle)
    tree.dec_ref(handle)


def _unlocked_below(tree: Radix) -> None:
    above, below = tree.match_prefix([1]).handle, tree.match_prefix([1, 2]).handle
    tree.inc_ref(below)
    try:
        tree.dec_ref(above)
    finally:
        tree.dec_ref(below)


def _locked_after_reset(tree: Radix) -> None:
    handle = tree.match_prefix([9]).handle
    tree.reset()
    tree.insert([1, 2], [10, 11])
    tree.inc_ref(handle)


def _locked_after_eviction(tree: Radix) -> None:
    handle = tree.match_prefix([1, 2]).handle
    tree.evict(2)
    tree.insert([1, 2], [10, 11])
    tree.inc_ref(handle)


@pytest.mark.parametrize(
    "misuse", [_unlocked_twice, _unlocked_below, _locked_after_reset, _locked_after_eviction]
)
def test_misuse_is_refused_without_effect(misuse: Callable[[Radix], None]) -> None:
    tree = stored([1, 2])
    with pytest.raises(Refused):
        misuse(tree)
    assert (sizes(tree), [node.locks for node in tree.dump()]) == (
        (2, 0, 2),
        [0] * len(tree.dump()),
    )


@pytest.mark.parametrize("key", ["ab", b"ab", [1.5], ["a"], None, 7])
def test_keys_of_a_wrong_type_are_type_errors(key: Any) -> None:
    with pytest.raises(TypeError):
        Radix().match_prefix(key)
    with pytest.raises(TypeError):
        Radix().insert(key, [1])


def test_a_namespace_is_refused() -> None:
    with pytest.raises(Refused):
        Radix().match_prefix([1], ("a",))


def test_an_insert_needs_one_slot_per_token() -> None:
    with pytest.raises(ValueError, match="3 tokens came with 2 slots"):
        Radix().insert([1, 2, 3], [1, 2])


def test_the_callers_buffers_are_neither_kept_nor_changed() -> None:
    tree, tokens, slots = Radix(), array("q", [1, 2]), [10, 11]
    tree.insert(tokens, slots)
    tokens[:], slots[:] = array("q", [0, 0]), [0, 0]
    tree.match_prefix([1, 2]).slots[:] = [5, 5]
    assert tree.match_prefix([1, 2]).slots == [10, 11]


def test_disabled_it_stores_nothing() -> None:
    tree = Radix(disable=True)
    assert (tree.insert([1, 2], [10, 11]), tree.match_prefix([1, 2]).length) == (2, 0)
    assert (tree.evict(1).groups, sizes(tree)) == ([], (0, 0, 0))


def test_the_drawing_shows_one_indented_line_per_node() -> None:
    tree = stored([1, 2], [1, 2, 3])
    tree.inc_ref(tree.match_prefix([1, 2]).handle)
    assert tree.pretty_print() == "[1, 2] locks=1\n  [3] locks=0"


@pytest.mark.slow
def test_a_deep_tree_needs_no_deep_stack() -> None:
    tree = Radix()
    for length in range(1, 1500):
        tree.insert(range(length), range(length))
    handle = tree.match_prefix(range(1499)).handle
    deltas = tree.inc_ref(handle), tree.dec_ref(handle)
    assert (deltas, len(tree.evict(1499).groups)) == ((-1499, 1499), 1499)


@pytest.mark.parametrize(
    ("run", "key", "shared"),
    [([], [1], 0), ([1, 2], [1, 2], 2), ([1, 2], [1], 1), ([1, 2, 3], [1, 9, 3], 1)],
)
def test_the_common_prefix_ends_at_the_first_difference(
    run: list[int], key: list[int], shared: int
) -> None:
    assert common_prefix_tokens(run, key) == shared


def test_any_sequence_of_integers_is_read_as_an_array() -> None:
    assert [read_tokens(key) for key in ([1], (1,), range(1, 2))] == [array("q", [1])] * 3


def first_release(*keys: Sequence[int]) -> Radix:
    """Return the first release with `keys` stored."""
    return stored(*keys, make=RadixFirstRelease)


def test_the_first_release_matches_on_below_an_edge_that_the_key_has_left() -> None:
    tree = first_release([1, 2, 3], [1, 2, 3, 4])
    assert tree.match_prefix([1, 4])[:2] == (2, [10, 23])


def test_the_first_release_needs_a_child_that_fits_to_go_wrong() -> None:
    tree = first_release([1, 2, 3], [1, 2, 3, 4])
    answers = [tree.match_prefix(key)[:2] for key in ([1, 9], [1, 2], [1, 2, 3, 4], [4])]
    assert answers == [(1, [10]), (2, [10, 11]), (4, [10, 11, 12, 23]), (0, [])]


def test_the_first_release_inserts_as_it_should() -> None:
    tree = first_release([1, 2, 3], [1, 2, 3, 4])
    assert tree.insert([1, 4], [90, 91]) == 1


def test_the_first_release_locks_and_cuts_as_it_should() -> None:
    tree = first_release([1, 2, 3])
    handle = tree.match_prefix([1, 9]).handle
    assert (tree.inc_ref(handle), shape(tree)) == (-1, [([1], 1), ([2, 3], 0)])
