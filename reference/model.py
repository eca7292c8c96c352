"""The reference cache: a tree of prefixes that only ever gets finer. Dumber than any target, so
that it can be trusted.

It never decides what a target may choose. The checker asks what is stored, compares, and then tells
the model what happened; the model moves on from there. Every method costs as much as its key is
long, never as much as the tree is large. It shares no code with any target.

One step is not quite dumb: a run of pages in which no operation has ended is kept in one piece, and
cut where one ends. A cut changes no answer. tests/reference holds the model against one that keeps
every page apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain as concatenate
from itertools import compress, count
from operator import ne

from radixcheck.capabilities import Capabilities
from radixcheck.operations import Namespace, Tokens
from radixcheck.reference.eviction import EvictionOrder, hand_down, stir
from radixcheck.reference.positions import (
    NEVER,
    Handle,
    Position,
    absorb,
    ancestry,
    only_child,
    pass_up,
    subtree,
    uses,
)


class Found:
    """The longest stored prefix of a key."""

    __slots__ = ("end", "length", "slots")

    def __init__(self, end: Position | None, slots: list[int]) -> None:
        self.end = end
        self.slots = slots
        """One per token."""
        self.length = len(slots)

    @property
    def path(self) -> list[Position]:
        """The positions along the key, the shortest prefix first."""
        return [] if self.end is None else [*ancestry(self.end)][::-1]

    def passes(self, position: Position) -> bool:
        """Tell whether `position` lies on the way to the end."""
        end = self.end
        while end is not None and end.length > position.length:
            end = end.parent
        return end is position


GONE: list[int] = []
"""The slots of a position that is no longer stored."""


class Model:
    """What a cache with these capabilities must have stored, page by page."""

    def __init__(self, capabilities: Capabilities) -> None:
        self.page_size = capabilities.page_size
        self._capabilities = capabilities
        self._names: dict[Position, Namespace] = {}
        """The namespace of every root there ever was: dead handles outlive a reset."""
        self._match_splits = capabilities.match_splits
        self.has_copies = capabilities.duplicates == "both-kept" or not capabilities.closed
        """Whether a page may be stored more than once."""
        self._closed = capabilities.closed
        self._frees_duplicates = capabilities.duplicates == "target-frees"
        self._merges = capabilities.edges == "grow-or-merge"
        self._keeps_apart = self.has_copies or not capabilities.match_splits
        """Whether every page is a position of its own: a copy, a hollow, or the reach of a lock may
        begin and end at any of them."""
        self._inherits = capabilities.eviction in ("lfu", "slru", "priority")
        self.reset()

    def reset(self) -> None:
        """Forget everything. Handles that are still around must be killed by the caller."""
        self.order = EvictionOrder(self._capabilities)
        self.roots: dict[Namespace, Position] = {}
        self.owner: dict[int, Position] = {}
        """Which position each slot in the tree belongs to."""
        self.total_tokens = 0
        self.covered_tokens = 0
        """Tokens that a lock surely covers."""
        self.maybe_tokens = 0
        """Tokens that a lock may cover, where a match does not cut edges."""
        self._last_found = Found(None, [])
        self._last_namespace: Namespace = ()
        self._last_key: Tokens | None = None
        """The last key that was looked for; None if another answer may be right by now."""

    # ---- questions -----------------------------------------------------------------------

    def aligned(self, tokens: Tokens) -> int:
        """Count the tokens that fill whole pages."""
        return len(tokens) - len(tokens) % self.page_size

    def find(self, tokens: Tokens, namespace: Namespace) -> Found:
        """Return the longest stored prefix of `tokens`. It is to be read, not changed."""
        if tokens is self._last_key and namespace == self._last_namespace:
            return self._last_found  # an insert often brings the key of the match before
        root = self.roots.get(namespace)
        found = Found(None, []) if root is None else self._follow(tokens, root)
        self._last_key, self._last_namespace, self._last_found = tokens, namespace, found
        return found

    def _follow(self, tokens: Tokens, root: Position) -> Found:
        slots: list[int] = []
        position, start, size = root, 0, self.page_size
        while (below := position.children.get(tokens[start : start + size])) and below.slots:
            end = below.length
            if end - start > size and tokens[start:end] != below.run:
                below = self._cut(below, _common(below.run, tokens[start:end], size))
                end = len(tokens)  # no need to look any further
            slots += below.slots
            position, start = below, end
        return Found(None if position is root else position, slots)

    def tokens_of(self, position: Position) -> int:
        """Count the tokens of one position, every copy of its run."""
        return len(position.run) * (1 + len(position.copies))

    @property
    def evictable_tokens(self) -> int:
        """Tokens that no lock surely covers. Some of them may be covered: see `maybe_tokens`."""
        return self.total_tokens - self.covered_tokens

    def leaves(self) -> Iterator[tuple[Namespace, Tokens, Position]]:
        """Yield every stored leaf with its namespace and whole key. Walks the tree: for audits and
        drawings."""
        for namespace, root in self.roots.items():
            for position in subtree(root):
                if not position.children:
                    yield namespace, self.key(position), position

    def key(self, position: Position) -> Tokens:
        """Return the tokens from the root down to `position`."""
        runs = [above.run for above in ancestry(position)]
        runs.reverse()
        return tuple(concatenate.from_iterable(runs))

    def namespace(self, position: Position) -> Namespace:
        """Return the namespace that `position` is stored in."""
        while position.parent is not None:
            position = position.parent
        return self._names[position]

    def ends(self, position: Position, tokens: Tokens, namespace: Namespace) -> bool:
        """Tell whether `tokens` is the whole key of `position`, which may be gone."""
        while (above := position.parent) is not None:
            if tokens[above.length : position.length] != position.run:
                return False
            position = above
        return self._names[position] == namespace

    # ---- what happened -------------------------------------------------------------------

    def matched(self, end: Position | None, now: float) -> None:
        """A match ended at `end`, or found nothing."""
        if end is None:
            return
        use = end.uses or uses(end)
        use.touched = now
        use.matches += 1
        if end.children:
            stir(end, now, hits=1)
        else:
            self.order.note(end)

    def inserted(
        self,
        end: Position | None,
        tokens: Tokens,
        slots: list[int],
        namespace: Namespace,
        priority: int,
        now: float,
    ) -> None:
        """An insert found what ends at `end` stored and added the rest of the whole pages of
        `tokens`.

        Args:
            slots: one slot per token of the whole key; those of the new pages become the tree's.
        """
        if self.aligned(tokens) > (end.length if end is not None else 0):
            if end is not None:
                if self._inherits:
                    hand_down(end, merges=self._merges)
                stir(end, now, hits=1, priority=priority)
            end = self._grow(end or self._root(namespace), tokens, slots, now)
        elif end is None:
            return
        use = end.uses or uses(end)
        use.touched = now
        use.inserts += 1
        if priority > use.priority:
            use.priority = priority
        if end.children:
            stir(end, now, hits=1, priority=priority)
        else:
            self.order.note(end)

    def refused(self, end: Position | None, priority: int, now: float) -> None:
        """An insert that found what ends at `end` stored was refused: it may have left its mark on
        the way."""
        if end is not None:
            self._brush(end, now)
            use = end.uses or uses(end)
            use.passed += 1
            use.stirred_priority = max(use.stirred_priority, priority)
            stir(end, now, hits=1, priority=priority)

    def kept_copy(self, position: Position, slots: list[int]) -> None:
        """An insert left a second copy of a stored run in the tree."""
        position.copies += (slots,)
        for slot in slots:
            self.owner[slot] = position
        self.total_tokens += len(slots)
        if position.cover or position.maybe:  # a lock may be on another copy
            self.maybe_tokens += len(slots)

    def handle(self, end: Position | None) -> Handle:
        """Make a handle on the prefix that ends at `end`."""
        if end is None:
            return Handle(None, 0, [])
        handle = Handle(end, end.length, [])
        if not self._match_splits:
            handle.reach = list(self._unbranched_below(end))
            if handle.reach:  # it dies with the lowest position that it may cover
                handle.reach[-1].handles = [*(handle.reach[-1].handles or ()), handle]
        if end.handles is None:
            end.handles = [handle]
        else:
            end.handles.append(handle)
        return handle

    def lock(self, handle: Handle, now: float) -> int:
        """Add a lock and return the number of tokens that became covered by it."""
        handle.locks += 1
        if handle.end is None:
            return 0
        for position in self._reach(handle, now) if handle.reach else ():
            position.maybe += 1
            if position.maybe == 1 and not position.cover:
                self.maybe_tokens += self.tokens_of(position)
        self._brush(handle.end, now)
        return self._cover(handle.end)

    def unlock(self, handle: Handle, now: float) -> int:
        """Take a lock back and return the number of tokens that became free by it."""
        handle.locks -= 1
        if handle.end is None:
            return 0
        for position in self._reach(handle, now) if handle.reach else ():
            position.maybe -= 1
            if not position.maybe and not position.cover:
                self.maybe_tokens -= self.tokens_of(position)
        self._brush(handle.end, now)
        return self._uncover(handle.end)

    def drop_copy(self, position: Position, slots: list[int]) -> None:
        """One copy of a page was evicted, and another one is still there."""
        self._last_key = None
        live = [copy for copy in (position.slots, *position.copies) if copy is not slots]
        position.slots, position.copies = live[0], tuple(live[1:])
        for slot in slots:
            del self.owner[slot]
        self.total_tokens -= len(slots)
        if position.cover or position.maybe:
            self.maybe_tokens -= len(slots)

    def evicted(self, positions: Sequence[Position]) -> set[Position]:
        """Remove evicted positions and return those that became leaves by it, to be noted once the
        victims are judged.

        A position that keeps children stays where it is, hollow.
        """
        owner, self._last_key = self.owner, None
        tips = [position for position in positions if not position.children]
        for position in positions:
            if position.cover or position.maybe or position.copies:
                self._forget_extras(position)
            if position.handles:
                self._kill_handles(position)
            self.total_tokens -= len(position.slots)
            for slot in position.slots:
                del owner[slot]
            position.slots = GONE
        uncovered = {self._unhook(tip) for tip in tips}
        if not self._closed:
            for hollow in positions:
                for below in subtree(hollow):
                    self._kill_handles(below)
        return {leaf for leaf in uncovered if leaf is not None and leaf.slots and not leaf.children}

    # ---- inside --------------------------------------------------------------------------

    def _root(self, namespace: Namespace) -> Position:
        root = self.roots.get(namespace)
        if root is None:
            root = self.roots[namespace] = Position(None, (), [], 0, NEVER)
            self._names[root] = namespace
        return root

    def _grow(self, parent: Position, tokens: Tokens, slots: list[int], now: float) -> Position:
        """Hang the whole pages of `tokens` that go on behind `parent` on below it; return their
        end."""
        owner, self._last_key = self.owner, None
        size, start, end = self.page_size, parent.length, self.aligned(tokens)
        while not self._closed and (old := parent.children.get(tokens[start : start + size])):
            self._refill(old, slots[start : old.length])
            parent, start = old, old.length
        self.total_tokens += end - start
        step = size if self._keeps_apart else end - start or size
        for place in range(start, end, step):
            run, own = tokens[place : place + step], slots[place : place + step]
            child = Position(parent, run, own, place + step, now)
            parent.children[run[:size]] = child
            for slot in own:
                owner[slot] = child
            parent = child
        return parent

    def cut_into_pages(self, position: Position) -> None:
        """Make every page of a run a position of its own."""
        self._last_key = None
        while len(position.run) > self.page_size:
            self._cut(position, self.page_size)

    def _cut(self, lower: Position, tokens: int) -> Position:
        """Cut the first `tokens` tokens off a run, and return the position that now ends there.

        What is known of the whole run holds for both parts. What ended below stays below, and what
        may have been stamped from above stays next to what is above::

            above --- [a b c d]               above --- [a b] --- [c d]
                        '-- stirred, ended          '-- stirred     '-- ended
        """
        above, size = lower.parent, self.page_size
        assert above is not None
        upper = Position(
            above, lower.run[:tokens], lower.slots[:tokens], above.length + tokens, lower.created
        )
        above.children[lower.run[:size]] = upper
        lower.parent, lower.run, lower.slots = upper, lower.run[tokens:], lower.slots[tokens:]
        upper.children[lower.run[:size]] = lower
        upper.cover = 1 if lower.cover else 0
        if lower.uses is not None:
            pass_up(lower.uses, upper)
        owner = self.owner
        for slot in upper.slots:
            owner[slot] = upper
        return upper

    def _refill(self, position: Position, slots: list[int]) -> None:
        """Store a page again that is hollow, or was stored below a hollow position all along."""
        if position.slots:
            if not self._frees_duplicates:
                self.kept_copy(position, slots)
        else:
            position.slots = slots
            self.owner.update(dict.fromkeys(slots, position))
            self.total_tokens += len(slots)

    def _brush(self, end: Position, now: float) -> None:
        use = end.uses or uses(end)
        use.brushed = now
        if end.children:
            stir(end, now)

    def _cover(self, end: Position) -> int:
        """Count one more reason to keep `end`; a position's first reason is one for its parent
        too."""
        tokens, position = 0, end
        while position.parent is not None:
            position.cover += 1
            if position.cover > 1:
                break
            plain = not position.maybe and not position.copies
            tokens += len(position.run) if plain else self._free_tokens(position, -1)
            position = position.parent
        self.covered_tokens += tokens
        return tokens

    def _uncover(self, end: Position) -> int:
        tokens, position = 0, end
        while position.parent is not None:
            position.cover -= 1
            if position.cover:
                break
            plain = not position.maybe and not position.copies
            tokens += len(position.run) if plain else self._free_tokens(position, 1)
            position = position.parent
        self.covered_tokens -= tokens
        if not end.children:
            self.order.note(end)
        return tokens

    def _free_tokens(self, position: Position, sign: int) -> int:
        """Count the tokens of a position that is no longer surely locked, or from now on is.

        Of several copies a lock surely covers one, and may cover the others.
        """
        if position.maybe:
            self.maybe_tokens += sign * len(position.run)
        elif position.copies:
            self.maybe_tokens -= sign * len(position.run) * len(position.copies)
        return len(position.run)

    def _reach(self, handle: Handle, now: float) -> list[Position]:
        """Return what a lock on `handle` may cover below its prefix; it may be stamped too."""
        handle.reach = [position for position in handle.reach if position.slots]
        for position in handle.reach:
            (position.uses or uses(position)).brushed = now
        return handle.reach

    def _unbranched_below(self, position: Position) -> Iterator[Position]:
        """Yield the unbranched way down from `position`: an uncut edge may reach as far."""
        below = only_child(position)
        while below is not None:
            yield below
            below = only_child(below)

    def _forget_extras(self, position: Position) -> None:
        """Forget what few positions have: copies, and locks."""
        copied = len(position.copies) * len(position.run)
        self.total_tokens -= copied
        if position.cover:
            self.covered_tokens -= len(position.run)
            self.maybe_tokens -= copied
        elif position.maybe:
            self.maybe_tokens -= len(position.run) + copied
        for copy in position.copies:
            for slot in copy:
                del self.owner[slot]
        position.copies = ()

    @staticmethod
    def _kill_handles(position: Position) -> None:
        """Let handles die with `position`: but a lock that only may have covered it did not."""
        for handle in position.handles or ():
            if handle.end is position or not handle.locks:
                handle.alive = False
        position.handles = None

    def _unhook(self, tip: Position) -> Position | None:
        """Take an evicted position out of the tree, and all above it that nothing hangs on any
        more.

        It keeps its parent, so that its key can still be told; without slots it counts as gone.
        Returns where the tree goes on, None at a root.
        """
        position, parent = tip, tip.parent
        used: list[Position] = []
        while parent is not None and not position.slots and not position.children:
            if position.uses is not None:
                used.append(position)
            del parent.children[position.run[: self.page_size]]
            position, parent = parent, parent.parent
        if parent is None:
            return None
        for gone in used:
            absorb(position, gone)
        position.merged_over |= len(position.children) == 1
        return position


def _common(run: Tokens, tokens: Tokens, size: int) -> int:
    """Return how many leading tokens two runs share, in whole pages."""
    unlike = compress(count(), map(ne, run, tokens))
    shared = next(unlike, min(len(run), len(tokens)))
    return shared - shared % size
