"""The judge of requests: what a correct cache may do, and what no cache gets away with."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from radixcheck.buffers import BadAnswer
from radixcheck.clock import Clock
from radixcheck.operations import (
    Abort,
    Admit,
    Allocated,
    AnyOperation,
    Arrive,
    Audit,
    Decode,
    Evict,
    Finish,
    Idle,
    Interrupt,
    MatchRequest,
    Outcome,
    Prefill,
    Queued,
    Refusal,
    Reset,
    Retract,
    Row,
    Schedule,
    Skipped,
    Starve,
)
from radixcheck.requests import Checker, generate
from radixcheck.rules import Violation
from radixcheck.targets.bookkeeper import Bookkeeper, RadixRequests
from radixcheck.targets.pools.plain import PoolPaged
from radixcheck.targets.radix_paged import RadixPaged
from radixcheck.targets.request_honest import FreesPageByPage

R1 = Arrive("r1", (1, 2, 3, 4, 5, 6), 4)
LIFE = (R1, Admit("r1"), Prefill("r1"), Decode("r1", 7), Decode("r1", 8), Decode("r1", 9))
"""A request with 6 prompt tokens and 3 that it sampled, the last of which has no KV."""


def judge(
    operations: Iterable[AnyOperation], cache: Any = None
) -> tuple[Checker, Violation | None]:
    """Apply `operations` up to the first that breaks a rule."""
    checker = Checker(cache or RadixRequests(page_size=4, capacity=16), Clock())
    checker.record()
    for operation in operations:
        if (violation := checker.apply(operation)) is not None:
            return checker, violation
    return checker, None


def outcomes(*operations: AnyOperation, cache: Any = None) -> list[Outcome]:
    """Return what came of each operation; none may break a rule."""
    checker, violation = judge(operations, cache)
    assert violation is None
    return [step.outcome for step in checker.steps]


def rule(*operations: AnyOperation, cache: Any) -> str | None:
    """Return the rule that the last operation breaks, and none before it."""
    _, violation = judge(operations, cache)
    if violation is None:
        return None
    assert violation.step == len(operations) - 1
    return violation.rule


def held(checker: Checker) -> dict[str, list[int]]:
    """Return who holds which slots."""
    found: dict[str, list[int]] = {}
    for holding in checker.draw().holdings:
        found.setdefault(holding.owner, []).extend(holding.slots)
    return found


# ------------------------------------------------------------------------ what is done


def test_a_sequence_of_n_tokens_has_n_minus_1_slots() -> None:
    checker, _ = judge(LIFE)
    assert list(range(4, 12)) == held(checker)["r1"]


def test_the_first_token_that_is_sampled_needs_no_slot() -> None:
    first, second = outcomes(*LIFE)[3:5]
    assert [False, True] == [isinstance(each, Allocated) for each in (first, second)]


def test_a_finished_request_leaves_its_whole_pages_to_the_tree() -> None:
    checker, _ = judge([*LIFE, Finish("r1")])
    assert {"the tree": list(range(4, 12)), "free": [*range(12, 20)]} == held(checker)


def test_a_published_row_names_the_slots_that_were_stored_first() -> None:
    twins = Arrive("r1", R1.tokens), Arrive("r2", R1.tokens)
    *_, second = outcomes(*twins, Admit("r1"), Admit("r2"), Prefill("r1"), Prefill("r2"))
    assert Row((4, 5, 6, 7, 16, 17), 4) == second


@pytest.mark.parametrize("length", range(2, len(LIFE) + 1))
@pytest.mark.parametrize("end", [Abort("r1"), Retract("r1")])
def test_who_goes_at_any_point_keeps_nothing(length: int, end: AnyOperation) -> None:
    checker, violation = judge([*LIFE[:length], end, Abort("r1"), Idle()])
    assert (None, [*range(4, 20)]) == (violation, held(checker)["free"])


@pytest.mark.parametrize("num_tokens", [1, 3, 4, 5])
def test_a_prompt_may_be_computed_in_chunks_of_any_size(num_tokens: int) -> None:
    chunks = [Prefill("r1", num_tokens)] * (6 // num_tokens + 1)
    checker, violation = judge([R1, Admit("r1"), *chunks, Finish("r1"), Idle()])
    assert (None, 1) == (violation, checker.reached["idle"])


def test_a_retracted_request_matches_more_once_another_has_stored_it() -> None:
    other = Arrive("r2", (*R1.tokens, 7, 8))
    operations: list[AnyOperation] = [R1, Admit("r1"), Prefill("r1", 2), Retract("r1"), Abort("r0")]
    operations += [other, Admit("r2"), Prefill("r2"), Finish("r2"), Admit("r1")]
    checker, violation = judge(operations)
    assert (None, 1) == (violation, checker.reached["rematched-longer"])


def test_a_retracted_request_computes_what_it_has_sampled() -> None:
    *_, row = outcomes(*LIFE, Retract("r1"), Admit("r1"), Prefill("r1"))
    assert isinstance(row, Row)
    assert 9 == len(row.slots)


def test_whoever_is_refused_a_slot_keeps_what_it_had() -> None:
    checker, violation = judge([R1, Admit("r1"), Prefill("r1", 4), Starve(9), Prefill("r1")])
    assert violation is None
    assert isinstance(checker.steps[-1].outcome, Refusal)
    assert [4, 5, 6, 7] == held(checker)["r1"]


STORED = Arrive("r0", tuple(range(20, 28))), Admit("r0"), Prefill("r0"), Finish("r0")
"""Two pages are the tree's."""


