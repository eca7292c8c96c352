"""What proposes the traces of a task, by the name that a campaign gives it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from radixcheck.arena import Arena
from radixcheck.drivers import mutated, swarm, workload
from radixcheck.trace import Trace, loads
from radixcheck.workloads import WORKLOADS

if TYPE_CHECKING:
    from radixcheck.campaign.unit import Task

SWARM, MUTATION = "swarm", "mutation"

ATHERIS = "atheris"

NAMES = (SWARM, MUTATION, *WORKLOADS)
"""The drivers that every campaign has. `ATHERIS` comes to them where it is installed."""


def proposals(task: Task, arenas: Sequence[Arena]) -> Iterator[Trace]:
    """Yield traces without end; the same task yields the same traces."""
    if task.driver == SWARM:
        return swarm.proposals(task.seed, arenas, misuse=task.misuse)
    if task.driver == MUTATION:
        parents = list(map(loads, task.corpus))
        return mutated.proposals(task.seed, arenas, parents, misuse=task.misuse)
    return workload.proposals(task.seed, arenas, WORKLOADS[task.driver])
