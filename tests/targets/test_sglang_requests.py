"""The adapter `sglang-request` against miniatures of both shapes that SGLang's bookkeeping has had,
and against releases.

A miniature is a folder like an unpacked wheel whose `RadixCache` is written here: a table of
prefixes with a release's calls around it. Releases are driven where the environment variable
``RADIXCHECK_SGLANG_RELEASES`` names a folder that holds one unpacked wheel per subfolder, named by
its version.
"""

from __future__ import annotations

import os
import sys
from array import array
from pathlib import Path
from typing import Any

import pytest

from radixcheck.capabilities import PoolCapabilities
from radixcheck.hosts import Here
from radixcheck.loop import Budget, Report, run
from radixcheck.protocol import Refused
from radixcheck.registry import TargetError, resolve

pytest.importorskip("torch")

PAGE = 4
LONG = tuple(range(10))
ENGINE = "sglang.srt.mem_cache.common"

TABLE = """
from itertools import takewhile

import torch

class TreeNode:
    key = None

    def __init__(self, prefix=()):
        self.prefix = prefix

class Table:
    def __init__(self, req_to_token_pool, token_to_kv_pool_allocator, page_size, disable=False):
        self.rows, self.allocator = req_to_token_pool, token_to_kv_pool_allocator
        self.page_size = page_size
        self.reset()

    def reset(self):
        self.pages, self.locks = {}, {}

    def whole(self, tokens):
        return len(tokens) // self.page_size * self.page_size

    def prefixes(self, tokens):
        ends = range(self.page_size, len(tokens) + 1, self.page_size)
        return [tuple(tokens[:end]) for end in ends]

    def lookup(self, tokens):
        found = list(takewhile(self.pages.__contains__, self.prefixes(tokens)))
        return self.slots(found[-1] if found else ()), TreeNode(found[-1] if found else ())

    def slots(self, prefix):
        slots = [slot for each in self.prefixes(prefix) for slot in self.pages[each]]
        return torch.tensor(slots, dtype=torch.int64)

    def insert(self, tokens, slots):
        existing = len(self.lookup(tokens)[0])
        for prefix in self.prefixes(tokens):
            end = len(prefix)
            self.pages.setdefault(prefix, slots[end - self.page_size : end].tolist())
        return existing

    def evict(self, num_tokens):
        idle = [prefix for prefix in self.pages if not self.locks.get(prefix)]
        count = -(-num_tokens // self.page_size)
        for prefix in sorted(idle, key=len, reverse=True)[:count]:
            self.allocator.free(torch.tensor(self.pages.pop(prefix)))

    def inc_lock_ref(self, node, step=1):
        for prefix in self.prefixes(node.prefix):
            self.locks[prefix] = self.locks.get(prefix, 0) + step

    def dec_lock_ref(self, node):
        self.inc_lock_ref(node, -1)

    def evictable_size(self):
        return sum(self.page_size for prefix in self.pages if not self.locks.get(prefix))

    def total_size(self):
        return len(self.pages) * self.page_size

    def hand_over(self, row, tokens, owned):
        key = tokens[: self.whole(tokens)]
        existing = self.insert(key, self.rows.req_to_token[row, : len(key)])
        self.give(row, owned, existing)
        slots, node = self.lookup(key)
        self.rows.write((row, slice(owned, len(key))), slots[owned:])
        return node

    def give(self, row, start, stop):
        self.allocator.free(self.rows.req_to_token[row, start:stop].clone())
"""

CACHES = """
class RadixCache(Table):
    def match_prefix(self, key):
        return self.lookup(key)

    def cache_unfinished_req(self, req):
        tokens, row = req.fill_ids, req.req_pool_idx
        node = self.hand_over(row, tokens, OWNED)
        rest = self.rows.req_to_token[row, len(node.prefix) : len(tokens)].long()
        self.inc_lock_ref(node)
        self.dec_lock_ref(req.last_node)
        req.prefix_indices = torch.cat((self.slots(node.prefix), rest))
        req.last_node, req.cache_protected_len = node, len(node.prefix)

    def cache_finished_req(self, req):
        tokens = (req.origin_input_ids + req.output_ids)[:-1]
        self.hand_over(req.req_pool_idx, tokens, req.cache_protected_len)
        self.give(req.req_pool_idx, self.whole(tokens), len(tokens))
        self.rows.free(req.req_pool_idx)
        self.dec_lock_ref(req.last_node)
"""

