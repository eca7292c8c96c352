"""Honest near-misses: correct caches, each of which uses one freedom that the contract leaves.

An alarm against one of them is a bug of radixcheck, never of the target. Each class declares the
capability that makes it legal, names its freedom in its docstring, and is listed in `HONEST` under
its own name in kebab case.
"""

from __future__ import annotations

import random
import re
import time
from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from typing import Any, ClassVar, NamedTuple, TypeVar

from radixcheck.capabilities import Capabilities
from radixcheck.protocol import DumpedNode, Evicted, Factory, Match, Refused, Slots
from radixcheck.targets.radix_paged import TOKEN_BYTES, Node, RadixPaged, Rank, shared_bytes

HONEST: dict[str, Factory] = {}
"""Every honest near-miss whose libraries are installed, by name."""

Honest = TypeVar("Honest", bound=type)


def honest(target: Honest) -> Honest:
    """List `target` in `HONEST`."""
    name = re.sub(r"(?<!^)(?=[A-Z])", "-", target.__name__).lower()
    HONEST[name] = target
    return target


# Edges: where they are cut, and whether they grow together again.


@honest
class OneNodePerPage(RadixPaged):
    """Stores every page in a node of its own, so that nothing is ever cut."""

    def _hang(self, parent: Node, run: bytes, slots: Slots, priority: int) -> None:
        page, tokens = self._page_bytes, self._page_bytes // TOKEN_BYTES
        for at in range(len(run) // page):
            first_page = run[at * page : (at + 1) * page]
            super()._hang(parent, first_page, slots[at * tokens : (at + 1) * tokens], priority)
            parent = parent.children[first_page]


@honest
class MergesLoneChildren(RadixPaged):
    """Merges a node with the only child that an eviction leaves it, unless it is locked itself."""

    promises: ClassVar = {
        "edges": "grow-or-merge",
        "idle_handles": "until-next-mutation",
        "misuse": "unspecified",
    }

    def _remove(self, leaf: Node) -> Slots:
        node = leaf.parent
        slots = super()._remove(leaf)
        while node is not None and (above := node.parent) is not None:
            if node.held or len(node.children) != 1:
                break
            self._merge(node, above)
            node = above
        return slots

    def _merge(self, node: Node, above: Node) -> None:
        """Let the only child take over; it ends where it ended, so handles on it hold.

        ::

            above --A B--> node --C D--> child      becomes      above --A B C D--> child
        """
        (child,) = node.children.values()
        child.run, child.slots = node.run + child.run, node.slots + child.slots
        child.stamp, child.hits, child.priority = node.stamp, node.hits, node.priority
        child.parent, node.parent = above, None
        above.children[child.run[: self._page_bytes]] = child
        self._settle(child)


@honest
class GrowsLeaves(RadixPaged):
    """Extends an unlocked leaf edge in place instead of hanging a child below it."""

    promises: ClassVar = {
        "edges": "grow-or-merge",
        "idle_handles": "until-next-mutation",
        "misuse": "unspecified",
    }

    def _hang(self, parent: Node, run: bytes, slots: Slots, priority: int) -> None:
        if not self._may_evict(parent):
            return super()._hang(parent, run, slots, priority)
        parent.run, parent.slots = parent.run + run, parent.slots + slots
        self._grow_evictable(len(slots))
        self._settle(parent)


@honest
class GoesDownByCalls(RadixPaged):
    """Nests one call per edge of a path, as the first trees did."""

    promises: ClassVar = {"depth": "call-stack"}

    def _find(self, root: Node, key: bytes) -> tuple[list[Node], int]:
        child = root.children.get(key[: self._page_bytes])
        if child is None:
            return [root], len(root.run)
        shared = shared_bytes(child.run, key)
        if shared < len(child.run):
            return [root, child], shared - shared % self._page_bytes
        path, end = self._find(child, key[shared:])
        return [root, *path], end


@honest
class CutsRecreateTheFront(RadixPaged):
    """Gives the front of a cut edge a new creation time, as some releases do."""

    default_eviction: ClassVar = "fifo"

    def _cut(self, node: Node, at: int) -> Node:
        front = super()._cut(node, at)
        front.created = self._time
        return front


# Handles and locks.


class Prefix(NamedTuple):
    """A handle that names a prefix instead of a node."""

    namespace: tuple[str, ...]
    key: bytes


@honest
class NamesPrefixes(RadixPaged):
    """Hands out prefixes as handles, and looks the node up again at each lock."""

    promises: ClassVar = {"misuse": "unspecified"}

    def match_prefix(self, tokens: Sequence[int], namespace: tuple[str, ...] = ()) -> Match:
        """Answer the matched prefix itself as the handle."""
        length, slots, _ = super().match_prefix(tokens, namespace)
        return Match(length, slots, Prefix(namespace, self._key(tokens)[: length * TOKEN_BYTES]))

    def inc_ref(self, handle: Any) -> int | None:
        """Find the node of the prefix, and lock it."""
        return super().inc_ref(self._node(handle))

    def dec_ref(self, handle: Any) -> int | None:
        """Find the node of the prefix, and unlock it."""
        return super().dec_ref(self._node(handle))

    def _node(self, handle: Prefix) -> Node:
        """Find the node that ends where the prefix ends; cut an edge if there is none."""
        path, inside = self._find_whole(handle)
        return self._end(path, inside)[-1]

    def _find_whole(self, handle: Prefix) -> tuple[list[Node], int]:
        path, inside = self._find(self._root(handle.namespace), handle.key)
        if sum(len(node.run) for node in path[:-1]) + inside != len(handle.key):
            raise Refused("dead handle: its prefix is not stored")
        return path, inside


@honest
class MergesBelowHandles(NamesPrefixes, MergesLoneChildren):
    """Merges nodes even below idle handles, which name prefixes and so survive it."""

    promises: ClassVar = {"edges": "grow-or-merge", "misuse": "unspecified"}


@honest
class CutsWhenLocked(NamesPrefixes):
    """Cuts an edge when a lock ends inside it, not when a match does."""

    def match_prefix(self, tokens: Sequence[int], namespace: tuple[str, ...] = ()) -> Match:
        """Leave the edge whole in which the match ends."""
        key = self._key(tokens)
        self._now()
        path, inside = self._find(self._root(namespace), key)
        self._stamp(path)
        self._count_match(path)
        matched = sum(len(node.run) for node in path[:-1]) + inside
        slots = self._join_slots(path)[: matched // TOKEN_BYTES]
        return Match(len(slots), slots, Prefix(namespace, key[:matched]))


@honest
class LocksWholeEdges(CutsWhenLocked):
    """Locks the whole edge in which a handle ends, until an insert cuts it."""

    promises: ClassVar = {"match_splits": False, "misuse": "unspecified"}

    def reset(self) -> None:
        """Forget everything, also where each lock ends."""
        super().reset()
        self._ends: dict[Node, Counter[int]] = {}

    def inc_ref(self, handle: Any) -> int | None:
        """Lock the edge, and remember how deep the handle reaches."""
        delta = super().inc_ref(handle)
        self._ends.setdefault(self._node(handle), Counter())[len(handle.key)] += 1
        return delta

    def dec_ref(self, handle: Any) -> int | None:
        """Unlock the edge that the handle ends in now."""
        delta = super().dec_ref(handle)
        self._ends[self._node(handle)][len(handle.key)] -= 1
        return delta

    def _node(self, handle: Prefix) -> Node:
        path, _ = self._find_whole(handle)
        return path[-1]

    def _remove(self, leaf: Node) -> Slots:
        self._ends.pop(leaf, None)
        return super()._remove(leaf)

    def _cut(self, node: Node, at: int) -> Node:
        """Leave the rest of the edge only those locks that reach into it."""
        front = super()._cut(node, at)
        front_end = sum(len(above.run) for above in self._covered(front))
        ends = self._ends.pop(node, Counter())
        self._ends[front] = Counter({end: n for end, n in ends.items() if end <= front_end})
        self._ends[node] = ends - self._ends[front]
        front.held = self._ends[front].total()
        node.held -= front.held
        for _ in range(front.held):
            self._unlock(node)
        self._settle(node)
        return front


@dataclass(eq=False)
class Ticket:
    """A handle that is good until the tree changes, or for as long as it is locked."""

    node: Node
    changes: int
    locks: int = 0


@honest
class ForgetsIdleHandles(RadixPaged):
    """Refuses a handle that no lock kept alive over a change of the tree."""

    promises: ClassVar = {"idle_handles": "until-next-mutation", "misuse": "unspecified"}

    _changes = 0

    def match_prefix(self, tokens: Sequence[int], namespace: tuple[str, ...] = ()) -> Match:
        """Answer a ticket as the handle."""
        length, slots, node = super().match_prefix(tokens, namespace)
        return Match(length, slots, Ticket(node, self._changes))

    def inc_ref(self, handle: Any) -> int | None:
        """Lock the node, if the ticket is still good."""
        if not handle.locks and handle.changes != self._changes:
            raise Refused("dead handle: the tree has changed")
        delta = super().inc_ref(handle.node)
        handle.locks += 1
        return delta

    def dec_ref(self, handle: Any) -> int | None:
        """Unlock the node; the ticket is good until the next change."""
        delta = super().dec_ref(handle.node)
        handle.locks -= 1
        handle.changes = self._changes
        return delta

    def reset(self) -> None:
        """Forget everything, which is a change."""
        super().reset()
        self._changes += 1

    def _hang(self, parent: Node, run: bytes, slots: Slots, priority: int) -> None:
        super()._hang(parent, run, slots, priority)
        self._changes += 1

    def _remove(self, leaf: Node) -> Slots:
        self._changes += 1
        return super()._remove(leaf)


@honest
class IgnoresMisuse(RadixPaged):
    """Does nothing on a second unlock or a dead handle, and says nothing."""

    promises: ClassVar = {"misuse": "ignored"}

    def inc_ref(self, handle: Node) -> int | None:
        """Lock a live handle."""
        return _zero_if_refused(super().inc_ref, handle)

    def dec_ref(self, handle: Node) -> int | None:
        """Unlock a locked handle."""
        return _zero_if_refused(super().dec_ref, handle)


def _zero_if_refused(call: Callable[[Node], int | None], handle: Node) -> int | None:
    try:
        return call(handle)
    except Refused:
        return 0


# What refreshes an entry, and what counts as a hit.


@honest
class StampsOnlyTheMatched(RadixPaged):
    """Cuts first and stamps afterwards, so that nothing but the matched prefix looks fresh."""

    promises: ClassVar = {"stamps": "matched"}

    def _walk(self, root: Node, key: bytes) -> list[Node]:
        path = self._end(*self._find(root, key))
        self._stamp(path)
        return path


@honest
class StampsOnLocks(RadixPaged):
    """Refreshes a path also when it is locked and unlocked."""

    def inc_ref(self, handle: Node) -> int | None:
        """Lock and refresh the path."""
        delta = super().inc_ref(handle)
        self._stamp([*self._covered(handle)][::-1])
        return delta

    def dec_ref(self, handle: Node) -> int | None:
        """Unlock and refresh the path."""
        delta = super().dec_ref(handle)
        self._stamp([*self._covered(handle)][::-1])
        return delta


@honest
class CountsMatches(RadixPaged):
    """Counts matches as hits, and no insert, not even the first."""

    default_eviction: ClassVar = "lfu"
    promises: ClassVar = {"hits": "matches"}

    def _count_insert(self, path: list[Node]) -> None:
        pass


@honest
class CountsInserts(RadixPaged):
    """Counts inserts as hits, and no match."""

    default_eviction: ClassVar = "lfu"
    promises: ClassVar = {"hits": "inserts"}

    def _count_match(self, path: list[Node]) -> None:
        pass


@honest
class CountsWholeEdges(RadixPaged):
    """Counts a hit for the whole edge in which an operation ends, also for what is then cut off."""

    default_eviction: ClassVar = "lfu"

    def _end(self, path: list[Node], inside: int) -> list[Node]:
        last = path[-1]
        path = super()._end(path, inside)
        if path[-1] is not last:
            last.hits += 1
        return path


@honest
class BreaksTiesAtRandom(RadixPaged):
    """Chooses among equal hits, classes, priorities or stamps by a throw of the dice."""

    default_eviction: ClassVar = "lfu"
    promises: ClassVar = {"tie_break": "any", "deterministic": False}

    def _rank(self, leaf: Node) -> Rank:
        return (super()._rank(leaf)[0], random.random())


@honest
class ProtectsFromThreeHits(RadixPaged):
    """Has a segmented LRU that protects an entry from its third hit."""

    supports: ClassVar = {"page_size": RadixPaged.supports["page_size"], "eviction": ["slru"]}
    default_eviction: ClassVar = "slru"
    promises: ClassVar = {"slru_threshold": 3}

    def _rank(self, leaf: Node) -> Rank:
        return (leaf.hits >= 3, leaf.stamp)


@honest
class EvictsLongestFirst(RadixPaged):
    """Evicts the longest leaf first, which is no policy that the contract names."""

    supports: ClassVar = {"page_size": RadixPaged.supports["page_size"]}
    promises: ClassVar = {"eviction": "unspecified", "tie_break": "any"}

    def _rank(self, leaf: Node) -> Rank:
        return (-len(leaf.slots),)


# Clocks.


@honest
class CountsItsOwnTime(RadixPaged):
    """Takes no clock, and counts operations instead."""

    def __init__(
        self, page_size: int = 1, eviction: str | None = None, disable: bool = False
    ) -> None:
        super().__init__(page_size, eviction, disable=disable)


@honest
class ReadsMonotonicTime(RadixPaged):
    """Takes no clock, and reads the system's, whose readings may tie."""

    promises: ClassVar = {
        "clock": "own",
        "resolution_s": time.get_clock_info("monotonic").resolution,
        "deterministic": False,
    }

    def __init__(
        self, page_size: int = 1, eviction: str | None = None, disable: bool = False
    ) -> None:
        super().__init__(page_size, eviction, time.monotonic, disable)


@honest
class ReadsCoarseTime(RadixPaged):
    """Takes no clock, reads hundredths of a second, and throws dice among equal readings."""

    promises: ClassVar = {
        "clock": "own",
        "resolution_s": 0.01,
        "tie_break": "any",
        "deterministic": False,
    }

    def __init__(
        self, page_size: int = 1, eviction: str | None = None, disable: bool = False
    ) -> None:
        super().__init__(page_size, eviction, lambda: time.monotonic() // 0.01, disable)

    def _rank(self, leaf: Node) -> Rank:
        return (*super()._rank(leaf), random.random())


# How much is evicted, and how the answer looks.


@honest
class TrimsPageByPage(RadixPaged):
    """Takes one page at a time off the end of the first leaf, and never more than it must."""

    promises: ClassVar = {"misuse": "unspecified"}

    def _remove(self, leaf: Node) -> Slots:
        page, tokens = self._page_bytes, self._page_bytes // TOKEN_BYTES
        if len(leaf.run) == page:
            return super()._remove(leaf)
        trimmed = leaf.slots[-tokens:]
        leaf.run, leaf.slots = leaf.run[:-page], leaf.slots[:-tokens]
        self._grow_evictable(-tokens)
        self._settle(leaf)
        return trimmed


@honest
class OvershootsByBatch(RadixPaged):
    """Evicts a few tokens more than it was asked for, so that it is asked less often."""

    promises: ClassVar = {"evict_batch": 8}

    def evict(self, num_tokens: int) -> Slots | Evicted:
        """Evict 8 tokens more."""
        return super().evict(num_tokens + 8 if num_tokens > 0 else 0)


@honest
class RefusesShortEvict(RadixPaged):
    """Refuses to evict more than there is to evict."""

    promises: ClassVar = {"short_evict": "refuses"}

    def evict(self, num_tokens: int) -> Slots | Evicted:
        """Evict all of `num_tokens`.

        Raises:
            Refused: fewer are evictable.
        """
        if num_tokens > self._evictable_tokens:
            raise Refused(f"{num_tokens} tokens asked for, {self._evictable_tokens} are evictable")
        return super().evict(num_tokens)


@honest
class AnswersFlat(RadixPaged):
    """Answers the evicted slots in one list, victim after victim."""

    def _answer_victims(self, victims: list[Slots]) -> Slots | Evicted:
        return [slot for victim in victims for slot in victim]


@honest
class AnswersSorted(RadixPaged):
    """Answers the evicted slots in one list, sorted: its order says nothing about victims."""

    def _answer_victims(self, victims: list[Slots]) -> Slots | Evicted:
        return sorted(slot for victim in victims for slot in victim)


@honest
class LeavesLastToken(RadixPaged):
    """Never matches the last token of a key, since that one is computed again anyway."""

    promises: ClassVar = {"longest_match": "n-1"}

    def match_prefix(self, tokens: Sequence[int], namespace: tuple[str, ...] = ()) -> Match:
        """Match all but the last token."""
        return super().match_prefix(tokens[:-1], namespace)


# Slots: their types, their duplicates, and who owns the buffers.


@honest
class AnswersTuples(RadixPaged):
    """Keeps and answers tuples."""

    def _copy_slots(self, slots: Slots, start: int, end: int) -> Slots:
        return tuple(slots[start:end])

    def _join_slots(self, path: list[Node]) -> Slots:
        return tuple(super()._join_slots(path))

    def _answer_victims(self, victims: list[Slots]) -> Slots | Evicted:
        return Evicted(tuple(victims))


@honest
class AnswersArrays(RadixPaged):
    """Takes, keeps and answers arrays."""

    promises: ClassVar = {"slots_as": "array"}

    def _join_slots(self, path: list[Node]) -> Slots:
        slots = array("q")
        for node in path[1:]:
            slots += node.slots
        return slots


@honest
class KeepsGivenBuffers(RadixPaged):
    """Keeps views of the caller's slots instead of copies, since they are given to it."""

    promises: ClassVar = {"slots_as": "array", "arguments": "given"}

    def _copy_slots(self, slots: Slots, start: int, end: int) -> Slots:
        return memoryview(slots)[start:end]


class AnswersNumpy(RadixPaged):
    """Takes, keeps and answers numpy arrays."""

    promises: ClassVar = {"slots_as": "numpy"}

    @cached_property
    def _numpy(self) -> Any:
        return import_module("numpy")

    def _copy_slots(self, slots: Slots, start: int, end: int) -> Slots:
        return slots[start:end].copy()

    def _join_slots(self, path: list[Node]) -> Slots:
        nothing = self._numpy.empty(0, dtype="int64")
        return self._numpy.concatenate([nothing, *(node.slots for node in path[1:])])


class AnswersTensors(RadixPaged):
    """Takes, keeps and answers torch tensors."""

    promises: ClassVar = {"slots_as": "torch"}

    @cached_property
    def _torch(self) -> Any:
        return import_module("torch")

    def _copy_slots(self, slots: Slots, start: int, end: int) -> Slots:
        return slots[start:end].clone()

    def _join_slots(self, path: list[Node]) -> Slots:
        nothing = self._torch.empty(0, dtype=self._torch.int64)
        return self._torch.cat([nothing, *(node.slots for node in path[1:])])


HONEST |= {
    name: target
    for name, target in {"answers-numpy": AnswersNumpy, "answers-tensors": AnswersTensors}.items()
    if find_spec({"answers-numpy": "numpy", "answers-tensors": "torch"}[name])
}


@honest
class FreesDuplicates(RadixPaged):
    """Frees duplicate slots itself instead of leaving them to the caller."""

    promises: ClassVar = {"duplicates": "target-frees"}

    def reset(self) -> None:
        """Forget everything."""
        super().reset()
        self.freed: list[int] = []

    def _adopt(self, path: list[Node], slots: Slots, owned_from: int, existing: int) -> None:
        self.freed += slots[owned_from:existing]


@honest
class KeepsBothCopies(RadixPaged):
    """Adopts duplicate slots as further copies, answers the newest, and evicts all of a leaf's."""

    promises: ClassVar = {"duplicates": "both-kept", "dump": "absent"}

    def _hang(self, parent: Node, run: bytes, slots: Slots, priority: int) -> None:
        super()._hang(parent, run, [(slot,) for slot in slots], priority)

    def _adopt(self, path: list[Node], slots: Slots, owned_from: int, existing: int) -> None:
        start = 0
        for node in path:
            spare_from = max(owned_from - start, 0)
            spares = slots[start + spare_from : start + len(node.slots)]
            for place, slot in enumerate(spares, spare_from):
                node.slots[place] += (slot,)
            grow = self._grow_protected if node.locks else self._grow_evictable
            grow(len(spares))
            start += len(node.slots)

    def _join_slots(self, path: list[Node]) -> Slots:
        return [copies[-1] for node in path for copies in node.slots]

    def _weight(self, node: Node) -> int:
        return sum(map(len, node.slots))

    def _remove(self, leaf: Node) -> Slots:
        return [slot for copies in super()._remove(leaf) for slot in copies]


# Sizes, deltas, dumps.


@honest
class WalksForSizes(RadixPaged):
    """Computes its sizes by walking the tree."""

    promises: ClassVar = dict.fromkeys(("evictable_size", "protected_size", "total_size"), "walked")

    def evictable_size(self) -> int:
        """Add up the unlocked nodes."""
        return sum(len(node.slots) for node in self._nodes() if not node.locks)

    def protected_size(self) -> int:
        """Add up the locked nodes."""
        return sum(len(node.slots) for node in self._nodes() if node.locks)

    def total_size(self) -> int:
        """Add up all nodes."""
        return sum(len(node.slots) for node in self._nodes())


@honest
class ReportsNoSizes(RadixPaged):
    """Shows none of its sizes, nor how they change."""

    promises: ClassVar = dict.fromkeys(
        ("evictable_size", "protected_size", "total_size", "deltas"), "absent"
    )

    def inc_ref(self, handle: Node) -> None:
        """Lock the path and say nothing."""
        super().inc_ref(handle)

    def dec_ref(self, handle: Node) -> None:
        """Unlock the path and say nothing."""
        super().dec_ref(handle)


@honest
class TellsLocksOnly(RadixPaged):
    """Tells what a lock takes from the evictable size, and not what an unlock gives back."""

    promises: ClassVar = {"deltas": "inc-only"}

    def dec_ref(self, handle: Node) -> None:
        """Unlock the path and say nothing."""
        super().dec_ref(handle)


@honest
class DumpsLeavesFirst(RadixPaged):
    """Lists each node after its children."""

    def dump(self) -> list[DumpedNode]:
        """List every node but the roots, parents last."""
        nodes = super().dump()[::-1]
        last = len(nodes) - 1
        return [
            node if node.parent is None else node._replace(parent=last - node.parent)
            for node in nodes
        ]


# What a target may refuse, or lack.


@honest
class OneNamespace(RadixPaged):
    """Has namespaces of at most one string."""

    promises: ClassVar = {"namespaces": "one"}

    def _root(self, namespace: tuple[str, ...]) -> Node:
        if len(namespace) > 1:
            raise Refused(f"namespace {namespace!r}: at most one string, please")
        return super()._root(namespace)


@honest
class NoNamespaces(RadixPaged):
    """Has no namespaces."""

    promises: ClassVar = {"namespaces": "absent"}

    def _root(self, namespace: tuple[str, ...]) -> Node:
        if namespace:
            raise Refused(f"namespace {namespace!r}: this tree has none")
        return super()._root(namespace)


@honest
class WantsAlignedKeys(RadixPaged):
    """Takes only whole pages, and leaves the cutting to the caller."""

    promises: ClassVar = {"unaligned_insert": "caller-aligns"}

    def insert(self, tokens: Sequence[int], slots: Slots, *args: Any, **kwargs: Any) -> int:
        """Store whole pages.

        Raises:
            ValueError: the last page is not full.
        """
        if len(tokens) % self.capabilities.page_size:
            raise ValueError(f"{len(tokens)} tokens are no whole pages")
        return super().insert(tokens, slots, *args, **kwargs)


@honest
class RefusesWhenFull(RadixPaged):
    """Refuses an insert that would not fit, and changes nothing."""

    most_pages: ClassVar = 96

    def insert(
        self,
        tokens: Sequence[int],
        slots: Slots,
        namespace: tuple[str, ...] = (),
        priority: int = 0,
        owned_from: int = 0,
    ) -> int:
        """Store `tokens`, if there is room for them.

        Raises:
            Refused: there is not.
        """
        if not self._disabled and not self._has_room(self._root(namespace), self._key(tokens)):
            raise Refused(f"full: {self.most_pages} pages are the most")
        return super().insert(tokens, slots, namespace, priority, owned_from)

    def _has_room(self, root: Node, key: bytes) -> bool:
        path, inside = self._find(root, key)
        new_bytes = len(key) - sum(len(node.run) for node in path[:-1]) - inside
        bytes_after = self.total_size() * TOKEN_BYTES + new_bytes
        return not new_bytes or bytes_after <= self.most_pages * self._page_bytes


@honest
class RefusesEvictWhenDisabled(RadixPaged):
    """Refuses to evict in disabled mode, as the first tree did."""

    def evict(self, num_tokens: int) -> Slots | Evicted:
        """Evict.

        Raises:
            Refused: the cache is disabled.
        """
        if self._disabled:
            raise Refused("the cache is disabled")
        return super().evict(num_tokens)


@honest
class AnswersLengthWhenDisabled(RadixPaged):
    """Answers an insert in disabled mode as if all of it were stored, as the first tree did."""

    def insert(self, tokens: Sequence[int], slots: Slots, *args: Any, **kwargs: Any) -> int:
        """Store `tokens`, or answer their whole pages."""
        existing = super().insert(tokens, slots, *args, **kwargs)
        return len(self._key(tokens)) // TOKEN_BYTES if self._disabled else existing


@honest
class TellsNothingWhenDisabled(RadixPaged):
    """Answers None to a lock in disabled mode, as SGLang's unified tree does."""

    def inc_ref(self, handle: Node) -> int | None:
        """Lock the path; tell what it changes, unless there is none."""
        delta = super().inc_ref(handle)
        return None if self._disabled else delta

    def dec_ref(self, handle: Node) -> int | None:
        """Unlock the path; tell what it changes, unless there is none."""
        delta = super().dec_ref(handle)
        return None if self._disabled else delta


# The least that is a target.


@dataclass(eq=False)
class Token:
    """One stored token: all that the bare minimum knows of a prefix."""

    token: int = -1
    slot: int = -1
    parent: Token | None = None
    stamp: int = 0
    locks: int = 0
    children: list[Token] = field(default_factory=list)


@honest
class BareMinimum:
    """Six methods around a tree of single tokens: no pages, policies, deltas or reset."""

    def __init__(self) -> None:
        self.capabilities = Capabilities(resolution_s=0.0, evictable_size="walked")
        self._root, self._stored, self._time = Token(), list[Token](), 0

    def match_prefix(self, tokens: Sequence[int], namespace: tuple[str, ...] = ()) -> Match:
        """Follow and refresh the stored tokens."""
        self._time += 1
        path = [self._root]
        for token in tokens:
            known = [child for child in path[-1].children if child.token == token]
            if not known:
                break
            path += known
            path[-1].stamp = self._time
        return Match(len(path) - 1, [node.slot for node in path[1:]], path[-1])

    def insert(self, tokens: Sequence[int], slots: Slots, *_: Any, **__: Any) -> int:
        """Hang each new token below the one before."""
        existing, _slots, node = self.match_prefix(tokens)
        for token, slot in zip(tokens[existing:], slots[existing:], strict=True):
            child = Token(token, slot, node, self._time)
            node.children.append(child)
            self._stored.append(child)
            node = child
        return existing

    def evict(self, num_tokens: int) -> list[int]:
        """Take off the oldest unlocked leaf, token by token."""
        freed: list[int] = []
        while len(freed) < num_tokens and (
            leaves := [node for node in self._stored if not node.children and not node.locks]
        ):
            oldest = min(leaves, key=lambda leaf: leaf.stamp)
            self._stored.remove(oldest)
            assert oldest.parent is not None
            oldest.parent.children.remove(oldest)
            freed.append(oldest.slot)
        return freed

    def inc_ref(self, handle: Token | None, change: int = 1) -> None:
        """Lock the path to the root."""
        while handle is not None:
            handle.locks += change
            handle = handle.parent

    def dec_ref(self, handle: Token) -> None:
        """Unlock the path to the root."""
        self.inc_ref(handle, -1)

    def evictable_size(self) -> int:
        """Count the unlocked tokens."""
        return sum(not node.locks for node in self._stored)
