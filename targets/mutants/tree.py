"""Bugs of the tree's own operations: match, insert, split."""

from __future__ import annotations

from collections.abc import Sequence

from radixcheck.protocol import Slots
from radixcheck.targets.first_release import RadixFirstRelease
from radixcheck.targets.mutants.catalogue import mutant
from radixcheck.targets.radix_paged import Node, RadixPaged, shared_bytes


@mutant("sglang-7-edge-split", "SGLang #7", "phantom-prefix", "foreign-slot")
class WalksOnFromInsideAnEdge(RadixFirstRelease):
    """Follows a key into the child of an edge from which the key has parted."""


@mutant("mllm-656-split-size", "mllm #656", "size-drift", "delta-mismatch")
class CutsWithoutRecounting(RadixPaged):
    """Counts for a node what it weighed when it was new, although a cut has shortened it.

    ::

        --1 2 3 4--> (4)      becomes      --1 2--> (2) --3 4--> (4), must be (2)
    """

    def reset(self) -> None:
        """Forget everything, weights included."""
        self._weights: dict[Node, int] = {}
        super().reset()

    def _weight(self, node: Node) -> int:
        return self._weights.setdefault(node, len(node.slots))


@mutant("sglang-36696-child-key", "SGLang #36696", "structure", "missed-prefix", "unexpected-error")
class FilesUnderAnotherKey(RadixPaged):
    """Files the front of a cut edge under the first page of the rest."""

    def _cut(self, node: Node, at: int) -> Node:
        parent, page = node.parent, self._page_bytes
        assert parent is not None
        first_page = node.run[:page]
        front = super()._cut(node, at)
        parent.children[node.run[:page]] = front
        parent.children[first_page] = node
        return front


@mutant("sglang-35821-empty-node", "SGLang #35821", "structure")
class StoresEmptyKeys(RadixPaged):
    """Hangs a node below the root even for a key that has no page."""

    def insert(
        self,
        tokens: Sequence[int],
        slots: Slots,
        namespace: tuple[str, ...] = (),
        priority: int = 0,
        owned_from: int = 0,
    ) -> int:
        """Store `tokens`, whatever their number."""
        existing = super().insert(tokens, slots, namespace, priority, owned_from)
        if not self._key(tokens) and not self._disabled:
            self._hang(self._root(namespace), b"", [], priority)
        return existing


@mutant("libart-56-key-is-prefix", "libart #56", "missed-prefix", "lost-insert", "crash")
class ReplacesAShorterKey(RadixPaged):
    """Puts a longer key in the place of the leaf that holds its beginning.

    ::

        root --1--> leaf      becomes      root --2--> longer
                              and must     root --1--> leaf --2--> longer
    """

    def _hang(self, parent: Node, run: bytes, slots: Slots, priority: int) -> None:
        above = parent.parent
        if above is None or parent.children:
            return super()._hang(parent, run, slots, priority)
        del above.children[parent.run[: self._page_bytes]]
        return super()._hang(above, run, slots, priority)


@mutant("aibrix-2052-deep-key", "AIBrix #2052", "unexpected-error", "crash")
class RecursesPerEdge(RadixPaged):
    """Goes down the tree by one call per edge, so that a deep key overflows the stack."""

    def _find(self, root: Node, key: bytes) -> tuple[list[Node], int]:
        path = [root]
        return path, self._go_down(path, key)

    def _go_down(self, path: list[Node], key: bytes, at: int = 0) -> int:
        child = path[-1].children.get(key[at : at + self._page_bytes])
        if child is None:
            return len(path[-1].run)
        path.append(child)
        end = at + len(child.run)
        if key[at:end] == child.run:
            return self._go_down(path, key, end)
        shared = shared_bytes(child.run, key[at:end])
        return shared - shared % self._page_bytes


@mutant("minisgl-head-empty-match", "mini-sglang 20fcd7f", "unexpected-error")
class JoinsNothing(RadixPaged):
    """Cannot join the slots of no edge at all."""

    def _join_slots(self, path: list[Node]) -> Slots:
        first, *others = path[1:]
        slots = list(first.slots)
        for node in others:
            slots += node.slots
        return slots
