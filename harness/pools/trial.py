"""All that is known during one trace of a pool: the pool, the ledger beside it, what is held."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from radixcheck.buffers import overwrite, slots_maker, unchanged
from radixcheck.capabilities import PoolCapabilities
from radixcheck.checker.broken import Broken, listed
from radixcheck.checker.calls import failure
from radixcheck.checker.weights import Scales
from radixcheck.operations import Failure, Outcome, Skipped
from radixcheck.pools import answers
from radixcheck.protocol import Pool
from radixcheck.reference.ledger import Ledger


class Held:
    """What one alloc answered, and how often its caller still holds each of these slots."""

    __slots__ = ("answer", "counts", "slots", "touched")

    def __init__(self, slots: Sequence[int], answer: Any) -> None:
        self.slots = slots
        self.counts = [1] * len(slots)
        self.answer = answer
        """What the pool handed out, as its caller keeps it until it holds none of the slots."""
        self.touched = False
        """Whether some of the slots have been given back: then the answer has served."""

    def places(self, start: int, stop: int | None, times: int = 1) -> list[int]:
        """Return the places of ``[start, stop)`` that are held `times` times at least."""
        inside = range(*slice(start, stop).indices(len(self.slots)))
        return [place for place in inside if self.counts[place] >= times]

    def count(self, places: Sequence[int], change: int) -> list[int]:
        """Hold `places` so much more or less often; return their slots."""
        if len(places) == len(self.counts):
            self.counts = [times + change for times in self.counts]
        else:
            for place in places:
                self.counts[place] += change
        self.touched = self.touched or change < 0
        if change < 0 and not any(self.counts):
            self.answer = None
        return self.at(places)

    def at(self, places: Sequence[int]) -> list[int]:
        """Return the slots at `places`."""
        return list(map(self.slots.__getitem__, places))


class Trial:
    """One fresh pool on trial.

    Args:
        pool: a pool of which nothing is held.
        misuse: make calls that no caller should make, even where the pool promises no answer.
        overwrites: reuse the caller's buffers after a call, where the pool only borrows them.
    """

    def __init__(self, pool: Pool, *, misuse: bool, overwrites: bool) -> None:
        self.pool = pool
        self.capabilities: PoolCapabilities = pool.capabilities
        can = self.capabilities
        together = can.page_size if can.partial_pages == "counted" else 1
        self.ledger = Ledger(can.capacity, together)
        self.held: dict[str, Held] = {}
        kept = (pool, self.held)
        self.scales = Scales(kept) if can.storage == "present" else None
        self.known: set[int] = set()
        """Slots that were handed out before."""
        self.step = -1
        self.broken: list[Broken] = []
        """What the current operation has broken so far."""
        self.refused = False
        """Whether the pool said no to the current operation."""
        self.given = ""
        """The slots of the current misuse, as a finding names them."""
        self.reached: Counter[str] = Counter()
        self.skipped: Counter[str] = Counter()
        self.misuses = misuse or can.misuse != "unspecified"
        self._overwrites = overwrites and can.arguments == "borrowed"
        self._make_slots = slots_maker(
            can.slots_as, can.device if can.slots_as == "torch" else None
        )

    def breaks(self, rule: str, expected: str, actual: str, detail: str = "") -> None:
        """Write down that the current operation broke `rule`."""
        self.broken.append(Broken(rule, expected, actual, detail))

    def skip(self, reason: str) -> Outcome:
        """Do not try the current operation."""
        self.skipped[reason] += 1
        return Skipped(reason)

    def failed(self, error: BaseException) -> Outcome:
        """Take an exception that no rule allows for a broken one."""
        what: Failure = failure(error)
        self.breaks("unexpected-error", "an answer", f"{what.error}: {what.message}", what.where)
        return what

    def hand(self, method: str, slots: list[int]) -> Any:
        """Call `method` with a fresh buffer of `slots`, and see that it is left alone."""
        buffer = self._make_slots(slots)
        answer = getattr(self.pool, method)(buffer)
        if not unchanged(buffer, slots):
            self.breaks("mutated-argument", listed(slots), listed(list(buffer)))
        if self._overwrites:
            overwrite(buffer)
        return answer

    def look_again(self, held: Held) -> None:
        """See that an answer, of which nothing has been given back, still says what it said."""
        if held.touched or type(held.answer) is tuple:
            return
        now = answers.read(held.answer, self.capabilities)
        if now != held.slots:
            what = f"an alloc's answer that stays {listed(held.slots)}"
            self.breaks("mutated-argument", what, f"now it is {listed(now)}")

    def whole_pages(self, slots: Sequence[int]) -> bool:
        """Tell whether `slots` fill the pages that they touch, or need not."""
        return self.capabilities.partial_pages == "counted" or self.fills_pages(slots)

    def fills_pages(self, slots: Sequence[int]) -> bool:
        """Tell whether `slots` are all slots of the pages that they touch."""
        size = self.capabilities.page_size
        return size == 1 or len(set(slots)) == size * len({slot // size for slot in slots})
