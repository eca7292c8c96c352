"""The driver that changes traces which were worth keeping: by whole operations, at any level.

Every subset of a trace is a trace, and so is every mixture: what refers to a handle that is not
there is skipped. So the front of one trace may be followed by the end of another::

    one    a b c d|e f               a b c d  x y  3 4
    other      1 2|3 4      ──►      front    new  end

Traces of trees are also changed as bytes, which know how keys are made of earlier keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import TypeAlias, TypeVar

from radixcheck.arena import Arena
from radixcheck.bytecode import NotExpressible, encode
from radixcheck.fuzzing import dialect_of, trace_of
from radixcheck.levels import TREE
from radixcheck.mutation import mutate
from radixcheck.operations import AnyOperation, Audit
from radixcheck.trace import Trace

LONGEST = 600
"""Operations of a trace; what is longer is cut."""

CHANGES = (1, 1, 2, 3, 5)
"""So often is a trace changed at once."""

FEW = (1, 1, 2, 3, 5, 8, 20)
"""So many operations are touched by one change."""

Thing = TypeVar("Thing")
Operations: TypeAlias = tuple[AnyOperation, ...]
Fresh: TypeAlias = Callable[[int], Operations]
"""Generates so many operations."""


def proposals(
    seed: int, arenas: Sequence[Arena], corpus: Sequence[Trace], *, misuse: bool = False
) -> Iterator[Trace]:
    """Yield traces without end; the same seed, arenas and corpus yield the same traces."""
    rng = Random(seed)
    while True:
        arena = _pick(rng, arenas)
        parent = _pick(rng, corpus) if corpus else Trace(())
        if arena.level is TREE and rng.random() < 0.5 and (data := _bytes_of(parent)):
            dialect = dialect_of([arena])
            for _ in range(_pick(rng, CHANGES)):
                data = mutate(data, rng)
            yield trace_of(data, dialect, misuse=misuse)
        else:
            operations = _changed(parent.operations, rng, arena, corpus, misuse=misuse)
            yield Trace((*operations[:LONGEST], Audit()), _config(parent, arena, rng), misuse)


def _changed(
    operations: Operations, rng: Random, arena: Arena, corpus: Sequence[Trace], *, misuse: bool
) -> Operations:
    def fresh(length: int) -> Operations:
        return arena.level.generate(
            int(rng.random() * 2**62),
            arena.capabilities,
            length,
            swarm=rng.random() < 0.5,
            misuse=misuse,
            capacity=arena.capacity,
        )

    for _ in range(_pick(rng, CHANGES)):
        other = _pick(rng, corpus).operations if corpus else ()
        operations = _pick(rng, _WAYS)(operations, other, fresh, rng)
    return operations


def _join(operations: Operations, other: Operations, fresh: Fresh, rng: Random) -> Operations:
    return operations[: _place(operations, rng)] + other[_place(other, rng) :]


def _join_by_new(
    operations: Operations, other: Operations, fresh: Fresh, rng: Random
) -> Operations:
    front, end = operations[: _place(operations, rng)], other[_place(other, rng) :]
    return front + fresh(_pick(rng, FEW)) + end


def _add(operations: Operations, other: Operations, fresh: Fresh, rng: Random) -> Operations:
    place = _place(operations, rng)
    return operations[:place] + fresh(_pick(rng, FEW)) + operations[place:]


def _drop(operations: Operations, other: Operations, fresh: Fresh, rng: Random) -> Operations:
    place = _place(operations, rng)
    return operations[:place] + operations[place + _pick(rng, FEW) :]


def _repeat(operations: Operations, other: Operations, fresh: Fresh, rng: Random) -> Operations:
    start, place = _place(operations, rng), _place(operations, rng)
    again = operations[start : start + _pick(rng, FEW)]
    return operations[:place] + again + operations[place:]


_WAYS = (_join, _join_by_new, _add, _add, _drop, _repeat)


def _config(parent: Trace, arena: Arena, rng: Random) -> dict[str, bool | int | float | str]:
    """Return the arena's configuration, now and then of a cache that is disabled."""
    can = getattr(arena.capabilities, "disable", "absent") == "present"
    disabled = can and ("disable" in parent.config or rng.random() < 0.02)
    return arena.config | ({"disable": True} if disabled else {})


def _bytes_of(trace: Trace) -> bytes:
    try:
        return encode(trace)
    except NotExpressible:
        return b""


def _place(operations: Operations, rng: Random) -> int:
    return int(rng.random() * (len(operations) + 1))


def _pick(rng: Random, choices: Sequence[Thing]) -> Thing:
    return choices[int(rng.random() * len(choices))]
