"""Bugs of locks and handles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

from radixcheck.protocol import Match
from radixcheck.targets.mutants.catalogue import NO_BOOKS, mutant
from radixcheck.targets.radix_paged import TOKEN_BYTES, Node, RadixPaged


@mutant(
    "minisgl-46-handle-is-root",
    "mini-sglang #46",
    "handle-mismatch",
    "evicted-locked",
    "size-drift",
)
class HandsOutTheRoot(RadixPaged):
    """Answers the root as the handle of every match."""

    promises: ClassVar = {"deltas": "absent"}

    def match_prefix(self, tokens: Sequence[int], namespace: tuple[str, ...] = ()) -> Match:
        """Match, and lose the matched node."""
        match = super().match_prefix(tokens, namespace)
        return match._replace(handle=self._root(namespace))


@mutant(
    "minisgl-52-lock-skips-node",
    "mini-sglang #52",
    "handle-mismatch",
    "evicted-locked",
    "size-drift",
)
class LocksFromTheParentUp(RadixPaged):
    """Leaves the handle's own node out of its lock."""

    promises: ClassVar = {"deltas": "absent"}

    def _covered(self, handle: Node) -> Iterator[Node]:
        _own, *above = super()._covered(handle)
        return iter(above)


@mutant("minisgl-44-unlock-raises", "mini-sglang #44", "unexpected-error")
class WantsOneLockToRemain(RadixPaged):
    """Asserts before each unlock that another lock remains."""

    def _unlock(self, node: Node) -> int:
        assert node.locks > 1
        return super()._unlock(node)


@mutant("bytedance-508-lock-not-split", "bytedance-iaas/sglang #508", "size-drift", "under-evicted")
class UnlocksTheFrontOnly(RadixPaged):
    """Locks a whole edge, and unlocks what is left of it above a cut.

    A match cuts nothing; its handle is the node of the edge in which it ends. An insert cuts, the
    handle stays with the front, and the rest stays locked for good::

        --1 2 3 4--> handle      becomes      --1 2--> handle --3 4--> rest
    """

    promises: ClassVar = {"match_splits": False, "misuse": "unspecified"}

    def match_prefix(self, tokens: Sequence[int], namespace: tuple[str, ...] = ()) -> Match:
        """Match, and cut nothing."""
        key = self._key(tokens)
        self._now()
        path, inside = self._find(self._root(namespace), key)
        self._stamp(path)
        self._count_match(path)
        matched = sum(len(node.run) for node in path[:-1]) + inside
        slots = self._join_slots(path)[: matched // TOKEN_BYTES]
        return Match(len(slots), slots, path[-1])

    def _cut(self, node: Node, at: int) -> Node:
        tokens = at // TOKEN_BYTES
        rest = replace(node, run=node.run[at:], slots=node.slots[tokens:], parent=node, held=0)
        for child in rest.children.values():
            child.parent = rest
        node.run, node.slots = node.run[:at], node.slots[:tokens]
        node.children = {rest.run[: self._page_bytes]: rest}
        self._settle(rest)
        self._settle(node)
        return node


@mutant("sglang-0523-lock-below-zero", "SGLang 0.5.23", "lock-underflow", "evicted-locked")
class CountsBelowZero(RadixPaged):
    """Accepts one unlock too many, and counts the next lock from there."""

    def _check_held(self, handle: Node) -> None:
        pass


@mutant("lightllm-1201-miss-unlocks-root", "LightLLM #1201", "unexpected-error", "lock-underflow")
class UnlocksTheRootOnAMiss(RadixPaged):
    """Gives back a lock that it never took when a match finds nothing.

    Each root holds one lock from the start, so that it never counts as evictable.
    """

    def match_prefix(self, tokens: Sequence[int], namespace: tuple[str, ...] = ()) -> Match:
        """Match, and unlock the root for nothing."""
        match = super().match_prefix(tokens, namespace)
        if match.length == 0:
            self._root(namespace).locks -= 1
        return match

    def _root(self, namespace: tuple[str, ...]) -> Node:
        is_new = namespace not in self._roots
        root = super()._root(namespace)
        root.locks += is_new
        assert root.locks > 0, "the root's own lock is gone"
        return root


@mutant("lmcache-5098-foreign-unpin", "LMCache #5098", "evicted-locked", "lock-underflow")
class UnlocksTwice(RadixPaged):
    """Takes two locks off a prefix when one request is done, if another one left its own there."""

    promises: ClassVar = {**NO_BOOKS, "misuse": "unspecified"}

    def dec_ref(self, handle: Node) -> None:
        """Unlock what was read, and unlock for the request."""
        for _ in range(min(2, handle.held)):
            super().dec_ref(handle)
