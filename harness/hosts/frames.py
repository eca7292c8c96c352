"""The frames of a target apart from ours, and from where an exception of its came."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from traceback import StackSummary, TracebackException, walk_tb
from types import FrameType
from typing import Any, TypeAlias

from radixcheck.buffers import legible
from radixcheck.checker.calls import TARGET_ERRORS
from radixcheck.clock import Clock
from radixcheck.registry import METHODS, Source
from radixcheck.trace import Config, Trace
from radixcheck.verdict import check

Place: TypeAlias = tuple[FrameType, int]
"""A frame, and the line that it is at."""


def is_ours(place: Place) -> bool:
    """Tell whether a frame is radixcheck's own. The targets that come along are not."""
    name = place[0].f_globals.get("__name__", "")
    return name.startswith("radixcheck.") and not name.startswith("radixcheck.targets.")


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
    theirs = [place for place in walk_tb(error.__traceback__) if not is_ours(place)]
    told = TracebackException.from_exception(error)
    told.stack = StackSummary.extract(theirs)
    return legible("".join(told.format())).splitlines()
