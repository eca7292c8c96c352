"""Today's radix tree over KV slots: pages, namespaces, seven policies, no tree walk to evict.

A key is kept as bytes, eight per token. Comparing a run is then one `memcmp`, a page is a slice
that can be looked up in a dictionary, and no loop runs over tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any, ClassVar, TypeAlias

from radixcheck.capabilities import Capabilities
from radixcheck.protocol import DumpedNode, Evicted, Match, Refused, Slots
from radixcheck.targets.radix import read_tokens

TOKEN_BYTES = 8
SLRU_THRESHOLD = 2
"""Hits from which slru protects an entry."""

Rank: TypeAlias = tuple[float, ...]
"""A leaf's place in the order of eviction: the smallest goes first."""


@dataclass(slots=True, eq=False)
class Node:
    """A run of stored pages: the edge that leads from `parent` to here."""

    run: bytes = b""
    """The tokens, `TOKEN_BYTES` each."""
    slots: Any = field(default_factory=list)
    """One slot per token: a list, or what a subclass keeps."""
    parent: Node | None = None
    stamp: float = 0
    """When a match or an insert last came through."""
    created: float = 0
    hits: int = 0
    """Matches and inserts that came through, the first insert among them."""
    priority: int = 0
    """The largest of all inserts that came through."""
    locks: int = 0
    """The reference counter: every lock on this node or below it."""
    held: int = 0
    """Those locks that were taken on this very node."""
    children: dict[bytes, Node] = field(default_factory=dict)
    """By first page: siblings never share one."""


POLICIES: dict[str, Callable[[Node], Rank]] = {
    "lru": lambda leaf: (leaf.stamp,),
    "mru": lambda leaf: (-leaf.stamp,),
    "fifo": lambda leaf: (leaf.created,),
    "filo": lambda leaf: (-leaf.created,),
    "lfu": lambda leaf: (leaf.hits, leaf.stamp),
    "slru": lambda leaf: (leaf.hits >= SLRU_THRESHOLD, leaf.stamp),
    "priority": lambda leaf: (leaf.priority, leaf.stamp),
}


class Candidates:
    """The leaves that may be evicted, ranked only when one is wanted.

    A leaf that joins, or whose rank may have changed, waits in `_unranked`. `first` ranks those
    that wait, and drops the entries of the heap that are no longer anybody's current one. So a rank
    may rise or fall freely between two evictions, and a match pays for two dictionary entries.
    """

    def __init__(self, rank: Callable[[Node], Rank]) -> None:
        self._rank = rank
        self._entries: dict[Node, tuple[Rank, int, Node] | None] = {}
        self._unranked: dict[Node, None] = {}
        self._heap: list[tuple[Rank, int, Node]] = []
        self._serial = count()

    def put(self, leaf: Node) -> None:
        """Let `leaf` join, or be ranked anew."""
        self._entries[leaf] = None
        self._unranked[leaf] = None

    def discard(self, node: Node) -> None:
        """Let `node` leave, if it is here."""
        self._entries.pop(node, None)

    def first(self) -> Node | None:
        """Return the leaf with the smallest rank, which stays here; of equals, the first ranked."""
        self._rank_waiting()
        while self._heap:
            entry = self._heap[0]
            if self._entries.get(entry[2]) is entry:
                return entry[2]
            heappop(self._heap)
        return None

    def __iter__(self) -> Iterator[Node]:
        """Go through the leaves in the order in which they joined."""
        return iter(self._entries)

    def _rank_waiting(self) -> None:
        for leaf in self._unranked:
            if leaf in self._entries:
                entry = self._entries[leaf] = (self._rank(leaf), next(self._serial), leaf)
                heappush(self._heap, entry)
        self._unranked.clear()
        if len(self._heap) > 2 * len(self._entries) + 16:
            self._heap = [entry for entry in self._entries.values() if entry]
            heapify(self._heap)


