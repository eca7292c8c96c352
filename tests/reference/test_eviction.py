"""The interval method: what may have been stamped, and which victims leave no doubt."""

from __future__ import annotations

from typing import Any

import pytest

from radixcheck.capabilities import Capabilities
from radixcheck.operations import Tokens
from radixcheck.reference.model import Model


class Scene:
    """A model that is told a story; the clock ticks once per line."""

    def __init__(self, **capabilities: Any) -> None:
        self.model = Model(Capabilities(**capabilities))
        self.now = 0

    def insert(self, *tokens: int, priority: int = 0) -> None:
        self.now += 1
        slots = [1000 * self.now + place for place in range(len(tokens))]
        self.model.inserted(self.model.find(tokens, ()).end, tokens, slots, (), priority, self.now)

    def match(self, *tokens: int) -> None:
        self.now += 1
        self.model.matched(self.model.find(tokens, ()).end, self.now)

    def brush(self, *tokens: int) -> None:
        """Lock and unlock."""
        self.now += 1
        handle = self.model.handle(self.model.find(tokens, ()).end)
        self.model.lock(handle, self.now)
        self.model.unlock(handle, self.now)

    def evict(self, *keys: Tokens) -> Tokens | None:
        """Evict one leaf position per key, and return the survivor that contradicts the policy, if
        there is one."""
        for key in keys:
            self.model.find(key[:-1], ())  # cuts the last token off
        leaves = [self.model.find(key, ()).path[-1] for key in keys]
        victims = [(leaf, self.model.order.bounds(leaf)) for leaf in leaves]
        uncovered = self.model.evicted(leaves)
        wrong = self.model.order.contradiction(victims, uncovered)
        for leaf in uncovered:
            self.model.order.note(leaf)
        return None if wrong is None else self.model.key(wrong.survivor)


def test_lru_forbids_the_fresher_of_two_leaves() -> None:
    scene = Scene()
    scene.insert(1)
    scene.insert(2)
    assert scene.evict((2,)) == (1,)


def test_lru_allows_the_older_of_two_leaves() -> None:
    scene = Scene()
    scene.insert(1)
    scene.insert(2)
    assert scene.evict((1,)) is None


def test_a_partial_match_may_refresh_the_rest_of_its_edge() -> None:
    scene = Scene()
    scene.insert(1, 2, 3, 4)
    scene.insert(7, 8)
    scene.match(1, 2)  # stirs 3, and so the edge that 4 ends
    assert scene.evict((7, 8)) is None


def test_a_partial_match_refreshes_nothing_more_where_only_the_matched_part_is_stamped() -> None:
    scene = Scene(stamps="matched")
    scene.insert(1, 2, 3, 4)
    scene.insert(7, 8)
    scene.match(1, 2)
    assert scene.evict((7, 8)) == (1, 2, 3, 4)


def test_a_match_above_a_branch_refreshes_neither_side() -> None:
    scene = Scene()
    scene.insert(1, 2)
    scene.insert(1, 3)
    scene.insert(7)
    scene.match(1)
    assert scene.evict((7,)) == (1, 2)


def test_a_lock_may_refresh_its_prefix_but_need_not() -> None:
    scene = Scene()
    scene.insert(1)
    scene.insert(2)
    scene.brush(1)
    assert scene.evict((2,)) is None
    scene.insert(2)
    assert scene.evict((1,)) is None


def test_what_passed_through_an_evicted_child_was_used_by_its_parent_too() -> None:
    scene = Scene()
    scene.insert(1)
    scene.insert(7)
    scene.insert(1, 2)
    assert scene.evict((1, 2)) == (7,)
    assert scene.evict((1,)) == (7,)


def test_a_leaf_uncovered_in_the_same_eviction_was_no_choice_before() -> None:
    scene = Scene()
    scene.insert(1)
    scene.insert(1, 2)
    assert scene.evict((1, 2)) is None


@pytest.mark.parametrize(
    ("policy", "allowed"),
    [("lru", (7,)), ("mru", (8,)), ("fifo", (7,)), ("filo", (8,)), ("lfu", (8,)), ("slru", (8,))],
)
def test_each_policy_allows_its_own_victim_and_forbids_the_other(
    policy: str, allowed: Tokens
) -> None:
    forbidden: Tokens = (8,) if allowed == (7,) else (7,)
    for victim, survivor in ((allowed, None), (forbidden, allowed)):
        scene = Scene(eviction=policy, hits="matches")
        scene.insert(7)
        if policy in ("lfu", "slru"):
            for _ in range(3):
                scene.match(7)
        scene.insert(8)
        assert scene.evict(victim) == survivor


def test_priority_keeps_what_was_once_inserted_with_a_higher_one() -> None:
    for victim, survivor in (((8,), None), ((7,), (8,))):
        scene = Scene(eviction="priority", priorities="present")
        scene.insert(7, priority=5)
        scene.insert(7, priority=0)
        scene.insert(8, priority=1)
        assert scene.evict(victim) == survivor


