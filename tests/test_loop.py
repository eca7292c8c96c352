"""The loop: what a run reports, and how it ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from radixcheck.hosts import Here
from radixcheck.loop import Budget, Report, run
from radixcheck.operations import Evict, Insert, MatchPrefix
from radixcheck.registry import Source, resolve
from radixcheck.situations import SITUATIONS
from radixcheck.trace import Trace, dumps, loads
from radixcheck.verdict import check

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
