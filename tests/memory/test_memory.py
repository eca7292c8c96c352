"""Memory that does not come back: rounds on the scales, and targets that are dropped."""

from __future__ import annotations

from random import Random

import pytest

from radixcheck.checker.weights import ROUNDS, SMALL_BYTES, TOKEN_BYTES, WARM_UP, Scales
from radixcheck.clock import Clock
from radixcheck.devices import SimulatedAllocator, allocator_of
from radixcheck.generate.rounds import ROUND_KINDS, rounds
from radixcheck.hosts import Here
from radixcheck.leaks import leak
from radixcheck.loop import Budget, run
from radixcheck.operations import (
    Alloc,
    AnyOperation,
    Audit,
    Evict,
    Free,
    Insert,
    MatchPrefix,
    Tick,
    Weigh,
    Weighed,
)
from radixcheck.pools import generate as generate_for_pools
from radixcheck.registry import resolve
from radixcheck.shrink import shrink
from radixcheck.targets import memory_honest
from radixcheck.targets.memory_liars import MEMORY_LIARS, LosesBlocks, RadixAllocating, RadixArrays
from radixcheck.targets.mutants.memory import PoolArrays
from radixcheck.trace import Trace, dumps, loads
from radixcheck.verdict import check, replay

pytestmark = pytest.mark.slow

WITHOUT_TORCH = sorted(name for name in MEMORY_LIARS if "Tensors" not in name)
HONEST = ("Preallocates", "Doubles", "KeepsFreedBlocks", "KeepsTimes")
SEEDS = range(10)
"""Enough for every kind of round."""

BIG = SMALL_BYTES


def pool_of(capacity: int = 512) -> PoolArrays:
    """Return a correct pool whose answers are arrays."""
    return PoolArrays(capacity)


def rounds_of(seed: int, page_size: int = 1) -> Trace:
    """Return a trace of rounds."""
    return Trace(tuple(rounds(Random(seed), page_size)))


class Grows:
    """Something whose memory is whatever a test wants."""

    def __init__(self) -> None:
        self.held: list[memoryview] = []

    def grow(self, num_bytes: int) -> None:
        """Take so much more."""
        self.held.append(memoryview(bytearray(num_bytes)))


def weighed(growth: list[int], *, stored: int = 0, odd_round: int = -1) -> list[str | None]:
    """Weigh once, and after each round with such a growth; name the rule broken each time."""
    target = Grows()
    scales = Scales(target)
    rules = [scales.weigh(stored)[1]]
    for number, num_bytes in enumerate(growth):
        scales.note(Evict(2 if number == odd_round else 1))
        target.grow(num_bytes)
        rules.append(scales.weigh(stored)[1])
    return [broken and broken.rule for broken in rules]


# ---- the scales --------------------------------------------------------------------------


def test_memory_that_grows_after_the_warm_up_is_retained() -> None:
    rules = weighed([BIG] * (WARM_UP + ROUNDS + 1))
    assert ["retained-storage"] == [rule for rule in rules[:-1] if rule]


def test_the_warm_up_is_not_judged() -> None:
    assert [None] == list({*weighed([BIG] * (WARM_UP + ROUNDS - 1))})


def test_one_round_without_growth_is_enough() -> None:
    growth = [BIG] * (WARM_UP + ROUNDS - 1) + [0] + [BIG] * (ROUNDS - 1)
    assert [None] == list({*weighed(growth)})


def test_an_unequal_round_begins_a_new_warm_up() -> None:
    rules = weighed([BIG] * (WARM_UP + ROUNDS + 5), odd_round=8)
    assert [None] == list({*rules})


