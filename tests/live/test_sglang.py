"""SGLang's own classes, recorded and watched: its trees as a scheduler calls them, and its
bookkeeping of requests.

Releases are driven where the environment variable ``RADIXCHECK_SGLANG_RELEASES`` names a folder
that holds one unpacked wheel per subfolder, named by its version.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

import pytest

import radixcheck
from radixcheck import trace as traces
from radixcheck.clock import Clock
from radixcheck.live import Violated
from radixcheck.protocol import Refused
from radixcheck.requests import Checker, generate
from radixcheck.shrink import shrink
from radixcheck.targets.sglang import SGLang, eras
from radixcheck.targets.sglang.bookkeeping import PoolAsAllocator, bookkeeping
from radixcheck.targets.sglang.release import Release
from radixcheck.targets.sglang.requests import SGLangRequests
from radixcheck.trace import Trace
from radixcheck.verdict import check

RELEASES = Path(os.environ.get("RADIXCHECK_SGLANG_RELEASES", "/nowhere"))
SETTINGS = [
    ("0.4.6", {}),
    ("0.5.10", {"page_size": 4}),
    ("0.5.23", {}),
    ("0.5.23", {"page_size": 4, "eviction": "slru"}),
    ("0.5.23", {"tree": "unified"}),
    ("0.5.23", {"tree": "unified-rust", "page_size": 4}),
]
Listen: TypeAlias = Callable[[Any], Any]
Serve: TypeAlias = Callable[..., Any]

# ----------------------------------------------------------- somebody who listens from the start


class LivingTree(SGLang):
    """A tree of a release. `listen` is called with SGLang's own object before anybody else."""

    listen: Listen = staticmethod(lambda cache: None)
    listener: Any

    def _bind(self, tree: ModuleType, cache: Any) -> None:
        self.listener = type(self).listen(cache)
        super()._bind(tree, cache)


class Pooled(PoolAsAllocator):
    """Slots come from it as well, as from the allocators of releases."""

    def alloc(self, num_tokens: int) -> Any:
        """Hand out slots; None if there are too few."""
        try:
            return self._find_pool().alloc(num_tokens)
        except Refused:
            return None


class LivingRequests(SGLangRequests):
    """A tree of a release with its bookkeeping."""

    listen: Listen = staticmethod(lambda cache: None)
    listener: Any

    @staticmethod
    def plant(cache: Any) -> None:
        """Plant a bug; here there is none."""

    def _alloc(self, num_tokens: int) -> Any:
        return self._pooled.alloc(num_tokens)

    def _bind(self, release: Release, tree: ModuleType, settings: dict[str, Any]) -> Any:
        allocator = self._pooled = Pooled(settings["page_size"], lambda: self.pool)
        cache = eras.build(tree, settings | {"req_to_token_pool": self._rows}, allocator)
        self.plant(cache)
        self.listener = type(self).listen(cache)
        self._books = bookkeeping(release.directory, cache, self._rows, allocator)
        self._key, self._find = eras.key_maker(tree), eras.matcher(tree, cache)
        self._evict, self._reset = eras.evicter(tree, cache, allocator), cache.reset
        self.evictable_size, self.total_size = cache.evictable_size, eras.total_size(cache)
        return cache


