"""How deeply a target may nest its calls: as deeply wherever it is judged, so that a trace which
overflows the call stack does so again somewhere else."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

OUR_FRAMES = 16
"""More than we put between `evenly` and a target. What fails here fails in a program of its own,
which has none of them."""


@contextmanager
def evenly() -> Iterator[None]:
    """Let calls nest as deeply within the block as if it stood at the bottom of the stack."""
    limit = sys.getrecursionlimit()
    ours = limit + _frames() + OUR_FRAMES
    sys.setrecursionlimit(ours)
    try:
        yield
    finally:
        if sys.getrecursionlimit() == ours:  # a target may have set it, and mean it
            sys.setrecursionlimit(limit)


def _frames() -> int:
    count, frame = 0, sys._getframe().f_back
    while frame is not None:
        count, frame = count + 1, frame.f_back
    return count
