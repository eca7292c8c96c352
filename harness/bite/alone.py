"""Hunts of generated mutants, each in a process of its own: a mutant may never come back, or take
with it whoever called.

::

    this process ──mutant──► child     puts it in the place of the module, and hunts it
                 ◄──fate──── or dies   of a signal, by which we know how

The children are forks of a server that has imported everything.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec, module_from_spec
from itertools import chain, islice
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from radixcheck.bite.generated import (
    INCONCLUSIVE,
    STILLBORN,
    SUBJECTS,
    Balance,
    Fate,
    Generated,
    Key,
    Litter,
    balance,
    generate,
    is_settled,
    known,
    read,
)
from radixcheck.bite.trial import append, mend
from radixcheck.buffers import BadAnswer
from radixcheck.collecting import rare_collections
from radixcheck.drivers.swarm import proposals
from radixcheck.hosts import Here
from radixcheck.loop import Report, judge
from radixcheck.registry import TargetError, resolve
from radixcheck.trace import Trace

HANG_S = 5.0
"""Processor time that one trace may take."""

SURE_TIMES = 5
"""So many times its limit a hunt may take to reach what a correct target reaches within three."""

PATIENCE_S = 3600.0
"""... and a whole hunt, by the wall: even on a busy machine, only what waits for nothing takes so
long."""

MEMORY_BYTES = 16 * 2**30
"""Of address space."""

TARGETS = "radixcheck.targets."


class Task(Struct, frozen=True):
    """One hunt that is to be made."""

    mutant: Generated
    source: str
    """The digest of what was mutated."""
    code: str
    """... and what became of it."""
    seed: int
    limit_s: float

    @property
    def key(self) -> Key:
        """The same as its fate's."""
        return self.mutant, self.source, self.seed


def tasks(litter: Litter, fates: Mapping[Key, Fate], seeds: int, limit_s: float) -> Iterator[Task]:
    """Yield the hunts for the mutants of a target that need to be made, seed by seed."""
    for seed in range(seeds):
        for mutant, code in litter.codes.items():
            task = Task(mutant, litter.source, code, seed, limit_s)
            if not is_settled(fates.get(task.key), limit_s):
                yield task


def balances(
    names: Sequence[str] | None, seeds: int, limit_s: float, path: Path, workers: int
) -> list[Balance]:
    """Hunt the mutants of some targets, or of all; each hunt is put down in a file as soon as it
    ends, and is not made again. Targets of which the file knows nothing are left out.

    Raises:
        TargetError: a target is not known, or a library is not installed; or a target is killed
            as it is.
        TrialsError: the file is damaged.
        OSError: it cannot be read or written.
    """
    litters = [generate(name) for name in known(names)]
    made = read(path)
    todo = {each.target: [*tasks(each, made, seeds, limit_s)] for each in litters}
    for name in filter(todo.get, todo):
        check_original(name, limit_s)
        mend(path)
    for fate in hunts(chain.from_iterable(todo.values()), workers):
        append(path, fate)
        made[fate.key] = fate
    return [each for litter in litters if (each := balance(litter, made.values())).total]


def check_original(name: str, limit_s: float) -> None:
    """See that a target survives as it is: whoever kills that, kills its mutants for nothing.

    Raises:
        TargetError: it does not.
    """
    mutant, code = Generated(name, "", "", "", ""), SUBJECTS[name].source()
    (fate,) = hunts([Task(mutant, "", code, 0, limit_s)], 1)
    if fate.rule == INCONCLUSIVE:
        raise TargetError(f"within {limit_s:g} s, {name} itself cannot be judged", "give more time")
    if fate.rule:
        raise TargetError(f"{name} is killed as it is: {fate.rule}", "mend it first", "target")


