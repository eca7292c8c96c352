"""A trace of its own kind: one path of more edges than a call stack has frames."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from radixcheck.operations import AnyOperation, Evict, Insert, MatchPrefix

STEPS = 1100
"""Edges of the path: somewhat more than the calls that CPython nests by default."""


def stairs(rng: Random, page_size: int) -> Iterator[AnyOperation]:
    """Make every page of one key an edge, as a conversation does whose every turn is stored, or
    lookups that end ever sooner; then walk all of it::

        =                 =======
        ==                ======
        ===      or       =====        becomes      =-=-=-=-=-=-=
        ====              ====
    """
    key = tuple(range(1, STEPS * page_size + 1))
    ends = range(page_size, len(key), page_size)
    if rng.random() < 0.5:
        yield from (Insert(key[:end]) for end in ends)
        yield Insert(key)
    else:
        yield Insert(key)
        yield from (MatchPrefix(key[:end]) for end in reversed(ends))
    yield MatchPrefix(key)
    yield Evict(page_size)
