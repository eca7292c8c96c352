"""`record`: what is kept, that it can be replayed, and that the cache never notices."""

from __future__ import annotations

import threading
import warnings
from array import array
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import pytest

import radixcheck
from radixcheck import trace as traces
from radixcheck.cli.results import Saved, replayed
from radixcheck.hosts import Here
from radixcheck.live import Call, Node
from radixcheck.operations import AnyOperation, DecRef, Evict, IncRef, Insert, MatchPrefix
from radixcheck.protocol import Evicted, Match
from radixcheck.registry import resolve
from radixcheck.shrink import shrink
from radixcheck.targets.radix import Radix
from radixcheck.targets.radix_paged import RadixPaged
from radixcheck.trace import Config, Trace, load
from radixcheck.verdict import check

Serve: TypeAlias = Callable[..., Any]

TREES: dict[str, type] = {"radix": Radix, "radix-paged": RadixPaged}


class LosesASlot(RadixPaged):
    """Frees all slots of a victim but the last, if they are six or more."""

    def evict(self, num_tokens: int) -> Any:
        """Evict, and lose a slot."""
        answer = super().evict(num_tokens)
        return Evicted([group[:-1] if len(group) > 5 else group for group in answer.groups])


def opened(kind: type, config: Config, clock: Any) -> Any:
    """Open a target for a verdict."""
    page_size = {"page_size": config["page_size"]} if kind is not Radix else {}
    return kind(**page_size, **({"clock": clock} if kind is not Radix else {}))


def judged(kind: type, trace: Trace) -> str:
    """Name the rule that a fresh target breaks under a trace; empty if none."""
    violation = check(lambda config, clock: opened(kind, config, clock), trace).violation
    return violation.rule if violation else ""


def kinds(operations: Sequence[AnyOperation]) -> list[str]:
    """Name the kind of each operation."""
    return [operation.kind for operation in operations]


# ------------------------------------------------------------------------------ what is kept


@pytest.mark.parametrize("seed", range(5))
def test_a_recording_has_every_call_in_order(seed: int, serve: Serve, traffic: Serve) -> None:
    cache = RadixPaged(page_size=2)
    called: list[tuple[str, tuple[int, ...]]] = []
    for name in ("match_prefix", "insert"):
        _spy(cache, name, called)
    with radixcheck.record(cache, keep_tokens=True) as recording:
        serve(cache, traffic(cache, seed))
    told = [
        (each.kind, each.tokens)
        for each in recording.trace().operations
        if isinstance(each, MatchPrefix | Insert)
    ]
    assert called == told


def _spy(cache: Any, name: str, called: list[tuple[str, tuple[int, ...]]]) -> None:
    real = getattr(cache, name)

    def spy(tokens: Any, *more: Any, **named: Any) -> Any:
        called.append((name, tuple(tokens)))
        return real(tokens, *more, **named)

    setattr(cache, name, spy)


@pytest.mark.parametrize("name", TREES)
@pytest.mark.parametrize("seed", range(5))
def test_a_recording_of_a_good_cache_replays_without_a_violation(
    name: str, seed: int, serve: Serve, traffic: Serve
) -> None:
    cache = TREES[name]()
    with radixcheck.record(cache) as recording:
        serve(cache, traffic(cache, seed))
    assert judged(TREES[name], recording.trace()) == ""


def test_a_planted_leak_of_one_slot_is_recorded_replayed_shrunk_and_named() -> None:
    cache = LosesASlot(page_size=2)
    with radixcheck.record(cache) as recording:
        _busy(cache)
    trace = recording.trace()
    broken = judged(LosesASlot, trace)

    shrunk = shrink(trace, lambda smaller: judged(LosesASlot, smaller) == broken).trace

    assert (broken, kinds(shrunk.operations)) == ("leaked-slot", ["insert", "evict"])


def _busy(cache: Any) -> None:
    """Serve twenty prompts of four tokens, and then a long one."""
    for prompt in range(20):
        cache.insert([prompt, 1, 2, 3], range(8 * prompt, 8 * prompt + 4))
    cache.evict(4)
    cache.insert(range(100, 108), range(1000, 1008))
    cache.evict(200)


