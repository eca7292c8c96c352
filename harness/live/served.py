"""How a bare pool is called, and a cache of requests with the pool below it: by the names of
`radixcheck.protocol`, or by others that `calls` tells."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from radixcheck.capabilities import AnyCapabilities, Capabilities, PoolCapabilities
from radixcheck.live.books import RequestsFollower
from radixcheck.live.calls import Call, Calls, Given, Keep, Level, Manner, completed, kept_key
from radixcheck.live.ledgers import PoolFollower
from radixcheck.live.reading import POOL, PoolReader, RequestsReader, Seen
from radixcheck.live.tape import Raised
from radixcheck.live.taps import Look, Taps
from radixcheck.live.writing import PoolWriter, RequestsWriter
from radixcheck.protocol import REQUIRED
from radixcheck.trace import Config

ROWS = frozenset(("begin", "append", "publish"))
"""Calls after which a request has a row."""


def _amount(num_tokens: int, *_: Any, **__: Any) -> tuple[Any, ...]:
    return (num_tokens,)


def _slots(slots: Any, *_: Any, **__: Any) -> tuple[Any, ...]:
    return (slots,)


def _nothing(*_: Any, **__: Any) -> tuple[Any, ...]:
    return ()


def _match(tokens: Any, namespace: Any = (), *_: Any, **__: Any) -> tuple[Any, ...]:
    return kept_key(tokens), namespace


def _begin(request: Any, tokens: Any, namespace: Any = (), *_: Any, **__: Any) -> tuple[Any, ...]:
    return request, kept_key(tokens), namespace


def _append(request: Any, tokens: Any, num_tokens: int, *_: Any, **__: Any) -> tuple[Any, ...]:
    length = len(tokens)
    return request, kept_key(tokens[length - num_tokens :]), length


def _request(request: Any, *_: Any, **__: Any) -> tuple[Any, ...]:
    return (request,)


def _end(request: Any, tokens: Any, *_: Any, **__: Any) -> tuple[Any, ...]:
    return request, kept_key(tokens)


GIVEN_POOL: dict[str, Given] = {
    "alloc": _amount,
    "free": _slots,
    "add_refs": _slots,
    "reset": _nothing,
}
GIVEN_REQUESTS: dict[str, Given] = {
    "match": _match,
    "begin": _begin,
    "append": _append,
    "publish": _request,
    "table": _request,
    "end": _end,
    "abort": _request,
    "retract": _request,
    "evict": _amount,
    "reset": _nothing,
}


def _noting(calls: Mapping[str, Call], given: Mapping[str, Given], keep: Keep) -> dict[str, Call]:
    """Let calls be noted: what the protocol's methods are given, and of slots what `keep` makes of
    them."""
    return {kind: _keeping(kind, call, given[kind], keep) for kind, call in calls.items()}


def _keeping(kind: str, call: Call, read: Given, keep: Keep) -> Call:
    own, answered = call.given, call.answered

    def given(*arguments: Any, **named: Any) -> tuple[Any, ...]:
        return read(*arguments, **named) if own is None else read(*own(*arguments, **named))

    def listed(*arguments: Any, **named: Any) -> tuple[Any, ...]:
        return (keep(given(*arguments, **named)[0]),)

    def handed_out(answer: Any) -> Any:
        slots = answer if answered is None else answered(answer)
        return None if slots is None else keep(slots)

    if kind == "alloc":
        return call._replace(given=given, answered=handed_out)
    return call._replace(given=listed if read is _slots else given)


def _promised(cache: Any, kind: type[AnyCapabilities], promised: Any) -> Any:
    """Return what an object promises.

    Raises:
        ValueError: nobody says, or it is promised for another level.
    """
    can = getattr(cache, "capabilities", None) if promised is None else promised
    if isinstance(can, kind):
        return can
    raise ValueError(
        f"what does the {type(cache).__name__} promise? Say capabilities={kind.__name__}(...)"
    )


def _counting(owner: Any, method: str, promised: str = "present") -> Callable[[], Any]:
    """Return what asks for a size that costs nothing; it answers None where there is none."""
    ask = getattr(owner, method, None) if promised == "present" else None
    return ask if callable(ask) else lambda: None


# ------------------------------------------------------------------------------------- a pool


def manner_of_pool(pool: Any, calls: Calls | None, promised: AnyCapabilities | None) -> Manner:
    """Describe a bare pool of our protocol, or one whose methods `calls` names.

    Raises:
        ValueError: it lacks a method, or nobody says what it promises.
    """
    can: PoolCapabilities = _promised(pool, PoolCapabilities, promised)
    named = completed(pool, calls, GIVEN_POOL, REQUIRED["pool"])
    free = _counting(pool, "available_size")
    return Manner(
        calls=partial(_noting, named, GIVEN_POOL),
        capabilities=can,
        config={"page_size": can.page_size, "capacity": can.capacity},
        level=Level(
            PoolReader,
            partial(PoolFollower, can),
            partial(PoolWriter, can),
            look=lambda _: lambda kind, given: Seen(free=free()),
            is_new=lambda: free() in (None, can.capacity),
            names_slots=True,
        ),
    )


# ----------------------------------------------------------------------------------- requests


def manner_of_requests(cache: Any, calls: Calls | None, promised: AnyCapabilities | None) -> Manner:
    """Describe a cache of requests of our protocol, or one whose methods `calls` names.

    Raises:
        ValueError: it lacks a method, or nobody says what it and its pool promise.
    """
    can: Capabilities = _promised(cache, Capabilities, promised)
    pool, rows = cache.pool, getattr(cache, "row_pool", None)
    pool_can: PoolCapabilities = _promised(pool, PoolCapabilities, None)
    named = completed(cache, calls, GIVEN_REQUESTS, REQUIRED["requests"])
    table, free = named.pop("table"), _counting(pool, "available_size")
    return Manner(
        calls=partial(_noting, named, GIVEN_REQUESTS),
        capabilities=can,
        config=_config(can, pool_can),
        pool=pool,
        parts={kind: Call(kind) for kind in GIVEN_POOL if hasattr(pool, kind)},
        level=Level(
            RequestsReader,
            partial(RequestsFollower, can, pool_can, getattr(rows, "capabilities", None)),
            RequestsWriter,
            look=partial(_looking, cache, table, can),
            is_new=lambda: free() in (None, pool_can.capacity),
        ),
    )


def _config(can: Capabilities, pool: PoolCapabilities) -> Config:
    config: Config = {"page_size": can.page_size, "capacity": pool.capacity}
    if can.eviction != "unspecified":
        config["eviction"] = can.eviction
    return config


def _looking(cache: Any, table: Call, can: Capabilities, taps: Taps) -> Look:
    """Return what looks at a cache after a call: at a row, and at what costs nothing."""
    total = _counting(cache, "total_size", can.total_size)
    evictable = _counting(cache, "evictable_size", can.evictable_size)
    free = _counting(cache.pool, "available_size")
    rows = _counting(getattr(cache, "row_pool", None), "available_size")
    ask, answered = getattr(cache, table.method), table.answered or (lambda row: row)

    def row_of(request: Any) -> Any:
        try:
            return taps.keep(answered(ask(request)))
        except Exception as error:
            return Raised(error)

    def look(kind: str, given: tuple[Any, ...]) -> Seen:
        parts, row = taps.take_parts(), row_of(given[0]) if kind in ROWS else None
        return Seen(parts, row, (total(), evictable()), free(), rows())

    return look


def parts_of(manner: Manner, keep: Keep) -> Mapping[str, Call]:
    """Say how the calls of the pool below a cache are noted, by their kinds."""
    return {POOL + kind: call for kind, call in _noting(manner.parts, GIVEN_POOL, keep).items()}
