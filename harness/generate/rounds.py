"""A trace of its own kind: the same round again and again, with a weighing after each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import TypeAlias

from radixcheck.operations import (
    AnyOperation,
    DecRef,
    Evict,
    IncRef,
    Insert,
    MatchPrefix,
    Tokens,
    Weigh,
)

ROUNDS = 24
"""A few more than the judge wants to see: it does not judge the first of them."""

EDGE_TOKENS, EDGE_PAGES = 512, 64
"""An edge has so many tokens at least, and so many pages."""

Round: TypeAlias = Callable[[Tokens, str, int], Iterator[AnyOperation]]
"""Called with a key that is new, the name of a handle, and the page size."""


def rounds(rng: Random, page_size: int) -> Iterator[AnyOperation]:
    """Yield one kind of round, `ROUNDS` times."""
    one_round = ROUND_KINDS[int(rng.random() * len(ROUND_KINDS))]
    pages = max(EDGE_PAGES, -(-EDGE_TOKENS // page_size))
    length = pages * page_size
    yield Weigh()
    for number in range(ROUNDS):
        first = number * length
        yield from one_round(tuple(range(first, first + length)), f"h{number + 1}", page_size)
        yield Weigh()


def keep_the_front(key: Tokens, handle: str, page_size: int) -> Iterator[AnyOperation]:
    """Store a long edge, lock its first page, and evict the rest::

    ===================== 512 tokens      becomes      = 1 page, locked
    """
    yield Insert(key)
    yield MatchPrefix(key[:page_size], handle=handle)
    yield IncRef(handle)
    yield Evict(len(key) - page_size)


def cut_and_go(key: Tokens, handle: str, page_size: int) -> Iterator[AnyOperation]:
    """Store a long edge, cut it, and let it go."""
    yield Insert(key)
    yield MatchPrefix(key[:page_size], handle=handle)
    yield Evict(len(key))


def come_and_go(key: Tokens, handle: str, page_size: int) -> Iterator[AnyOperation]:
    """Store a long edge, lock and unlock it, store it again, and let it go."""
    yield Insert(key)
    yield MatchPrefix(key, handle=handle)
    yield IncRef(handle)
    yield Insert(key, lent=handle)
    yield DecRef(handle)
    yield Evict(len(key))


ROUND_KINDS: tuple[Round, ...] = (keep_the_front, keep_the_front, cut_and_go, come_and_go)
