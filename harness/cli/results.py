"""One trace replayed: what became of it, in a word and a sentence."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import NamedTuple

from radixcheck import corpus
from radixcheck import trace as traces
from radixcheck.capabilities import AnyCapabilities
from radixcheck.cli.codes import Code
from radixcheck.cli.errors import explain
from radixcheck.cli.sources import spec_for, why_unfit
from radixcheck.finding import Finding
from radixcheck.hosts import Host
from radixcheck.hosts.here import AGAIN
from radixcheck.operations import Audit, Tick
from radixcheck.registry import TargetError
from radixcheck.report.words import clean
from radixcheck.rules import Violation
from radixcheck.trace import Trace
from radixcheck.verdict import Verdict


class Status(StrEnum):
    """What became of a trace."""

    FIXED = "FIXED"
    FAILED = "FAILED"
    ERROR = "ERROR"
    NOT_APPLICABLE = "NOT APPLICABLE"


class Saved(NamedTuple):
    """A trace that lies somewhere, not yet read."""

    name: str
    load: Callable[[], Trace]


class Failed(NamedTuple):
    """A trace, where it breaks a rule, and the rule."""

    trace: Trace
    host: Host
    violation: Violation


class Result(NamedTuple):
    """One trace, replayed on one target."""

    status: Status
    name: str
    words: str
    code: Code
    failed: Failed | None = None
    error: Exception | None = None
    spec: str = ""
    """The target; empty where the trace did not get so far."""
    operations: int = 0
    elapsed_s: float = 0


class NotApplicable(Exception):
    """The target cannot take the trace, which says nothing about either."""


def saved_in(paths: Iterable[Path]) -> Iterator[Saved]:
    """List the trace files among `paths`; a folder stands for every ``*.jsonl`` below it.

    What is no file may be the name of a regression that comes along.
    """
    along = {saved.name: saved for saved in packaged()}
    for path in paths:
        if not path.exists() and str(path) in along:
            yield along[str(path)]
            continue
        below = sorted(path.rglob("*.jsonl")) if path.is_dir() else [path]
        yield from (Saved(str(each), partial(traces.load, each)) for each in below)


def packaged() -> Iterator[Saved]:
    """List the regressions that come along with radixcheck."""
    for entry in corpus.packaged().entries:
        yield Saved(entry.id, partial(getattr, entry, "trace"))


def replayed(saved: Saved, target: str | None, host_of: Callable[[str], Host]) -> Result:
    """Replay one trace on `target`, or on the target that the trace itself names."""
    began_s = time.monotonic()
    result = _replayed(saved, target, host_of)
    return result._replace(elapsed_s=time.monotonic() - began_s)


def _replayed(saved: Saved, target: str | None, host_of: Callable[[str], Host]) -> Result:
    spec = target or ""
    try:
        trace = saved.load()
        spec = spec_for(trace, target)
        host = host_of(spec)
        verdict = _verdict(host, trace)
        violation = verdict.violation or _unsteady(host, trace)
    except NotApplicable as reason:
        return Result(
            Status.NOT_APPLICABLE, saved.name, clean(str(reason)), Code.NOTHING, spec=spec
        )
    except Exception as error:
        message, _, hint, code = explain(error)
        words = message.removeprefix(f"{saved.name}:") + (f"; {hint}" if hint else "")
        return Result(Status.ERROR, saved.name, words, code, error=error, spec=spec)
    status, words, code, failed = Status.FIXED, _fixed(trace), Code.CLEAN, None
    if violation is not None:
        failed = Failed(trace, host, violation)
        status, words, code = Status.FAILED, _failed(failed), Code.VIOLATION
    return Result(status, saved.name, words, code, failed, None, spec, verdict.operations)


def as_finding(failed: Failed) -> Finding:
    """Run a failing trace once more, to show what happens on the way."""
    trace, host, violation = failed
    seen = host.replay(trace)
    return Finding(
        host.source.spec,
        trace,
        seen.verdict.violation or violation,
        seen.steps,
        original_operations=len(trace.operations),
        situations=tuple(sorted(seen.verdict.reached)),
        answers=seen.answers,
        pictures=seen.pictures,
    )


# ---- the verdict -------------------------------------------------------------------------


def _verdict(host: Host, trace: Trace) -> Verdict:
    if reason := why_unfit(host, trace):
        raise NotApplicable(reason)
    try:
        level = host.look(trace.config).level
        if strange := {each.kind for each in trace.operations} - level.kinds:
            raise NotApplicable(f"{', '.join(sorted(strange))}: it is a {level.name}")
        verdict = host.check(trace)
    except TargetError as error:
        if trace.config and error.fault == "user" and _opens(host):
            raise NotApplicable(error.message) from error
        raise
    if reason := _differs(verdict.capabilities, trace) or _all_skipped(verdict, trace):
        raise NotApplicable(reason)
    return verdict


def _opens(host: Host) -> bool:
    """Tell whether a target opens at all, if not as a trace wants it."""
    try:
        host.look({})
    except TargetError:
        return False
    return True


def _differs(capabilities: AnyCapabilities, trace: Trace) -> str:
    """Say where the target is not what the trace wants, because its factory or its spec decides."""
    for key in ("page_size", "eviction"):
        wanted = trace.config.get(key)
        actual = getattr(capabilities, key, wanted)
        if wanted is not None and wanted != actual:
            return f"its {key} is {actual}, the trace wants {wanted}"
    return ""


def _all_skipped(verdict: Verdict, trace: Trace) -> str:
    if verdict.violation is not None:
        return ""
    calls = [each for each in trace.operations if not isinstance(each, Tick | Audit)]
    if not calls:
        return "it has no operations"
    if verdict.skipped.total() < len(calls):
        return ""
    return f"every operation was skipped: {', '.join(verdict.skipped)}"


def _unsteady(host: Host, trace: Trace) -> Violation | None:
    """Run a trace again, if it was saved for a rule that no single run can break."""
    if trace.found is None or trace.found.rule not in AGAIN:
        return None
    return host.again(trace.found.rule, trace)


# ---- words -------------------------------------------------------------------------------


def _fixed(trace: Trace) -> str:
    return f"was {clean(trace.found.rule)}" if trace.found else ""


def _failed(failed: Failed) -> str:
    violation, found = failed.violation, failed.trace.found
    broken = violation.rule, violation.operation
    other = found is not None and (found.rule, found.operation) != broken
    instead = f" instead of {clean(found.rule)}" if found and other else ""
    wanted, got = clean(violation.expected, 60), clean(violation.actual, 60)
    return f"{violation.rule} at {violation.operation}{instead}: expected {wanted}, got {got}"
