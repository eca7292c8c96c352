"""``radix-cpp``: our own tree in C++20, built when it is first wanted, with or without a bug."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType
from typing import Any

from radixcheck.targets.native import native
from radixcheck.targets.native.build import Recipe, build
from radixcheck.targets.native.tree import NativeTree

SOURCES = Path(__file__).parent / "radix"

MUTANTS = MappingProxyType(
    {
        "split-keeps-slots": "a split leaves the wrong half of the slots with the rest of the edge",
        "stale-child": "after a split the parent still leads to the rest, past the new front",
        "stale-reference": "a split goes on reading a node that has moved: memory that is free",
        "reads-past-edge": "a comparison reads one token more than the edge has",
        "double-free": "an evicted node goes on the free list twice, and becomes two nodes",
        "climbs-past-root": "a lock climbs on to the parent of the root",
        "endless-loop": "an eviction waits for a leaf where none may go",
    }
)
"""The bugs that `mutant` plants; each is explained where ``radix.hpp`` switches it."""


def radix_cpp(
    page_size: int = 1,
    eviction: str = "lru",
    disable: bool = False,
    mutant: str = "",
    sanitize: str = "",
) -> NativeTree:
    """A radix tree in C++20: pages, structured namespaces, lru and fifo, nodes in an arena.

    Args:
        page_size, eviction, disable: as of any target.
        mutant: a bug to plant, by its name in `MUTANTS`.
        sanitize: sanitizers to build it with, such as ``address,undefined``.

    Raises:
        ImportError: it cannot be built or loaded here.
        ValueError: there is no such policy or mutant.
    """
    return native(str(library(mutant, sanitize)), page_size, eviction, disable)


def library(mutant: str = "", sanitize: str = "") -> Path:
    """Return the library, built if need be.

    Raises:
        BuildError: there is no compiler or no cmake.
        ValueError: there is no such mutant.
    """
    if mutant and mutant not in MUTANTS:
        raise ValueError(f"mutant={mutant!r}: choose of {', '.join(MUTANTS)}")
    definitions = {"RADIX_MUTANT": mutant.replace("-", "_")} if mutant else {}
    definitions["RADIXCHECK_INCLUDE_DIR"] = str(SOURCES.parent)
    chosen = tuple(sanitize.split(",")) if sanitize else ()
    return build(Recipe(SOURCES, chosen, definitions, closed=True))


supports: dict[str, list[Any]] = {"page_size": [1, 2, 4, 16], "eviction": ["lru", "fifo"]}
"""What a run sweeps; the same is told by the library, which need not be built to be listed."""
