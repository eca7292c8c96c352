"""The C interface of ``radixcheck_target.h`` as ctypes sees it, and libraries that speak it.

A call passes a handful of addresses that never change: of the tree, and of records and buffers that
belong to it. What changes is written into the records. So ctypes has nothing to convert, and beats
cffi, which converts well but for every call. Matching 40 tokens, per call, on one machine::

    ctypes, eight arguments                1.59 us     half of it converts arguments
    cffi in ABI mode, eight arguments      1.29 us
    ctypes, four arguments made before     0.99 us     0.40 us is the call itself

A compiled extension would be faster still, and would need a compiler on every user's machine.
"""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from collections.abc import Callable
from ctypes import POINTER, Structure, byref, c_char, c_char_p, c_int64, c_uint64, c_void_p
from functools import cache, partial
from pathlib import Path
from typing import Any

from radixcheck import sanitizers
from radixcheck.targets.native.tools import MORE_SOURCES

ABI_VERSION = 1
REFUSED, ERROR = -1, -2

REQUIRED = ("abi_version", "create", "destroy", "capabilities", "match", "insert")
OPTIONAL = ("supports", "error", "evict", "inc", "dec", "sizes", "reset", "dump")

HEADER = Path(__file__).parent / "radixcheck_target.h"


class Config(Structure):
    """``radixcheck_config``."""

    _fields_ = (
        ("page_size", c_int64),
        ("eviction", c_char_p),
        ("disable", c_int64),
        ("arguments", c_char_p),
    )


class Key(Structure):
    """``radixcheck_key``."""

    _fields_ = (
        ("tokens", c_void_p),
        ("num_tokens", c_int64),
        ("namespace_bytes", c_char_p),
        ("num_namespace_bytes", c_int64),
    )


class Matched(Structure):
    """``radixcheck_matched``."""

    _fields_ = (("slots", c_void_p), ("capacity", c_int64), ("handle", c_uint64))


class Given(Structure):
    """``radixcheck_given``."""

    _fields_ = (("slots", c_void_p), ("owned_from", c_int64), ("priority", c_int64))


class Freed(Structure):
    """``radixcheck_freed``."""

    _fields_ = (
        ("slots", c_void_p),
        ("victims", c_void_p),
        ("capacity", c_int64),
        ("num_victims", c_int64),
    )


class Node(Structure):
    """``radixcheck_node``."""

    _fields_ = (
        ("tokens", POINTER(c_int64)),
        ("num_tokens", c_int64),
        ("slots", POINTER(c_int64)),
        ("num_slots", c_int64),
        ("locks", c_int64),
        ("parent", c_int64),
    )


EVICTABLE, PROTECTED, TOTAL = range(3)
"""The places of ``radixcheck_counts``, which is an array of three."""

Show = ctypes.CFUNCTYPE(None, c_void_p, POINTER(Node))

RESULTS = {
    "supports": c_char_p,
    "create": c_void_p,
    "destroy": None,
    "capabilities": c_char_p,
    "error": c_char_p,
}
"""What a function answers that does not answer an ``int64_t``."""


class Library:
    """A shared library that exports the functions of the header.

    Raises:
        ImportError: it cannot be loaded here, lacks a function, or speaks another version.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._functions = _load(path)
        self.has = frozenset(
            name for name in (*REQUIRED, *OPTIONAL) if hasattr(self._functions, _symbol(name))
        )
        if lacking := [_symbol(name) for name in REQUIRED if name not in self.has]:
            raise ImportError(f"{path} exports no {', no '.join(lacking)}")
        for name in self.has:
            self.function(name).restype = RESULTS.get(name, c_int64)
        if (version := self.function("abi_version")()) != ABI_VERSION:
            raise ImportError(
                f"{path} speaks version {version} of radixcheck_target.h, and this radixcheck "
                f"version {ABI_VERSION}: build it anew with `radixcheck native header`"
            )

    def function(self, name: str) -> Any:
        """Return ``radixcheck_<name>``, which wants ctypes objects as its arguments."""
        return getattr(self._functions, _symbol(name))

    def bind(self, name: str, *arguments: Any) -> Callable[[], int]:
        """Return a call of ``radixcheck_<name>`` with `arguments`, which may change where they lie.

        Raises:
            NotImplementedError: when it is called, and the library has no such function.
        """
        return partial(self.function(name), *arguments) if name in self.has else _missing

    def supports(self) -> str:
        """Return what a run may sweep, in the spelling of a spec's arguments."""
        return _text(self.function("supports")()) if "supports" in self.has else ""

    def create(self, config: Config) -> c_void_p:
        """Make a tree.

        Raises:
            ValueError: the library says that it cannot.
        """
        error = ctypes.create_string_buffer(1024)
        tree = self.function("create")(ctypes.byref(config), error, c_int64(len(error)))
        if not tree:
            raise ValueError(_text(error.value) or f"{self.path} made no tree, and did not say why")
        return c_void_p(tree)

    def capabilities(self, tree: c_void_p) -> str:
        """Return what a tree promises, in the spelling of a spec's arguments."""
        return _text(self.function("capabilities")(tree))

    def error(self, tree: c_void_p) -> str:
        """Return what the library says about the last call."""
        return _text(self.function("error")(tree)) if "error" in self.has else ""


def there(address: int) -> Any:
    """Return an argument that points to `address`. A `c_void_p` is converted for every call, which
    takes as long as a fourth of one."""
    return byref(c_char.from_address(address))


def open_library(path: str | Path) -> Library:
    """Load a library, or return it if it is loaded already; rebuilt since, it is loaded anew.

    Raises:
        ImportError: there is no such file, or it is no library of ours; see `Library`.
    """
    where = Path(path).expanduser().absolute()
    if not where.is_file():
        raise ImportError(f"no file {path}")
    built = where.stat()
    return _open(where, (built.st_ino, built.st_mtime_ns))


@cache
def _open(path: Path, built: tuple[int, int]) -> Library:
    return Library(path)


def _load(path: Path) -> ctypes.PyDLL:
    if sanitizers.lacking(path):
        raise sanitizers.NotPreloaded(path)
    try:
        return ctypes.PyDLL(str(path))
    except OSError as error:
        raise ImportError(f"{path} cannot be loaded: {_why(path, str(error))}") from None


def _why(path: Path, said: str) -> str:
    """Say in an author's words why a library cannot be loaded."""
    if sanitizers.tells_coverage(path):
        return f"{said}; it tells coverage: `radixcheck atheris` can load it, and nothing else"
    if lacking := re.search(r"undefined symbol: (\w+)|symbol not found[^']*'(\w+)'", said):
        return f"nothing in it defines {_demangled(lacking[1] or lacking[2])}; {MORE_SOURCES}"
    return said


def _demangled(symbol: str) -> str:
    """Spell a symbol as its source does, where binutils can."""
    if not (tool := shutil.which("c++filt")):
        return symbol
    return subprocess.run(
        [tool, symbol], capture_output=True, text=True, check=False
    ).stdout.strip()


def _missing() -> int:
    raise NotImplementedError("the library has no such function")


def _symbol(name: str) -> str:
    return f"radixcheck_{name}"


def _text(answer: bytes | None) -> str:
    return (answer or b"").decode("utf-8", "replace")
