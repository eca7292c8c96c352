"""The checker on short traces: what it asks of a target, what it skips, and how it names what goes
wrong."""

from __future__ import annotations

from array import array
from typing import Any

import pytest
from msgspec.structs import replace

from radixcheck.buffers import BadAnswer
from radixcheck.capabilities import Capabilities
from radixcheck.clock import Clock
from radixcheck.operations import (
    AnyOperation,
    Audit,
    Changed,
    DecRef,
    Evict,
    Failure,
    Freed,
    IncRef,
    Insert,
    Inserted,
    Matched,
    MatchPrefix,
    Refusal,
    Reset,
    Skipped,
    Tick,
)
from radixcheck.protocol import Match, Target
from radixcheck.targets.first_release import RadixFirstRelease
from radixcheck.targets.radix import Radix
from radixcheck.targets.radix_paged import RadixPaged
from radixcheck.trace import Config, Trace
from radixcheck.verdict import check, replay, same_answers


def paged(config: Config, clock: Clock) -> Target:
    factory: Any = RadixPaged
    target: Target = factory(**config, clock=clock)
    return target


def outcomes(*operations: AnyOperation, **config: Any) -> list[Any]:
    return [step.outcome for step in replay(paged, Trace(operations, config)).steps]


def verdict(factory: Any, *operations: AnyOperation, **trace: Any) -> tuple[str, str, int] | None:
    violation = check(lambda config, clock: factory(**config), Trace(operations, **trace)).violation
    return None if violation is None else (violation.rule, violation.operation, violation.step)


def test_an_operation_is_answered_and_compared() -> None:
    seen = outcomes(Insert((1, 2, 3)), Insert((1, 2, 4)), MatchPrefix((1, 2, 3, 5)), Evict(1))
    assert seen == [
        Inserted(0, (1, 2, 3)),
        Inserted(2, (4, 5, 6)),
        Matched(3, (1, 2, 3)),
        Freed(((6,),)),
    ]


def test_slots_that_the_tree_did_not_take_are_handed_out_again() -> None:
    seen = outcomes(Insert((1, 2)), Insert((1, 2)), Insert((3,)))
    assert seen[2] == Inserted(0, (4,))


def test_lent_slots_go_back_to_the_tree_that_owns_them() -> None:
    seen = outcomes(Insert((1, 2)), MatchPrefix((1, 2), handle="h1"), Insert((1, 2, 3), lent="h1"))
    assert seen[2] == Inserted(2, (1, 2, 3), owned_from=2)


@pytest.mark.parametrize(
    ("operation", "reason"),
    [
        (IncRef("h9"), "no such handle"),
        (DecRef("h1"), "the handle holds no lock"),
        (Insert((2, 3), lent="h1"), "the lent prefix is gone, or no prefix of the key"),
    ],
)
def test_what_no_caller_would_do_is_skipped(operation: AnyOperation, reason: str) -> None:
    operations = (Insert((1, 2)), MatchPrefix((1,), handle="h1"), MatchPrefix((1, 2), handle="h2"))
    locks = (IncRef("h2"),)  # a lock below hides one unlock too many on h1
    assert outcomes(*operations, *locks, operation)[-1] == Skipped(reason)


def test_a_handle_dies_with_its_prefix_and_stays_dead() -> None:
    story = (Insert((1,)), MatchPrefix((1,), handle="h1"), Evict(1), Insert((1,)))
    seen = outcomes(*story, Insert((1, 2), lent="h1"))
    assert isinstance(seen[-1], Skipped)


def test_misuse_is_tried_where_the_target_promises_an_answer() -> None:
    story = (Insert((1,)), MatchPrefix((1,), handle="h1"), DecRef("h1"), Evict(1), IncRef("h1"))
    assert [type(each) for each in outcomes(*story)] == [Inserted, Matched, Refusal, Freed, Refusal]


def test_everything_dies_at_a_reset() -> None:
    story = (Insert((1,)), MatchPrefix((1,), handle="h1"), IncRef("h1"), Reset(), MatchPrefix((1,)))
    assert outcomes(*story)[-1] == Matched(0, ())


def test_an_audit_matches_unlocks_and_evicts_everything() -> None:
    steps = replay(
        paged, Trace((Insert((1, 2)), MatchPrefix((1,), handle="h1"), IncRef("h1"), Audit()))
    ).steps
    calls = [step.operation for step in steps if step.audit]
    assert calls == [MatchPrefix((1, 2)), DecRef("h1"), Evict(2)]