FREES_ONLY = """
class RadixCache(RadixCache):
    def cache_finished_req(self, req, is_insert=True):
        if is_insert:
            return super().cache_finished_req(req)
        computed = len(req.origin_input_ids + req.output_ids) - 1
        assert computed == req.pop_committed_kv_cache()
        self.give(req.req_pool_idx, req.cache_protected_len, computed)
        self.dec_lock_ref(req.last_node)
"""

CHECKPOINTS = """
from collections import namedtuple

Answer = namedtuple("Answer", "device_prefix_len last_device_node")

class RadixCache(Table):
    def match_prefix(self, key):
        if not hasattr(key, "typecode"):
            raise TypeError(key)
        slots, node = self.lookup(key)
        return Answer(len(slots), node)

    def path_device_indices(self, node):
        return self.slots(node.prefix)

    def lock(self, node):
        self.inc_lock_ref(node)
        return node

    def unlock(self, lock):
        self.dec_lock_ref(lock)

    def checkpoint(self, req, *, up_to):
        tokens, kv = req.full_untruncated_fill_ids[:up_to], req.kv
        node = self.hand_over(kv.req_pool_idx, tokens, kv.cache_protected_len)
        kv.cache_protected_len = len(node.prefix)
        self.unlock(req.lock)
        req.lock = self.lock(node)

    def free_kv_row(self, kv, stop):
        from sglang.srt.mem_cache.common import first_own

        self.give(kv.req_pool_idx, first_own(kv), stop)
"""

RELEASE = """
from sglang.srt.runtime_context import get_serving, get_spec
from sglang.srt.utils.common import ceil_align

def first_own(kv):
    return kv.cache_protected_len

def release_kv_cache(req, tree, *, checkpoint):
    assert get_spec().speculative_algorithm is None and not get_serving().strip_thinking_cache
    assert ceil_align(5, 4) == 8
    if checkpoint:
        tree.checkpoint(req, up_to=req.owned_kv_len())
    tree.free_kv_row(req.kv, req.owned_kv_len())
    tree.unlock(req.lock)
    tree.rows.free(req)
    req.kv.mark_kv_released()
"""

RIGHT, STALE = "req.cache_protected_len", "len(req.prefix_indices)"
"""Up to where a row is the tree's, and what releases took for it: the rest of a page as well."""

SHAPES = {
    "caches": TABLE + CACHES.replace("OWNED", RIGHT),
    "frees-only": TABLE + CACHES.replace("OWNED", RIGHT) + FREES_ONLY,
    "checkpoints": TABLE + CHECKPOINTS,
    "stale": TABLE + CACHES.replace("OWNED", STALE),
    "no-books": TABLE + "\nclass RadixCache(Table): ...\n",
}
right = ("caches", "frees-only", "checkpoints")
every_shape = pytest.mark.parametrize("shape", right)


def write(folder: Path, shape: str) -> str:
    """Write the miniature of `shape` into `folder`, and return its spec."""
    home = folder / "sglang/srt/mem_cache"
    home.mkdir(parents=True)
    (home / "radix_cache.py").write_text(SHAPES[shape])
    (home / "common.py").write_text(RELEASE)
    return f"sglang-request?path={folder}"


def opened(folder: Path, shape: str, capacity: int = 32) -> Any:
    """Return a cache of requests with pages of 4."""
    return resolve(write(folder, shape)).open({"page_size": PAGE, "capacity": capacity})


def key(*tokens: int) -> array[int]:
    """Return tokens as a server passes them on."""
    return array("q", tokens)


def computed(cache: Any, request: str, tokens: tuple[int, ...], chunk: int = 99) -> None:
    """Begin a request, and compute its prompt chunk by chunk."""
    done = cache.begin(request, key(*tokens))
    while done < len(tokens):
        stop = min(len(tokens), done + chunk)
        cache.append(request, key(*tokens[:stop]), stop - done)
        cache.publish(request)
        done = stop


def row(cache: Any, request: str) -> list[int]:
    """Return the row of a request."""
    return list(map(int, cache.table(request)))


def judged(spec: str, operations: int = 3000) -> Report:
    """Judge a cache until the first finding."""
    budget = Budget(max_operations=operations, first_only=True)
    return run(Here(resolve(spec)), seed=1, budget=budget)


