"""Caches that take the process with them, or never answer: liars of the rules `crash` and `hang`.

Each is `Radix` but for one call, which behaves as native code does with the bug that is named.
Judge them isolated: ``radixcheck run radixcheck.targets.fatal:CutsWildly --isolate``.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence

from radixcheck.protocol import Evicted, Match, Slots
from radixcheck.targets.radix import Node, Radix

HELD_BYTES = 64 * 2**20
"""What `NeverFrees` takes at a time."""

LEFT_WITH = 3
"""The exit status of `ExitsWhenFull`."""


class CutsWildly(Radix):
    """Dies where an edge is cut under a lock: a stale pointer to what was one node."""

    def _cut(self, node: Node, at: int) -> Node:
        if node.locks:
            os.kill(os.getpid(), signal.SIGSEGV)
        return super()._cut(node, at)


class AbortsOnSecondLeaf(Radix):
    """Dies of an eviction with two victims: the second node is freed twice, and the allocator
    notices."""

    def evict(self, num_tokens: int) -> Evicted:
        """Evict, and abort if two leaves went."""
        freed = super().evict(num_tokens)
        if len(freed.groups) > 1:
            os.abort()
        return freed


class ExitsWhenFull(Radix):
    """Ends the process when it stores many tokens: a library that cannot fail otherwise."""

    def insert(
        self,
        tokens: Sequence[int],
        slots: Slots,
        namespace: tuple[str, ...] = (),
        priority: int = 0,
        owned_from: int = 0,
    ) -> int:
        """Insert, unless there are more than eight tokens then."""
        existing = super().insert(tokens, slots, namespace, priority, owned_from)
        if self.total_size() > 8:
            os._exit(LEFT_WITH)
        return existing


class NeverReturns(Radix):
    """Walks in a circle where a match ends in the middle of an edge."""

    def _cut(self, node: Node, at: int) -> Node:
        while True:
            pass


class NeverFrees(Radix):
    """Takes memory with every match, and keeps it."""

    def __init__(self) -> None:
        super().__init__()
        self._held: list[bytes] = []

    def match_prefix(self, tokens: Sequence[int], namespace: tuple[str, ...] = ()) -> Match:
        """Match, and keep what was needed for it."""
        self._held.append(b"x" * HELD_BYTES)
        return super().match_prefix(tokens, namespace)


FATAL: dict[str, type[Radix]] = {
    each.__name__: each
    for each in (CutsWildly, AbortsOnSecondLeaf, ExitsWhenFull, NeverReturns, NeverFrees)
}
