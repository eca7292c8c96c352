"""Situations that a run of a pool must have reached, or it proved nothing."""

from __future__ import annotations

from radixcheck.capabilities import PoolCapabilities
from radixcheck.situations import Situation


def _always(_: PoolCapabilities) -> bool:
    return True


def _several_pages(can: PoolCapabilities) -> bool:
    return can.capacity > can.page_size


def _counted(can: PoolCapabilities) -> bool:
    return can.ownership == "counted"


def _sharing(can: PoolCapabilities) -> bool:
    return _counted(can) and _several_pages(can)


def _seams(can: PoolCapabilities) -> bool:
    return can.page_size > 1 and can.partial_pages == "counted"


def _misusable(can: PoolCapabilities) -> bool:
    return can.misuse != "unspecified"


_TABLE = (
    Situation("alloc-nothing", "an alloc asks for no slot", _always),
    Situation("alloc-when-empty", "an alloc meets a pool with nothing free", _always),
    Situation("alloc-too-much", "an alloc asks for more than is free, and something is", _always),
    Situation("exact-exhaustion", "an alloc takes all that is free", _always),
    Situation(
        "free-in-parts", "a free gives back a part of what an alloc answered", _several_pages
    ),
    Situation("seam-inside-page", "a free ends inside a page", _seams),
    Situation("slots-reused", "a slot that came back is handed out again", _always),
    Situation("full-drain", "one free gives back all slots of the pool", _always),
    Situation("shared", "a slot gets another holder", _counted, "add_refs"),
    Situation(
        "freed-while-shared", "a slot is freed while another holder keeps it", _counted, "add_refs"
    ),
    Situation("three-holders", "a slot gets a third holder", _counted, "add_refs"),
    Situation(
        "several-shared", "slots of two allocs have several holders each", _sharing, "add_refs"
    ),
    Situation(
        "alloc-while-shared",
        "an alloc is answered while a slot has several holders",
        _sharing,
        "add_refs",
    ),
    Situation(
        "part-of-shared-freed",
        "a free gives back a part of what an alloc answered, some of it shared",
        _sharing,
        "add_refs",
    ),
    Situation(
        "freed-beside-shared", "a free leaves alone the slots that are shared", _sharing, "add_refs"
    ),
    Situation(
        "shared-and-alone-freed",
        "one free lists slots with several holders, and slots with one",
        _sharing,
        "add_refs",
    ),
    Situation("listed-twice", "one free lists a slot as often as it is held", _counted, "add_refs"),
    Situation("reset-while-held", "the pool is reset while slots are held", _always, "reset"),
    Situation(
        "reset-while-shared",
        "the pool is reset while a slot has several holders",
        _counted,
        "add_refs reset",
    ),
    Situation("misuse", "a slot is freed that nobody holds, or no pool hands out", _misusable),
    Situation("audit", "everything is given back, and every slot taken once", _always),
)

SITUATIONS: dict[str, Situation] = {situation.name: situation for situation in _TABLE}
"""Those of pools."""
