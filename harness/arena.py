"""One configuration of a target, and what the target can do under it."""

from __future__ import annotations

from typing import NamedTuple

from radixcheck.capabilities import Capabilities
from radixcheck.promises import unkept
from radixcheck.registry import Source, TargetError
from radixcheck.trace import Config

OPERATIONS = ("match_prefix", "insert", "evict", "inc_ref", "dec_ref", "reset")


class Arena(NamedTuple):
    """Where traces are run."""

    config: Config
    capabilities: Capabilities
    operations: frozenset[str] = frozenset(OPERATIONS)
    """The operations that the target has."""


def arenas(source: Source) -> list[Arena]:
    """Open the target once in every configuration that it supports, and note what it promises and
    has.

    Raises:
        TargetError: it cannot be opened in one of them, or is not what it says.
    """
    return [_arena(source, config) for config in source.configurations()]


def _arena(source: Source, config: Config) -> Arena:
    target = source.open(config, lambda: 0)
    for seen, _, hint in unkept(target, {**source.arguments, **config}):
        raise TargetError(f"{source.name}: {seen}", hint, "adapter")
    has = frozenset(name for name in OPERATIONS if hasattr(target, name))
    return Arena(config, target.capabilities, has)
