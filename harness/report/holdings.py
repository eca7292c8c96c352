"""Who holds which slots, drawn: one line per run, half-open, what came and went in colour.

::

    h1    [0, 2)   slots 4-5  held 2 times
    h2    [0, 1)   slots 8
    free  5 slots  slots 6-7 9-11
"""

from __future__ import annotations

from collections.abc import Iterable

from rich.text import Text

from radixcheck.finding import Holding, Snapshot
from radixcheck.report.screen import Screen, aligned, line
from radixcheck.report.words import clean, counted, show_slots

SHOWN_HOLDINGS = 16
"""Of more runs, those first that the operation changed."""


def show_holdings(screen: Screen, before: Snapshot, after: Snapshot) -> None:
    """Draw who held what before an operation, and who holds what after it if that differs."""
    if before.holdings == after.holdings:
        screen.say(("who holds which slots, before and after", "bold"))
        _show(screen, before.holdings, (), "")
        return
    screen.say(("who held which slots before", "bold"))
    _show(screen, before.holdings, after.holdings, "red")
    screen.say(("and after", "bold"))
    _show(screen, after.holdings, before.holdings, "green")


def _show(screen: Screen, shown: Iterable[Holding], others: Iterable[Holding], style: str) -> None:
    known, holdings = set(others), list(shown)
    wanted = sorted(holdings, key=lambda each: each in known)[:SHOWN_HOLDINGS]
    rows = [
        _cells(each, screen.glyphs.ellipsis, "" if each in known else style)
        for each in holdings
        if each in wanted
    ]
    for each in aligned(rows, screen.width, indent=2):
        screen.console.print(each, soft_wrap=True)
    if left := len(holdings) - len(rows):
        screen.say((f"and {counted(left, 'more run')} of slots", "dim"), indent=2)


def _cells(holding: Holding, ellipsis: str, style: str) -> list[Text]:
    start, count = holding.start, len(holding.slots)
    places = f"[{start}, {start + count})" if holding.owner != "free" else counted(count, "slot")
    return [
        line((clean(holding.owner, 40), style)),
        line((places, "dim")),
        line(("slots ", "dim"), (show_slots(holding.slots, ellipsis), style)),
        line((clean(holding.note), "magenta")),
    ]
