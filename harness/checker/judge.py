"""Apply an operation to target and model, compare, move the model on. Each takes the same steps:

expected = what the model has stored
actual   = what the target answers
compare    the whole answers at once; only if they differ, a slow path looks for the rule
advance    the model by what was seen: where a target may choose, its choice is followed
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

from msgspec import structs

from radixcheck.buffers import BadAnswer
from radixcheck.checker import structure
from radixcheck.checker.calls import TARGET_ERRORS
from radixcheck.checker.evict import evict
from radixcheck.checker.keys import insert, match_prefix
from radixcheck.checker.locks import dec_ref, inc_ref
from radixcheck.checker.picture import picture
from radixcheck.checker.sizes import Drift
from radixcheck.checker.trial import Trial
from radixcheck.clock import Clock
from radixcheck.finding import Snapshot, Step
from radixcheck.operations import (
    AnyOperation,
    Audit,
    DecRef,
    Done,
    Evict,
    Failure,
    IncRef,
    Insert,
    MatchPrefix,
    Operation,
    Outcome,
    Reset,
    Tick,
    Weigh,
    Weighed,
)
from radixcheck.protocol import Target
from radixcheck.rules import Violation, worst_first

SELDOM = 64
"""One operation in this many asks what makes a target walk its tree; fewer yet in a large tree.
A thorough checker asks more often in proportion."""

MISCOUNTS = frozenset("handle-mismatch under-evicted size-drift delta-mismatch structure".split())
"""What follows when a target has unlocked what was not locked: then that is the finding's name."""


def reset(trial: Trial, operation: Reset) -> Outcome | None:
    """Forget everything: every handle dies, and every slot comes back."""
    if trial.calls.reset is None:
        return trial.skip("the target has no reset")
    trial.witness.reset()
    trial.mutations += 1
    try:
        trial.calls.reset()
    except TARGET_ERRORS as error:
        return trial.failed(error)
    for held in trial.handles.values():
        held.model.alive = False
    trial.pool.give_in_any_order(trial.model.owner)
    trial.model.reset()
    return None


def weigh(trial: Trial, operation: Weigh) -> Outcome | None:
    """Count the target's memory, where it can be looked at, and end a round."""
    if trial.scales is None:
        return trial.skip("the target's memory cannot be looked at")
    stored = trial.model.total_tokens
    num_bytes, broken = trial.scales.weigh(stored)
    if broken is not None:
        trial.broken.append(broken)
    return Weighed(num_bytes, stored) if trial.recording else None


def tick(trial: Trial, operation: Tick) -> Outcome | None:
    """Set the clock for the next operation, where the target takes its time from us."""
    clock = trial.capabilities.clock
    if clock == "own" or (operation.delta < 0 and clock == "injected"):
        return trial.skip("the target's clock cannot be set")
    trial.witness.tick(operation.delta)
    trial.clock.tick(operation.delta)
    return None


APPLY: dict[type[Operation], Callable[[Trial, Any], Outcome | None]] = {
    MatchPrefix: match_prefix,
    Insert: insert,
    Evict: evict,
    IncRef: inc_ref,
    DecRef: dec_ref,
    Reset: reset,
    Tick: tick,
    Weigh: weigh,
}
"""What is done about each kind of operation; an audit is made of others."""


