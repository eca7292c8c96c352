"""How releases differ in the bookkeeping of requests, seen by what a release has.

A release is told of each request by an object of its engine's, of which it reads and writes a few
fields, and it finds the slots in a row of a shared table. Both are built here. Two shapes exist::

    0.2.15 to 0.5.10   `cache_unfinished_req(req)` between the chunks of a prompt and behind it,
                       `cache_finished_req(req)` at the end
    0.5.23             `checkpoint(req, up_to=)`, and `release_kv_cache(req, tree, checkpoint=)` of
                       a module beside the tree

What a release frees goes through `PoolAsAllocator` to the pool under the cache of requests, so that
radixcheck sees it.
"""

from __future__ import annotations

import importlib
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from inspect import signature
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Protocol, TypeAlias

from radixcheck.protocol import Match, Pool, Refused, Slots
from radixcheck.targets.sglang.eras import Cache
from radixcheck.targets.sglang.release import Imports
from radixcheck.targets.sglang.trees import NEIGHBOURS

ENGINE = "sglang.srt.mem_cache.common"
"""Where a release keeps what its engine does with a tree and its pools."""

SAMPLED = 0
"""Stands for the token that a request sampled last: it has no KV, and is never stored."""

Row: TypeAlias = int
Tokens: TypeAlias = Sequence[int]


class Rows:
    """The table of rows: of each request, in the order of its tokens, the slots.

    Args:
        count: requests that can run at once.
        width: tokens that each can have.
    """

    def __init__(self, count: int, width: int) -> None:
        torch = importlib.import_module("torch")
        self.req_to_token = torch.zeros((count, width), dtype=torch.int32)
        self.reset()

    def write(self, where: tuple[Row, slice], slots: Slots) -> None:
        """Let a part of a row name `slots`."""
        self.req_to_token[where] = slots

    def free(self, _request: object) -> None:
        """A release says that a row is free; who took it gives it back in any case."""

    def take(self, request: str) -> Row:
        """Find a row for `request`.

        Raises:
            Refused: all are taken.
        """
        if not self._free:
            raise Refused("no row is free for one more request")
        self._taken[request] = row = self._free.pop()
        return row

    def give_back(self, request: str) -> None:
        """Take the row of `request` back."""
        self._free.append(self._taken.pop(request))

    def reset(self) -> None:
        """Take every row back."""
        self._free = list(range(len(self.req_to_token)))
        self._taken: dict[str, Row] = {}


