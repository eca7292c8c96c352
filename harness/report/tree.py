"""What is stored, drawn: one line per edge, long runs by their ends, what came and went in colour.

::

    stored before                              stored after
    ├─ [1, 2, 3]  slots 1-3  1 lock  h1        └─ [1, 2, 3]  slots 1-3  1 lock  h1
    │  └─ [4]     slots 6
    └─ [5, 6, 7]  slots 7-9
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from os.path import commonprefix
from typing import NamedTuple

from rich.text import Text

from radixcheck.finding import Edge, Snapshot
from radixcheck.operations import Namespace, Tokens
from radixcheck.report.screen import Glyphs, Screen, aligned, line
from radixcheck.report.words import clean, counted, show_slots, show_tokens

WHOLE_EDGES, SHOWN_EDGES = 24, 12
"""Of a tree with more edges, so many are shown, those first that the operation touched."""

WIDEST_STEM = 27
"""Deeper branches are moved to the left, so that they stay on the screen."""

GAP = 4
"""Columns between two trees."""


class Row(NamedTuple):
    """One edge of a drawn tree."""

    edge: Edge
    stem: str
    parent: int
    """Index of the row of the edge above; -1 below the root."""
    shared: int
    """Leading tokens of the operation's key that lead here; -1 off its way."""
    changed: bool
    """Whether some of its slots are not in the other tree."""


class Eye(NamedTuple):
    """What a picture is looked at for."""

    key: Tokens
    namespace: Namespace
    others: frozenset[int]
    """The slots of the other picture."""
    style: str
    """How an edge is drawn that the other picture lacks."""


def show_trees(
    screen: Screen, before: Snapshot, after: Snapshot, key: Tokens, namespace: Namespace
) -> None:
    """Draw what was stored before and after an operation on `key`, side by side where both fit."""
    if _flat(before) == _flat(after):
        eye = Eye(key, namespace, slots_of(before), "")
        screen.say(("stored before and after", "bold"))
        _stacked(screen, drawn(screen, before, eye))
        return
    left = drawn(screen, before, Eye(key, namespace, slots_of(after), "red"))
    right = drawn(screen, after, Eye(key, namespace, slots_of(before), "green"))
    left = [Text("stored before", "bold"), *left]
    right = [Text("stored after", "bold"), *right]
    widest = max(each.cell_len for each in left) + GAP
    if widest + max(each.cell_len for each in right) <= screen.width:
        _side_by_side(screen, left, right, widest)
    else:
        _stacked(screen, [*left, *right])


def _flat(snapshot: Snapshot) -> list[object]:
    """List all that a drawing shows: a deep snapshot itself cannot be compared, by recursion."""
    return [
        (name, edge.tokens, edge.slots, edge.locks, edge.handles, len(edge.children))
        for name, tree in snapshot.trees.items()
        for edge in _walk(tree)
    ]


def slots_of(snapshot: Snapshot) -> frozenset[int]:
    """Collect every slot that is stored."""
    edges = [edge for tree in snapshot.trees.values() for edge in _walk(tree)]
    return frozenset(slot for edge in edges for slot in edge.slots)


def drawn(screen: Screen, snapshot: Snapshot, eye: Eye) -> list[Text]:
    """Draw every namespace that stores something, as lines."""
    stored = {name: tree for name, tree in snapshot.trees.items() if tree}
    lines: list[Text] = []
    for name, tree in stored.items():
        if len(stored) > 1 or name:
            lines.append(line(("namespace ", "dim"), (clean(repr(name)), "italic")))
        lines += _tree(screen, tree, eye if name == eye.namespace else eye._replace(key=()))
    return lines or [Text("(nothing)", "dim")]


def _side_by_side(screen: Screen, left: list[Text], right: list[Text], column: int) -> None:
    for place in range(max(len(left), len(right))):
        ours = left[place] if place < len(left) else Text()
        theirs = right[place] if place < len(right) else Text()
        whole = ours + Text(" " * (column - ours.cell_len)) + theirs
        whole.rstrip()
        screen.console.print(whole, soft_wrap=True)