def test_a_held_clock_ties_and_a_clock_that_runs_back_does_not() -> None:
    steps = replay(
        paged, Trace((Insert((1,)), Tick(0), Insert((2,)), Tick(-5), Insert((3,))))
    ).steps
    assert [step.clock for step in steps if isinstance(step.operation, Insert)] == [
        1,
        1,
        pytest.approx(-4, abs=0.01),
    ]


def test_a_disabled_cache_stores_nothing_and_may_say_what_it_likes_about_it() -> None:
    story = (Insert((1, 2)), MatchPrefix((1, 2), handle="h1"), IncRef("h1"), Evict(1), Audit())
    for factory in (Radix, RadixPaged):
        assert verdict(factory, *story, config={"disable": True}) is None


def test_the_first_release_is_caught_at_its_third_operation() -> None:
    story = (Insert((1, 2, 3)), Insert((1, 2, 3, 4)), MatchPrefix((1, 4)))
    assert verdict(RadixFirstRelease, *story) == ("phantom-prefix", "match_prefix", 2)


class Silent(Radix):
    """Answers nothing to a lock, though it promises the change."""

    def inc_ref(self, handle: Any) -> Any:
        super().inc_ref(handle)


class SilentLater(Radix):
    """Answers nothing to an unlock, though it promises the change."""

    def dec_ref(self, handle: Any) -> Any:
        super().dec_ref(handle)


@pytest.mark.parametrize("factory", [Silent, SilentLater])
def test_no_answer_is_no_change(factory: type[Radix]) -> None:
    locked = Insert((1,)), MatchPrefix((1,), handle="h"), IncRef("h"), DecRef("h")
    found = verdict(factory, *locked)
    assert found is not None and found[0] == "delta-mismatch"


@pytest.mark.parametrize(("factory", "told"), [(Silent, "absent"), (SilentLater, "inc-only")])
def test_what_is_not_promised_may_be_left_out(factory: type[Radix], told: str) -> None:
    def less(**config: Any) -> Radix:
        target = factory(**config)
        target.capabilities = replace(target.capabilities, deltas=told)
        return target

    locked = Insert((1,)), MatchPrefix((1,), handle="h"), IncRef("h"), DecRef("h")
    assert verdict(less, *locked) is None


class Rambles(Radix):
    """Answers locks with what no comparison bears; it promises nothing."""

    def __init__(self, **config: Any) -> None:
        super().__init__(**config)
        self.capabilities = replace(self.capabilities, deltas="absent", deterministic=True)

    def inc_ref(self, handle: Any) -> Any:
        super().inc_ref(handle)
        return NotComparable()

    dec_ref = inc_ref


class NotComparable:
    """No two of it are equal, and to ask is an error."""

    def __ne__(self, other: object) -> bool:
        raise ValueError


def test_what_nobody_promised_may_be_anything() -> None:
    story = Insert((1,)), MatchPrefix((1,), handle="h"), IncRef("h"), Insert((2,))
    steps = replay(lambda config, clock: Rambles(), Trace(story)).steps
    assert Changed(None) == steps[2].outcome
    assert check(lambda config, clock: Rambles(), Trace(story)).violation is None


@pytest.mark.parametrize("factory", [Silent, SilentLater])
def test_a_disabled_cache_has_no_change_to_tell(factory: type[Radix]) -> None:
    locked = MatchPrefix((1,), handle="h"), IncRef("h"), DecRef("h")
    assert verdict(factory, *locked) is not None
    disabled = check(lambda config, clock: factory(disable=True), Trace(locked, {"disable": True}))
    assert disabled.violation is None


class Raises(Radix):
    """Fails on the token 13."""

    def match_prefix(self, tokens: Any, namespace: tuple[str, ...] = ()) -> Match:
        if 13 in tokens:
            raise LookupError("unlucky")
        return super().match_prefix(tokens, namespace)


def test_an_exception_of_the_target_is_a_finding() -> None:
    seen = replay(lambda config, clock: Raises(), Trace((MatchPrefix((13,)),)))
    assert seen.verdict.violation is not None
    outcome = seen.steps[-1].outcome
    assert isinstance(outcome, Failure)
    assert (seen.verdict.violation.rule, outcome.error, outcome.message) == (
        "unexpected-error",
        "LookupError",
        "unlucky",
    )
    assert 'raise LookupError("unlucky")' in outcome.where


