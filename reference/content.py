"""The content oracle: what a slot of the KV cache must hold, and whether it does.

The KV of a token depends on its namespace and on every token up to it. So the stand-in for it, the
**tag**, is a number made of exactly these, and two slots hold the same tag only if they may stand
for each other. On prefill and decode tags are written where an engine would write KV; on every
match, row and decode step they are compared. That needs no knowledge of the cache under test, and
it is the only way to see an alias or a use after free whose sums all add up.

A buffer `kv` holds one tag per slot. It is a list, a numpy array, or a torch tensor on any device;
then slots and tags are of the same kind, and nothing leaves the device but one verdict. On the
host a plain list is the fastest of the three up to hundreds of slots, so that is the default, and
neither library is imported here.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from hashlib import blake2b
from operator import itemgetter
from typing import Any

from radixcheck.operations import Namespace

_TOP = 60
"""Python hashes an integer modulo 2**61 - 1: its bits from this one on are hashed on their own."""

UNWRITTEN = 0
"""What a slot holds before anybody wrote to it."""


def tags(tokens: Sequence[int], namespace: Namespace = ()) -> list[int]:
    """Return the tag of each token of a sequence: computed once per sequence, then sliced."""
    return following(_seed(namespace), tokens)


def longer(known: list[int], token: int, namespace: Namespace = ()) -> int:
    """Return the tag of `token`, the next of the sequence whose tags are `known`."""
    return following(known[-1] if known else _seed(namespace), (token,))[0]


def following(tag: int, tokens: Sequence[int]) -> list[int]:
    """Return the tags of `tokens`, the first of which comes after `tag`.

    Each tag is a hash of the one before it and of its token, about 0.1 microseconds a token, and
    fits a signed 64-bit element of any library. (A sum of hashes would be faster, and Python's of
    small numbers are so alike that sums collide.)
    """
    found = []
    for token in tokens:
        tag = hash((tag, token, token >> _TOP))
        found.append(tag)
    return found


@cache
def _seed(namespace: Namespace) -> int:
    """Hash a namespace: the same in every process, and ``("ab",)`` is not ``("a", "b")``."""
    spelled = repr(namespace).encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(spelled, digest_size=8).digest(), "little")


def write(kv: Any, slots: Any, tags: Any) -> None:
    """Write one tag into each slot, as prefill and decode write KV.

    Raises:
        IndexError: a slot is outside the buffer.
    """
    if len(slots) == 1:
        kv[slots[0]] = tags[0]
    elif isinstance(kv, list):
        for slot, tag in zip(slots, tags, strict=True):
            kv[slot] = tag
    else:
        kv[slots] = tags


def compare(kv: Any, slots: Any, tags: Any) -> int | None:
    """Return the first place at which a slot does not hold its tag; None if all do.

    Raises:
        IndexError: a slot is outside the buffer.
    """
    if isinstance(kv, list):
        held = itemgetter(*slots)(kv) if len(slots) > 1 else tuple([kv[slot] for slot in slots])
        if held == tuple(tags):
            return None
        return next(place for place, tag in enumerate(tags) if held[place] != tag)
    wrong = kv[slots] != tags
    return int(wrong.nonzero()[0][0]) if wrong.any() else None
