"""The waiting queue of a server: four orders, the estimate of new tokens, admission, deferral.

Everything here is a function of data that the engine has in hand. An order is a freedom where it
leaves ties, so `contradiction` judges what somebody arranged by what the order promises, and never
by comparing it with what `arrange` would have answered.

The orders and the estimate are those of the first SGLang scheduler (January 2024), deferral is that
of SGLang #2442 (December 2024).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby, pairwise
from os.path import commonprefix
from random import Random
from typing import Any, NamedTuple, TypeAlias

from radixcheck.operations import Namespace, QueueOrder, Tokens

NEW_TOKEN_RATIOS: dict[QueueOrder, float] = {"fcfs": 0.5, "random": 0.5, "lpm": 0.4, "weight": 0.4}
"""Of the tokens that the running requests may still generate, the share that is expected. The
orders that know the cache are the bolder ones."""


class Waiting(NamedTuple):
    """A request in the queue, as its last match left it."""

    request: str
    prompt: Tokens
    max_new_tokens: int = 0
    namespace: Namespace = ()
    matched: int = 0
    """Tokens of the prompt that the cache has."""

    @property
    def path(self) -> tuple[Any, ...]:
        """The way from the root of all namespaces to the node in which the match ended."""
        return self.namespace, *self.prompt[: self.matched]


Queue: TypeAlias = Sequence[Waiting]

# ------------------------------------------------------------------------------ the orders


def arrange(queue: Queue, order: QueueOrder, seed: int = 0) -> list[Waiting]:
    """Return `queue`, which is in order of arrival, in the order in which it is to be served."""
    match order:
        case "fcfs":
            return list(queue)
        case "random":
            return Random(seed).sample(queue, len(queue))
        case "lpm":
            return sorted(queue, key=lambda waiting: -waiting.matched)
        case "weight":
            return _depth_first(queue)


def _depth_first(queue: Queue) -> list[Waiting]:
    """Visit the heavier subtree first, and at each node those below before its own::

    root --1 2--> (a) --3--> (b, c)         2 waiting below 1 2 3, 3 below 1 2
         --7----> (d)                       1 below 7: b c a d
    """
    own, children = _subtrees(queue)
    children.sort(key=len, reverse=True)
    return [waiting for child in children for waiting in _depth_first(child)] + own


def _subtrees(queue: Queue) -> tuple[list[Waiting], list[list[Waiting]]]:
    """Return who waits at the node that all of `queue` has in common, and at each node below."""
    depth = len(commonprefix([waiting.path for waiting in queue]))
    own = [waiting for waiting in queue if len(waiting.path) == depth]
    children: dict[Any, list[Waiting]] = {}
    for waiting in queue:
        if len(waiting.path) > depth:
            children.setdefault(waiting.path[depth], []).append(waiting)
    return own, list(children.values())


# ------------------------------------------------------------------------ judging an order


def contradiction(order: QueueOrder, queue: Queue, arranged: Queue) -> str | None:
    """Say how `arranged` fails to be `queue` in this order; None if it is."""
    if strangers := _difference(arranged, queue):
        return f"{strangers} not in the queue, or twice"
    if lost := _difference(queue, arranged):
        return f"{lost} lost from the queue"
    match order:
        case "fcfs":
            return None if list(queue) == list(arranged) else "not in order of arrival"
        case "lpm":
            return _shorter_first(arranged)
        case "weight":
            return _not_depth_first(arranged)
    return None


def _difference(some: Queue, others: Queue) -> str:
    surplus = Counter(some) - Counter(others)
    return ", ".join(waiting.request for waiting in surplus)


def _shorter_first(arranged: Queue) -> str | None:
    for one, other in pairwise(arranged):
        if one.matched < other.matched:
            return f"{one.request} matched {one.matched} tokens, {other.request} {other.matched}"
    return None


def _not_depth_first(arranged: Queue) -> str | None:
    """Say where a subtree is torn apart, or goes before a heavier sibling."""
    if len(arranged) < 2:
        return None
    runs = _runs(arranged)
    ways = [way for way, _ in runs]
    for place, (way, run) in enumerate(runs):
        if way in ways[:place]:
            return f"{run[0].request} apart from its subtree"
        if not way and 0 < place < len(runs) - 1:
            return f"{run[0].request} in the midst of the subtrees below it"
    below = [run for way, run in runs if way]
    for one, other in pairwise(below):
        if len(one) < len(other):
            return f"{one[0].request} of {len(one)} before {other[0].request} of {len(other)}"
    return next(filter(None, map(_not_depth_first, below)), None)


def _runs(arranged: Queue) -> list[tuple[tuple[Any, ...], list[Waiting]]]:
    """Cut `arranged` where the subtree changes, as seen from the node that all have in common.

    Each run comes with the first step of the way down to it; the node's own has none.
    """
    depth = len(commonprefix([waiting.path for waiting in arranged]))
    steps = groupby(arranged, lambda waiting: waiting.path[depth : depth + 1])
    return [(way, list(run)) for way, run in steps]


# ------------------------------------------------------------------------------- admission


def room(free: int, evictable: int, may_generate: Iterable[int], order: QueueOrder) -> float:
    """Return the tokens that a new batch may claim.

    Args:
        free: slots that the pool has.
        evictable: slots that an eviction would bring.
        may_generate: the most tokens that each running request may still generate.
        order: the more it knows of the cache, the less it sets aside for those.
    """
    return free + evictable - NEW_TOKEN_RATIOS[order] * sum(may_generate)


def fits(claim_tokens: int, room_tokens: float, claimed_tokens: int) -> bool:
    """Tell whether a request may join a batch that has claimed so much of the room already.

    Asked twice: before the lock, and again once the lock on what it matched has made the room
    smaller by the change that `inc_ref` reports.
    """
    return claim_tokens + claimed_tokens < room_tokens


def claim(to_compute: int, may_generate: int) -> int:
    """Return the tokens that a request claims: what it must compute, and all it may generate."""
    return to_compute + may_generate


def deferred(queue: Queue, page_size: int) -> set[str]:
    """Name the requests that had better wait a round.

    What they share with one before them in the queue, but not yet in the cache, fills at least a
    page: once that one is computed they will hit.
    """
    late: set[str] = set()
    computed: list[Waiting] = []
    for waiting in queue:
        if any(_shared(waiting, other) - waiting.matched >= page_size for other in computed):
            late.add(waiting.request)
        else:
            computed.append(waiting)
    return late


def _shared(one: Waiting, other: Waiting) -> int:
    if one.namespace != other.namespace:
        return 0
    return len(commonprefix([one.prompt, other.prompt]))