class BreaksSizes(Radix):
    """Cannot even count."""

    def evictable_size(self) -> int:
        raise ZeroDivisionError("by zero")


def test_an_exception_while_counting_is_a_finding_too() -> None:
    assert verdict(BreaksSizes, Insert((1,))) == ("unexpected-error", "insert", 0)


class Wrong(Radix):
    """Answers whatever it is told to."""

    answer: Any = None

    def match_prefix(self, tokens: Any, namespace: tuple[str, ...] = ()) -> Match:
        return self.answer  # type: ignore[no-any-return]  # that is the lie


@pytest.mark.parametrize(
    "answer",
    [None, 3, (0, []), (None, [], None), (1.5, [], None), Match(0, None, None)],
)
def test_an_answer_that_cannot_be_read_is_the_adapters_fault(answer: Any) -> None:
    class Liar(Wrong):
        pass

    Liar.answer = answer
    with pytest.raises(BadAnswer) as error:
        verdict(Liar, MatchPrefix((1,)))
    assert "operation 1 of the trace" in error.value.__notes__[0]


class KeepsAlias(Radix):
    """Borrows the caller's slots and keeps them."""

    def __init__(self, **config: Any) -> None:
        super().__init__(**config)
        self.kept: dict[tuple[int, ...], Any] = {}

    def insert(self, tokens: Any, slots: Any, *rest: Any, **more: Any) -> int:
        self.kept[tuple(tokens)] = slots
        return super().insert(tokens, slots, *rest, **more)

    def match_prefix(self, tokens: Any, namespace: tuple[str, ...] = ()) -> Match:
        length, slots, handle = super().match_prefix(tokens, namespace)
        return Match(length, self.kept.get(tuple(tokens), slots), handle)


def test_an_alias_is_named_for_what_it_is() -> None:
    story = (Insert((1, 2)), MatchPrefix((1, 2)))
    assert verdict(KeepsAlias, *story) == ("mutated-argument", "match_prefix", 1)


class Flips(Radix):
    """Answers another victim each time."""

    coin = 0

    def evict(self, num_tokens: int) -> Any:
        Flips.coin += 1
        return super().evict(num_tokens + Flips.coin % 2)


def test_two_runs_of_one_trace_are_compared() -> None:
    trace = Trace((Insert((1,)), Insert((2,)), Evict(1)))
    violation = same_answers(lambda config, clock: Flips(), trace)
    assert violation is not None
    assert violation.signature == ("nondeterminism", "evict")
    assert same_answers(lambda config, clock: Radix(), trace) is None


def test_tokens_arrive_as_an_array_and_in_a_fresh_one_each_time() -> None:
    seen: list[Any] = []

    class Listens(Radix):
        def match_prefix(self, tokens: Any, namespace: tuple[str, ...] = ()) -> Match:
            seen.append(tokens)
            return super().match_prefix(tokens, namespace)

    assert verdict(Listens, MatchPrefix((1,)), MatchPrefix((1,))) is None
    assert all(type(each) is array for each in seen)
    assert seen[0] is not seen[1]


class SixMethods:
    """Takes no namespace, no priority, no owned_from, and knows no further size."""

    def __init__(self) -> None:
        self.inner = Radix()
        self.capabilities = Capabilities(clock="own", resolution_s=0.0)
        self.evict, self.inc_ref = self.inner.evict, self.inner.inc_ref
        self.dec_ref, self.evictable_size = self.inner.dec_ref, self.inner.evictable_size

    def match_prefix(self, tokens: Any) -> Match:
        return self.inner.match_prefix(tokens)

    def insert(self, tokens: Any, slots: Any) -> int:
        return self.inner.insert(tokens, slots)


def test_a_target_takes_only_the_arguments_that_it_wants() -> None:
    assert verdict(SixMethods, Insert((1, 2)), MatchPrefix((1,)), Evict(1), Audit()) is None


class EndsTheProcess(Radix):
    """Thinks that it is a script."""

    def evict(self, num_tokens: int) -> Any:
        raise SystemExit(3)


def test_a_target_cannot_end_the_run() -> None:
    assert verdict(EndsTheProcess, Insert((1,)), Evict(1)) == ("unexpected-error", "evict", 1)