def test_an_interrupted_eviction_loses_nothing() -> None:
    checker, violation = judge([*STORED, Interrupt(), Evict(4), Idle()])
    assert (None, [*range(4, 20)]) == (violation, held(checker)["free"])
    assert Refusal("interrupted in the midst of an eviction") == checker.steps[-2].outcome


def test_what_was_not_freed_is_the_trees_until_it_is() -> None:
    checker, _ = judge([*STORED, Interrupt(), Evict(4)])
    assert [*range(4, 12)] == held(checker)["the tree"]


def test_whoever_is_interrupted_keeps_what_it_had_and_may_go_on() -> None:
    long = Arrive("r1", tuple(range(12))), Admit("r1"), Prefill("r1", 8)
    checker, violation = judge([*STORED, *long, Interrupt(), Prefill("r1"), Prefill("r1")])
    assert violation is None
    assert [Refusal, Row] == [type(step.outcome) for step in checker.steps[-2:]]
    assert 0 == checker.reached["out-of-memory"]


def test_only_an_eviction_is_interrupted() -> None:
    checker, violation = judge([Interrupt(), *LIFE, Abort("r1"), Idle()])
    assert (None, 0) == (violation, checker.reached["eviction-interrupted"])


def test_a_free_after_some_others_is_interrupted() -> None:
    def evict(cache: Any, num_tokens: int) -> None:
        for _ in range(0, num_tokens, 4):
            RadixRequests.evict(cache, 4)

    others = Arrive("r1", (1, 2, 3, 4)), Admit("r1"), Prefill("r1"), Finish("r1")
    checker, violation = judge(
        [*STORED, *others, Interrupt(1), Evict(8), Idle()], with_(evict=evict)
    )
    assert (None, 1) == (violation, checker.reached["eviction-interrupted"])


def test_what_an_error_left_over_is_no_victim_of_the_next_eviction() -> None:
    cache = FreesPageByPage(page_size=4, capacity=16)
    lives: list[AnyOperation] = []
    for name in ("r1", "r2", "r3"):
        lives += Arrive(name, (int(name[1]),) * 4), Admit(name), Prefill(name), Finish(name)
    checker, violation = judge([*lives, Interrupt(), Evict(12), Evict(4), Idle()], cache)
    assert (None, 1) == (violation, checker.reached["eviction-interrupted"])


def test_where_nothing_is_promised_nothing_is_interrupted() -> None:
    cache: Any = RadixRequests(page_size=4, capacity=16)
    cache.capabilities = structs.replace(cache.capabilities, interrupted_evict="unspecified")
    skipped = Skipped("the cache promises nothing about an interrupted eviction")
    assert [skipped] == outcomes(Interrupt(), cache=cache)


def test_a_reset_leaves_nobody_and_nothing() -> None:
    checker, violation = judge([*LIFE, Arrive("r2", (1,)), Reset(), Idle()])
    assert (None, {"the tree": [], "free": [*range(4, 20)]}) == (violation, held(checker))


