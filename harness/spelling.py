"""Long keys as short Python: as a range, as a repetition, or as a slice of an earlier key.

::

    k1 = array("q", range(0, 60))
    cache.insert(k1[:], list(range(0, 60)))
    cache.match_prefix(k1[:50] + array("q", [7]))
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from os.path import commonprefix

from radixcheck.operations import Tokens

LONG_TOKENS = 40
"""Keys up to this length are written out."""

SHARED_TOKENS = 20
"""A long key that shares this many tokens with an earlier one is written as a slice of it."""

EARLIER_KEYS = 16
"""So many long keys are looked back at."""

LONGEST_PERIOD_TOKENS = 16


def spell_keys(keys: Sequence[Tokens]) -> Iterator[tuple[str, str]]:
    """Yield each key as an expression, and before it the line that names it, if any refers to it.

    Each use is a buffer of its own, since a target may keep what it is given.
    """
    bases = [_base(keys, place) for place in range(len(keys))]
    referred = sorted({base for base in bases if base is not None})
    names = {place: f"k{number}" for number, place in enumerate(referred, start=1)}
    for place, (key, base) in enumerate(zip(keys, bases, strict=True)):
        expression = _array(key) if base is None else _extended(key, keys[base], names[base])
        if name := names.get(place):
            yield f"{name} = {expression}", f"{name}[:]"
        else:
            yield "", expression


def _base(keys: Sequence[Tokens], place: int) -> int | None:
    """Return the earlier key that shares most with the one at `place`, if that is worth a name."""
    if len(keys[place]) <= LONG_TOKENS:
        return None
    earlier = [other for other in range(place) if len(keys[other]) > LONG_TOKENS][-EARLIER_KEYS:]
    shared = {other: _shared_tokens(keys[other], keys[place]) for other in earlier}
    best = max(earlier, key=lambda other: shared[other], default=None)
    return best if best is not None and shared[best] >= SHARED_TOKENS else None


def _shared_tokens(one: Tokens, other: Tokens) -> int:
    return len(commonprefix([one, other]))


def _extended(key: Tokens, base: Tokens, name: str) -> str:
    shared = _shared_tokens(key, base)
    front = f"{name}[:{shared if shared < len(base) else ''}]"
    return f"{front} + {_array(key[shared:])}" if shared < len(key) else front


def _array(tokens: Tokens) -> str:
    return f'array("q", {spell_numbers(tokens)})'


def spell_numbers(numbers: Sequence[int]) -> str:
    """Write numbers as a list, or shorter if they are many and regular."""
    count, first = len(numbers), list(numbers[:LONGEST_PERIOD_TOKENS])
    if count <= LONG_TOKENS:
        return str(list(numbers))
    step = first[1] - first[0]
    if step and list(numbers) == list(range(first[0], first[0] + step * count, step)):
        return str(range(first[0], first[0] + step * count, step))
    for period in range(1, len(first) + 1):
        if count % period == 0 and first[:period] * (count // period) == list(numbers):
            return f"{first[:period]} * {count // period}"
    return str(list(numbers))