def test_a_little_growth_is_nobody_s_leak() -> None:
    assert [None] == list({*weighed([SMALL_BYTES // ROUNDS - 1] * (WARM_UP + ROUNDS))})


def test_what_is_stored_may_need_memory() -> None:
    stored = ROUNDS * BIG // (2 * TOKEN_BYTES)
    assert [None] == list({*weighed([BIG] * (WARM_UP + ROUNDS), stored=stored)})


# ---- retained storage --------------------------------------------------------------------


@pytest.mark.parametrize("name", WITHOUT_TORCH)
def test_a_liar_of_memory_is_convicted_of_its_lie(name: str) -> None:
    rule, liar = MEMORY_LIARS[name]
    source = resolve(f"{liar.__module__}:{name}")
    report = run(Here(source), seed=3, budget=Budget(max_time_s=8, first_only=True))
    assert [rule] == [finding.violation.rule for finding in report.findings]


@pytest.mark.parametrize("page_size", [1, 4, 16, 64])
def test_a_cut_into_views_of_one_tensor_is_seen(page_size: int) -> None:
    pytest.importorskip("torch")
    liar = resolve(f"radixcheck.targets.memory_liars:CutsTensorsIntoViews?page_size={page_size}")
    seen = [check(liar.open, rounds_of(seed, page_size)).violation for seed in SEEDS]
    assert {"retained-storage"} == {violation.rule for violation in seen if violation}


@pytest.mark.parametrize("name", ["RadixArrays", *HONEST])
@pytest.mark.parametrize("seed", SEEDS)
def test_who_keeps_memory_for_good_reasons_is_not_accused(name: str, seed: int) -> None:
    honest = getattr(memory_honest, name)
    assert None is check(lambda config, clock: honest(), rounds_of(seed)).violation


@pytest.mark.parametrize("page_size", [1, 16, 64])
@pytest.mark.parametrize("name", ["memory_honest:ClonesOneHalf", "radix_torch:RadixTorch"])
def test_no_correct_tree_of_tensors_is_accused(name: str, page_size: int) -> None:
    pytest.importorskip("torch")
    source = resolve(f"radixcheck.targets.{name}?page_size={page_size}")
    seen = [check(source.open, rounds_of(seed, page_size)).violation for seed in SEEDS]
    assert [None] * len(SEEDS) == seen


@pytest.mark.parametrize("dropped", [0.02, 0.2, 0.6])
def test_no_subset_of_rounds_accuses_a_correct_tree(dropped: float) -> None:
    rng = Random(dropped)
    for seed in SEEDS:
        operations = [each for each in rounds_of(seed).operations if rng.random() > dropped]
        trace = Trace((*operations, Audit()))
        assert None is check(lambda config, clock: RadixArrays(), trace).violation


def test_every_kind_of_round_is_drawn() -> None:
    bodies = {tuple(each.kind for each in rounds_of(seed).operations[1:7]) for seed in SEEDS}
    assert len(set(ROUND_KINDS)) == len(bodies)


def test_rounds_are_shrunk_by_the_round() -> None:
    liar = MEMORY_LIARS["KeepsWhatWasEvicted"][1]

    def fails(trace: Trace) -> bool:
        return check(lambda config, clock: liar(), trace).violation is not None

    plain = rounds_of(next(seed for seed in SEEDS if len(rounds_of(seed).operations) > 150))
    _, *shrunk = shrink(plain, fails).trace.operations
    assert ["insert", "evict", "weigh"] * (WARM_UP + ROUNDS) == [each.kind for each in shrunk]


def test_a_weighing_survives_the_file() -> None:
    trace = Trace((Weigh(), Insert((1,)), Weigh()))
    assert trace == loads(dumps(trace))


def test_a_weighing_is_skipped_where_memory_cannot_be_looked_at() -> None:
    verdict = check(resolve("radix").open, Trace((Weigh(),)))
    assert {"the target's memory cannot be looked at": 1} == dict(verdict.skipped)


def test_a_weighing_is_told_in_bytes_and_tokens() -> None:
    seen = replay(lambda config, clock: RadixArrays(), Trace((Insert((1, 2)), Weigh())))
    outcome = seen.steps[-1].outcome
    assert (16, 2) == (getattr(outcome, "num_bytes", 0), getattr(outcome, "stored", 0))


def test_what_a_pool_hands_out_counts_until_it_comes_back() -> None:
    trace = Trace((Alloc(4, "s1"), Weigh(), Free("s1", 0, 2), Weigh(), Free("s1"), Weigh()))
    seen = replay(lambda config, clock: pool_of(8), trace)
    weights = [each.outcome.num_bytes for each in seen.steps if isinstance(each.outcome, Weighed)]
    assert [8 * 8, 8 * 10, 8 * 8] == weights


def test_a_pool_that_hands_out_copies_is_not_accused() -> None:
    can = pool_of().capabilities
    drawn = [generate_for_pools(seed, can, 100) for seed in range(80)]
    of_rounds = [Trace(each) for each in drawn if isinstance(each[0], Weigh)]
    seen = [check(lambda config, clock: pool_of(), trace).violation for trace in of_rounds]
    assert (True, {None}) == (len(seen) > 2, {*seen})


# ---- the device's allocator --------------------------------------------------------------

STORE: tuple[AnyOperation, ...] = (Insert((1, 2, 3)), MatchPrefix((1,)), Tick(0), Audit())


def test_freed_blocks_stay_reserved() -> None:
    allocator = SimulatedAllocator()
    block = allocator.take(100)
    held = allocator.allocated(), allocator.reserved()
    del block
    assert ((100, 100), (0, 100)) == (held, (allocator.allocated(), allocator.reserved()))


def test_what_is_lost_on_the_device_is_a_leak() -> None:
    violation = leak(lambda config, clock: LosesBlocks(clock), Trace(STORE))
    assert ("device-leak", "audit") == (violation and violation.signature)


def test_memory_that_comes_back_is_none_although_it_stays_reserved() -> None:
    assert None is leak(lambda config, clock: RadixAllocating(clock), Trace(STORE))


def test_on_a_cpu_nobody_counts() -> None:
    source = resolve("radix")
    assert [None, None] == [allocator_of(source.open()), leak(source.open, Trace(STORE))]


def test_a_leak_needs_growth_in_every_run() -> None:
    runs = iter(range(100))

    class Hoards(RadixAllocating):
        """Keeps a block now and then."""

        allocator = SimulatedAllocator()
        hoard: list[object] = []  # noqa: RUF012  # shared on purpose: it outlives each cache

        def __init__(self, clock: Clock) -> None:
            super().__init__(clock)
            if next(runs) % 4:
                self.hoard.append(self.allocator.take(1000))

    assert None is leak(lambda config, clock: Hoards(clock), Trace(STORE))
