"""One configuration of a target, what the target can do under it, and what a run in it must
reach."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from radixcheck.capabilities import AnyCapabilities
from radixcheck.devices import allocator_of
from radixcheck.levels import TREE, Level, level_of
from radixcheck.registry import METHODS, Source, TargetError
from radixcheck.situations import Situation
from radixcheck.trace import Config


class Arena(NamedTuple):
    """Where traces are run."""

    config: Config
    capabilities: AnyCapabilities
    operations: frozenset[str] = frozenset(TREE.methods)
    """The methods that the target has, of those that its level knows."""
    level: Level = TREE
    capacity: int | None = None
    """Slots of the pool behind a cache that has one."""
    methods: frozenset[str] = frozenset()
    """The methods that the target has, of all that the protocol knows."""
    counted: bool = False
    """Whether somebody counts the memory of the target's device."""


def arenas(source: Source) -> list[Arena]:
    """Open the target once in every configuration that it supports, and note what it promises and
    has.

    Raises:
        TargetError: it cannot be opened in one of them, or is not what it says.
    """
    return [_kept(source, config) for config in source.configurations()]


def _kept(source: Source, config: Config) -> Arena:
    target = source.open(config, lambda: 0)
    for seen, _, hint in level_of(target).unkept(target, {**source.arguments, **config}):
        raise TargetError(f"{source.name}: {seen}", hint, "adapter")
    return _seen(target, config)


def look(source: Source, config: Config) -> Arena:
    """Open the target once under any configuration, and note what it promises and has.

    Raises:
        TargetError: it cannot be opened.
    """
    return _seen(source.open(config, lambda: 0), config)


def _seen(target: Any, config: Config) -> Arena:
    level = level_of(target)
    methods = frozenset(name for name in METHODS if hasattr(target, name))
    has = frozenset(name for name in level.methods if hasattr(target, name))
    pool = getattr(target, "pool", None)
    capacity = getattr(getattr(pool, "capabilities", None), "capacity", None)
    counted = allocator_of(target) is not None
    return Arena(config, target.capabilities, has, level, capacity, methods, counted)


def situations(arenas: Iterable[Arena]) -> dict[str, Situation]:
    """Return every situation that the levels of `arenas` know."""
    return {name: each for arena in arenas for name, each in arena.level.situations.items()}


def required(arenas: Iterable[Arena]) -> list[str]:
    """Name the situations that at least one of the configurations makes possible."""
    seen = list(arenas)
    return [
        name
        for name, each in situations(seen).items()
        if any(_must_reach(each, arena) for arena in seen)
    ]


def missing(reached: Mapping[str, int], arenas: Iterable[Arena]) -> list[str]:
    """Name the required situations that were never reached."""
    return [name for name in required(arenas) if not reached.get(name)]


def _must_reach(situation: Situation, arena: Arena) -> bool:
    if situation.applies is None or not arena.operations.issuperset(situation.needs.split()):
        return False
    return situation.applies(arena.capabilities)
