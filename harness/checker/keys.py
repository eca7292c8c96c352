"""Match and insert: the operations that bring a key."""

from __future__ import annotations

from radixcheck.buffers import BadAnswer, read_slots
from radixcheck.checker.broken import counted
from radixcheck.checker.calls import TARGET_ERRORS, read_length, read_match
from radixcheck.checker.explain import explain_match
from radixcheck.checker.trial import Held, Trial
from radixcheck.operations import Insert, Inserted, Matched, MatchPrefix, Outcome
from radixcheck.reference.model import Found


def match_prefix(trial: Trial, operation: MatchPrefix) -> Outcome | None:
    """Compare the length and every slot of a match."""
    if operation.namespace and not trial.takes(operation.namespace):
        return trial.skip("the target has no such namespaces")
    name = operation.handle
    held = None if name is None else trial.handles.get(name)
    if held is not None and held.model.locks:
        return trial.skip("a handle of that name is locked")
    model, original = trial.model, trial.token_buffer(operation.tokens)
    tokens = original[:]
    key = operation.tokens[:-1] if trial.leaves_last else operation.tokens
    found = model.find(key, operation.namespace)
    trial.witness.match(operation, key, found.end)
    try:
        length, slots, handle = read_match(trial.calls.match(tokens, operation.namespace))
    except BadAnswer:
        raise
    except TARGET_ERRORS as error:
        return trial.failed(error)
    actual = read_slots(slots)
    if actual != found.slots or length != len(actual):
        trial.broken += explain_match(
            model, key, operation.namespace, found, length, actual, trial.returned
        )
    trial.check_tokens(tokens, original)
    model.matched(found.end, trial.now)
    if name is not None:
        held = Held(handle, model.handle(found.end), trial.step, trial.mutations)
        trial.handles[name] = held
    return Matched(length, tuple(actual)) if trial.recording else None


def insert(trial: Trial, operation: Insert) -> Outcome | None:
    """Compare how much of a key was stored before, and store the rest."""
    if operation.namespace and not trial.takes(operation.namespace):
        return trial.skip("the target has no such namespaces")
    model = trial.model
    found = model.find(operation.tokens, operation.namespace)
    lent = [] if operation.lent is None else _lent(trial, operation.lent, found)
    if lent is None:
        return trial.skip("the lent prefix is gone, or no prefix of the key")
    trial.witness.insert(operation, found.end)
    owned_from = len(lent)
    slots = lent + trial.pool.take(len(operation.tokens) - owned_from)
    given = slots[: model.aligned(operation.tokens)] if trial.aligns else slots
    original = trial.token_buffer(operation.tokens[: len(given)])
    tokens, buffer = original[:], trial.make_slots(given)
    trial.mutations += 1
    try:
        answer = trial.calls.insert(
            tokens, buffer, operation.namespace, operation.priority, owned_from
        )
    except TARGET_ERRORS as error:
        trial.pool.give(slots[owned_from:])
        model.refused(found.end, operation.priority if trial.ranked else 0, trial.now)
        return trial.failed(error, may_refuse=True)
    existing = answer if type(answer) is int else read_length(answer, "insert")
    if existing != found.length:
        _judge_existing(trial, operation, existing, found)
    _store(trial, operation, found, slots, owned_from)
    trial.check_tokens(tokens, original)
    trial.check_slots(buffer, given)
    return Inserted(existing, tuple(given), owned_from) if trial.recording else None


def _lent(trial: Trial, handle: str, found: Found) -> list[int] | None:
    """Return the slots that the match behind `handle` answered; None if it answers no longer."""
    held = trial.handles.get(handle)
    if held is None or not trial.alive(held):
        return None
    end = held.model.end
    return found.slots[: held.model.length] if end is None or found.passes(end) else None


def _judge_existing(trial: Trial, operation: Insert, actual: int, found: Found) -> None:
    size = trial.model.page_size
    if trial.disabled and actual == trial.model.aligned(operation.tokens):
        return
    if actual % size:
        trial.breaks("unaligned-match", f"a multiple of {size}", str(actual))
    else:
        trial.breaks("wrong-existing-length", counted(found.length), counted(actual))


def _store(
    trial: Trial,
    operation: Insert,
    found: Found,
    slots: list[int],
    owned_from: int,
) -> None:
    """Move the model on by an insert, and take back what the tree did not adopt::

        slots    |  lent  | duplicates |   new pages   | tail |
                 0    owned_from   existing         aligned
        owner      tree      caller        tree         caller

    A disabled cache adopts nothing.
    """
    model, pool = trial.model, trial.pool
    if trial.disabled:
        pool.give(slots[owned_from:])
        return
    existing, aligned = found.length, model.aligned(operation.tokens)
    if trial.keeps_copies:
        for position in found.path:
            if position.length > owned_from:
                start = position.length - len(position.run)
                model.kept_copy(position, slots[start : position.length])
    elif existing > owned_from:
        duplicates = slots[owned_from:existing]
        pool.give(duplicates)
        trial.returned.update(zip(duplicates, found.slots[owned_from:], strict=True))
    if aligned < len(slots):
        pool.give(slots[aligned:])
    priority = operation.priority if trial.ranked else 0
    model.inserted(found.end, operation.tokens, slots, operation.namespace, priority, trial.now)
