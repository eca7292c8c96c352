"""SGLang's classic tree with its own bookkeeping of requests, as released in 0.2.15 to 0.5.10 and
in 0.5.23.

``sglang-request`` drives the installed SGLang, ``sglang-request?path=DIR`` the one in an unpacked
wheel. The release stores what is computed, frees duplicates, rewrites rows and moves locks. What
its scheduler does around that is done here: the match, and the slots for the next tokens::

    row  [0 ............. computed ............ end of page ................ )
          lent, or its own        places of its last page   pages from the pool
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from msgspec.structs import replace

from radixcheck.protocol import Match, Pool, Refused, Slots, Supports
from radixcheck.targets.pools.tensors import PoolTorch
from radixcheck.targets.sglang import SGLang, changed, eras, refuse_what_it_lacks
from radixcheck.targets.sglang.bookkeeping import PoolAsAllocator, Rows, bookkeeping
from radixcheck.targets.sglang.release import Release, open_release

CAPACITIES = (8, 16, 64, 512)
"""Slots of the pools that a run sweeps: requests must get into each other's way."""


class SGLangRequests:
    """Requests on one `RadixCache` of one release, over a pool of radixcheck's own.

    Args:
        capacity: slots of the pool, at least one page. As many requests may run at once.

    Raises:
        ImportError: there is no SGLang, it cannot be imported or driven, or it is of a version that
            was never tried and `untested` is false.
        ValueError: this release has no such policy, no pages, or keeps no books of requests.
    """

    evictable_size: Callable[[], int]
    total_size: Callable[[], int]

    def __init__(
        self,
        path: str | None = None,
        *,
        page_size: int = 1,
        capacity: int = 64,
        eviction: str = "lru",
        clock: Callable[[], float] | None = None,
        untested: bool = False,
    ) -> None:
        release = open_release(path, untested)
        tree = release.tree(clock)
        refuse_what_it_lacks(release, tree, page_size, eviction)
        _refuse_without_books(release, tree)
        capacity = max(capacity, page_size)
        self._torch = importlib.import_module("torch")
        self.pool: Pool = PoolTorch(page_size, capacity)
        self._rows = Rows(capacity, capacity)
        self._running: dict[str, Any] = {}
        settings = {"page_size": page_size, "eviction_policy": eviction, "disable": False}
        try:
            cache = self._bind(release, tree, settings)
            promises = eras.promises(tree, cache, page_size, eviction, clock is None)
        except (AttributeError, TypeError) as error:
            raise ImportError(changed(release, error)) from error
        self.capabilities = replace(promises, disable="absent")

    def _bind(self, release: Release, tree: ModuleType, settings: dict[str, Any]) -> eras.Cache:
        """Build the release's cache, and decide once how each call is made."""
        allocator = PoolAsAllocator(settings["page_size"], lambda: self.pool)
        pools = {"req_to_token_pool": self._rows}
        cache = eras.build(tree, settings | pools, allocator)
        self._books = bookkeeping(release.directory, cache, self._rows, allocator)
        self._key, self._find = eras.key_maker(tree), eras.matcher(tree, cache)
        self._evict = eras.evicter(tree, cache, allocator)
        self._reset = cache.reset
        self.evictable_size, self.total_size = cache.evictable_size, eras.total_size(cache)
        return cache

    @staticmethod
    def supports(path: str | None = None, untested: bool = False) -> Supports:
        """Answer the page sizes and pools that a run sweeps."""
        return {**SGLang.supports(path, untested), "capacity": CAPACITIES}

    # ---- what a request does -------------------------------------------------------------

    def match(self, tokens: Sequence[int], namespace: tuple[str, ...] = ()) -> int:
        """Count what is stored of `tokens`, the last of which is computed in any case."""
        return self._match(tokens, namespace).length

    def begin(self, request: str, tokens: Sequence[int], namespace: tuple[str, ...] = ()) -> int:
        """Match and lock all of `tokens` but the last; return how many need not be computed.

        Raises:
            Refused: too many requests are running.
        """
        found = self._match(tokens, namespace)
        row = self._rows.take(request)
        extra_key = namespace[0] if namespace else None
        self._running[request] = self._books.begin(row, tokens, extra_key, found)
        return found.length

    def append(self, request: str, tokens: Sequence[int], num_tokens: int) -> None:
        """Take slots for the next `num_tokens` of `tokens`.

        Raises:
            Refused: the pool has too few, after an eviction too.
        """
        running = self._running[request]
        slots = self._next_slots(self._books.row(running), num_tokens)
        self._books.add(running, tokens, slots)

    def publish(self, request: str) -> None:
        """Let the release store what is computed of a prompt."""
        self._books.publish(self._running[request])

    def table(self, request: str) -> Slots:
        """Return one slot per token computed so far."""
        return self._books.row(self._running[request])

    def end(self, request: str, tokens: Sequence[int]) -> None:
        """Let the release store all that is computed, and let the request go."""
        self._leave(request, self._books.end)

    def abort(self, request: str) -> None:
        """Let the release let the request go."""
        self._leave(request, self._books.abort)

    # ---- what a cache does ---------------------------------------------------------------

    def evict(self, num_tokens: int) -> None:
        """Evict from the tree; what comes of it goes to the pool."""
        self._evict(num_tokens)

    def reset(self) -> None:
        """Forget every request and the tree, and free all that they hold."""
        self._running.clear()
        self._reset()
        self._rows.reset()
        self.pool.reset()

    # ---- what a scheduler does -----------------------------------------------------------

    def _match(self, tokens: Sequence[int], namespace: tuple[str, ...]) -> Match:
        return self._find(self._key(self._books.buffer(tokens[:-1]), namespace))

    def _next_slots(self, row: Slots, num_tokens: int) -> Slots:
        """Return the places that are left in the last page of a row, and after them new ones."""
        size = self.capabilities.page_size
        places = min(-len(row) % size, num_tokens)
        last = int(row[-1]) if places else 0
        slots = self._torch.arange(last + 1, last + 1 + places)
        if places == num_tokens:
            return slots
        pages = -(-(num_tokens - places) // size)
        return self._torch.cat((slots, self._take(pages * size)))[:num_tokens]

    def _take(self, num_tokens: int) -> Slots:
        slots = self._alloc(num_tokens)
        if slots is None and (shortfall := num_tokens - self.pool.available_size()) > 0:
            self._evict(shortfall)
            slots = self._alloc(num_tokens)
        if slots is None:
            raise Refused(f"no {num_tokens} slots, and nothing to evict for them")
        return slots

    def _alloc(self, num_tokens: int) -> Slots | None:
        try:
            return self.pool.alloc(num_tokens)
        except Refused:
            return None

    def _leave(self, request: str, how: Callable[[Any], None]) -> None:
        how(self._running.pop(request))
        self._rows.give_back(request)


def _refuse_without_books(release: Release, tree: ModuleType) -> None:
    if not any(hasattr(tree.RadixCache, name) for name in ("checkpoint", "cache_unfinished_req")):
        raise ValueError(
            f"{release} leaves the books of requests to its scheduler: "
            f"judge its tree with requests:sglang?path={release.directory}"
        )


sglang_request = SGLangRequests
