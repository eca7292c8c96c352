"""What an engine or a server believes to be stored, since it may not look at an answer."""

from __future__ import annotations

from typing import NamedTuple

from radixcheck.operations import Namespace, Tokens

BLOCK_TOKENS = 8
"""Blocks have so many tokens at least: token by token this would take as long as the checker."""


class Need(NamedTuple):
    """What an engine believes of a key, in tokens."""

    known: int
    """So many of them are stored."""
    surplus: int
    """So many others must go."""


class Room:
    """What an engine believes to be stored: blocks of tokens, in the order of their last use.

    It need not be right. It makes an engine evict as much as it would, and never asks the target.
    """

    def __init__(self, page_size: int, most_tokens: int) -> None:
        self._block_tokens = max(page_size, BLOCK_TOKENS)
        self._most_blocks = most_tokens // self._block_tokens
        self._names: dict[object, int] = {}
        self._used: dict[int, None] = {}

    def take(self, namespace: Namespace, tokens: Tokens) -> Need:
        """Use the blocks of a key, and forget the oldest ones to make room for them."""
        size, known = self._block_tokens, 0
        name = self._name(namespace)
        for start in range(0, len(tokens) - size + 1, size):
            name = self._name((name, tokens[start : start + size]))
            known += name in self._used
            self._used.pop(name, None)
            self._used[name] = None
        surplus = max(0, len(self._used) - self._most_blocks)
        for oldest in list(self._used)[:surplus]:
            del self._used[oldest]
        return Need(known * size, surplus * size)

    def _name(self, what: object) -> int:
        """Number whatever there is; a block is named by its tokens and the block before it."""
        return self._names.setdefault(what, len(self._names))
