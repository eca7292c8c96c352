"""The judge of pools: each rule by hand, what is skipped, and who is at fault."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from radixcheck.capabilities import PoolCapabilities
from radixcheck.checker.broken import Broken
from radixcheck.finding import Holding
from radixcheck.operations import (
    AddRefs,
    Alloc,
    Allocated,
    AnyOperation,
    Audit,
    Free,
    Insert,
    Outcome,
    Refusal,
    Reset,
    Returned,
)
from radixcheck.pools.answers import faults
from radixcheck.reference.ledger import Ledger
from radixcheck.targets.pools import liars
from radixcheck.targets.pools.plain import PoolCounted, PoolExclusive, PoolPaged
from radixcheck.trace import Trace
from radixcheck.verdict import Verdict, check, replay


def judged(pool: Any, *operations: AnyOperation, misuse: bool = False) -> Verdict:
    return check(lambda *_: pool, Trace(operations, {}, misuse))


def broken(pool: Any, *operations: AnyOperation, misuse: bool = False) -> tuple[str, int] | None:
    """Return the rule that is broken, and at which operation."""
    violation = judged(pool, *operations, misuse=misuse).violation
    return (violation.rule, violation.step) if violation else None


def outcomes(pool: Any, *operations: AnyOperation) -> list[Outcome]:
    steps = replay(lambda *_: pool, Trace(operations)).steps
    return [step.outcome for step in steps]


# ---- what an operation does --------------------------------------------------------------


def test_slots_are_named_as_they_come_and_go() -> None:
    actual = outcomes(PoolExclusive(8), Alloc(3, "h1"), Free("h1", 1), Alloc(1))
    assert [Allocated((1, 2, 3)), Returned((2, 3)), Allocated((2,))] == actual


def test_an_amount_is_rounded_up_to_whole_pages() -> None:
    assert [Allocated((4, 5, 6, 7))] == outcomes(PoolPaged(4), Alloc(3))


def test_a_refusal_is_right_where_too_few_are_free() -> None:
    (outcome,) = outcomes(PoolExclusive(8), Alloc(9))
    assert Refusal("9 pages: 8 are free") == outcome


def test_a_slot_is_listed_as_often_as_it_is_freed() -> None:
    actual = outcomes(PoolCounted(8), Alloc(1, "h1"), AddRefs("h1"), Free("h1", times=2))
    assert Returned((1, 1)) == actual[-1]


def test_an_audit_gives_back_takes_all_and_gives_back() -> None:
    actual = outcomes(PoolExclusive(2), Alloc(1, "h1"), Audit())
    one, all_of_it = Allocated((1,)), Allocated((2,))
    expected = [one, Returned((1,)), one, all_of_it, Refusal("1 pages: 0 are free")]
    assert [*expected, Returned((1,)), Returned((2,))] == actual


def test_the_audit_of_a_small_pool_needs_no_middle() -> None:
    assert None is judged(PoolPaged(4, 4), Audit()).violation


# ---- what is skipped ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operation", "reason"),
    [
        (Free("h9"), "no such handle"),
        (AddRefs("h9"), "no such handle"),
        (AddRefs("h1"), "the pool counts no holders"),
        (Free("h1", 3, 3), "no such slots are held"),
        (Insert((1,)), "insert is no operation of a pool"),
    ],
)
def test_what_makes_no_sense_is_skipped(operation: AnyOperation, reason: str) -> None:
    assert {reason: 1} == judged(PoolExclusive(8), Alloc(4, "h1"), operation).skipped


def test_a_part_of_a_page_is_freed_only_where_that_is_allowed() -> None:
    class WholePages(PoolPaged):
        promises: ClassVar = {"partial_pages": "misuse"}

    operations = Alloc(8, "h1"), Free("h1", 0, 6)
    skipped = [dict(judged(pool(4), *operations).skipped) for pool in (WholePages, PoolPaged)]
    assert [{"a part of a page": 1}, {}] == skipped


def test_misuse_is_made_only_where_an_answer_is_promised_or_asked_for() -> None:
    class Unspecified(liars.AcceptsWhatIsFree):
        promises: ClassVar = {"misuse": "unspecified"}

    again = Alloc(1, "h1"), Free("h1"), Free("h1")
    reached = [judged(Unspecified(8), *again, misuse=wanted).reached for wanted in (False, True)]
    assert [0, 1] == [each["misuse"] for each in reached]


def test_a_reset_lets_every_handle_die() -> None:
    verdict = judged(PoolExclusive(8), Alloc(4, "h1"), Reset(), Free("h1"))
    assert (None, {"no such handle": 1}) == (verdict.violation, verdict.skipped)


# ---- rules -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("slots", "wanted", "rules"),
    [
        ([4, 5, 6, 7], 4, []),
        ([8, 9, 10, 11, 4, 5, 6, 7], 8, []),
        ([4, 5, 6], 4, ["length-mismatch", "partial-page"]),
        ([0, 1, 2, 3], 4, ["outside-pool"]),
        ([20, 21, 22, 23], 4, ["outside-pool"]),
        ([16, 17, 18, 19], 4, ["double-owner"]),
        ([4, 5, 6, 7, 4, 5, 6, 7], 8, ["double-owner"]),
        ([5, 6, 7, 8], 4, ["partial-page"]),
        ([7, 6, 5, 4], 4, ["partial-page"]),
    ],
)
def test_an_answer_is_judged_slot_by_slot(slots: list[int], wanted: int, rules: list[str]) -> None:
    can = PoolCapabilities(page_size=4, capacity=16, reserved=4)
    ledger = Ledger(16)
    ledger.take([16, 17, 18, 19], "h1")
    assert rules == [each.rule for each in faults(slots, wanted, ledger, can)]


def test_slots_ascend_only_where_that_is_promised() -> None:
    can = PoolCapabilities(capacity=8, ordered=True)
    assert [Broken("alloc-order", "[1, 2]", "[2, 1]")] == list(faults([2, 1], 2, Ledger(8), can))


def test_a_refusal_of_what_is_free_is_a_leak() -> None:
    class Stingy(PoolExclusive):
        def alloc(self, num_tokens: int) -> Any:
            return super().alloc(num_tokens) if num_tokens < 8 else None

    assert ("leaked-slot", 0) == broken(Stingy(8), Alloc(8))


def test_a_number_that_lies_is_told_from_slots_that_are_lost() -> None:
    class Modest(PoolExclusive):
        def available_size(self) -> int:
            return max(0, super().available_size() - 1)

    pools = Modest(8), liars.LosesTheSixth(8)
    operations = Alloc(8, "h1"), Free("h1")
    assert [("size-drift", 1), ("leaked-slot", 1)] == [broken(pool, *operations) for pool in pools]


def test_a_free_that_is_refused_must_have_no_effect() -> None:
    pool = liars.RefusesAfterwards(8)
    assert ("refused-with-effect", 1) == broken(pool, Alloc(2, "h1"), Free("h1", times=2))


def test_a_pool_that_keeps_the_caller_s_buffer_is_named_for_it() -> None:
    from radixcheck.targets.pools.honest import TellsNoSize

    class Borrows(TellsNoSize):
        def __init__(self) -> None:
            super().__init__(4)
            self.capabilities = PoolCapabilities(capacity=4, arguments="borrowed")

    trace = Trace((Alloc(4, "h1"), Free("h1"), Alloc(4)))
    violation = check(lambda *_: Borrows(), trace).violation
    assert violation is not None
    assert "mutated-argument" == violation.rule


# ---- what is drawn -----------------------------------------------------------------------


def test_who_holds_what_is_drawn_before_and_after() -> None:
    trace = Trace((Alloc(8, "h1"), Free("h1", 2, 6)))
    seen = replay(lambda *_: PoolPaged(4, 16), trace)
    free = Holding("free", tuple(range(12, 20)))
    before = (Holding("h1", tuple(range(4, 12))), free)
    after = (
        Holding("h1", (4, 5)),
        Holding("h1", (10, 11), 6),
        Holding("given back", (6, 7, 8, 9), note="their page is held"),
        free,
    )
    assert (before, after) == (seen.before.holdings, seen.after.holdings)


def test_slots_with_several_holders_say_so() -> None:
    trace = Trace((Alloc(2, "h1"), AddRefs("h1", 1)))
    first, second, _ = replay(lambda *_: PoolCounted(8), trace).after.holdings
    assert (Holding("h1", (1,)), Holding("h1", (2,), 1, "held 2 times")) == (first, second)
