"""A look inside: the rule `structure`, for targets that show their nodes.

`differences` holds the nodes against what is stored. `contradictions` knows three things that must
hold in any radix tree, and nothing of how a target keeps them::

    an edge is not empty       siblings part at their first page       a child is locked => so is
    its parent --[ ]--                    --< [1, 2]                              --[locks
    0]--[locks 1] `-[1, 3]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from radixcheck.buffers import read_slots
from radixcheck.capabilities import Capabilities
from radixcheck.checker.broken import Broken, listed
from radixcheck.protocol import DumpedNode
from radixcheck.reference.model import Model
from radixcheck.reference.positions import Position, subtree


def contradictions(
    dump: Sequence[DumpedNode], model: Model, capabilities: Capabilities
) -> Iterator[Broken]:
    """Yield what the nodes of one dump say against each other."""
    size = capabilities.page_size
    first_pages: dict[tuple[Any, ...], Sequence[int]] = {}
    for node in dump:
        tokens, slots = read_slots(node.tokens), read_slots(node.slots)
        if not tokens or len(tokens) % size:
            yield Broken("structure", "an edge of whole pages", f"an edge {listed(tokens)}")
        if len(tokens) != len(slots):
            detail = f"the edge {listed(tokens)} holds slots {listed(slots)}"
            yield Broken("length-mismatch", f"{len(tokens)} slots", f"{len(slots)} slots", detail)
        if model.has_copies:
            continue  # a copy is a sibling of its like, and what is hollow cannot be shown
        if node.parent is not None and node.locks > dump[node.parent].locks:
            detail = f"the edge {listed(tokens)} has {node.locks} locks"
            yield Broken(
                "structure",
                f"at least {node.locks} locks on its parent",
                str(dump[node.parent].locks),
                detail,
            )
        if node.parent is None and capabilities.namespaces != "absent":
            continue  # below the roots of different namespaces, first pages may be equal
        place = (node.parent, *tokens[:size])
        if place in first_pages:
            siblings = f"edges {listed(first_pages[place])} and {listed(tokens)}"
            yield Broken("structure", "siblings that part at their first page", siblings)
        first_pages[place] = tokens


def differences(
    dump: Sequence[DumpedNode], model: Model, capabilities: Capabilities
) -> Iterator[Broken]:
    """Yield where the nodes of a dump show anything else than what is stored: all of it, each slot
    with its token, and on each edge its locks, where only one count is right.

    A cache that may keep copies is free to show some of them only.
    """
    shown = [(node, read_slots(node.tokens), read_slots(node.slots)) for node in dump]
    slots = [slot for _, _, run in shown for slot in run]
    stored, told = model.owner.keys(), set(slots)
    once = len(told) == len(slots)
    if not once or not told <= stored or (told != stored and not model.has_copies):
        expected = f"nodes that hold slots {listed(sorted(stored))}"
        yield Broken("structure", expected, f"slots {listed(sorted(slots))}")
        return
    tokens, locks = _tokens(model), _locks(model)
    counted = capabilities.match_splits and capabilities.edges == "cut-only"
    counted &= not model.has_copies
    for node, run, held in shown:
        if run != (expected_run := [tokens[slot] for slot in held]):
            expected = f"an edge {listed(expected_run)} at slots {listed(held)}"
            yield Broken("structure", expected, f"an edge {listed(run)}")
        if counted and held:  # a lock may end inside an edge that no match has cut
            least, most = (locks[model.owner[held[place]]] for place in (-1, 0))
            if not least <= node.locks <= most:
                right = f"{most}" if least == most else f"{least} to {most}"
                edge = f"locks on the edge {listed(run)} at slots {listed(held)}"
                yield Broken("structure", f"{right} {edge}", f"{node.locks}")


def _tokens(model: Model) -> Mapping[int, int]:
    """Return the token of every slot."""
    return {
        slot: token
        for position in set(model.owner.values())
        for slots in (position.slots, *position.copies)
        for slot, token in zip(slots, position.run, strict=True)
    }


def _locks(model: Model) -> Mapping[Position, int]:
    """Count the locks that cover each position: those that end there, and those below."""
    locks: dict[Position, int] = {}
    for root in model.roots.values():
        for position in reversed([*subtree(root)]):  # children first
            below = position.children.values()
            inherited = sum(1 for child in below if child.cover)
            locks[position] = position.cover - inherited + sum(locks[child] for child in below)
    return locks
