"""Liars among the caches of requests: one planted lie each, by which radixcheck itself is tested.

The public bugs are among the mutants; these are the other ways in which a scheduler may go wrong.
Each is the correct `Bookkeeper` with a method or two changed, and breaks the rule by whose name it
is listed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from radixcheck.protocol import Match, Slots
from radixcheck.targets.bookkeeper import Books, RadixRequests

REQUEST_LIARS: dict[str, tuple[type[RadixRequests], str]] = {}
"""Every liar by its name, with the rule that it breaks."""


def breaks(name: str, rule: str) -> Callable[[type[RadixRequests]], type[RadixRequests]]:
    """List a class as the liar `name`, which breaks `rule`."""

    def enlist(liar: type[RadixRequests]) -> type[RadixRequests]:
        REQUEST_LIARS[name] = liar, rule
        return liar

    return enlist


# Locks and matches.


@breaks("locks-nothing", "use-after-free")
class LocksNothing(RadixRequests):
    """Lets requests run on what they matched, and locks none of it."""

    def __init__(self, **config: Any) -> None:
        super().__init__(**config)
        # A lock that does nothing, on this one tree.
        self.tree.inc_ref = lambda handle: None  # type: ignore[method-assign]  # the lie
        self.tree.dec_ref = lambda handle: None  # type: ignore[method-assign]  # the lie


@breaks("abort-keeps-lock", "leaked-slot")
class KeepsTheLock(RadixRequests):
    """Frees what an aborted request held, and leaves its lock behind."""

    def abort(self, request: str) -> None:
        """Free, and do not unlock."""
        books = self._books.pop(request)
        self._give(books.slots[books.owned :])


@breaks("matches-the-last-token", "phantom-prefix")
class MatchesTheLastToken(RadixRequests):
    """Leaves a request nothing to compute when all of its prompt is stored."""

    def begin(self, request: str, tokens: Sequence[int], namespace: tuple[str, ...] = ()) -> int:
        """Match all of `tokens`."""
        return self._admit(request, tokens, namespace, self._match(tokens, namespace))


@breaks("matches-part-of-a-page", "unaligned-match")
class MatchesPartOfAPage(RadixRequests):
    """Says that one token less was matched than the pages have."""

    supports: ClassVar = {"page_size": [4], "capacity": [64]}

    def _admit(
        self, request: str, tokens: Sequence[int], namespace: tuple[str, ...], match: Match
    ) -> int:
        return max(0, super()._admit(request, tokens, namespace, match) - 1)


# The row.


@breaks("row-not-rewritten", "use-after-free")
class KeepsItsRow(RadixRequests):
    """Frees its duplicates between two chunks, and goes on reading them."""

    def _rewrite(self, books: Books, slots: list[int]) -> None:
        pass


@breaks("row-turned-around", "stale-content")
class TurnsTheRow(RadixRequests):
    """Writes the tree's slots into the row in the wrong order."""

    def _rewrite(self, books: Books, slots: list[int]) -> None:
        super()._rewrite(books, slots[::-1])


@breaks("row-too-short", "length-mismatch")
class LosesTheLastSlot(RadixRequests):
    """Tells one slot less than there are, from the third token on."""

    def table(self, request: str) -> Slots:
        """Return a row that ends too early."""
        row = super().table(request)
        return row[:-1] if len(row) > 2 else row


@breaks("row-repeats-a-slot", "double-owner")
class RepeatsASlot(RadixRequests):
    """Puts two tokens of a chunk into one slot."""

    supports: ClassVar = {"page_size": [1], "capacity": [64]}

    def append(self, request: str, tokens: Sequence[int], num_tokens: int) -> None:
        """Take slots, and use the one but last twice."""
        super().append(request, tokens, num_tokens)
        books = self._books[request]
        if num_tokens > 1:
            self._give(books.slots[books.computed - 1 :])
            del books.slots[books.computed - 1 :]
            books.slots.append(books.slots[-1])


