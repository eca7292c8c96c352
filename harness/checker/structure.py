"""A look inside: the rule `structure`, for targets that show their nodes.

It knows three things that must hold in any radix tree, and nothing of how a target keeps them::

    an edge is not empty       siblings part at their first page       a child is locked => so is
    its parent --[ ]--                    --< [1, 2]                              --[locks
    0]--[locks 1] `-[1, 3]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from radixcheck.buffers import read_slots
from radixcheck.capabilities import Capabilities
from radixcheck.checker.broken import Broken, listed
from radixcheck.protocol import DumpedNode


def contradictions(dump: Sequence[DumpedNode], capabilities: Capabilities) -> Iterator[Broken]:
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
