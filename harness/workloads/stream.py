"""From a workload to the operations of one trace, at any level."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from difflib import get_close_matches
from errno import ENOENT
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

from radixcheck.capabilities import AnyCapabilities
from radixcheck.operations import AnyOperation, Audit, Namespace
from radixcheck.workloads import mooncake, pools, servers, trees
from radixcheck.workloads.shapes import SHAPES
from radixcheck.workloads.traffic import Begin, Flow, Request, Terms, Workload, first

Play: TypeAlias = Callable[[Random, Flow, Any, Terms], Iterator[AnyOperation]]
"""Called with the only source of chance, traffic, the target's capabilities and the terms."""

PLAYS: dict[str, Play] = {"tree": trees.play, "pool": pools.play, "requests": servers.play}
"""How traffic becomes operations, by the name of the level."""

WORKLOADS = SHAPES
"""Every workload that has a name; a file is another."""

REQUESTS = (5, 20, 10, 40)
"""Requests per trace, in turn: short traces are shrunk quickly."""

LONGEST_PAGES = 32
"""Pages of the longest prompt where there is no pool."""

NAMESPACES: dict[str, Sequence[Namespace]] = {
    "absent": ((),),
    "one": ((), (), ("a",)),
    "structured": ((), (), ("a",), ("a", "b")),
}
"""Whose prompts there are, by what a target can tell apart."""


def named(name: str) -> Workload:
    """Return the workload of this name, or the one that a file of this name has recorded.

    Raises:
        FileNotFoundError: it is neither; the message names what there is.
        TraceError: the file is damaged; the message names the file, the line and the field.
        OSError: the file cannot be read.
    """
    if name in WORKLOADS:
        return WORKLOADS[name]
    if not Path(name).exists():
        near = get_close_matches(name, WORKLOADS)
        nearest = f"nearest: {near[0]}; " if near else ""
        known = f"no workload and no file; {nearest}known: {', '.join(WORKLOADS)}"
        raise FileNotFoundError(ENOENT, known, name)
    return mooncake.workload(Path(name))


def play(
    workload: Workload,
    rng: Random,
    level: str,
    capabilities: AnyCapabilities,
    *,
    turn: int = 0,
    capacity: int | None = None,
) -> tuple[AnyOperation, ...]:
    """Return the operations of one trace, and an audit at the end.

    Args:
        workload: whose requests these are.
        rng: the only source of chance.
        level: name of the level at which the target is judged.
        capabilities: what the target promises.
        turn: the number of the trace. A recording is played from its first request to its last.
        capacity: slots of the pool behind a cache that has one.
    """
    terms = _terms(capabilities, capacity)
    rounds, place = divmod(turn, len(REQUESTS))
    flow = workload(rng, terms, rounds * sum(REQUESTS) + sum(REQUESTS[:place]))
    flow = first(_fitting(flow, terms), REQUESTS[place])
    operations = PLAYS[level](rng, flow, capabilities, terms)
    return (*operations, Audit(int(rng.random() * 0x10000)))


def _terms(capabilities: AnyCapabilities, capacity: int | None) -> Terms:
    size = capabilities.page_size
    room = getattr(capabilities, "capacity", capacity)
    longest = LONGEST_PAGES * max(4, size) if room is None else max(1, room // 2)
    return Terms(size, longest, NAMESPACES[getattr(capabilities, "namespaces", "absent")])


def _fitting(flow: Flow, terms: Terms) -> Flow:
    """Cut what is too long for the target, whatever the workload thinks of it."""
    for event in flow:
        if isinstance(event, Begin):
            prompt, answer, namespace = event.request
            prompt, answer = prompt[: terms.longest], answer[: max(1, terms.longest // 4)]
            yield Begin(event.number, Request(prompt, answer, namespace))
        else:
            yield event
