"""Inside a target: which call Ctrl-C came into, and from where an exception came."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from itertools import takewhile
from pathlib import Path
from traceback import StackSummary, TracebackException, walk_stack, walk_tb
from types import FrameType
from typing import Any, TypeAlias

from radixcheck.checker.calls import TARGET_ERRORS
from radixcheck.clock import Clock
from radixcheck.registry import METHODS, Source
from radixcheck.report.steps import show_operation
from radixcheck.trace import Config, Trace
from radixcheck.verdict import check

Place: TypeAlias = tuple[FrameType, int]
"""A frame, and the line that it is at."""


def _is_ours(place: Place) -> bool:
    name = place[0].f_globals.get("__name__", "")
    return name.startswith("radixcheck.") and not name.startswith("radixcheck.targets.")


# ---- Ctrl-C ------------------------------------------------------------------------------


@contextmanager
def interrupts() -> Iterator[list[str]]:
    """Note of each Ctrl-C which call it came into, in the words of `running`.

    A loop may take an interrupt for the end of its time, and then nobody else sees its traceback.
    """
    seen: list[str] = []

    def note(number: int, frame: FrameType | None) -> None:
        seen.append(running(walk_stack(frame)))
        signal.default_int_handler(number, frame)

    before = signal.getsignal(signal.SIGINT)
    usual = before is signal.default_int_handler
    if usual and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, note)
    try:
        yield seen
    finally:
        if signal.getsignal(signal.SIGINT) is note:
            signal.signal(signal.SIGINT, before)


def stopped(stop: KeyboardInterrupt) -> str:
    """Say of a Ctrl-C that nobody took yet which call it came into."""
    return running(reversed(list(walk_tb(stop.__traceback__))))


def running(places: Iterable[Place]) -> str:
    """Say which call of a target is running, and where it is; nothing if none is.

    Args:
        places: the frames, innermost first.
    """
    frames = list(places)
    inside = list(takewhile(lambda place: not _is_ours(place), frames))
    if not inside or _module(inside[-1][0]).partition(".")[0] in sys.stdlib_module_names:
        return ""
    call = next(filter(None, map(_call, (frame for frame, _ in frames))), "a call")
    (innermost, line), *_ = inside
    code = innermost.f_code
    return f"{call} was running: {code.co_qualname}, {Path(code.co_filename).name}:{line}"


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _call(frame: FrameType) -> str:
    """Name the call that `frame` makes, if it is one that makes calls."""
    known = frame.f_locals
    match _module(frame), frame.f_code.co_name:
        case "radixcheck.verdict", "run":
            place, length = known["place"] + 1, len(known["self"].trace.operations)
            return f"operation {place} of {length}, {show_operation(known['operation'])},"
        case "radixcheck.cli.bench", "_call":
            return f"a plain {known['name']}"
        case "radixcheck.registry", "open":
            return "the factory"
    return ""


# ---- exceptions --------------------------------------------------------------------------


def raised(source: Source, trace: Trace, what: str) -> list[str]:
    """Run `trace` once more for the traceback of an exception, without the frames that are ours.

    Args:
        what: the exception as a violation tells it. If none like it leaves the target this time,
            there are no lines.
    """
    seen: list[BaseException] = []

    def open_target(config: Config, clock: Clock) -> Any:
        target = source.open(config, clock)
        for name in METHODS:
            with suppress(AttributeError):  # there is none, or it cannot be replaced
                setattr(target, name, _noting(getattr(target, name), seen))
        return target

    check(open_target, trace)
    alike = [error for error in seen if what.startswith(type(error).__name__)]
    return _told(alike[-1]) if alike else []


def _noting(method: Callable[..., Any], seen: list[BaseException]) -> Callable[..., Any]:
    @wraps(method)
    def call(*arguments: Any, **keywords: Any) -> Any:
        try:
            return method(*arguments, **keywords)
        except TARGET_ERRORS as error:
            seen.append(error)
            raise

    return call


def _told(error: BaseException) -> list[str]:
    theirs = [place for place in walk_tb(error.__traceback__) if not _is_ours(place)]
    told = TracebackException.from_exception(error)
    told.stack = StackSummary.extract(theirs)
    return "".join(told.format()).splitlines()
