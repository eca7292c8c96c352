"""Whether a cache of requests is what it says: its capabilities against its configuration, its
methods and its pool."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from radixcheck import pools
from radixcheck.capabilities import PoolCapabilities
from radixcheck.promises import Unkept
from radixcheck.protocol import Pool, RequestCache

METHODS = """begin append publish table end abort match retract evict reset evictable_size
total_size""".split()
"""What a cache is called with, where it has it."""


def unkept(cache: RequestCache, config: Mapping[str, Any]) -> Iterator[Unkept]:
    """Yield what does not fit together about a cache that was opened with `config`."""
    wanted, told = config.get("page_size"), cache.capabilities.page_size
    if wanted is not None and wanted != told:
        seen = f"the factory got page_size={wanted}, the capabilities say {told}"
        yield Unkept(seen, "capability", "pass it on: Capabilities(page_size=page_size, ...)")
    pool: Any = getattr(cache, "pool", None)
    if not isinstance(getattr(pool, "capabilities", None), PoolCapabilities):
        seen = "the cache has no pool with capabilities = PoolCapabilities(...)"
        yield Unkept(seen, "adapter", "let self.pool be where it takes its slots from")
        return
    yield from pools.unkept(pool, {})
    yield from _unusable(cache, pool)
    if told % pool.capabilities.page_size:
        seen = f"pages of {told} tokens, taken from a pool with pages of "
        seen += str(pool.capabilities.page_size)
        yield Unkept(seen, "capability", "use a pool of the cache's own page size")


def _unusable(cache: Any, pool: Pool) -> Iterator[Unkept]:
    """Yield what could not be used when it is needed."""
    for name in METHODS:
        if not callable(getattr(cache, name, callable)):
            seen = f"{name} is no method: {getattr(cache, name)!r}"
            yield Unkept(seen, "adapter", "write it, or leave it away where it may be missing")
    try:
        cache.pool = pool
    except AttributeError:
        hint = "let self.pool be an attribute: radixcheck puts a recorder there"
        yield Unkept("the cache's pool cannot be set", "adapter", hint)
    if fault := _fault_of(getattr(pool, "kv", None), pool.capabilities.end):
        hint = "let it be a list, numpy array or 1-D tensor of 64-bit integers, one per slot"
        yield Unkept(f"the pool's kv {fault}", "adapter", hint)


def _fault_of(kv: Any, end: int) -> str:
    """Say why a buffer cannot hold the tags of slots below `end`; nothing if it can."""
    if kv is None:
        return ""
    if not isinstance(kv, list) and type(kv).__module__ not in ("numpy", "torch"):
        return f"is a {type(kv).__name__}"
    if len(shape := getattr(kv, "shape", (len(kv),))) != 1 or shape[0] < end:
        return f"is of shape {tuple(shape)}, and slots go up to {end - 1}"
    kind = type(kv[0]).__name__ if isinstance(kv, list) else str(kv.dtype).rpartition(".")[2]
    return "" if kind in ("int", "int64") else f"holds {kind}"
