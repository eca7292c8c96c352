"""The unit of work: a pure function from a task to a harvest. Both are plain data that travel.

::

    Task(spec, driver, seed, ...)  ──work──►  Harvest(operations, reached, failing, kept, ...)

The same task brings the same harvest, wherever it runs and as often as it does, unless its time
ran out before its operations did. So a task whose worker was lost is simply given away again.

Besides the drivers there are three chores: ``replay`` judges the corpus, ``confirm`` tells whether
a trace fails, and ``shrink`` makes a finding of one that does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import date
from functools import partial
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct, field

from radixcheck.arena import Arena
from radixcheck.buffers import BadAnswer
from radixcheck.campaign.drivers import ATHERIS, proposals
from radixcheck.campaign.features import Lines, named, situations_of, watched_lines
from radixcheck.campaign.guided import guided
from radixcheck.checker.calls import said
from radixcheck.collecting import rare_collections
from radixcheck.corpus import content_name
from radixcheck.finding import Finding
from radixcheck.hosts import Here, Host, Isolated, Limits
from radixcheck.hosts.here import AGAIN
from radixcheck.hosts.isolated import LIMITS
from radixcheck.hosts.wire import Failed
from radixcheck.known import Failure, Signature, covering
from radixcheck.loop import MORE_TRIES, Report, begun, investigate, judge
from radixcheck.registry import TargetError, resolve
from radixcheck.rules import Violation
from radixcheck.trace import Trace, dumps, loads
from radixcheck.verdict import Verdict


class Task(Struct, frozen=True):
    """What is to be done, and all that must be known for it."""

    spec: str
    driver: str
    """A name of `radixcheck.campaign.drivers`, or ``replay``, ``confirm``, ``shrink``."""
    seed: int = 0
    max_operations: int | None = None
    max_time_s: float = 60.0
    misuse: bool = False
    isolate: bool = False
    limits: Limits = LIMITS
    arenas: tuple[int, ...] = ()
    """Configurations to judge in, by their places among those of the target; none: all."""
    corpus: tuple[bytes, ...] = ()
    """Trace files: traces to change, to replay, to confirm or to shrink."""
    violation: Violation | None = None
    """What the trace broke that is to be shrunk; None: whatever it breaks now."""
    told: tuple[Signature, ...] = ()
    """What is no news, since it was found before."""
    known: tuple[Failure, ...] = ()
    """What is no news, since the project knows of it. None of these has expired."""
    seen: frozenset[str] = frozenset()
    """Features that the corpus has."""
    name: str = ""
    """What whoever gave the task wants to know it by."""
    canary: bool = False
    """Whether the target is there to be found."""
    tries: int = 0
    """How many workers were lost over it."""


class Failing(Struct, frozen=True):
    """A trace that breaks a rule, as it was found."""

    trace: Trace
    violation: Violation


class Kept(Struct, frozen=True):
    """A trace that reaches something new, as a file, and all that it reaches."""

    name: str
    """What its content calls it."""
    content: bytes
    operations: int
    features: frozenset[str]


class Judged(Struct, frozen=True):
    """How many traces were judged in a configuration, and how many of them what is no news has cut
    short."""

    traces: int = 0
    cut: int = 0


class Harvest(Struct):
    """What a task has brought."""

    operations: int = 0
    traces: int = 0
    elapsed_s: float = 0
    kills: int = 0
    """How often something else ended the process in which the target was isolated."""
    reached: dict[str, int] = field(default_factory=dict)
    skipped: dict[str, int] = field(default_factory=dict)
    judged: dict[str, Judged] = field(default_factory=dict)
    """By configuration."""
    no_news: dict[Signature, int] = field(default_factory=dict)
    """How often a violation was seen that is told or known."""
    cut_short: int = 0
    """Operations that were not judged, since a known failure had ended their trace."""
    failing: list[Failing] = field(default_factory=list)
    """The first trace of each signature that is news."""
    kept: list[Kept] = field(default_factory=list)
    finding: Finding | None = None
    """What came of shrinking."""
    failed: Failed | None = None
    """Why the target could not be judged."""


encode = msgspec.msgpack.Encoder().encode
read_task = msgspec.msgpack.Decoder(Task).decode
read_harvest = msgspec.msgpack.Decoder(Harvest).decode

Opened: TypeAlias = Callable[[Task], AbstractContextManager[Host]]
"""Gives the host in which the target of a task lives."""


@contextmanager
def opened(task: Task) -> Iterator[Host]:
    """Give a host that lives as long as the task.

    Raises:
        TargetError: the spec cannot be resolved.
    """
    host = Isolated(task.spec, task.limits) if task.isolate else Here(resolve(task.spec))
    try:
        yield host
    finally:
        host.close()


@rare_collections()
def work(task: Task, opened: Opened = opened) -> Harvest:
    """Do what a task says. A target that cannot be judged is a harvest too."""
    began_s, harvest = time.monotonic(), Harvest()
    try:
        with opened(task) as host:
            _DO.get(task.driver, _fuzz)(task, host, harvest)
    except BaseException as error:
        harvest.failed = _failed(error)
    harvest.elapsed_s = time.monotonic() - began_s
    return harvest


def _failed(error: BaseException) -> Failed:
    notes = tuple(getattr(error, "__notes__", ()))
    if isinstance(error, TargetError):
        return Failed("target", error.message, error.hint, error.fault, notes)
    if isinstance(error, BadAnswer):
        return Failed("adapter", str(error), notes=notes)
    kind: Literal["target", "harness"] = "harness" if isinstance(error, Exception) else "target"
    return Failed(kind, f"{type(error).__name__}: {said(error)}", fault="target", notes=notes)


# ---- drivers -----------------------------------------------------------------------------


def _fuzz(task: Task, host: Host, harvest: Harvest) -> None:
    """Judge what the driver proposes, until operations or time are used up."""
    arenas = host.arenas()
    chosen = [arenas[place] for place in task.arenas if place < len(arenas)] or arenas
    _judge_all(task, host, begun(host, proposals(task, chosen)), harvest, arenas)


def _guided(task: Task, host: Host, harvest: Harvest) -> None:
    """Let coverage guide, and judge again what that leaves."""
    arenas = host.arenas()
    seen, traces = guided(task, arenas)
    _judge_all(task, host, begun(host, iter(traces)), harvest, arenas)
    harvest.operations += seen.operations
    harvest.traces += seen.traces


def _replay(task: Task, host: Host, harvest: Harvest) -> None:
    """Judge the corpus."""
    _judge_all(task, host, begun(host, map(loads, task.corpus)), harvest, host.arenas())


def _judge_all(
    task: Task, host: Host, traces: Iterator[Trace], harvest: Harvest, arenas: list[Arena]
) -> None:
    report, lines = Report(task.spec, task.seed, arenas), watched_lines()
    gathering, until_s = _Gathering(task, harvest, lines), time.monotonic() + task.max_time_s
    try:
        for trace in traces:
            gathering.add(trace, judge(host, trace, report))
            enough = task.max_operations is not None and report.operations >= task.max_operations
            if enough or time.monotonic() >= until_s:
                break
    finally:
        lines.close()
        harvest.operations, harvest.traces = report.operations, report.traces
        harvest.reached, harvest.skipped = report.reached, report.skipped
        harvest.kills = report.kills


class _Gathering:
    """Sorts verdicts: what is news, what is not, and what is worth keeping."""

    def __init__(self, task: Task, harvest: Harvest, lines: Lines) -> None:
        self._task, self._harvest, self._lines = task, harvest, lines
        self._seen = set(task.seen)
        self._told = set(task.told)

    def add(self, trace: Trace, verdict: Verdict) -> None:
        """Take in a trace and what came of it."""
        violation, harvest = verdict.violation, self._harvest
        lines = self._lines.new()
        where = named(trace.config)
        before = harvest.judged.get(where, Judged())
        cut = violation is not None and not self._is_news(violation, trace)
        harvest.judged[where] = Judged(before.traces + 1, before.cut + cut)
        if violation is None:
            self._keep(trace, lines.union(situations_of(trace.config, verdict.reached)))

    def _is_news(self, violation: Violation, trace: Trace) -> bool:
        signature, harvest = violation.signature, self._harvest
        known = _is_known(self._task, signature)
        if signature in self._told or known:
            harvest.no_news[signature] = harvest.no_news.get(signature, 0) + 1
            harvest.cut_short += len(trace.operations) - violation.step - 1 if known else 0
            return False
        self._told.add(signature)
        harvest.failing.append(Failing(trace, violation))
        return True

    def _keep(self, trace: Trace, features: set[str]) -> None:
        if features <= self._seen and self._task.driver != "replay":
            return  # of the corpus all is told, for whoever minimises it
        self._seen |= features
        length, name = len(trace.operations), content_name(trace)
        self._harvest.kept.append(Kept(name, dumps(trace), length, frozenset(features)))


# ---- chores ------------------------------------------------------------------------------


def _confirm(task: Task, host: Host, harvest: Harvest) -> None:
    """Tell whether a trace fails, and how."""
    trace = loads(task.corpus[0])
    if (violation := _seen_again(host, trace)) is not None:
        harvest.failing.append(Failing(trace, violation))


def _shrink(task: Task, host: Host, harvest: Harvest) -> None:
    """Make a finding of a trace that fails; what fails no more, is none."""
    trace = loads(task.corpus[0])
    violation = task.violation or _seen_again(host, trace)
    if violation is not None:
        seed = trace.found.seed if trace.found else None
        known = partial(_is_known, task)
        harvest.finding = investigate(host, trace, violation, seed, task.max_time_s, known)


def _is_known(task: Task, signature: Signature) -> bool:
    return covering(task.known, task.spec, signature, date.min) is not None


def _seen_again(host: Host, trace: Trace) -> Violation | None:
    """Run a trace until it fails, a few times at most: some fail by chance only."""
    rule = trace.found.rule if trace.found else ""
    for _ in range(MORE_TRIES):
        violation = host.check(trace).violation
        if violation is None and rule in AGAIN:
            violation = host.again(rule, trace)
        if violation is not None:
            return violation
    return None


_DO: dict[str, Callable[[Task, Host, Harvest], None]] = {
    "replay": _replay,
    "confirm": _confirm,
    "shrink": _shrink,
    ATHERIS: _guided,
}

CHORES = frozenset(_DO) - {ATHERIS}
"""What is done besides what drivers propose."""
