"""One operation and its outcome, each as a few words."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from radixcheck.operations import (
    AddRefs,
    Alloc,
    Allocated,
    Changed,
    DecRef,
    Evict,
    Failure,
    Free,
    Freed,
    IncRef,
    Insert,
    Inserted,
    Matched,
    MatchPrefix,
    Operation,
    Outcome,
    Queued,
    Refusal,
    Returned,
    Row,
    Skipped,
    Tick,
    Unanswered,
    Weighed,
)
from radixcheck.report.words import clean, counted, show_slots, show_tokens


def show_operation(operation: Operation) -> str:
    """Write a call as ``match_prefix([1, 2], namespace=('a',))``."""
    match operation:
        case MatchPrefix(tokens, namespace):
            arguments = [show_tokens(tokens), *_given(namespace=namespace)]
        case Insert(tokens, namespace, priority, lent):
            given = _given(namespace=namespace, priority=priority, lent=lent)
            arguments = [show_tokens(tokens), *given]
        case Evict(number) | Tick(number):
            arguments = [str(number)]
        case IncRef(handle) | DecRef(handle):
            arguments = [clean(handle)]
        case Alloc(number):
            arguments = [str(number)]
        case Free(handle, start, stop, times):
            arguments = [_part(handle, start, stop), *_given(times=times if times > 1 else 0)]
        case AddRefs(handle, start, stop):
            arguments = [_part(handle, start, stop)]
        case _:
            arguments = list(_fields(operation))
    return f"{operation.kind}({', '.join(arguments)})"


def _part(handle: str | None, start: int, stop: int | None) -> str:
    """Write ``h1``, ``h1[2:]``, ``h1[2:4]``, or what stands for slots of nobody."""
    if handle is None:
        return "outside the pool"
    places = f"[{start or ''}:{'' if stop is None else stop}]" if start or stop is not None else ""
    return f"{clean(handle)}{places}"


def _fields(operation: Operation) -> Iterator[str]:
    """Write what an operation says, its defaults left out."""
    for name, value in msgspec.to_builtins(operation).items():
        if name in ("op", "request"):
            yield from [clean(value)] if name == "request" else ()
        else:
            yield f"{name}={show_tokens(value) if name == 'tokens' else clean(repr(value))}"


def _given(**arguments: object) -> list[str]:
    return [f"{name}={clean(repr(value))}" for name, value in arguments.items() if value]


def show_outcome(outcome: Outcome) -> str:
    """Say what came back."""
    match outcome:
        case Matched(length, slots):
            return f"{counted(length, 'token')}, slots {show_slots(slots)}"
        case Inserted(existing, slots, owned_from):
            lent = f", of which {owned_from} were lent" if owned_from else ""
            before = f"{counted(existing, 'token')} stored before"
            return f"{before}; given slots {show_slots(slots)}{lent}"
        case Freed(groups):
            return f"freed slots {', then '.join(map(show_slots, groups)) or 'none'}"
        case Changed(delta):
            return "nothing" if delta is None else f"the evictable size changed by {delta}"
        case Allocated(slots):
            return f"slots {show_slots(slots)}"
        case Returned(slots):
            return f"nothing; given slots {show_slots(slots)}"
        case Row(slots, matched):
            lent = f", of which {matched} are the tree's" if matched else ""
            return f"the row names slots {show_slots(slots)}{lent}"
        case Queued(requests):
            return f"the queue is {clean(', '.join(requests))}" if requests else "an empty queue"
        case Weighed(num_bytes, stored):
            return f"{counted(num_bytes, 'byte')} of memory, {counted(stored, 'token')} stored"
        case Skipped(why) | Unanswered(why):
            return f"{'skipped' if isinstance(outcome, Skipped) else 'none'}: {clean(why)}"
        case Refusal(message):
            return f"refused: {clean(message)}" if message else "refused"
        case Failure(error, message, where):
            at = f" ({clean(where)})" if where else ""
            return f"raised {clean(error)}: {clean(message)}{at}"
    return "nothing"