def test_the_last_calls_begin_with_what_was_stored_before_them(serve: Serve) -> None:
    cache = RadixPaged(page_size=1)
    recording = radixcheck.record(cache, last=10, keep_tokens=True)
    for number in range(200):
        cache.insert([number % 7, number, 5], [3 * number, 3 * number + 1, 3 * number + 2])
    trace = recording.trace()

    again = RadixPaged(page_size=1)
    serve(again, trace.operations)

    assert len(trace.operations) < 7 + 200 + 2 * 300
    assert cache.total_size() == again.total_size()


@pytest.mark.parametrize("seed", range(6))
def test_a_lock_from_before_the_last_calls_is_given_back_in_the_trace(seed: int) -> None:
    cache = RadixPaged(page_size=1)
    recording = radixcheck.record(cache, last=40)
    cache.insert([1, 2, 3], [1, 2, 3])
    locked = cache.match_prefix([1, 2, 3]).handle
    cache.inc_ref(locked)
    for number in range(300):
        cache.insert([number + 10, 4], [2 * number + 10, 2 * number + 11])
        cache.evict(2 if number % 6 == seed else 0)
    cache.dec_ref(locked)

    operations = recording.trace().operations

    unlocked = [each.handle for each in operations if isinstance(each, DecRef)]
    assert unlocked == [each.handle for each in operations if isinstance(each, IncRef)]
    assert unlocked == [
        each.handle for each in operations if isinstance(each, MatchPrefix) and each.handle
    ]
    assert judged(RadixPaged, recording.trace()) == ""


def test_a_recording_that_goes_to_a_file_has_everything_at_any_time(tmp_path: Path) -> None:
    cache, path = Radix(), tmp_path / "all.jsonl"
    recording = radixcheck.record(cache, to=path)
    for number in range(300):
        cache.insert([number], [number])
    before = len(traces.load(path).operations)
    recording.stop()
    assert (before, len(traces.load(path).operations)) == (256, 300)


def test_a_call_that_raises_is_in_the_trace_and_raises() -> None:
    cache = Radix()
    cache.evict = _failing  # type: ignore[method-assign]  # before it is tapped
    with radixcheck.record(cache) as recording, pytest.raises(ZeroDivisionError):
        cache.evict(3)
    assert recording.trace().operations == (Evict(3),)


def _failing(num_tokens: Any) -> Any:
    return num_tokens // 0


# --------------------------------------------------------------------------------- in private


def test_tokens_and_namespaces_are_renamed_and_prefixes_stay_equal() -> None:
    cache = RadixPaged()
    with radixcheck.record(cache) as recording:
        cache.insert([70_001, 70_002], [1, 2], namespace=("tenant",))
        cache.match_prefix([70_001, 70_003], namespace=("tenant",))
    insert, match = recording.trace().operations
    assert insert == Insert((1, 2), ("n1",))
    assert match == MatchPrefix((1, 3), ("n1",), "h1")
    assert b"7000" not in traces.dumps(recording.trace())


def test_tokens_stay_if_asked_for() -> None:
    cache = Radix()
    with radixcheck.record(cache, keep_tokens=True) as recording:
        cache.insert([70_001], [1])
    assert recording.trace().operations == (Insert((70_001,)),)


def test_a_buffer_that_is_reused_after_the_call_is_recorded_as_it_was() -> None:
    cache, buffer = Radix(), array("q", [1, 2])
    with radixcheck.record(cache, keep_tokens=True) as recording:
        cache.insert(buffer[:], [1, 2])
        cache.match_prefix(buffer)
        buffer[0] = 9
    assert recording.trace().operations[1] == MatchPrefix((1, 2), handle="h1")


# --------------------------------------------------------------------------- it never notices


def test_stop_gives_the_methods_back() -> None:
    cache = Radix()
    before = dict(vars(cache))
    radixcheck.record(cache).stop()
    assert vars(cache) == before


