"""Apply an operation to pool and ledger, compare, move the ledger on:

expected = what the ledger says is free
actual   = what the pool answers
compare    every slot by its number, and then the number of free slots
advance    the ledger by what was seen: which slots a pool chooses is its own affair
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from radixcheck.buffers import BadAnswer
from radixcheck.checker.broken import counted, listed
from radixcheck.checker.calls import TARGET_ERRORS, said
from radixcheck.clock import Clock
from radixcheck.finding import Holding, Snapshot, Step
from radixcheck.operations import (
    AddRefs,
    Alloc,
    Allocated,
    AnyOperation,
    Audit,
    Done,
    Failure,
    Free,
    Operation,
    Outcome,
    Refusal,
    Reset,
    Returned,
    Weigh,
    Weighed,
)
from radixcheck.pools import answers, probe
from radixcheck.pools.trial import Held, Trial
from radixcheck.protocol import Pool, Refused
from radixcheck.rules import Violation, worst_first


def alloc(trial: Trial, operation: Alloc) -> Outcome:
    """Take slots. A refusal is right if too few are free, and only then."""
    num_tokens, free = operation.num_tokens, trial.ledger.free_tokens
    _witness_alloc(trial, num_tokens, free)
    try:
        answer = trial.pool.alloc(num_tokens)
    except Refused as refusal:
        return _refused(trial, num_tokens, free, str(refusal))
    except TARGET_ERRORS as error:
        return trial.failed(error)
    if answer is None:
        return _refused(trial, num_tokens, free, "")
    slots = answers.read(answer, trial.capabilities)
    trial.broken += answers.faults(slots, num_tokens, trial.ledger, trial.capabilities)
    if not trial.broken:
        _hold(trial, operation.handle, slots, answer)
    return Allocated(tuple(slots))


def _refused(trial: Trial, num_tokens: int, free: int, message: str) -> Outcome:
    trial.refused = True
    if 0 < num_tokens <= free:
        trial.breaks("leaked-slot", counted(num_tokens, "slot"), "a refusal", f"{free} are free")
    return Refusal(message)


def _hold(trial: Trial, handle: str | None, slots: Sequence[int], answer: Any) -> None:
    """Write down who holds `slots`; what an older handle of the name held stays held."""
    name = handle or f"step {trial.step}"
    if name in trial.held:
        trial.held[f"{name} until step {trial.step}"] = trial.held.pop(name)
    trial.held[name] = Held(slots, answer)
    if slots and trial.ledger.extra:
        trial.reached["alloc-while-shared"] += 1
    trial.ledger.take(slots, name)
    if not trial.known.isdisjoint(slots):
        trial.reached["slots-reused"] += 1
    trial.known.update(slots)


def free(trial: Trial, operation: Free) -> Outcome:
    """Give slots back: those that are held, or where none is, what no caller should."""
    if operation.handle is None:
        return _misuse(trial, _nowhere(trial, operation.start), "no slot of the pool")
    if (held := trial.held.get(operation.handle)) is None:
        return trial.skip("no such handle")
    beyond = (operation.stop or 0) - len(held.slots)
    if beyond > 0 and trial.misuses and operation.times == 1:
        return _free_too_much(trial, held, operation.start, beyond - 1)
    places = held.places(operation.start, operation.stop, operation.times)
    if not places:
        return _free_too_often(trial, held, operation)
    slots = held.at(places)
    if not trial.whole_pages(slots):
        return trial.skip("a part of a page")
    _witness_free(trial, operation, slots, len(held.slots))
    given = slots * operation.times
    trial.look_again(held)
    try:
        trial.hand("free", given)
    except TARGET_ERRORS as error:
        return trial.failed(error)
    held.count(places, -operation.times)
    trial.ledger.give(given)
    return Returned(tuple(given))


def _free_too_often(trial: Trial, held: Held, operation: Free) -> Outcome:
    """Give back what nobody holds, or list a slot more often than it is held."""
    once = held.places(operation.start, operation.stop)
    if once:
        slots = held.at(once) * operation.times
        return _misuse(trial, slots, "held less often", held, once)
    inside = held.at(held.places(operation.start, operation.stop, 0))
    idle = [slot for slot in inside if slot not in trial.ledger.owner]
    return _misuse(trial, idle * operation.times, "free already")


def _free_too_much(trial: Trial, held: Held, start: int, which: int) -> Outcome:
    """Give back what is held, and in the same list a page that the pool never hands out."""
    places = held.places(start, None)
    slots = held.at(places) + _nowhere(trial, which)
    return _misuse(trial, slots, "the last is no slot of the pool", held, places)


def _nowhere(trial: Trial, which: int) -> list[int]:
    """Return a page that the pool never hands out: the first reserved one, the one beyond the end,
    the one below 0, and then the other reserved ones, the last of them first."""
    can = trial.capabilities
    size, reserved = can.page_size, can.reserved // can.page_size
    ends = (0 if reserved else can.end, can.end, -size)
    start = ends[which % 3]
    if which >= 3 and reserved:
        start = can.reserved - size * (1 + (which - 3) % reserved)
    return list(range(start, start + size))


def _misuse(
    trial: Trial, slots: list[int], what: str, held: Held | None = None, good: Sequence[int] = ()
) -> Outcome:
    """Make a free that no caller should make, `good` of whose places `held` still has.

    A refusal must have no effect. An answer may take one holder off each of the good places, or
    leave the whole list alone.
    """
    if not trial.misuses or not slots or not trial.whole_pages(slots):
        return trial.skip("no such slots are held")
    once = held.at(good) if held is not None else []
    if once and trial.capabilities.misuse != "raises" and not _tells(trial, once):
        return trial.skip("nothing would tell what such a free did")
    trial.reached["misuse"] += 1
    try:
        trial.hand("free", slots)
    except TARGET_ERRORS as error:
        if trial.capabilities.misuse == "ignored":
            return trial.failed(error)
        trial.refused, trial.given = True, f"the free listed {listed(slots)}"
        return Refusal(said(error))
    if trial.capabilities.misuse == "raises":
        trial.breaks("double-free", f"a refusal: {what}", f"accepted {listed(slots)}")
    elif held is not None and not probe.left_alone(trial):
        held.count(good, -1)
        trial.ledger.give(once)
    return Returned(tuple(slots))


def _tells(trial: Trial, slots: Sequence[int]) -> bool:
    """Tell whether `slots` are free, and the pool says so, once each has a holder less."""
    ledger = trial.ledger
    return (
        hasattr(trial.pool, "available_size")
        and ledger.extra.keys().isdisjoint(slots)
        and trial.fills_pages(slots)
    )


def add_refs(trial: Trial, operation: AddRefs) -> Outcome:
    """Hold slots once more, in a pool that counts holders."""
    held = trial.held.get(operation.handle)
    if held is None:
        return trial.skip("no such handle")
    if trial.capabilities.ownership != "counted" or not hasattr(trial.pool, "add_refs"):
        return trial.skip("the pool counts no holders")
    places = held.places(operation.start, operation.stop)
    slots = held.at(places)
    if not slots or not trial.whole_pages(slots):
        return trial.skip("no such slots are held")
    try:
        trial.hand("add_refs", slots)
    except TARGET_ERRORS as error:
        return trial.failed(error)
    trial.ledger.share(held.count(places, +1))
    _witness_share(trial, operation.handle, slots)
    return Returned(tuple(slots))


def reset(trial: Trial, operation: Reset) -> Outcome:
    """Take everything back: every handle dies."""
    if not hasattr(trial.pool, "reset"):
        return trial.skip("the pool has no reset")
    if trial.ledger.owner:
        trial.reached["reset-while-held"] += 1
    if trial.ledger.extra:
        trial.reached["reset-while-shared"] += 1
    try:
        trial.pool.reset()
    except TARGET_ERRORS as error:
        return trial.failed(error)
    trial.held.clear()
    trial.ledger.clear()
    return Done()


def weigh(trial: Trial, operation: Weigh) -> Outcome:
    """Count the memory of the pool and of what it handed out, and end a round."""
    if trial.scales is None:
        return trial.skip("the pool's memory cannot be looked at")
    stored = len(trial.ledger.owner)
    num_bytes, broken = trial.scales.weigh(stored)
    if broken is not None:
        trial.broken.append(broken)
    return Weighed(num_bytes, stored)


APPLY: dict[type[Operation], Callable[[Trial, Any], Outcome]] = {
    Alloc: alloc,
    Free: free,
    AddRefs: add_refs,
    Reset: reset,
    Weigh: weigh,
}
"""What is done about each kind of operation; an audit is made of others."""


class Checker:
    """Applies operations and answers the `Violation` of the first one that breaks a rule.

    Args:
        pool: a pool of which nothing is held.
        misuse, overwrites: as of `Trial`; the others mean nothing to a pool.
    """

    def __init__(
        self,
        pool: Pool,
        clock: Clock,
        *,
        misuse: bool = False,
        disabled: bool = False,
        overwrites: bool = True,
        thorough: bool = False,
    ) -> None:
        self.trial = Trial(pool, misuse=misuse, overwrites=overwrites)
        self.capabilities = self.trial.capabilities
        self.reached, self.skipped = self.trial.reached, self.trial.skipped
        self.steps: list[Step] = []
        self._clock = clock
        self._recording = self._auditing = False

    def record(self) -> None:
        """From now on keep every step."""
        self._recording = True

    def draw(self) -> Snapshot:
        """Return who holds which slots now."""
        return Snapshot({}, tuple(_holdings(self.trial)))

    def apply(self, operation: AnyOperation) -> Violation | None:
        """Apply one operation of a trace.

        Raises:
            BadAnswer: the pool's answer cannot be read; its adapter is at fault.
        """
        self.trial.step += 1
        if type(operation) is Audit:
            return self._audit(operation)
        return self._call(operation, operation.kind)

    def _call(self, operation: AnyOperation, kind: str) -> Violation | None:
        trial = self.trial
        self._clock.advance()
        trial.refused, trial.given = False, ""
        operation = _whole(operation, trial.capabilities.page_size)
        outcome = APPLY[type(operation)](trial, operation)
        if trial.scales is not None and type(operation) is not Weigh:
            trial.scales.note(operation)
        if self._recording:
            self.steps.append(Step(operation, outcome, 0, self._auditing))
        if type(outcome) is not Failure and not trial.broken:
            self._compare_size(operation)
        if not trial.broken:
            return None
        return worst_first(
            [Violation(each.rule, kind, trial.step, *each[1:]) for each in trial.broken]
        )

    def _compare_size(self, operation: Operation) -> None:
        try:
            self.trial.broken += probe.drift(self.trial, operation)
        except BadAnswer:
            raise
        except TARGET_ERRORS as error:
            self.trial.failed(error)

    def _audit(self, operation: Audit) -> Violation | None:
        self._auditing = True
        try:
            for call in _audit_calls(self.trial):
                if (violation := self._call(call, operation.kind)) is not None:
                    return violation
        finally:
            self._auditing = False
        self.trial.reached["audit"] += 1
        return None


def _whole(operation: AnyOperation, size: int) -> AnyOperation:
    """Round what is asked of a pool of pages up to whole ones."""
    if type(operation) is not Alloc or not operation.num_tokens % size:
        return operation
    return replace(operation, num_tokens=-(-operation.num_tokens // size) * size)


def _audit_calls(trial: Trial) -> Iterator[AnyOperation]:
    """Give everything back, take every slot exactly once, and give that back too."""
    yield from _give_all(trial)
    size, capacity = trial.capabilities.page_size, trial.capabilities.capacity
    half = (capacity - size) // 2 // size * size
    for amount in filter(None, (size, half, capacity - size - half)):
        yield Alloc(amount)
    yield Alloc(size)
    yield from _give_all(trial)


def _give_all(trial: Trial) -> Iterator[AnyOperation]:
    for name, held in list(trial.held.items()):
        for _ in range(max(held.counts, default=0)):
            yield Free(name)


def _holdings(trial: Trial) -> Iterator[Holding]:
    """Yield runs of slots that are held equally often, and then what is free."""
    for name, held in trial.held.items():
        start = 0
        for place in range(1, len(held.slots) + 1):
            if place == len(held.slots) or held.counts[place] != held.counts[start]:
                if (count := held.counts[start]) > 0:
                    note = f"held {count} times" if count > 1 else ""
                    yield Holding(name, tuple(held.slots[start:place]), start, note)
                start = place
    can, ledger = trial.capabilities, trial.ledger
    loose = [slot for slot in range(can.reserved, can.end) if slot not in ledger.owner]
    waiting = [slot for slot in loose if ledger.waits(slot)]
    if waiting:
        yield Holding("given back", tuple(waiting), note="their page is held")
    yield Holding("free", tuple(slot for slot in loose if not ledger.waits(slot)))


def _witness_alloc(trial: Trial, num_tokens: int, free: int) -> None:
    reached = trial.reached
    if num_tokens == 0:
        reached["alloc-nothing"] += 1
    elif num_tokens == free:
        reached["exact-exhaustion"] += 1
    elif free == 0:
        reached["alloc-when-empty"] += 1
    elif num_tokens > free:
        reached["alloc-too-much"] += 1


def _witness_free(trial: Trial, operation: Free, slots: Sequence[int], whole: int) -> None:
    reached, size = trial.reached, trial.capabilities.page_size
    if len(slots) < whole:
        reached["free-in-parts"] += 1
    if operation.times > 1:
        reached["listed-twice"] += 1
    if len(set(slots)) % size:
        reached["seam-inside-page"] += 1
    if trial.ledger.extra:
        _witness_parting(trial, slots, operation.times, len(slots) < whole)
    if len(slots) == len(trial.ledger.owner) == trial.capabilities.capacity:
        reached["full-drain"] += 1


def _witness_share(trial: Trial, handle: str, slots: Sequence[int]) -> None:
    reached, extra = trial.reached, trial.ledger.extra
    reached["shared"] += 1
    if any(extra[slot] > 1 for slot in slots):
        reached["three-holders"] += 1
    if any(trial.ledger.owner[slot] != handle for slot in extra):
        reached["several-shared"] += 1


def _witness_parting(trial: Trial, slots: Sequence[int], times: int, part: bool) -> None:
    """See what a free does while something is shared: to that, beside it, or both."""
    reached, extra = trial.reached, trial.ledger.extra
    shared = [slot for slot in slots if slot in extra]
    if not shared:
        reached["freed-beside-shared"] += 1
        return
    if any(extra[slot] >= times for slot in shared):
        reached["freed-while-shared"] += 1
    if len(shared) < len(slots):
        reached["shared-and-alone-freed"] += 1
    if part:
        reached["part-of-shared-freed"] += 1
