"""Evict: what was freed, whether it might be, and whether it was enough."""

from __future__ import annotations

from radixcheck.checker import evictions
from radixcheck.checker.broken import Broken, counted, listed
from radixcheck.checker.calls import TARGET_ERRORS
from radixcheck.checker.sizes import Interval
from radixcheck.checker.trial import Trial
from radixcheck.operations import Evict, Freed, Outcome, Refusal
from radixcheck.protocol import Refused
from radixcheck.reference.model import Model
from radixcheck.reference.positions import Position


def evict(trial: Trial, operation: Evict) -> Outcome | None:
    """Judge the freed slots, their amount, and the choice of victims."""
    if trial.calls.evict is None:
        return trial.skip("the target has no evict")
    evictable = trial.sizes.evictable()
    trial.mutations += 1
    try:
        answer = trial.calls.evict(operation.num_tokens)
    except Refused as refusal:
        return _refused(trial, operation, evictable, refusal)
    except TARGET_ERRORS as error:
        return trial.failed(error, may_refuse=trial.disabled)
    slots, groups = evictions.read_groups(answer)
    freed = evictions.resolve(trial.model, slots, groups)
    if isinstance(freed, Broken):
        trial.broken.append(freed)
    else:
        _judge(trial, operation, evictable, freed)
    return Freed(tuple(map(tuple, groups or [slots]))) if trial.recording else None


def _refused(
    trial: Trial, operation: Evict, evictable: Interval, refusal: Refused
) -> Outcome | None:
    trial.refused = True
    trial.witness.evict(operation, evictions.NOTHING)
    needed = min(operation.num_tokens, evictable.low)
    may_refuse = trial.capabilities.short_evict == "refuses"
    if needed > 0 and not (may_refuse and operation.num_tokens > evictable.low):
        trial.breaks("under-evicted", f"at least {counted(needed)}", "a refusal")
    return Refusal(str(refusal)) if trial.recording else None


def _judge(trial: Trial, operation: Evict, evictable: Interval, freed: evictions.Freed) -> None:
    model, can = trial.model, trial.capabilities
    if model.covered_tokens:
        trial.broken += evictions.locked_victim(model, freed)
    trial.broken += evictions.wrong_amount(model, can, freed, operation.num_tokens, evictable.low)
    if can.short_evict == "refuses" and operation.num_tokens > evictable.high:
        wanted = f"a refusal: only {counted(evictable.high)} can be freed"
        trial.breaks("under-evicted", wanted, counted(len(freed.slots)))
    trial.witness.evict(operation, freed)
    if freed.slots:
        _remove(trial, freed)


def _name(model: Model, position: Position) -> str:
    namespace = model.namespace(position)
    return listed(model.key(position)) + (f" in {namespace}" if namespace else "")


def _remove(trial: Trial, freed: evictions.Freed) -> None:
    """Move the model on by an eviction, and judge the choice of victims."""
    model, order = trial.model, trial.model.order
    victims = evictions.victims(model, freed) if order.judged and not trial.broken else []
    for position, copy in freed.partial:
        model.drop_copy(position, copy)
    uncovered = model.evicted(freed.positions)
    if trial.capabilities.closed:
        trial.broken += evictions.orphan(model, freed)
    trial.pool.give_in_any_order(freed.slots)
    if victims:
        order.slack = trial.ages.slack
        if (wrong := order.contradiction(victims, uncovered)) is not None:
            names = _name(model, wrong.victim), _name(model, wrong.survivor)
            policy = trial.capabilities.eviction
            trial.broken.append(evictions.describe(wrong, policy, *names))
        trial.witness.rivalry(victims, uncovered)
    for leaf in uncovered:
        order.note(leaf)
