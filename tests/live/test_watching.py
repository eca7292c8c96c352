"""`watch`: correct caches are spared, planted bugs are found at once, and nobody is disturbed."""

from __future__ import annotations

import importlib
import pkgutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

import radixcheck
from radixcheck import trace as traces
from radixcheck.capabilities import Capabilities
from radixcheck.live import Node, Violated
from radixcheck.live.calls import manner_of_tree
from radixcheck.live.following import Following
from radixcheck.live.naming import Words
from radixcheck.operations import Evict, Insert
from radixcheck.protocol import Match, Refused
from radixcheck.registry import resolve
from radixcheck.targets import mutants
from radixcheck.targets.mutants.catalogue import MUTANTS
from radixcheck.targets.radix import Radix
from radixcheck.targets.radix_paged import RadixPaged
from radixcheck.verdict import check

Serve: TypeAlias = Callable[..., Any]

for _module in pkgutil.iter_modules(mutants.__path__):
    importlib.import_module(f"{mutants.__name__}.{_module.name}")

# ------------------------------------------------------------------------- who is right is spared


@pytest.mark.parametrize("every", [1, 7, 64])
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    "spec",
    [
        "radix",
        "radix-paged",
        "radix-paged?page_size=4",
        "radix-paged?eviction=slru",
        "radix-paged?page_size=2&eviction=priority",
    ],
)
def test_a_correct_cache_is_spared(
    spec: str, seed: int, every: int, serve: Serve, traffic: Serve
) -> None:
    cache = resolve(spec).open()
    with radixcheck.watch(cache, every=every, to=None, last=100, then="raise") as watched:
        assert serve(cache, traffic(cache, seed)) is None
    assert (watched.violation, watched.lost) == (None, "")
    assert watched.calls > 100


@pytest.mark.parametrize("seed", range(6))
def test_a_correct_cache_of_tensors_is_spared(seed: int, serve: Serve, traffic: Serve) -> None:
    pytest.importorskip("torch")
    cache = resolve("radix-torch").open()
    with radixcheck.watch(cache, to=None, then="raise") as watched:
        assert serve(cache, traffic(cache, seed)) is None
    assert (watched.violation, watched.lost) == (None, "")


def test_a_recording_that_follows_forgets_handles_that_nobody_holds() -> None:
    cache = Radix()
    cache.insert([1], [1])
    manner = manner_of_tree(cache, None, None)
    following = Following(manner, Words(), 100)
    for _ in range(3):
        calls: list[Any] = [
            ("match_prefix", ([1], ()), (0, [], object()), None) for _ in range(5_000)
        ]
        list(following.judge(calls))
    assert len(following.follower.handles) < 10_000


# --------------------------------------------------------------------- who is wrong is found out


def _watched(mutant: str, serve: Serve, traffic: Serve) -> tuple[str, str]:
    """Serve a mutant until the caller finds it out; return what it found, and what the watch."""
    source = resolve(MUTANTS[mutant].spec)
    for seed in range(40):
        cache = source.open(MUTANTS[mutant].config)
        with radixcheck.watch(cache, every=1, to=None, then=lambda *_: None) as watched:
            found = serve(cache, traffic(cache, seed, 200))
        if found is not None:
            return found.rule, watched.violation.rule if watched.violation else ""
    return "", ""


@pytest.mark.parametrize(
    "mutant",
    [
        "sglang-7-edge-split",
        "mllm-656-split-size",
        "sglang-36696-child-key",
        "sglang-35821-empty-node",
        "minisgl-46-handle-is-root",
        "minisgl-52-lock-skips-node",
        "bytedance-508-lock-not-split",
        "lmcache-5098-foreign-unpin",
        "sglang-24892-suffix-looks-fresh",
        "sglang-18843-hits-frozen",
        "sglang-24638-joined-namespace",
        "vllm-4764-popped-still-listed",
        "openvino-3722-trusted-hash",
        "smg-2137-leaf-snapshot",
    ],
)
def test_a_planted_bug_is_named_as_a_run_names_it(
    mutant: str, serve: Serve, traffic: Serve
) -> None:
    in_a_run, watched = _watched(mutant, serve, traffic)
    assert in_a_run == watched != ""


class Forgets(Radix):
    """Forgets what it evicts without giving it back."""

    def evict(self, num_tokens: int) -> Any:
        """Evict, and answer nothing."""
        super().evict(num_tokens)
        return []


def test_the_trace_of_a_violation_replays_and_ends_with_it(tmp_path: Path) -> None:
    path = tmp_path / "violation.jsonl"
    cache = Forgets()
    with (
        pytest.warns(RuntimeWarning, match=r"under-evicted at evict.*violation\.jsonl"),
        radixcheck.watch(cache, every=1, to=path) as watched,
    ):
        cache.insert([5, 6, 7], [1, 2, 3])
        cache.evict(3)
        cache.insert([5, 6, 7], [4, 5, 6])

    trace = traces.load(path)
    violation = check(lambda config, clock: Forgets(), trace).violation

    assert trace.operations == (Insert((1, 2, 3)), Evict(3))
    assert trace.found is not None
    assert watched.violation is not None
    assert violation is not None
    assert violation.signature == watched.violation.signature
    assert violation.step == watched.violation.step


