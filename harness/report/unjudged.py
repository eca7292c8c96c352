"""The rules that a target's promises rule out, with the reason, and with what to promise instead.

A rule that does not apply is shown as such, never as passed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias

from radixcheck.rules import RULES


class Promises(NamedTuple):
    """All that decides which rules apply."""

    capabilities: Any
    """What the target promises, in the words of its level."""
    methods: frozenset[str]
    """The optional methods that the target has."""
    misuse: bool
    """Whether the run makes calls that no caller should make, whatever the target promises."""
    level: str = "tree"


class Unjudged(NamedTuple):
    """A rule that does not apply, or only in part."""

    rule: str
    reason: str
    hint: str = ""


Excuse: TypeAlias = Callable[[Promises], bool]
Row: TypeAlias = tuple[tuple[str, ...], Excuse, str, str]
"""Rules, when they do not apply, why, and what to promise instead."""

EVICTION_RULES = (
    "evicted-locked",
    "evicted-unknown",
    "under-evicted",
    "over-evicted",
    "orphaned-suffix",
    "leaked-slot",
    "eviction-order",
)
LOCK_RULES = ("evicted-locked", "handle-mismatch", "lock-underflow", "delta-mismatch")


def _lacks(method: str) -> Excuse:
    return lambda promises: method not in promises.methods


def _promises(**values: object) -> Excuse:
    def excuse(promises: Promises) -> bool:
        can = promises.capabilities
        return all(getattr(can, name) == value for name, value in values.items())

    return excuse


def _own_order(promises: Promises) -> bool:
    can = promises.capabilities
    return can.clock == "own" and can.resolution_s is None


def _unmergeable_order(promises: Promises) -> bool:
    can = promises.capabilities
    if can.edges == "cut-only":
        return False
    return can.eviction in ("mru", "fifo", "filo") or not can.match_splits


def _no_size(promises: Promises) -> bool:
    sizes = ("evictable_size", "protected_size", "total_size")
    can = promises.capabilities
    return not any(getattr(can, size) != "absent" and size in promises.methods for size in sizes)


def _no_misuse(promises: Promises) -> bool:
    return promises.capabilities.misuse == "unspecified" and not promises.misuse


_OF_TREES: tuple[Row, ...] = (
    (EVICTION_RULES, _lacks("evict"), "there is no evict", "write evict(num_tokens)"),
    (LOCK_RULES, _lacks("inc_ref"), "there is no inc_ref", "write inc_ref and dec_ref"),
    (
        ("namespace-leak",),
        _promises(namespaces="absent"),
        "it has no namespaces",
        'namespaces="one"',
    ),
    (("unaligned-match",), _promises(page_size=1), "every length fills pages of 1", ""),
    (("orphaned-suffix",), _promises(closed=False), "a child may outlive its parent", ""),
    (
        ("eviction-order",),
        _promises(eviction="unspecified"),
        "it promises no policy",
        'eviction="lru"',
    ),
    (("eviction-order",), _promises(closed=False), "a child may outlive its parent", ""),
    (("eviction-order",), _unmergeable_order, "merged edges hide what was stamped", ""),
    (
        ("eviction-order",),
        _own_order,
        "its own clock has no known resolution, so ages hardly ever surely differ",
        "take `clock`, or promise resolution_s=0 for a counter, else the seconds of a tick",
    ),
    (("size-drift",), _no_size, "it tells no size", "write evictable_size()"),
    (("delta-mismatch",), _promises(deltas="absent"), "locks tell no change", 'deltas="present"'),
    (
        ("lock-underflow",),
        _no_misuse,
        "it promises no answer to misuse",
        'misuse="raises", or --misuse',
    ),
    (("structure",), _promises(dump="absent"), "it shows no nodes", 'dump="present"'),
    (
        ("retained-storage",),
        _promises(storage="absent"),
        "its memory cannot be looked at",
        'storage="present"',
    ),
    (
        ("nondeterminism",),
        _promises(deterministic=False),
        "it does not promise the same answers twice",
        "deterministic=True",
    ),
)

_OF_POOLS: tuple[Row, ...] = (
    (("partial-page",), _promises(page_size=1), "every slot is a page", ""),
    (("alloc-order",), _promises(ordered=False), "it promises no order", "ordered=True"),
    (
        ("retained-storage",),
        _promises(storage="absent"),
        "its memory cannot be looked at",
        'storage="present"',
    ),
    (
        ("size-drift", "refused-with-effect"),
        _lacks("available_size"),
        "it tells no size",
        "write available_size()",
    ),
    (
        ("double-free",),
        _no_misuse,
        "it promises no answer to misuse, so only what it frees by itself is judged",
        'misuse="raises", or --misuse',
    ),
    (
        ("nondeterminism",),
        _promises(deterministic=False),
        "it does not promise the same answers twice",
        "deterministic=True",
    ),
)

_OF_REQUESTS: tuple[Row, ...] = (
    (("unaligned-match",), _promises(page_size=1), "every length fills pages of 1", ""),
    (
        ("over-evicted",),
        _promises(duplicates="both-kept"),
        "it keeps copies, and whose the freed ones are is not known",
        "",
    ),
    (
        ("leaked-slot",),
        _lacks("evict"),
        "there is no evict, so only what a request leaves behind is judged",
        "write evict(num_tokens)",
    ),
    (
        ("leaked-slot",),
        _promises(interrupted_evict="unspecified"),
        "it promises nothing after an error in the midst of an eviction, so none is interrupted",
        'interrupted_evict="loses-nothing"',
    ),
    (
        ("nondeterminism",),
        _promises(deterministic=False),
        "it does not promise the same answers twice",
        "deterministic=True",
    ),
)

_TABLES: dict[str, tuple[Row, ...]] = {
    "tree": _OF_TREES,
    "pool": _OF_POOLS,
    "requests": _OF_REQUESTS,
}


def unjudged(promises: Promises) -> Iterator[Unjudged]:
    """Yield each rule that does not apply under `promises`, once, with the first reason."""
    seen: set[str] = set()
    for rules, excuse, reason, hint in _TABLES.get(promises.level, ()):
        if excuse(promises):
            yield from (Unjudged(rule, reason, hint) for rule in rules if rule not in seen)
            seen.update(rules)


def unjudged_in(sweep: Iterable[Promises]) -> list[tuple[Unjudged, int]]:
    """Collect what does not apply in a sweep, and in how many of its configurations."""
    return list(Counter(each for promises in sweep for each in unjudged(promises)).items())


_SHARED: dict[str, str] = {
    "pool": """length-mismatch mutated-argument leaked-slot retained-storage refused-with-effect
    size-drift nondeterminism unexpected-error""",
    "requests": """phantom-prefix unaligned-match length-mismatch double-free double-owner
    outside-pool partial-page leaked-slot refused-with-effect size-drift over-evicted nondeterminism
    unexpected-error""",
}
"""The rules of lower levels that a level judges too."""


def rules_of(level: str) -> list[str]:
    """Name the rules that are judged at a level, whatever the target promises. What only a worker
    or the device's allocator can tell is not among them."""
    shared = _SHARED.get(level, "retained-storage").split()
    return [name for name, rule in RULES.items() if rule.level == level or name in shared]


def judged_in(sweep: Iterable[Promises]) -> list[str]:
    """Name the rules that apply in at least one configuration of a sweep."""
    applied = {
        rule
        for promises in sweep
        for rule in {*rules_of(promises.level)} - {each.rule for each in unjudged(promises)}
    }
    return [name for name in RULES if name in applied]
