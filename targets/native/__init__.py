"""Targets in C and C++, or in whatever else makes a shared library: ``native:./libtree.so``.

``radixcheck_target.h``  the interface, and the one thing that an author must read
``abi``        its records and functions in ctypes; libraries
``tree``       a tree behind it, as a target
``build``      from sources to a library, kept for the next time
``kept``       the same for a folder with a CMakeLists.txt
``tools``      compilers and cmake as processes
``radix_cpp``  our own tree; its sources are in ``radix/``
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn
from urllib.parse import parse_qsl, quote

from radixcheck.protocol import Supports
from radixcheck.targets.native.abi import Config, Library, open_library
from radixcheck.targets.native.tree import NativeError, NativeTree, target_class


def native(
    path: str,
    page_size: int | None = None,
    eviction: str = "",
    disable: bool = False,
    **arguments: Any,
) -> NativeTree:
    """A tree in a shared library that exports the functions of ``radixcheck_target.h``.

    Args:
        path: the library.
        page_size, eviction, disable: as of any target; without a policy, the tree has its own, and
            without a size of pages it is asked for 1, and may have its own too.
        arguments: what else the library wants to know; it gets them as text.

    Raises:
        ImportError: the library cannot be loaded.
        NativeError: it promises to make such a tree, and makes another.
        ValueError: it makes no such tree.
    """
    arguments.pop("clock", None)  # no library can be given one
    library = open_library(path)
    rest = "&".join(f"{key}={_spelled(value)}" for key, value in arguments.items())
    config = Config(page_size or 1, eviction.encode(), disable, rest.encode())
    tree = target_class(library.has)(library, config)
    for key, wanted in (("page_size", page_size), ("eviction", eviction)):
        if wanted and wanted != getattr(tree.capabilities, key):
            _differs(library, key, wanted, getattr(tree.capabilities, key))
    return tree


def _differs(library: Library, key: str, wanted: object, promised: object) -> NoReturn:
    """Say whose mistake it is that a tree is not what was asked for."""
    supported = read_supports(library.supports()).get(key, [promised])
    if wanted in supported:
        raise NativeError(
            f"{library.path.name} supports {key}={wanted}, and made with it, promises "
            f"{key}={promised}: radixcheck_capabilities should say what radixcheck_create was given"
        )
    choices = ",".join(map(str, supported))
    raise ValueError(f"{library.path.name} supports only {key}={choices}, not {key}={wanted}")


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