def test_a_violation_is_raised_out_of_the_call_if_asked_for() -> None:
    cache = Forgets()
    radixcheck.watch(cache, every=1, to=None, then="raise")
    cache.insert([5, 6, 7], [1, 2, 3])
    with pytest.raises(Violated, match="under-evicted"):
        cache.evict(3)
    assert "evict" not in vars(cache)


def test_a_function_is_called_with_the_violation() -> None:
    cache, told = Forgets(), []
    watched = radixcheck.watch(cache, to=None, then=lambda *what: told.append(what))
    cache.insert([5, 6, 7], [1, 2, 3])
    cache.evict(3)
    watched.check()
    assert told == [(watched.violation, None)]


def test_a_trace_that_cannot_be_written_is_told_and_the_violation_too(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = Forgets()
    with (
        pytest.warns(RuntimeWarning, match=r"under-evicted.*could not be written"),
        radixcheck.watch(cache, to=tmp_path / "file" / "trace.jsonl"),
    ):
        cache.insert([5, 6, 7], [1, 2, 3])
        cache.evict(3)


def test_a_slot_that_is_stored_for_two_prefixes_is_a_double_owner() -> None:
    cache = Radix()
    with radixcheck.watch(cache, to=None, then=lambda *_: None) as watched:
        cache.insert([1], [7])
        cache.insert([2], [7])
    assert watched.violation is not None
    assert watched.violation.rule == "double-owner"


def test_an_unlock_of_nothing_is_named_for_what_it_is() -> None:
    cache = RadixPaged()
    with radixcheck.watch(cache, to=None, then="raise") as watched:
        cache.insert([1], [7])
        handle = cache.match_prefix([1]).handle
        with pytest.raises(Refused):
            cache.dec_ref(handle)
    assert watched.trace().misuse


# --------------------------------------------------------------------------- what is not judged


def test_a_cache_in_mid_life_that_nobody_sees_into_is_refused() -> None:
    cache = Radix()
    cache.insert([1], [1])
    with pytest.raises(ValueError, match="not empty"):
        radixcheck.watch(cache)


def test_a_cache_in_mid_life_is_watched_if_somebody_sees_into_it() -> None:
    cache = Radix()
    cache.insert([1, 2], [1, 2])
    nodes = [Node([1, 2], used=1.0, slots=[1, 2])]
    with radixcheck.watch(cache, to=None, walk=lambda: nodes, then="raise") as watched:
        assert cache.match_prefix([1, 2]).length == 2
        assert watched.check() is None
    assert watched.trace().operations[0] == Insert((1, 2))


def test_what_is_seen_inside_is_held_against_the_answers() -> None:
    cache = Radix()
    seen: list[Node] = []
    with radixcheck.watch(cache, to=None, walk=lambda: seen, then=lambda *_: None) as watched:
        cache.insert([1, 2], [1, 2])
    assert watched.violation is not None
    assert watched.violation.rule == "lost-insert"


def test_a_second_thread_ends_a_watch() -> None:
    cache = Radix()
    watched = radixcheck.watch(cache, to=None)
    cache.insert([1], [1])
    other = threading.Thread(target=cache.match_prefix, args=([1],))
    other.start()
    other.join()
    with pytest.warns(RuntimeWarning, match="second thread"):
        watched.check()
    assert watched.lost.startswith("a second thread")
    assert "insert" not in vars(cache)


def test_a_lock_that_no_match_has_answered_ends_a_watch() -> None:
    cache = Radix()
    handle = cache.match_prefix([1]).handle
    with (
        pytest.warns(RuntimeWarning, match="no match has answered"),
        radixcheck.watch(cache, to=None) as watched,
    ):
        cache.inc_ref(handle)
    assert watched.lost.startswith("a lock")


class Unreadable(Radix):
    """Answers no slots."""

    capabilities = Capabilities()

    def match_prefix(self, tokens: Any, namespace: tuple[str, ...] = ()) -> Match:
        """Answer what nobody can read."""
        return Match(1, None, None)


def test_an_answer_that_cannot_be_read_ends_the_watch_and_not_the_cache() -> None:
    cache = Unreadable()
    with (
        pytest.warns(RuntimeWarning, match="stopped recording"),
        radixcheck.watch(cache, every=1, to=None) as watched,
    ):
        assert cache.match_prefix([1]).length == 1
    assert watched.violation is None


def test_a_wish_that_nobody_knows_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="write 'warn', 'raise', or a function"):
        radixcheck.watch(Radix(), then="explode")  # type: ignore[arg-type]  # that is the test
