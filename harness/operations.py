"""The words of a trace: operations as closed, frozen data, and the outcomes they may have.

An operation names handles (``h3``) and never slots: slots are drawn anew in each run, so that one
trace can be replayed on any target. Every subset of a valid trace is a valid trace: an operation
whose handle is missing or dead is skipped, and the skip is counted.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

from msgspec import Meta, Struct, field

Tokens: TypeAlias = tuple[int, ...]
Namespace: TypeAlias = tuple[str, ...]


class Operation(
    Struct, frozen=True, tag_field="op", forbid_unknown_fields=True, omit_defaults=True
):
    """One call to a cache. The class is closed: `AnyOperation` lists every kind."""

    @property
    def kind(self) -> str:
        """The name that traces, rules and signatures use, such as ``match_prefix``."""
        return str(self.__struct_config__.tag)


class MatchPrefix(Operation, frozen=True, tag="match_prefix"):
    """Look up the longest stored prefix of `tokens`; keep the answer's handle under `handle`
    (``as`` in a file)."""

    tokens: Tokens
    namespace: Namespace = ()
    handle: str | None = field(default=None, name="as")


class Insert(Operation, frozen=True, tag="insert"):
    """Store `tokens`. With `lent`, the first slots are those that the match behind that handle
    answered."""

    tokens: Tokens
    namespace: Namespace = ()
    priority: int = 0
    lent: str | None = None


class Evict(Operation, frozen=True, tag="evict"):
    """Free at least `num_tokens` tokens, or all that may be freed."""

    num_tokens: Annotated[int, Meta(ge=0, le=2**62)]


class IncRef(Operation, frozen=True, tag="inc_ref"):
    """Lock the prefix behind `handle`. Two calls are two locks."""

    handle: str


class DecRef(Operation, frozen=True, tag="dec_ref"):
    """Give back one lock on the prefix behind `handle`."""

    handle: str


class Reset(Operation, frozen=True, tag="reset"):
    """Forget everything. Every handle dies."""


class Tick(Operation, frozen=True, tag="tick"):
    """Before the next operation the injected clock advances by `delta` instead of 1 (0 holds it,
    below 0 is a step back)."""

    delta: int


class Audit(Operation, frozen=True, tag="audit"):
    """Look at everything once: match each stored leaf key (in an order drawn from `order`), unlock,
    evict all."""

    order: int = 0


AnyOperation: TypeAlias = MatchPrefix | Insert | Evict | IncRef | DecRef | Reset | Tick | Audit

OPERATIONS: dict[str, type[Operation]] = {
    str(kind.__struct_config__.tag): kind
    for kind in (MatchPrefix, Insert, Evict, IncRef, DecRef, Reset, Tick, Audit)
}

RESERVED_OPERATIONS = frozenset(
    """alloc free add_refs admit prefill decode finish abort retract idle slide backup acknowledge
    load_back""".split()
)
"""Kinds of pools, requests, windows and host tiers: named now so that later traces stay
version-compatible."""


class Matched(Struct, frozen=True, tag="matched"):
    """`match_prefix` answered this many tokens, with these slots."""

    length: int
    slots: tuple[int, ...]


class Inserted(Struct, frozen=True, tag="inserted"):
    """`insert` was given these slots and answered how many leading tokens were stored before."""

    existing: int
    slots: tuple[int, ...]
    owned_from: int = 0


class Freed(Struct, frozen=True, tag="freed"):
    """`evict` freed these slots: one group per victim, in order, or a single group where the target
    cannot say."""

    groups: tuple[tuple[int, ...], ...]


class Changed(Struct, frozen=True, tag="changed"):
    """`inc_ref` or `dec_ref` changed the evictable size by `delta` tokens, or did not say."""

    delta: int | None


class Done(Struct, frozen=True, tag="done"):
    """The operation has no answer (`reset`, `tick`)."""


class Skipped(Struct, frozen=True, tag="skipped"):
    """The operation was not tried, and why."""

    reason: str


class Refusal(Struct, frozen=True, tag="refusal"):
    """The target said no, as it may."""

    message: str


class Failure(Struct, frozen=True, tag="failure"):
    """The target raised what it had not declared. `where` is the innermost line of the target's own
    code."""

    error: str
    message: str
    where: str = ""


Outcome: TypeAlias = Matched | Inserted | Freed | Changed | Done | Skipped | Refusal | Failure
