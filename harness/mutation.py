"""How bytes that say operations are changed for the next try: by whole operations, mostly.

What libFuzzer does to bytes knows nothing of operations. Most of it makes a key a little different;
hardly ever does it put a lock between a match and an eviction. So half of the changes are made
here: a few operations more, a few less, some of them once again elsewhere. Nothing here looks at
what an operation does, so that coverage decides what is worth keeping.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import TypeAlias

from radixcheck.bytecode import DISABLED, LARGEST_SHORT, OPCODE, READ, records

Change: TypeAlias = Callable[[list[bytes], Random], list[bytes]]
"""Takes a header and records, and answers such a list."""

FEW = (1, 1, 1, 2, 2, 3, 5)
"""So many operations are touched at once."""
MANY = (4, 8, 16)
DISTANCES = (0, 1, 1, 1, 2, 2, 3, 5, 8, 20)
"""How far back a key or a handle is."""
TAKES = (0, 0, 0, 1, 2, 3, 4, 5, 6, 9, 17, 33)
"""How much of that key: all of it, or one token less than this."""
LENGTHS = (0, 0, 1, 1, 2, 3, 4, 5, 8, 12, 16, 17, 32)
"""Tokens of a key beside those of an earlier one."""
LONG, LONG_SHARE = 101, 0.02
"""A key is long now and then."""
ALPHABETS = (2, 2, 3, 3, 9, 113)
"""Few tokens, so that keys are kin."""
DISABLED_SHARE = 0.1


def mutate(data: bytes, rng: Random) -> bytes:
    """Return `data` with a few operations changed."""
    change = CHANGES[int(rng.random() * len(CHANGES))]
    return b"".join(change(records(data), rng))


def _add(parts: list[bytes], rng: Random) -> list[bytes]:
    place = _place(parts, rng)
    return parts[:place] + [_record(rng) for _ in range(_pick(rng, FEW))] + parts[place:]


def _add_many(parts: list[bytes], rng: Random) -> list[bytes]:
    return parts + [_record(rng) for _ in range(_pick(rng, MANY))]


def _drop(parts: list[bytes], rng: Random) -> list[bytes]:
    place = _place(parts, rng)
    return parts[:place] + parts[place + _pick(rng, FEW) :]


def _repeat(parts: list[bytes], rng: Random) -> list[bytes]:
    start, place = _place(parts, rng), _place(parts, rng)
    return parts[:place] + parts[start : start + _pick(rng, FEW)] + parts[place:]


def _replace(parts: list[bytes], rng: Random) -> list[bytes]:
    place = _place(parts, rng)
    return [*parts[:place], _record(rng), *parts[place + 1 :]]


def _configure(parts: list[bytes], rng: Random) -> list[bytes]:
    """Ask for any other configuration that the target has."""
    flags = DISABLED * (rng.random() < DISABLED_SHARE)
    return [bytes((0, 0, flags, int(rng.random() * LARGEST_SHORT))), *parts[1:]]


CHANGES: tuple[Change, ...] = (
    *(_add, _add, _add, _add_many, _add_many),
    *(_drop, _repeat, _repeat, _replace, _configure),
)
"""What is done, each as often as it stands here."""


def _record(rng: Random) -> bytes:
    """Make a record: any opcode, operands of which most kinds make sense."""
    length = LONG if rng.random() < LONG_SHARE else _pick(rng, LENGTHS)
    size = _pick(rng, ALPHABETS)
    tokens = (int(rng.random() * size) for _ in range(length))
    opcode = OPCODE + int(rng.random() * len(READ))
    return bytes((opcode, _pick(rng, DISTANCES), _pick(rng, TAKES), *tokens))


def _place(parts: Sequence[bytes], rng: Random) -> int:
    """Choose a place behind the header."""
    return 1 + int(rng.random() * len(parts))


def _pick(rng: Random, choices: Sequence[int]) -> int:
    return choices[int(rng.random() * len(choices))]
