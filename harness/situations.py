"""Situations that a run must have reached, or it proved nothing: what one is, and those of trees.

Each is reached by an operation of the trace as the model sees it, whatever the target does. A run
counts them, prints the table, and is not green while a required one is missing. Required are those
that the target's capabilities and the run's configuration make possible.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from msgspec import Struct

from radixcheck.capabilities import Capabilities
from radixcheck.reference.eviction import is_judged

Applies: TypeAlias = Callable[[Any], bool]
"""Asked with the capabilities of a target."""


class Situation(Struct, frozen=True):
    """A place where caches have failed before."""

    name: str
    statement: str
    applies: Applies | None
    """Whether such a target must reach it in a good run; None where that depends on what the target
    chooses."""
    needs: str = ""
    """The operations without which a target cannot reach it."""


def _always(_: Capabilities) -> bool:
    return True


def _paged(capabilities: Capabilities) -> bool:
    return capabilities.page_size > 1


def _named(capabilities: Capabilities) -> bool:
    return capabilities.namespaces != "absent"


def _resettable(capabilities: Capabilities) -> bool:
    return capabilities.reset == "present"


def _injected(capabilities: Capabilities) -> bool:
    return capabilities.clock != "own"


def _counting(capabilities: Capabilities) -> bool:
    return is_judged(capabilities) and capabilities.eviction in ("lfu", "slru", "priority")


def _tieable(capabilities: Capabilities) -> bool:
    return _counting(capabilities) or (is_judged(capabilities) and _injected(capabilities))


def _steps(capabilities: Capabilities) -> bool:
    return capabilities.clock == "injected-steps"


def _prioritised(capabilities: Capabilities) -> bool:
    return capabilities.priorities == "present"


def _misusable(capabilities: Capabilities) -> bool:
    return capabilities.misuse != "unspecified"


def _lasting(capabilities: Capabilities) -> bool:
    return capabilities.idle_handles == "until-evicted"


_TABLE = (
    Situation("match-misses", "a match finds nothing", _always),
    Situation("match-whole-key", "a match finds its whole key", _always),
    Situation(
        "match-ends-inside-edge",
        "a match ends where no operation ended before, in the middle of a run",
        _always,
    ),
    Situation("match-parts-inside-edge", "... because the key goes on differently there", _always),
    Situation("edge-split", "an insert grows a branch in the middle of a run", _always),
    Situation(
        "split-under-lock", "an edge is cut while a lock covers both parts", _always, "inc_ref"
    ),
    Situation("insert-extends-leaf", "an insert goes on where a leaf ends", _always),
    Situation("insert-stored-key", "an insert finds its whole key stored", _always),
    Situation(
        "insert-prefix-of-stored",
        "an insert's key is the beginning of a longer stored key",
        _always,
    ),
    Situation(
        "insert-without-match",
        "an insert finds part of its key stored, and no match lent it",
        _always,
    ),
    Situation("insert-after-match", "an insert hands back slots that a match lent it", _always),
    Situation("empty-key", "a key has no token", _always),
    Situation("long-key", "a key has more than 100 tokens", _always),
    Situation(
        "slots-reused", "a slot that came back is handed out for another prefix", _always, "evict"
    ),
    Situation(
        "reinserted-after-eviction",
        "the prefix of a handle that died is stored again",
        _always,
        "evict",
    ),
    Situation(
        "lock-nested", "a lock covers a prefix that another lock covers already", _always, "inc_ref"
    ),
    Situation("lock-twice", "one handle is locked twice", _always, "inc_ref"),
    Situation("lock-late", "a handle is locked long after its match", _lasting, "inc_ref"),
    Situation(
        "handle-of-empty-match", "the handle of a match of length 0 is locked", _always, "inc_ref"
    ),
    Situation("evict-nothing", "an eviction is asked for 0 tokens", _always, "evict"),
    Situation("evict-empty-cache", "an eviction meets an empty cache", _always, "evict"),
    Situation(
        "evict-more-than-there-is",
        "an eviction is asked for more than is evictable",
        _always,
        "evict",
    ),
    Situation(
        "evict-all-locked",
        "an eviction meets a cache in which everything is locked",
        _always,
        "inc_ref evict",
    ),
    Situation(
        "evict-spares-locked",
        "an eviction frees something while a lock protects something else",
        _always,
        "inc_ref evict",
    ),
    Situation(
        "eviction-cascades",
        "a parent is evicted after its last child, in one eviction",
        _always,
        "evict",
    ),
    Situation("eviction-overshoots", "an eviction frees more than was asked for", None),
    Situation(
        "victim-had-a-rival",
        "an eviction chooses while another unlocked leaf survives",
        is_judged,
        "evict",
    ),
    Situation(
        "tie-in-policy-key", "a victim and a survivor have the same policy key", _tieable, "evict"
    ),
    Situation(
        "page-boundary-divergence",
        "a key parts from what is stored exactly between two pages",
        _paged,
    ),
    Situation("divergence-inside-page", "a key parts from what is stored inside a page", _paged),
    Situation("shorter-than-page", "a key does not fill a page", _paged),
    Situation("unaligned-tail", "an inserted key has a tail that fills no page", _paged),
    Situation(
        "stored-in-other-namespace", "a match asks for what only another namespace stores", _named
    ),
    Situation(
        "priorities-differ", "a stored key is inserted again with another priority", _prioritised
    ),
    Situation("reset", "the cache is reset while it stores something", _resettable),
    Situation(
        "reset-under-lock", "the cache is reset while a lock is held", _resettable, "inc_ref"
    ),
    Situation("clock-tied", "two operations happen at the same reading", _injected),
    Situation("clock-ran-back", "the clock is set back", _steps),
    Situation("misuse", "a call is made that no caller should make", _misusable, "inc_ref"),
    Situation("audit", "everything stored is matched, unlocked and evicted", _always),
)

SITUATIONS: dict[str, Situation] = {situation.name: situation for situation in _TABLE}
"""Those of trees."""
