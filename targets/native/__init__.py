"""Targets in C and C++, or in whatever else makes a shared library: ``native:./libtree.so``.

``radixcheck_target.h``  the interface, and the one thing that an author must read
``abi``        its records and functions in ctypes; libraries
``tree``       a tree behind it, as a target
``build``      from sources to a library, kept for the next time
``radix_cpp``  our own tree; its sources are in ``radix/``
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, quote

from radixcheck.protocol import Supports
from radixcheck.targets.native.abi import Config, open_library
from radixcheck.targets.native.tree import NativeTree, target_class


def native(
    path: str,
    page_size: int = 1,
    eviction: str = "",
    disable: bool = False,
    **arguments: Any,
) -> NativeTree:
    """A tree in a shared library that exports the functions of ``radixcheck_target.h``.

    Args:
        path: the library.
        page_size, eviction, disable: as of any target; without a policy, the tree has its own.
        arguments: what else the library wants to know; it gets them as text.

    Raises:
        ImportError: the library cannot be loaded.
        ValueError: it makes no such tree.
    """
    arguments.pop("clock", None)  # no library can be given one
    library = open_library(path)
    rest = "&".join(f"{key}={_spelled(value)}" for key, value in arguments.items())
    config = Config(page_size, eviction.encode(), disable, rest.encode())
    return target_class(library.has)(library, config)


def _spelled(value: Any) -> str:
    """Spell an argument as in a spec: only what would end it is escaped."""
    return quote(str(value).lower() if isinstance(value, bool) else str(value), safe=" /:,;+@")


def supports(path: str) -> Supports:
    """Return what the library says that a run may sweep.

    Raises:
        ImportError: the library cannot be loaded.
        ValueError: what it says is no ``key=value,value&key=value``.
    """
    return read_supports(open_library(path).supports())


def read_supports(text: str) -> Mapping[str, list[Any]]:
    """Read ``page_size=1,4&eviction=lru,fifo``.

    Raises:
        ValueError: it is something else.
    """
    pairs = parse_qsl(text, strict_parsing=True) if text else []
    return {key: [_value(each) for each in values.split(",")] for key, values in pairs}


def _value(text: str) -> int | str:
    return int(text) if text.isdecimal() else text


native.supports = supports  # type: ignore[attr-defined]  # read by registry
