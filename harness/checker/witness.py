"""Counts the situations that a trace has reached, as the model sees them. See
`radixcheck.situations` for the list."""

from __future__ import annotations

from collections import Counter
from itertools import islice

from radixcheck.capabilities import Capabilities
from radixcheck.checker.evictions import Freed
from radixcheck.operations import Evict, Insert, MatchPrefix, Namespace, Tokens
from radixcheck.reference.eviction import Bounds
from radixcheck.reference.model import Model
from radixcheck.reference.positions import NEVER, Handle, Position
from radixcheck.slots import SlotPool

LATE = 16
"""A handle that is locked this many operations after its match is locked late."""

LONG_TOKENS = 100
LOOK_AT_CHILDREN = 8


class Witness:
    """Sees every operation before the model moves on, and counts what was special about it.

    A position at which nothing has ended, and that has one child, surely lies in the middle of an
    edge; and what locks it is a lock further down, which covers both parts.
    """

    def __init__(self, capabilities: Capabilities, model: Model, pool: SlotPool) -> None:
        self.reached: Counter[str] = Counter()
        self._model = model
        self._pool = pool
        self._page_size = capabilities.page_size
        self._paged = capabilities.page_size > 1
        self._named = capabilities.namespaces != "absent"
        self._graves: dict[tuple[int, Tokens], list[Position]] = {}
        """Prefixes of handles that died, by their length and their last page."""

    def match(self, operation: MatchPrefix, key: Tokens, end: Position | None) -> None:
        """A match of `key` is about to end at `end`."""
        reached, length = self.reached, len(operation.tokens)
        if self._paged or not 0 < length <= LONG_TOKENS:
            self._key(operation.tokens, end)
        if end is None:
            reached["match-misses"] += 1
            if self._named:
                self._elsewhere(key, operation.namespace)
            return
        whole = len(key) - end.length < self._page_size
        if whole:
            reached["match-whole-key"] += 1
        if len(end.children) == 1 and (end.uses is None or end.uses.touched == NEVER):
            reached["match-ends-inside-edge"] += 1
            if not whole:
                reached["match-parts-inside-edge"] += 1
            if end.cover:
                reached["split-under-lock"] += 1

    def insert(self, operation: Insert, end: Position | None) -> None:
        """An insert found what ends at `end`, and is about to add the rest of its key."""
        reached, length = self.reached, len(operation.tokens)
        if self._paged or not 0 < length <= LONG_TOKENS:
            self._key(operation.tokens, end)
            if length % self._page_size:
                reached["unaligned-tail"] += 1
        if self._pool.reused:
            reached["slots-reused"] = self._pool.reused
        if end is not None:
            reached["insert-without-match" if operation.lent is None else "insert-after-match"] += 1
            if length - end.length < self._page_size:
                return self._stored_key(operation, end)
            if not end.children:
                reached["insert-extends-leaf"] += 1
            elif len(end.children) == 1 and (end.uses is None or end.uses.touched == NEVER):
                reached["edge-split"] += 1
                if end.cover:
                    reached["split-under-lock"] += 1
        if self._graves and length >= self._page_size:
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
            if rival in [bounds.low for _, bounds in victims]:
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

    def _key(self, tokens: Tokens, end: Position | None) -> None:
        if not tokens:
            self.reached["empty-key"] += 1
        elif len(tokens) > LONG_TOKENS:
            self.reached["long-key"] += 1
        if self._paged and tokens:
            if len(tokens) < self._page_size:
                self.reached["shorter-than-page"] += 1
            elif end is not None and end.children and len(tokens) - end.length >= self._page_size:
                self._parting(tokens[end.length], end)

    def _parting(self, token: int, end: Position) -> None:
        """A key goes on with `token` where nothing stored does; are the first few siblings alike at
        first?"""
        near = [page[0] for page in islice(end.children, LOOK_AT_CHILDREN)]
        where = "divergence-inside-page" if token in near else "page-boundary-divergence"
        self.reached[where] += 1

    def _stored_key(self, operation: Insert, end: Position) -> None:
        self.reached["insert-stored-key"] += 1
        if end.children:
            self.reached["insert-prefix-of-stored"] += 1
        if end.uses is not None and end.uses.inserts and end.uses.priority != operation.priority:
            self.reached["priorities-differ"] += 1

    def _elsewhere(self, key: Tokens, namespace: Namespace) -> None:
        first = key[: self._page_size]
        others = (root for name, root in self._model.roots.items() if name != namespace)
        if any(first in root.children for root in others):
            self.reached["stored-in-other-namespace"] += 1

    def _bury(self, freed: Freed) -> None:
        """Remember the prefixes of handles that die, to notice when one is stored again."""
        for position in freed.positions:
            if position.handles:
                name = position.length, position.run[-self._page_size :]
                self._graves.setdefault(name, []).append(position)

    def _reinserted(self, operation: Insert) -> None:
        key = operation.tokens[: self._model.aligned(operation.tokens)]
        name = len(key), key[-self._page_size :]
        for grave in self._graves.get(name, ()):
            if self._model.ends(grave, key, operation.namespace):
                del self._graves[name]
                self.reached["reinserted-after-eviction"] += 1
                return
