"""How often each activity and each shape of key occurs in one trace.

A portfolio: the plain mix finds shallow bugs sooner, a swarm mix (Groce et al., "Swarm Testing",
ISSTA 2012) reaches what needs many operations of few kinds, since whatever is left out cannot get
in the way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

from msgspec import Struct

ACTIVITIES: dict[str, int] = {
    "match": 16,
    "keep": 10,
    "insert": 20,
    "insert-again": 5,
    "refresh": 4,
    "fan-out": 1,
    "begin-request": 12,
    "finish-request": 10,
    "lock": 8,
    "lock-twice": 2,
    "unlock": 9,
    "evict-little": 9,
    "evict-much": 3,
    "evict-nothing": 1,
    "siege": 2,
    "resurrect": 2,
    "pressure": 3,
    "tick": 4,
    "tie": 2,
    "reset": 1,
    "misuse": 4,
}
"""The plain mix. Kinds that a target cannot do are left out."""

SHAPE_WEIGHTS: dict[str, int] = {
    "chain": 3,
    "noise": 6,
    "shared-prompt": 4,
    "repeated-token": 2,
    "page-boundary": 3,
    "shorter-than-page": 2,
    "very-long": 1,
}

RELATION_WEIGHTS: dict[str, int] = {
    "exact": 7,
    "extended": 4,
    "multi-turn": 3,
    "cut": 5,
    "forked": 5,
}

SWARM_FACTORS = (0, 0, 1, 1, 3)
"""A swarm mix multiplies each weight by one of these."""


class Mix(Struct, frozen=True):
    """Names, each as often as it is to be drawn."""

    activities: Sequence[str]
    shapes: Sequence[str]
    relations: Sequence[str]


def plain(activities: Mapping[str, int]) -> Mix:
    """Return the mix in which everything occurs."""
    return Mix(_table(activities), _table(SHAPE_WEIGHTS), _table(RELATION_WEIGHTS))


def swarm(rng: Random, activities: Mapping[str, int]) -> Mix:
    """Return a mix that leaves much out, and does more of the rest."""
    return Mix(
        _table(_some(rng, activities)) or _table(activities),
        _table(_some(rng, SHAPE_WEIGHTS)) or ["noise"],
        _table(_some(rng, RELATION_WEIGHTS)) or ["exact"],
    )


def _some(rng: Random, weights: Mapping[str, int]) -> dict[str, int]:
    return {
        name: weight * SWARM_FACTORS[int(rng.random() * len(SWARM_FACTORS))]
        for name, weight in weights.items()
    }


def _table(weights: Mapping[str, int]) -> list[str]:
    return [name for name, weight in weights.items() for _ in range(weight)]
