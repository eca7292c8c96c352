"""A radix tree whose slots never leave their device: keys on the host, one tensor per edge.

An engine on a GPU keeps the slots of a prefix where its kernels read them. So this tree decides
everything from the tokens, which the host knows, and moves slots only as whole tensors: a match
concatenates them, a cut clones both parts, and an eviction hands over what the edges held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import count
from operator import attrgetter
from typing import Any, ClassVar, Literal

from radixcheck.capabilities import Capabilities
from radixcheck.protocol import DumpedNode, Evicted, Match, Refused, Slots, Supports
from radixcheck.targets.pools.tensors import torch_on
from radixcheck.targets.radix import common_prefix_tokens, read_tokens

RANKS: dict[str, Callable[[Node], float]] = {
    "lru": attrgetter("touched"),
    "fifo": attrgetter("created"),
}
"""By which number of a leaf each policy chooses; the lowest goes first."""


@dataclass(slots=True, eq=False)
class Node:
    """An edge of whole pages, and where it ends. A handle on a prefix is the node at its end."""

    tokens: tuple[int, ...]
    slots: Any
    """An int64 tensor, one slot per token, whose storage is this node's alone."""
    parent: Node | None = None
    created: float = 0
    touched: float = 0
    """Clock reading of the last match or insert that came through."""
    locks: int = 0
    """Every lock on this node or below it."""
    held: int = 0
    """Those locks that were taken on this very node."""
    namespace: tuple[str, ...] | None = None
    """Of a root, which prefixes it stores."""
    children: dict[tuple[int, ...], Node] = field(default_factory=dict)
    """By first page: siblings never share one."""


