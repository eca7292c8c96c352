"""What an alloc answered: whether these are as many slots as were asked for, free, and the pool's
to hand out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, pairwise, repeat
from operator import add
from typing import Any

from radixcheck.buffers import BadAnswer, read_slots
from radixcheck.capabilities import PoolCapabilities
from radixcheck.checker.broken import Broken, counted, listed
from radixcheck.reference.ledger import Ledger


def read(answer: Any, can: PoolCapabilities) -> list[int]:
    """Read the slots of an alloc.

    Raises:
        BadAnswer: they are no slots, or a tensor on another device than the pool promises.
    """
    device = getattr(answer, "device", None)
    if can.slots_as == "torch" and device is not None:
        kind, _, number = can.device.partition(":")
        index = getattr(device, "index", None)
        if device.type != kind or (number and index not in (None, int(number))):
            hint = f"the capability device says {can.device!r}"
            raise BadAnswer(f"slots on device {device}", answer, hint)
    return read_slots(answer)


def faults(
    slots: Sequence[int], num_tokens: int, ledger: Ledger, can: PoolCapabilities
) -> Iterator[Broken]:
    """Yield what is wrong with `slots`, which were answered to an alloc of `num_tokens`."""
    if len(slots) != num_tokens:
        yield Broken("length-mismatch", counted(num_tokens, "slot"), counted(len(slots), "slot"))
    first, end = can.reserved, can.end
    if slots and not first <= min(slots) <= max(slots) < end:
        outside = [slot for slot in slots if not first <= slot < end]
        yield Broken("outside-pool", f"slots {first} to {end - 1}", listed(outside))
    if taken := ledger.clash(slots):
        whose = f"slot {taken[0]} is held by {ledger.owner[taken[0]]}"
        yield Broken("double-owner", "slots that nobody holds", listed(taken), whose)
    elif len(set(slots)) < len(slots):
        twice = [slot for slot, count in Counter(slots).items() if count > 1]
        yield Broken("double-owner", "each slot once", listed(slots), f"twice: {listed(twice)}")
    if can.page_size > 1 and (page := torn(slots, can.page_size)):
        yield Broken("partial-page", f"whole pages of {can.page_size}", listed(page))
    if can.ordered and any(one >= other for one, other in pairwise(slots)):
        yield Broken("alloc-order", listed(sorted(slots)), listed(slots))


def torn(slots: Sequence[int], size: int) -> Sequence[int]:
    """Return the first page that is not ``k * size, k * size + 1, ...``, one after the other."""
    firsts = slots[::size]
    pages = chain.from_iterable(map(range, firsts, map(add, firsts, repeat(size))))
    if slots == list(pages) and not any(map(size.__rmod__, firsts)):
        return ()
    for start in range(0, len(slots), size):
        page = slots[start : start + size]
        if page[0] % size or list(page) != list(range(page[0], page[0] + size)):
            return page
    return ()