def _stacked(screen: Screen, lines: list[Text]) -> None:
    for each in lines:
        screen.console.print(each, soft_wrap=True)


# ---- one tree ----------------------------------------------------------------------------


def _tree(screen: Screen, tree: Sequence[Edge], eye: Eye) -> list[Text]:
    rows = list(_rows(tree, eye, screen.glyphs))
    shown = range(len(rows)) if screen.verbosity > 0 else _worth_showing(rows)
    ellipsis = screen.glyphs.ellipsis
    cells = [_cells(rows[place], eye, ellipsis) for place in shown]
    lines = aligned(cells, sys.maxsize)
    if max(each.cell_len for each in lines) > screen.width:
        lines = [Text("  ").join(cell for cell in row if cell) for row in cells]
    if left := len(rows) - len(shown):
        lines.append(Text(f"{ellipsis} and {counted(left, 'more edge')}", "dim"))
    return lines


def _rows(tree: Sequence[Edge], eye: Eye, glyphs: Glyphs) -> Iterator[Row]:
    # With a stack of its own: a tree may be deeper than Python's recursion limit.
    blank = " " * len(glyphs.pipe)
    waiting = [(edge, "", -1, 0, edge is tree[-1]) for edge in reversed(tree)]
    place = 0
    while waiting:
        edge, indent, parent, above, is_last = waiting.pop()
        shared = _shared(edge, eye.key, above)
        changed = not eye.others.issuperset(edge.slots)
        stem = _narrow(indent, glyphs) + (glyphs.last if is_last else glyphs.branch)
        yield Row(edge, stem, parent, shared, changed)
        below = indent + (blank if is_last else glyphs.pipe)
        followed = shared if shared - above == len(edge.tokens) else -1
        waiting += [
            (child, below, place, followed, child is edge.children[-1])
            for child in reversed(edge.children)
        ]
        place += 1


def _shared(edge: Edge, key: Tokens, above: int) -> int:
    """Count the tokens of `key` that lead to the end of `edge` or into it, -1 if none leads in."""
    if above < 0 or above >= len(key) or not edge.tokens or key[above] != edge.tokens[0]:
        return -1
    rest = key[above : above + len(edge.tokens)]
    return above + len(commonprefix([rest, edge.tokens]))


def _narrow(indent: str, glyphs: Glyphs) -> str:
    if len(indent) <= WIDEST_STEM:
        return indent
    return glyphs.ellipsis.ljust(len(glyphs.pipe)) + indent[-WIDEST_STEM:]


def _worth_showing(rows: Sequence[Row]) -> list[int]:
    """Choose rows: what the operation changed or passed and all above it, then the others."""
    if len(rows) <= WHOLE_EDGES:
        return list(range(len(rows)))
    wanted = [place for place, row in enumerate(rows) if row.changed or row.shared >= 0]
    chosen: dict[int, None] = {}
    for place in [*wanted, *range(len(rows))]:
        lineage = list(_lineage(rows, place))
        if len(chosen.keys() | lineage) <= SHOWN_EDGES:
            chosen |= dict.fromkeys(lineage)
    return sorted(chosen)


def _lineage(rows: Sequence[Row], place: int) -> Iterator[int]:
    while place >= 0:
        yield place
        place = rows[place].parent


def _cells(row: Row, eye: Eye, ellipsis: str) -> list[Text]:
    edge = row.edge
    style = eye.style if row.changed else ""
    notes = [counted(edge.locks, "lock")] if edge.locks else []
    notes += [clean(name, 24) for name in edge.handles[:4]]
    return [
        line((row.stem, "dim"), (show_tokens(edge.tokens, ellipsis), style)),
        line(("slots ", "dim"), (show_slots(edge.slots, ellipsis), style)),
        line(("  ".join(notes), "magenta")),
    ]


def _walk(tree: Sequence[Edge]) -> Iterator[Edge]:
    waiting = list(tree)
    while waiting:
        edge = waiting.pop()
        yield edge
        waiting += edge.children
