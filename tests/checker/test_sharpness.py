"""Each clause that bends a rule bends it just so far: the same trace is red without the
capability."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from radixcheck.operations import AnyOperation, Evict, Insert, MatchPrefix
from radixcheck.targets.radix_paged import RadixPaged
from radixcheck.trace import Trace
from radixcheck.verdict import check

PARTIAL_MATCH = (Insert((1, 2, 3, 4)), Insert((7, 8)), MatchPrefix((1, 2)), Evict(1))
CUT_LOOKS_NEW = (*PARTIAL_MATCH[:3], Evict(2), Evict(2))


def rule(trace: tuple[AnyOperation, ...], policy: str = "lru", **promises: Any) -> str | None:
    """Judge a tree that evicts by `policy` as if it had made `promises`."""

    def open_target(config: Any, clock: Any) -> Any:
        target = RadixPaged(eviction=policy, clock=clock)
        target.capabilities = msgspec.structs.replace(target.capabilities, **promises)
        return target

    violation = check(open_target, Trace(trace)).violation
    return None if violation is None else violation.rule


@pytest.mark.parametrize("stamps", ["edge", "matched"])
def test_who_promises_exact_stamps_is_held_to_them(stamps: str) -> None:
    assert rule(PARTIAL_MATCH, stamps=stamps) == {"edge": None, "matched": "eviction-order"}[stamps]


def test_one_policy_judged_by_anothers_rule_is_red() -> None:
    story = (Insert((1,)), Insert((2,)), MatchPrefix((1,)), Evict(1))
    verdicts = {policy: rule(story, policy, eviction="lru") for policy in ("lru", "mru", "filo")}
    assert verdicts == {"lru": None, "mru": "eviction-order", "filo": None}


def test_an_unspecified_policy_is_never_red() -> None:
    story = (Insert((1,)), Insert((2,)), MatchPrefix((1,)), Evict(1))
    assert rule(story, "mru", eviction="unspecified") is None