def test_an_eviction_beside_running_requests_spares_what_they_read() -> None:
    checker, violation = judge([*LIFE, Evict(100), Decode("r1", 3)])
    assert (None, []) == (violation, [s for s in held(checker)["free"] if s < 12])


def test_an_audit_ends_everybody() -> None:
    checker, violation = judge([*LIFE, Arrive("r2", (9,)), Audit()])
    assert (None, 1) == (violation, checker.reached["audit"])


# ------------------------------------------------------------------------------ the queue


def queue_of(*prompts: tuple[int, ...]) -> list[AnyOperation]:
    """Let one request per prompt arrive while ``1 2 3 4`` and ``1 2 3 4 5 6 7 8`` are stored."""
    stored = Arrive("r0", tuple(range(1, 9)))
    waiting = [Arrive(f"r{number}", prompt) for number, prompt in enumerate(prompts, start=1)]
    return [stored, Admit("r0"), Prefill("r0"), Finish("r0"), *waiting]


@pytest.mark.parametrize(
    ("order", "expected"),
    [("fcfs", "r1 r2 r3"), ("lpm", "r3 r2 r1"), ("weight", "r3 r2 r1")],
)
def test_the_queue_is_put_in_order_by_what_is_stored(order: Any, expected: str) -> None:
    operations = queue_of((9,), (1, 2, 3, 4, 9), (*range(1, 9), 9))
    assert Queued(tuple(expected.split())) == outcomes(*operations, Schedule(order))[-1]


def test_without_a_name_the_head_of_the_queue_is_admitted() -> None:
    operations = queue_of((9,), (1, 2, 3, 4, 9))
    assert Row((4, 5, 6, 7), 4) == outcomes(*operations, Schedule("lpm"), Admit())[-1]


def test_a_request_waits_for_one_that_computes_its_next_page() -> None:
    twins = queue_of((20, 21, 22, 23, 24), (20, 21, 22, 23, 25))
    first, second = outcomes(*twins, Schedule("lpm"), Admit("r1"), Admit("r2"))[-2:]
    assert [Row, Skipped] == [type(first), type(second)]


def test_a_request_that_claims_too_much_waits() -> None:
    operations = (Arrive("r1", (1,), 100), Admit("r1"))
    assert Skipped("the pool is too full") == outcomes(*operations)[-1]


def test_a_request_waits_if_its_own_lock_takes_the_room() -> None:
    stored = Arrive("r1", tuple(range(8))), Admit("r1"), Prefill("r1"), Finish("r1")
    other = Arrive("r2", tuple(range(20, 24))), Admit("r2"), Prefill("r2")
    third = Arrive("r3", (*range(8), 9), 5), MatchRequest("r3"), Admit("r3")
    checker, violation = judge((*stored, *other, *third))
    assert (None, 1) == (violation, checker.reached["admission-undone"])


@pytest.mark.parametrize(
    "operation",
    [
        Arrive("r1", (1,)),
        Arrive("r2", ()),
        Admit("r1"),
        Prefill("r1"),
        Prefill("r9"),
        Decode("r9"),
        Finish("r9"),
        Abort("r9"),
        Retract("r9"),
        MatchRequest("r9"),
        Idle(),
    ],
    ids=str,
)
def test_what_cannot_be_done_now_is_skipped_and_counted(operation: AnyOperation) -> None:
    checker, violation = judge([*LIFE, operation])
    assert (None, 1) == (violation, checker.skipped.total())


@given(st.integers(0, 10**6), st.sets(st.integers(0, 79)))
def test_every_part_of_a_trace_is_a_trace(seed: int, left_out: set[int]) -> None:
    cache = RadixRequests(page_size=4, capacity=16)
    trace = generate(seed, cache.capabilities, 80)
    kept = [each for place, each in enumerate(trace) if place not in left_out]
    assert judge(kept, cache)[1] is None


# ---------------------------------------------------------------------------- what is seen


def with_(**methods: Callable[..., Any]) -> Any:
    """Return a correct cache in which some methods are replaced."""
    cache: Any = RadixRequests(page_size=4, capacity=16)
    for name, method in methods.items():
        setattr(cache, name, method.__get__(cache))
    return cache