class Checker:
    """Applies operations and answers the `Violation` of the first one that breaks a rule.

    Args:
        target, clock, misuse, disabled, overwrites: as of `Trial`.
        thorough: as long as the tree is small, ask after every operation even what makes the
            target walk it.
    """

    def __init__(
        self,
        target: Target,
        clock: Clock,
        *,
        misuse: bool = False,
        disabled: bool = False,
        overwrites: bool = True,
        thorough: bool = False,
    ) -> None:
        self.trial = Trial(target, clock, misuse=misuse, disabled=disabled, overwrites=overwrites)
        self.capabilities = self.trial.capabilities
        self.reached, self.skipped = self.trial.witness.reached, self.trial.skipped
        self.steps: list[Step] = []
        """What happened, call by call, once `record` was called."""
        self._auditing = False
        self._matched_all = False
        """Whether an audit is past its matches, or at the last of them."""
        self._thorough = thorough
        self._next_look = 0

    def record(self) -> None:
        """From now on keep every step."""
        self.trial.recording = True

    def draw(self) -> Snapshot:
        """Return what is stored now."""
        handles = {name: held.model for name, held in self.trial.handles.items()}
        return picture(self.trial.model, handles)

    def apply(self, operation: AnyOperation) -> Violation | None:
        """Apply one operation of a trace.

        Raises:
            BadAnswer: the target's answer cannot be read; its adapter is at fault.
        """
        if type(operation) is Audit:
            return self._audit(operation)
        trial, kind = self.trial, type(operation)
        trial.step += 1
        if kind is not Tick:
            trial.now = trial.ages.next()
        trial.refused = False
        outcome = APPLY[kind](trial, operation)
        if trial.scales is not None and kind is not Weigh:
            trial.scales.note(operation)
        if type(outcome) is not Failure and (
            trial.step >= self._next_look or not trial.sizes.agree()
        ):
            self._look_around(operation)
        if trial.recording:
            reading = trial.clock.reading
            self.steps.append(Step(operation, outcome or Done(), reading, self._auditing))
        return self._violation(operation.kind, trial.step) if trial.broken else None

    def _violation(self, kind: str, step: int) -> Violation:
        return worst_first(
            [
                Violation(self._renamed(rule), kind, step, expected, actual, detail)
                for rule, expected, actual, detail in self.trial.broken
            ]
        )

    def _renamed(self, rule: str) -> str:
        """Name a rule by its cause, where something earlier explains it better."""
        if self._auditing and rule == "missed-prefix":
            return "lost-insert"
        if self.trial.underflowed and rule in MISCOUNTS:
            return "lock-underflow"
        return rule

    def _look_around(self, operation: AnyOperation) -> None:
        """Find the sizes that are off, and now and then look at what makes a target walk its
        tree."""
        trial = self.trial
        walking = trial.step >= self._next_look
        try:
            for drift in trial.sizes.drifts(walking=walking):
                rule, told = self._name_drift(operation, drift), f"{drift.name}() "
                trial.breaks(rule, f"{told}{drift.expected}", f"{told}{drift.actual}")
            if walking:
                self._walk()
        except BadAnswer:
            raise
        except TARGET_ERRORS as error:
            trial.failed(error)

    def _walk(self) -> None:
        trial = self.trial
        if (dump := trial.calls.dump) is not None:
            nodes = list(trial.clock.counted(dump)())
            trial.broken += structure.contradictions(nodes, trial.model, trial.capabilities)
            if self._matched_all and not trial.broken:  # until then, what is wrong has other names
                trial.broken += structure.differences(nodes, trial.model, trial.capabilities)
        stored = len(trial.model.owner)
        pause = stored // SELDOM if self._thorough else max(SELDOM, stored)
        self._next_look = trial.step + pause

    def _name_drift(self, operation: AnyOperation, drift: Drift) -> str:
        """Name the rule that a wrong size breaks; after a lock or a refusal it says more."""
        if self.trial.refused:
            return "refused-with-effect"
        unprotected = drift.name == "evictable_size" and drift.actual > drift.expected.high
        return "handle-mismatch" if isinstance(operation, IncRef) and unprotected else "size-drift"

    def _audit(self, operation: Audit) -> Violation | None:
        self._auditing, step = True, self.trial.step + 1
        try:
            for call in self._audit_calls(operation):
                if (violation := self.apply(call)) is not None:
                    return structs.replace(violation, operation=operation.kind, step=step)
        finally:
            self._auditing = self._matched_all = False
        self.trial.witness.reached["audit"] += 1
        return None

    def _audit_calls(self, operation: Audit) -> Iterator[AnyOperation]:
        """Match each stored leaf key once, unlock everything, evict everything."""
        trial = self.trial
        leaves = [(namespace, tokens) for namespace, tokens, _ in trial.model.leaves()]
        random.Random(operation.order).shuffle(leaves)
        self._next_look = 0
        for place, (namespace, tokens) in enumerate(leaves, start=1):
            if place == len(leaves):
                self._next_look, self._matched_all = 0, True
            yield MatchPrefix((*tokens, 0) if trial.leaves_last else tokens, namespace)
        self._matched_all = True
        for name, held in trial.handles.items():
            for _ in range(held.model.locks if held.model.alive else 0):
                yield DecRef(name)
        self._next_look = 0
        if trial.calls.evict is not None and not trial.disabled:
            yield Evict(trial.model.evictable_tokens)