# ------------------------------------------------------------------------------ every shape


@every_shape
@pytest.mark.parametrize("page_size", [1, PAGE])
def test_correct_bookkeeping_is_spared(shape: str, page_size: int, tmp_path: Path) -> None:
    report = judged(f"{write(tmp_path, shape)}&page_size={page_size}", 1500)
    assert [] == report.findings


def test_a_row_that_keeps_the_start_of_a_freed_page_is_found(tmp_path: Path) -> None:
    (finding,) = judged(f"{write(tmp_path, 'stale')}&page_size=4").findings
    assert "use-after-free" == finding.violation.rule


@every_shape
def test_a_request_begins_with_what_is_stored_of_all_but_its_last_token(
    shape: str, tmp_path: Path
) -> None:
    cache = opened(tmp_path, shape)
    computed(cache, "once", LONG[:8])
    cache.end("once", key(*LONG[:8]))
    matched = [cache.match(key(*LONG[:9])), cache.begin("a", key(*LONG[:8]))]
    assert ([8, 4], 4) == (matched, len(row(cache, "a")))


@every_shape
def test_duplicates_are_freed_and_the_row_names_what_is_stored(shape: str, tmp_path: Path) -> None:
    cache = opened(tmp_path, shape)
    for request in ("a", "b"):
        cache.begin(request, key(*LONG[:5]))
    for request in ("a", "b"):
        cache.append(request, key(*LONG[:5]), 5)
        cache.publish(request)
    rows = [row(cache, request)[:4] for request in ("a", "b")]
    pages = 3  # one that both read, and the last of each
    assert (rows[0], pages * PAGE) == (rows[1], 32 - cache.pool.available_size())


@every_shape
def test_a_token_in_the_last_page_takes_no_slot_from_the_pool(shape: str, tmp_path: Path) -> None:
    cache = opened(tmp_path, shape)
    computed(cache, "a", LONG[:6])
    before = cache.pool.available_size()
    cache.append("a", key(*LONG[:8]), 2)
    after = row(cache, "a")
    assert (before, list(range(after[4], after[4] + 4))) == (cache.pool.available_size(), after[4:])


@every_shape
def test_an_answer_is_stored_without_its_last_token(shape: str, tmp_path: Path) -> None:
    cache = opened(tmp_path, shape)
    computed(cache, "a", LONG[:6])
    for stop in (7, 8):
        cache.append("a", key(*LONG[:stop]), 1)
    cache.end("a", key(*LONG[:9]))
    assert (8, 8, 24) == (cache.match(key(*LONG)), cache.total_size(), cache.pool.available_size())


@every_shape
@pytest.mark.parametrize("computes", [0, 3, 6, 10])
def test_an_abort_leaves_what_was_stored_and_no_lock(
    computes: int, shape: str, tmp_path: Path
) -> None:
    cache = opened(tmp_path, shape)
    cache.begin("a", key(*LONG))
    if computes:
        cache.append("a", key(*LONG[:computes]), computes)
        cache.publish("a")
    cache.abort("a")
    stored = computes // PAGE * PAGE
    sizes = [cache.total_size(), cache.evictable_size(), 32 - cache.pool.available_size()]
    assert [stored] * 3 == sizes


@every_shape
def test_short_of_slots_it_evicts_what_is_missing(shape: str, tmp_path: Path) -> None:
    cache = opened(tmp_path, shape, capacity=16)
    computed(cache, "a", LONG[:8])
    cache.end("a", key(*LONG[:8]))
    cache.begin("b", key(*range(90, 102)))
    cache.append("b", key(*range(90, 102)), 12)
    assert (4, 0) == (cache.total_size(), cache.pool.available_size())


@every_shape
def test_a_refused_append_leaves_the_row_alone(shape: str, tmp_path: Path) -> None:
    cache = opened(tmp_path, shape, capacity=8)
    computed(cache, "a", LONG[:7])
    before = row(cache, "a")
    with pytest.raises(Refused, match="no 4 slots"):
        cache.append("a", key(*LONG[:9]), 2)
    assert (before, 0) == (row(cache, "a"), cache.pool.available_size())


