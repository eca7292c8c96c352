"""`watch`: a living cache, judged while it serves."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, TypeAlias

from msgspec.structs import replace

from radixcheck.capabilities import AnyCapabilities
from radixcheck.checker.trial import MOST_NAMES
from radixcheck.live.calls import Calls, Manner, kept
from radixcheck.live.excuses import Excuses
from radixcheck.live.following import Lost, follow, in_lists
from radixcheck.live.judging import judged_promises
from radixcheck.live.naming import Words
from radixcheck.live.nodes import Node
from radixcheck.live.recording import LAST, Walk, is_empty, manner_of, sizes_of, tap
from radixcheck.live.tape import LOST, WORK_PER_NODE, Called
from radixcheck.live.taps import LOOKING, Taps
from radixcheck.rules import Violation
from radixcheck.trace import Found, Trace, save

EVERY = 64
"""Calls that are judged together, unless asked otherwise."""

SELDOM = 1_024
"""Calls before all that is stored is looked at for the first time."""

TOLD_BY_USE = ("lru", "mru", "unspecified")
"""Policies that know of an entry only when it was last used: what is there to be seen."""

Then: TypeAlias = Literal["warn", "raise"] | Callable[[Violation, Path | None], Any]


class Violated(Exception):
    """The living cache broke a rule."""

    is_for_the_caller = True

    def __init__(self, violation: Violation, path: Path | None) -> None:
        where = f"; the trace is in {path}" if path else ""
        super().__init__(
            f"{violation.rule} at {violation.operation}: expected {violation.expected}, "
            f"saw {violation.actual}. {violation.detail}{where}"
        )
        self.violation = violation
        self.path = path


class Watch:
    """Judges a living cache, until it breaks a rule or `stop`. Use it as a context, or keep it.

    Args:
        manner: how the cache is called.
        every: calls that are judged together.
        last: operations that are kept for the trace.
        to: where the trace of the first violation is written, if anywhere.
        then: what is done besides.
    """

    def __init__(
        self,
        cache: Any,
        manner: Manner,
        words: Words,
        *,
        every: int,
        last: int,
        to: Path | None,
        then: Then,
    ) -> None:
        nodes = _stored_now(cache, manner)
        self._manner = manner = _as_far_as_seen(manner, nodes)
        self._every, self._to, self._then = every, to, then
        known = manner.walk is not None or manner.level is not None
        empty = known or is_empty(cache, manner.capabilities) is True
        names = MOST_NAMES[getattr(manner.capabilities, "namespaces", "absent")]
        excuses = Excuses(words, most_names=names, began_empty=empty)
        self._following = follow(manner, words, last, nodes, excuse=excuses)
        self._pending: list[Called] = []
        self._next_walk = SELDOM + WORK_PER_NODE * len(nodes)
        self.calls = 0
        """Calls that were judged."""
        self.violation: Violation | None = None
        """The first rule that was broken; its step is its place in `trace`."""
        self.lost = ""
        """Why nothing is judged any more, if it is not."""
        self._name = type(cache).__name__
        self._ordered = False
        """Whether the order of evictions is judged."""
        self._taps = Taps(self._note, kept)
        self._attend(cache, manner)
        tap(self._taps, cache, manner, pool=True)

    def _attend(self, cache: Any, manner: Manner) -> None:
        """Say what is looked at besides the calls, and who is told of what."""
        taps = self._taps
        taps.doubt, taps.within, taps.ending = self._doubt, self._within, self._last_words
        if manner.level is not None:
            taps.look = manner.level.look(taps)
            return
        sizes = sizes_of(cache, manner.capabilities)
        taps.look = lambda kind, given: sizes()
        told = [each for each in sizes() if each is not None]
        if told and all(type(each) is int for each in told):  # no device waits for a comparison
            taps.glance = sizes
        self._ordered = judged_promises(manner.capabilities).eviction != "unspecified"

    # ---- as a context --------------------------------------------------------------------

    def __enter__(self) -> Watch:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        _error: BaseException | None,
        _where: TracebackType | None,
    ) -> None:
        if kind is None:
            self.check()
        elif self._taps.listening:
            self._then = "warn" if self._then == "raise" else self._then  # one error is enough
            self._guarded()
        self.stop()

    def stop(self) -> None:
        """Give the cache its own methods back. What is still to be judged is forgotten."""
        self._taps.stop()

    # ---- what came of it -----------------------------------------------------------------

    def check(self) -> Violation | None:
        """Judge now what is left of the last calls, and look at all that is stored.

        Raises:
            Violated: a rule is broken, and that was asked for.
        """
        if self._taps.listening:
            self._guarded()
            if self._taps.listening:
                self._guarded(walking=True)
        return self.violation

    @property
    def waiting(self) -> int:
        """Calls that are still to be judged, those of a pool included."""
        return len(self._pending)

    @property
    def trouble(self) -> BaseException | None:
        """The fault in radixcheck that has ended this watch, if one has."""
        return self._taps.trouble

    def trace(self) -> Trace:
        """Return what is kept of the calls that were judged."""
        return self._following.trace(dict(self._manner.config))

    # ---- while it runs -------------------------------------------------------------------

    def _note(self, called: Called) -> None:
        self._pending.append(called)
        if len(self._pending) >= self._every:
            self._judge()

    def _doubt(self, why: str) -> None:
        """What follows cannot be judged."""
        self._pending.append((LOST, (why,), None, None))

    def _within(self, outer: str, inner: str) -> None:
        """A tree has called itself. A match does nothing that shows, but where the order of
        evictions hangs on it."""
        if self._manner.level is None and (inner != "match_prefix" or self._ordered):
            during = "asking for its sizes" if outer == LOOKING else f"a call of {outer}"
            self._doubt(f"{during} made a call of {inner}: nobody can tell which did what")

    def _last_words(self) -> None:
        """Before a fault in radixcheck ends it all, judge what came before."""
        if self._pending and self._taps.listening:
            try:
                self._judge()
            except Violated:
                raise
            except Exception:
                self._pending.clear()  # the fault at hand is told already

    def _guarded(self, *, walking: bool = False) -> None:
        try:
            self._judge(walking=walking)
        except BaseException as error:
            self._taps.fault(error)

    def _judge(self, *, walking: bool = False) -> None:
        """Judge what has come; a fault in here is the business of the caller."""
        if walking:
            self._taps.compare()
        calls, self._pending = self._pending, []
        try:
            found = next(self._following.judge(calls), None)
        except Lost as lost:
            self._give_up(str(lost))
            return
        self.calls += len(calls)
        if found is None and (walking or self.calls >= self._next_walk):
            found = self._look()
        if found is not None:
            self._found(found)

    def _look(self) -> Violation | None:
        """Look at all that is stored, the more seldom the more that is."""
        following = self._following
        self._next_walk = self.calls + WORK_PER_NODE * following.stored_tokens + self._every
        return following.inspect()

    def _give_up(self, why: str) -> None:
        self._taps.stop()
        self.lost = why
        warnings.warn(f"radixcheck no longer watches: {why}", RuntimeWarning, stacklevel=5)

    def _found(self, violation: Violation) -> None:
        """The first violation: stop, write the trace, and tell."""
        self._taps.stop()
        trace = self.trace()
        step = max(0, len(trace.operations) - 1)
        self.violation = violation = replace(violation, step=step)
        told = Found(violation.rule, violation.operation, self._name, source="watched live")
        path, trouble = self._to, ""
        if path is not None:
            try:
                save(trace.replace(found=told), path)
            except OSError as error:
                path, trouble = None, f" (the trace could not be written: {error})"
        self._tell(violation, path, trouble)

    def _tell(self, violation: Violation, path: Path | None, trouble: str) -> None:
        error = Violated(violation, path)
        if self._then == "raise":
            raise error
        if callable(self._then):
            self._then(violation, path)
        else:
            warnings.warn(f"radixcheck: {error}{trouble}", RuntimeWarning, stacklevel=6)


def _stored_now(cache: Any, manner: Manner) -> list[Node]:
    """List what is stored already.

    Raises:
        ValueError: something is, and nobody can see what.
    """
    if manner.walk is not None:
        return in_lists(manner.walk())
    if manner.level is not None:
        if not manner.level.is_new():
            raise ValueError(
                f"slots of the {type(cache).__name__} are held, and nobody can see by whom: watch "
                "it from the start"
            )
    elif is_empty(cache, manner.capabilities) is False:
        raise ValueError(
            f"the {type(cache).__name__} is not empty, and nobody can see what it stores: watch it "
            "from the start, or say how to `walk` it"
        )
    return []


def _as_far_as_seen(manner: Manner, nodes: list[Node]) -> Manner:
    """Leave the order of evictions open, where it hangs on what happened before anybody looked."""
    can = manner.capabilities
    if nodes and (can.eviction not in TOLD_BY_USE or not any(node.used for node in nodes)):
        return manner._replace(capabilities=replace(can, eviction="unspecified"))
    return manner


def watch(
    cache: Any,
    *,
    every: int = EVERY,
    last: int = LAST,
    to: Path | str | None = "radixcheck-violation.jsonl",
    then: Then = "warn",
    keep_tokens: bool = False,
    calls: Calls | None = None,
    capabilities: AnyCapabilities | None = None,
    walk: Walk | None = None,
) -> Watch:
    """Begin to judge `cache`, a living one, by the rules of the contract while it serves.

    Args:
        cache, last, keep_tokens, calls, capabilities, walk: as of `record`.
        every: so many calls are judged together. Only then a device is waited for.
        to: where the trace of the first violation is written; None for nowhere.
        then: what is done at the first violation besides: ``warn``, ``raise`` `Violated` out of the
            call that completes the batch, or a function of the violation and the path.

    Raises:
        ValueError: it cannot be watched; the message says why.
    """
    manner = manner_of(cache, calls, capabilities, walk)
    if not (then in ("warn", "raise") or callable(then)):
        raise ValueError(f"then={then!r}: write 'warn', 'raise', or a function")
    if manner.unwatched:
        raise ValueError(f"{manner.unwatched}: record it instead")
    words, path = Words(keep_tokens=keep_tokens), None if to is None else Path(to)
    return Watch(cache, manner, words, every=every, last=last, to=path, then=then)
