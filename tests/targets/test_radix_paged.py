"""Today's tree: pages, namespaces, policies, a clock that runs back."""

from __future__ import annotations

import random
from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from radixcheck.protocol import Evicted, Refused
from radixcheck.targets.radix_paged import POLICIES, Node, RadixPaged, shared_bytes

PAGE_SIZES = RadixPaged.supports["page_size"]


def slots_for(key: Sequence[int], first: int = 0) -> list[int]:
    """Return one slot per token, from `first` on."""
    return list(range(first, first + len(key)))


def repeated(page: int, *tokens: int) -> list[int]:
    """Return a key in which each of `tokens` fills one page."""
    return [token for token in tokens for _ in range(page)]


def freed(answer: Any) -> list[list[int]]:
    """Return the groups of an eviction's answer."""
    assert isinstance(answer, Evicted)
    return [list(group) for group in answer.groups]


def evicted_firsts(tree: RadixPaged) -> list[int]:
    """Evict all, one leaf at a time, and return the first slot of each."""
    return [freed(tree.evict(1))[0][0] for _ in range(len(tree.dump())) if tree.total_size()]


def sizes(tree: RadixPaged) -> tuple[int, int, int]:
    """Return the evictable, protected and total size."""
    return tree.evictable_size(), tree.protected_size(), tree.total_size()


@pytest.mark.parametrize("page", PAGE_SIZES)
def test_only_whole_pages_are_stored_and_matched(page: int) -> None:
    tree, key = RadixPaged(page), repeated(page, 1, 2) + [3] * (page - 1)
    lengths = tree.insert(key, slots_for(key)), tree.match_prefix(key).length
    assert (*lengths, tree.total_size()) == (0, 2 * page, 2 * page)


@pytest.mark.parametrize("page", [page for page in PAGE_SIZES if page > 1])
def test_a_key_shorter_than_a_page_matches_and_stores_nothing(page: int) -> None:
    tree, key = RadixPaged(page), [1] * (page - 1)
    answers = tree.insert(key, slots_for(key)), tree.match_prefix(key).length, tree.dump()
    assert answers == (0, 0, [])


@pytest.mark.parametrize("page", [page for page in PAGE_SIZES if page > 1])
def test_keys_that_part_inside_a_page_share_none_of_it(page: int) -> None:
    tree, key = RadixPaged(page), repeated(page, 1, 2)
    tree.insert(key, slots_for(key))
    other = repeated(page, 1) + [2] * (page - 1) + [9]
    assert tree.insert(other, slots_for(other, 100)) == page
    assert tree.match_prefix(other).slots == [*range(page), *range(100 + page, 100 + 2 * page)]


@pytest.mark.parametrize("page", PAGE_SIZES)
def test_siblings_may_share_a_first_token_but_no_first_page(page: int) -> None:
    tree = RadixPaged(page)
    keys = [[*repeated(page, 1)[:-1], last] for last in range(3)]
    for number, key in enumerate(keys):
        tree.insert(key, slots_for(key, 100 * number))
    assert [tree.match_prefix(key).slots[-1] for key in keys] == [
        100 * number + page - 1 for number in range(3)
    ]


@pytest.mark.parametrize("page", PAGE_SIZES)
def test_an_eviction_counts_tokens_and_frees_whole_leaves(page: int) -> None:
    tree = RadixPaged(page)
    for number in range(3):
        tree.insert(repeated(page, number, 9), slots_for(range(2 * page), 100 * number))
    assert [len(group) for group in freed(tree.evict(2 * page + 1))] == [2 * page, 2 * page]


@pytest.mark.parametrize("page", PAGE_SIZES)
def test_a_locked_handle_means_the_same_prefix_after_its_edge_is_cut(page: int) -> None:
    tree, key, other = RadixPaged(page), repeated(page, 1, 2, 3), repeated(page, 1, 7)
    tree.insert(key, slots_for(key))
    handle = tree.match_prefix(key).handle
    deltas = [tree.inc_ref(handle)]
    tree.insert(other, slots_for(other, 100))
    evicted = freed(tree.evict(99))
    deltas.append(tree.dec_ref(handle))
    assert (deltas, evicted) == ([-3 * page, 3 * page], [slots_for(range(page), 100 + page)])


def test_namespaces_are_disjoint_and_structured() -> None:
    tree = RadixPaged()
    namespaces = [(), ("",), ("ab", "c"), ("a", "bc"), ("abc",)]
    for number, namespace in enumerate(namespaces):
        tree.insert([1, 2], [2 * number, 2 * number + 1], namespace)
    found = [tree.match_prefix([1, 2], namespace).slots[0] for namespace in namespaces]
    assert (found, tree.match_prefix([1], ("abc", "")).length) == ([0, 2, 4, 6, 8], 0)