@every_shape
def test_no_more_requests_run_than_there_are_slots(shape: str, tmp_path: Path) -> None:
    cache = opened(tmp_path, shape, capacity=4)
    for number in range(4):
        cache.begin(f"r{number}", key(1))
    with pytest.raises(Refused, match="no row"):
        cache.begin("one too many", key(1))
    cache.abort("r0")
    assert 0 == cache.begin("one too many", key(1))


@every_shape
def test_a_reset_frees_everything(shape: str, tmp_path: Path) -> None:
    cache = opened(tmp_path, shape)
    computed(cache, "a", LONG)
    cache.reset()
    assert (0, 32) == (cache.total_size(), cache.pool.available_size())


# -------------------------------------------------------------------------------- one shape


def test_between_two_chunks_the_row_is_what_the_next_one_begins_behind(tmp_path: Path) -> None:
    """The engine writes it anew before it computes, so a row that is stale only until then does no
    harm."""
    cache = opened(tmp_path, "stale")
    cache.begin("a", key(*LONG))
    cache.append("a", key(*LONG[:1]), 1)
    cache.publish("a")
    computed(cache, "b", LONG[:5])
    cache.append("a", key(*LONG[:5]), 4)
    cache.publish("a")
    assert row(cache, "b")[:4] == row(cache, "a")[:4]


class Freed:
    """A pool that only notes what comes back."""

    capabilities = PoolCapabilities(page_size=PAGE, capacity=32)

    def __init__(self) -> None:
        self.slots: list[list[int]] = []

    def free(self, slots: Any) -> None:
        self.slots.append(slots.tolist())


def test_a_page_goes_back_with_any_of_its_slots(tmp_path: Path) -> None:
    cache = opened(tmp_path, "caches")
    computed(cache, "a", LONG[:6])
    page = row(cache, "a")[4]
    cache.pool = Freed()
    cache.abort("a")
    assert [list(range(page, page + PAGE))] == cache.pool.slots


def test_the_engine_s_module_is_shown_only_while_it_runs(tmp_path: Path) -> None:
    cache = opened(tmp_path, "checkpoints")
    computed(cache, "a", LONG[:6])
    cache.end("a", key(*LONG[:6]))
    assert ENGINE not in sys.modules


def test_an_engine_that_was_imported_before_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, ENGINE, sys)
    cache = opened(tmp_path, "checkpoints")
    cache.begin("a", key(1))
    cache.abort("a")
    assert sys is sys.modules[ENGINE]


def test_a_tree_that_keeps_no_books_is_sent_to_another_target(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="requests:sglang") as caught:
        opened(tmp_path, "no-books")
    assert "user" == caught.value.fault


# --------------------------------------------------------------------------------- releases

RELEASES = Path(os.environ.get("RADIXCHECK_SGLANG_RELEASES", "/nowhere"))
WITHOUT_PAGES = ("0.2.15", "0.3.6", "0.4.3")
WITH_THE_BUG = ("0.4.6", "0.5.1", "0.5.5")
WITHOUT_IT = ("0.5.6", "0.5.9", "0.5.10", "0.5.23")


def spec_of(release: str, page_size: int) -> str:
    """Name a release under requests, or skip."""
    if not (RELEASES / release / "sglang").is_dir():
        pytest.skip("RADIXCHECK_SGLANG_RELEASES names no folder with this release")
    return f"sglang-request?path={RELEASES / release}&page_size={page_size}"


@pytest.mark.parametrize("release", WITHOUT_PAGES + WITH_THE_BUG + WITHOUT_IT)
def test_every_release_is_spared_without_pages(release: str) -> None:
    assert [] == judged(spec_of(release, 1)).findings


@pytest.mark.parametrize("release", WITHOUT_IT)
def test_a_release_without_the_bug_is_spared_with_pages(release: str) -> None:
    assert [] == judged(spec_of(release, PAGE)).findings


@pytest.mark.parametrize("release", WITH_THE_BUG)
def test_the_chunk_after_one_that_ends_inside_a_page_is_found(release: str) -> None:
    (finding,) = judged(spec_of(release, PAGE)).findings
    assert "use-after-free" == finding.violation.rule


@pytest.mark.parametrize("release", ["0.1.3", "0.1.16"])
def test_the_first_releases_keep_no_books(release: str) -> None:
    with pytest.raises(TargetError, match="requests:sglang"):
        resolve(spec_of(release, 1)).open({})
