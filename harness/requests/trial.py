"""All that is known during one trace of requests: the cache, its pool behind a recorder, the queue,
who runs."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from radixcheck.buffers import BadAnswer, read_slots
from radixcheck.checker.broken import Broken, counted, listed
from radixcheck.checker.calls import TARGET_ERRORS, failure, read_length, said
from radixcheck.operations import Failure, Outcome, QueueOrder, Refusal, Skipped
from radixcheck.protocol import Refused, RequestCache
from radixcheck.reference import scheduler
from radixcheck.requests.content import Content
from radixcheck.requests.recorder import TREE, Interrupted, Recorder, Watched
from radixcheck.requests.request import Request
from radixcheck.requests.surplus import without_the_last

MAY_REFUSE = frozenset(("match", "begin", "append", "evict"))
"""What a cache may say no to."""


class Trial:
    """One fresh cache on trial. `radixcheck.requests.steps` acts on it, one function per kind of
    operation.

    Args:
        cache: an empty cache with a full pool.
    """

    def __init__(self, cache: RequestCache) -> None:
        self.cache = cache
        self.capabilities = can = cache.capabilities
        self.page_size = can.page_size
        pool = cache.pool
        self.content = Content(pool)
        self.running: dict[str, Request] = {}
        self.recorder = Recorder(pool, self.running, self.breaks)
        cache.pool = Watched(self.recorder)
        self.has = {
            "evictable_size": hasattr(cache, "evictable_size") and can.evictable_size != "absent",
            "total_size": hasattr(cache, "total_size") and can.total_size != "absent",
            "reset": hasattr(cache, "reset") and can.reset == "present",
            "evict": hasattr(cache, "evict"),
            "match": hasattr(cache, "match"),
            "retract": hasattr(cache, "retract"),
        }
        """Which of the methods that may be missing are there."""
        self._named = {
            "begin": _takes(cache.begin, 3),
            "match": self.has["match"] and _takes(cache.match, 2),
        }
        """Whether these can be told a namespace."""
        self.step = -1
        self.queue: list[Request] = []
        self.gone: set[str] = set()
        """Names that were used; no second request may have one of them."""
        self.order: QueueOrder = "fcfs"
        self.deferred: set[str] = set()
        """Who had better wait until the queue is put in order again."""
        self._taken: list[tuple[Sequence[int], Sequence[int]]] = []
        """Runs of slots that the tree took, with the tag of the position before and their own."""
        self._lineage: dict[int, tuple[int, int]] = {}
        """The same by slot, as far as it was needed."""
        self.reached: Counter[str] = Counter()
        self.skipped: Counter[str] = Counter()
        self.broken: list[Broken] = []
        """What the current operation has broken so far."""
        self.recording = False
        """Whether outcomes are wanted, and not only verdicts."""

    # ---- verdicts ------------------------------------------------------------------------

    def breaks(self, rule: str, expected: str, actual: str, detail: str = "") -> None:
        """Write down that the current operation broke `rule`."""
        self.broken.append(Broken(rule, expected, actual, detail))

    def skip(self, reason: str) -> Outcome:
        """Do not try the current operation."""
        self.skipped[reason] += 1
        return Skipped(reason)

    def failed(self, error: BaseException) -> Failure:
        """Write down an exception that nobody declared."""
        what = failure(error)
        self.breaks("unexpected-error", "an answer", f"{what.error}: {what.message}", what.where)
        return what

    def saw(self, situation: str, *, when: bool = True) -> None:
        """Count a situation that is reached."""
        if when:
            self.reached[situation] += 1

    def call(self, request: Request | None, method: str, *arguments: Any) -> Any:
        """Call the cache for `request`; answer what it did, or a `Refusal` or `Failure`.

        Raises:
            BadAnswer: the cache, or its pool, is called with what cannot be read.
        """
        self.recorder.serve(request, method)
        try:  # as `ask` does, for which there is no time in every operation
            return getattr(self.cache, method)(*arguments)
        except TARGET_ERRORS as error:
            return self._what_it_means(error, method)

    def look_up(self, request: Request, method: str, *arguments: Any) -> Any:
        """Call ``match`` or ``begin``: with all tokens, and the namespace if that can be told."""
        namespace = (request.namespace,) if self._named[method] else ()
        return self.call(request, method, *arguments, request.tokens[:], *namespace)

    def ask(self, method: str, *arguments: Any) -> Any:
        """Call the cache for whom it was called before, to hear of what it has done."""
        try:
            return getattr(self.cache, method)(*arguments)
        except TARGET_ERRORS as error:
            return self._what_it_means(error, method)

    def _what_it_means(self, error: BaseException, method: str) -> Refusal | Failure:
        """Take an exception for a refusal where `method` may refuse; otherwise it is undeclared."""
        if isinstance(error, BadAnswer):
            raise error
        if isinstance(error, Refused) and method in MAY_REFUSE:
            return Refusal(said(error))
        if isinstance(error, Interrupted):
            self.saw("eviction-interrupted")
            return Refusal(said(error))
        return self.failed(error)

    # ---- the queue -----------------------------------------------------------------------

    def waiting(self, name: str) -> Request | None:
        """Return who waits under this name; without a name, the head of the queue."""
        if not name:
            return self.queue[0] if self.queue else None
        return next((request for request in self.queue if request.name == name), None)

    def fits(self, request: Request) -> bool:
        """Tell whether the pool has room for one more, as the scheduler estimates it."""
        if (evictable := self.size("evictable_size")) is None:
            return True
        others = [other for other in self.running.values() if other is not request]
        room = scheduler.room(
            self.recorder.ledger.free_tokens,
            evictable,
            [other.may_generate for other in others if other.starts],
            self.order,
        )
        claimed = sum([other.claim for other in others if not other.starts])
        return scheduler.fits(request.claim, room, claimed)

    def queue_names(self) -> list[str]:
        """Name who waits, in order."""
        return [request.name for request in self.queue]

    def size(self, name: str) -> int | None:
        """Ask the cache for one of its sizes, in tokens; None where it cannot tell."""
        answer = self.ask(name) if self.has[name] else None
        return None if answer is None or self.broken else read_length(answer, name)

    def aligned(self, num_tokens: int) -> int:
        """Cut a number of tokens to whole pages."""
        return num_tokens - num_tokens % self.page_size

    # ---- the row -------------------------------------------------------------------------

    def read_row(self, request: Request, num_tokens: int) -> list[int] | None:
        """Ask the cache for a row, which must have one slot per computed token."""
        try:
            row = read_slots(self.cache.table(request.name))
        except BadAnswer:
            raise
        except TARGET_ERRORS as error:
            self.failed(error)
            return None
        if len(row) == num_tokens:
            return row
        told = counted(len(row), "slot")
        self.breaks("length-mismatch", counted(num_tokens, "slot"), told, "in the row")
        return None

    def may_read(self, request: Request, row: Sequence[int]) -> bool:
        """See that every slot of a row is held, and holds what the request's own prefix wrote.

        Whose they are is the tree's affair: it may have taken some of another request's already, if
        it stores them as soon as they are handed out. Then they are the tree's from now on.
        """
        owners, named = set(map(self.recorder.ledger.owner.get, row)), set(row)
        if None in owners:
            self._blame(request, row, {TREE, request.name})
        elif len(named) < len(row):
            twice = [slot for slot, times in Counter(row).items() if times > 1]
            self.breaks("double-owner", "each slot once in a row", listed(row), f"twice: {twice}")
        elif self.check_content(request, row) and not owners <= {TREE, request.name}:
            self._take_over(request, row)
        request.named, request.frees_seen = named, self.recorder.frees
        return not self.broken

    def may_go_on(self, request: Request, row: Sequence[int]) -> bool:
        """See the same of a row that is as it was at the last look, but for new slots of its own.

        If nothing was freed since, only what is in the slots can have changed; and in a buffer of
        our own not even that: what is written to are slots that were free a moment before.
        """
        if request.frees_seen != self.recorder.frees:
            return self.may_read(request, row)
        return not self.broken if self.content.is_ours else self.check_content(request, row)

    def may_keep(self, request: Request, row: Sequence[int]) -> bool:
        """See that a row is as it was and holds no slot that was freed; or else, all of the same.

        What is in it is seen when it is published, or read by the next token.
        """
        given = self.recorder.given
        as_it_was = row == request.row and (not given or given.isdisjoint(row))
        return as_it_was or self.may_read(request, row)

    def may_write(self, request: Request, slots: Sequence[int]) -> bool:
        """See that `slots`, the next of a row, are the request's own and named once."""
        named, before = request.named, len(request.named)
        named.update(slots)
        if len(named) < before + len(slots) or not request.own.issuperset(slots):
            self._blame(request, slots, {request.name})
        return not self.broken

    def check_content(self, request: Request, row: Sequence[int]) -> bool:
        """See that the slots of a row hold what the request's own prefix wrote."""
        tags, length = request.tags, len(row)
        place = self.content.first_wrong(row, tags if len(tags) == length else tags[:length])
        if place is None:
            return not self.broken
        slot = row[place]
        self.breaks(
            "stale-content",
            f"the KV of token {place} of {request.name} in slot {slot}",
            self._whose(self.content.held(slot)),
            f"{request.name}'s row is {listed(row)}",
        )
        return False

    def adopt(self, request: Request, aligned: int, row: Sequence[int]) -> None:
        """Let the tree take what is left of the request's own slots in the whole pages of a row."""
        mine = request.own.intersection(row[:aligned])
        if not mine:
            return
        self.recorder.adopt(mine)
        request.own -= mine
        start = min(request.lent, aligned)
        tags = request.tags[max(0, start - 1) : aligned]
        self._taken.append((row[start:aligned], tags if start else [0, *tags]))

    def check_surplus(self, shortfall: int) -> None:
        """See that no more was evicted in this call than made up for `shortfall` slots."""
        freed = self.recorder.freed
        enough = max(shortfall, 0) + self.capabilities.evict_batch
        if len(freed) <= enough or self.recorder.refused or self.recorder.interrupted:
            return
        if self.capabilities.duplicates == "both-kept":
            return
        if (surely := without_the_last(freed, self.known_lineage(), enough)) >= enough:
            self.breaks(
                "over-evicted",
                f"no victim more once {counted(enough, 'slot')} came free",
                f"{surely} or more before the last victim, {len(freed)} in all",
            )

    def known_lineage(self) -> dict[int, tuple[int, int]]:
        """Sort what the tree took by slot: only now, as few operations evict."""
        for slots, tags in self._taken:
            self._lineage.update(zip(slots, pairwise(tags), strict=True))
        self._taken.clear()
        return self._lineage

    def check_all_free(self) -> None:
        """See that no slot is held by anybody."""
        if self.broken or not (held := self.recorder.ledger.owner):
            return
        holders = Counter(map(str, held.values()))
        told = ", ".join(f"{counted(number, 'slot')} of {who}" for who, number in holders.items())
        self.breaks("leaked-slot", "every slot is free", listed(sorted(held)), told)

    def check_rows_free(self) -> None:
        """See that no row is held, where the cache has a pool of them and that can count."""
        rows: Any = getattr(self.cache, "row_pool", None)
        if self.broken or not hasattr(rows, "available_size"):
            return
        try:
            free, capacity = rows.available_size(), rows.capabilities.capacity
        except TARGET_ERRORS as error:
            self.failed(error)
            return
        if read_length(free, "row_pool.available_size") != capacity:
            told = f"row_pool.available_size() {free}"
            self.breaks("leaked-slot", f"row_pool.available_size() {capacity}", told)

    def _blame(self, request: Request, slots: Sequence[int], allowed: set[str]) -> None:
        """Say which of `slots` is free, or somebody else's, or named twice."""
        owner = self.recorder.ledger.owner
        if ghosts := [slot for slot in slots if slot not in owner]:
            told = f"of the row of {request.name} these are free: {listed(ghosts)}"
            self.breaks("use-after-free", "slots that are held", listed(slots), told)
            return
        taken = [slot for slot in slots if owner[slot] not in allowed]
        told = f"slot {taken[0]} is held by {owner[taken[0]]}" if taken else "one is named twice"
        wanted = f"slots of {' or '.join(sorted(allowed, reverse=True))}"
        self.breaks("double-owner", wanted, listed(slots), told)

    def _take_over(self, request: Request, row: Sequence[int]) -> None:
        """Let the tree have what it has lent out of others' own slots."""
        owner = self.recorder.ledger.owner
        theirs = {slot for slot in row if owner[slot] not in (TREE, request.name)}
        self.recorder.adopt(theirs)
        for other in self.running.values():
            other.own -= theirs

    def _whose(self, tag: int) -> str:
        """Say which request, running or waiting, wrote a tag."""
        for request in (*self.running.values(), *self.queue):
            if tag in request.tags:
                return f"the KV of token {request.tags.index(tag)} of {request.name}"
        return "the KV of another sequence" if tag else "nothing"


def _takes(method: Any, arguments: int) -> bool:
    """Tell whether `method` can be called with so many arguments by position."""
    try:
        inspect.signature(method).bind(*range(arguments))
    except TypeError:
        return False
    except ValueError:
        return True  # written in another language, which does not say
    return True
