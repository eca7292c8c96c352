"""Apply an operation to a cache of requests, and compare. Each takes the same steps:

call       the cache does it, and every alloc and free of its goes through the ledger
compare    the row that it tells, slot by slot: whose each is, and whose KV is in it
advance    the books by what was seen: what a request still owns of its whole pages when it is
           published or ends is the tree's from then on
"""

from __future__ import annotations

from collections.abc import Iterator

from radixcheck.checker.calls import TARGET_ERRORS, read_length
from radixcheck.clock import Clock
from radixcheck.finding import Holding, Snapshot, Step
from radixcheck.operations import (
    Abort,
    AnyOperation,
    Audit,
    Done,
    Evict,
    Finish,
    Idle,
    Outcome,
    Skipped,
)
from radixcheck.protocol import RequestCache
from radixcheck.requests.recorder import TREE
from radixcheck.requests.steps import STEPS
from radixcheck.requests.trial import Trial
from radixcheck.rules import Violation, worst_first


class Checker:
    """Applies operations and answers the `Violation` of the first one that breaks a rule.

    Args:
        cache: an empty cache with a full pool.
        clock: the clock that the cache was built with.
        misuse, disabled, overwrites, thorough: mean nothing at this level.
    """

    def __init__(
        self,
        cache: RequestCache,
        clock: Clock,
        *,
        misuse: bool = False,
        disabled: bool = False,
        overwrites: bool = True,
        thorough: bool = False,
    ) -> None:
        self.trial = trial = Trial(cache)
        self.capabilities = cache.capabilities
        self.reached, self.skipped = trial.reached, trial.skipped
        self.steps: list[Step] = []
        """What happened, call by call, once `record` was called."""
        self._clock = clock
        self._auditing = False
        self._operation: AnyOperation = Idle()

    def record(self) -> None:
        """From now on keep every step."""
        self.trial.recording = True

    def draw(self) -> Snapshot:
        """Return who holds what now."""
        return Snapshot({}, tuple(_holdings(self.trial)))

    def apply(self, operation: AnyOperation) -> Violation | None:
        """Apply one operation of a trace.

        Raises:
            BadAnswer: the cache's answer cannot be read; its adapter is at fault.
        """
        self.trial.step += 1
        self._operation = operation
        if type(operation) is Audit:
            return self._audit(operation)
        return self._idle() if type(operation) is Idle else self._call(operation)

    def _call(self, operation: AnyOperation) -> Violation | None:
        trial = self.trial
        self._clock.advance()
        outcome = STEPS[type(operation)](trial, operation)
        if not trial.broken and type(outcome) is not Skipped:
            self._compare_free()
        if trial.recording:
            self._note(operation, outcome or Done())
        return self._violation() if trial.broken else None

    def _note(self, operation: AnyOperation, outcome: Outcome) -> None:
        if self.trial.recording:
            self.steps.append(Step(operation, outcome, self._clock.reading, self._auditing))

    def _compare_free(self) -> None:
        """See that the pool counts as many free slots as the ledger knows."""
        trial, recorder = self.trial, self.trial.recorder
        if not recorder.counts:
            return
        try:
            answer = recorder.pool.available_size()
        except TARGET_ERRORS as error:
            trial.failed(error)
            return
        actual = answer if type(answer) is int else read_length(answer, "available_size")
        if actual != (expected := recorder.ledger.free_tokens):
            told = f"available_size() {actual}"
            trial.breaks("size-drift", f"available_size() {expected}", told)

    def _violation(self) -> Violation | None:
        trial = self.trial
        if not trial.broken:
            return None
        return worst_first(
            [
                Violation(rule, self._operation.kind, trial.step, expected, actual, detail)
                for rule, expected, actual, detail in trial.broken
            ]
        )

    # ---- what is made of several calls ---------------------------------------------------

    def _idle(self) -> Violation | None:
        """Nothing runs: what is not free is the tree's; and nothing is, once all is evicted."""
        trial = self.trial
        if trial.running:
            self._note(Idle(), trial.skip("requests are running"))
            return None
        trial.recorder.interrupting = None
        held = len(trial.recorder.ledger.owner)
        sizes = {name: trial.size(name) for name in ("total_size", "evictable_size")}
        outcome: Outcome = Done()
        if trial.has["evict"] and not trial.broken:
            evictable = sizes["evictable_size"]
            outcome = self._evict_all(held if evictable is None else evictable)
        if not trial.broken:
            self._compare_sizes(sizes, held)
        trial.check_rows_free()
        trial.saw("idle")
        trial.saw("slots-reused", when=trial.recorder.reused > 0)
        self._note(Idle(), outcome)
        return self._violation()

    def _evict_all(self, num_tokens: int) -> Outcome:
        """Evict what is stored, all of it, and see that every slot is free."""
        trial = self.trial
        self._clock.advance()
        outcome = STEPS[Evict](trial, Evict(num_tokens)) or Done()
        if not trial.broken:
            self._compare_free()
        trial.check_all_free()
        trial.recorder.interrupted = False
        return outcome

    def _compare_sizes(self, sizes: dict[str, int | None], held: int) -> None:
        """See that what was not free was what the tree said it stores, and might evict.

        Where all is free now, a size was wrong and no slot.
        """
        for name, told in sizes.items():
            if told is not None and told != held:
                lost = held > told and not self.trial.has["evict"]
                rule = "leaked-slot" if lost else "size-drift"
                expected = f"{name}() {held} before all is evicted, as many as are in use"
                self.trial.breaks(rule, expected, f"{name}() {told}")
                return

    def _audit(self, operation: Audit) -> Violation | None:
        self._auditing = True
        try:
            for call in self._audit_calls(operation):
                if (violation := self._call(call)) is not None:
                    return violation
            violation = self._idle()
        finally:
            self._auditing = False
        if violation is None:
            self.trial.saw("audit")
        return violation

    def _audit_calls(self, operation: Audit) -> Iterator[AnyOperation]:
        """End every request, each third one before its time."""
        trial = self.trial
        for name in trial.queue_names():
            yield Abort(name)
        for place, name in enumerate(list(trial.running), start=operation.order):
            if place % 3 == 0 or trial.running[name].computed < trial.running[name].to_prefill:
                yield Abort(name)
            else:
                yield Finish(name)


def _holdings(trial: Trial) -> Iterator[Holding]:
    """Yield who holds what: of each running request what it was lent, its own, and what waits."""
    ledger, can = trial.recorder.ledger, trial.recorder.capabilities
    for request in trial.running.values():
        lent, own = request.row[: request.lent], request.row[request.lent :]
        spare = sorted(request.own.difference(request.row))
        if lent or not request.own:
            yield Holding(request.name, tuple(lent), 0, "lent by the tree")
        if own:
            yield Holding(request.name, tuple(own), len(lent), "its own")
        if spare:
            yield Holding(request.name, tuple(spare), request.computed, "its own, not in use")
    stored = sorted(slot for slot, owner in ledger.owner.items() if owner == TREE)
    yield Holding(TREE, tuple(stored))
    free = [slot for slot in range(can.reserved, can.end) if slot not in ledger.owner]
    yield Holding("free", tuple(free))