class RadixPaged:
    """A prefix cache with pages, structured namespaces and seven policies. A handle is a node.

    Only whole pages are stored. Hits are matches and inserts together; equal hits, classes or
    priorities are decided by age. Misuse is refused before anything changes: a second unlock, and a
    handle whose prefix was evicted or forgotten by a reset.

    Time is a count of the operations at which the clock's reading changed. So a clock that runs
    back does no harm, and two operations tie only when the reading did not change between them.

    Every decision has a method of its own, to be overridden one at a time:

    ======================  ======================================================================
    `_now`                  the time of this operation
    `_key`                  tokens to bytes, cut to whole pages
    `_root`                 the tree of a namespace
    `_find`                 how far a key leads; changes nothing
    `_walk`                 find, then stamp the edges, then cut: what match and insert share
    `_end`                  cut the edge that the key leaves
    `_cut`                  split one edge in two
    `_stamp`                refresh the nodes of a path
    `_count_match`, `_count_insert`, `_raise_priority`     what a policy counts
    `_copy_slots`, `_join_slots`, `_answer_victims`        slots in, slots out
    `_adopt`                what becomes of duplicates
    `_hang`                 a new leaf
    `_covered`              the nodes that a lock on a node covers
    `_lock`, `_unlock`      one lock on one node
    `_check_alive`, `_check_held`                          misuse
    `_rank`                 a leaf's place in the order of eviction
    `_may_evict`, `_settle` which nodes may be evicted, and keeping track of them
    `_victim`, `_remove`    choose a leaf, take it off
    `_weight`               what a node adds to the sizes
    `_grow_evictable`, `_grow_protected`                   the sizes
    ======================  ======================================================================

    `promises` holds the capabilities in which a subclass differs.

    Args:
        page_size: tokens per page.
        eviction: a name in `POLICIES`; without it, `default_eviction`.
        clock: answers the time; without it, the tree counts its own operations.
        disable: store nothing.

    Raises:
        ValueError: there is no such policy, or `page_size` is below 1.
    """

    supports: ClassVar[Mapping[str, Sequence[Any]]] = {
        "page_size": [1, 2, 3, 4, 16],
        "eviction": list(POLICIES),
    }
    default_eviction: ClassVar[str] = "lru"
    promises: ClassVar[Mapping[str, Any]] = {}

    def __init__(
        self,
        page_size: int = 1,
        eviction: str | None = None,
        clock: Callable[[], float] | None = None,
        disable: bool = False,
        **_: Any,
    ) -> None:
        eviction = eviction or self.default_eviction
        if eviction not in POLICIES:
            raise ValueError(f"eviction={eviction!r}: choose one of {', '.join(POLICIES)}")
        self.capabilities = self._promise(page_size, eviction, clock is not None)
        self._policy = POLICIES[eviction]
        self._page_bytes = page_size * TOKEN_BYTES
        self._clock = clock or count(1).__next__
        self._reading: float | None = None
        self._time = 0
        self._disabled = disable
        self.reset()

    def _promise(self, page_size: int, eviction: str, injected: bool) -> Capabilities:
        promises: dict[str, Any] = dict.fromkeys(
            ("priorities", "deltas", "protected_size", "total_size", "reset", "disable", "dump"),
            "present",
        )
        promises |= {
            "page_size": page_size,
            "eviction": eviction,
            "tie_break": "lru",
            "hits": "both",
            "arguments": "borrowed",
            "misuse": "raises",
            "clock": "injected-steps" if injected else "own",
            "resolution_s": None if injected else 0.0,
            "depth": "any",
            "deterministic": True,
            "namespaces": "structured",
        }
        return Capabilities(**(promises | dict(self.promises)))

    def reset(self) -> None:
        """Forget everything. Every handle dies with the old roots."""
        self._roots: dict[tuple[str, ...], Node] = {}
        self._live_roots: set[Node] = set()
        self._candidates = Candidates(self._rank)
        self._evictable_tokens = 0
        self._protected_tokens = 0

    def match_prefix(self, tokens: Sequence[int], namespace: tuple[str, ...] = ()) -> Match:
        """Find the longest stored prefix of `tokens`, and cut the edge in which it ends.

        Raises:
            TypeError: `tokens` are not integers.
        """
        key = self._key(tokens)
        self._now()
        path = self._walk(self._root(namespace), key)
        self._count_match(path)
        slots = self._join_slots(path)
        return Match(len(slots), slots, path[-1])

    def insert(
        self,
        tokens: Sequence[int],
        slots: Slots,
        namespace: tuple[str, ...] = (),
        priority: int = 0,
        owned_from: int = 0,
    ) -> int:
        """Store the whole pages of `tokens`, and return how many leading tokens were stored before.

        Raises:
            TypeError: `tokens` are not integers.
            ValueError: there is not one slot per token.
        """
        if len(slots) != len(tokens):
            raise ValueError(f"{len(tokens)} tokens came with {len(slots)} slots: one each, please")
        key = self._key(tokens)
        self._now()
        if self._disabled:
            return 0
        path = self._walk(self._root(namespace), key)
        self._count_insert(path)
        self._raise_priority(path, priority)
        known_bytes = sum([len(node.run) for node in path])
        existing = known_bytes // TOKEN_BYTES
        self._adopt(path, slots, owned_from, existing)
        if known_bytes < len(key):
            new = self._copy_slots(slots, existing, len(key) // TOKEN_BYTES)
            self._hang(path[-1], key[known_bytes:], new, priority)
        return existing

    def evict(self, num_tokens: int) -> Slots | Evicted:
        """Evict the first leaf by the policy until `num_tokens` tokens are free or none is left."""
        self._now()
        victims: list[Slots] = []
        missing = num_tokens
        while missing > 0 and (victim := self._victim()) is not None:
            victims.append(self._remove(victim))
            missing -= len(victims[-1])
        return self._answer_victims(victims)

    def inc_ref(self, handle: Node) -> int | None:
        """Lock the path up from `handle`; return the change of the evictable size (0 or below).

        Raises:
            Refused: the handle is dead.
        """
        self._now()
        self._check_alive(handle)
        handle.held += 1
        delta = -sum([self._lock(node) for node in self._covered(handle)])
        self._settle(handle)
        return delta

    def dec_ref(self, handle: Node) -> int | None:
        """Give back one lock on `handle`; return the change of the evictable size (0 or above).

        Raises:
            Refused: the handle is dead, or no lock was taken on it.
        """
        self._now()
        self._check_alive(handle)
        self._check_held(handle)
        handle.held -= 1
        delta = sum([self._unlock(node) for node in self._covered(handle)])
        self._settle(handle)
        return delta

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
            DumpedNode(
                memoryview(node.run).cast("q").tolist(),
                self._copy_slots(node.slots, 0, len(node.slots)),
                node.locks,
                place.get(node.parent),
            )
            for node in nodes
        ]

    def _now(self) -> None:
        reading = self._clock()
        if reading != self._reading:
            self._reading = reading
            self._time += 1

    def _key(self, tokens: Sequence[int]) -> bytes:
        key = read_tokens(tokens).tobytes()
        return key[: len(key) - len(key) % self._page_bytes]

    def _root(self, namespace: tuple[str, ...]) -> Node:
        root = self._roots.get(namespace)
        if root is None:
            root = self._roots[namespace] = Node()
            self._live_roots.add(root)
        return root

    def _find(self, root: Node, key: bytes) -> tuple[list[Node], int]:
        """Follow `key` down from `root`, edge by edge.

        Returns:
            The path, root included, and the bytes of the last run that the key shares, in whole
            pages: at least one, and all of them unless the key leaves inside the last edge.
        """
        path, children, at, page = [root], root.children, 0, self._page_bytes
        while (child := children.get(key[at : at + page])) is not None:
            path.append(child)
            run, children = child.run, child.children
            end = at + len(run)
            if key[at:end] != run:
                shared = shared_bytes(run, key[at:end])
                return path, shared - shared % page
            at = end
        return path, len(path[-1].run)

    def _walk(self, root: Node, key: bytes) -> list[Node]:
        """Find, stamp whole edges, then cut: so what is cut off looks as fresh as the front."""
        path, inside = self._find(root, key)
        self._stamp(path)
        return self._end(path, inside)

    def _end(self, path: list[Node], inside: int) -> list[Node]:
        last = path[-1]
        if inside < len(last.run):
            path[-1] = self._cut(last, inside)
        return path

    def _cut(self, node: Node, at: int) -> Node:
        """Cut the edge into `node` after `at` bytes, and return the new front node.

        The old object keeps the rest, so a handle on it still means the same prefix::

            parent --A B C D--> node      becomes      parent --A B--> front --C D--> node

        Whoever came through the old node came through the front: it inherits all but the children
        and the locks that were taken on the old node itself.
        """
        parent, tokens, page = node.parent, at // TOKEN_BYTES, self._page_bytes
        assert parent is not None
        front = Node(
            node.run[:at],
            self._copy_slots(node.slots, 0, tokens),
            parent,
            node.stamp,
            node.created,
            node.hits,
            node.priority,
            node.locks,
        )
        parent.children[front.run[:page]] = front
        node.run, node.parent = node.run[at:], front
        node.slots = self._copy_slots(node.slots, tokens, len(node.slots))
        front.children[node.run[:page]] = node
        return front

    def _stamp(self, path: list[Node]) -> None:
        for node in path:
            node.stamp = self._time
        self._settle(path[-1])

    def _count_match(self, path: list[Node]) -> None:
        for node in path:
            node.hits += 1

    def _count_insert(self, path: list[Node]) -> None:
        for node in path:
            node.hits += 1

    def _raise_priority(self, path: list[Node], priority: int) -> None:
        for node in reversed(path):
            if node.priority >= priority:  # and so has all that is above it
                break
            node.priority = priority

    def _copy_slots(self, slots: Slots, start: int, end: int) -> Slots:
        return slots[start:end]

    def _join_slots(self, path: list[Node]) -> Slots:
        slots: list[int] = []
        for node in path:
            slots += node.slots
        return slots

    def _answer_victims(self, victims: list[Slots]) -> Slots | Evicted:
        return Evicted(victims)

    def _adopt(self, path: list[Node], slots: Slots, owned_from: int, existing: int) -> None:
        """Do nothing: the duplicates ``slots[owned_from:existing]`` stay the caller's."""

    def _hang(self, parent: Node, run: bytes, slots: Slots, priority: int) -> None:
        leaf = Node(run, slots, parent, self._time, self._time, 0, priority)
        parent.children[run[: self._page_bytes]] = leaf
        self._count_insert([leaf])
        self._grow_evictable(self._weight(leaf))
        self._settle(parent)
        self._settle(leaf)

    def _covered(self, handle: Node) -> Iterator[Node]:
        node: Node | None = handle
        while node is not None:
            yield node
            node = node.parent

    def _lock(self, node: Node) -> int:
        """Add one lock; return the tokens that it newly protects."""
        node.locks += 1
        return self._shift(node) if node.locks == 1 else 0

    def _unlock(self, node: Node) -> int:
        """Take one lock off; return the tokens that are evictable again."""
        node.locks -= 1
        return -self._shift(node) if node.locks == 0 else 0

    def _shift(self, node: Node) -> int:
        """Move a node's tokens to where its locks say; return how many became protected."""
        protected = self._weight(node) if node.locks else -self._weight(node)
        self._grow_evictable(-protected)
        self._grow_protected(protected)
        return protected

    def _check_alive(self, handle: Node) -> None:
        top = handle
        while top.parent is not None:
            top = top.parent
        if top not in self._live_roots:
            raise Refused("dead handle: its prefix was evicted, or the cache was reset")

    def _check_held(self, handle: Node) -> None:
        if handle.held == 0:
            raise Refused("unbalanced dec_ref: no lock is held on this handle")

    def _rank(self, leaf: Node) -> Rank:
        return self._policy(leaf)

    def _may_evict(self, node: Node) -> bool:
        return not node.children and not node.locks and node.parent is not None

    def _settle(self, node: Node) -> None:
        """Keep `node` among the candidates exactly while it may be evicted, and rank it anew."""
        if self._may_evict(node):
            self._candidates.put(node)
        else:
            self._candidates.discard(node)

    def _victim(self) -> Node | None:
        return self._candidates.first()

    def _remove(self, leaf: Node) -> Slots:
        """Take an unlocked leaf off the tree and return its slots. Its handles lead nowhere now."""
        parent, leaf.parent = leaf.parent, None
        assert parent is not None
        del parent.children[leaf.run[: self._page_bytes]]
        self._grow_evictable(-self._weight(leaf))
        self._settle(leaf)
        self._settle(parent)
        return leaf.slots

    def _weight(self, node: Node) -> int:
        return len(node.slots)

    def _grow_evictable(self, tokens: int) -> None:
        self._evictable_tokens += tokens

    def _grow_protected(self, tokens: int) -> None:
        self._protected_tokens += tokens

    def _nodes(self) -> Iterator[Node]:
        waiting = [child for root in self._roots.values() for child in root.children.values()]
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(node.children.values())


def shared_bytes(run: bytes, key: bytes) -> int:
    """Count the leading bytes that `run` and `key` share, without a loop.

    Little end first, the lowest bit in which the two differ lies in the first byte that differs.
    """
    size = min(len(run), len(key))
    differing = int.from_bytes(run[:size], "little") ^ int.from_bytes(key[:size], "little")
    lowest_bit = differing & -differing
    return (lowest_bit.bit_length() - 1) // 8 if differing else size
