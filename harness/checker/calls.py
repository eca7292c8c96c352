"""How the target is called, and how its answers are read: what a signature accepts is looked up
once, not per call."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable
from functools import cache
from operator import index
from typing import Any, TypeAlias

from radixcheck.buffers import BadAnswer, legible
from radixcheck.operations import Failure
from radixcheck.protocol import Match, Target

TARGET_ERRORS = (Exception, SystemExit)
"""What a target may raise. Ctrl-C is not among it: that is for us."""

Method: TypeAlias = Callable[..., Any] | None


class Calls:
    """The methods of one target, each taking all that the harness could say, and passing on what
    the target accepts.

    ``match`` takes (tokens, namespace), ``insert`` (tokens, slots, namespace, priority,
    owned_from). A method that the target lacks is None.
    """

    def __init__(self, target: Target) -> None:
        self.match: Callable[..., Any] = _fitted(target.match_prefix, ("tokens", "namespace"))
        self.insert: Callable[..., Any] = _fitted(
            target.insert, ("tokens", "slots", "namespace", "priority", "owned_from")
        )
        self.evict: Method = getattr(target, "evict", None)
        self.inc_ref: Method = getattr(target, "inc_ref", None)
        self.dec_ref: Method = getattr(target, "dec_ref", None)
        can = target.capabilities
        self.reset: Method = getattr(target, "reset", None) if can.reset == "present" else None
        self.dump: Method = getattr(target, "dump", None) if can.dump == "present" else None


def _fitted(method: Callable[..., Any], names: tuple[str, ...]) -> Callable[..., Any]:
    """Let `method` be called with all of `names` by position, whichever of them it takes."""
    accepted, takes_any = _parameters(getattr(method, "__func__", method))
    accepted = accepted[hasattr(method, "__func__") :]  # without self
    if takes_any or accepted[: len(names)] == names:
        return method
    required = 1 if names[1] == "namespace" and "namespace" not in accepted else 2
    takes = [place for place, name in enumerate(names) if place >= 2 and name in accepted]

    def call(*arguments: Any) -> Any:
        named = {names[place]: arguments[place] for place in takes}
        return method(*arguments[:required], **named)

    return call


@cache
def _parameters(function: Callable[..., Any]) -> tuple[tuple[str, ...], bool]:
    """Return the names of the parameters, and whether there are ``*args``: once per function."""
    parameters = inspect.signature(function).parameters
    takes_any = any(each.kind is each.VAR_POSITIONAL for each in parameters.values())
    return tuple(parameters), takes_any


def said(error: BaseException) -> str:
    """Return the message of an exception, or what became of the attempt: it is a target's code."""
    try:
        return legible(str(error))
    except TARGET_ERRORS as trouble:
        return f"its message cannot be read: {type(trouble).__name__}"


def failure(error: BaseException) -> Failure:
    """Describe an exception that a target raised, with the innermost line of its traceback, or
    where it says itself that it comes from."""
    if isinstance(told := getattr(error, "where", None), str):
        return Failure(type(error).__name__, said(error), legible(told))
    frames = traceback.extract_tb(error.__traceback__)
    where = f"{frames[-1].name}, line {frames[-1].lineno}: {frames[-1].line}" if frames else ""
    return Failure(type(error).__name__, said(error), legible(where))


def read_match(answer: Any) -> tuple[int, Any, Any]:
    """Read the answer to a match: its length, its slots as the target answered them, and its
    handle.

    Raises:
        BadAnswer: it is no `Match`.
    """
    if type(answer) is Match and type(answer[0]) is int:
        return answer
    try:
        length, slots, handle = answer
    except (TypeError, ValueError):
        raise BadAnswer(
            "match_prefix answered no Match", answer, "expected Match(length, slots, handle)"
        ) from None
    return read_length(length, "match_prefix"), slots, handle


def read_length(answer: Any, method: str) -> int:
    """Read a number of tokens.

    Raises:
        BadAnswer: it is no whole number.
    """
    if type(answer) is int:
        return answer
    try:
        return index(answer)
    except TypeError:
        trouble = f"{method} answered a {type(answer).__name__}"
        raise BadAnswer(trouble, answer, "expected a whole number of tokens") from None
