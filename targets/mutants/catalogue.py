"""What a mutant is, and the decorator that lists one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

Planted = TypeVar("Planted", bound=type)


class Mutant(NamedTuple):
    """A cache in which one public bug is planted, and which is otherwise correct."""

    id: str
    """Project and number of the public reference: also the name of the trace that kills it."""
    source: str
    """The public reference, such as ``SGLang #7``."""
    rules: tuple[str, ...]
    """The rules that the bug breaks. The first must fire, the others may fire with it."""
    factory: type
    config: dict[str, bool | int | float | str]
    """The configuration in which the bug shows."""

    @property
    def spec(self) -> str:
        """What to type to have this mutant checked."""
        return f"{self.factory.__module__}:{self.factory.__qualname__}"

    @property
    def replicas(self) -> int:
        """How many of it must be judged side by side for the bug to show."""
        return 2 if self.rules[0] == "divergence" else 1


MUTANTS: dict[str, Mutant] = {}
"""Every mutant by its id."""

NO_BOOKS: dict[str, Any] = dict.fromkeys(
    ("deltas", "evictable_size", "protected_size", "total_size", "dump"), "absent"
)
"""What a cache promises that can be judged only by what it matches and evicts."""


def mutant(
    id: str, source: str, *rules: str, page_size: int = 1, eviction: str = "lru", **more: Any
) -> Callable[[Planted], Planted]:
    """List a class in `MUTANTS`, and let runs check it in this one configuration."""

    def enlist(planted: Planted) -> Planted:
        config: dict[str, Any] = {"page_size": page_size, "eviction": eviction, **more}
        supports = {key: [value] for key, value in config.items()}
        planted.supports = supports  # type: ignore[attr-defined]  # read by registry
        MUTANTS[id] = Mutant(id, source, rules, planted, config)
        return planted

    return enlist
