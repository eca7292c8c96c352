"""The console for everything: it trusts no text, and draws with what the terminal has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import NamedTuple, TypeAlias

from rich.console import Console
from rich.text import Text

from radixcheck.report.words import clean

Part: TypeAlias = str | tuple[str, str]
"""Plain text, or text and its style."""

Cell: TypeAlias = str | Text

NARROWEST = 24
"""The last column of a table gets this much, even if the line becomes longer than the terminal."""


class Glyphs(NamedTuple):
    """What is drawn with: box drawing, or plain ASCII where the encoding has no more."""

    branch: str
    last: str
    pipe: str
    line: str
    good: str
    bad: str
    unsure: str
    ellipsis: str
    times: str
    arrow: str


BOXES = Glyphs("├─ ", "└─ ", "│  ", "─", "✔", "✘", "?", "…", "×", "→")
ASCII = Glyphs("|- ", "`- ", "|  ", "-", "+", "x", "?", "...", "x", "->")


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Leave it to the command line what it means that nobody reads any more."""
        raise BrokenPipeError


def make_console(*, stderr: bool = False) -> Console:
    """Return a console that reads nothing into text: no markup, no emoji codes, no highlighting."""
    return _Console(stderr=stderr, markup=False, emoji=False, highlight=False)


@dataclass(frozen=True)
class Screen:
    """Where results go, and how much of them."""

    console: Console = field(default_factory=make_console)
    verbosity: int = 0
    """-1: verdicts only; 0: what one needs; 1: everything."""

    @property
    def glyphs(self) -> Glyphs:
        """The characters that the console's encoding can show."""
        return BOXES if self.console.encoding.lower().startswith("utf") else ASCII

    @property
    def width(self) -> int:
        """Columns of a line."""
        return self.console.width

    @property
    def animated(self) -> bool:
        """Whether a person watches: only then is there a progress bar."""
        return self.console.is_terminal and not self.console.is_dumb_terminal

    def say(self, *parts: Part, indent: int = 0) -> None:
        """Print one paragraph, wrapped at words and moved in by `indent` columns."""
        self.table([[line(*parts)]], indent=indent)

    def say_whole(self, *parts: Part) -> None:
        """Print one line that is never broken, since a person will copy it: code, a path."""
        self.console.print(line(*parts), soft_wrap=True)

    def table(self, rows: Iterable[Sequence[Cell]], indent: int = 0, gap: int = 2) -> None:
        """Print rows in aligned columns without lines; the last column wraps in what is left."""
        for each in aligned(rows, self.width, indent, gap):
            self.console.print(each, soft_wrap=True)

    def heading(self, title: str, style: str = "bold") -> None:
        """Print a title with a line behind it."""
        mark = self.glyphs.line
        title = clean(title)
        rest = max(2, self.width - Text(title).cell_len - 4)
        self.say_whole((mark * 2, "dim"), (f" {title} ", style), (mark * rest, "dim"))

    @contextmanager
    def busy(self, doing: str) -> Iterator[Callable[[str], None]]:
        """Show that something takes time, where a person watches; call it to say what does."""
        if not self.animated:
            yield lambda doing: None
            return
        with self.console.status(clean(doing)) as status:
            yield lambda doing: status.update(clean(doing))

    def blank(self) -> None:
        """Print an empty line."""
        self.console.print()


def line(*parts: Part) -> Text:
    """Join plain and styled parts."""
    return Text.assemble(*parts)


def aligned(
    rows: Iterable[Sequence[Cell]], width: int, indent: int = 0, gap: int = 2
) -> list[Text]:
    """Lay rows out in columns; what does not fit wraps below the beginning of the last column."""
    table = [[cell if isinstance(cell, Text) else Text(cell) for cell in row] for row in rows]
    columns = zip_longest(*(row[:-1] for row in table), fillvalue=Text())
    widths = [max(cell.cell_len for cell in column) for column in columns]
    return [each for row in table for each in _laid_out(row, widths, width, indent, gap)]


def _laid_out(
    row: list[Text], widths: list[int], width: int, indent: int, gap: int
) -> Iterable[Text]:
    head = Text(" " * indent)
    for cell, column in zip(row[:-1], widths, strict=False):
        head += cell
        head.append(" " * (column - cell.cell_len + gap))
    room = max(NARROWEST, width - head.cell_len)
    for place, part in enumerate(_wrapped(row[-1], room)):
        whole = (head if not place else Text(" " * head.cell_len)) + part
        whole.rstrip()
        yield whole


def _wrapped(text: Text, width: int) -> Iterable[Text]:
    if text.cell_len <= width and "\n" not in text.plain:
        return [text]
    return text.wrap(Console(width=width), width)