class RadixTorch:
    """A paged prefix cache with namespaces. Misuse is refused before anything changes.

    Args:
        page_size: only whole pages are stored and matched.
        eviction: ``lru`` or ``fifo``.
        device: where the slots live: ``cpu``, ``cuda``, ``cuda:1``; ``auto`` is a GPU if one is
            there.
        clock: answers the time; without it, the tree counts its own operations.

    Raises:
        ImportError: torch is not installed.
        ValueError: the device is not there, or there is no such policy.
    """

    supports: ClassVar[Supports] = {"page_size": [1, 4, 16], "eviction": ["lru", "fifo"]}

    def __init__(
        self,
        page_size: int = 1,
        eviction: Literal["lru", "fifo"] = "lru",
        device: str = "auto",
        clock: Callable[[], float] | None = None,
    ) -> None:
        if eviction not in RANKS:
            raise ValueError(f"eviction={eviction!r}: choose one of {', '.join(RANKS)}")
        self._torch, self._device = torch_on(device)
        self.capabilities = Capabilities(
            page_size=page_size,
            eviction=eviction,
            stamps="matched",
            arguments="borrowed",
            misuse="raises",
            clock="injected" if clock else "own",
            resolution_s=None if clock else 0.0,
            depth="any",
            deterministic=True,
            slots_as="torch",
            device=self._device,
            namespaces="structured",
            deltas="present",
            protected_size="present",
            total_size="present",
            reset="present",
            dump="present",
            storage="present",
        )
        self._rank = RANKS[eviction]
        self._clock = clock or count(1).__next__
        self._nothing = self._torch.zeros(0, dtype=self._torch.int64, device=self._device)
        self.reset()

    def reset(self) -> None:
        """Forget everything. Every handle dies with the old roots."""
        self._roots: dict[tuple[str, ...], Node] = {}
        self._evictable_tokens = 0
        self._protected_tokens = 0

    # ---- match and insert ----------------------------------------------------------------

    def match_prefix(self, tokens: Sequence[int], namespace: tuple[str, ...] = ()) -> Match:
        """Find the longest stored prefix of `tokens`, and cut the edge in which it ends.

        Raises:
            TypeError: `tokens` are not integers.
        """
        path = self._descend(self._whole_pages(tokens), namespace)
        length = sum(len(node.tokens) for node in path)
        return Match(length, self._torch.cat([node.slots for node in path]), path[-1])

    def insert(
        self,
        tokens: Sequence[int],
        slots: Slots,
        namespace: tuple[str, ...] = (),
        priority: int = 0,
        owned_from: int = 0,
    ) -> int:
        """Store the whole pages of `tokens`; return how many leading tokens were stored before.

        Raises:
            TypeError: `tokens` are not integers.
            ValueError: there is not one slot per token.
        """
        if len(slots) != len(tokens):
            raise ValueError(f"{len(tokens)} tokens came with {len(slots)} slots: one each, please")
        key = self._whole_pages(tokens)
        path = self._descend(key, namespace)
        existing, parent = sum(len(node.tokens) for node in path), path[-1]
        if existing < len(key):
            kept = slots[existing : len(key)].to(self._device, copy=True)
            now = parent.touched
            self._hang(Node(key[existing:], kept, parent, created=now, touched=now))
            self._evictable_tokens += len(kept)
        return existing

    def _whole_pages(self, tokens: Sequence[int]) -> tuple[int, ...]:
        size = self.capabilities.page_size
        return tuple(read_tokens(tokens)[: len(tokens) // size * size])

    def _descend(self, key: tuple[int, ...], namespace: tuple[str, ...]) -> list[Node]:
        """Return the nodes from the root to where `key` leaves the tree, and stamp them."""
        size, at = self.capabilities.page_size, 0
        path = [self._root(namespace)]
        while (child := path[-1].children.get(key[at : at + size])) is not None:
            shared = common_prefix_tokens(child.tokens, key[at : at + len(child.tokens)])
            shared -= shared % size
            path.append(self._cut(child, shared) if shared < len(child.tokens) else child)
            at += shared
        now = self._clock()
        for node in path:
            node.touched = now
        return path

    def _root(self, namespace: tuple[str, ...]) -> Node:
        if namespace not in self._roots:
            self._roots[namespace] = Node((), self._nothing, namespace=namespace)
        return self._roots[namespace]

    def _cut(self, node: Node, at: int) -> Node:
        """Cut the edge into `node` after `at` tokens, and return the new front node::

            parent --A B C--> node      becomes      parent --A--> front --B C--> node

        The old object keeps the end, so a handle on it still means the same prefix. Both parts are
        clones: a view would keep the slots of the other part in memory after its eviction.
        """
        front_slots, node_slots = self._parts(node.slots, at)
        front = Node(
            node.tokens[:at], front_slots, node.parent, node.created, node.touched, node.locks
        )
        node.tokens, node.slots, node.parent = node.tokens[at:], node_slots, front
        self._hang(front)
        self._hang(node)
        return front

    def _parts(self, slots: Any, at: int) -> tuple[Any, Any]:
        return slots[:at].clone(), slots[at:].clone()

    def _hang(self, node: Node) -> None:
        assert node.parent is not None
        node.parent.children[self._first_page(node)] = node

    def _first_page(self, node: Node) -> tuple[int, ...]:
        return node.tokens[: self.capabilities.page_size]

    # ---- evictions -----------------------------------------------------------------------

    def evict(self, num_tokens: int) -> Evicted:
        """Evict unlocked leaves until `num_tokens` tokens are free or none is left.

        The tensors are handed over as they are: no slot is copied, and none visits the host.
        """
        numbers = count()
        leaves = [self._entry(node, numbers) for node in self._nodes() if self._may_go(node)]
        heapify(leaves)
        groups: list[Any] = []
        missing = num_tokens
        while missing > 0 and leaves:
            victim = heappop(leaves)[-1]
            parent = self._remove(victim)
            groups.append(victim.slots)
            missing -= len(victim.tokens)
            if self._may_go(parent):
                heappush(leaves, self._entry(parent, numbers))
        return Evicted(groups)

    def _entry(self, node: Node, numbers: Iterator[int]) -> tuple[float, int, Node]:
        return self._rank(node), next(numbers), node

    def _may_go(self, node: Node) -> bool:
        return not node.children and not node.locks and node.parent is not None

    def _remove(self, leaf: Node) -> Node:
        """Take an unlocked leaf off the tree, return its parent. Its handles lead nowhere now."""
        assert leaf.parent is not None
        parent, leaf.parent = leaf.parent, None
        del parent.children[self._first_page(leaf)]
        self._evictable_tokens -= len(leaf.tokens)
        return parent

    # ---- locks ---------------------------------------------------------------------------

    def inc_ref(self, handle: Node) -> int:
        """Lock the path up from `handle`; return the change of the evictable size (0 or below).

        Raises:
            Refused: the handle is dead.
        """
        path = self._path_up(handle)
        newly_locked = sum(len(node.tokens) for node in path if node.locks == 0)
        self._count_locks(path, 1)
        return self._shift_sizes(-newly_locked)

    def dec_ref(self, handle: Node) -> int:
        """Give back one lock on `handle`; return the change of the evictable size (0 or above).

        Raises:
            Refused: the handle is dead, or no lock was taken on it.
        """
        path = self._path_up(handle)
        if handle.held == 0:
            raise Refused("unbalanced dec_ref: no lock is held on this handle")
        self._count_locks(path, -1)
        return self._shift_sizes(sum(len(node.tokens) for node in path if node.locks == 0))

    def _path_up(self, handle: Node) -> list[Node]:
        path = [handle]
        while (parent := path[-1].parent) is not None:
            path.append(parent)
        top = path[-1]
        if top.namespace is None or self._roots.get(top.namespace) is not top:
            raise Refused("dead handle: its prefix was evicted, or the cache was reset")
        return path

    def _count_locks(self, path: list[Node], change: int) -> None:
        path[0].held += change
        for node in path:
            node.locks += change

    def _shift_sizes(self, evictable_change: int) -> int:
        self._evictable_tokens += evictable_change
        self._protected_tokens -= evictable_change
        return evictable_change

    # ---- looks ---------------------------------------------------------------------------

    def evictable_size(self) -> int:
        """Count the stored tokens that no lock covers."""
        return self._evictable_tokens

    def protected_size(self) -> int:
        """Count the stored tokens that a lock covers."""
        return self._protected_tokens

    def total_size(self) -> int:
        """Count all stored tokens."""
        return self._evictable_tokens + self._protected_tokens

    def dump(self) -> list[DumpedNode]:
        """List every node but the roots, each parent before its children."""
        nodes = list(self._nodes())
        place: dict[Node | None, int] = {node: index for index, node in enumerate(nodes)}
        return [
            DumpedNode(node.tokens, node.slots, node.locks, place.get(node.parent))
            for node in nodes
        ]

    def _nodes(self) -> Iterator[Node]:
        waiting = [node for root in self._roots.values() for node in root.children.values()]
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(node.children.values())
