"""What workloads find: planted bugs of trees, by the swarm alone, by one workload alone, and by
both in turn.

    python bench/workloads.py

Ends in one line per figure, and exits 1 if both in turn miss what the swarm alone finds.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from radixcheck.arena import Arena, arenas
from radixcheck.drivers import swarm, workload
from radixcheck.levels import TREE
from radixcheck.registry import Source, resolve
from radixcheck.targets.liars import LIARS
from radixcheck.targets.mutants import MUTANTS
from radixcheck.trace import Trace
from radixcheck.verdict import check
from radixcheck.workloads import WORKLOADS

SEED = 1
PATIENCE = 8_000
"""Operations of the swarm; in turn with a workload it still has as many."""

SWARM = "the swarm"


def main() -> int:
    """Let everybody look for every planted bug, and tell whether nothing got lost."""
    found: dict[str, dict[str, int]] = {}
    planted: list[Any] = [*LIARS.values(), *(mutant.factory for mutant in MUTANTS.values())]
    for factory in planted:
        source = resolve(f"{factory.__module__}:{factory.__name__}")
        seen = arenas(source)
        if seen[0].level is not TREE:
            continue
        for who, traces, patience in searches(seen):
            operations = until_found(source, traces, patience)
            if operations is not None:
                found.setdefault(who, {})[factory.__name__] = operations
    for who, each in found.items():
        median = statistics.median(each.values())
        print(f"{who}: {len(each)} planted bugs found, median {median:.0f} operations")
    lost = {who: found[SWARM].keys() - found[who].keys() for who in found if "in turn" in who}
    for who, names in lost.items():
        print(f"{who}, lost: {len(names)} (bar 0) {' '.join(sorted(names))}".rstrip())
    return 1 if any(lost.values()) else 0


def searches(seen: Sequence[Arena]) -> Iterator[tuple[str, Iterable[Trace], int]]:
    """Yield who searches, the traces, and for how many operations."""
    yield SWARM, swarm.proposals(SEED, seen), PATIENCE
    for name, each in WORKLOADS.items():
        yield name, workload.proposals(SEED, seen, each), PATIENCE
        pair = swarm.proposals(SEED, seen), workload.proposals(SEED, seen, each)
        yield f"{name} in turn", chain.from_iterable(zip(*pair, strict=True)), 4 * PATIENCE


def until_found(source: Source, traces: Iterable[Trace], patience: int) -> int | None:
    """Return after how many operations a violation was seen; None if it was not in time."""
    operations = 0
    for trace in traces:
        verdict = check(source.open, trace, thorough=False)
        operations += verdict.operations
        if verdict.violation is not None:
            return operations
        if operations > patience:
            break
    return None


if __name__ == "__main__":
    sys.exit(main())