def test_an_eviction_chooses_among_all_namespaces() -> None:
    tree = RadixPaged()
    for number, namespace in enumerate([("a",), ("b",), ()]):
        tree.insert([1], [number], namespace)
    tree.match_prefix([1], ("a",))
    assert freed(tree.evict(3)) == [[1], [2], [0]]


def _lru(tree: RadixPaged) -> None:
    tree.match_prefix([1])


def _reinsert(tree: RadixPaged) -> None:
    tree.insert([1], [99])


def _twice(tree: RadixPaged) -> None:
    for token in (2, 2, 1):
        tree.match_prefix([token])


def _raise(tree: RadixPaged) -> None:
    tree.insert([1], [99], priority=5)
    tree.match_prefix([2])


@pytest.mark.parametrize(
    ("eviction", "touch", "order"),
    [
        ("lru", _lru, [2, 3, 1]),
        ("lru", _reinsert, [2, 3, 1]),
        ("mru", _lru, [1, 3, 2]),
        ("mru", _reinsert, [1, 3, 2]),
        ("fifo", _twice, [1, 2, 3]),
        ("filo", _twice, [3, 2, 1]),
        ("lfu", _twice, [3, 1, 2]),
        ("lfu", _lru, [2, 3, 1]),
        ("slru", _twice, [3, 2, 1]),
        ("priority", _raise, [3, 2, 1]),
        ("priority", _lru, [2, 3, 1]),
    ],
)
def test_each_policy_evicts_in_its_order(
    eviction: str, touch: Callable[[RadixPaged], None], order: list[int]
) -> None:
    tree = RadixPaged(eviction=eviction)
    for token in (1, 2, 3):
        tree.insert([token], [token])
    touch(tree)
    assert evicted_firsts(tree) == order


def test_a_path_has_the_largest_priority_of_its_inserts() -> None:
    tree = RadixPaged(eviction="priority")
    tree.insert([1], [1], priority=-1)
    tree.insert([1, 2], [1, 2], priority=7)
    tree.insert([3], [3], priority=5)
    tree.insert([4], [4], priority=-2)
    assert freed(tree.evict(4)) == [[4], [3], [2], [1]]


def test_a_cut_hands_priority_creation_and_hits_to_the_front() -> None:
    orders = {}
    for eviction in ("priority", "fifo", "lfu"):
        tree = RadixPaged(eviction=eviction)
        tree.insert([1, 2], [1, 2], priority=3)
        tree.insert([1, 2], [1, 2], priority=3)
        tree.insert([7], [7])
        tree.match_prefix([1])
        orders[eviction] = freed(tree.evict(3))
    assert orders == {
        "priority": [[7], [2], [1]],
        "fifo": [[2], [1], [7]],
        "lfu": [[7], [2], [1]],
    }


def test_the_order_survives_a_clock_that_runs_back() -> None:
    readings = iter([9.0, 5.0, 1.0, 5.0, 0.0])
    tree = RadixPaged(clock=lambda: next(readings))
    for token in (1, 2, 3, 1):
        tree.insert([token], [token])
    assert freed(tree.evict(3)) == [[2], [3], [1]]


def test_held_readings_tie() -> None:
    tree = RadixPaged(clock=lambda: 4.0, eviction="mru")
    for token in (1, 2, 3):
        tree.insert([token], [token])
    assert len({tree.match_prefix([token]).handle.stamp for token in (1, 2, 3)}) == 1


@pytest.mark.parametrize("eviction", POLICIES)
def test_the_candidates_are_the_unlocked_leaves_in_the_order_of_their_ranks(eviction: str) -> None:
    rng = random.Random(3)
    tree = RadixPaged(eviction=eviction)
    locked: list[Node] = []
    for step in range(600):
        key = [rng.randrange(3) for _ in range(rng.randrange(1, 7))]
        match rng.randrange(4):
            case 0:
                tree.insert(key, slots_for(key, step), priority=rng.randrange(3))
            case 1:
                tree.inc_ref(handle := tree.match_prefix(key).handle)
                locked.append(handle)
            case 2 if locked:
                tree.dec_ref(locked.pop(rng.randrange(len(locked))))
            case _:
                assert tree._victim() in best(tree)
                tree.evict(rng.randrange(3))
        leaves = {node for node in tree._nodes() if not node.children and not node.locks}
        assert set(tree._candidates) == leaves


def best(tree: RadixPaged) -> list[Node | None]:
    """Return the unlocked leaves that no other is ranked before, found by walking the tree."""
    leaves = [node for node in tree._nodes() if not node.children and not node.locks]
    return [leaf for leaf in leaves if tree._rank(leaf) == min(map(tree._rank, leaves))] or [None]


