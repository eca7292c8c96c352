"""What a target can promise. Each field is one freedom or promise, with its values, its default and
the rules it bends.

Defaults fit a plain tree, so that most adapters declare two or three. Capabilities gate rules
before a run starts; no rule is ever decided by catching an exception. The source of each is
docs/contract.md, "Freedoms".
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta, Struct

Presence: TypeAlias = Literal["absent", "present"]
SizePresence: TypeAlias = Literal["absent", "present", "walked"]


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
        Presence, _bends("Whether locks report the change of the evictable size.", "delta-mismatch")
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

    def __post_init__(self) -> None:
        for name, choices in CHOICES.items():
            if (value := getattr(self, name)) not in choices:
                wanted = ", ".join(map(repr, choices))
                raise ValueError(f"capability {name}={value!r}: choose one of {wanted}")
        for name, least in LEAST.items():
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise ValueError(
                    f"capability {name}={value!r}: must be a whole number, {least} or more"
                )


LEAST = {"page_size": 1, "slru_threshold": 1, "evict_batch": 0}
"""The least value of every capability that is a number."""


def _choices(annotation: Any) -> tuple[Any, ...]:
    if annotation is bool:
        return (True, False)
    return get_args(annotation) if get_origin(annotation) is Literal else ()


CHOICES: dict[str, tuple[Any, ...]] = {
    name: choices
    for name, hint in get_type_hints(Capabilities).items()
    if (choices := _choices(hint))
}
"""The closed set of values of every capability that has one."""

RESERVED_CAPABILITIES = frozenset(
    "events hashes bigram host_tier window state threads device".split()
)
"""Named for later kinds of caches; declaring one is an error until its rules exist."""


def override(capabilities: Capabilities, changes: dict[str, Any]) -> Capabilities:
    """Return `capabilities` with `changes`, which come from a spec such as
    ``radix?stamps=matched``.

    Raises:
        ValueError: a value is outside its choices.
        msgspec.ValidationError: a value has the wrong type.
    """
    known = msgspec.structs.asdict(capabilities)
    return msgspec.convert(known | changes, Capabilities, strict=False)
