"""What a campaign knows of one target: counts, corpus, findings, and what is no news any more."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date
from math import inf
from random import Random
from sys import intern
from typing import NamedTuple

from msgspec import structs

from radixcheck.arena import Arena
from radixcheck.campaign.drivers import ATHERIS, MUTATION, SWARM
from radixcheck.campaign.drivers import NAMES as DRIVERS
from radixcheck.campaign.features import cover, named
from radixcheck.campaign.guided import is_able
from radixcheck.campaign.shares import Share, worth_judging
from radixcheck.campaign.state import State, finding_name
from radixcheck.campaign.unit import Failing, Harvest, Judged, Kept, Task
from radixcheck.corpus import content_name
from radixcheck.finding import Finding
from radixcheck.hosts.wire import Failed
from radixcheck.known import Failure, Signature, covering
from radixcheck.loop import TRIES, Report
from radixcheck.trace import Found, dumps, loads

RATE = 5_000.0
"""Operations in a second, as long as nobody knows."""

PARENTS = 24
"""So many traces of the corpus a task may change."""

REPLAYED = 40
"""So many traces of the corpus are replayed in one task."""

GROWTH, SMALL = 1.25, 32
"""The corpus is minimised whenever it has grown so much, unless it is small."""

MOST_RATES = 240
"""So many moments are remembered, at growing distances."""


class Rate(NamedTuple):
    """What had been seen at one moment."""

    elapsed_s: float
    operations: int
    situations: int
    findings: int


class Entry(NamedTuple):
    """What is known of a trace of the corpus, which itself lies in its file."""

    features: frozenset[str]
    operations: int


class Standing:
    """One target of a campaign.

    Args:
        arenas: its configurations.
        isolate: whether it is judged in a process that it may end.
        known: failures that are no news, none of them expired.
        canary: whether it is there to be found.
    """

    def __init__(
        self,
        spec: str,
        arenas: Sequence[Arena],
        seed: int,
        state: State,
        *,
        isolate: bool = False,
        known: Iterable[Failure] = (),
        canary: bool = False,
    ) -> None:
        self.spec, self.isolate, self.canary = spec, isolate, canary
        self.report = Report(spec, seed, list(arenas), most_findings=inf)
        self.known = tuple(each for each in known if each.concerns(spec))
        self.configs = [named(arena.config) for arena in arenas]
        self.judged: dict[str, Judged] = {}
        self.features: set[str] = set()
        self.entries: dict[str, Entry] = {}
        """The corpus, by the names of its files."""
        self.investigated: dict[Signature, int] = {}
        """How often each signature was shrunk."""
        self.pending: dict[str, Found] = {}
        """Findings of earlier runs, by their names, of which nothing was seen in this one."""
        self.new: dict[Signature, bool | None] = {}
        """Whether the baseline is free of a finding; None as long as nobody has asked."""
        self.failed: Failed | None = None
        """Why it is judged no longer."""
        self.rates: list[Rate] = []
        self._rate_every_s = 1.0
        self._state = state
        self._minimised = SMALL
        turns = state.tallies.of(spec).turns
        names = (SWARM,) if canary else DRIVERS
        if not canary and not isolate and is_able(arenas):
            names = (*names, ATHERIS)
        self.shares = [Share(spec, each, canary, turns=turns.get(each, 0)) for each in names]

    @property
    def found(self) -> bool:
        """Whether a canary was found."""
        return bool(self.report.findings)

    @property
    def told(self) -> tuple[Signature, ...]:
        """The signatures that are no news. One that is flaky may be steady next time."""
        flaky = {each.violation.signature for each in self.report.findings if each.flaky}
        return tuple(
            signature
            for signature, times in self.investigated.items()
            if signature not in flaky or times > TRIES
        )

    def able(self) -> list[Share]:
        """Return the drivers that may get a task."""
        return [
            share
            for share in self.shares
            if not share.benched and (share.driver != MUTATION or self.entries)
        ]

    # ---- tasks ---------------------------------------------------------------------------

    def task(self, share: Share, seed: int, seconds: float, like: Task) -> Task:
        """Make the next task of a driver.

        Args:
            seconds: about how long it is to take.
            like: what all tasks have in common.
        """
        rate = share.operations / share.elapsed_s if share.operations else self._rate()
        return structs.replace(
            like,
            spec=self.spec,
            driver=share.driver,
            seed=seed,
            canary=self.canary,
            max_operations=max(100, int(rate * seconds)),
            max_time_s=2 * seconds,
            isolate=self.isolate or share.driver == ATHERIS,
            arenas=tuple(worth_judging(self.configs, self.judged, share.turns)),
            corpus=self._parents(seed) if share.driver in (MUTATION, ATHERIS) else (),
            told=self.told,
            known=self.known,
            seen=frozenset(self.features),
        )

    def _rate(self) -> float:
        spent_s = sum(share.elapsed_s for share in self.shares)
        return self.report.operations / spent_s if self.report.operations and spent_s else RATE

    def _parents(self, seed: int) -> tuple[bytes, ...]:
        """Choose traces to change: some of the last ones, and some of all."""
        every = list(self.entries)
        last = every[-PARENTS // 3 :]
        others = Random(seed).sample(every, min(len(every), PARENTS - len(last)))
        return self._state.read(self.spec, dict.fromkeys(last + others))

    def replays(self, like: Task) -> list[Task]:
        """Make tasks that judge the saved corpus again."""
        names = self._state.corpus(self.spec)
        return [
            structs.replace(
                like,
                spec=self.spec,
                driver="replay",
                isolate=self.isolate,
                corpus=self._state.read(self.spec, names[start : start + REPLAYED]),
                known=self.known,
            )
            for start in range(0, len(names), REPLAYED)
        ]

    # ---- what a task brings --------------------------------------------------------------

    def take(self, harvest: Harvest, *, saved: bool = False) -> int:
        """Take in counts and corpus, and tell how many features are new.

        Args:
            saved: the traces come from the corpus.
        """
        report = self.report
        report.operations += harvest.operations
        report.traces += harvest.traces
        report.elapsed_s += harvest.elapsed_s
        report.kills += harvest.kills
        report.cut_short += harvest.cut_short
        report.reached.update(harvest.reached)
        report.skipped.update(harvest.skipped)
        for config, more in harvest.judged.items():
            before = self.judged.get(config, Judged())
            self.judged[config] = Judged(before.traces + more.traces, before.cut + more.cut)
        for signature, times in harvest.no_news.items():
            counts = report.known if self.covered(signature) else report.repeats
            counts[signature] += times
        return sum(self._keep(each, saved=saved) for each in harvest.kept)

    def covered(self, signature: Signature) -> Failure | None:
        """Return the known failure that a signature is."""
        return covering(self.known, self.spec, signature, date.min)

    def _keep(self, kept: Kept, *, saved: bool) -> int:
        features = frozenset(map(intern, kept.features))
        new = features - self.features
        if not new and not saved:
            return 0
        self.features |= new
        self.entries[kept.name] = Entry(features, kept.operations)
        if not saved:
            self._state.keep(self.spec, kept.name, kept.content)
            self.minimise()
        return len(new)

    def minimise(self) -> None:
        """Keep as few traces as have every feature, now and then."""
        if len(self.entries) < self._minimised * GROWTH:
            return
        features = {name: each.features for name, each in self.entries.items()}
        cost = {name: each.operations for name, each in self.entries.items()}
        for name in self.entries.keys() - set(cover(features, cost)):
            del self.entries[name]
            self._state.drop(self.spec, name)
        self._minimised = max(SMALL, len(self.entries))

    def note_rate(self, elapsed_s: float) -> None:
        """Remember this moment, if the last one is some time ago."""
        if self.rates and elapsed_s - self.rates[-1].elapsed_s < self._rate_every_s:
            return
        reached, report = sum(map(bool, self.report.reached.values())), self.report
        self.rates.append(Rate(elapsed_s, report.operations, reached, len(report.findings)))
        if len(self.rates) >= MOST_RATES:
            self.rates = self.rates[::2]
            self._rate_every_s = elapsed_s / (MOST_RATES // 2)

    # ---- findings ------------------------------------------------------------------------

    def fail(self, failing: Failing, seed: int | None) -> str:
        """Save a trace that fails, and name it if it is to be shrunk."""
        violation, report = failing.violation, self.report
        signature = violation.signature
        if signature in self.told:  # two workers have found it at once
            report.repeats[signature] += 1
            return ""
        self.investigated[signature] = self.investigated.get(signature, 0) + 1
        operations = failing.trace.operations[: violation.step + 1]
        found = Found(violation.rule, violation.operation, self.spec, seed)
        trace = failing.trace.replace(operations=operations, found=found)
        name = finding_name(self.spec, signature)
        self.pending.pop(name, None)
        if self._at(signature) is None:
            length = len(operations)
            raw = Finding(self.spec, trace, violation, (), seed, length)
            report.findings.append(raw)
            if not self.canary:
                self._state.find(name, trace, found)
        return "" if self.canary else name

    def shrunk(self, finding: Finding, name: str) -> bool:
        """Take in what came of shrinking; tell whether it is a finding that was not had so far.

        Args:
            name: under which the failing trace was saved, maybe for another rule.
        """
        signature, report = finding.violation.signature, self.report
        own_name = finding_name(self.spec, signature)
        self.investigated.setdefault(signature, 1)
        self.pending.pop(own_name, None)
        if name != own_name and name not in self.pending:  # what hides another does not mend it
            self._forget(name)
        if self.covered(signature):
            report.known[signature] += 1
            return False
        place = self._at(signature)
        if place is None:
            report.findings.append(finding)
        elif _better(finding, report.findings[place]):
            report.findings[place] = finding
        else:
            return False
        found = finding.trace.found
        assert found is not None
        self._state.find(own_name, finding.trace, found)
        return True

    def fails_no_more(self, name: str, content: bytes) -> None:
        """Put a finding of an earlier run into the corpus, since its trace fails no more."""
        trace = loads(content).replace(found=None)
        self._state.keep(self.spec, content_name(trace), dumps(trace))
        self._state.retire(name)
        self.pending.pop(name, None)

    def _at(self, signature: Signature) -> int | None:
        findings = enumerate(self.report.findings)
        return next((at for at, each in findings if each.violation.signature == signature), None)

    def _forget(self, name: str) -> None:
        """Remove a finding that has turned out to be another."""
        self._state.retire(name)
        findings = self.report.findings
        findings[:] = [
            each for each in findings if finding_name(self.spec, each.violation.signature) != name
        ]


def _better(one: Finding, other: Finding) -> bool:
    """Tell whether a finding is steadier or shorter, or has been looked at where the other has
    not."""
    return _rank(one) < _rank(other)


def _rank(finding: Finding) -> tuple[bool, bool, int, int]:
    operations = finding.trace.operations
    tokens = sum(len(getattr(each, "tokens", ())) for each in operations)
    return finding.flaky, not finding.steps, len(operations), tokens
