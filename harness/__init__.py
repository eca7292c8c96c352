"""radixcheck: a correctness and fuzzing harness for radix-tree prefix caches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from radixcheck.live import record, watch

__all__ = ["record", "watch"]


def __getattr__(name: str) -> Any:
    """Import what a server needs when it asks for it: everybody else starts without."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from radixcheck import live

    return getattr(live, name)
