"""``radixcheck targets``: what can be judged by name."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

import typer

from radixcheck.cli.codes import Code
from radixcheck.cli.errors import guarded
from radixcheck.cli.options import Verbose

if TYPE_CHECKING:
    from radixcheck.report.screen import Cell


@guarded
def targets(verbose: Verbose = False) -> None:
    """List the registered targets, and what of each a run sweeps."""
    from radixcheck.registry import names
    from radixcheck.report import Screen

    screen = Screen(verbosity=int(verbose))
    screen.table([row for name in names() for row in _described(name)])
    screen.blank()
    screen.say("Any other cache: package.module:factory or ./path.py:factory, with ?key=value.")
    raise typer.Exit(Code.CLEAN)


def _described(name: str) -> list[list[Cell]]:
    from radixcheck.registry import TargetError, resolve
    from radixcheck.report.screen import line
    from radixcheck.report.summary import describe_configs
    from radixcheck.report.words import clean

    try:
        source = resolve(name)
        configs = source.configurations()
        source.open(configs[0], lambda: 0)
    except TargetError as error:
        lines = [line(("not available: ", "yellow"), clean(error.message))]
    else:
        first = (inspect.getdoc(source.factory) or "").split("\n\n")[0].replace("\n", " ")
        swept = line((f"configurations  {describe_configs(configs)}", "dim"))
        lines = [line(first), swept] if first else [swept]
    return [[line((name if each is lines[0] else "", "bold")), each] for each in lines]
