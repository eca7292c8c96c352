"""`record`: the last calls of a living cache, or all of them, as a trace."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from types import SimpleNamespace, TracebackType
from typing import Any, TypeAlias

from radixcheck.capabilities import AnyCapabilities, Capabilities
from radixcheck.live.calls import GIVEN, SIZES, Calls, Manner, forgotten, kept, manner_of_tree
from radixcheck.live.filing import TraceFile
from radixcheck.live.following import Followed, Following, Lost, follow
from radixcheck.live.naming import Naming, Words
from radixcheck.live.nodes import Node, stored_again
from radixcheck.live.requests import TELLING, requests_trace
from radixcheck.live.served import manner_of_pool, manner_of_requests, parts_of
from radixcheck.live.sglang import is_sglang, manner_of_sglang
from radixcheck.live.tape import Called, Tape, tokens_of_notes, whole
from radixcheck.live.taps import Taps
from radixcheck.protocol import level_name
from radixcheck.trace import Trace, save

LAST = 10_000
"""Calls that a recording keeps, unless asked otherwise."""

FLUSHED = 256
"""A recording that goes to a file is written after so many calls."""

LEFT_OUT = "what became of these is left out"

Walk: TypeAlias = Callable[[], Iterable[Node]]


class Recording:
    """What is written down of a living cache, until `stop`. Use it as a context, or keep it.

    Args:
        manner: how the cache is called.
        last: calls that are kept at least.
        to: a file that gets all of them, and then none is kept here.
        keep_tokens: do not rename tokens and namespaces.
    """

    def __init__(
        self, cache: Any, manner: Manner, *, last: int, to: Path | None, keep_tokens: bool
    ) -> None:
        self._manner = manner
        self._keep_tokens = keep_tokens
        self._look: Callable[[], list[Node]] = lambda: list(manner.walk()) if manner.walk else []
        base = self._look()
        self._began_full = bool(base)
        self._before = _before(cache, manner)
        self._parts: set[str] = set()
        """Calls in the midst of others."""
        words = Words(keep_tokens=keep_tokens)
        self._file = TraceFile(to, manner, words) if to is not None else None
        self._following: Following | Followed | None = None
        self._tape = Tape(last, self._look, tokens_of_notes, base)
        self._pending: list[Called] = []
        if self._file is not None:
            self._file.write(stored_again(base))
        elif manner.walk is None and not manner.unwatched:
            self._following = follow(manner, words, last)
        by_parts, level = self._file or self._following, manner.level
        needs_slots = self._following or (level and level.names_slots)
        note = self._note if by_parts else self._tape.add
        self.taps = Taps(note, kept if needs_slots else forgotten)
        if self._following and level:
            self.taps.look = level.look(self.taps)
        self.taps.within = self._within
        append = None if by_parts else self._tape.calls.append
        tap(self.taps, cache, manner, pool=self._following is not None, append=append)

    # ---- as a context --------------------------------------------------------------------

    def __enter__(self) -> Recording:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _where: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Give the cache its own methods back. What was recorded stays here to be saved."""
        self.taps.stop()
        if self._file is not None:
            self._flush()
            self._file.close()

    # ---- what was recorded ---------------------------------------------------------------

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the trace must know: it is also in the header, as ``note``."""
        known = _notes(self._dropped, self._manner, self.taps, self._began_full)
        parts = [f"calls in the midst of others are left out: {', '.join(sorted(self._parts))}"]
        return (*([self._before] if self._before else []), *known, *(parts if self._parts else []))

    @property
    def _dropped(self) -> int:
        return (self._following or self._tape).dropped

    def trace(self, level: str | None = None) -> Trace:
        """Return what is kept, as a trace that a fresh cache can replay.

        Args:
            level: ``tree`` or ``requests``; by default the latter, if the cache was told of any.
        """
        return self._bare(level).replace(note="; ".join(self.notes))

    def _bare(self, level: str | None) -> Trace:
        config = dict(self._manner.config)
        if self._following is not None:
            self._flush()
            return self._following.trace(config)
        base, notes = self._tape.content()
        calls = list(map(whole, notes))
        words = Words(keep_tokens=self._keep_tokens)
        if level is None and any(call[0] in TELLING for call in calls):
            level = "requests"
        if level == "requests":
            return requests_trace(words, base, calls, config)
        naming = Naming(words, self._manner.key_of)
        operations = [*naming.operations(stored_again(base)), *naming.operations(calls)]
        return Trace(tuple(operations), config, misuse=naming.misuse)

    def save(self, path: Path | str) -> Trace:
        """Write what is kept to a trace file, and return it. The recording goes on.

        Raises:
            OSError: it could not be written.
        """
        trace = self.trace()
        save(trace, Path(path))
        return trace

    # ---- while it runs -------------------------------------------------------------------

    def _note(self, called: Called) -> None:
        """Note a call of a recording that does not keep calls, but what becomes of them."""
        self._pending.append(called)
        if len(self._pending) >= FLUSHED:
            self._flush()

    def _flush(self) -> None:
        calls, self._pending = self._pending, []
        if self._file is not None:
            self._file.write(calls)
        elif self._following is not None:
            try:
                for _ in self._following.judge(calls):  # what it thinks is for those who watch
                    pass
            except Lost as lost:
                self.taps.give_up(lost)

    def _within(self, outer: str, inner: str) -> None:
        if self._manner.level is None:
            self._parts.add(f"{inner} in {outer}")


def is_empty(cache: Any, can: Capabilities) -> bool | None:
    """Tell by its sizes whether a tree stores nothing; None, if they do not say: what is locked is
    in `evictable_size()` as little as what is not there."""
    evictable, protected, total = sizes_of(cache, can)()
    if any((evictable, protected, total)):
        return False
    told = total is not None or (evictable is not None and protected is not None)
    return True if told else None


def sizes_of(cache: Any, can: Capabilities) -> Callable[[], tuple[Any, ...]]:
    """Return what asks a tree for its sizes; None in the place of one that it does not know."""
    asks = [
        getattr(cache, name, None) if getattr(can, name) == "present" else None for name in SIZES
    ]
    return lambda: tuple([None if ask is None else ask() for ask in asks])


def _before(cache: Any, manner: Manner) -> str:
    """Say of what was there before that it is not known, if so."""
    if manner.level is not None:
        return "" if manner.level.is_new() else f"slots were held before; {LEFT_OUT}"
    if manner.walk is not None or manner.unwatched:
        return ""
    try:
        empty = is_empty(cache, manner.capabilities)
    except Exception:  # a size that cannot be asked for is no reason not to record
        empty = None
    if empty is None:
        return "whether something was stored before is not known"
    return "" if empty else "something was stored before, and nobody can see what"


def _notes(dropped: int, manner: Manner, taps: Taps, began_full: bool) -> Iterable[str]:
    if dropped:
        yield f"the last calls; {dropped:,} came before them"
    if (dropped or began_full) and (manner.walk is not None or not manner.unwatched):
        yield "begins with what was stored then"
    elif dropped:
        yield "what was stored then is not known"
    if taps.turns:
        told = f"{taps.turns:,} times another thread called than before"
        yield f"{told}: their calls may be out of order"
    if taps.trouble is not None:
        yield f"ended by a fault in radixcheck: {type(taps.trouble).__name__}"


def tap(
    taps: Taps,
    cache: Any,
    manner: Manner,
    *,
    pool: bool = False,
    append: Callable[[Called], None] | None = None,
) -> None:
    """Overhear the calls of a cache, and those of its pool if they matter.

    Args:
        append: notes what comes without looking at anything else; for a recording of the last
            calls, which looks up at every insert.

    Raises:
        ValueError: it is recorded already, or nothing can be set on it.
    """
    try:
        for kind, call in manner.calls(taps.keep).items():
            result = call.answered or _as_it_is
            if kind == "evict" and taps.keep is forgotten:
                result = forgotten
            elif kind == "evict" and pool and manner.pool is not None:
                result = taps.take_groups
            made = partial(taps.call, kind, call.given or GIVEN[kind], result)
            if append is not None and call.seen is not None:
                note = taps.note if kind == "insert" else append
                made = partial(taps.seeing, kind, call.seen, note)
            elif append is not None and kind in ("inc_ref", "dec_ref") and call.given is None:
                made = partial(taps.locking, kind, append)
            taps.replace(cache, call.method, made)
        if pool:
            for kind, part in parts_of(manner, taps.keep).items():
                made = partial(taps.part, kind, part.given or _as_it_is, part.answered or _as_it_is)
                taps.replace(manner.pool, part.method, made)
        for kind, method, heard in manner.requests:
            taps.replace(cache, method, partial(taps.telling, kind, heard))
        if pool and manner.pool is not None:
            for name, runs in manner.frees.items():
                taps.replace(manner.pool, name, partial(taps.freeing, runs))
            for name in manner.allocs:
                taps.replace(manner.pool, name, taps.allocating)
    except ValueError:
        taps.stop()
        raise


def _as_it_is(answer: Any) -> Any:
    return answer


def manner_of(
    cache: Any,
    calls: Calls | None = None,
    capabilities: AnyCapabilities | None = None,
    walk: Walk | None = None,
) -> Manner:
    """Find out how a living cache is called.

    Raises:
        ValueError: it is neither of our protocol nor of SGLang's family, and no `calls` say more.
    """
    level = _level_of(cache) if calls is None else _level_of_names(calls)
    if level is None:
        raise ValueError(
            f"{type(cache).__name__} is no cache that radixcheck knows: say what its methods are "
            "called, as calls={'match_prefix': 'lookup', 'insert': 'store', ...}"
        )
    manner = MANNERS[level](cache, calls, capabilities)
    if walk is not None and manner.level is not None:
        raise ValueError(f"walk: a {type(cache).__name__} is no tree")
    changes: dict[str, Any] = {}
    if walk is not None:
        changes["walk"] = walk if manner.handles is None else manner.handles.walking(walk)
    if capabilities is not None:
        changes["capabilities"] = capabilities
    return manner._replace(**changes)


def _level_of(cache: Any) -> str | None:
    return "sglang" if is_sglang(cache) else level_name(cache)


def _level_of_names(calls: Calls) -> str:
    """Tell by the names of the protocol's methods which of them are meant."""
    named = SimpleNamespace(**dict.fromkeys(calls))
    return level_name(named) or "tree"


