"""A campaign as a person meets it: targets are opened, it runs, and everything is shown."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from types import FrameType
from typing import NamedTuple, NoReturn

from radixcheck.campaign.night import Night, Plan
from radixcheck.campaign.pool import Pool, PoolError
from radixcheck.campaign.standing import Standing
from radixcheck.campaign.state import State
from radixcheck.cli.codes import Code, severest
from radixcheck.cli.errors import show_error
from radixcheck.cli.hosting import Hosts, Isolation, as_judged, hosts
from radixcheck.cli.morning import Morning
from radixcheck.cli.progress import NightBar
from radixcheck.cli.reports import Reports
from radixcheck.hosts import Host
from radixcheck.known import Failure, today
from radixcheck.report import Screen
from radixcheck.report.words import clean, counted, show_duration

MUTANTS = "radixcheck.targets.mutants"
CANARIES = {
    "tree": f"{MUTANTS}.order:RecreatesTheFront",
    "pool": f"{MUTANTS}.pools:ShrinksOnReset",
    "requests": f"{MUTANTS}.bookkeeping:TrustsAnOldMatch",
}
"""For each level a target with a public bug, which takes a few hundred operations to find."""

NO_CANARY = "none"


class Wanted(NamedTuple):
    """What a person asks for, beside the plan."""

    specs: Sequence[str]
    canary: str | None
    isolation: Isolation
    known: Sequence[Failure]
    folder: Path
    pool: Callable[[], Pool]
    reports: Reports


def campaign(screen: Screen, plan: Plan, wanted: Wanted, began_s: float, verbose: bool) -> Code:
    """Open the targets, let the campaign run, show everything, and answer what came of it.

    Args:
        began_s: reading of the monotonic clock from which the time limit counts.

    Raises:
        StateError: the folder cannot be used.
        PoolError: nobody can run tasks.
        TargetError: a canary or the baseline cannot be opened.
    """
    outside = wanted.isolation._replace(isolate=wanted.isolation.isolate is not False)
    with closing(State(wanted.folder)) as state, hosts(outside) as at_hand:
        _announce(screen, state)
        opening = _Opening(at_hand, plan, wanted, state)
        standings, codes = opening.targets(verbose)
        if plan.baseline:
            at_hand.of(plan.baseline).arenas()  # a baseline that cannot be asked is told at once
        if not standings:
            return wanted.reports.written(screen, severest(codes))
        standings += opening.canaries(standings)
        with closing(wanted.pool()) as pool:
            night = Night(plan, state, pool, standings, began_s)
            shown = opening.hosts, wanted.known, wanted.reports
            morning = Morning(screen, night, plan, state, *shown)
            codes += _run(screen, night, morning)
        code = severest([*codes, *morning.summary(pool.notes)])
        code = wanted.reports.written(screen, code)
    if pool.stuck:
        _leave(code)
    return code


def _leave(code: Code) -> NoReturn:
    """End this process at once."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)


def _run(screen: Screen, night: Night, morning: Morning) -> list[Code]:
    """Let it run; if nobody is left to run tasks, say so, and go on to what was found."""
    with NightBar(screen, night) as bar, _stopping(night):

        def watch(night: Night) -> None:
            bar(night)
            morning.show_new()

        try:
            night.run(watch)
        except PoolError as error:
            return [show_error(error)]
    return []


@contextmanager
def _stopping(night: Night) -> Iterator[None]:
    """Let Ctrl-C, and whoever ends processes politely, stop the campaign: at once, but in order. A
    second Ctrl-C does not wait."""

    def stop(number: int, frame: FrameType | None) -> None:
        if night.stopped:
            raise KeyboardInterrupt
        night.stopped = True

    before = {each: signal.signal(each, stop) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _announce(screen: Screen, state: State) -> None:
    tallies = state.tallies
    if tallies.runs and screen.verbosity >= 0:
        operations = sum(each.operations for each in tallies.targets.values())
        before = f"{counted(tallies.runs, 'run')} of {show_duration(tallies.elapsed_s)} in all"
        where = clean(str(state.folder))
        screen.say(f"{where} has {before}, {counted(operations, 'operation')}: it goes on")


class _Opening:
    """Opens each target once, in a process that it may end."""

    def __init__(self, at_hand: Hosts, plan: Plan, wanted: Wanted, state: State) -> None:
        self._at_hand, self._plan, self._wanted, self._state = at_hand, plan, wanted, state
        self.hosts: dict[str, Host] = {}

    def targets(self, verbose: bool) -> tuple[list[Standing], list[Code]]:
        """Open the targets. One that cannot be opened does not keep the others from it."""
        day, standings, codes = today(), list[Standing](), list[Code]()
        known = [each for each in self._wanted.known if not each.is_over(day)]
        for spec in self._wanted.specs:
            try:
                standings.append(self._standing(spec, known))
            except Exception as error:
                codes.append(show_error(error, verbose))
                self._wanted.reports.failed(spec, error)
        return standings, codes

    def canaries(self, targets: Sequence[Standing]) -> list[Standing]:
        """Open what must be found.

        Raises:
            TargetError: it cannot be opened.
        """
        if self._wanted.canary == NO_CANARY:
            return []
        levels = {standing.report.arenas[0].level.name for standing in targets}
        usual = [CANARIES[level] for level in CANARIES if level in levels]
        specs = [self._wanted.canary] if self._wanted.canary else usual
        return [self._standing(spec, canary=True) for spec in specs]

    def _standing(
        self, spec: str, known: Sequence[Failure] = (), *, canary: bool = False
    ) -> Standing:
        spec, isolate = as_judged(spec, self._wanted.isolation)
        host = self.hosts[spec] = self._at_hand.of(spec)
        arenas = host.arenas()
        host.close()  # it comes back when somebody asks it
        seed = self._plan.seed
        return Standing(
            spec, arenas, seed, self._state, isolate=isolate, known=known, canary=canary
        )
