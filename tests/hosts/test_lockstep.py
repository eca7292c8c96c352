"""Several targets side by side: where they part, respecting what each of them may do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from radixcheck.capabilities import Capabilities
from radixcheck.hosts import Here, Isolated
from radixcheck.hosts.lockstep import Lockstep
from radixcheck.loop import Budget, Report, run
from radixcheck.operations import Audit, Evict, Freed, Insert, Matched, MatchPrefix
from radixcheck.registry import TargetError, resolve
from radixcheck.trace import Trace

Isolate: TypeAlias = Callable[..., Isolated]

PHANTOM = Trace((Insert((1, 2, 3)), Insert((1, 2, 3, 4)), MatchPrefix((1, 4))))
LRU, FIFO = "radix-paged?eviction=lru", "radix-paged?eviction=fifo"
READ_AGAIN = Trace((Insert((1,)), Insert((2,)), MatchPrefix((1,)), Evict(1)), {"page_size": 1})


def together(*specs: str, exact: bool = False) -> Lockstep:
    return Lockstep([Here(resolve(spec)) for spec in specs], exact=exact)


def judged(host: Lockstep, max_operations: int = 4000) -> Report:
    return run(host, seed=1, budget=Budget(max_operations=max_operations, first_only=True))


# ---- by the rules --------------------------------------------------------------------------


def test_two_correct_targets_do_not_part() -> None:
    report = judged(together("radix", "radix-paged"), 12_000)
    assert ([], []) == (report.findings, report.missing)


def test_whoever_breaks_a_rule_that_the_others_keep_parts_from_them() -> None:
    host = together("radix", "radix-first-release", "radix-paged")
    violation = host.check(PHANTOM).violation
    assert violation is not None
    assert (("divergence", "radix-first-release"), 2) == (violation.signature, violation.step)
    assert "what radix and radix-paged may answer" == violation.expected
    assert "radix-first-release breaks phantom-prefix: 2 tokens, where 1 token is right" == (
        violation.actual
    )


def test_what_all_break_alike_keeps_its_name() -> None:
    violation = together("radix-first-release", "radix-first-release").check(PHANTOM).violation
    assert ("phantom-prefix", "match_prefix") == (violation and violation.signature)


def test_a_finding_is_shrunk_and_shows_what_each_answered() -> None:
    (finding,) = judged(together("radix", "radix-first-release")).findings
    assert ("divergence", 3, False) == (
        finding.violation.rule,
        len(finding.trace.operations),
        finding.flaky,
    )
    (first, one), (second, other) = finding.answers
    assert ["radix", "radix-first-release"] == [first, second]
    assert isinstance(one, Matched) and isinstance(other, Matched)
    assert one.length < other.length
    assert other == finding.steps[-1].outcome


def test_each_policy_is_judged_by_its_own_promise() -> None:
    host = together(LRU, FIFO)
    assert None is host.check(READ_AGAIN).violation
    assert [] == judged(host).findings


# ---- by the answers ------------------------------------------------------------------------


def test_replicas_answer_alike() -> None:
    assert [] == judged(together("radix-paged", "radix-paged", exact=True)).findings


def test_equal_answers_are_wanted_on_request() -> None:
    seen = together(LRU, FIFO, exact=True).replay(READ_AGAIN)
    violation = seen.verdict.violation
    assert violation is not None
    assert (("divergence", FIFO), 3) == (violation.signature, violation.step)
    assert ((LRU, Freed(((2,),))), (FIFO, Freed(((1,),)))) == seen.answers


def test_a_part_within_an_audit_is_of_the_audit() -> None:
    trace = Trace((*READ_AGAIN.operations[:3], Audit()), {"page_size": 1})
    seen = together(LRU, FIFO, exact=True).replay(trace)
    violation = seen.verdict.violation
    assert ("audit", 3) == (violation and violation.operation, violation and violation.step)
    assert "evict" == seen.steps[-1].operation.kind


def test_a_rule_that_is_broken_alike_is_no_difference_but_a_violation() -> None:
    host = together("radix-first-release", "radix-first-release", exact=True)
    violation = host.check(PHANTOM).violation
    assert "phantom-prefix" == (violation and violation.rule)


def test_what_a_target_does_not_tell_it_does_not_tell_otherwise(tmp_path: Path) -> None:
    (tmp_path / "terse.py").write_text(TERSE)
    host = together("radix", f"{tmp_path}/terse.py:Terse", exact=True)
    assert [] == judged(host).findings


TERSE = '''
import msgspec

from radixcheck.targets.radix import Radix


class Terse(Radix):
    """Tells neither victims nor deltas."""

    def __init__(self, clock=None, disable=False):
        super().__init__(clock, disable)
        self.capabilities = msgspec.structs.replace(self.capabilities, deltas="absent")

    def evict(self, num_tokens):
        return [slot for group in super().evict(num_tokens).groups for slot in group]

    def inc_ref(self, handle):
        super().inc_ref(handle)

    def dec_ref(self, handle):
        super().dec_ref(handle)
'''


# ---- what they have in common --------------------------------------------------------------


def test_only_what_all_support_is_swept() -> None:
    configs = [arena.config for arena in together("radix", "radix-paged").arenas()]
    assert {1} == {config["page_size"] for config in configs}
    assert {"lru"} <= {config["eviction"] for config in configs}


def test_only_what_all_can_do_is_generated() -> None:
    (first, *_) = together("radix-paged", "radix").arenas()
    assert isinstance(first.capabilities, Capabilities)
    assert ("absent", "absent") == (first.capabilities.namespaces, first.capabilities.priorities)


@pytest.mark.parametrize(
    "specs", [("radix", "radix-paged?page_size=4"), ("radix", "pool-exclusive")]
)
def test_targets_without_anything_in_common_are_told(specs: tuple[str, str]) -> None:
    with pytest.raises(TargetError, match="nothing that all of them support"):
        together(*specs).arenas()


def test_each_may_live_in_a_worker_of_its_own(isolate: Isolate, tmp_path: Path) -> None:
    for name, answer in (("old", 0), ("new", 1)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "package.py").write_text(f"LIE = {answer}\n")
    (tmp_path / "cache.py").write_text(RELEASES)
    specs = [f"{tmp_path}/cache.py:Cache?path={tmp_path}/{name}" for name in ("old", "new")]
    host = Lockstep([isolate(spec) for spec in specs])
    violation = host.check(Trace((Insert((1, 2)),))).violation
    assert ("divergence", specs[1]) == (violation and violation.signature)


RELEASES = '''
import sys

from radixcheck.targets.radix import Radix


class Cache(Radix):
    """Needs a package of which there are two releases, under one name."""

    def __init__(self, path):
        super().__init__()
        sys.path.insert(0, path)
        import package
        self.lie = package.LIE

    def evictable_size(self):
        return super().evictable_size() + self.lie
'''


def test_a_crash_of_one_is_a_divergence(isolate: Isolate) -> None:
    fatal = "radixcheck.targets.fatal:ExitsWhenFull"
    host = Lockstep([isolate("radix"), isolate(fatal)])
    violation = host.check(Trace((Insert(tuple(range(9))),))).violation
    assert ("divergence", fatal) == (violation and violation.signature)
    assert violation is not None
    assert "breaks crash: exited with status 3" in violation.actual
