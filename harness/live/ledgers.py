"""The ledger of a living pool, told what the pool has answered: so every slot has an owner, as in a
run.

What is judged, and how, is the business of the `Recorder` that stands between a cache and its pool
in a run. Here it stands before an echo, which answers from the call at hand::

    living pool    alloc(4) -> [8, 9, 10, 11]
                      |
    recorder       alloc(4) -> echo -> [8, 9, 10, 11]    whose were these?
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, Protocol, TypeAlias, cast

from radixcheck.capabilities import PoolCapabilities
from radixcheck.checker.broken import Broken, counted, listed
from radixcheck.live.tape import Called, Raised
from radixcheck.protocol import Pool, Refused
from radixcheck.requests.recorder import Recorder
from radixcheck.requests.request import Request
from radixcheck.rules import Violation, worst_first

Breaks: TypeAlias = Callable[..., None]


class Follower(Protocol):
    """Follows a living object call by call, and judges it."""

    def follow(self, call: Called) -> Violation | None:
        """Judge one call; answer the rule that it broke."""
        ...

    def again(self) -> list[Called]:
        """Return the calls after which a fresh one holds what this one holds now."""
        ...


def named(broken: list[Broken], operation: str) -> Violation | None:
    """Make one violation of what an operation has broken, and forget that."""
    found = [Violation(each.rule, operation, 0, *each[1:]) for each in broken]
    broken.clear()
    return worst_first(found) if found else None


class EchoPool:
    """A pool that answers what the living one has answered at the call that is set as `call`."""

    def __init__(self, capabilities: PoolCapabilities) -> None:
        self.capabilities = capabilities
        self.call: Called = ("", (), None, None)

    def alloc(self, num_tokens: int) -> Any:
        """Answer the slots that were."""
        return self.call[2]

    def free(self, slots: Any) -> None:
        """Nothing is left to be done."""

    add_refs = free

    def reset(self) -> None:
        """Nothing is left to be done."""


class Slots:
    """Moves a ledger on by what was called of a pool.

    Args:
        recorder: holds the ledger; its pool is an `EchoPool`.
        breaks: told every broken rule.
        caller_is_judged: whether it breaks a rule to give back what nobody holds, if the pool
            refuses it.
    """

    def __init__(
        self, recorder: Recorder, breaks: Breaks, *, caller_is_judged: bool = False
    ) -> None:
        self._recorder = recorder
        self._breaks = breaks
        self._is_judged = caller_is_judged

    def play(self, call: Called) -> None:
        """Judge one call of the pool. One that was refused has moved nothing."""
        kind, given, answer, _ = call
        if isinstance(answer, Raised) or (kind == "alloc" and answer is None):
            self._refused(kind, given, answer)
            return
        cast(EchoPool, self._recorder.pool).call = call
        getattr(self._recorder, kind)(*given)

    def _refused(self, kind: str, given: tuple[Any, ...], answer: Any) -> None:
        ledger = self._recorder.ledger
        if kind == "alloc":
            if 0 < given[0] <= ledger.free_tokens:
                told = f"{ledger.free_tokens} are free"
                self._breaks("leaked-slot", counted(given[0], "slot"), "a refusal", told)
            if answer is None or isinstance(answer.error, Refused):
                return
        elif given and (bad := self.unheld(given[0])):
            if self._is_judged:
                self._breaks("double-free", "slots that are held, once each", listed(sorted(bad)))
            return  # whoever gives back what nobody holds is told so
        error = answer.error
        what = f"{type(error).__name__}: {error}"
        self._breaks("unexpected-error", "an answer", what, vars(error).get("where", ""))

    def unheld(self, slots: Sequence[int]) -> set[int]:
        """Return which slots are listed more often than they are held."""
        owner, extra = self._recorder.ledger.owner, self._recorder.ledger.extra
        if not extra and len(slots) == len(once := set(slots)) and owner.keys() >= once:
            return set()
        times = Counter(slots)
        return {slot for slot in times if times[slot] > (slot in owner) + extra.get(slot, 0)}

    def compare(self, free: int | None, *, refused: bool) -> None:
        """See that the pool counts as many free slots as the ledger knows."""
        expected = self._recorder.ledger.free_tokens
        if free is None or free == expected:
            return
        rule = "refused-with-effect" if refused else "size-drift"
        told = "slots are lost, or the number is wrong" if free < expected else ""
        self._breaks(rule, f"available_size() {expected}", f"available_size() {free}", told)


class PoolFollower:
    """Follows a bare pool, of which nothing is held.

    Args:
        can: what the pool promises.
    """

    def __init__(self, can: PoolCapabilities) -> None:
        self._broken: list[Broken] = []
        self._size, self._ignores = can.page_size, can.misuse == "ignored"
        self._recorder = Recorder(cast(Pool, EchoPool(can)), {}, self._breaks)
        caller = SimpleNamespace(name="the caller", own=set(), named=set())  # the only one here
        self._recorder.serve(cast(Request, caller), "")
        self._slots = Slots(self._recorder, self._breaks)

    def _breaks(self, *broken: str) -> None:
        self._broken.append(Broken(*broken))

    def follow(self, call: Called) -> Violation | None:
        """Judge one call, and count what is free."""
        kind, _, answer, seen = call
        refused = isinstance(answer, Raised) or (kind == "alloc" and answer is None)
        if kind == "free" and self._ignores and self._slots.unheld(call[1][0]):
            call = self._heeded(call)
        self._slots.play(call)
        if seen is not None and not self._broken:
            self._slots.compare(seen.free, refused=refused)
        return named(self._broken, kind)

    def _heeded(self, call: Called) -> Called:
        """Return what a pool has done that ignores misuse: it took each once that is held, or
        nothing."""
        (kind, (slots,), answer, seen), ledger = call, self._recorder.ledger
        left_alone = seen is not None and seen.free == ledger.free_tokens
        good = [] if left_alone else [slot for slot in dict.fromkeys(slots) if slot in ledger.owner]
        return kind, (good,), answer, seen

    def again(self) -> list[Called]:
        """Take what is held in one piece: whole pages, of which some has come back, and some has
        more holders than one."""
        owner, extra, size = self._recorder.ledger.owner, self._recorder.ledger.extra, self._size
        pages = dict.fromkeys(slot // size for slot in owner)
        whole = [slot for page in pages for slot in range(page * size, (page + 1) * size)]
        calls: list[Called] = [("alloc", (len(whole),), whole, None)] if whole else []
        if gone := [slot for slot in whole if slot not in owner]:
            calls.append(("free", (gone,), None, None))
        for times in range(max(extra.values(), default=0)):
            shared = [slot for slot, more in extra.items() if more > times]
            calls.append(("add_refs", (shared,), None, None))
        return calls
