"""The loop: what a run reports, and how it ends."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import structs

from radixcheck.drivers.swarm import proposals
from radixcheck.finding import Finding
from radixcheck.hosts import Here
from radixcheck.loop import (
    FATAL_GRACE_S,
    GRACE_S,
    SHRINK_TIME_S,
    Budget,
    Report,
    investigate,
    run,
)
from radixcheck.operations import Evict, Insert, MatchPrefix
from radixcheck.registry import Source, resolve
from radixcheck.rules import Violation
from radixcheck.situations import SITUATIONS
from radixcheck.trace import Trace, dumps, loads
from radixcheck.verdict import Replay, Verdict, check

pytestmark = pytest.mark.slow

FLAKY = '''
from radixcheck.targets.radix import Radix

class Flaky(Radix):
    """Wrong once, and never again."""

    lies = 1

    def evictable_size(self):
        lie, Flaky.lies = Flaky.lies, 0
        return super().evictable_size() + lie
'''


def judged(spec: str, **budget: int | bool) -> Report:
    limits: Any = budget
    return run(Here(resolve(spec)), seed=1, budget=Budget(**limits))


def test_the_first_release_is_found_and_shrunk_to_three_operations() -> None:
    (finding,) = judged("radix-first-release", max_operations=50_000, first_only=True).findings
    assert finding.violation.signature == ("phantom-prefix", "match_prefix")
    assert len(finding.trace.operations) == 3


def test_a_finding_fails_again_from_its_file() -> None:
    (finding,) = judged("radix-first-release", max_operations=50_000, first_only=True).findings
    again = check(resolve("radix-first-release").open, loads(dumps(finding.trace))).violation
    assert again is not None
    assert again.signature == finding.violation.signature


@pytest.mark.parametrize("spec", ["radix", "radix-paged"])
def test_a_correct_target_is_green_and_reaches_every_required_situation(spec: str) -> None:
    report = judged(spec, max_operations=30_000 if spec == "radix" else 60_000)
    assert (report.findings, report.missing) == ([], [])


def test_the_same_seed_gives_the_same_report() -> None:
    one, other = (judged("radix-paged", max_operations=3000) for _ in range(2))
    assert (one.operations, one.reached, one.skipped) == (
        other.operations,
        other.reached,
        other.skipped,
    )


def test_a_finding_is_counted_once_however_often_it_comes_back() -> None:
    report = judged("radix-first-release", max_operations=8000)
    signatures = [finding.violation.signature for finding in report.findings]
    assert len(signatures) == len(set(signatures))
    assert report.repeats.total() > 0


def test_an_interrupted_run_keeps_what_it_has() -> None:
    def press_ctrl_c(report: Report) -> None:
        if report.traces == 3:
            raise KeyboardInterrupt

    report = run(Here(resolve("radix")), seed=1, budget=Budget(), watch=press_ctrl_c)
    assert (report.interrupted, report.traces) == (True, 3)


def test_a_violation_that_does_not_come_back_is_flaky(tmp_path: Path) -> None:
    (tmp_path / "flaky.py").write_text(FLAKY)
    report = judged(f"{tmp_path}/flaky.py:Flaky", max_operations=2000)
    assert [finding.flaky for finding in report.findings] == [True]
    assert report.violations == []


SLOW_S = 10.0


class Slow(Here):
    """Takes its time for each trace, by a clock of its own, and breaks a rule only once."""

    def __init__(self, spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(resolve(spec))
        self.now_s = 0.0
        self.broken: Violation | None = Violation("slot-mismatch", "insert", 0, "this", "that")
        monkeypatch.setattr("radixcheck.loop.time", SimpleNamespace(monotonic=lambda: self.now_s))

    def check(self, trace: Trace, thorough: bool = True) -> Verdict:
        self.now_s += SLOW_S
        violation, self.broken = self.broken, None
        return structs.replace(super().check(trace, thorough), violation=violation)

    def replay(self, trace: Trace) -> Replay:
        self.now_s += SLOW_S
        return super().replay(trace)


def test_what_never_comes_back_is_given_up_when_its_time_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host, trace = Slow("radix", monkeypatch), Trace((Insert((1,)), Insert((2,))))
    violation = host.check(trace).violation
    assert violation is not None
    began_s = host.now_s
    assert investigate(host, trace, violation, 1, limit_s=25).flaky
    assert 5 * SLOW_S == host.now_s - began_s  # sooner? twice? again? and a picture, a last look


@pytest.mark.parametrize(("limit_s", "unfinished"), [(0.0, True), (60.0, False)])
def test_a_finding_says_whether_time_was_too_short_to_shrink_it(
    limit_s: float, unfinished: bool
) -> None:
    host = Here(resolve("radix-first-release"))
    failing = next(
        (each, violation)
        for each in proposals(1, host.arenas())
        if (violation := host.check(each).violation) is not None
    )
    finding = investigate(host, *failing, seed=1, limit_s=limit_s)
    whole = len(finding.trace.operations) == finding.original_operations
    assert (unfinished, unfinished, False) == (finding.unfinished, whole, finding.flaky)


def test_what_hangs_is_not_waited_for_before_it_is_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    host, trace = Slow("radix", monkeypatch), Trace((Insert((1,)), Insert((2,))))
    seen = Violation("hang", "insert", 1, "an answer", "none")
    assert investigate(host, trace, seen, 1, limit_s=0).flaky
    assert 4 * SLOW_S == host.now_s  # again? and again? a picture, a last look


def test_a_finding_takes_a_run_only_a_little_beyond_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limits: list[float] = []

    def noted(
        host: Any, trace: Any, violation: Any, seed: Any, limit_s: float, known: Any
    ) -> Finding:
        limits.append(limit_s)
        return Finding("radix", trace, violation, (), flaky=True)

    monkeypatch.setattr("radixcheck.loop.investigate", noted)
    for max_time_s in (None, 100.0, 22.0, 11.0):
        host = Slow("radix", monkeypatch)
        run(host, seed=1, budget=Budget(max_time_s, max_operations=1))
    host = Slow("radix", monkeypatch)
    host.broken = Violation("crash", "insert", 0, "an answer", "none")
    run(host, seed=1, budget=Budget(11.0, max_operations=1))
    assert [SHRINK_TIME_S, SHRINK_TIME_S, 12.0, GRACE_S, FATAL_GRACE_S] == limits


class Closer(Here):
    """Breaks one rule at first sight, and another one as soon as somebody looks closely."""

    def check(self, trace: Trace, thorough: bool = True) -> Verdict:
        """Judge a trace."""
        rule = "size-drift" if thorough else "foreign-slot"
        seen = super().check(trace, thorough)
        return structs.replace(seen, violation=Violation(rule, "insert", 0, "this", "that"))


def test_a_known_failure_does_not_swallow_what_looks_like_it_from_nearby() -> None:
    is_known = {("size-drift", "insert")}.__contains__
    report = run(
        Closer(resolve("radix")), seed=1, budget=Budget(max_operations=300), known=is_known
    )
    (finding,) = report.violations
    assert ("foreign-slot", True, ()) == (
        finding.violation.rule,
        finding.unfinished,
        finding.steps,
    )


def test_two_signatures_that_are_one_from_nearby_are_one_finding() -> None:
    class Both(Closer):
        def check(self, trace: Trace, thorough: bool = True) -> Verdict:
            seen = super().check(trace, thorough)
            assert seen.violation is not None
            rule = self.first if not thorough else "size-drift"
            self.first = "foreign-slot"
            return structs.replace(seen, violation=structs.replace(seen.violation, rule=rule))

        first = "size-drift"

    report = run(Both(resolve("radix")), seed=1, budget=Budget(max_operations=400))
    drift = "size-drift", "insert"
    assert [drift] == [each.violation.signature for each in report.findings]
    assert {("foreign-slot", "insert"): drift} == report.aliases
    assert report.repeats[drift] > 1


def test_operations_behind_a_known_failure_are_counted_as_not_judged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = Slow("radix", monkeypatch)
    report = run(host, seed=1, budget=Budget(max_operations=1), known=lambda signature: True)
    first = next(proposals(1, report.arenas))
    assert len(first.operations) - 1 == report.cut_short


def test_every_situation_that_is_reached_is_known() -> None:
    reached = judged("radix-paged", max_operations=20_000).reached
    assert set(reached) <= set(SITUATIONS)


def test_a_trace_that_names_a_page_size_is_judged_under_it() -> None:
    source: Source = resolve("radix-paged")
    trace = Trace((Insert((1, 2, 3)), MatchPrefix((1, 2)), Evict(1)), {"page_size": 2})
    assert check(source.open, trace).capabilities.page_size == 2


def test_ctrl_c_while_shrinking_loses_no_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def press_ctrl_c(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("radixcheck.loop.shrink", press_ctrl_c)
    report = judged("radix-first-release", max_operations=50_000)
    assert report.interrupted
    assert [finding.violation.rule for finding in report.findings] == ["phantom-prefix"]