class PoolAsAllocator:
    """What a release takes for the owner of all slots.

    As the allocators of releases do, it takes a page back with any of its slots.

    Args:
        find_pool: answers the pool that the slots go to.
    """

    device = "cpu"

    def __init__(self, page_size: int, find_pool: Callable[[], Pool]) -> None:
        self.page_size = page_size
        self._find_pool = find_pool
        self._torch = importlib.import_module("torch")

    def free(self, slots: Slots) -> int:
        """Give slots back; answer how many, which the first releases add up."""
        if len(slots):
            self._find_pool().free(self._whole_pages(slots.long()))
        return len(slots)

    def free_segment(self, slots: Slots, start_pos: int = 0) -> None:
        """Give back a part of a row that begins at token `start_pos`."""
        self.free(slots)

    def free_segments(self, segments: Iterable[tuple[Slots, int]]) -> None:
        """Give back parts of a row, no two of which share a page."""
        for slots, _start in segments:
            self.free(slots)

    def _whole_pages(self, slots: Any) -> Any:
        if self.page_size == 1:
            return slots
        pages = self._torch.unique(slots // self.page_size)
        return (pages[:, None] * self.page_size + self._torch.arange(self.page_size)).flatten()


class Bookkeeping(Protocol):
    """What is done with a release for each request; `bookkeeping` has the right one."""

    @staticmethod
    def buffer(tokens: Tokens) -> Tokens:
        """Return `tokens` in the type in which the engine of the release keeps them."""
        ...

    def begin(self, row: Row, tokens: Tokens, namespace: str | None, found: Match) -> Any:
        """Lock what was found of a prompt; return the object that stands for the request."""
        ...

    def add(self, request: Any, tokens: Tokens, slots: Slots) -> None:
        """The last of `tokens`, which are all so far, are computed into `slots`."""
        ...

    def publish(self, request: Any) -> None:
        """Let the release store what is computed."""
        ...

    def row(self, request: Any) -> Slots:
        """Return the slots that the request goes on with, one per token computed so far."""
        ...

    def end(self, request: Any) -> None:
        """Let the release store what is computed, free the rest, and unlock."""
        ...

    def abort(self, request: Any) -> None:
        """Let the release free what is the request's own, and unlock."""
        ...


def bookkeeping(
    directory: Path, cache: Cache, rows: Rows, allocator: PoolAsAllocator
) -> Bookkeeping:
    """Choose by what the `cache` of the release in `directory` has."""
    if hasattr(cache, "checkpoint"):
        return Checkpoints(cache, rows, _engine_in(directory))
    return CachesRequests(cache, rows, allocator)


# ------------------------------------------------------------------------------ 0.2.15 to 0.5.10


class CachedRequest:
    """A request as `cache_unfinished_req` and `cache_finished_req` see it.

    ::

        req_pool_idx         its row
        origin_input_ids     its prompt
        output_ids           its answer, the last token of which has no KV
        fill_ids             its prompt, up to the end of the last chunk
        prefix_indices       the slots that its next chunk begins behind
        last_node            what it locks
        extra_key            its namespace, from 0.5.3 on
        cache_protected_len  the tokens whose slots are the tree's, from 0.5.6 on
        kv_committed_len     the tokens computed, which a method tells, from 0.5.6 on
    """

    def __init__(self, row: Row, tokens: Tokens, namespace: str | None, found: Match) -> None:
        self.req_pool_idx = row
        self.origin_input_ids, self.fill_ids = list(tokens), list(tokens)
        self.output_ids = [SAMPLED]
        self.prefix_indices, self.last_node = found.slots, found.handle
        self.extra_key = namespace
        self.cache_protected_len = self.kv_committed_len = found.length

    def pop_committed_kv_cache(self) -> int:
        """Count the tokens that are computed."""
        return self.kv_committed_len


class CachesRequests:
    """Drives a release that is told of requests that go on, and of those that are done."""

    @staticmethod
    def buffer(tokens: Tokens) -> list[int]:
        """Return a list: some releases never find two types of buffers equal."""
        return list(tokens)

    def __init__(self, cache: Cache, rows: Rows, allocator: PoolAsAllocator) -> None:
        self._cache, self._rows, self._allocator = cache, rows, allocator
        self._lock, self._unlock = cache.inc_lock_ref, cache.dec_lock_ref
        self._may_store_nothing = "is_insert" in signature(cache.cache_finished_req).parameters

    def begin(self, row: Row, tokens: Tokens, namespace: str | None, found: Match) -> CachedRequest:
        """Lock what was found."""
        self._lock(found.handle)
        return CachedRequest(row, tokens, namespace, found)

    def add(self, request: CachedRequest, tokens: Tokens, slots: Slots) -> None:
        """Write slots into the row; those that a chunk begins behind are written again."""
        start, row = request.kv_committed_len, request.req_pool_idx
        if start < len(request.origin_input_ids):
            known = request.prefix_indices
            if len(known):
                self._rows.write((row, slice(len(known))), known)
            request.fill_ids = list(tokens)
        else:
            request.output_ids[-1:] = [*tokens[start:], SAMPLED]
        self._rows.write((row, slice(start, len(tokens))), slots)
        request.kv_committed_len = len(tokens)

    def publish(self, request: CachedRequest) -> None:
        """Let the release store a chunk."""
        self._cache.cache_unfinished_req(request)

    def row(self, request: CachedRequest) -> Slots:
        """Between two chunks it is not the row that counts, but what `add` writes into it next."""
        known, computed = request.prefix_indices, request.kv_committed_len
        if len(known) == computed < len(request.origin_input_ids):
            return known
        return self._rows.req_to_token[request.req_pool_idx, :computed]

    def end(self, request: CachedRequest) -> None:
        """Let the release store all that is computed."""
        self._cache.cache_finished_req(request)

    def abort(self, request: CachedRequest) -> None:
        """Let the release store nothing; before it could, its engine freed and unlocked itself."""
        if self._may_store_nothing:
            del request.origin_input_ids[request.kv_committed_len :]
            self._cache.cache_finished_req(request, is_insert=False)
        else:
            size = self._allocator.page_size
            start = len(request.prefix_indices) // size * size
            row = self._rows.req_to_token[request.req_pool_idx]
            self._allocator.free(row[start : request.kv_committed_len])
            self._unlock(request.last_node)


# ---------------------------------------------------------------------------------------- 0.5.23


class Record:
    """What a `CheckpointedRequest` holds of the pools. Nothing of it slides out of a window."""

    cache_inserted_len = 0
    swa_evict_floor = 0
    holds_kv = True
    is_kv_released = False

    def __init__(self, row: Row, matched: int) -> None:
        self.req_pool_idx = row
        self.cache_protected_len = self.kv_committed_len = self.kv_allocated_len = matched

    def get_evicted_seqlen(self, _component: object) -> int:
        """Count the tokens whose slots slid out of a window."""
        return 0

    def swa_dead_lo(self, _page_size: int) -> int:
        """Return the first token whose slot might."""
        return self.cache_protected_len

    def mark_kv_released(self) -> None:
        """Note that it holds nothing any more."""
        self.holds_kv, self.is_kv_released = False, True


class CheckpointedRequest:
    """A request as `checkpoint` and `release_kv_cache` see it."""

    cache_salt = None
    priority = 0
    skip_radix_cache_insert = False

    def __init__(
        self, row: Row, tokens: Tokens, namespace: str | None, found: Match, lock: Any
    ) -> None:
        self.kv = Record(row, found.length)
        self.origin_input_ids = array("q", tokens)
        self.full_untruncated_fill_ids = array("q", tokens)
        self.extra_key = namespace
        self.lock = lock

    def owned_kv_len(self) -> int:
        """Count the tokens that are computed."""
        return self.kv.kv_committed_len

    def refresh_fill_ids(self) -> None:
        """They are fresh."""

    def finished(self) -> bool:
        """Tell that it is done, which is asked only when it is."""
        return True


class Checkpoints:
    """Drives a release that is told how far to store a request, and to release it."""

    @staticmethod
    def buffer(tokens: Tokens) -> array[int]:
        """Return an array, which is all that a key may be made of."""
        return array("q", tokens)

    def __init__(self, cache: Cache, rows: Rows, engine: ModuleType) -> None:
        self._cache, self._rows, self._engine = cache, rows, engine

    def begin(
        self, row: Row, tokens: Tokens, namespace: str | None, found: Match
    ) -> CheckpointedRequest:
        """Lock what was found, and write its slots into the row."""
        self._rows.write((row, slice(found.length)), found.slots)
        lock = self._cache.lock(found.handle)
        return CheckpointedRequest(row, tokens, namespace, found, lock)

    def add(self, request: CheckpointedRequest, tokens: Tokens, slots: Slots) -> None:
        """Write slots into the row."""
        kv = request.kv
        self._rows.write((kv.req_pool_idx, slice(kv.kv_committed_len, len(tokens))), slots)
        if kv.kv_committed_len >= len(request.origin_input_ids):
            request.full_untruncated_fill_ids.extend(tokens[kv.kv_committed_len :])
        kv.kv_committed_len = kv.kv_allocated_len = len(tokens)

    def publish(self, request: CheckpointedRequest) -> None:
        """Let the release store a chunk."""
        self._cache.checkpoint(request, up_to=request.kv.kv_committed_len)

    def row(self, request: CheckpointedRequest) -> Slots:
        """Return the row."""
        kv = request.kv
        return self._rows.req_to_token[kv.req_pool_idx, : kv.kv_committed_len]

    def end(self, request: CheckpointedRequest) -> None:
        """Let the release store all that is computed, and free the rest."""
        self._release(request, checkpoint=True)

    def abort(self, request: CheckpointedRequest) -> None:
        """Let the release free what is the request's own."""
        self._release(request, checkpoint=False)

    def _release(self, request: CheckpointedRequest, *, checkpoint: bool) -> None:
        with _importable(self._engine):
            self._engine.release_kv_cache(request, self._cache, checkpoint=checkpoint)


@lru_cache
def _engine_in(directory: Path) -> ModuleType:
    """Import what the engine of a release does at the end of a request, with default settings.

    What it asks of modules that are left out is answered here: nothing is speculated, nothing is
    stripped off, and a length is rounded up to pages.
    """
    imports = Imports(directory, NEIGHBOURS | {ENGINE})
    with imports.running():
        engine = importlib.import_module(ENGINE)
    vars(engine).update(
        get_spec=lambda: SimpleNamespace(speculative_algorithm=None),
        get_serving=lambda: SimpleNamespace(strip_thinking_cache=False),
        ceil_align=lambda length, size: -(-length // size) * size,
    )
    return engine


@contextmanager
def _importable(engine: ModuleType) -> Iterator[None]:
    """Show `engine` to the tree, which imports it while it is called."""
    hidden = sys.modules.get(ENGINE)
    sys.modules[ENGINE] = engine
    try:
        yield
    finally:
        del sys.modules[ENGINE]
        if hidden is not None:
            sys.modules[ENGINE] = hidden