def test_a_creation_is_a_hit_for_some_trees_and_none_for_others() -> None:
    scene = Scene(eviction="lfu", hits="inserts")
    scene.insert(7)
    scene.insert(7)
    scene.insert(8)
    assert scene.evict((7,)) is None
    scene.insert(7)
    scene.insert(7)
    scene.insert(7)
    assert scene.evict((7,)) == (8,)


def test_the_lower_part_of_a_cut_edge_keeps_the_hits_of_the_whole() -> None:
    """Three hits end inside the edge; the fork cuts it further down, where they count still."""
    scene = Scene(eviction="lfu", hits="matches")
    scene.insert(1, 2, 3, 4)
    for _ in range(3):
        scene.match(1, 2)
    scene.insert(1, 2, 3, 9)
    scene.insert(7)
    scene.match(7)
    scene.match(7)
    assert scene.evict((7,)) == (1, 2, 3, 9)
    scene.insert(7)
    scene.evict((1, 2, 3, 9))
    assert scene.evict((7,)) is None


def test_equal_keys_fall_back_on_recency_only_where_the_target_says_so() -> None:
    for tie_break, survivor in (("any", None), ("lru", (7,))):
        scene = Scene(eviction="priority", priorities="present", tie_break=tie_break)
        scene.insert(7)
        scene.insert(8)
        assert scene.evict((8,)) == survivor


@pytest.mark.parametrize(
    ("capabilities", "judged"),
    [
        ({}, True),
        ({"eviction": "unspecified"}, False),
        ({"closed": False}, False),
        ({"edges": "grow-or-merge"}, True),
        ({"edges": "grow-or-merge", "eviction": "mru"}, False),
        ({"edges": "grow-or-merge", "eviction": "lfu"}, False),
        ({"edges": "grow-or-merge", "eviction": "fifo"}, False),
        ({"edges": "grow-or-merge", "match_splits": False}, False),
    ],
)
def test_the_order_is_judged_only_where_it_can_be(
    capabilities: dict[str, Any], judged: bool
) -> None:
    assert Scene(**capabilities).model.order.judged is judged


def test_a_leaf_that_a_lock_may_cover_is_no_rival() -> None:
    scene = Scene(match_splits=False)
    scene.insert(1, 2)
    handle = scene.model.handle(scene.model.find((1,), ()).end)
    scene.insert(7)
    scene.model.lock(handle, 3)
    assert scene.evict((7,)) is None


def test_a_lock_that_may_reach_further_may_refresh_as_far() -> None:
    scene = Scene(match_splits=False)
    scene.insert(1, 2)
    handle = scene.model.handle(scene.model.find((1,), ()).end)
    scene.model.lock(handle, 2)
    scene.insert(1, 3)
    scene.insert(4)
    scene.now += 1
    scene.model.unlock(handle, scene.now)
    scene.insert(1, 5)  # so that [1] stays a branch, whose stamps are not those of [1, 2]
    assert scene.evict((1, 3), (4,)) is None


def test_a_lock_may_refresh_where_only_the_matched_part_is_stamped() -> None:
    scene = Scene(stamps="matched")
    scene.insert(1)
    scene.insert(2)
    scene.brush(1)
    assert scene.evict((2,)) is None


@pytest.mark.parametrize(
    "capabilities",
    [{"eviction": "lfu", "hits": "both"}, {"eviction": "priority", "priorities": "present"}],
)
def test_a_refused_insert_may_leave_its_mark(capabilities: dict[str, Any]) -> None:
    scene = Scene(**capabilities)
    scene.insert(1)
    for _ in range(3):
        scene.model.refused(scene.model.find((1,), ()).end, 5, scene.now)
    scene.insert(2, priority=2)
    scene.match(2)
    assert scene.evict((2,)) is None


def test_a_merged_edge_may_have_kept_the_older_stamp() -> None:
    """[1, 2] goes, [1] and [3] are merged with the stamp of [3], and then [3] is trimmed off."""
    scene = Scene(edges="grow-or-merge")
    scene.insert(1, 2)
    scene.insert(1, 3)
    scene.insert(4)
    scene.insert(1)
    scene.evict((1, 2))
    scene.evict((1, 3))
    assert scene.evict((1,)) is None


@pytest.mark.parametrize("victim", [(1,), (3,)])
def test_hits_on_the_way_to_an_evicted_child_count_for_some_trees_only(victim: Tokens) -> None:
    scene = Scene(eviction="lfu", hits="inserts")
    scene.insert(1)
    scene.insert(1, 2)
    scene.insert(1, 2)
    scene.evict((1, 2))
    scene.insert(3)
    assert scene.evict(victim) is None
