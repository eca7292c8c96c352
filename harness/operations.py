"""The words of a trace: operations as closed, frozen data, and the outcomes they may have.

An operation names handles (``h3``) and never slots: slots are drawn anew in each run, so that one
trace can be replayed on any target. Every subset of a valid trace is a valid trace: an operation
whose handle is missing or dead is skipped, and the skip is counted.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias, get_args

from msgspec import Meta, Struct, field

Tokens: TypeAlias = tuple[int, ...]
Namespace: TypeAlias = tuple[str, ...]
Count: TypeAlias = Annotated[int, Meta(ge=0, le=2**62)]
QueueOrder: TypeAlias = Literal["fcfs", "random", "lpm", "weight"]


class Operation(
    Struct, frozen=True, tag_field="op", forbid_unknown_fields=True, omit_defaults=True
):
    """One call to a target. The class is closed: `AnyOperation` lists every kind."""

    @property
    def kind(self) -> str:
        """The name that traces, rules and signatures use, such as ``match_prefix``."""
        return str(self.__struct_config__.tag)


# Trees.


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

    num_tokens: Count


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
    """Look at everything once. Tree: match each stored leaf key (in an order drawn from `order`),
    unlock, evict all. Pool: give all back, and take every slot once. Requests: end all, go idle."""

    order: int = 0


class Weigh(Operation, frozen=True, tag="weigh"):
    """Count the bytes of memory that hang on the target. What lies between two of these is a
    round."""


# Pools. Amounts are tokens; a pool of pages gets them rounded up to whole pages.


class Alloc(Operation, frozen=True, tag="alloc"):
    """Take slots for `num_tokens` tokens, and keep them under `handle` (``as`` in a file)."""

    num_tokens: Count
    handle: str | None = field(default=None, name="as")


class Free(Operation, frozen=True, tag="free"):
    """Give back places ``[start, stop)`` of what an alloc answered, each slot listed `times` times
    in the one call.

    Without a handle, give back what was never handed out: a reserved slot, or one past the end.
    """

    handle: str | None = None
    start: Count = 0
    stop: Count | None = None
    times: Annotated[int, Meta(ge=1, le=16)] = 1


class AddRefs(Operation, frozen=True, tag="add_refs"):
    """Count one holder more for places ``[start, stop)`` of what an alloc answered."""

    handle: str
    start: Count = 0
    stop: Count | None = None


# Requests. `request` is a name such as ``r3``, which no second request of the trace has.


class Arrive(Operation, frozen=True, tag="arrive"):
    """A request joins the end of the waiting queue. It may generate `max_new_tokens` tokens."""

    request: str
    tokens: Tokens
    max_new_tokens: Count = 0
    namespace: Namespace = ()


class Schedule(Operation, frozen=True, tag="schedule"):
    """Match every waiting request, and put the queue in this order; `draw` decides a random one."""

    order: QueueOrder = "fcfs"
    draw: Count = 0


class MatchRequest(Operation, frozen=True, tag="match"):
    """Look up what is stored of a waiting request's tokens, without a lock."""

    request: str


class Admit(Operation, frozen=True, tag="admit"):
    """Lock what a waiting request matched and let it run, or leave it in the queue if the pool is
    too full. Without a name it is the head of the queue."""

    request: str = ""


class Prefill(Operation, frozen=True, tag="prefill"):
    """Compute the next `num_tokens` tokens of a running request's prompt, or what is left of it,
    and store them."""

    request: str
    num_tokens: Count = 2**62


class Decode(Operation, frozen=True, tag="decode"):
    """Sample `token` for a running request whose prompt is computed. The token sampled before gets
    its slot now; the last one of a sequence never has one."""

    request: str
    token: int = 0


class Finish(Operation, frozen=True, tag="finish"):
    """A running request is done: store what it computed, free the duplicates, unlock."""

    request: str


class Abort(Operation, frozen=True, tag="abort"):
    """A request goes away, wherever it is in its life; nothing more of it is stored."""

    request: str


class Retract(Operation, frozen=True, tag="retract"):
    """A running request releases what it holds and goes back to the head of the queue, with the
    tokens that it has sampled."""

    request: str


class Starve(Operation, frozen=True, tag="starve"):
    """The pool refuses the next `count` allocs, however much is free."""

    count: Count = 1


class Interrupt(Operation, frozen=True, tag="interrupt"):
    """Once, in a call that evicts, the pool raises an error of the caller's instead of taking slots
    back; `after` earlier frees of that call are taken."""

    after: Count = 0


class Idle(Operation, frozen=True, tag="idle"):
    """Nothing runs: every slot must be free or the tree's. Evict all: every slot must be free."""


AnyOperation: TypeAlias = (
    MatchPrefix
    | Insert
    | Evict
    | IncRef
    | DecRef
    | Reset
    | Tick
    | Audit
    | Weigh
    | Alloc
    | Free
    | AddRefs
    | Arrive
    | Schedule
    | MatchRequest
    | Admit
    | Prefill
    | Decode
    | Finish
    | Abort
    | Retract
    | Starve
    | Interrupt
    | Idle
)

OPERATIONS: dict[str, type[Operation]] = {
    str(kind.__struct_config__.tag): kind for kind in get_args(AnyOperation)
}

RESERVED_OPERATIONS = frozenset("slide backup acknowledge load_back".split())
"""Kinds of windows and host tiers: named now so that later traces stay version-compatible."""


# Outcomes.


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


class Allocated(Struct, frozen=True, tag="allocated"):
    """`alloc` answered these slots; `prefill` and `decode` took them for the request."""

    slots: tuple[int, ...]


class Returned(Struct, frozen=True, tag="returned"):
    """`free` or `add_refs` was called with these slots."""

    slots: tuple[int, ...]


class Row(Struct, frozen=True, tag="row"):
    """The request's row names these slots; the first `matched` of them are the tree's, lent."""

    slots: tuple[int, ...]
    matched: int = 0


class Queued(Struct, frozen=True, tag="queued"):
    """`schedule` put the waiting requests in this order."""

    requests: tuple[str, ...]


class Weighed(Struct, frozen=True, tag="weighed"):
    """So many bytes hung on the target, while it stored so many tokens."""

    num_bytes: int
    stored: int


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


class Unanswered(Struct, frozen=True, tag="unanswered"):
    """No answer came, and none ever will: how the process ended that made the call."""

    how: str


Outcome: TypeAlias = (
    Matched
    | Inserted
    | Freed
    | Changed
    | Allocated
    | Returned
    | Row
    | Queued
    | Weighed
    | Done
    | Skipped
    | Refusal
    | Failure
    | Unanswered
)
