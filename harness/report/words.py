"""Numbers, runs and durations as people read them, and text that nobody vouches for made safe."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, islice

SHOWN_TOKENS = 12
"""A longer run of tokens is shown by its ends."""

SHOWN_RUNS = 8
"""So many runs of neighbouring slots are shown before the rest is only counted."""

SHOWN_CHARACTERS = 400
"""A longer message is cut: a target may print a whole tensor."""


def clean(text: str, limit: int = SHOWN_CHARACTERS) -> str:
    """Return `text` in one line that cannot steer a terminal: control characters become escapes."""
    cut = text if len(text) <= limit else f"{text[:limit]} [{len(text) - limit} more characters]"
    return "".join(each if each.isprintable() else _escaped(each) for each in cut)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def counted(number: int, noun: str) -> str:
    """Say ``1 finding``, ``2 findings``, ``48,862 operations``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def goes_on(shrunk: str) -> str:
    """Say of a finding that is ``partly`` shrunk, or ``not``, what becomes of it."""
    return f"{shrunk} shrunk, since time was up; radixcheck shrink goes on with it"


def show_tokens(tokens: Sequence[int], ellipsis: str = "...") -> str:
    """Show a run of tokens: ``[1, 2, 3]``, or its ends and its length."""
    if len(tokens) <= SHOWN_TOKENS:
        return str(list(tokens))
    head = ", ".join(map(str, tokens[:3]))
    return f"[{head}, {ellipsis} {tokens[-1]}] ({len(tokens):,} tokens)"


def show_slots(slots: Sequence[int], ellipsis: str = "...") -> str:
    """Show slots, neighbours as a range: ``1-4 9``."""
    runs = list(_neighbours(slots))
    texts = (f"{low}-{high}" if low != high else str(low) for low, high in runs)
    shown = " ".join(islice(texts, SHOWN_RUNS))
    left = len(runs) - SHOWN_RUNS
    return f"{shown} {ellipsis} ({len(slots):,} slots)" if left > 0 else shown or "none"


def spell(numbers: Sequence[int]) -> str:
    """Write all of some tokens or slots, neighbours as a range: ``1-4 9``."""
    runs = _neighbours(numbers)
    return " ".join(f"{low}-{high}" if low != high else str(low) for low, high in runs)


def _neighbours(slots: Sequence[int]) -> Iterator[tuple[int, int]]:
    for _, run in groupby(enumerate(slots), key=lambda pair: pair[1] - pair[0]):
        numbers = [slot for _, slot in run]
        yield numbers[0], numbers[-1]


def show_duration(seconds: float) -> str:
    """Show a duration in the unit that fits: ``2.5 s``, ``20 s``, ``10 min``, ``1 h 30 min``."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    minutes, rest_s = divmod(round(seconds), 60)
    hours, rest_min = divmod(minutes, 60)
    parts = (("h", hours), ("min", rest_min), ("s", rest_s))
    shown = [f"{number} {unit}" for unit, number in parts if number]
    return " ".join(islice(shown, 2)) or "0 s"
