"""The one place where a target's arguments are made and its answers are read.

Buffers are made fresh for every call, so that a target which keeps or changes one gives itself
away. numpy and torch are imported when a target first wants them, never before.
"""

from __future__ import annotations

import reprlib
from array import array
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from operator import index
from typing import Any, TypeAlias

from radixcheck.protocol import Slots

OVERWRITTEN = -1
"""What a reused buffer holds. No token and no slot is negative, so a kept alias shows."""

SLOTS = "expected one slot number per token, in a list, tuple, array, numpy array or 1-D tensor"
"""What a person is told where slots are read."""

_Maker: TypeAlias = Callable[[Sequence[int]], Slots]


class BadAnswer(TypeError):
    """An adapter answered what cannot be read; that says nothing about the cache behind it."""

    def __init__(self, trouble: str, answer: object, hint: str = SLOTS) -> None:
        told = f"{trouble}: {_quoted(answer)}; {hint}. The adapter is at fault, not the cache."
        super().__init__(legible(told))


def legible(text: str) -> str:
    """Return a target's text as every file and every message can hold it: with its lone surrogates
    escaped, which `os.fsdecode` makes of a file name that is no UTF-8."""
    return text.encode(errors="backslashreplace").decode()


def _quoter() -> Callable[[object], str]:
    """Return what quotes an answer: both ends of it, so much that one sees what it is."""
    quoter = reprlib.Repr()
    quoter.maxstring, quoter.maxother = 400, 200
    quoter.maxlist = quoter.maxtuple = quoter.maxarray = quoter.maxdict = 20
    return quoter.repr


_quoted = _quoter()


make_tokens: Callable[[Iterable[int]], array[int]] = partial(array, "q")
"""Return a fresh buffer of tokens, as every target gets them."""


def make_slots(kind: str, slots: Sequence[int], device: str | None = None) -> Slots:
    """Return a fresh buffer of `slots`: a ``list``, ``array``, ``numpy`` array or ``torch`` tensor.

    `kind` is the capability `slots_as`; `device` is torch's name of a device and means nothing to
    the other kinds.

    Raises:
        ImportError: the library of that kind is not installed.
    """
    return slots_maker(kind, device)(slots)


@cache
def slots_maker(kind: str, device: str | None = None) -> Callable[[Sequence[int]], Slots]:
    """Return what makes a fresh buffer of each list of slots; arguments and errors as
    `make_slots`."""
    return _MAKERS[kind](device)


def _numpy_maker(_: str | None) -> _Maker:
    import numpy

    return lambda slots: numpy.array(slots, dtype=numpy.int64)


def _torch_maker(device: str | None) -> _Maker:
    import torch

    return lambda slots: torch.tensor(slots, dtype=torch.int64, device=device)


_MAKERS: dict[str, Callable[[str | None], _Maker]] = {
    "list": lambda _: list,
    "array": lambda _: lambda slots: array("q", slots),
    "numpy": _numpy_maker,
    "torch": _torch_maker,
}


def read_slots(answer: Slots) -> list[int]:
    """Copy a target's answer into a list of slot numbers, whatever sequence, array or tensor it is.

    Integers are told by the two ends of the answer: to look at each element would cost more than
    many a target needs for the whole call.

    Raises:
        BadAnswer: the answer holds no slots: None, text, floats, bools, nested, of two dimensions.
    """
    slots = answer[:] if type(answer) is list else _elements(answer)
    if not slots or type(slots[0]) is int is type(slots[-1]):
        return slots
    return [_slot(place, slot, answer) for place, slot in enumerate(slots)]


def _elements(answer: Any) -> list[Any]:
    try:
        if hasattr(answer, "tolist"):
            if (dimensions := getattr(answer, "ndim", 1)) != 1:
                raise BadAnswer(f"{dimensions} dimensions instead of 1", answer)
            elements = answer.tolist()
            return elements if type(elements) is list else list(elements)
        if isinstance(answer, Sequence) and not isinstance(answer, str | bytes | bytearray):
            return list(answer)
    except BadAnswer:
        raise
    except Exception as error:  # a tensor that has no data, a sequence that is none
        trouble = f"{type(answer).__name__} cannot be read ({type(error).__name__})"
        raise BadAnswer(trouble, answer) from error
    raise BadAnswer(f"{type(answer).__name__} is no run of slots", answer)


def _slot(place: int, slot: Any, answer: object) -> int:
    if not isinstance(slot, bool) and getattr(slot, "ndim", 0) == 0:
        try:
            return index(slot)
        except TypeError:
            pass
    raise BadAnswer(f"{type(slot).__name__} at place {place}", answer)


def overwrite(buffer: Any) -> None:
    """Reuse a buffer of tokens or slots as its owner may: every element becomes `OVERWRITTEN`."""
    if isinstance(buffer, list):
        buffer[:] = [OVERWRITTEN] * len(buffer)
    elif isinstance(buffer, array):
        buffer[:] = array(buffer.typecode, [OVERWRITTEN]) * len(buffer)
    else:
        buffer[:] = OVERWRITTEN


def unchanged(buffer: Any, original: Sequence[int]) -> bool:
    """Tell whether a buffer still holds what it was made from."""
    held = buffer if isinstance(buffer, list) else buffer.tolist()
    return bool(held == (original if isinstance(original, list) else list(original)))
