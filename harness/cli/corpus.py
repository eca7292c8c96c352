"""``radixcheck corpus``: the traces that come along."""

from __future__ import annotations

import typer

from radixcheck.cli.codes import Code
from radixcheck.cli.errors import guarded
from radixcheck.cli.options import Verbose

corpus = typer.Typer(name="corpus", help="The traces that come along.", no_args_is_help=True)


@corpus.callback()
def _group() -> None:
    """The traces that come along."""


@corpus.command("list")
@guarded
def list_regressions(verbose: Verbose = False) -> None:
    """List the regressions, one per public bug."""
    from radixcheck.corpus import packaged
    from radixcheck.report import Screen
    from radixcheck.report.screen import Cell, line
    from radixcheck.report.words import clean, counted

    screen = Screen(verbosity=int(verbose))
    entries = packaged().entries
    rows: list[list[Cell]] = []
    for entry in entries:
        target = [entry.trace.found.target] if verbose and entry.trace.found else []
        shown = map(clean, [entry.rule, entry.source, *target])
        rows.append([line((clean(entry.id), "bold")), *shown])
    screen.table(rows)
    screen.say(counted(len(entries), "trace"))
    raise typer.Exit(Code.CLEAN if entries else Code.NOTHING)
