"""What a target can promise. Each field is one freedom or promise, with its values, its default and
the rules it bends.

Defaults fit a plain tree, so that most adapters declare two or three. Capabilities gate rules
before a run starts; no rule is ever decided by catching an exception. The source of each is
docs/contract.md, "Freedoms".
"""

from __future__ import annotations

from functools import cache
from typing import (
    Annotated,
    Any,
    Literal,
    TypeAlias,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec
from msgspec import Meta, Struct

Presence: TypeAlias = Literal["absent", "present"]
Deltas: TypeAlias = Literal["absent", "inc-only", "present"]
SizePresence: TypeAlias = Literal["absent", "present", "walked"]
Promised = TypeVar("Promised", "Capabilities", "PoolCapabilities")


SILENT: dict[str, tuple[str, ...]] = {
    "absent": ("inc_ref", "dec_ref"),
    "inc-only": ("dec_ref",),
    "present": (),
}
"""By what is promised of `deltas`: which calls may answer anything."""


def _bends(description: str, *rules: str) -> Meta:
    return Meta(description=description, extra={"rules": rules})


class Capabilities(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The promises of one target instance.

    Raises:
        ValueError: a field has a value outside its choices.
    """

    page_size: Annotated[
        int, _bends("Tokens per page: only whole pages are stored and matched.", "unaligned-match")
    ] = 1

    eviction: Annotated[
        Literal["lru", "mru", "fifo", "filo", "lfu", "slru", "priority", "unspecified"],
        _bends(
            "Which unlocked leaf goes first. `priority` evicts the lowest first.", "eviction-order"
        ),
    ] = "lru"

    tie_break: Annotated[
        Literal["any", "lru"],
        _bends("The second key of lfu, slru and priority.", "eviction-order"),
    ] = "any"

    hits: Annotated[
        Literal["any", "inserts", "matches", "both"],
        _bends("What lfu and slru count as one hit.", "eviction-order"),
    ] = "any"

    slru_threshold: Annotated[
        int, _bends("Hits from which slru protects an entry.", "eviction-order")
    ] = 2

    stamps: Annotated[
        Literal["edge", "matched"],
        _bends(
            "Whether an operation may refresh the rest of the edge it ends in, or only what it "
            "passed through.",
            "eviction-order",
        ),
    ] = "edge"

    edges: Annotated[
        Literal["cut-only", "grow-or-merge"],
        _bends(
            "Whether edges are only ever cut, or may also grow or be merged again.",
            "eviction-order",
        ),
    ] = "cut-only"

    match_splits: Annotated[
        bool,
        _bends(
            "Whether a match that ends inside an edge cuts it. If not, a lock may cover the rest "
            "of the edge too.",
            "size-drift",
            "under-evicted",
            "eviction-order",
        ),
    ] = True

    closed: Annotated[
        bool, _bends("Whether a parent always outlives its children.", "orphaned-suffix")
    ] = True

    depth: Annotated[
        Literal["call-stack", "any"],
        _bends(
            "How many edges a path may have: as many as calls may be nested, or any number.",
            "unexpected-error",
            "crash",
        ),
    ] = "call-stack"

    longest_match: Annotated[
        Literal["n", "n-1"],
        _bends(
            "Whether a match may answer the whole key, or always leaves its last token to compute.",
            "missed-prefix",
        ),
    ] = "n"

    unaligned_insert: Annotated[
        Literal["cut", "caller-aligns"],
        _bends(
            "Who drops the tail of a key that fills no page.",
            "unaligned-match",
            "wrong-existing-length",
        ),
    ] = "cut"

    duplicates: Annotated[
        Literal["caller-frees", "target-frees", "both-kept"],
        _bends(
            "Who gets the slots of tokens that were stored already.", "foreign-slot", "size-drift"
        ),
    ] = "caller-frees"

    arguments: Annotated[
        Literal["given", "borrowed"],
        _bends(
            "Whether the caller gives its buffers away, or reuses them after the call.",
            "mutated-argument",
        ),
    ] = "given"

    short_evict: Annotated[
        Literal["frees-less", "refuses"],
        _bends("What happens when more is asked for than can be freed.", "under-evicted"),
    ] = "frees-less"

    interrupted_evict: Annotated[
        Literal["unspecified", "loses-nothing"],
        _bends(
            "What an error of the pool's leaves behind in the midst of an eviction. If it loses "
            "nothing, what was not freed counts as stored and evictable until it is.",
            "leaked-slot",
            "double-free",
        ),
    ] = "unspecified"

    evict_batch: Annotated[
        int, _bends("Tokens by which an eviction may overshoot on purpose.", "over-evicted")
    ] = 0

    misuse: Annotated[
        Literal["unspecified", "raises", "ignored"],
        _bends(
            "What a call does that no caller should make, such as a second unlock.",
            "lock-underflow",
        ),
    ] = "unspecified"

    idle_handles: Annotated[
        Literal["until-evicted", "until-next-mutation"],
        _bends("How long an unlocked handle may be used.", "handle-mismatch"),
    ] = "until-evicted"

    clock: Annotated[
        Literal["own", "injected", "injected-steps"],
        _bends(
            "Whose clock orders evictions; `injected-steps` survives a clock that runs back.",
            "eviction-order",
        ),
    ] = "own"

    resolution_s: Annotated[
        float | None,
        _bends(
            "Resolution of an own clock in seconds; 0 for a counter; None where it is unknown.",
            "eviction-order",
        ),
    ] = None

    deterministic: Annotated[
        bool, _bends("Whether the same trace always gets the same answers.", "nondeterminism")
    ] = False

    slots_as: Annotated[
        Literal["list", "array", "numpy", "torch"],
        _bends("The type in which the target wants slots."),
    ] = "list"

    device: Annotated[str, _bends("Where torch slots live: ``cpu``, ``cuda`` or ``cuda:1``.")] = (
        "cpu"
    )

    namespaces: Annotated[
        Literal["absent", "one", "structured"],
        _bends(
            "No namespaces, tuples of at most one string, or any tuple of strings.",
            "namespace-leak",
        ),
    ] = "absent"

    priorities: Annotated[
        Presence, _bends("Whether inserts may carry a priority other than 0.", "eviction-order")
    ] = "absent"

    deltas: Annotated[
        Deltas,
        _bends(
            "Whether locks report the change of the evictable size; `inc-only`: unlocks do not.",
            "delta-mismatch",
        ),
    ] = "absent"

    evictable_size: Annotated[
        SizePresence,
        _bends("`walked`: computed by walking the tree, so it is asked for rarely.", "size-drift"),
    ] = "present"

    protected_size: Annotated[SizePresence, _bends("As `evictable_size`.", "size-drift")] = "absent"

    total_size: Annotated[SizePresence, _bends("As `evictable_size`.", "size-drift")] = "absent"

    reset: Annotated[
        Presence, _bends("Whether the target can forget everything.", "phantom-prefix")
    ] = "absent"

    disable: Annotated[
        Presence,
        _bends("Whether the factory takes `disable=True` for a cache that stores nothing."),
    ] = "absent"

    dump: Annotated[Presence, _bends("Whether the target shows its nodes.", "structure")] = "absent"

    storage: Annotated[
        Presence,
        _bends(
            "Whether every tensor and array that the target keeps can be found from it, so that "
            "their bytes are counted.",
            "retained-storage",
        ),
    ] = "absent"

    def __post_init__(self) -> None:
        _check(self)


class PoolCapabilities(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The promises of one pool. The slots that it hands out are ``[reserved, reserved +
    capacity)``.

    Raises:
        ValueError: a field has a value outside its choices, or the capacity is no whole pages.
    """

    page_size: Annotated[
        int, _bends("Tokens per page: slots come and go by whole, aligned pages.", "partial-page")
    ] = 1

    capacity: Annotated[
        int, _bends("Slots that can be handed out at once, in whole pages.", "leaked-slot")
    ]

    reserved: Annotated[
        int, _bends("Slots below the first that is handed out, in whole pages.", "outside-pool")
    ] = 0

    ownership: Annotated[
        Literal["exclusive", "counted"],
        _bends(
            "One holder per slot, or as many as `add_refs` counts.", "double-owner", "double-free"
        ),
    ] = "exclusive"

    ordered: Annotated[bool, _bends("Whether the slots of every alloc ascend.", "alloc-order")] = (
        False
    )

    partial_pages: Annotated[
        Literal["misuse", "counted"],
        _bends(
            "Whether only whole pages may be freed, or any part of one: then the page is free with "
            "its last slot.",
            "double-free",
        ),
    ] = "misuse"

    arguments: Annotated[
        Literal["given", "borrowed"],
        _bends(
            "Whether the caller gives the slots of a free away, for the pool to keep but not to "
            "change, or reuses the buffer after the call.",
            "mutated-argument",
        ),
    ] = "given"

    misuse: Annotated[
        Literal["unspecified", "raises", "ignored"],
        _bends(
            "What a free does that no caller should make: of a slot that is free, reserved or "
            "beyond the pool.",
            "double-free",
        ),
    ] = "unspecified"

    deterministic: Annotated[
        bool, _bends("Whether the same trace always gets the same answers.", "nondeterminism")
    ] = False

    slots_as: Annotated[
        Literal["list", "array", "numpy", "torch"],
        _bends("The type in which the pool wants slots."),
    ] = "list"

    device: Annotated[str, _bends("Where torch slots live: ``cpu``, ``cuda`` or ``cuda:1``.")] = (
        "cpu"
    )

    storage: Annotated[
        Presence,
        _bends(
            "Whether every tensor and array that the pool keeps can be found from it, so that "
            "their bytes are counted, and those of what it handed out.",
            "retained-storage",
        ),
    ] = "absent"

    def __post_init__(self) -> None:
        _check(self)
        for name in ("capacity", "reserved"):
            if getattr(self, name) % self.page_size:
                raise ValueError(
                    f"capability {name}={getattr(self, name)}: must be whole pages of "
                    f"{self.page_size}"
                )
        if self.capacity < self.page_size:
            raise ValueError(
                f"capability capacity={self.capacity}: must be a page of {self.page_size} or more"
            )

    @property
    def end(self) -> int:
        """The first slot number beyond the pool."""
        return self.reserved + self.capacity


AnyCapabilities: TypeAlias = Capabilities | PoolCapabilities

LEAST = {"page_size": 1, "slru_threshold": 1, "evict_batch": 0, "capacity": 0, "reserved": 0}
"""The least value of every capability that is a number."""


def _check(promised: AnyCapabilities) -> None:
    for name, choices in choices_of(type(promised)).items():
        if (value := getattr(promised, name)) not in choices:
            wanted = ", ".join(map(repr, choices))
            raise ValueError(f"capability {name}={value!r}: choose one of {wanted}")
    for name in LEAST.keys() & set(promised.__struct_fields__):
        value, least = getattr(promised, name), LEAST[name]
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise ValueError(
                f"capability {name}={value!r}: must be a whole number, {least} or more"
            )


def _choices(annotation: Any) -> tuple[Any, ...]:
    if annotation is bool:
        return (True, False)
    return get_args(annotation) if get_origin(annotation) is Literal else ()


@cache
def choices_of(kind: type[AnyCapabilities]) -> dict[str, tuple[Any, ...]]:
    """Return the closed set of values of every capability of `kind` that has one."""
    hints = get_type_hints(kind).items()
    return {name: choices for name, hint in hints if (choices := _choices(hint))}


CHOICES = choices_of(Capabilities)
"""The closed set of values of every capability of a cache that has one."""

RESERVED_CAPABILITIES = frozenset("events hashes bigram host_tier window state threads".split())
"""Named for later kinds of caches; declaring one is an error until its rules exist."""


def override(capabilities: Promised, changes: dict[str, Any]) -> Promised:
    """Return `capabilities` with `changes`, which come from a spec such as
    ``radix?stamps=matched``.

    Raises:
        ValueError: a value is outside its choices.
        msgspec.ValidationError: a value has the wrong type.
    """
    known = msgspec.structs.asdict(capabilities)
    return msgspec.convert(known | changes, type(capabilities), strict=False)
