"""``radixcheck issues``: a report becomes issues on GitHub, one per target and signature.

All that is asked of GitHub is asked by its own program ``gh``, with arguments that no shell sees.
Bodies go through its standard input.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from radixcheck.cli.codes import Code
from radixcheck.cli.errors import guarded
from radixcheck.cli.options import Verbose

if TYPE_CHECKING:
    from radixcheck.report import Screen
    from radixcheck.report.document import Document
    from radixcheck.report.issues import Change, Issue

LABEL = "radixcheck"
MOST_NEW = 10
"""More issues than this are not opened at a time: the next report opens the others."""

ASKED = "number,title,body,state,stateReason"


class GhError(Exception):
    """gh has failed; the message is what it said."""


@guarded
def issues(
    path: Annotated[
        Path, typer.Argument(metavar="FILE", help="A report, as `--report json` writes it.")
    ],
    link: Annotated[
        str, typer.Option(metavar="URL", help="Where the run can be looked at.", show_default=False)
    ] = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", "-n", help="Say what would be done.", show_default=False)
    ] = False,
    verbose: Verbose = False,
) -> None:
    """Open, update and close GitHub issues, one per finding of a report. Needs `gh`."""
    from radixcheck.report import Screen
    from radixcheck.report.issues import changes
    from radixcheck.report.words import clean

    screen = Screen(verbosity=int(verbose))
    document = _read(path)
    try:
        _carry_out_all(screen, [*changes(document, _filed(), link)], dry_run)
    except GhError as error:
        screen.say((clean(f"gh: {error}", 2000), "bold red"))
        raise typer.Exit(Code.UNUSABLE) from None


def _carry_out_all(screen: Screen, planned: list[Change], dry_run: bool) -> None:
    """Do what is planned, line by line; of a flood of new issues only the first.

    Raises:
        GhError: something cannot be done. What comes before it is done.
    """
    from radixcheck.report.words import clean, counted

    left = [each for each in planned if each.deed == "open"][MOST_NEW:]
    for change in planned:
        if change in left:
            continue
        number = f"#{change.number}  " if change.number else ""
        screen.say(change.deed.ljust(8), number, clean(change.title))
        if not dry_run:
            _carry_out(change)
    if left:
        screen.say(f"{counted(len(left), 'more issue')} left for the next time")
    elif not planned:
        screen.say("nothing to do")


def _read(path: Path) -> Document:
    """Read a report.

    Raises:
        SettingsError: it is none, or one of a release to come.
        OSError: it cannot be read.
    """
    import msgspec

    from radixcheck.cli.settings import SettingsError
    from radixcheck.report.document import FORMAT, Document

    try:
        document = msgspec.json.decode(path.read_bytes(), type=Document)
    except msgspec.MsgspecError as error:
        raise SettingsError(f"{path} is no report: {error}") from None
    if document.format > FORMAT:
        raise SettingsError(f"{path} has format {document.format}: this release reads {FORMAT}")
    return document


def _filed() -> list[Issue]:
    """Ask for all issues with our label, open or not.

    Raises:
        GhError: there is no answer.
    """
    import msgspec

    from radixcheck.report.issues import Issue

    wanted = ("--label", LABEL, "--state", "all", "--limit", "1000", "--json", ASKED)
    return msgspec.json.decode(_gh("issue", "list", *wanted), type=list[Issue])


def _carry_out(change: Change) -> None:
    """Do one thing.

    Raises:
        GhError: it cannot be done.
    """
    number = str(change.number)
    if change.deed == "open":
        _gh("label", "create", LABEL, "--force", "--description", "Found by radixcheck")
        new = (f"--title={change.title}", "--label", LABEL, "--body-file", "-")
        _gh("issue", "create", *new, text=change.body)
    elif change.deed == "update":
        _gh("issue", "edit", number, "--body-file", "-", text=change.body)
    elif change.deed == "reopen":
        _gh("issue", "reopen", number, f"--comment={change.body}")
    else:
        _gh("issue", "close", number, "--reason", "completed", f"--comment={change.body}")


def _gh(*arguments: str, text: str = "") -> str:
    """Run gh, give it `text`, and answer what it prints.

    Raises:
        GhError: there is no gh, or it has failed.
    """
    command = ("gh", *arguments)
    try:
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    except FileNotFoundError:
        raise GhError("not found: https://cli.github.com has it") from None
    except subprocess.CalledProcessError as error:
        raise GhError(error.stderr.strip() or f"exit code {error.returncode}") from None
    return done.stdout
