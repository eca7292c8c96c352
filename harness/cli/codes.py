"""Exit codes: what a shell, and a CI system behind it, learn from a command."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum


class Code(IntEnum):
    """What a command ends with."""

    CLEAN = 0
    VIOLATION = 1
    UNUSABLE = 2
    """Usage, configuration, a target that cannot be loaded or read, a damaged trace."""
    HARNESS = 3
    """radixcheck itself failed."""
    INCONCLUSIVE = 4
    """A required situation was missed, or all findings are flaky."""
    NOTHING = 5
    """Nothing ran, or nothing applied: never green."""
    INTERRUPTED = 130


_SEVEREST_FIRST = (
    Code.INTERRUPTED,
    Code.HARNESS,
    Code.VIOLATION,
    Code.UNUSABLE,
    Code.INCONCLUSIVE,
    Code.CLEAN,
    Code.NOTHING,
)


def severest(codes: Iterable[Code]) -> Code:
    """Fold the codes of several targets or traces into one.

    A violation outweighs a target that cannot be used; what is clean, outweighs what did not apply.
    """
    return min(codes, key=_SEVEREST_FIRST.index, default=Code.NOTHING)
