"""From a seed to a trace."""

from __future__ import annotations

from random import Random

from radixcheck.capabilities import Capabilities
from radixcheck.generate import mix
from radixcheck.generate.activities import STORIES, Caller
from radixcheck.generate.keys import Keys
from radixcheck.generate.rounds import rounds
from radixcheck.generate.stairs import stairs
from radixcheck.operations import AnyOperation, Audit

ROUNDS_EVERY = 16
"""One trace in this many goes round and round, where the target's memory can be looked at."""

STAIRS_EVERY = 499
"""One seed in this many makes the deepest path there is, where a target promises to bear that. A
prime, so that no pattern of seeds avoids them all."""

SMALL_PAGE = 2
"""With larger pages a path is not deeper, but longer: it costs more and says as much."""

MOST_NAMES = {"absent": 0, "one": 1, "structured": 9}


def generate(
    seed: int,
    capabilities: Capabilities,
    num_operations: int,
    *,
    swarm: bool = False,
    misuse: bool = False,
    capacity: int | None = None,
) -> tuple[AnyOperation, ...]:
    """Return about `num_operations` operations, and an audit at the end.

    Args:
        seed: the same seed and capabilities give the same operations, whatever PYTHONHASHSEED.
        swarm: draw a mix of its own for this trace instead of the plain one.
        misuse: also unlock what is not locked.
        capacity: means nothing at this level.
    """
    rng = Random(seed)
    if capabilities.storage == "present" and rng.random() * ROUNDS_EVERY < 1:
        return (*rounds(rng, capabilities.page_size), Audit(seed & 0xFFFF))
    if _goes_deep(seed, capabilities):
        return (*stairs(rng, capabilities.page_size), Audit(seed & 0xFFFF))
    weights = _possible(capabilities, misuse=misuse)
    chosen = mix.swarm(rng, weights) if swarm else mix.plain(weights)
    keys = Keys(
        rng,
        capabilities.page_size,
        MOST_NAMES[capabilities.namespaces],
        chosen.shapes,
        chosen.relations,
    )
    caller = Caller(
        rng,
        keys,
        ranked=capabilities.priorities == "present",
        steps_back=capabilities.clock == "injected-steps",
    )
    stories = [STORIES[name] for name in chosen.activities]
    operations: list[AnyOperation] = []
    while len(operations) < num_operations:
        operations += stories[int(rng.random() * len(stories))](caller)
    operations.append(Audit(seed & 0xFFFF))
    return tuple(operations)


def _goes_deep(seed: int, capabilities: Capabilities) -> bool:
    bears = capabilities.depth == "any" and capabilities.page_size <= SMALL_PAGE
    return bears and (seed + 1) % STAIRS_EVERY == 0


def _possible(capabilities: Capabilities, *, misuse: bool) -> dict[str, int]:
    """Return the activities that the target's capabilities allow, with their weights in the plain
    mix."""
    weights = dict(mix.ACTIVITIES)
    if capabilities.clock == "own":
        del weights["tick"], weights["tie"]
    if capabilities.reset == "absent":
        del weights["reset"]
    if not misuse and capabilities.misuse == "unspecified":
        del weights["misuse"]
    return weights