def test_a_cache_is_not_recorded_twice() -> None:
    cache = Radix()
    with radixcheck.record(cache), pytest.raises(ValueError, match="recorded already"):
        radixcheck.record(cache)
    radixcheck.record(cache).stop()


def test_an_object_on_which_nothing_can_be_set_is_refused_and_as_before() -> None:
    class Slotted:
        __slots__ = ()

        def match_prefix(self, tokens: Any) -> Match:
            return Match(0, [], None)

        def insert(self, tokens: Any, slots: Any) -> int:
            return 0

    with pytest.raises(ValueError, match="nothing can be set on a Slotted"):
        radixcheck.record(Slotted())


def test_what_is_no_cache_is_refused_with_what_to_say() -> None:
    with pytest.raises(ValueError, match="calls="):
        radixcheck.record(object())


FAULTY = {
    "given": Call("match_prefix", given=_failing),
    "answered": Call("match_prefix", answered=_failing),
}


@pytest.mark.parametrize("where", FAULTY)
def test_a_fault_of_the_recorder_is_told_once_and_the_cache_goes_on(where: str) -> None:
    cache = Radix()
    calls: dict[str, Call | str] = {"match_prefix": FAULTY[where], "insert": "insert"}
    recording = radixcheck.record(cache, calls=calls)
    with pytest.warns(RuntimeWarning, match="stopped recording: TypeError") as told:
        answers = [cache.match_prefix([1]).length for _ in range(3)]
    assert (answers, len(told)) == ([0, 0, 0], 1)
    assert "fault in radixcheck" in recording.trace().note
    assert "match_prefix" not in vars(cache)


def test_a_call_in_the_midst_of_another_is_a_part_of_it() -> None:
    cache = _Nested()
    with radixcheck.record(cache) as recording:
        cache.insert([1], [1])
    assert kinds(recording.trace().operations) == ["insert"]


class _Nested(Radix):
    def insert(self, tokens: Any, slots: Any, *more: Any, **named: Any) -> int:
        self.match_prefix(tokens)
        return super().insert(tokens, slots)


def test_a_second_thread_is_noted() -> None:
    cache = Radix()
    with radixcheck.record(cache) as recording:
        cache.insert([1], [1])
        other = threading.Thread(target=cache.match_prefix, args=([1],))
        other.start()
        other.join()
    assert kinds(recording.trace().operations) == ["insert", "match_prefix"]
    assert "another thread" in recording.trace().note


def test_nobody_who_does_not_record_imports_the_recorder() -> None:
    import subprocess
    import sys

    program = "import radixcheck, sys; print([m for m in sys.modules if 'radixcheck.' in m])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout == b"[]\n"


# ------------------------------------------------------------------------------- what is stored


def test_what_is_stored_already_is_stored_again_first() -> None:
    def walk() -> list[Node]:
        return [
            Node([1, 2], used=3, slots=[1, 2]),
            Node([3], 0, used=1, slots=[3]),
            Node([4], 0, (("held", 2),), used=2, slots=[4]),
        ]

    with radixcheck.record(Radix(), walk=walk) as recording:
        pass
    assert recording.trace().operations == (
        Insert((1, 2, 3)),
        Insert((1, 2, 4)),
        MatchPrefix((1, 2, 4), handle="h1"),
        IncRef("h1"),
        IncRef("h1"),
        MatchPrefix((1, 2)),
    )


def test_a_recording_does_not_warn_of_anything(serve: Serve, traffic: Serve) -> None:
    cache = RadixPaged()
    with warnings.catch_warnings(), radixcheck.record(cache):
        warnings.simplefilter("error")
        serve(cache, traffic(cache, 1))


def test_last_calls_replay_on_an_adapter_of_the_cache(tmp_path: Path) -> None:
    cache, path = Radix(), tmp_path / "last-calls.jsonl"
    with radixcheck.record(cache, last=20) as recording:
        for token in range(2_000):
            cache.insert([token, token + 1], [2 * token, 2 * token + 1])
    assert "came before" in recording.save(path).note
    saved = Saved(str(path), partial(load, path))
    assert replayed(saved, "radix", lambda spec: Here(resolve(spec))).status == "FIXED"
