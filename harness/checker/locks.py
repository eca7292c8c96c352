"""Lock and unlock, also where no caller should."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from radixcheck.checker.calls import TARGET_ERRORS, read_length
from radixcheck.checker.trial import Held, Trial
from radixcheck.operations import Changed, DecRef, Done, IncRef, Outcome, Refusal
from radixcheck.protocol import Foreseen
from radixcheck.reference.positions import Position


def inc_ref(trial: Trial, operation: IncRef) -> Outcome | None:
    """Lock a handle. What it protects is seen in the sizes, which are looked at right after."""
    held = trial.handles.get(operation.handle)
    if trial.calls.inc_ref is None or held is None:
        return trial.skip("no such handle")
    if not trial.alive(held):
        return _lock_dead(trial, held)
    maybe = trial.model.maybe_tokens
    trial.witness.lock(held.model, trial.step - held.step)
    try:
        delta = trial.calls.inc_ref(held.inside)
    except TARGET_ERRORS as error:
        return trial.failed(error)
    covered = trial.model.lock(held.model, trial.now)
    told = trial.capabilities.deltas != "absent"
    if told and delta != -covered:
        _check_delta(trial, delta, -covered, maybe)
    return _changed(delta if told else None) if trial.recording else None


def dec_ref(trial: Trial, operation: DecRef) -> Outcome | None:
    """Give a lock back."""
    held = trial.handles.get(operation.handle)
    if trial.calls.dec_ref is None or held is None:
        return trial.skip("no such handle")
    if not held.model.alive or not held.model.locks:
        return _unlock_unlocked(trial, held)
    maybe = trial.model.maybe_tokens
    try:
        delta = trial.calls.dec_ref(held.inside)
    except TARGET_ERRORS as error:
        return trial.failed(error)
    uncovered = trial.model.unlock(held.model, trial.now)
    told = trial.capabilities.deltas == "present"
    if told and delta != uncovered:
        _check_delta(trial, delta, uncovered, maybe)
    return _changed(delta if told else None) if trial.recording else None


def _check_delta(trial: Trial, delta: Any, expected: int, maybe_before: int) -> None:
    """Judge a reported change of the evictable size that is not the expected one.

    What a lock may cover below its prefix, before or after, blurs the change by as much.
    """
    if isinstance(delta, Foreseen) or (trial.disabled and delta is None):
        return  # a cache that stores nothing has nothing to tell
    allowed = trial.sizes.blurred(expected, maybe_before)
    if delta is None:
        trial.breaks("delta-mismatch", f"a change by {allowed}", "None")
    elif not allowed.low <= (change := read_length(delta, "a lock")) <= allowed.high:
        trial.breaks("delta-mismatch", f"a change by {allowed}", f"a change by {change}")


def _changed(delta: Any) -> Outcome:
    """Record what was promised; what nobody promised may be anything, and says nothing."""
    is_told = delta is not None and not isinstance(delta, Foreseen)
    return Changed(read_length(delta, "a lock") if is_told else None)


def _lock_dead(trial: Trial, held: Held) -> Outcome:
    """Lock a handle whose prefix is gone: judged only where the target promises an answer."""
    end = held.model.end
    if not trial.promises_misuse or held.model.alive or end is None or _is_stored_again(trial, end):
        return trial.skip("the handle is dead")
    accepted = _misuse(trial, trial.calls.inc_ref, held)
    if accepted and trial.capabilities.misuse == "raises":
        trial.breaks("handle-mismatch", "a refusal: the prefix is gone", "a lock on nothing")
    return Done() if accepted else Refusal("")


def _unlock_unlocked(trial: Trial, held: Held) -> Outcome:
    """Give back a lock that nobody holds."""
    if not _is_telling(trial, held):
        return trial.skip("the handle holds no lock")
    accepted = _misuse(trial, trial.calls.dec_ref, held)
    trial.underflowed |= accepted
    if accepted and trial.capabilities.misuse == "raises":
        trial.breaks("lock-underflow", "a refusal: nothing is locked", "an unlock")
    return Done() if accepted else Refusal("")


def _is_telling(trial: Trial, held: Held) -> bool:
    """Tell whether one unlock too many would say something.

    A deeper lock, or one that may reach here, would hide it from any counter. A dead handle may do
    anything, unless the target promises an answer.
    """
    end = held.model.end
    if end is None or not trial.misuses:
        return False
    if held.model.alive:
        return not end.cover and not end.maybe
    return trial.promises_misuse and not _is_stored_again(trial, end)


def _is_stored_again(trial: Trial, end: Position) -> bool:
    """Tell whether the prefix of a dead handle is back, for targets whose handles name prefixes."""
    key = trial.model.key(end)
    return trial.model.find(key, trial.model.namespace(end)).length == len(key)


def _misuse(trial: Trial, call: Callable[..., Any] | None, held: Held) -> bool:
    """Make a call that no caller should make, and tell whether it was accepted."""
    assert call is not None
    trial.witness.reached["misuse"] += 1
    try:
        call(held.inside)
    except TARGET_ERRORS as error:
        if trial.capabilities.misuse == "ignored":
            trial.failed(error)
        trial.refused = True
        return False
    return True
