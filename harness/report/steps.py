"""One operation and its outcome, each as a few words."""

from __future__ import annotations

from radixcheck.operations import (
    Changed,
    DecRef,
    Evict,
    Failure,
    Freed,
    IncRef,
    Insert,
    Inserted,
    Matched,
    MatchPrefix,
    Operation,
    Outcome,
    Refusal,
    Skipped,
    Tick,
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
        case _:
            arguments = []
    return f"{operation.kind}({', '.join(arguments)})"


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
        case Skipped(reason):
            return f"skipped: {clean(reason)}"
        case Refusal(message):
            return f"refused: {clean(message)}" if message else "refused"
        case Failure(error, message, where):
            at = f" ({clean(where)})" if where else ""
            return f"raised {clean(error)}: {clean(message)}{at}"
    return "nothing"
