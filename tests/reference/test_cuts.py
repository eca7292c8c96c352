"""A run in one piece against a model that keeps every page apart: a cut must change no answer."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from radixcheck.capabilities import Capabilities, override
from radixcheck.operations import Tokens
from radixcheck.reference.eviction import Bounds
from radixcheck.reference.model import Found, Model
from radixcheck.reference.positions import Handle, Position

POLICIES = ("lru", "mru", "fifo", "filo", "lfu", "slru", "priority")


class Pair:
    """Two models that are told the same story; every answer must be the same."""

    def __init__(self, capabilities: Capabilities) -> None:
        self.whole, self.apart = Model(capabilities), Model(capabilities)
        self.apart._keeps_apart = True
        self.models = (self.whole, self.apart)
        self.size = capabilities.page_size
        self.now = 0
        self.next_slot = 0
        self.handles: list[tuple[Handle, Handle]] = []

    def find(self, key: Tokens) -> tuple[Found, Found]:
        ours, theirs = (model.find(key, ()) for model in self.models)
        assert (ours.length, ours.slots) == (theirs.length, theirs.slots)
        return ours, theirs

    def insert(self, key: Tokens, priority: int) -> None:
        slots = list(range(self.next_slot, self.next_slot + len(key)))
        self.next_slot += len(key)
        for model, found in zip(self.models, self.find(key), strict=True):
            own = found.slots + slots[found.length :]
            model.inserted(found.end, key, own, (), priority, self.now)

    def match(self, key: Tokens) -> None:
        ours, theirs = (found.end for found in self.find(key))
        self.whole.matched(ours, self.now)
        self.apart.matched(theirs, self.now)
        self.handles.append((self.whole.handle(ours), self.apart.handle(theirs)))

    def lock(self, change: int, which: int) -> None:
        pair = self.handles[which]
        if pair[0].alive and pair[0].locks + change >= 0:
            calls = ((model.lock, model.unlock)[change < 0] for model in self.models)
            ours, theirs = (
                call(handle, self.now) for call, handle in zip(calls, pair, strict=True)
            )
            assert ours == theirs

    def evict(self, rng: Random) -> None:
        """Evict an unbranched, unlocked way that ends at a random leaf: an edge of some target."""
        leaves = [key for _, key, end in self.apart.leaves() if not end.cover]
        if not leaves:
            return
        key = rng.choice(leaves)
        front = self.find(key[: rng.randrange(len(key))])
        gone = [
            whole.path[len(kept.path) :] for whole, kept in zip(self.find(key), front, strict=True)
        ]
        if all(len(end.children) < 2 and not end.cover for path in gone for end in path):
            ours, theirs = map(self.evicted, self.models, gone)
            assert ours == theirs

    def evicted(self, model: Model, gone: list[Position]) -> Any:
        victims = [(end, model.order.bounds(end)) for end in gone if not end.children]
        uncovered = model.evicted(gone)
        wrong = model.order.contradiction(victims, uncovered)
        for leaf in uncovered:
            model.order.note(leaf)
        return victims[0][1], wrong and wrong[2:], {model.key(end) for end in uncovered}

    def agree(self) -> None:
        assert seen(self.whole) == seen(self.apart)
        for ours, theirs in self.handles:
            assert (ours.alive, ours.locks) == (theirs.alive, theirs.locks)


def seen(model: Model) -> tuple[int, int, dict[Tokens, Bounds]]:
    """Return the tokens stored and covered, and the bounds of every leaf."""
    leaves = {key: model.order.bounds(end) for _, key, end in model.leaves()}
    return model.total_tokens, model.covered_tokens, leaves


@pytest.mark.parametrize("page_size", [1, 2])
@pytest.mark.parametrize("stamps", ["edge", "matched"])
@pytest.mark.parametrize("policy", POLICIES)
def test_a_cut_changes_no_answer(policy: str, stamps: str, page_size: int) -> None:
    for seed in range(6):
        rng = Random(seed)
        pair = Pair(
            override(
                Capabilities(page_size=page_size, hits="both"),
                {
                    "eviction": policy,
                    "stamps": stamps,
                    "priorities": "present" if policy == "priority" else "absent",
                },
            )
        )
        for pair.now in range(1, 120):
            key = tuple(rng.randrange(2) for _ in range(rng.randrange(16)))
            action = rng.random()
            if action < 0.35:
                pair.insert(key, rng.randrange(3))
            elif action < 0.65:
                pair.match(key)
            elif action < 0.8 and pair.handles:
                pair.lock(rng.choice((1, -1)), rng.randrange(len(pair.handles)))
            else:
                pair.evict(rng)
            pair.agree()