# What is freed.


@breaks("duplicates-leaked", "leaked-slot")
class LeaksDuplicates(RadixRequests):
    """Lets go of the slots that the tree did not need, and tells nobody."""

    def _free_duplicates(self, books: Books, existing: int) -> None:
        pass


@breaks("duplicates-freed-twice", "double-free")
class FreesDuplicatesTwice(RadixRequests):
    """Frees them on two paths."""

    def _free_duplicates(self, books: Books, existing: int) -> None:
        super()._free_duplicates(books, existing)
        super()._free_duplicates(books, existing)


@breaks("tail-kept", "leaked-slot")
class KeepsTheTail(RadixRequests):
    """Hands the tree a page that is not full, and takes it for stored."""

    supports: ClassVar = {"page_size": [4], "capacity": [64]}

    def end(self, request: str, tokens: Sequence[int]) -> None:
        """Store all that is computed; free what is beyond."""
        books = self._books.pop(request)
        self._store(books, tokens, books.computed)
        self._close(books, -(-books.computed // self._page_size) * self._page_size)


@breaks("abort-frees-what-is-stored", "use-after-free")
class FreesWhatIsStored(RadixRequests):
    """Frees all that an aborted request has computed, its published pages too."""

    def __init__(self, **config: Any) -> None:
        super().__init__(**config)
        self._matched: dict[str, int] = {}

    def begin(self, request: str, tokens: Sequence[int], namespace: tuple[str, ...] = ()) -> int:
        """Begin, and keep in mind what was matched."""
        self._matched[request] = super().begin(request, tokens, namespace)
        return self._matched[request]

    def abort(self, request: str) -> None:
        """Free from where the first match ended."""
        self._close(self._books.pop(request), self._matched[request])


@breaks("reset-keeps-the-pool", "leaked-slot")
class ResetsTheTreeOnly(RadixRequests):
    """Forgets the tree and its requests, and leaves their slots where they are."""

    def reset(self) -> None:
        """Reset everything but the pool."""
        self._books.clear()
        self.tree.reset()


# What is taken.


@breaks("evicts-when-there-is-enough", "over-evicted")
class EvictsFirst(RadixRequests):
    """Evicts before it looks what is free."""

    def _take(self, num_tokens: int) -> list[int]:
        self.evict(num_tokens)
        return super()._take(num_tokens)


@breaks("keeps-what-it-got", "refused-with-effect")
class KeepsWhatItGot(RadixRequests):
    """Takes page by page, and keeps what it got when there is no further one."""

    supports: ClassVar = {"page_size": [1, 4], "capacity": [8, 16]}

    def append(self, request: str, tokens: Sequence[int], num_tokens: int) -> None:
        """Take a page as long as one is needed."""
        books = self._books[request]
        while self._needed(books, num_tokens):
            books.slots += self._take(self._page_size)
        super().append(request, tokens, num_tokens)


# What an error leaves behind.


@breaks("interrupted-eviction-lost", "leaked-slot")
class LosesWhatWasInterrupted(RadixRequests):
    """Drops what the tree has evicted when the pool raises."""

    def evict(self, num_tokens: int) -> None:
        """Owe nothing to anybody."""
        try:
            super().evict(num_tokens)
        finally:
            self._owed = []


@breaks("interrupted-eviction-freed-twice", "double-free")
class FreesWhatWasInterruptedTwice(RadixRequests):
    """Gives back what it owes, and goes on owing it."""

    def evict(self, num_tokens: int) -> None:
        """Forget nothing."""
        owed = [*self._owed]
        super().evict(num_tokens)
        self._owed = owed


@breaks("forgets-who-runs", "unexpected-error")
class ForgetsWhoRuns(RadixRequests):
    """Cannot abort a request that it retracted before."""

    def retract(self, request: str) -> None:
        """Abort, and abort again."""
        self.abort(request)
        self.abort(request)
