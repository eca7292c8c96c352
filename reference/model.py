"""The reference cache: one node per page, no edges, no clever step. Dumber than any target, so that
it can be trusted.

It never decides what a target may choose. The checker asks what is stored, compares, and then tells
the model what happened; the model moves on from there. Every method costs as much as its key is
long, never as much as the tree is large. It shares no code with any target.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain as concatenate
from typing import TypeAlias

from radixcheck.capabilities import Capabilities
from radixcheck.operations import Namespace, Tokens
from radixcheck.reference.eviction import EvictionOrder, hand_down, stir, touch
from radixcheck.reference.positions import (
    NEVER,
    Handle,
    Position,
    absorb,
    ancestry,
    only_child,
    subtree,
    uses,
)

Path: TypeAlias = list[Position]
"""The positions along a key, the shortest prefix first."""

Pages: TypeAlias = Sequence[int] | Sequence[Tokens]
"""A key cut into whole pages, as positions are filed: single tokens at page size 1, else tuples of
tokens."""


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

    # ---- questions -----------------------------------------------------------------------

    def pages(self, tokens: Tokens) -> Pages:
        """Cut `tokens` into whole pages and drop the rest."""
        size = self.page_size
        if size == 1:
            return tokens
        return [tokens[start : start + size] for start in range(0, len(tokens) - size + 1, size)]

    def find(self, pages: Pages, namespace: Namespace) -> Path:
        """Return the positions of the longest stored prefix of a key cut into `pages`."""
        path: Path = []
        position = self.roots.get(namespace)
        if position is None:
            return path
        for page in pages:
            position = position.children.get(page)
            if position is None or not position.slots:
                break
            path.append(position)
        return path

    def slots(self, path: Path) -> list[int]:
        """Return the slots stored along `path`, one per token."""
        if self.page_size == 1:
            return [position.slots[0] for position in path]
        return list(concatenate.from_iterable([position.slots for position in path]))

    def tokens_of(self, position: Position) -> int:
        """Count the tokens of one position, every copy of its page."""
        return self.page_size * (1 + len(position.copies))

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
        pages = [above.page for above in ancestry(position)]
        pages.reverse()
        if self.page_size == 1:
            return tuple(pages)  # type: ignore[arg-type]  # a page of one token is that token
        return tuple(concatenate.from_iterable(pages))  # type: ignore[arg-type]

    def namespace(self, position: Position) -> Namespace:
        """Return the namespace that `position` is stored in."""
        while position.parent is not None:
            position = position.parent
        return self._names[position]

    # ---- what happened -------------------------------------------------------------------

    def matched(self, path: Path, now: float) -> None:
        """A match ended at the end of `path`."""
        if not path:
            return
        end = path[-1]
        use = end.uses or uses(end)
        use.touched = now
        use.matches += 1
        if end.children:
            stir(end, now, hits=1)
        else:
            self.order.note(end)

    def inserted(
        self,
        path: Path,
        pages: Pages,
        slots: list[int],
        namespace: Namespace,
        priority: int,
        now: float,
    ) -> None:
        """An insert found `path` stored and added the rest of `pages`.

        Args:
            slots: one slot per token of the whole key; those of the new pages become the tree's.
        """
        end = path[-1] if path else None
        if len(path) == len(pages):
            if end is not None:
                touch(end, now, inserts=1, priority=priority)
                self._ended(end, now, hits=1, priority=priority)
            return
        if end is not None:
            if self._inherits:
                hand_down(end, merges=self._merges)
            stir(end, now, hits=1, priority=priority)
        leaf = self._grow(end or self._root(namespace), pages, slots, len(path), now)
        touch(leaf, now, inserts=1, priority=priority)
        self._ended(leaf, now, hits=1, priority=priority)

    def refused(self, path: Path, priority: int, now: float) -> None:
        """An insert that found `path` stored was refused: it may have left its mark on the way."""
        if path:
            end = path[-1]
            self._brush(end, now)
            use = end.uses or uses(end)
            use.passed += 1
            use.stirred_priority = max(use.stirred_priority, priority)
            stir(end, now, hits=1, priority=priority)

    def kept_copy(self, position: Position, slots: list[int]) -> None:
        """An insert left a second copy of a stored page in the tree."""
        position.copies += (slots,)
        self.owner.update(dict.fromkeys(slots, position))
        self.total_tokens += self.page_size
        if position.cover or position.maybe:  # a lock may be on another copy
            self.maybe_tokens += self.page_size

    def handle(self, path: Path) -> Handle:
        """Make a handle on the prefix that ends with `path`."""
        if not path:
            return Handle(None, 0, [])
        end, length = path[-1], len(path) * self.page_size
        if self._match_splits:
            handle = Handle(end, length, [])
        else:
            handle = Handle(end, length, list(self._run_below(end)))
            if handle.run:  # it dies with the lowest position that it may cover
                self._die_with(handle.run[-1], handle)
        self._die_with(end, handle)
        return handle

    @staticmethod
    def _die_with(position: Position, handle: Handle) -> None:
        if position.handles is None:
            position.handles = [handle]
        else:
            position.handles.append(handle)

    def lock(self, handle: Handle, now: float) -> int:
        """Add a lock and return the number of tokens that became covered by it."""
        handle.locks += 1
        if handle.end is None:
            return 0
        for position in self._reach(handle, now):
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
        for position in self._reach(handle, now):
            position.maybe -= 1
            if not position.maybe and not position.cover:
                self.maybe_tokens -= self.tokens_of(position)
        self._brush(handle.end, now)
        return self._uncover(handle.end)

    def drop_copy(self, position: Position, slots: list[int]) -> None:
        """One copy of a page was evicted, and another one is still there."""
        live = [copy for copy in (position.slots, *position.copies) if copy is not slots]
        position.slots, position.copies = live[0], tuple(live[1:])
        for slot in slots:
            del self.owner[slot]
        self.total_tokens -= self.page_size
        if position.cover or position.maybe:
            self.maybe_tokens -= self.page_size

    def evicted(self, positions: Sequence[Position]) -> set[Position]:
        """Remove evicted positions and return those that became leaves by it, to be noted once the
        victims are judged.

        A position that keeps children stays where it is, hollow.
        """
        owner = self.owner
        tips = [position for position in positions if not position.children]
        for position in positions:
            if position.cover or position.maybe or position.copies or position.handles:
                self._forget_extras(position)
            for slot in position.slots:
                del owner[slot]
            position.slots = GONE
        self.total_tokens -= self.page_size * len(positions)
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
            root = self.roots[namespace] = Position(None, (), [], NEVER)
            self._names[root] = namespace
        return root

    def _grow(
        self, parent: Position, pages: Pages, slots: list[int], start: int, now: float
    ) -> Position:
        """Hang the pages from `start` on below `parent`, and return the last one."""
        size, owner = self.page_size, self.owner
        while not self._closed and start < len(pages) and pages[start] in parent.children:
            own = slots[start * size : (start + 1) * size]
            parent = self._refill(parent.children[pages[start]], own)
            start += 1
        for place in range(start, len(pages)):
            page = pages[place]
            own = [slots[place]] if size == 1 else slots[place * size : (place + 1) * size]
            child = parent.children[page] = Position(parent, page, own, now)
            for slot in own:
                owner[slot] = child
            parent = child
        self.total_tokens += size * (len(pages) - start)
        return parent

    def _refill(self, position: Position, slots: list[int]) -> Position:
        """Store a page again that is hollow, or was stored below a hollow position all along."""
        if position.slots:
            if not self._frees_duplicates:
                self.kept_copy(position, slots)
        else:
            position.slots = slots
            self.owner.update(dict.fromkeys(slots, position))
            self.total_tokens += self.page_size
        return position

    def _ended(self, end: Position, now: float, *, hits: int, priority: float = NEVER) -> None:
        if end.children:
            stir(end, now, hits=hits, priority=priority)
        else:
            self.order.note(end)

    def _brush(self, end: Position, now: float) -> None:
        use = end.uses or uses(end)
        use.brushed = now
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
            tokens += self.page_size if plain else self._free_tokens(position, -1)
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
            tokens += self.page_size if plain else self._free_tokens(position, 1)
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
            self.maybe_tokens += sign * self.page_size
        elif position.copies:
            self.maybe_tokens -= sign * self.page_size * len(position.copies)
        return self.page_size

    def _reach(self, handle: Handle, now: float) -> list[Position]:
        """Return what a lock on `handle` may cover below its prefix; it may be stamped too."""
        handle.run = [position for position in handle.run if position.slots]
        for position in handle.run:
            (position.uses or uses(position)).brushed = now
        return handle.run

    def _run_below(self, position: Position) -> Iterator[Position]:
        """Yield the unbranched way down from `position`: an uncut edge may reach as far."""
        below = only_child(position)
        while below is not None:
            yield below
            below = only_child(below)

    def _forget_extras(self, position: Position) -> None:
        """Forget what few positions have: copies, locks, handles."""
        copied = len(position.copies) * self.page_size
        self.total_tokens -= copied
        if position.cover:
            self.covered_tokens -= self.page_size
            self.maybe_tokens -= copied
        elif position.maybe:
            self.maybe_tokens -= self.page_size + copied
        for copy in position.copies:
            for slot in copy:
                del self.owner[slot]
        position.copies = ()
        self._kill_handles(position)

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
            del parent.children[position.page]
            position, parent = parent, parent.parent
        if parent is None:
            return None
        for gone in used:
            absorb(position, gone)
        position.merged_over |= len(position.children) == 1
        return position
