"""Hunters: each looks for one bug until it is found or time is up. Ours, and the peers beside it.

All but one judge by the same checker. Atheris runs in a process of its own, which libFuzzer owns;
the others run here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from typing import NamedTuple, TypeAlias

from msgspec import Struct

from radixcheck.arena import Arena
from radixcheck.bite import plain, sums
from radixcheck.drivers import swarm
from radixcheck.hosts import Here, Host
from radixcheck.hosts.lockstep import Lockstep
from radixcheck.loop import Report, judge
from radixcheck.registry import TargetError, resolve
from radixcheck.rules import Violation
from radixcheck.targets.mutants import Mutant
from radixcheck.trace import Trace


class Kill(NamedTuple):
    """How a bug was found."""

    trace: Trace
    violation: Violation


class Hunt(Struct):
    """One bug, one seed, and what was spent on it so far."""

    mutant: Mutant
    host: Host
    arenas: Sequence[Arena]
    seed: int
    limit_s: float
    operations: int = 0
    began_s: float = 0
    elapsed_s: float | None = None
    """Told by a hunter whose work is done in another process; None: what this one has used."""

    def spent_s(self) -> float:
        """Return the processor time since the hunt began."""
        return time.process_time() - self.began_s if self.elapsed_s is None else self.elapsed_s

    def is_over(self) -> bool:
        """Tell whether time is up."""
        return self.spent_s() >= self.limit_s


Hunter: TypeAlias = Callable[[Hunt], Kill | None]


class Driver(NamedTuple):
    """Whoever hunts."""

    hunter: Hunter
    words: str
    libraries: tuple[str, ...] = ()
    """What must be installed for it."""

    def missing(self) -> list[str]:
        """Name the libraries without which it cannot hunt here."""
        return [each for each in self.libraries if find_spec(each) is None]


def host_of(mutant: Mutant) -> Host:
    """Return the host that a mutant is judged in: this process, or two replicas side by side."""
    hosts = [Here(resolve(mutant.spec)) for _ in range(mutant.replicas)]
    return Lockstep(hosts, exact=True) if len(hosts) > 1 else hosts[0]


def _ours(hunt: Hunt) -> Kill | None:
    return _judged(hunt, swarm.proposals(hunt.seed, hunt.arenas))


def _uniform(hunt: Hunt) -> Kill | None:
    return _judged(hunt, plain.proposals(hunt.seed, hunt.arenas))


def _judged(hunt: Hunt, traces: Iterator[Trace]) -> Kill | None:
    """Judge as a run does, up to the first violation."""
    report = Report(hunt.host.source.spec, hunt.seed, list(hunt.arenas))
    for trace in traces:
        violation = judge(hunt.host, trace, report).violation
        hunt.operations = report.operations
        if violation is not None:
            return Kill(trace, violation)
        if hunt.is_over():
            return None
    return None


def _counted(hunt: Hunt) -> Kill | None:
    """Run what ours proposes, and look at sums and at exceptions only."""
    open_target = resolve(hunt.mutant.spec).open
    for trace in swarm.proposals(hunt.seed, hunt.arenas):
        violation = sums.check(open_target, trace)
        hunt.operations += len(trace.operations) if violation is None else violation.step + 1
        if violation is not None:
            return Kill(trace, violation)
        if hunt.is_over():
            return None
    return None


def _hypothesis(hunt: Hunt) -> Kill | None:
    from radixcheck.bite.machine import run

    return run(hunt)


def _atheris(hunt: Hunt) -> Kill | None:
    from radixcheck.bite.covering import run

    return run(hunt, "plain")


def _atheris_hypothesis(hunt: Hunt) -> Kill | None:
    from radixcheck.bite.covering import run

    return run(hunt, "hypothesis")


DRIVERS: dict[str, Driver] = {
    "swarm": Driver(_ours, "the swarm, as `radixcheck run` does it"),
    "uniform": Driver(_uniform, "a loop whose every choice is uniform"),
    "hypothesis": Driver(_hypothesis, "a plain Hypothesis state machine", ("hypothesis",)),
    "atheris": Driver(_atheris, "Atheris with a plain decoder", ("atheris",)),
    "atheris-hypothesis": Driver(
        _atheris_hypothesis,
        "Atheris with Hypothesis's `fuzz_one_input`",
        ("atheris", "hypothesis"),
    ),
    "sums": Driver(_counted, "the swarm's traces, judged by conservation sums and exceptions only"),
}
"""Every driver by its name; the first is ours."""

OURS = next(iter(DRIVERS))


def known(names: Sequence[str]) -> list[str]:
    """Check that all of these are drivers that can hunt here, and return them, each once.

    Raises:
        TargetError: one is not known, or what it needs is not installed.
    """
    for name in names:
        if name not in DRIVERS:
            raise TargetError(f"no driver {name!r}", f"choose of {', '.join(DRIVERS)}")
        if lacking := DRIVERS[name].missing():
            extras = ",".join(lacking)
            raise TargetError(f"{name} needs {extras}", f"pip install 'radixcheck[{extras}]'")
    return list(dict.fromkeys(names))
