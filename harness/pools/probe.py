"""What a pool really does when its number of free slots is off: is the number wrong, or are the
slots?

A trace ends with its first violation, so that a probe may take whatever it gets.
"""

from __future__ import annotations

from collections.abc import Iterator

from radixcheck.buffers import BadAnswer
from radixcheck.checker.broken import Broken, counted
from radixcheck.checker.calls import TARGET_ERRORS, read_length
from radixcheck.operations import Free, Operation
from radixcheck.pools import answers
from radixcheck.pools.trial import Trial


def drift(trial: Trial, operation: Operation) -> Iterator[Broken]:
    """Yield what is broken if `available_size` is not what the ledger says after `operation`."""
    if not hasattr(trial.pool, "available_size"):
        return
    expected = trial.ledger.free_tokens
    actual = read_length(trial.pool.available_size(), "available_size")
    if actual == expected:
        return
    told = f"available_size() {expected}", f"available_size() {actual}"
    if trial.refused:
        yield Broken("refused-with-effect", *told, trial.given)
        return
    yield Broken("size-drift", *told)
    size = trial.capabilities.page_size
    if actual > expected and isinstance(operation, Free) and _hands_out(trial, expected + size):
        what = f"an alloc of {counted(expected + size, 'slot')} is answered all the same"
        yield Broken("double-free", *told, what)
    elif actual < expected and not _hands_out(trial, expected):
        what = f"an alloc of {counted(expected, 'slot')} is refused"
        yield Broken("leaked-slot", *told, what)


def left_alone(trial: Trial) -> bool:
    """Tell whether as much is free as the ledger says, when a free has just been answered."""
    try:
        actual = read_length(trial.pool.available_size(), "available_size")
    except (BadAnswer, *TARGET_ERRORS):
        return False  # it is asked again after the operation, and judged
    return actual == trial.ledger.free_tokens


def _hands_out(trial: Trial, num_tokens: int) -> bool:
    """Tell whether an alloc of so many tokens is answered."""
    try:
        answer = trial.pool.alloc(num_tokens)
        return answer is not None and len(answers.read(answer, trial.capabilities)) == num_tokens
    except (BadAnswer, *TARGET_ERRORS):
        return False