def test_many_refreshes_without_an_eviction_cost_no_memory() -> None:
    tree = RadixPaged(eviction="mru")
    for token in range(4):
        tree.insert([token], [token])
    for step in range(1000):
        tree.match_prefix([step % 4])
        tree._victim()
    assert len(tree._candidates._heap) < 50


def test_an_unknown_policy_is_named_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"eviction='lur': choose one of lru, mru"):
        RadixPaged(eviction="lur")


def _unlocked_twice(tree: RadixPaged) -> None:
    handle = tree.match_prefix([1, 2]).handle
    tree.inc_ref(handle)
    tree.dec_ref(handle)
    tree.dec_ref(handle)


def _unlocked_from_above(tree: RadixPaged) -> None:
    above, below = tree.match_prefix([1]).handle, tree.match_prefix([1, 2]).handle
    tree.inc_ref(below)
    try:
        tree.dec_ref(above)
    finally:
        tree.dec_ref(below)


def _used_after_reset(tree: RadixPaged) -> None:
    handle = tree.match_prefix([9]).handle
    tree.reset()
    tree.insert([1, 2], [10, 11])
    tree.inc_ref(handle)


def _used_after_eviction(tree: RadixPaged) -> None:
    handle = tree.match_prefix([1, 2]).handle
    tree.evict(2)
    tree.insert([1, 2], [10, 11])
    tree.inc_ref(handle)


def _from_another_cache(tree: RadixPaged) -> None:
    tree.inc_ref(RadixPaged().match_prefix([1]).handle)


@pytest.mark.parametrize(
    "misuse",
    [
        _unlocked_twice,
        _unlocked_from_above,
        _used_after_reset,
        _used_after_eviction,
        _from_another_cache,
    ],
)
def test_misuse_is_refused_without_effect(misuse: Callable[[RadixPaged], None]) -> None:
    tree = RadixPaged()
    tree.insert([1, 2], [10, 11])
    with pytest.raises(Refused):
        misuse(tree)
    assert (sizes(tree), {node.locks for node in tree.dump()}) == ((2, 0, 2), {0})


def test_a_handle_of_an_unused_namespace_outlives_inserts_and_evictions_there() -> None:
    tree = RadixPaged()
    handle = tree.match_prefix([1], ("a",)).handle
    tree.inc_ref(handle)
    tree.insert([1], [10], ("a",))
    assert (freed(tree.evict(1)), tree.dec_ref(handle)) == ([[10]], 0)


@pytest.mark.parametrize("key", ["ab", b"ab", [1.5], ["a"], None])
def test_keys_of_a_wrong_type_are_type_errors(key: Any) -> None:
    with pytest.raises(TypeError):
        RadixPaged().match_prefix(key)
    with pytest.raises(TypeError):
        RadixPaged().insert(key, slots_for(key or []))


def test_the_callers_buffers_are_neither_kept_nor_changed() -> None:
    tree, tokens, slots = RadixPaged(), array("q", [1, 2]), [10, 11]
    tree.insert(tokens, slots)
    tokens[:], slots[:] = array("q", [0, 0]), [0, 0]
    tree.match_prefix([1, 2]).slots[:] = [5, 5]
    assert tree.match_prefix([1, 2]).slots == [10, 11]


def test_disabled_it_stores_nothing() -> None:
    tree = RadixPaged(disable=True)
    answers = tree.insert([1, 2], [10, 11]), tree.match_prefix([1, 2]).length, freed(tree.evict(1))
    assert (answers, sizes(tree)) == ((0, 0, []), (0, 0, 0))


def test_the_dump_tells_runs_slots_locks_and_parents() -> None:
    tree = RadixPaged(2)
    tree.insert([1, 1, 2, 2], [4, 5, 6, 7])
    tree.inc_ref(tree.match_prefix([1, 1]).handle)
    assert tree.dump() == [([1, 1], [4, 5], 1, None), ([2, 2], [6, 7], 0, 0)]


def test_a_deep_tree_needs_no_deep_stack() -> None:
    tree = RadixPaged()
    for length in range(1, 1500):
        tree.insert(range(length), slots_for(range(length)))
    handle = tree.match_prefix(range(1499)).handle
    deltas = tree.inc_ref(handle), tree.dec_ref(handle)
    assert (deltas, len(freed(tree.evict(1499)))) == ((-1499, 1499), 1499)


def _differing(places: Iterable[int], size: int) -> bytes:
    return bytes(255 if place in places else 7 for place in range(size))


@pytest.mark.parametrize("size", [1, 8, 200])
def test_shared_bytes_end_at_the_first_difference(size: int) -> None:
    plain = _differing((), size)
    found = [shared_bytes(plain, _differing((at, size - 1), size)) for at in range(size)]
    assert found == list(range(size))
    assert shared_bytes(plain, plain + b"x") == shared_bytes(plain + b"y", plain) == size
