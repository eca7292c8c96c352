"""How much of an eviction was surely more than was wanted, whatever the tree's edges.

A tree evicts whole leaves, so the last victim may bring more than was missing. Which slots that one
brought is not known; but a victim is a run of positions without a branch, so it is no longer than
the longest way down through what was freed::

    freed  a-b-c   x-y        5 slots, the longest way down is a-b-c
                              without the last victim there were 2 or more
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from operator import eq
from typing import TypeAlias

Lineage: TypeAlias = Mapping[int, tuple[int, int]]
"""By slot, the tag of the position before it, and its own."""


def without_the_last(freed: Iterable[int], lineage: Lineage, enough: int = 0) -> int:
    """Return how many of the `freed` slots surely came before the last victim did.

    If these are fewer than `enough`, it may be told as any such number.
    """
    known = list(filter(None, map(lineage.get, freed)))
    if (at_most := len(known) - _longest_run(known)) < enough:
        return at_most
    return len(known) - _longest_way_down(known)


def _longest_run(positions: Sequence[tuple[int, int]]) -> int:
    """Return how many follow one another, way down and list alike: as victims mostly come."""
    if not positions:
        return 0
    above, tags = zip(*positions, strict=True)
    follows = bytes(map(eq, above[1:], tags))
    return max(map(len, follows.split(b"\0"))) + 1


def _longest_way_down(positions: Iterable[tuple[int, int]]) -> int:
    above = {tag: before for before, tag in positions}
    depths: dict[int, int] = {}
    for tag in above:
        at, way = tag, list[int]()
        while at in above and at not in depths:
            way.append(at)
            at = above[at]
        depths.update(zip(reversed(way), count(depths.get(at, 0) + 1), strict=False))
    return max(depths.values(), default=0)
