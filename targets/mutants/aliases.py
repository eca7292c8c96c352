"""Bugs of buffers: the tree keeps what is the caller's, or frees what a caller still reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from radixcheck.protocol import Match, Slots
from radixcheck.targets.mutants.catalogue import mutant
from radixcheck.targets.radix import Radix, read_tokens
from radixcheck.targets.radix_paged import Node, RadixPaged


@mutant("minisgl-94fe255-slots-aliased", "mini-sglang 94fe255", "mutated-argument", "foreign-slot")
class KeepsTheSlotRow(RadixPaged):
    """Keeps a view of the caller's slots instead of a copy."""

    promises: ClassVar = {"slots_as": "array"}

    def _copy_slots(self, slots: Slots, start: int, end: int) -> Slots:
        return memoryview(slots)[start:end]


@mutant(
    "minisgl-head-tokens-aliased",
    "mini-sglang 20fcd7f",
    "mutated-argument",
    "missed-prefix",
    "unexpected-error",
)
class KeepsTheTokens(Radix):
    """Keeps a view of the caller's tokens instead of a copy."""

    def _key(self, tokens: Sequence[int], namespace: tuple[str, ...]) -> Any:
        return memoryview(read_tokens(tokens))


@mutant("sglang-053-key-rewritten", "SGLang 0.5.3", "mutated-argument")
class RewritesTheKey(RadixPaged):
    """Joins each token with the one after it, as a tree of pairs does, in the caller's own key."""

    def match_prefix(self, tokens: Sequence[int], namespace: tuple[str, ...] = ()) -> Match:
        """Match, and leave pairs where there were tokens."""
        match = super().match_prefix(tokens, namespace)
        key: Any = tokens
        for place, following in enumerate(key[1:]):
            key[place] ^= following
        return match


@mutant("lmcache-3130-freed-under-reader", "LMCache #3130", "evicted-locked", "use-after-free")
class FreesUnderReaders(RadixPaged):
    """Evicts in one batch, without a look at who still reads."""

    def _may_evict(self, node: Node) -> bool:
        return not node.children and node.parent is not None
