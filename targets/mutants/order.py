"""Bugs of the order in which leaves are evicted, and of how many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from radixcheck.protocol import Slots
from radixcheck.targets.mutants.catalogue import mutant
from radixcheck.targets.radix_paged import TOKEN_BYTES, Candidates, Node, RadixPaged


@mutant("sglang-24892-suffix-looks-fresh", "SGLang #24892", "eviction-order")
class StampsBeforeTheCut(RadixPaged):
    """Promises to stamp what was matched, and stamps the whole edge before it is cut."""

    promises: ClassVar = {"stamps": "matched"}


@mutant("minisgl-124-prefix-looks-old", "mini-sglang #124", "eviction-order")
class LeavesTheFrontItsStamp(RadixPaged):
    """Gives the front of a cut edge the old stamp, although it was just matched."""

    def _walk(self, root: Node, key: bytes) -> list[Node]:
        path, inside = self._find(root, key)
        is_cut = inside < len(path[-1].run)
        self._stamp(path[:-1] if is_cut else path)
        return self._end(path, inside)


@mutant("sglang-18843-hits-frozen", "SGLang #18843", "eviction-order", eviction="lfu")
class CountsOnce(RadixPaged):
    """Counts one hit when an entry is made, and none after that."""

    promises: ClassVar = {"hits": "inserts"}

    def _count_match(self, path: list[Node]) -> None:
        pass

    def _count_insert(self, path: list[Node]) -> None:
        for node in path:
            node.hits = 1


@mutant("sglang-059-fifo-cut-looks-new", "SGLang #11506", "eviction-order", eviction="fifo")
class RecreatesTheFront(RadixPaged):
    """Gives the front of a cut edge a new creation time."""

    promises: ClassVar = {"stamps": "matched"}

    def _cut(self, node: Node, at: int) -> Node:
        front = super()._cut(node, at)
        front.created = self._time
        return front


class RepairedLate(Candidates):
    """Ranks a leaf when it joins, and anew only if it comes first and its rank has risen."""

    def put(self, leaf: Node) -> None:
        """Let `leaf` join, or leave it where it is."""
        if leaf not in self._entries:
            super().put(leaf)
            self._rank_waiting()

    def first(self) -> Node | None:
        """Return the first leaf that is where its rank is, or above."""
        while (
            (leaf := super().first())
            and (entry := self._entries[leaf])
            and entry[0] < self._rank(leaf)
        ):
            super().put(leaf)
        return leaf


@mutant("sglangomni-1724-stale-heap", "sglang-omni #1724", "eviction-order", eviction="mru")
class RanksRiseOnly(RadixPaged):
    """Repairs its heap as if ranks only rose; under mru, a match lowers one."""

    def reset(self) -> None:
        """Forget everything."""
        super().reset()
        self._candidates = RepairedLate(self._rank)


@mutant("sglang-043-reinsert-looks-old", "SGLang 0.4.3", "eviction-order")
class LeavesTheReinsertedItsStamp(RadixPaged):
    """Does not stamp the last node of a key that is stored already when it is inserted again."""

    def insert(
        self,
        tokens: Sequence[int],
        slots: Slots,
        namespace: tuple[str, ...] = (),
        priority: int = 0,
        owned_from: int = 0,
    ) -> int:
        """Store `tokens`, and set back a stamp if they were stored."""
        key = self._key(tokens)
        path, _ = self._find(self._root(namespace), key)
        last, stamp = path[-1], path[-1].stamp
        existing = super().insert(tokens, slots, namespace, priority, owned_from)
        if existing * TOKEN_BYTES == len(key):
            last.stamp = stamp
            self._settle(last)
        return existing


@mutant("lightllm-1348-root-evictable", "LightLLM #1348", "unexpected-error")
class EvictsTheRoot(RadixPaged):
    """Takes a root that has no children for a leaf."""

    def _may_evict(self, node: Node) -> bool:
        return not node.children and not node.locks
