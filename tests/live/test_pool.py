"""A bare pool, recorded and watched: every slot by what it was handed out with."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import radixcheck
from radixcheck import trace as traces
from radixcheck.capabilities import PoolCapabilities
from radixcheck.clock import Clock
from radixcheck.live import Call
from radixcheck.operations import AddRefs, Alloc, AnyOperation, Audit, Free
from radixcheck.pools import Checker, generate
from radixcheck.protocol import Refused
from radixcheck.rules import Violation
from radixcheck.shrink import shrink
from radixcheck.targets.pools import honest, plain
from radixcheck.targets.pools.liars import POOL_LIARS
from radixcheck.targets.pools.plain import PoolCounted, PoolExclusive, PoolPaged
from radixcheck.trace import Config, Trace
from radixcheck.verdict import check

Make = Callable[..., Any]

HONEST = [
    kind
    for module in (plain, honest)
    for kind in vars(module).values()
    if inspect.isclass(kind) and kind.__module__ == module.__name__
]


class LosesASlot(PoolExclusive):
    """Loses the last of six slots or more that come back at once."""

    def _put(self, pages: Any) -> None:
        kept = list(pages)
        super()._put(kept[:-1] if len(kept) > 5 else kept)


def fits(make: Make, config: Config) -> Any:
    """Make a pool of as much of a configuration as it takes."""
    takes = inspect.signature(make).parameters
    return make(**{name: value for name, value in config.items() if name in takes})


def broken(make: Make, trace: Trace) -> tuple[str, str]:
    """Name the rule that a fresh pool breaks under a trace, and where; empty if none."""
    violation = check(lambda config, clock: fits(make, config), trace).violation
    return violation.signature if violation else ("", "")


def judged(make: Make, trace: Trace) -> str:
    """Name the rule alone."""
    return broken(make, trace)[0]


def serve(pool: Any, seed: int, num_operations: int = 200) -> Violation | None:
    """Call a pool as a run would, up to the first violation."""
    caller = Checker(pool, Clock())
    for operation in generate(seed, pool.capabilities, num_operations):
        if not isinstance(operation, Audit) and (violation := caller.apply(operation)) is not None:
            return violation
    return None


def busy(pool: Any) -> None:
    """Take up to seven slots and give them back, for a while."""
    rng, held = random.Random(1), list[Any]()
    for _ in range(300):
        if rng.random() < 0.5 and pool.available_size() > 6:
            held.append(pool.alloc(rng.randint(1, 7)))
        elif held:
            pool.free(held.pop(rng.randrange(len(held))))


def operations(pool: Any, use: Callable[[Any], None], last: int = 1_000) -> tuple[Any, ...]:
    """Return what is recorded of `use`."""
    with radixcheck.record(pool, last=last) as recording:
        use(pool)
    return recording.trace().operations


# ------------------------------------------------------------------------------- recorded


@pytest.mark.parametrize("last", [10_000, 40])
def test_a_planted_leak_of_one_slot_is_recorded_replayed_shrunk_and_named(last: int) -> None:
    pool = LosesASlot()
    with radixcheck.record(pool, last=last) as recording:
        busy(pool)
    trace, leak = recording.trace(), ("leaked-slot", "free")
    assert broken(LosesASlot, trace) == leak
    shrunk = shrink(trace, lambda smaller: broken(LosesASlot, smaller) == leak).trace
    assert shrunk.operations == (Alloc(6, "h1"), Free("h1"))


def test_all_operations_of_a_pool_go_to_a_file_that_ends_with_an_audit(tmp_path: Path) -> None:
    kept, filed, path = LosesASlot(), LosesASlot(), tmp_path / "all.jsonl"
    with radixcheck.record(filed, to=path):
        busy(filed)
    assert traces.load(path).operations == operations(kept, busy)
    assert judged(LosesASlot, traces.load(path)) == "leaked-slot"


@pytest.mark.parametrize("make", HONEST)
@pytest.mark.parametrize("seed", range(3))
def test_a_correct_pool_is_spared_and_its_last_calls_replay(make: Make, seed: int) -> None:
    pool = make()
    with radixcheck.watch(pool, every=7, last=50, to=None, then="raise") as watched:
        assert serve(pool, seed) is None
    assert (watched.violation, watched.lost) == (None, "")
    assert judged(make, watched.trace()) == ""


def test_slots_are_named_by_what_they_were_handed_out_with() -> None:
    def use(pool: Any) -> None:
        first, second = pool.alloc(4), pool.alloc(2)
        pool.free([*first[1:3], *second])
        pool.add_refs(first[:1])
        pool.free(first[:1] * 2)

    assert operations(PoolCounted(), use) == (
        Alloc(4, "h1"),
        Alloc(2, "h2"),
        Free("h1", 1, 3),
        Free("h2"),
        AddRefs("h1", 0, 1),
        Free("h1", 0, 1, times=2),
        Audit(),
    )


def test_a_trace_that_begins_in_mid_life_takes_first_what_was_held_then() -> None:
    def use(pool: Any) -> None:
        pages = pool.alloc(8)
        pool.free(pages[:3])
        for _ in range(300):
            pool.free(pool.alloc(4))
        pool.free(pages[3:])

    first: list[AnyOperation] = [Alloc(8, "h1"), Free("h1", 0, 3)]
    found = operations(PoolPaged(), use, last=20)
    assert list(found[:2]) == first
    assert found[-2:] == (Free("h1", 3, 8), Audit())
    assert len(found) < 150


def test_a_refused_alloc_is_in_the_trace() -> None:
    def use(pool: Any) -> None:
        with pytest.raises(Refused):
            pool.alloc(9)

    assert operations(PoolExclusive(8), use) == (Alloc(9), Audit())


def test_a_slot_that_is_freed_twice_is_freed_twice_in_the_trace() -> None:
    class Takes(PoolExclusive):
        def free(self, slots: Any) -> None:
            self._put(slots)

    pool = Takes()
    with radixcheck.record(pool) as recording:
        slots = pool.alloc(1)
        pool.free(slots)
        pool.free(slots)
    assert recording.trace().misuse
    assert judged(Takes, recording.trace()) == "double-free"


def test_what_was_held_before_is_left_out_and_noted() -> None:
    pool = PoolExclusive()
    held = pool.alloc(3)
    with radixcheck.record(pool) as recording:
        pool.free(held)
        pool.free(pool.alloc(2))
    assert recording.trace().operations == (Alloc(2, "h1"), Free("h1"), Audit())
    assert "held before" in recording.trace().note


class Blocks:
    """A pool with names of its own, and no promises."""

    def __init__(self) -> None:
        self.idle = list(range(8))

    def take(self, count: int, _why: str = "") -> dict[str, list[int]]:
        """Hand out blocks."""
        taken, self.idle = self.idle[:count], self.idle[count:]
        return {"blocks": taken}

    def give(self, taken: dict[str, list[int]]) -> None:
        """Take blocks back, the first of them twice."""
        self.idle += taken["blocks"] + taken["blocks"][:1]


CALLS: dict[str, Any] = {
    "alloc": Call("take", answered=lambda answer: answer["blocks"]),
    "free": Call("give", given=lambda taken: (taken["blocks"],)),
}


def test_a_pool_with_names_of_its_own_is_watched_by_them() -> None:
    pool, found = Blocks(), list[Any]()
    promises = PoolCapabilities(capacity=8)
    told = partial(radixcheck.watch, pool, calls=CALLS, capabilities=promises, to=None)
    with told(every=1, then=lambda violation, _: found.append(violation.rule)):
        pool.give(pool.take(4, "because"))
        pool.take(8)
        pool.take(1)
    assert found == ["double-owner"]


def test_a_pool_that_promises_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match=r"capabilities=PoolCapabilities\(\.\.\.\)"):
        radixcheck.record(Blocks(), calls=CALLS)


# --------------------------------------------------------------------------------- watched

SEEN_OTHERWISE = {
    "leaked-slot": "size-drift",  # to tell them apart, somebody must ask for all slots
    "mutated-argument": "",
    "nondeterminism": "",
}


@pytest.mark.parametrize("rule", POOL_LIARS)
def test_a_liar_is_named_as_a_run_names_it(rule: str) -> None:
    found: set[str] = set()
    for seed in range(20):
        pool: Any = POOL_LIARS[rule]()
        with radixcheck.watch(pool, every=1, to=None, then=lambda *_: None) as watched:
            serve(pool, seed)
        if watched.violation is not None:
            found.add(watched.violation.rule)
    assert found == {SEEN_OTHERWISE.get(rule, rule)} - {""}


def test_the_trace_of_the_first_violation_is_written_and_names_the_leak(tmp_path: Path) -> None:
    pool, path = LosesASlot(), tmp_path / "violation.jsonl"
    with (
        pytest.warns(RuntimeWarning, match="size-drift at free.*slots are lost"),
        radixcheck.watch(pool, every=16, to=path) as watched,
    ):
        busy(pool)
    assert watched.violation is not None
    assert "free" not in vars(pool)
    assert judged(LosesASlot, traces.load(path)) == "leaked-slot"


def test_a_pool_of_which_slots_are_held_is_not_watched() -> None:
    pool = PoolExclusive()
    pool.alloc(1)
    with pytest.raises(ValueError, match="slots of the PoolExclusive are held"):
        radixcheck.watch(pool)


def test_tensors_are_read_only_when_a_batch_is_judged() -> None:
    torch = pytest.importorskip("torch")

    class OnADevice:
        capabilities = PoolCapabilities(capacity=8, slots_as="torch", device="meta")

        def alloc(self, num_tokens: int) -> Any:
            return torch.empty(num_tokens, dtype=torch.int64, device="meta")

        def free(self, slots: Any) -> None:
            pass

    pool = OnADevice()
    watched = radixcheck.watch(pool, every=1_000, to=None)
    for _ in range(100):
        pool.free(pool.alloc(2))
    watched.stop()
    assert (watched.trouble, watched.waiting) == (None, 200)
