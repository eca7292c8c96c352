"""The calls of one object, overheard: its methods are replaced on the object itself, and given
back.

Nothing that goes wrong in here may reach the cache or its caller: then the recording stops, says so
once, and the calls go through as if nobody had listened.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from copy import deepcopy
from functools import partial, update_wrapper
from threading import get_ident
from types import SimpleNamespace
from typing import Any, TypeAlias

from radixcheck.live.calls import Keep, Seeing
from radixcheck.live.tape import Called, Raised, interrupted, whole
from radixcheck.protocol import Evicted

Note: TypeAlias = Callable[[Any], None]
"""Told a call, or where it is to be quick a note that `radixcheck.live.tape.whole` reads."""
Look: TypeAlias = Callable[[str, tuple[Any, ...]], Any]
"""Called right after a call, with its kind and what it was given; answers what is seen then."""

_MISSING = object()
NOT_ANSWERED = SimpleNamespace(device_prefix_len=0, last_device_node=None, prefix_len=0)
"""In the place of an answer, where there is none to make a note of."""

MARK = "__radixcheck__"
"""On every method that is overheard, the `Taps` that do so: nobody listens twice."""

LOOKING = "look"
"""In the place of a kind, while it is noted what a call has done."""

STOPPED = "stopped"
"""In the place of a kind: calls through methods that somebody has kept are passed on."""

SECOND_THREAD = "a second thread called: nobody can tell in which order things happened"


class Overheard(partial[Any]):
    """What stands in for a method of one object. A copy of that object that is made all the way
    down gets the method itself, its own; so does one that is unpickled."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return deepcopy(vars(self)["__wrapped__"], memo)

    def __reduce__(self) -> Any:
        return _itself, (vars(self)["__wrapped__"],)


def _itself(method: Any) -> Any:
    return method


