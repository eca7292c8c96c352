"""SGLang's pools as released in 0.5.5 to 0.5.10 and in 0.5.23: one slot per token, or pages.

``sglang-pool`` drives the installed SGLang, ``sglang-pool?path=DIR`` the one in an unpacked wheel.
Only the allocators are imported; the KV buffer that they belong to is left out.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

from radixcheck.capabilities import PoolCapabilities
from radixcheck.protocol import Slots, Supports
from radixcheck.targets.sglang.release import Imports, open_release

_BESIDE = "sglang.srt.mem_cache."
MODULES = ("allocator.base", "allocator.token", "allocator.paged", "allocator")
"""Where releases keep their pools: in a package from 0.5.23 on, in one module before."""


class SGLangPool:
    """One allocator of one release.

    A page is taken back with any of its slots, so only whole pages may be freed. What nobody holds
    is taken back as well: nothing is promised about misuse.

    Args:
        need_sort: leave freed pages aside, and sort them in when an alloc runs short.

    Raises:
        ImportError: there is no SGLang, or its pools cannot be imported or driven.
        ValueError: the capacity is below a page.
    """

    supports: ClassVar[Supports] = {
        "page_size": [1, 4, 16],
        "capacity": [64, 512],
        "need_sort": [False, True],
    }
    alloc: Callable[[int], Slots | None]
    free: Callable[[Slots], None]
    available_size: Callable[[], int]
    reset: Callable[[], None]

    def __init__(
        self,
        path: str | None = None,
        *,
        page_size: int = 1,
        capacity: int = 64,
        device: str = "cpu",
        need_sort: bool = False,
        untested: bool = False,
    ) -> None:
        if capacity < page_size:
            raise ValueError(f"capacity={capacity}: a page has {page_size} slots")
        allocators = _allocators_in(open_release(path, untested).directory)
        pool = allocators.make(capacity, page_size, device, need_sort)
        self.alloc, self.free = pool.alloc, pool.free
        self.available_size, self.reset = pool.available_size, pool.clear
        self.capabilities = PoolCapabilities(
            page_size=page_size,
            capacity=capacity // page_size * page_size,
            reserved=page_size,
            deterministic=True,
            slots_as="torch",
            device=device,
        )


class Allocators:
    """The pools of the release in one folder.

    Raises:
        ImportError: it keeps none where releases do, or they need what is not installed.
    """

    def __init__(self, directory: Path) -> None:
        self._imports = Imports(directory, frozenset(_BESIDE + name for name in MODULES))
        homes = [name for name in MODULES if self._imports.file(_BESIDE + name)]
        if not homes:
            raise ImportError(f"SGLang in {directory} keeps its pools where radixcheck knows none")
        self._torch = importlib.import_module("torch")
        with self._imports.running():
            modules = [importlib.import_module(_BESIDE + name) for name in homes]
        known = {name: each for module in modules for name, each in vars(module).items()}
        self._by_token = known["TokenToKVPoolAllocator"]
        self._by_page = known["PagedTokenToKVPoolAllocator"]

    def make(self, capacity: int, page_size: int, device: str, need_sort: bool) -> Any:
        """Build a pool without a KV buffer."""
        sizes = (capacity,) if page_size == 1 else (capacity, page_size)
        kind = self._by_token if page_size == 1 else self._by_page
        with self._imports.running():
            return kind(*sizes, self._torch.int64, device, None, need_sort)


_allocators_in = lru_cache(maxsize=None)(Allocators)

sglang_pool = SGLangPool
