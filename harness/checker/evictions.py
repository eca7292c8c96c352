"""What an eviction freed, and whether it might: from slots to positions, amounts, and the order of
victims."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

from radixcheck.buffers import read_slots
from radixcheck.capabilities import Capabilities
from radixcheck.checker.broken import Broken, counted, listed
from radixcheck.protocol import Evicted, Slots
from radixcheck.reference.eviction import Bounds, Contradiction
from radixcheck.reference.model import Model
from radixcheck.reference.positions import Position, only_child


class Freed(NamedTuple):
    """The answer to one eviction, resolved."""

    slots: list[int]
    groups: list[list[int]] | None
    """One group per victim, where the target can tell them apart."""
    positions: list[Position]
    """Positions of which no copy is left."""
    partial: list[tuple[Position, list[int]]]
    """Copies of pages that have another copy left."""


NOTHING = Freed([], None, [], [])


def read_groups(answer: Slots | Evicted) -> tuple[list[int], list[list[int]] | None]:
    """Read the answer to an eviction: all slots, and the groups if there are any.

    Raises:
        BadAnswer: the answer holds no slots.
    """
    if not isinstance(answer, Evicted):
        return read_slots(answer), None
    groups = [group for group in map(read_slots, answer.groups) if group]
    return list(chain.from_iterable(groups)), groups


def resolve(model: Model, slots: list[int], groups: list[list[int]] | None) -> Freed | Broken:
    """Find the position behind every freed slot, or the rule that an impossible answer broke."""
    if (in_order := _whole_runs(model, slots)) is not None:
        return Freed(slots, groups, in_order, [])
    owners = dict.fromkeys(map(model.owner.get, slots))
    if None in owners or len(set(slots)) != len(slots):
        return _unknown(model, slots)
    found: list[Position] = list(owners)  # type: ignore[arg-type]  # there is no None among them
    return _in_parts(model, slots, groups, found)


def _whole_runs(model: Model, slots: list[int]) -> list[Position] | None:
    """Read `slots` as one whole position after the other, which is how most targets free them; None
    if they are not."""
    found: list[Position] = []
    owner, start, end = model.owner, 0, len(slots)
    while start < end:
        position = owner.get(slots[start])
        if position is None or slots[start : start + len(position.slots)] != position.slots:
            return None
        found.append(position)
        start += len(position.slots)
    distinct = len(set(found)) == len(found) and not model.has_copies
    return found if distinct else None


def _unknown(model: Model, slots: list[int]) -> Broken:
    seen: set[int] = set()
    for slot in slots:
        if slot in seen:
            return Broken(
                "evicted-unknown", "each slot once", listed(slots), f"slot {slot} is freed twice"
            )
        if slot not in model.owner:
            return Broken(
                "evicted-unknown",
                "slots in the tree",
                listed(slots),
                f"slot {slot} is not in the tree",
            )
        seen.add(slot)
    raise AssertionError("every slot is known and freed once")


def _in_parts(
    model: Model, slots: list[int], groups: list[list[int]] | None, touched: list[Position]
) -> Freed | Broken:
    """Tell whole pages, which may go one by one, and each copy of them, from broken pages, which
    may not."""
    freed, whole, partial = set(slots), [], []
    for position in touched:
        if not freed.issuperset(position.slots):
            model.cut_into_pages(position)
    for position in dict.fromkeys(map(model.owner.__getitem__, slots)):
        copies = (position.slots, *position.copies)
        gone = [copy for copy in copies if freed.issuperset(copy)]
        if sum(map(len, gone)) != sum(slot in freed for copy in copies for slot in copy):
            detail = f"of the page {listed(position.slots)}, only a part was given back"
            return Broken("leaked-slot", "whole pages", listed(slots), detail)
        if len(gone) == len(copies):
            whole.append(position)
        else:
            partial += [(position, copy) for copy in gone]
    return Freed(slots, groups, whole, partial)


def locked_victim(model: Model, freed: Freed) -> Iterator[Broken]:
    """Yield a broken rule if a freed position is surely locked. Ask before the model moves on."""
    for position in freed.positions:
        if position.cover:
            detail = f"a lock covers the prefix {listed(model.key(position))}"
            yield Broken("evicted-locked", "unlocked prefixes", listed(freed.slots), detail)
            return


def orphan(model: Model, freed: Freed) -> Iterator[Broken]:
    """Yield a broken rule if something still hangs on a freed position. Ask when the model has
    moved on."""
    for position in freed.positions:
        if position.children:
            left = next(iter(position.children.values()))
            detail = f"{listed(model.key(left))} is still stored"
            yield Broken("orphaned-suffix", "a leaf", listed(model.key(position)), detail)
            return


def wrong_amount(
    model: Model, capabilities: Capabilities, freed: Freed, num_tokens: int, surely_evictable: int
) -> Iterator[Broken]:
    """Yield the rules that an eviction of `num_tokens` breaks by how much it freed."""
    amount = len(freed.slots)
    needed = min(num_tokens, surely_evictable)
    if amount < needed:
        yield Broken("under-evicted", f"at least {counted(needed)}", counted(amount))
    surplus = amount - max(num_tokens, 0) - capabilities.evict_batch
    if amount and surplus >= 0 and surplus >= _last_victim(model, capabilities, freed):
        wanted = f"no further victim once {counted(max(num_tokens, 0))} are free"
        yield Broken("over-evicted", wanted, counted(amount))


def _last_victim(model: Model, capabilities: Capabilities, freed: Freed) -> int:
    """Return the most tokens that the last victim may have held.

    Without groups it is the largest: an edge lies on an unbranched way, so no victim is longer than
    such a way::

        freed:  a --- b --< c --- d         ways: [a, b], [c, d], [x]
                           `-- x
    """
    if freed.groups is not None:
        return len(freed.groups[-1])
    if capabilities.edges == "grow-or-merge":
        return len(freed.slots)
    gone, longest = set(freed.positions), 0
    copies = sum(len(copy) for _, copy in freed.partial)
    for top in freed.positions:
        above = top.parent
        if above in gone and len(above.children) == 1:
            continue
        tokens, below = 0, only_child(top)
        while below is not None and below in gone:
            tokens += model.tokens_of(below)
            below = only_child(below)
        tokens += model.tokens_of(top)
        longest = max(longest, tokens)
    return longest + copies


def victims(model: Model, freed: Freed) -> list[tuple[Position, Bounds]]:
    """Return the freed positions that were leaves, with the bounds of their keys. Ask before they
    are removed."""
    bounds = model.order.victim_bounds
    return [(leaf, bounds(leaf)) for leaf in freed.positions if not leaf.children]


def describe(contradiction: Contradiction, policy: str, evicted: str, kept: str) -> Broken:
    """Put a contradiction of the policy into words; `evicted` and `kept` name both leaves."""
    ours, theirs = contradiction.victim_bounds, contradiction.survivor_bounds
    if ours.low == theirs.high:
        ranks = "both rank alike"
        ages = f"last used at {ours.age_low} or later, against {theirs.age_high} or earlier"
        detail = f"{policy}: {ranks}; {ages}"
    else:
        ranks = f"the victim ranks at least {ours.low}, the survivor at most {theirs.high}"
        detail = f"{policy}: {ranks}; the lowest goes first"
    expected = f"{kept} goes before {evicted}"
    return Broken("eviction-order", expected, f"{evicted} was evicted, {kept} stays", detail)