class Taps:
    """Everything that is overheard of one cache.

    A call that the cache makes of itself in the midst of another is a part of that one. What comes
    from a second thread is passed on and noted, but its parts are not told apart.

    Args:
        note: told each call when it is over.
        keep: makes of slots what is noted of them.

    What is told besides is to be set before a method is replaced.
    """

    def __init__(self, note: Note, keep: Keep) -> None:
        self.note = note
        self.keep = keep
        self.look: Look | None = None
        """What is looked at after each call, if anything is."""
        self.glance: Callable[[], Any] | None = None
        """The same of a tree, before each call: nothing may have changed since the last."""
        self._seen: Any = None
        """What was looked at last."""
        self.doubt: Callable[[str], None] = _nobody
        """Told why what follows cannot be judged."""
        self.within: Callable[[str, str], None] = _nobody
        """Told which call was made in the midst of which."""
        self.ending: Callable[[], None] = _nobody
        """Called before a fault in here ends it all."""
        self._replaced: list[tuple[Any, str, Any, Any]] = []
        self._inside = self._outside = ""
        """The kind of the call that is going on, or `STOPPED`; and what it is between calls."""
        self.groups: list[Any] = []
        """The runs of slots that were freed in the eviction that is going on."""
        self._parts: list[Called] = []
        """What was called of the pool in the call that is going on."""
        self._thread = get_ident()
        """Who made the last call."""
        self.turns = 0
        """How often another thread made a call than the one before."""
        self.trouble: BaseException | None = None
        """What went wrong in here, if anything did."""

    # ---- to begin and to end -------------------------------------------------------------

    def replace(self, owner: Any, method: str, made: Callable[[Any], Any]) -> None:
        """Put ``made(real)`` in the place of a method, on this one object.

        Raises:
            ValueError: it is overheard already, or nothing can be set on the object.
        """
        real = getattr(owner, method)
        if (taps := getattr(real, MARK, None)) is not None and taps.listening:
            raise ValueError(
                f"{type(owner).__name__}.{method} is recorded already: stop that first"
            )
        before = vars(owner).get(method, _MISSING) if hasattr(owner, "__dict__") else _MISSING
        wrapped = update_wrapper(Overheard(made(real)), real)
        setattr(wrapped, MARK, self)
        try:
            setattr(owner, method, wrapped)
        except (AttributeError, TypeError) as error:
            raise ValueError(
                f"nothing can be set on a {type(owner).__name__} ({error}): record an object that "
                "passes its calls on"
            ) from None
        self._replaced.append((owner, method, wrapped, before))

    def stop(self) -> None:
        """Give every method back, but what somebody else has put in its place meanwhile."""
        self._inside = self._outside = STOPPED
        while self._replaced:
            owner, method, wrapped, before = self._replaced.pop()
            if getattr(owner, method, None) is wrapped:
                _put_back(owner, method, wrapped, before)

    @property
    def listening(self) -> bool:
        """Whether calls are overheard."""
        return bool(self._replaced)

    def give_up(self, error: Exception) -> None:
        """Stop because of a fault in here."""
        self.ending()
        self.stop()
        if self.trouble is None:
            self.trouble = error
            warnings.warn(
                f"radixcheck stopped recording: {type(error).__name__}: {error}. The cache is not "
                "affected",
                RuntimeWarning,
                stacklevel=4,
            )

    # ---- what is put in the place of methods ---------------------------------------------

    def call(
        self,
        kind: str,
        given: Callable[..., tuple[Any, ...]],
        result: Callable[[Any], Any],
        real: Callable[..., Any],
    ) -> Callable[..., Any]:
        """Return what stands in for a method of the cache.

        Args:
            given, result: make what is noted of the arguments and of the answer.
        """

        note, look = self.note, self.look

        def overheard(*arguments: Any, **named: Any) -> Any:
            if (self._inside or get_ident() != self._thread) and self._is_a_part(kind):
                return real(*arguments, **named)
            self._inside = kind
            try:
                noted = given(*arguments, **named)
                if self.glance is not None:
                    self.compare()
            except BaseException as error:
                return self._unread(kind, error, partial(real, *arguments, **named))
            try:
                answer = real(*arguments, **named)
            except BaseException as error:
                self._failed(kind, noted, error)
                raise
            self._inside = LOOKING
            try:
                self._seen = seen = look and look(kind, noted)
                note((kind, noted, result(answer), seen))
            except BaseException as error:
                self.fault(error)
            finally:
                self._inside = self._outside
            return answer

        return overheard

    def compare(self) -> None:
        """See whether somebody has changed the cache past us since the last call."""
        if self.glance is None:
            return
        sizes = self.glance()
        if self._seen is not None and sizes != self._seen:
            told = [[each for each in seen if each is not None] for seen in (self._seen, sizes)]
            self.doubt(f"sizes went from {told[0]} to {told[1]} by a call past the watch")

    def _unread(self, kind: str, error: BaseException, real: Callable[[], Any]) -> Any:
        """Make a call that cannot be noted. Whose fault that is, its outcome tells."""
        try:
            answer = real()
        except BaseException:
            self._inside = self._outside
            self.doubt(f"{kind} was given what nobody can read, and raised")
            raise
        self._inside = self._outside
        self.fault(error)
        return answer

    def seeing(
        self,
        kind: str,
        seen: Seeing,
        note: Note,
        real: Callable[[Any], Any],
    ) -> Callable[[Any], Any]:
        """The same for a method that takes one argument, called ``params``, where no sizes matter:
        to pass on whatever may come costs as much again as to note it.

        Args:
            seen: makes the whole note of the kind, the argument and the answer.
        """

        def overheard(params: Any) -> Any:
            if (self._inside or get_ident() != self._thread) and self._is_a_part(kind):
                return real(params)
            self._inside = kind
            try:
                answer = real(params)
            except BaseException as error:
                self._inside = self._outside
                self._failed_seeing(kind, seen, params, error)
                raise
            self._inside = self._outside
            try:
                note(seen(kind, params, answer))
            except BaseException as error:
                self.fault(error)
            return answer

        return overheard

    def _failed_seeing(self, kind: str, seen: Seeing, params: Any, error: BaseException) -> None:
        try:
            given = whole(seen(kind, params, NOT_ANSWERED))[1]
        except Exception as fault:
            self.fault(fault)
        else:
            self._failed(kind, given, error)

    def _is_a_part(self, kind: str) -> bool:
        """Tell whether a call is to be passed on unheard: as a part of another, or since nobody
        listens any more."""
        if self._inside == STOPPED:
            return True
        if get_ident() != self._thread:
            self._thread = get_ident()
            self.turns += 1
            self.doubt(SECOND_THREAD)
        elif self._inside:
            self.within(self._inside, kind)
        return bool(self._inside)

    def _failed(self, kind: str, noted: tuple[Any, ...], error: BaseException) -> None:
        self._inside = LOOKING
        try:
            self._seen = seen = self.look and self.look(kind, noted)
            self.note((kind, noted, Raised(error), seen))
        except BaseException as fault:
            self.fault(fault)
        finally:
            self._inside = self._outside

    def fault(self, error: BaseException) -> None:
        """Stop because of what was raised in here, unless it is meant for the caller."""
        if getattr(error, "is_for_the_caller", False):
            raise error
        if not isinstance(error, Exception) or interrupted(error):
            self.doubt(f"{type(error).__name__} came while a call was noted")
            raise error
        self.give_up(error)

    def locking(self, kind: str, append: Note, real: Callable[..., Any]) -> Callable[..., Any]:
        """Return what stands in for a lock or an unlock, when neither its answer nor the sizes
        matter: it is called often and does little, so there must be little to it."""

        def overheard(handle: Any = _MISSING, /, *more: Any, **named: Any) -> Any:
            if self._inside:
                self._is_a_part(kind)
                return again(handle, more, named)
            self._inside = kind
            try:
                answer = again(handle, more, named) if more or named else real(handle)
            except BaseException as error:
                self._failed(kind, noted(handle, named), error)
                raise
            self._inside = self._outside
            append((kind, noted(handle, named)[0] if named else handle))
            return answer

        def again(handle: Any, more: tuple[Any, ...], named: dict[str, Any]) -> Any:
            return real(*more, **named) if handle is _MISSING else real(handle, *more, **named)

        def noted(handle: Any, named: dict[str, Any]) -> tuple[Any, ...]:
            return tuple(named.values()) if handle is _MISSING else (handle,)

        return overheard

    def telling(
        self, kind: str, heard: Callable[..., tuple[Any, ...]], real: Callable[..., Any]
    ) -> Callable[..., Any]:
        """Return what stands in for a method that does the bookkeeping of a request.

        It is noted before, then what it does of the cache's own calls, and then the row of slots
        before and after, which `heard` answers a way to read.
        """

        def overheard(*arguments: Any, **named: Any) -> Any:
            if self._inside:
                return real(*arguments, **named)
            before, row = None, _nothing
            try:
                told, row = heard(*arguments, **named)
                before = self.keep(row())
                self.note((kind, (told,), None, None))
            except Exception as error:
                self.fault(error)
            answer = real(*arguments, **named)
            try:
                if before is not None and not self._inside:
                    after = self.keep(row()) if kind == "publish" else []
                    self.note(("left", (before, after), kind, None))
            except Exception as error:
                self.fault(error)
            return answer

        return overheard

    def freeing(
        self, runs: Callable[..., tuple[Any, ...]], real: Callable[..., Any]
    ) -> Callable[..., Any]:
        """Return what stands in for a method of a pool that takes slots back.

        Those that come back in an eviction are its answer.
        """

        def overheard(*arguments: Any, **named: Any) -> Any:
            if self._inside in ("pool", STOPPED):
                return real(*arguments, **named)
            outside, self._inside = self._inside, "pool"
            try:
                self._freed(outside, runs(*arguments, **named))
            except Exception as error:
                self._inside = self._outside or outside
                self.fault(error)
            try:
                return real(*arguments, **named)
            finally:
                self._inside = self._outside or outside

        return overheard

    def _freed(self, outside: str, runs: tuple[Any, ...]) -> None:
        for run in map(self.keep, runs):
            if outside == "evict":
                self.groups.append(run)
            else:
                self.note(("free", (run,), outside, None))

    def part(
        self,
        kind: str,
        given: Callable[..., tuple[Any, ...]],
        result: Callable[[Any], Any],
        real: Callable[..., Any],
    ) -> Callable[..., Any]:
        """Return what stands in for a method of the pool below a cache of requests: called in the
        midst of a call of the cache's, it is a part of that one.

        Args:
            given, result: as of `call`.
        """

        def overheard(*arguments: Any, **named: Any) -> Any:
            if self._inside in ("pool", STOPPED):
                return real(*arguments, **named)
            try:
                noted = given(*arguments, **named)
            except Exception as error:
                self.give_up(error)
                return real(*arguments, **named)
            outside, self._inside = self._inside, "pool"
            try:
                answer = real(*arguments, **named)
            except BaseException as error:
                self._add(outside, kind, noted, Raised, error)
                raise
            self._add(outside, kind, noted, result, answer)
            return answer

        return overheard

    def _add(
        self,
        outside: str,
        kind: str,
        noted: tuple[Any, ...],
        result: Callable[[Any], Any],
        answer: Any,
    ) -> None:
        """Note what was called of a pool, in the midst of what goes on outside of it or not."""
        self._inside = self._outside or outside
        try:
            note = self._parts.append if outside else self.note
            note((kind, noted, result(answer), None))
        except Exception as error:
            self.fault(error)

    def take_parts(self) -> list[Called]:
        """Return what was called of the pool in the call that is over."""
        parts, self._parts = self._parts, []
        return parts

    def take_groups(self, _answer: Any) -> Evicted:
        """Return what came back in the eviction that is over: a victim a run."""
        groups, self.groups = self.groups, []
        return Evicted(groups)

    def allocating(self, real: Callable[..., Any]) -> Callable[..., Any]:
        """Return what stands in for a method of a pool that hands slots out."""

        def overheard(*arguments: Any, **named: Any) -> Any:
            if self._inside in ("pool", STOPPED):
                return real(*arguments, **named)
            outside, self._inside = self._inside, "pool"
            try:
                answer = real(*arguments, **named)
            finally:
                self._inside = self._outside or outside
            try:
                if answer is not None:
                    self.note(("alloc", (), self.keep(answer), None))
            except Exception as error:
                self.fault(error)
            return answer

        return overheard


def _nothing() -> list[int]:
    return []


def _nobody(*_: Any) -> None:
    pass


def _put_back(owner: Any, method: str, wrapped: Any, before: Any) -> None:
    """Undo what `Taps.replace` did. An object that passes on what is set on it may not pass on
    what is deleted."""
    try:
        if before is not _MISSING:
            setattr(owner, method, before)
        else:
            delattr(owner, method)
    except AttributeError:
        setattr(owner, method, wrapped.__wrapped__)
