"""The tree of tensors: what it answers, and that no part keeps another part's memory."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

import pytest

from radixcheck.hosts import Here
from radixcheck.loop import Budget, run
from radixcheck.protocol import Refused
from radixcheck.registry import TargetError, resolve
from radixcheck.storage import num_bytes, storages

torch: Any = pytest.importorskip("torch")

PAGE = 4


def cache(**arguments: Any) -> Any:
    """Return an empty tree on the CPU."""
    return resolve("radix-torch?device=cpu").open(arguments)


def key(*tokens: int) -> array[int]:
    """Return a key as the harness hands it over."""
    return array("q", tokens)


def numbered(slots: Sequence[int]) -> Any:
    """Return slots as a tensor."""
    return torch.tensor(slots, dtype=torch.int64)


def stored(tree: Any, *tokens: int, first: int = 100) -> int:
    """Store a key with slots of ascending numbers."""
    return int(tree.insert(key(*tokens), numbered(range(first, first + len(tokens)))))


def test_a_match_answers_a_tensor_on_the_device() -> None:
    tree = cache()
    stored(tree, 1, 2, 3)
    length, slots, _ = tree.match_prefix(key(1, 2, 4))
    assert (2, [100, 101], "cpu") == (length, slots.tolist(), slots.device.type)


def test_the_caller_s_tensor_is_copied() -> None:
    tree, slots = cache(), numbered([5, 6])
    tree.insert(key(1, 2), slots)
    slots[:] = -1
    assert [5, 6] == tree.match_prefix(key(1, 2)).slots.tolist()


def test_a_kept_part_of_the_caller_s_tensor_does_not_keep_the_whole() -> None:
    tree = cache(page_size=PAGE)
    stored(tree, *range(8))
    stored(tree, *range(8), 8, 9, 10, 11, 12, first=200)
    assert 8 * 12 == num_bytes(tree)


def test_each_part_of_a_cut_edge_has_a_storage_of_its_own() -> None:
    tree = cache()
    stored(tree, *range(1000))
    tree.match_prefix(key(*range(10)))
    sizes = sorted(each.num_bytes for each in storages(tree) if each.num_bytes)
    assert [80, 7920] == sizes


def test_evicting_one_part_frees_its_memory() -> None:
    tree = cache()
    stored(tree, *range(1000))
    tree.inc_ref(tree.match_prefix(key(*range(10))).handle)
    tree.evict(990)
    assert 80 == num_bytes(tree)


def test_an_eviction_hands_over_the_tensors_themselves() -> None:
    tree = cache()
    stored(tree, *range(1000))
    before = {each.address for each in storages(tree)}
    (group,) = tree.evict(1).groups
    assert group.untyped_storage().data_ptr() in before


@pytest.mark.parametrize(("eviction", "expected"), [("lru", [200, 201]), ("fifo", [100, 101])])
def test_the_policy_chooses_the_victim(eviction: str, expected: list[int]) -> None:
    tree = cache(eviction=eviction)
    stored(tree, 1, 2)
    stored(tree, 7, 8, first=200)
    tree.match_prefix(key(1, 2))
    assert [expected] == [group.tolist() for group in tree.evict(1).groups]


def test_only_whole_pages_are_stored_and_matched() -> None:
    tree = cache(page_size=PAGE)
    stored(tree, *range(7))
    assert (4, 4) == (tree.total_size(), tree.match_prefix(key(*range(7))).length)


def test_namespaces_share_nothing() -> None:
    tree = cache()
    stored(tree, 1, 2)
    assert 0 == tree.match_prefix(key(1, 2), ("a",)).length


def test_a_handle_of_an_empty_match_dies_with_a_reset_only() -> None:
    tree = cache()
    handle = tree.match_prefix(key(1)).handle
    assert (0, 0) == (tree.inc_ref(handle), tree.dec_ref(handle))
    tree.reset()
    with pytest.raises(Refused):
        tree.inc_ref(handle)


def test_a_lock_outlives_a_cut() -> None:
    tree = cache()
    stored(tree, 1, 2, 3, 4)
    handle = tree.match_prefix(key(1, 2, 3, 4)).handle
    tree.inc_ref(handle)
    tree.match_prefix(key(1, 2))
    assert (4, []) == (tree.protected_size(), tree.evict(9).groups)


@pytest.mark.parametrize("spec", ["radix-torch", "requests:radix-torch"])
def test_no_rule_is_broken(spec: str) -> None:
    report = run(Here(resolve(f"{spec}?device=cpu")), seed=2, budget=Budget(max_operations=3000))
    assert [] == report.findings


@pytest.mark.parametrize("spec", ["radix-torch", "requests:radix-torch", "pool-torch"])
def test_a_device_that_is_not_there_is_the_user_s_affair(spec: str) -> None:
    with pytest.raises(TargetError, match="is not there") as caught:
        resolve(f"{spec}?device=cuda:99").open()
    assert "user" == caught.value.fault


@pytest.mark.parametrize("spec", ["radix-torch", "pool-torch"])
def test_auto_is_a_gpu_if_there_is_one(spec: str) -> None:
    expected = "cuda" if torch.cuda.is_available() else "cpu"
    assert expected == resolve(f"{spec}?device=auto").open().capabilities.device


def test_requests_take_their_slots_on_the_device_of_the_tree() -> None:
    both = resolve("requests:radix-torch?device=cpu").open()
    assert ("cpu", "torch") == (both.pool.capabilities.device, both.pool.capabilities.slots_as)


def test_an_unknown_policy_is_told() -> None:
    with pytest.raises(TargetError, match="choose one of lru, fifo"):
        cache(eviction="mru")
