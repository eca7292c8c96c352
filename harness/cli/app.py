"""The command line as a whole: every command, and what is read before any of them."""

from __future__ import annotations

import io
import sys
from typing import Annotated

import typer

from radixcheck.cli.atheris import atheris
from radixcheck.cli.corpus import corpus
from radixcheck.cli.demo import demo
from radixcheck.cli.diff import diff
from radixcheck.cli.errors import guarded
from radixcheck.cli.exhaust import exhaust
from radixcheck.cli.fuzz import fuzz
from radixcheck.cli.init import init
from radixcheck.cli.issues import issues
from radixcheck.cli.mutants import mutants
from radixcheck.cli.native import native
from radixcheck.cli.replay import replay
from radixcheck.cli.run import run
from radixcheck.cli.settings import settings_for
from radixcheck.cli.shrink import shrink
from radixcheck.cli.smoke import smoke
from radixcheck.cli.targets import targets

EXIT_CODES = (
    "Exit codes: 0 clean, 1 a violation, 2 usage, configuration or a target that cannot be used, "
    "3 radixcheck itself failed, 4 inconclusive, 5 nothing ran or applied, 130 interrupted."
)

app = typer.Typer(
    epilog=EXIT_CODES,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (
    *(demo, init, smoke, run, fuzz, diff, atheris, exhaust, replay, shrink, targets),
    mutants,
    issues,
):
    app.command()(command)
app.add_typer(corpus)
app.add_typer(native)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version as version_of

        typer.echo(f"radixcheck {version_of('radixcheck')}")
        raise typer.Exit


@app.callback()
@guarded
def root(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Check any prefix cache against a reference model under stateful fuzzing."""
    _write_anything()
    command = context.invoked_subcommand or ""
    context.default_map = {command: settings_for(command)}


def _write_anything() -> None:
    """Let an encoding without some character show its escape, rather than fail on it."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