MANNERS: dict[str, Callable[..., Manner]] = {
    "sglang": lambda cache, calls, promised: manner_of_sglang(cache),
    "tree": manner_of_tree,
    "pool": manner_of_pool,
    "requests": manner_of_requests,
}
"""What describes a living object, by what it is."""


def record(
    cache: Any,
    *,
    last: int = LAST,
    to: Path | str | None = None,
    keep_tokens: bool = False,
    calls: Calls | None = None,
    capabilities: AnyCapabilities | None = None,
    walk: Walk | None = None,
) -> Recording:
    """Begin to write down what is called on `cache`, a living one, which goes on as before.

    Args:
        cache: a tree, a pool or a cache of requests of our protocol, or a tree of SGLang's family;
            or any, with `calls`.
        last: so many calls are kept at least, and at most twice as many.
        to: instead, write all of them to this file as they come.
        keep_tokens: leave tokens and namespaces as they are; else they are numbered by order of
            appearance.
        calls: by the protocol's names, what the engine calls these methods, or a `Call` each.
        capabilities: what the cache promises, if it does not say so itself.
        walk: lists what is stored, where radixcheck cannot look for itself.

    Raises:
        ValueError: it cannot be recorded; the message says why.
        OSError: the file cannot be written.
    """
    manner = manner_of(cache, calls, capabilities, walk)
    path = None if to is None else Path(to)
    return Recording(cache, manner, last=last, to=path, keep_tokens=keep_tokens)
