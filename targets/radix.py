"""The first radix tree over KV slots, built anew: runs on edges, leaf LRU, reference counters.

It is the smallest complete target, and the one to read before writing an adapter. The facts it
follows are those of January 2024 (docs/contract.md, "The first tree"), with one improvement: a key
that is inserted again is refreshed.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import count

from radixcheck.capabilities import Capabilities
from radixcheck.protocol import DumpedNode, Evicted, Match, Refused, Slots


@dataclass(slots=True, eq=False)
class Node:
    """A run of stored tokens: the edge that leads from `parent` to here."""

    tokens: tuple[int, ...] = ()
    slots: list[int] = field(default_factory=list)
    parent: Node | None = None
    stamp: float = 0
    """Clock reading of the last match or insert that came through."""
    locks: int = 0
    """The reference counter: every lock on this node or below it."""
    held: int = 0
    """Those locks that were taken on this very node."""
    children: dict[int, Node] = field(default_factory=dict)
    """By first token: siblings never share one."""

    def __lt__(self, other: Node) -> bool:
        """Order by age, so that a heap of nodes pops the oldest."""
        return self.stamp < other.stamp


class Radix:
    """A prefix cache of page size 1, with leaf LRU eviction and no namespaces. A handle is a node.

    Calls that no caller should make are refused before anything changes: a second unlock, and a
    handle whose prefix was evicted or forgotten by a reset.

    Args:
        clock: answers the time; without it, the tree counts its own operations.
        disable: store nothing.
    """

    def __init__(self, clock: Callable[[], float] | None = None, disable: bool = False) -> None:
        self.capabilities = Capabilities(
            arguments="borrowed",
            misuse="raises",
            clock="injected" if clock else "own",
            resolution_s=None if clock else 0.0,
            depth="any",
            deterministic=True,
            deltas="present",
            protected_size="present",
            total_size="present",
            reset="present",
            disable="present",
            dump="present",
        )
        self._clock = clock or count(1).__next__
        self._disabled = disable
        self.reset()

    def reset(self) -> None:
        """Forget everything. Every handle dies with the old root."""
        self._root = Node()
        self._evictable_tokens = 0
        self._protected_tokens = 0

    def match_prefix(self, tokens: Sequence[int], namespace: tuple[str, ...] = ()) -> Match:
        """Find the longest stored prefix of `tokens`, and cut the edge in which it ends.

        Raises:
            TypeError: `tokens` are not integers.
        """
        key = () if self._disabled else self._key(tokens, namespace)
        return match_of(self._descend(key, self._clock()))

    def insert(
        self,
        tokens: Sequence[int],
        slots: Slots,
        namespace: tuple[str, ...] = (),
        priority: int = 0,
        owned_from: int = 0,
    ) -> int:
        """Store `tokens`, and return how many leading ones were stored before.

        Disabled, it stores nothing and returns them all, as if each slot were a duplicate.

        Raises:
            TypeError: `tokens` are not integers.
            ValueError: there is not one slot per token.
        """
        key = self._key(tokens, namespace)
        if len(slots) != len(key):
            raise ValueError(f"{len(key)} tokens came with {len(slots)} slots: one each, please")
        if self._disabled:
            return len(key)
        now = self._clock()
        path = self._descend(key, now)
        existing = sum(len(node.tokens) for node in path)
        if existing < len(key):
            self._hang(path[-1], Node(key[existing:], list(slots[existing:]), path[-1], now))
        return existing

    def evict(self, num_tokens: int) -> Evicted:
        """Evict the oldest unlocked leaf until `num_tokens` tokens are free or none is left."""
        leaves = [node for node in self._nodes() if not node.children]
        heapify(leaves)
        groups: list[list[int]] = []
        missing = num_tokens
        while missing > 0 and leaves:
            victim = heappop(leaves)
            if victim.locks:
                continue
            parent = self._remove(victim)
            groups.append(victim.slots)
            missing -= len(victim.tokens)
            if not parent.children and parent is not self._root:
                heappush(leaves, parent)
        return Evicted(groups)

    def inc_ref(self, handle: Node) -> int:
        """Lock the path up from `handle`; return the change of the evictable size (0 or below).

        Raises:
            Refused: the handle is dead.
        """
        path = self._path_up(handle)
        newly_locked = sum(len(node.tokens) for node in path if node.locks == 0)
        self._count_locks(handle, path, 1)
        return self._shift_sizes(-newly_locked)

    def dec_ref(self, handle: Node) -> int:
        """Give back one lock on `handle`; return the change of the evictable size (0 or above).

        Raises:
            Refused: the handle is dead, or no lock was taken on it.
        """
        path = self._path_up(handle)
        if handle.held == 0:
            raise Refused("unbalanced dec_ref: no lock is held on this handle")
        self._count_locks(handle, path, -1)
        return self._shift_sizes(sum(len(node.tokens) for node in path if node.locks == 0))

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
        """List every node but the root, each parent before its children."""
        nodes = list(self._nodes())
        place: dict[Node | None, int] = {node: index for index, node in enumerate(nodes)}
        return [
            DumpedNode(node.tokens, list(node.slots), node.locks, place.get(node.parent))
            for node in nodes
        ]

    def pretty_print(self) -> str:
        """Draw the tree for people: one line per node, indented by its depth."""
        depths: dict[Node | None, int] = {self._root: -1}
        lines = []
        for node in self._nodes():
            depths[node] = depths[node.parent] + 1
            lines.append(f"{'  ' * depths[node]}{list(node.tokens)} locks={node.locks}")
        return "\n".join(lines)

    def _key(self, tokens: Sequence[int], namespace: tuple[str, ...]) -> tuple[int, ...]:
        if namespace:
            raise Refused(f"namespace {namespace!r}: this tree has none")
        return tuple(read_tokens(tokens))

    def _descend(self, key: tuple[int, ...], now: float) -> list[Node]:
        """Follow `key` down, stamp the edges on the way, and cut the one that the key leaves."""
        path = [self._root]
        while key and (child := path[-1].children.get(key[0])) is not None:
            child.stamp = now
            shared = common_prefix_tokens(child.tokens, key)
            if shared < len(child.tokens):
                path.append(self._cut(child, shared))
                break
            path.append(child)
            key = key[shared:]
        return path

    def _cut(self, node: Node, at: int) -> Node:
        """Cut the edge into `node` after `at` tokens, and return the new front node.

        The old object keeps the rest, so a handle on it still means the same prefix::

            parent --1 2 3 4--> node      becomes      parent --1 2--> front --3 4--> node

        Whoever locked the old node passes through the front: its reference counter is the same.
        """
        assert node.parent is not None
        front = Node(node.tokens[:at], node.slots[:at], node.parent, node.stamp, node.locks)
        node.parent.children[front.tokens[0]] = front
        node.parent, node.tokens, node.slots = front, node.tokens[at:], node.slots[at:]
        front.children[node.tokens[0]] = node
        return front

    def _hang(self, parent: Node, leaf: Node) -> None:
        parent.children[leaf.tokens[0]] = leaf
        self._evictable_tokens += len(leaf.tokens)

    def _remove(self, leaf: Node) -> Node:
        """Take an unlocked leaf off the tree, return its parent. Its handles lead nowhere now."""
        assert leaf.parent is not None
        parent, leaf.parent = leaf.parent, None
        del parent.children[leaf.tokens[0]]
        self._evictable_tokens -= len(leaf.tokens)
        return parent

    def _path_up(self, handle: Node) -> list[Node]:
        path = [handle]
        while (parent := path[-1].parent) is not None:
            path.append(parent)
        if path[-1] is not self._root:
            raise Refused("dead handle: its prefix was evicted, or the cache was reset")
        return path

    def _count_locks(self, handle: Node, path: list[Node], change: int) -> None:
        handle.held += change
        for node in path:
            node.locks += change

    def _shift_sizes(self, evictable_change: int) -> int:
        self._evictable_tokens += evictable_change
        self._protected_tokens -= evictable_change
        return evictable_change

    def _nodes(self) -> Iterator[Node]:
        waiting = list(self._root.children.values())
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(node.children.values())


def match_of(path: list[Node]) -> Match:
    """Answer the match that follows `path`, from the root to the node that becomes the handle."""
    slots = [slot for node in path for slot in node.slots]
    return Match(len(slots), slots, path[-1])


def common_prefix_tokens(run: Sequence[int], key: Sequence[int]) -> int:
    """Count the leading tokens that `run` and `key` share: the one comparison in the whole tree."""
    for place, (stored, wanted) in enumerate(zip(run, key, strict=False)):
        if stored != wanted:
            return place
    return min(len(run), len(key))


def read_tokens(tokens: Sequence[int]) -> array[int]:
    """Return `tokens` as an ``array('q')``: itself if it is one, so callers copy what they keep.

    Raises:
        TypeError: `tokens` are not integers. Nor are bytes a key, although they hold integers.
    """
    if isinstance(tokens, array) and tokens.typecode == "q":
        return tokens
    if isinstance(tokens, str | bytes | bytearray):
        raise TypeError(f"a key is a sequence of token numbers, not {type(tokens).__name__}")
    return array("q", tokens)
