"""The data of the model: positions, each a prefix that some operation ended at, and what the
operations did there.

A position holds the pages between the position above and its own end. It knows nothing of the edges
of a target: it is cut wherever an operation ends, never merged, and never moved. What a target may
have done to the edge around a position is worked out in `radixcheck.reference.eviction`, and only
when an eviction asks.
"""

from __future__ import annotations

from collections.abc import Iterator

from radixcheck.operations import Tokens

NEVER = float("-inf")


class Uses:
    """What the operations that *ended* at a position did.

    An operation passes through every position above the one where it ends, yet only the end is
    written down: what passed through a position is what ended at it or below. When a leaf is
    evicted, its parent absorbs its uses.
    """

    __slots__ = (
        "brushed",
        "inserts",
        "matches",
        "passed",
        "priority",
        "stirred",
        "stirred_priority",
        "stirs",
        "touched",
    )

    def __init__(self) -> None:
        self.touched: float = NEVER
        """Clock reading of the last match or insert."""
        self.inserts = 0
        self.matches = 0
        self.passed = 0
        """Hits of children that are gone: they passed through, and may have counted here too."""
        self.priority: float = NEVER
        """Largest priority of an insert."""
        self.brushed: float = NEVER
        """Reading of the last lock or unlock, which may have stamped too."""
        self.stirred: float = NEVER
        """Reading of the last operation that ended just above, and may have stamped the edge that
        goes on here."""
        self.stirs = 0
        self.stirred_priority: float = NEVER


class Position:
    """A stored prefix of whole pages, of which it holds the last ones: its run."""

    __slots__ = (
        "children",
        "copies",
        "cover",
        "created",
        "handles",
        "length",
        "maybe",
        "merged_over",
        "parent",
        "queued",
        "run",
        "slots",
        "uses",
    )

    def __init__(
        self,
        parent: Position | None,
        run: Tokens,
        slots: list[int],
        length: int,
        created: float,
    ) -> None:
        self.parent = parent
        """The next shorter position; None for a root, which stores nothing."""
        self.run = run
        """The tokens between the parent's end and this one's: whole pages."""
        self.slots = slots
        """One slot per token of the run; empty for a root, and for a hollow position whose page
        was evicted alone."""
        self.length = length
        """Tokens of the whole prefix."""
        self.copies: tuple[list[int], ...] = ()
        """Further copies of the run, where duplicates are kept."""
        self.children: dict[Tokens, Position] = {}
        """By the first page of their run."""
        self.created = created
        self.cover = 0
        """Locks that end here, plus children with a cover of their own: not 0 means locked."""
        self.maybe = 0
        """Locks that may reach down to here, although their handle ends above."""
        self.merged_over = False
        """Whether it was ever left with one child, and so may lie inside a merged edge."""
        self.uses: Uses | None = None
        self.handles: list[Handle] | None = None
        """Handles that die with this position."""
        self.queued: tuple[float, float] | None = None
        """The key under which the eviction order has this leaf in its queue."""


class Handle:
    """What `match_prefix` gave out: it denotes the prefix that ends at `end`, whatever happens to
    the edges."""

    __slots__ = ("alive", "end", "length", "locks", "reach")

    def __init__(self, end: Position | None, length: int, reach: list[Position]) -> None:
        self.end = end
        """None for an empty match, which protects nothing."""
        self.length = length
        self.reach = reach
        """Positions below `end` that its lock may cover too, where a match does not cut edges."""
        self.locks = 0
        self.alive = True


def uses(position: Position) -> Uses:
    """Return the uses of `position`, which most positions never have."""
    if position.uses is None:
        position.uses = Uses()
    return position.uses


def absorb(parent: Position, child: Position) -> None:
    """Keep what passed through `parent` on its way to `child`, which is about to go."""
    gone, kept = child.uses, parent.uses
    if gone is None or parent.parent is None:
        return
    if kept is None:
        parent.uses = gone
        gone.passed += gone.inserts + gone.matches
        gone.inserts = gone.matches = gone.stirs = 0
        gone.stirred = gone.stirred_priority = NEVER
        return
    if gone.touched > kept.touched:
        kept.touched = gone.touched
    if gone.brushed > kept.brushed:
        kept.brushed = gone.brushed
    if gone.priority > kept.priority:
        kept.priority = gone.priority
    kept.passed += gone.inserts + gone.matches + gone.passed


def pass_up(below: Uses, position: Position) -> None:
    """Move to `position`, which is new, what may have been stamped on the run that was cut there
    from above."""
    if below.stirred == NEVER and not below.stirs:
        return
    above = uses(position)
    above.stirred, below.stirred = below.stirred, NEVER
    above.stirs, below.stirs = below.stirs, 0
    above.stirred_priority, below.stirred_priority = below.stirred_priority, NEVER


def only_child(position: Position) -> Position | None:
    """Return the child of a position that has exactly one."""
    if len(position.children) != 1:
        return None
    return next(iter(position.children.values()))


def chain(leaf: Position) -> Iterator[Position]:
    """Yield the positions from `leaf` up to, and without, the first branching ancestor or the root.

    Some edge of the target ends at the leaf and begins in its chain::

        root --- a --- b --- c --- d        chain(d) = d, c     (b branches)
                        `-- x               chain(x) = x
    """
    position = leaf
    while True:
        yield position
        above = position.parent
        if above is None or above.parent is None or len(above.children) > 1:
            return
        position = above


def ancestry(position: Position) -> Iterator[Position]:
    """Yield `position` and everything above it, without the root."""
    walker: Position | None = position
    while walker is not None and walker.parent is not None:
        yield walker
        walker = walker.parent


def subtree(position: Position) -> Iterator[Position]:
    """Yield everything below `position`, parents first. Never used on a hot path."""
    stack = list(position.children.values())
    while stack:
        below = stack.pop()
        yield below
        stack.extend(below.children.values())
