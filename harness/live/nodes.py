"""What is stored at one moment, and the calls that would store it again.

A recording that keeps only the last calls begins in mid-life. So that it can be replayed, it begins
with what was stored then: every leaf is inserted, in the order in which leaves were last used, and
what was locked is matched and locked right then::

    stored    root --- a --- b*  used at 7         insert a b, match a b as h1, lock h1
                        `--- c   used at 9         insert a c
              * one lock

How often an entry was hit, and when it was first stored, is not brought back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any, NamedTuple

from radixcheck.live.tape import Called

MOST_TOKENS = 8_000_000
"""So many tokens may be written to store again what was stored; what was used longest ago stays
out."""


class Node(NamedTuple):
    """One edge of a living tree, and the prefix that ends with it."""

    tokens: Sequence[Any]
    """The tokens of the edge alone."""
    parent: int | None = None
    """Index of the node above in the same list; None below a root."""
    handles: Sequence[tuple[Any, int]] = ()
    """What matches of exactly this prefix answered, and the locks that each holds."""
    used: float = 0
    """When it was last used, in any unit that grows."""
    namespace: Any = ()
    slots: Any = ()
    """One per token, where somebody is going to judge them."""
    priority: int = 0


class _Stored:
    """Which nodes are stored again so far, and the whole keys of all."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = nodes
        self._done: set[int] = set()
        self.children: dict[int, list[int]] = {}
        for place, node in enumerate(nodes):
            if node.parent is not None:
                self.children.setdefault(node.parent, []).append(place)

    def path(self, place: int) -> list[int]:
        """Return the nodes from the root down to `place`."""
        found: list[int] = []
        at: int | None = place
        while at is not None:
            found.append(at)
            at = self._nodes[at].parent
        return found[::-1]

    def add(self, path: Sequence[int]) -> int:
        """Note that all of `path` is stored; return how many tokens of it were before."""
        known = sum(len(self._nodes[at].tokens) for at in path if at in self._done)
        self._done.update(path)
        return known

    def has(self, place: int) -> bool:
        """Tell whether a node is stored, because it or one below it was inserted."""
        return place in self._done

    def joined(self, path: Sequence[int], field: str) -> list[Any]:
        """Join the tokens or the slots of a path."""
        return [each for at in path for each in getattr(self._nodes[at], field)]


def stored_again(nodes: Sequence[Node], most_tokens: int = MOST_TOKENS) -> Iterator[Called]:
    """Yield the calls after which a fresh cache stores, orders and locks what `nodes` do."""
    stored = _Stored(nodes)
    for place in _called_by_name(nodes, stored, most_tokens):
        path, node = stored.path(place), nodes[place]
        tokens, slots = stored.joined(path, "tokens"), stored.joined(path, "slots")
        known = stored.has(place)
        if not known:
            given = (tokens, slots, node.namespace, node.priority, 0)
            yield "insert", given, stored.add(path), None
        for handle, locks in node.handles or ([(None, 0)] if known else []):
            answer = len(tokens), slots, handle
            yield "match_prefix", (tokens, node.namespace), answer, None
            for _ in range(locks):
                yield "inc_ref", (handle,), None, None


def _called_by_name(nodes: Sequence[Node], stored: _Stored, most_tokens: int) -> Sequence[int]:
    """Return which nodes must be called by name, the least recently used first.

    A node with several children comes about by storing them. One that was used later than all below
    it was matched itself, one with a single child is an edge that was cut, and one with a
    handle is matched for it.
    """
    named = []
    for place, node in enumerate(nodes):
        below = stored.children.get(place, ())
        used_below = max((nodes[child].used for child in below), default=0)
        if node.handles or len(below) < 2 or node.used > used_below:
            named.append(place)
    depths = _depths(nodes)
    named.sort(key=lambda place: (nodes[place].used, depths[place]))
    left = most_tokens
    for number, place in zip(count(1), reversed(named), strict=False):
        left -= depths[place]
        if left < 0:
            return named[len(named) - number + 1 :]
    return named


def _depths(nodes: Sequence[Node]) -> list[int]:
    """Return the tokens of each node's whole prefix; parents come first in a list of nodes."""
    depths: list[int] = []
    for node in nodes:
        depths.append(len(node.tokens) + (0 if node.parent is None else depths[node.parent]))
    return depths
