"""The driver that plays a service: traces whose keys and order are those of a workload."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

from radixcheck.arena import Arena
from radixcheck.trace import Trace
from radixcheck.workloads import Workload, play


def proposals(seed: int, arenas: Sequence[Arena], workload: Workload) -> Iterator[Trace]:
    """Yield traces without end; the same seed, arenas and workload yield the same traces.

    A service does not do all that a cache must stand: it never unlocks twice, and seldom asks for
    nothing. So a run that is to reach every situation takes turns with another driver.
    """
    place = 0
    while True:
        turn, which = divmod(place, len(arenas))
        arena = arenas[which]
        operations = play(
            workload,
            Random(f"{seed} {place}"),
            arena.level.name,
            arena.capabilities,
            turn=turn,
            capacity=arena.capacity,
        )
        yield Trace(operations, arena.config)
        place += 1
