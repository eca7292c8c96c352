"""Whether a pool is what it says: its capabilities against its configuration and its methods."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

from radixcheck.promises import Unkept, cannot_be_made
from radixcheck.protocol import Pool

CALLED_WITH = {
    "alloc": "num_tokens",
    "free": "slots",
    "add_refs": "slots",
    "available_size": "",
    "reset": "",
}
"""The one argument of each method, which it gets by position, or none."""


def unkept(pool: Pool, config: Mapping[str, Any]) -> Iterator[Unkept]:
    """Yield what does not fit together about a pool that was opened with `config`."""
    can = pool.capabilities
    for key in ("page_size", "device"):
        wanted, told = config.get(key), getattr(can, key)
        if wanted is not None and wanted != told:
            seen = f"the factory got {key}={wanted}, the capabilities say {told}"
            yield Unkept(seen, "capability", f"pass it on: PoolCapabilities({key}={key}, ...)")
    if can.ownership == "counted" and not hasattr(pool, "add_refs"):
        seen = "the capability ownership says counted, but there is no method add_refs()"
        yield Unkept(seen, "capability", 'write it, or leave ownership="exclusive"')
    for method, argument in CALLED_WITH.items():
        if hasattr(pool, method) and not _takes(getattr(pool, method), bool(argument)):
            seen = f"{method} cannot be called as {method}({argument})"
            yield Unkept(seen, "adapter", "radixcheck.protocol says how each method is called")
    yield from cannot_be_made(can)


def _takes(method: Any, arguments: int) -> bool:
    """Tell whether `method` can be called with so many arguments by position."""
    if not callable(method):
        return False
    try:
        signature = inspect.signature(method)
    except (TypeError, ValueError):
        return True  # written in another language, which does not say
    try:
        signature.bind(*range(arguments))
    except TypeError:
        return False
    return True
