"""The lines of the protocol that a server speaks, one struct per kind.

docs/protocol.md explains them, and docs/protocol.schema.json says the same to a machine.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from msgspec import Struct, field

VERSION = 1
"""The version of the protocol that this release speaks."""

SIZES = ("evictable_size", "protected_size", "total_size")
METHODS = frozenset("match_prefix insert evict inc_ref dec_ref reset dump".split()).union(SIZES)
"""What a server may say that its caches have."""

Value: TypeAlias = bool | int | float | str

# ------------------------------------------------------------------------ what a server is asked


class Hello(Struct, tag="hello", tag_field="op"):
    """The first line to a server: who are you?"""

    version: int = VERSION


class Open(Struct, tag="open", tag_field="op"):
    """Make a fresh cache, in the place of the one before."""

    config: dict[str, Value]


class Request(Struct, tag_field="op", omit_defaults=True, kw_only=True):
    """One operation on the cache."""

    forget: list[int] = field(default_factory=list)
    """Handles that will not be used again."""
    now: float | None = None
    """The reading of the clock, where it is injected."""


class MatchPrefix(Request, tag="match_prefix"):
    """Find the longest stored prefix, and name it."""

    tokens: list[int]
    handle: int = field(name="as")
    namespace: tuple[str, ...] = ()


class Insert(Request, tag="insert"):
    """Store a key."""

    tokens: list[int]
    slots: list[int]
    namespace: tuple[str, ...] = ()
    priority: int = 0
    owned_from: int = 0


class Evict(Request, tag="evict"):
    """Free tokens."""

    num_tokens: int


class IncRef(Request, tag="inc_ref"):
    """Lock a handle."""

    handle: int


class DecRef(Request, tag="dec_ref"):
    """Unlock a handle."""

    handle: int


class Reset(Request, tag="reset"):
    """Forget everything."""


class Dump(Request, tag="dump"):
    """Show every node."""


class Sizes(Request, tag="sizes"):
    """Tell every size, also those that make the cache walk its tree."""


# ------------------------------------------------------------------------- what a server answers


class Welcome(Struct):
    """The answer to `Hello`: the version, and what a run may sweep."""

    version: int
    supports: dict[str, list[Value]] = field(default_factory=dict)


class Opened(Struct, forbid_unknown_fields=True):
    """The answer to `Open`: what the cache promises and has."""

    methods: list[str]
    capabilities: dict[str, Any] = field(default_factory=dict)


class Trouble(Struct):
    """What any answer may be instead: a server that says no, or that met an error."""

    refused: str | None = None
    error: str | None = None
    where: str = ""


class Version(Struct):
    """The one field of a `Welcome` that every version of the protocol has."""

    version: int


class Node(Struct, forbid_unknown_fields=True):
    """A node of a dump: fields as of `DumpedNode`."""

    tokens: list[int]
    slots: list[int]
    locks: int
    parent: int | None = None


class Answer(Struct, forbid_unknown_fields=True):
    """The answer to an operation. Which fields it must have depends on the operation."""

    length: int | None = None
    slots: list[int] | None = None
    existing: int | None = None
    groups: list[list[int]] | None = None
    delta: int | None = None
    nodes: list[Node] | None = None
    refused: str | None = None
    error: str | None = None
    where: str = ""
    evictable_size: int | None = None
    protected_size: int | None = None
    total_size: int | None = None
