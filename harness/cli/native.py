"""``radixcheck native``: from C or C++ sources to a target."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from radixcheck.cli.codes import Code
from radixcheck.cli.errors import guarded

native = typer.Typer(name="native", help="Targets in C and C++.", no_args_is_help=True)

Sources = Annotated[
    Path,
    Argument(
        metavar="PATH",
        help="A .cpp or .c file, or a folder with a CMakeLists.txt that makes one library.",
        show_default=False,
    ),
]
Sanitize = Annotated[
    str,
    Option(
        "--sanitize",
        metavar="LIST",
        help="Sanitizers: address,undefined or thread. With fuzzer-no-link it tells coverage.",
        show_default=False,
    ),
]
Out = Annotated[
    Path | None,
    Option(
        "--out",
        metavar="FILE",
        help="Where to put the library. Default: a cache folder.",
        show_default=False,
    ),
]

Include = Annotated[
    bool,
    Option("--include", help='The folder: c++ -I"$(radixcheck native header --include)" ...'),
]


@native.command()
@guarded
def build(path: Sources, sanitize: Sanitize = "", out: Out = None) -> None:
    """Build a library, and print where it is and the spec to run it by.

    It includes radixcheck_target.h without being told where that is. CXX and CC name the compiler;
    CXXFLAGS, CFLAGS and CPPFLAGS are passed on to it.
    """
    from radixcheck.registry import TargetError
    from radixcheck.report import Screen
    from radixcheck.targets.native.build import COVERAGE, Recipe
    from radixcheck.targets.native.build import build as build_library
    from radixcheck.targets.native.tools import BuildError

    chosen = tuple(filter(None, sanitize.split(",")))
    try:
        library = build_library(Recipe(path, chosen), out)
    except BuildError as error:
        trouble, _, said = str(error).partition("\n")
        typer.echo(said, err=True, nl=bool(said))
        raise TargetError(trouble, error.hint) from None
    screen = Screen()
    screen.say_whole(str(library))
    screen.say_whole(f"radixcheck {'atheris' if COVERAGE in chosen else 'run'} native:{library}")
    raise typer.Exit(Code.CLEAN)


@native.command()
@guarded
def header(include: Include = False) -> None:
    """Print where radixcheck_target.h is: the file, or the folder to give to -I."""
    from radixcheck.report import Screen
    from radixcheck.targets.native.abi import HEADER

    Screen().say_whole(str(HEADER.parent if include else HEADER))
    raise typer.Exit(Code.CLEAN)