class LosesOne:
    """A pool as a tree sees it that loses a slot of the duplicates behind a matched prefix."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pool, name)

    def free_segment(self, slots: Any, start_pos: int = 0) -> None:
        """Give back all but the last."""
        self._pool.free_segment(slots[:-1] if start_pos else slots, start_pos=start_pos)


class Leaky(LivingRequests):
    """A planted leak of one slot: `checkpoint` forgets the last duplicate."""

    @staticmethod
    def plant(cache: Any) -> None:
        """Let `checkpoint` see the pool as `LosesOne` shows it."""
        store = cache.checkpoint

        def checkpoint(req: Any, *, up_to: int) -> None:
            pool = cache.token_to_kv_pool_allocator
            cache.token_to_kv_pool_allocator = LosesOne(pool)
            try:
                store(req, up_to=up_to)
            finally:
                cache.token_to_kv_pool_allocator = pool

        cache.checkpoint = checkpoint


def listened(kind: type, listen: Listen, path: str, **settings: Any) -> Any:
    """Build one, and let `listen` begin."""
    heard: Any = type(kind.__name__, (kind,), {"listen": staticmethod(listen)})
    return heard(path, **settings)


def folder(release: str) -> str:
    """Return where a release is, or skip."""
    if not (RELEASES / release / "sglang").is_dir():
        pytest.skip("RADIXCHECK_SGLANG_RELEASES names no folder with this release")
    return str(RELEASES / release)


def watching(**how: Any) -> Listen:
    """Return what begins to watch."""
    return lambda cache: radixcheck.watch(cache, **{"to": None, "then": "raise", **how})


# ----------------------------------------------------------------------------------- the tree


@pytest.mark.parametrize(("release", "settings"), SETTINGS)
@pytest.mark.parametrize("seed", range(3))
def test_a_tree_is_watched_and_spared(
    release: str, settings: dict[str, Any], seed: int, serve: Serve, traffic: Serve
) -> None:
    listen = watching(every=(1, 7, 64)[seed], last=100)
    tree = listened(LivingTree, listen, folder(release), **settings)
    assert serve(tree, traffic(tree, seed)) is None
    assert tree.listener.check() is None
    assert tree.listener.lost == ""
    assert tree.listener.calls > 100


@pytest.mark.parametrize(("release", "settings"), SETTINGS)
def test_a_recorded_tree_replays(
    release: str, settings: dict[str, Any], serve: Serve, traffic: Serve
) -> None:
    path = folder(release)
    tree = listened(LivingTree, radixcheck.record, path, **settings)
    assert serve(tree, traffic(tree, 1)) is None
    trace = tree.listener.trace()
    again = check(lambda config, clock: SGLang(path, clock=clock, **settings), trace)
    assert (again.violation, again.operations) == (None, len(trace.operations))
    assert len(trace.operations) > 100


def test_the_last_calls_of_a_tree_begin_with_what_was_stored(serve: Serve) -> None:
    path, torch = folder("0.5.23"), pytest.importorskip("torch")
    tree = listened(LivingTree, lambda cache: radixcheck.record(cache, last=64), path)
    for number in range(500):
        key = array("q", [number % 8, number % 3, number % 8, 7])
        tree.match_prefix(key)
        tree.insert(key, torch.arange(4 * number, 4 * number + 4))
    trace = tree.listener.trace()
    again = SGLang(path)
    serve(again, trace.operations)
    assert trace.note
    assert again.total_size() == tree.total_size()


def test_a_tree_in_mid_life_is_watched() -> None:
    tree = listened(LivingTree, lambda cache: cache, folder("0.5.23"))
    torch = pytest.importorskip("torch")
    for number in range(50):
        tree.insert(array("q", [1, number, 3]), torch.tensor([900, 2 * number, 2 * number + 1]))
    found = tree.match_prefix(array("q", [1, 4, 3]))
    tree.inc_ref(found.handle)
    with radixcheck.watch(tree.listener, every=1, to=None, then="raise") as watched:
        tree.listener.dec_lock_ref(found.handle)
        tree.listener.evict(vars_of(tree)["EvictParams"](num_tokens=30))
        assert watched.check() is None
    assert watched.lost == ""


def vars_of(tree: Any) -> dict[str, Any]:
    """Return the names of the module of a tree."""
    names: dict[str, Any] = type(tree.listener).evict.__globals__
    return names


# ----------------------------------------------------------------------------------- requests


def served(cache: Any, seed: int) -> Any:
    """Serve requests, and return what the caller found wrong, if anything."""
    caller = Checker(cache, Clock())
    for operation in generate(seed, cache.capabilities, 300, capacity=64):
        if (violation := caller.apply(operation)) is not None:
            return violation
    return None


@pytest.mark.parametrize("release", ["0.5.6", "0.5.10", "0.5.23"])
@pytest.mark.parametrize("page_size", [1, 4])
@pytest.mark.parametrize("seed", range(3))
def test_requests_are_watched_and_spared(release: str, page_size: int, seed: int) -> None:
    listen = watching(every=(1, 9, 64)[seed], last=100)
    cache = listened(LivingRequests, listen, folder(release), page_size=page_size, capacity=64)
    assert served(cache, seed) is None
    assert cache.listener.check() is None
    assert cache.listener.lost == ""


@pytest.mark.parametrize("release", ["0.5.10", "0.5.23"])
@pytest.mark.parametrize("seed", range(2))
def test_recorded_requests_replay(release: str, seed: int) -> None:
    path = folder(release)
    cache = listened(LivingRequests, radixcheck.record, path, capacity=64)
    assert served(cache, seed) is None
    trace = cache.listener.trace()
    kinds = {operation.kind for operation in trace.operations}
    assert {"arrive", "admit", "prefill", "decode", "finish"} <= kinds
    assert judged(SGLangRequests, path, trace) == ""


def judged(kind: type, path: str, trace: Trace) -> str:
    """Name the rule that a release breaks under a trace; empty if none."""
    capacity = trace.config["capacity"]
    violation = check(lambda config, clock: kind(path, capacity=capacity), trace).violation
    return violation.rule if violation else ""


def test_a_planted_leak_of_one_slot_is_recorded_replayed_shrunk_and_named() -> None:
    path = folder("0.5.23")
    cache = listened(Leaky, radixcheck.record, path, capacity=64)
    assert served(cache, 0).rule == "leaked-slot"
    trace = cache.listener.trace()

    shrunk = shrink(trace, lambda smaller: judged(Leaky, path, smaller) == "leaked-slot").trace

    assert judged(Leaky, path, trace) == "leaked-slot"
    assert len(shrunk.operations) < 12 < len(trace.operations)


def test_a_planted_leak_is_found_while_it_serves_and_its_trace_replays(tmp_path: Path) -> None:
    path, file = folder("0.5.23"), tmp_path / "leak.jsonl"
    cache = listened(Leaky, watching(every=1, to=file, then=lambda *_: None), path, capacity=64)
    served(cache, 0)
    assert cache.listener.violation.rule == "leaked-slot"
    assert judged(Leaky, path, traces.load(file)) == "leaked-slot"


def test_a_violation_is_raised_into_the_scheduler_only_if_asked_for() -> None:
    cache = listened(Leaky, watching(every=1), folder("0.5.23"), capacity=64)
    found = served(cache, 0)
    assert Violated.__name__ in found.actual
