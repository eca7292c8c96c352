"""Hunts in worker processes: each worker is started once, warmed up, and then hunts one bug after
the other.

What is measured is processor time, from the moment at which a hunter may begin: its process has
imported everything, has judged a few traces of correct targets, and has opened the target. So a
time is that of one core, whatever else the machine does, and none of it is the start of Python.
"""

from __future__ import annotations

import gc
import platform
import signal
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cache
from itertools import islice
from multiprocessing import active_children, get_context
from pathlib import Path

from msgspec import Struct

from radixcheck.arena import arenas
from radixcheck.bite.hunt import DRIVERS, OURS, Hunt, Kill, host_of
from radixcheck.bite.trial import Trial
from radixcheck.collecting import rare_collections
from radixcheck.drivers.swarm import proposals
from radixcheck.loop import investigate
from radixcheck.registry import resolve
from radixcheck.targets.mutants import MUTANTS
from radixcheck.verdict import check

WARM_UP = ("radix-paged", "pool-paged", "requests:radix-paged")
"""Correct targets, one of each level."""

WARM_UP_TRACES = 6


class Task(Struct, frozen=True):
    """One hunt that is to be made."""

    mutant: str
    driver: str
    seed: int
    limit_s: float


def warm_up() -> None:
    """Import and run what every hunt needs, so that no hunt pays for it."""
    for spec in WARM_UP:
        source = resolve(spec)
        for trace in islice(proposals(0, arenas(source)), WARM_UP_TRACES):
            check(source.open, trace)


@rare_collections()
def hunt(task: Task) -> Trial:
    """Make one hunt, and shrink what it found if the hunter is ours."""
    mutant = MUTANTS[task.mutant]
    host = host_of(mutant)
    this = Hunt(mutant, host, host.arenas(), task.seed, task.limit_s)
    gc.collect()
    this.began_s = time.process_time()
    kill = DRIVERS[task.driver].hunter(this)
    elapsed_s = this.spent_s()
    shrunk, shrink_s = _shrunk(this, kill) if kill and task.driver == OURS else (0, 0.0)
    return Trial(
        task.mutant,
        task.driver,
        task.seed,
        task.limit_s,
        round(elapsed_s, 6),
        this.operations,
        kill.violation.rule if kill else "",
        kill.violation.operation if kill else "",
        kill.violation.step + 1 if kill else 0,
        shrunk,
        round(shrink_s, 6),
        machine(),
    )


def _shrunk(this: Hunt, kill: Kill) -> tuple[int, float]:
    """Return how many operations are left, and the processor time that it took."""
    began_s = time.process_time()
    finding = investigate(this.host, kill.trace, kill.violation, this.seed)
    return len(finding.trace.operations), time.process_time() - began_s


@cache
def machine() -> str:
    """Name the processor, the system and the Python."""
    name = platform.processor() or platform.machine()
    cpus = Path("/proc/cpuinfo")
    lines = cpus.read_text(encoding="utf-8").splitlines() if cpus.exists() else []
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{next(models, name)}, {platform.system()}, {python}"


def tasks(
    mutants: Iterable[str], drivers: Iterable[str], seeds: int, limit_s: float
) -> Iterator[Task]:
    """Yield every hunt, seed by seed: a table that is broken off has a bit of everything."""
    ids, names = list(mutants), list(drivers)
    for seed in range(seeds):
        for id in ids:
            for name in names:
                yield Task(id, name, seed, limit_s)


def hunts(asked: Iterable[Task], workers: int) -> Iterator[Trial]:
    """Yield hunts as they end. Whoever stops listening, by Ctrl-C or otherwise, ends the workers.

    Raises:
        TargetError: a mutant could not be hunted.
        BrokenProcessPool: a worker died.
    """
    others = set(active_children())
    pool = ProcessPoolExecutor(workers, get_context("spawn"), _start)
    try:
        for done in as_completed([pool.submit(hunt, task) for task in asked]):
            yield done.result()
    except BaseException:
        for worker in set(active_children()) - others:
            worker.terminate()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _start() -> None:
    """Leave Ctrl-C to whoever gave the tasks, and warm up."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warm_up()
