"""``radixcheck init``: what a project needs to have its cache judged, here and by its CI."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from radixcheck.cli.errors import guarded
from radixcheck.cli.options import Verbose

if TYPE_CHECKING:
    from radixcheck.report import Screen


class _File(NamedTuple):
    path: str
    text: str
    is_there: bool


@guarded
def init(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="The project; made if it is not there.")
    ] = Path(),
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", "-n", help="Say what would be written.", show_default=False),
    ] = False,
    verbose: Verbose = False,
) -> None:
    """Write a target to begin with, a test of it, and GitHub workflows. Overwrites nothing."""
    from importlib.metadata import version

    from radixcheck.report import Screen

    screen = Screen(verbosity=int(verbose))
    planned = [*_planned(folder, version("radixcheck"))]
    for each in planned:
        if not (each.is_there or dry_run):
            _write(folder / each.path, each.text)
    _show(screen, planned, "would write" if dry_run else "written")
    _show_hints(screen, folder, planned)
    if not dry_run:
        _show_next(screen, folder, planned)


def _planned(folder: Path, version: str) -> Iterator[_File]:
    """List the files, and which of them exist.

    Raises:
        SettingsError: pyproject.toml cannot be read.
        OSError: `folder` is no folder.
    """
    import tomllib

    from radixcheck.cli.settings import SettingsError
    from radixcheck.skeleton import project

    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(20, "not a folder", str(folder))
    try:
        texts = project(folder, version)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{folder / 'pyproject.toml'} is no TOML: {error}") from None
    for path, text in texts.items():
        yield _File(path, text, (folder / path).exists() or (folder / path).is_symlink())


def _write(path: Path, text: str) -> None:
    """Write a file that is not there: one that comes in between is not overwritten either.

    Raises:
        OSError: it cannot be written; nothing of it is left.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("x", encoding="utf-8", newline="\n") as file:
        try:
            file.write(text)
            file.flush()
        except OSError:
            path.unlink()
            raise


# ---- what a person sees ------------------------------------------------------------------


def _show(screen: Screen, planned: list[_File], written: str) -> None:
    from radixcheck.report.screen import line

    kept, made = line(("exists, kept", "yellow")), line((written, "green"))
    screen.table([[kept if each.is_there else made, each.path] for each in planned])


def _show_hints(screen: Screen, folder: Path, planned: list[_File]) -> None:
    """Print what a file that others share should get; it is never changed."""
    from radixcheck.skeleton import SHARED, missing_lines

    for each in planned:
        path = folder / each.path
        if each.path not in SHARED or not (each.is_there and path.is_file()):
            continue
        there = path.read_text(encoding="utf-8", errors="replace")
        if lacks := missing_lines(each.path, each.text, there):
            screen.blank()
            screen.say((f"add to {each.path}", "bold"))
            for row in lacks.splitlines():
                screen.say_whole(f"  {row}")


def _show_next(screen: Screen, folder: Path, planned: list[_File]) -> None:
    from shlex import quote

    target = next(each.path for each in planned if each.path.endswith("_target.py"))
    screen.blank()
    screen.say((f"{target} passes as it stands. Put your cache into it; then", "bold"))
    if folder.resolve() != Path.cwd():
        screen.say_whole(f"  cd {quote(str(folder))}")
    screen.say_whole(f"  radixcheck smoke ./{target}:Target")
    screen.say_whole(f"  radixcheck run ./{target}:Target")
