"""What makes a trace worth keeping: what it reaches that no trace before it has reached.

A feature is a word::

    page_size=1 eviction=lru edge-split     a situation, in a configuration
    edge-split > insert-after-match         two situations, the one reached after the other
    targets/radix.py:120                    a line of the target's own modules

Lines are seen on Python 3.12 and later, and only where the target lives in the same process. Python
is asked to tell of each line once; from then on the line costs nothing.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from heapq import heapify, heappop, heapreplace
from importlib.util import find_spec
from pathlib import PurePath
from types import CodeType
from typing import Any, Protocol

from radixcheck.trace import Config

TOOL = "radixcheck"
"""The name under which Python is asked to tell of lines."""

TOOL_IDS = (3, 4)
"""Numbers that Python leaves to tools that have no number of their own."""

FOREIGN = (
    *("msgspec", "numpy", "torch", "hypothesis", "rich", "typer", "ray"),
    *("_pytest", "pytest", "pluggy", "xdist", "execnet"),  # threads of tests that run beside
)
"""Libraries whose lines tell nothing about a target."""


def named(config: Config) -> str:
    """Name a configuration, disabled or not."""
    return " ".join(f"{key}={value}" for key, value in config.items() if key != "disable")


def situations_of(config: Config, reached: Iterable[str]) -> Iterator[str]:
    """Yield the features of situations, in the order in which a trace first reaches them."""
    where, before = named(config), ""
    for situation in reached:
        yield f"{where} {situation}"
        if before:
            yield f"{before} > {situation}"
        before = situation


class Lines(Protocol):
    """Sees which lines of a target run."""

    def new(self) -> set[str]:
        """Return the lines that ran for the first time since this was asked before."""
        ...

    def close(self) -> None:
        """See no more."""
        ...


class NoLines:
    """Sees nothing: Python 3.11 could tell of lines only at a price that no campaign pays."""

    def new(self) -> set[str]:
        """Return nothing."""
        return set()

    def close(self) -> None:
        """Go on seeing nothing."""


class MonitoredLines:
    """Lets `sys.monitoring` tell of each line once."""

    def __init__(self, tool: int) -> None:
        self._monitoring: Any = sys.monitoring  # type: ignore[attr-defined]  # of Python 3.12
        self._tool = tool
        self._new: set[str] = set()
        line = self._monitoring.events.LINE
        self._monitoring.use_tool_id(tool, TOOL)
        self._monitoring.register_callback(tool, line, self._ran)
        self._monitoring.set_events(tool, line)
        self._monitoring.restart_events()  # or lines that earlier tasks have seen would be missing

    def _ran(self, code: CodeType, line: int) -> Any:
        if name := own_name(code.co_filename):
            self._new.add(f"{name}:{line}")
        return self._monitoring.DISABLE

    def new(self) -> set[str]:
        """Return the lines that ran for the first time since this was asked before."""
        new, self._new = self._new, set()
        return new

    def close(self) -> None:
        """Let Python forget about it."""
        self._monitoring.set_events(self._tool, 0)
        self._monitoring.free_tool_id(self._tool)


def watched_lines() -> Lines:
    """Return what sees lines, if this Python can and nobody else has taken the last number."""
    monitoring: Any = getattr(sys, "monitoring", None)
    if monitoring is None:
        return NoLines()
    free = [tool for tool in TOOL_IDS if monitoring.get_tool(tool) is None]
    return MonitoredLines(free[0]) if free else NoLines()


@cache
def own_name(path: str) -> str:
    """Name a file of a target the same on every machine; nothing for a file that is no target's."""
    parts = PurePath(path).parts
    if len(parts) < 2 or (path.startswith(_OURS) and not path.startswith(_TARGETS)):
        return ""
    installed = "site-packages" in parts or "dist-packages" in parts
    if (path.startswith(_STANDARD) and not installed) or any(each in parts for each in FOREIGN):
        return ""
    return "/".join(parts[-2:])


def _folder(package: str) -> str:
    spec = find_spec(package)
    return str(PurePath(str(spec and spec.origin)).parent) + os.sep


_OURS = (_folder("radixcheck"), _folder("radixcheck.reference"))
"""In a checkout the latter is not below the former, and neither are the targets."""
_TARGETS = _folder("radixcheck.targets")
_STANDARD = sysconfig.get_path("stdlib")


# ---- the fewest traces -------------------------------------------------------------------


def cover(features: Mapping[str, frozenset[str]], cost: Mapping[str, int]) -> list[str]:
    """Choose few traces that have every feature: again and again the one that adds most.

    What a trace adds never grows while others are chosen. So the one that seemed best when it was
    last counted is counted again, and taken if it still is.

    Args:
        features: of each trace, by its name.
        cost: of each trace; among equals the cheapest is chosen.
    """
    left: set[str] = set().union(*features.values())
    waiting = [(-len(each), cost[name], name) for name, each in features.items()]
    heapify(waiting)
    chosen: list[str] = []
    while left and waiting:
        _, price, name = waiting[0]
        again = (-len(features[name] & left), price, name)
        if again > waiting[0]:
            heapreplace(waiting, again)
            continue
        heappop(waiting)
        chosen.append(name)
        left -= features[name]
    return chosen
