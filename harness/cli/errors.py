"""From what went wrong to one message and an exit code: what, whose fault, and what to do.

A traceback is shown where it helps: with ``-v``, and where radixcheck itself is at fault.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, NamedTuple, ParamSpec

import typer

from radixcheck.cli.codes import Code

if TYPE_CHECKING:
    from radixcheck.report import Screen

P = ParamSpec("P")

_MOST_LINES = 100
"""How much is shown of what somebody else has written in many lines."""

_SIGPIPE = 128 + 13
"""What a shell reports of a process that wrote into a closed pipe."""

WHOSE = {
    "user": "what was asked for",
    "adapter": "the adapter, not the cache behind it",
    "target": "the target",
    "harness": "radixcheck",
    "machine": "this machine, or its settings",
    "trace": "the trace file",
}


class Explained(NamedTuple):
    """An error as a person should meet it."""

    message: str
    whose: str
    hint: str
    code: Code = Code.UNUSABLE


def guarded(command: Callable[P, None]) -> Callable[P, None]:
    """Let `command` end with a message and an exit code, whatever it raises."""

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except KeyboardInterrupt as stop:
            from radixcheck.cli.inside import stopped

            typer.echo(_safe(": ".join(filter(None, ["interrupted", stopped(stop)]))), err=True)
            raise typer.Exit(Code.INTERRUPTED) from None
        except BrokenPipeError:
            raise typer.Exit(_nobody_reads()) from None
        except BaseException as error:
            raise typer.Exit(show_error(error, bool(kwargs.get("verbose")))) from None

    return run


def _nobody_reads() -> int:
    """Let a process whose output nobody reads any more end as a shell expects it to."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return _SIGPIPE


def show_error(error: BaseException, verbose: bool = False) -> Code:
    """Print `error` to stderr, and answer the exit code that it deserves."""
    from radixcheck.report import Screen
    from radixcheck.report.screen import make_console

    screen = Screen(make_console(stderr=True))
    explained = explain(error)
    _show(screen, explained, error.__notes__ if hasattr(error, "__notes__") else [])
    if verbose or explained.code is Code.HARNESS:
        screen.blank()
        for line in "".join(traceback.format_exception(error)).splitlines():
            screen.say_whole(_safe(line))
    if explained.code is Code.HARNESS:
        screen.say(_APOLOGY)
    return explained.code


def _show(screen: Screen, explained: Explained, notes: list[str]) -> None:
    from radixcheck.report.screen import line
    from radixcheck.report.words import clean

    first, *rest = explained.message.split("\n")
    screen.say((f"{screen.glyphs.bad} {clean(first, 2000)}", "bold red"))
    for each in rest[:_MOST_LINES]:  # of a compiler, of a server's stderr
        screen.say_whole(f"  {_safe(each)}")
    rows = [("at", note) for note in notes] + [("fault", explained.whose), ("hint", explained.hint)]
    screen.table([(line((word, "dim")), clean(text)) for word, text in rows if text], indent=2)


def _safe(text: str) -> str:
    from radixcheck.report.words import clean

    return clean(text, 2000)


_APOLOGY = (
    "radixcheck itself failed. We are sorry: this says nothing about your cache. Please report the "
    "lines above, with the command, its seed and `radixcheck --version`."
)


def explain(error: BaseException) -> Explained:
    """Say what `error` means to a person."""
    from radixcheck.buffers import BadAnswer
    from radixcheck.campaign.pool import PoolError
    from radixcheck.campaign.state import StateError
    from radixcheck.cli.settings import SettingsError
    from radixcheck.known import KnownFailuresError
    from radixcheck.registry import TargetError
    from radixcheck.trace import TraceError

    match error:
        case TargetError():
            return Explained(error.message, WHOSE[error.fault], error.hint)
        case BadAnswer():
            return Explained(str(error), WHOSE["adapter"], "`radixcheck smoke` looks at each call")
        case TraceError():
            return Explained(str(error), WHOSE["trace"], "")
        case KnownFailuresError():
            return Explained(str(error), WHOSE["user"], "docs/pytest.md shows an entry")
        case SettingsError():
            return Explained(str(error), WHOSE["user"], error.hint)
        case StateError() | PoolError():
            return Explained(str(error), WHOSE["user"], error.hint)
        case OSError() if error.errno is not None:
            where = f"{error.filename}: " if error.filename is not None else ""
            whose = "user" if isinstance(error, FileNotFoundError) else "machine"
            return Explained(f"{where}{error.strerror}", WHOSE[whose], "")
        case SystemExit():
            ended = f"the target ended the process: SystemExit({error.code!r})"
            return Explained(ended, WHOSE["target"], "raise Refused, or any Exception, instead")
        case _ if not isinstance(error, Exception):
            raised = f"{type(error).__name__}, which is no Exception: {error}"
            return Explained(raised, WHOSE["target"], "raise Refused, or any Exception, instead")
    return Explained(f"{type(error).__name__}: {error}", WHOSE["harness"], "", Code.HARNESS)