def hunts(asked: Iterable[Task], workers: int) -> Iterator[Fate]:
    """Yield how hunts end, as they do. Whoever stops listening ends those that run."""
    context = get_context("forkserver")
    libraries = {each for subject in SUBJECTS.values() for each in subject.libraries}
    context.set_forkserver_preload([__name__, *filter(find_spec, libraries)])
    todo, running = iter(asked), dict[Any, tuple[Any, Task]]()
    try:
        while True:
            for task in islice(todo, workers - len(running)):
                ours, theirs = context.Pipe(duplex=False)
                process = context.Process(target=_hunt, args=(task, theirs), daemon=True)
                process.start()
                theirs.close()
                running[ours] = process, task
            if not running:
                return
            for channel in wait(list(running)):
                yield _fate(channel, *running.pop(channel))
    finally:
        for process, _ in running.values():
            process.kill()


def _fate(channel: Any, process: Any, task: Task) -> Fate:
    """Return what a child has told, or what its death tells."""
    try:
        told = msgspec.json.decode(channel.recv_bytes(), type=Fate)
    except EOFError:
        process.join()
        late = -process.exitcode in (signal.SIGPROF, signal.SIGALRM)
        told = _ended(task, HANG_S if late else 0.0, 0, "hang" if late else "crash")
    finally:
        channel.close()
    process.join()
    return told


def _ended(task: Task, elapsed_s: float, operations: int, rule: str) -> Fate:
    return Fate(*task.key, task.limit_s, round(elapsed_s, 6), operations, rule)


# ---- in the child ------------------------------------------------------------------------


def _hunt(task: Task, answer: Connection) -> None:
    """Hunt, and tell how it ended."""
    _confine()
    began_s = time.process_time()
    try:
        _put_in_place(SUBJECTS[task.mutant.target].module, task.code)
    except Exception:
        fate = _ended(task, 0.0, 0, STILLBORN)
    else:
        try:
            fate = _judged(task)
        except (TargetError, BadAnswer):
            fate = _ended(task, time.process_time() - began_s, 0, "unusable")
    answer.send_bytes(msgspec.json.encode(fate))


def _confine() -> None:
    """Let this process end itself, and say nothing."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for late in (signal.SIGPROF, signal.SIGALRM):
        signal.signal(late, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE_S)
    signal.setitimer(signal.ITIMER_PROF, HANG_S)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)


def _put_in_place(name: str, code: str) -> None:
    """Import a mutant as the module that it was made of, for every spec and for every target that
    uses that module."""
    found = find_spec(name)
    assert found is not None and found.origin is not None
    for each in [each for each in sys.modules if each.startswith(TARGETS)]:
        del sys.modules[each]
    module = sys.modules[name] = module_from_spec(found)
    exec(compile(code, found.origin, "exec"), module.__dict__)


@rare_collections()
def _judged(task: Task) -> Fate:
    """Judge as a run does, a trace of each spec in turn, up to the first violation; and as a run
    does, take nothing for clean that never got anywhere."""
    hosts = [Here(resolve(spec)) for spec in SUBJECTS[task.mutant.target].specs]
    reports = [Report(host.source.spec, task.seed, host.arenas()) for host in hosts]
    streams = [proposals(task.seed, report.arenas) for report in reports]
    began_s, elapsed_s, rule = time.process_time(), 0.0, ""
    sure_s = SURE_TIMES * task.limit_s
    while not rule and (elapsed_s < task.limit_s or (elapsed_s < sure_s and _lacks(reports))):
        rule = _turn(hosts, streams, reports)
        elapsed_s = time.process_time() - began_s
    if not rule and _lacks(reports):
        rule = INCONCLUSIVE
    return _ended(task, elapsed_s, sum(each.operations for each in reports), rule)


def _lacks(reports: Sequence[Report]) -> bool:
    """Tell whether a situation was not reached that every run must reach."""
    return any(report.missing for report in reports)


def _turn(
    hosts: Sequence[Here], streams: Sequence[Iterator[Trace]], reports: Sequence[Report]
) -> str:
    """Judge a trace of each stream; return the rule that is broken, or nothing."""
    for host, traces, report in zip(hosts, streams, reports, strict=True):
        signal.setitimer(signal.ITIMER_PROF, HANG_S)
        if (violation := judge(host, next(traces), report).violation) is not None:
            return violation.rule
    return ""
