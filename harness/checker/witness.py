"""Counts the situations that a trace has reached, as the model sees them. See
`radixcheck.situations` for the list."""

from __future__ import annotations

from collections import Counter
from itertools import islice

from radixcheck.capabilities import Capabilities
from radixcheck.checker.evictions import Freed
from radixcheck.operations import Evict, Insert, MatchPrefix, Namespace, Tokens
from radixcheck.reference.eviction import Bounds
from radixcheck.reference.model import Model, Pages, Path
from radixcheck.reference.positions import Handle, Position, only_child
from radixcheck.slots import SlotPool

LATE = 16
"""A handle that is locked this many operations after its match is locked late."""

LONG_TOKENS = 100
LOOK_AT_CHILDREN = 8


class Witness:
    """Sees every operation before the model moves on, and counts what was special about it.

    A position at which no operation has ended, and that has one child, surely lies in the middle
    of an edge.
    """

    def __init__(self, capabilities: Capabilities, model: Model, pool: SlotPool) -> None:
        self.reached: Counter[str] = Counter()
        self._model = model
        self._pool = pool
        self._paged = capabilities.page_size > 1
        self._named = capabilities.namespaces != "absent"
        self._graves: set[tuple[Namespace, Tokens]] = set()

    def match(self, operation: MatchPrefix, pages: Pages, path: Path) -> None:
        """A match is about to end at the end of `path`."""
        reached = self.reached
        if self._paged or not 0 < len(operation.tokens) <= LONG_TOKENS:
            self._key(operation, pages, path)
        if not path:
            reached["match-misses"] += 1
            if self._named:
                self._elsewhere(pages, operation.namespace)
            return
        if len(path) == len(pages):
            reached["match-whole-key"] += 1
        if path[-1].uses is None and (below := only_child(path[-1])) is not None:
            reached["match-ends-inside-edge"] += 1
            if len(path) < len(pages):
                reached["match-parts-inside-edge"] += 1
            if below.cover:
                reached["split-under-lock"] += 1

    def insert(self, operation: Insert, pages: Pages, path: Path) -> None:
        """An insert is about to add what `path` lacks of `pages`."""
        reached = self.reached
        if self._paged or not 0 < len(operation.tokens) <= LONG_TOKENS:
            self._key(operation, pages, path)
        if self._paged and len(operation.tokens) % self._model.page_size:
            reached["unaligned-tail"] += 1
        if self._pool.reused:
            reached["slots-reused"] = self._pool.reused
        if path:
            reached["insert-without-match" if operation.lent is None else "insert-after-match"] += 1
        if len(path) == len(pages):
            if path:
                self._stored_key(operation, path[-1])
        elif path and not path[-1].children:
            reached["insert-extends-leaf"] += 1
        elif path and path[-1].uses is None and (below := only_child(path[-1])) is not None:
            reached["edge-split"] += 1
            if below.cover:
                reached["split-under-lock"] += 1
        if self._graves and len(path) < len(pages):
            self._reinserted(operation)

    def evict(self, operation: Evict, freed: Freed) -> None:
        """An eviction has freed something, or nothing; the model has not moved on."""
        reached, model = self.reached, self._model
        if operation.num_tokens <= 0:
            reached["evict-nothing"] += 1
        elif not model.total_tokens:
            reached["evict-empty-cache"] += 1
        elif not model.evictable_tokens:
            reached["evict-all-locked"] += 1
        if operation.num_tokens > model.evictable_tokens > 0:
            reached["evict-more-than-there-is"] += 1
        if not freed.slots:
            return
        if model.covered_tokens:
            reached["evict-spares-locked"] += 1
        if len(freed.slots) > operation.num_tokens:
            reached["eviction-overshoots"] += 1
        if any(position.children and position.uses for position in freed.positions):
            reached["eviction-cascades"] += 1
        self._bury(freed)

    def rivalry(self, victims: list[tuple[Position, Bounds]], uncovered: set[Position]) -> None:
        """An eviction has chosen `victims`; the model has moved on."""
        rival = self._model.order.rival(uncovered)
        if rival is not None:
            self.reached["victim-had-a-rival"] += 1
            if any(bounds.low == rival.low for _, bounds in victims):
                self.reached["tie-in-policy-key"] += 1

    def lock(self, handle: Handle, age: int) -> None:
        """`handle` is about to be locked, `age` operations after its match."""
        reached = self.reached
        if handle.end is None:
            reached["handle-of-empty-match"] += 1
            return
        if age >= LATE:
            reached["lock-late"] += 1
        if handle.locks:
            reached["lock-twice"] += 1
        elif handle.end.cover:
            reached["lock-nested"] += 1

    def reset(self) -> None:
        """Everything is about to be forgotten."""
        if self._model.total_tokens:
            self.reached["reset"] += 1
            if self._model.covered_tokens:
                self.reached["reset-under-lock"] += 1

    def tick(self, delta: int) -> None:
        """The clock is about to be held or moved."""
        if delta == 0:
            self.reached["clock-tied"] += 1
        elif delta < 0:
            self.reached["clock-ran-back"] += 1

    # ---- inside --------------------------------------------------------------------------

    def _key(self, operation: MatchPrefix | Insert, pages: Pages, path: Path) -> None:
        tokens = operation.tokens
        if not tokens:
            self.reached["empty-key"] += 1
        elif len(tokens) > LONG_TOKENS:
            self.reached["long-key"] += 1
        if self._paged:
            if 0 < len(tokens) < self._model.page_size:
                self.reached["shorter-than-page"] += 1
            elif len(path) < len(pages):
                self._parting(pages, path)

    def _parting(self, pages: Pages, path: Path) -> None:
        """A key goes on where nothing stored does; are the first few siblings alike at first?"""
        if not path or not path[-1].children:
            return
        token = _first_token(pages[len(path)])
        near = token in map(_first_token, islice(path[-1].children, LOOK_AT_CHILDREN))
        self.reached["divergence-inside-page" if near else "page-boundary-divergence"] += 1

    def _stored_key(self, operation: Insert, end: Position) -> None:
        self.reached["insert-stored-key"] += 1
        if end.children:
            self.reached["insert-prefix-of-stored"] += 1
        if end.uses is not None and end.uses.inserts and end.uses.priority != operation.priority:
            self.reached["priorities-differ"] += 1

    def _elsewhere(self, pages: Pages, namespace: Namespace) -> None:
        if any(
            pages and pages[0] in root.children
            for name, root in self._model.roots.items()
            if name != namespace
        ):
            self.reached["stored-in-other-namespace"] += 1

    def _bury(self, freed: Freed) -> None:
        """Remember the prefixes of handles that die, to notice when one is stored again."""
        for position in freed.positions:
            if position.handles:
                self._graves.add((self._model.namespace(position), self._model.key(position)))

    def _reinserted(self, operation: Insert) -> None:
        size = self._model.page_size
        aligned = operation.tokens[: len(operation.tokens) // size * size]
        grave = (operation.namespace, aligned)
        if grave in self._graves:
            self._graves.discard(grave)
            self.reached["reinserted-after-eviction"] += 1


def _first_token(page: int | Tokens) -> int:
    return page if isinstance(page, int) else page[0]
