"""Situations that a run of requests must have reached, or it proved nothing."""

from __future__ import annotations

from radixcheck.capabilities import Capabilities
from radixcheck.situations import Situation


def _always(_: Capabilities) -> bool:
    return True


def _paged(can: Capabilities) -> bool:
    return can.page_size > 1


def _keeps_one_copy(can: Capabilities) -> bool:
    return can.duplicates != "both-kept"


def _estimates(can: Capabilities) -> bool:
    return can.evictable_size != "absent"


def _resettable(can: Capabilities) -> bool:
    return can.reset == "present"


def _loses_nothing(can: Capabilities) -> bool:
    return can.interrupted_evict == "loses-nothing"


_TABLE = (
    Situation("queue-reordered", "an order is not that of arrival", None),
    Situation("deferred", "a request waits for one that computes what it needs", None),
    Situation("admitted-without-match", "an admitted request matched nothing", _always),
    Situation("admitted-with-match", "an admitted request is lent slots of the tree's", _always),
    Situation("all-but-the-end-matched", "... for all but its last page or token", _always),
    Situation(
        "match-was-stale",
        "less is stored at the admission than at the match before",
        _always,
        "match evict",
    ),
    Situation("prefix-shared-by-running", "two running requests are lent the same slots", _always),
    Situation("admission-refused", "a request waits because the pool is too full", _estimates),
    Situation("admission-undone", "... or because it is with the request's own lock", None),
    Situation("prompt-in-chunks", "a prompt is computed in several chunks", _always),
    Situation("chunk-ends-inside-page", "a chunk of a prompt ends inside a page", _paged),
    Situation(
        "published-duplicates",
        "a chunk is stored that another request stored meanwhile: the row changes",
        _keeps_one_copy,
    ),
    Situation("decoded-into-page", "a new token goes into a page that has begun", _paged),
    Situation("decoded-into-new-page", "a new token begins a page", _always),
    Situation("evicted-to-allocate", "slots are taken that an eviction brought", _always, "evict"),
    Situation("out-of-memory", "there are too few slots for a running request", _always),
    Situation("out-of-memory-all-locked", "... while every stored token is locked", _estimates),
    Situation("starved", "an alloc is refused although there is enough", _always),
    Situation("finished-at-prefill", "a request ends without a token of its own", _always),
    Situation("finished-after-decode", "a request ends with tokens of its own", _always),
    Situation("finished-with-tail", "... of which some fill no page", _paged),
    Situation(
        "finished-with-duplicates",
        "... of which another request has stored some meanwhile",
        _keeps_one_copy,
    ),
    Situation("aborted-while-waiting", "a request goes away before it was admitted", _always),
    Situation("aborted-after-lock", "... before it has computed anything", _always),
    Situation("aborted-between-chunks", "... between two chunks of its prompt", _always),
    Situation("aborted-after-prefill", "... after its prompt", _always),
    Situation("aborted-while-decoding", "... after a token of its own", _always),
    Situation("aborted-while-shared", "... while another is lent the same slots", _always),
    Situation("retracted", "a running request goes back to the queue", _always),
    Situation("rematched-longer", "... and matches more than it did at first", _always),
    Situation("rematched-shorter", "... or less", _always, "evict"),
    Situation("evicted-under-running", "something is evicted while requests run", _always, "evict"),
    Situation(
        "eviction-interrupted",
        "the pool raises in the midst of an eviction",
        _loses_nothing,
        "evict",
    ),
    Situation("reset-in-flight", "the cache is reset while requests run", _resettable, "reset"),
    Situation("slots-reused", "a slot goes to another request than the last time", _always),
    Situation("idle", "nothing runs, and everything is evicted", _always),
    Situation("audit", "everybody is ended, and nothing is left", _always),
)

SITUATIONS: dict[str, Situation] = {situation.name: situation for situation in _TABLE}
"""Those of requests. Of the queue none is required, as a server may know one order only."""
