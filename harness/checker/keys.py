"""Match and insert: the operations that bring a key."""

from __future__ import annotations

from radixcheck.buffers import BadAnswer, make_tokens, read_slots
from radixcheck.checker.broken import counted
from radixcheck.checker.calls import TARGET_ERRORS, read_length, read_match
from radixcheck.checker.explain import explain_match
from radixcheck.checker.trial import Held, Trial
from radixcheck.operations import Insert, Inserted, Matched, MatchPrefix, Outcome
from radixcheck.reference.model import Pages, Path


def match_prefix(trial: Trial, operation: MatchPrefix) -> Outcome | None:
    """Compare the length and every slot of a match."""
    if operation.namespace and not trial.takes(operation.namespace):
        return trial.skip("the target has no such namespaces")
    if operation.handle in trial.handles and trial.handles[operation.handle].model.locks:
        return trial.skip("a handle of that name is locked")
    model, tokens = trial.model, make_tokens(operation.tokens)
    original = tokens[:]
    pages = model.pages(operation.tokens[:-1] if trial.leaves_last else operation.tokens)
    path = model.find(pages, operation.namespace)
    trial.witness.match(operation, pages, path)
    try:
        length, slots, handle = read_match(trial.calls.match(tokens, operation.namespace))
    except BadAnswer:
        raise
    except TARGET_ERRORS as error:
        return trial.failed(error)
    actual = read_slots(slots)
    if length != len(path) * model.page_size or actual != model.slots(path):
        trial.broken += explain_match(
            model, pages, operation.namespace, path, length, actual, trial.returned
        )
    trial.check_tokens(tokens, original)
    model.matched(path, trial.now)
    if operation.handle is not None:
        held = Held(handle, model.handle(path), trial.step, trial.mutations)
        trial.handles[operation.handle] = held
    return Matched(length, tuple(actual)) if trial.recording else None


def insert(trial: Trial, operation: Insert) -> Outcome | None:
    """Compare how much of a key was stored before, and store the rest."""
    if operation.namespace and not trial.takes(operation.namespace):
        return trial.skip("the target has no such namespaces")
    model = trial.model
    pages = model.pages(operation.tokens)
    path = model.find(pages, operation.namespace)
    lent = [] if operation.lent is None else _lent(trial, operation.lent, path)
    if lent is None:
        return trial.skip("the lent prefix is gone, or no prefix of the key")
    trial.witness.insert(operation, pages, path)
    owned_from = len(lent)
    slots = lent + trial.pool.take(len(operation.tokens) - owned_from)
    given = slots[: len(pages) * model.page_size] if trial.aligns else slots
    tokens = make_tokens(operation.tokens[: len(given)])
    original, buffer = tokens[:], trial.make_slots(given)
    trial.mutations += 1
    try:
        answer = trial.calls.insert(
            tokens, buffer, operation.namespace, operation.priority, owned_from
        )
    except TARGET_ERRORS as error:
        trial.pool.give(slots[owned_from:])
        model.refused(path, operation.priority if trial.ranked else 0, trial.now)
        return trial.failed(error, may_refuse=True)
    existing = answer if type(answer) is int else read_length(answer, "insert")
    if existing != len(path) * model.page_size:
        _judge_existing(trial, existing, pages, path)
    _store(trial, operation, path, pages, slots, owned_from)
    trial.check_tokens(tokens, original)
    trial.check_slots(buffer, given)
    return Inserted(existing, tuple(given), owned_from) if trial.recording else None


def _lent(trial: Trial, handle: str, path: Path) -> list[int] | None:
    """Return the slots that the match behind `handle` answered; None if it answers no longer."""
    held = trial.alive(handle)
    if held is None:
        return None
    depth = held.model.length // trial.model.page_size
    if depth > len(path) or (depth and path[depth - 1] is not held.model.end):
        return None
    return trial.model.slots(path[:depth])


def _judge_existing(trial: Trial, actual: int, pages: Pages, path: Path) -> None:
    size = trial.model.page_size
    if trial.disabled and actual == len(pages) * size:
        return
    if actual % size:
        trial.breaks("unaligned-match", f"a multiple of {size}", str(actual))
    else:
        trial.breaks("wrong-existing-length", counted(len(path) * size), counted(actual))


def _store(
    trial: Trial,
    operation: Insert,
    path: Path,
    pages: Pages,
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
    size = model.page_size
    existing, aligned = len(path) * size, len(pages) * size
    if trial.keeps_copies:
        for place in range(owned_from // size, len(path)):
            model.kept_copy(path[place], slots[place * size : (place + 1) * size])
    elif existing > owned_from:
        duplicates = slots[owned_from:existing:size]
        pool.give(slots[owned_from:existing])
        trial.returned.update(zip(duplicates, path[owned_from // size :], strict=True))
    if aligned < len(slots):
        pool.give(slots[aligned:])
    priority = operation.priority if trial.ranked else 0
    model.inserted(path, pages, slots, operation.namespace, priority, trial.now)
