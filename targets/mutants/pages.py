"""Bugs of pages: what happens to a key that does not fill its last one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from radixcheck.protocol import Match, Slots
from radixcheck.targets.mutants.catalogue import NO_BOOKS, mutant
from radixcheck.targets.radix import read_tokens
from radixcheck.targets.radix_paged import TOKEN_BYTES, Node, RadixPaged


@mutant("sglang-10637-short-key", "SGLang #10637", "unexpected-error", page_size=4)
class LooksUpAnEmptyKey(RadixPaged):
    """Looks for the first page of a key of which no whole page is left."""

    def _find(self, root: Node, key: bytes) -> tuple[list[Node], int]:
        if not key:
            raise IndexError("the first page of a key that has none")
        return super()._find(root, key)


@mutant("sglang-20070-unaligned-kept", "SGLang #20070", "unaligned-match", page_size=4)
class AnswersWhatWasWritten(RadixPaged):
    """Answers a conversation that goes on with all it wrote, also a page that is not full."""

    def reset(self) -> None:
        """Forget everything."""
        super().reset()
        self._tails: dict[tuple[object, ...], list[int]] = {}

    def match_prefix(self, tokens: Sequence[int], namespace: tuple[str, ...] = ()) -> Match:
        """Match, and add the tail of a conversation that wrote just these tokens."""
        length, slots, node = super().match_prefix(tokens, namespace)
        tail = self._tails.get((namespace, *tokens), [])
        if length + len(tail) == len(tokens):
            slots = slots + tail
        return Match(len(slots), slots, node)

    def insert(
        self,
        tokens: Sequence[int],
        slots: Slots,
        namespace: tuple[str, ...] = (),
        priority: int = 0,
        owned_from: int = 0,
    ) -> int:
        """Store whole pages, and remember the tail."""
        aligned = len(self._key(tokens)) // TOKEN_BYTES
        self._tails[namespace, *tokens] = slots[aligned:]
        return super().insert(tokens, slots, namespace, priority, owned_from)


@mutant(
    "pstack-head-short-tail",
    "production-stack hash trie",
    "phantom-prefix",
    "length-mismatch",
    page_size=4,
)
class TakesAShortPageForAWholeOne(RadixPaged):
    """Stores and matches a last page that is not full as if it were."""

    promises: ClassVar = NO_BOOKS

    def match_prefix(self, tokens: Sequence[int], namespace: tuple[str, ...] = ()) -> Match:
        """Match, and count pages instead of slots."""
        match = super().match_prefix(tokens, namespace)
        matched = sum(len(node.run) for node in self._covered(match.handle))
        return match._replace(length=matched // TOKEN_BYTES)

    def _key(self, tokens: Sequence[int]) -> bytes:
        key = read_tokens(tokens).tobytes()
        return key + bytes(-len(key) % self._page_bytes)
