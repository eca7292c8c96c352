"""A broken rule as the checks hand it on, before it is known at which operation of which trace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

SHOWN_SLOTS = 24


class Broken(NamedTuple):
    """One rule, with what was expected and what the target did instead."""

    rule: str
    expected: str
    actual: str
    detail: str = ""


def listed(numbers: Sequence[int]) -> str:
    """Show slots or tokens in a line, the middle of a long run left out."""
    if len(numbers) <= SHOWN_SLOTS:
        return str(list(numbers))
    head, tail = ", ".join(map(str, numbers[:16])), ", ".join(map(str, numbers[-4:]))
    return f"[{head}, ... {tail}] ({len(numbers)} in all)"


def counted(number: int, noun: str = "token") -> str:
    """Say ``1 token``, ``2 tokens``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