def test_a_cache_that_changes_what_is_in_a_slot_is_seen_at_the_next_token() -> None:
    class Pool(PoolPaged):
        kv: Any = [0] * 20

    cache: Any = Bookkeeper(RadixPaged(page_size=4), Pool(4, 16))
    checker, _ = judge(LIFE, cache)
    Pool.kv[5] = 99
    violation = checker.apply(Decode("r1", 3))
    assert violation is not None
    assert ("stale-content", "decode") == violation.signature


def test_a_pool_that_miscounts_is_seen_at_once() -> None:
    class Pool(PoolPaged):
        def available_size(self) -> int:
            return super().available_size() - self.capabilities.page_size * len(self._held) // 4

    cache: Any = Bookkeeper(RadixPaged(page_size=4), Pool(4, 16))
    assert "size-drift" == rule(*LIFE[:3], cache=cache)


def test_a_failed_admission_keeps_nothing() -> None:
    def begin(cache: Any, *_: Any) -> int:
        cache.pool.alloc(4)
        raise KeyError("too late")

    _, violation = judge(LIFE, with_(begin=begin))
    assert violation is not None
    assert {"unexpected-error", "refused-with-effect"} == {violation.rule, *violation.also}


def test_nobody_may_write_into_a_slot_that_is_free() -> None:
    def table(cache: Any, request: str) -> list[int]:
        return [slot + 8 for slot in RadixRequests.table(cache, request)]

    assert "use-after-free" == rule(*LIFE[:3], cache=with_(table=table))


@pytest.mark.parametrize("surplus", [-4, 4])
@pytest.mark.parametrize("size", ["total_size", "evictable_size"])
def test_a_size_that_lies_is_seen_when_nobody_runs(size: str, surplus: int) -> None:
    def lie(cache: Any) -> int:
        told: int = getattr(cache.tree, size)()
        return told + (surplus if cache.pool.available_size() < 16 else 0)

    finished = *LIFE, Finish("r1")
    expected = "leaked-slot" if (size, surplus) == ("evictable_size", -4) else "size-drift"
    assert expected == rule(*finished, Idle(), cache=with_(**{size: lie}))


def broken_size(cache: Any) -> int:
    raise ZeroDivisionError("no size")


@pytest.mark.parametrize("name", ["evictable_size", "total_size"])
def test_a_size_that_raises_is_an_error_of_the_cache(name: str) -> None:
    _, violation = judge([*LIFE, Finish("r1"), Idle()], with_(**{name: broken_size}))
    assert violation is not None
    assert "unexpected-error" == violation.rule


def test_a_pool_that_cannot_count_is_an_error_too() -> None:
    class Pool(PoolPaged):
        def available_size(self) -> int:
            raise ZeroDivisionError("no size")

    cache: Any = Bookkeeper(RadixPaged(page_size=4), Pool(4, 16))
    assert "unexpected-error" == rule(R1, cache=cache)


def test_a_pool_that_counts_in_words_is_at_fault_and_not_the_cache() -> None:
    class Pool(PoolPaged):
        def available_size(self) -> Any:
            return "many"

    with pytest.raises(BadAnswer, match="available_size answered a str"):
        judge([R1], Bookkeeper(RadixPaged(page_size=4), Pool(4, 16)))


def test_a_reset_may_give_back_slot_by_slot() -> None:
    def reset(cache: Any) -> None:
        for books in cache._books.values():
            cache.pool.free(books.slots[books.owned :])
        cache._books.clear()
        cache.pool.free([slot for node in cache.tree.dump() for slot in node.slots])
        cache.tree.reset()

    checker, violation = judge([*LIFE, Reset(), Idle()], with_(reset=reset))
    assert (None, [*range(4, 20)]) == (violation, held(checker)["free"])


def test_only_what_was_reached_is_counted() -> None:
    checker, _ = judge([*LIFE, Finish("r1"), Audit()])
    assert min(checker.reached.values()) > 0


@pytest.mark.parametrize("page_size", [1, 4])
def test_slots_and_content_may_live_in_tensors(page_size: int) -> None:
    pytest.importorskip("torch")
    from radixcheck.targets.pools.tensors import PoolTorch

    cache = Bookkeeper(RadixPaged(page_size=page_size), PoolTorch(page_size, 32))
    checker, violation = judge(generate(3, cache.capabilities, 300), cache)
    assert (None, True) == (violation, bool(checker.reached["finished-after-decode"]))
