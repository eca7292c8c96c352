"""A cache in any language: a server that is asked by JSON lines, as docs/protocol.md says.

::

    radixcheck run 'cmd:./server --flag?page_size=16'

Every call of a method takes two steps, so that many calls can travel in one line::

    method, arguments --prepare--> Call                     the request, and how to read its answer
                                   Call, ... --send--> Reply, ...    a value or an error, and sizes
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import count
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar
from weakref import WeakKeyDictionary, finalize

import msgspec

from radixcheck.buffers import read_slots
from radixcheck.capabilities import Capabilities
from radixcheck.protocol import DumpedNode, Evicted, Match, Refused, Slots
from radixcheck.targets.messages import (
    METHODS,
    SIZES,
    VERSION,
    Answer,
    DecRef,
    Dump,
    Evict,
    Hello,
    IncRef,
    Insert,
    MatchPrefix,
    Open,
    Opened,
    Request,
    Reset,
    Sizes,
    Trouble,
    Value,
    Version,
    Welcome,
)
from radixcheck.targets.server import Server, lend, take_back

MOST_CALLS = 64
"""So many operations travel in one line, unless the spec says otherwise."""

TIMEOUT_S = 10.0
"""How long an answer may take."""

Clock: TypeAlias = Callable[[], float]
Line = TypeVar("Line")

_encode = msgspec.json.Encoder().encode
_ANSWER = msgspec.json.Decoder(Answer)
_ANSWERS = msgspec.json.Decoder(list[Answer])
_TROUBLE, _VERSION = msgspec.json.Decoder(Trouble), msgspec.json.Decoder(Version)
_WELCOME, _OPENED = msgspec.json.Decoder(Welcome), msgspec.json.Decoder(Opened)


class ServerError(Exception):
    """A server answered that it met an error."""

    def __init__(self, message: str, where: str = "") -> None:
        super().__init__(message)
        self.where = where
        """The line of the server's own code, as the server tells it."""


class Handle:
    """A number that a server knows as a match. It is forgotten when nobody refers to it."""

    __slots__ = ("forgotten", "number")

    def __init__(self, number: int, forgotten: list[int]) -> None:
        self.number = number
        self.forgotten = forgotten

    def __del__(self) -> None:
        self.forgotten.append(self.number)


class Call(NamedTuple):
    """An operation that is not yet sent."""

    request: Request
    read: Callable[[Answer], Any]
    handle: Handle | None = None
    """The one that it makes or uses; held, lest it be forgotten before it is sent."""


class Reply(NamedTuple):
    """What came of a call. A match is (length, slots): its handle is known before."""

    value: Any
    error: Callable[[], Exception] | None
    """Makes what is to be raised. An exception that was raised holds on to all that was at work."""
    sizes: Mapping[str, int]
    """Those that are promised to be told with each answer."""


class Cache:
    """One cache behind a server.

    Args:
        server: one that has opened a fresh cache.
        opened: what it said about that.
        clock: answers the time, where the cache wants it.
        timeout_s: how long an answer may take.
    """

    cannot_promise = frozenset(("storage",))
    """What lies in the memory of a server is out of sight."""

    def __init__(self, server: Server, opened: Opened, clock: Clock, timeout_s: float) -> None:
        self.capabilities = _capabilities(opened, server)
        self._server = server
        self._timeout_s = timeout_s
        self._now = clock if self.capabilities.clock != "own" else lambda: None
        self._told = [
            name
            for name in SIZES
            if name in opened.methods and getattr(self.capabilities, name) == "present"
        ]
        self._sizes: Mapping[str, int] = {}
        self._numbers = count(1)
        self._forgotten: list[int] = []

    # ---- the methods of a target, as `radixcheck.protocol` has them ------------------------

    def match_prefix(self, tokens: Sequence[int], namespace: tuple[str, ...] = ()) -> Match:
        """Find the longest stored prefix of `tokens`."""
        call = self.prepare("match_prefix", tokens, namespace)
        length, slots = self._ask(call)
        return Match(length, slots, call.handle)

    def insert(
        self,
        tokens: Sequence[int],
        slots: Slots,
        namespace: tuple[str, ...] = (),
        priority: int = 0,
        owned_from: int = 0,
    ) -> int:
        """Store `tokens`, and return how many leading ones were stored before."""
        call = self.prepare("insert", tokens, slots, namespace, priority, owned_from)
        existing: int = self._ask(call)
        return existing

    def evict(self, num_tokens: int) -> Slots | Evicted:
        """Evict unlocked leaves; return the freed slots."""
        return self._ask(self.prepare("evict", num_tokens))

    def inc_ref(self, handle: Handle) -> int | None:
        """Lock a handle."""
        delta: int | None = self._ask(self.prepare("inc_ref", handle))
        return delta

    def dec_ref(self, handle: Handle) -> int | None:
        """Give one lock back."""
        delta: int | None = self._ask(self.prepare("dec_ref", handle))
        return delta

    def evictable_size(self) -> int:
        """Count the stored tokens that no lock covers."""
        return self._size("evictable_size")

    def protected_size(self) -> int:
        """Count the stored tokens that a lock covers."""
        return self._size("protected_size")

    def total_size(self) -> int:
        """Count all stored tokens."""
        return self._size("total_size")

    def reset(self) -> None:
        """Forget everything."""
        self._ask(self.prepare("reset"))

    def dump(self) -> list[DumpedNode]:
        """List every node but the roots."""
        nodes: list[DumpedNode] = self._ask(self.prepare("dump"))
        return nodes

    # ---- many calls at once ----------------------------------------------------------------

    def prepare(self, method: str, *arguments: Any) -> Call:
        """Write down a call of `method`, to be sent later. The arguments are copied."""
        call = _PREPARE[method](self, *arguments)
        call.request.now = self._now()
        return call

    def send(self, calls: Sequence[Call]) -> list[Reply]:
        """Make `calls` one after the other; a single line carries them all.

        Raises:
            Crashed, Hung, BadAnswer: as `Server.ask`; then nobody knows how far it got.
        """
        requests = [call.request for call in calls]
        requests[0].forget = self._forgotten[:]
        self._forgotten.clear()
        if len(calls) == 1:
            line = self._server.ask(_encode(requests[0]), self._timeout_s)
            answers = [_decoded(line, _ANSWER, self._server)]
        else:
            line = self._server.ask(_encode(requests), self._timeout_s)
            answers = _decoded(line, _ANSWERS, self._server)
        if len(answers) != len(calls):
            trouble = f"{len(calls)} operations in one line got {len(answers)} answers"
            raise self._server.bad(trouble, line)
        replies = [self._read(*each, line) for each in zip(calls, answers, strict=True)]
        self._sizes = replies[-1].sizes
        return replies

    # ---- inside ----------------------------------------------------------------------------

    def handle(self) -> Handle:
        """Make the handle of a match."""
        return Handle(next(self._numbers), self._forgotten)

    def _ask(self, call: Call) -> Any:
        (reply,) = self.send([call])
        if reply.error is not None:
            raise reply.error()
        return reply.value

    def _size(self, name: str) -> int:
        known = self._sizes.get(name)
        return self._ask(self.prepare(name)) if known is None else known

    def _read(self, call: Call, answer: Answer, line: bytes) -> Reply:
        if answer.error is not None:
            return Reply(None, partial(ServerError, answer.error, answer.where), {})
        try:
            sizes = {name: _needed(answer, name) for name in self._told}
            if answer.refused is not None:
                return Reply(None, partial(Refused, answer.refused), sizes)
            return Reply(call.read(answer), None, sizes)
        except LookupError as error:
            kind = call.request.__struct_config__.tag
            raise self._server.bad(f"the answer to {kind} has no {error.args[0]}", line) from None


def _needed(answer: Answer, *names: str) -> Any:
    """Return the first of the fields `names` that an answer has.

    Raises:
        LookupError: it has none of them.
    """
    for name in names:
        if (value := getattr(answer, name)) is not None:
            return value
    raise LookupError(" and no ".join(names))


def _match_prefix(cache: Cache, tokens: Sequence[int], namespace: tuple[str, ...]) -> Call:
    handle = cache.handle()
    request = MatchPrefix(tokens=list(tokens), namespace=namespace, handle=handle.number)
    return Call(request, lambda a: (_needed(a, "length"), _needed(a, "slots")), handle)


def _insert(
    cache: Cache,
    tokens: Sequence[int],
    slots: Slots,
    namespace: tuple[str, ...],
    priority: int,
    owned_from: int,
) -> Call:
    request = Insert(
        tokens=list(tokens),
        slots=read_slots(slots),
        namespace=namespace,
        priority=priority,
        owned_from=owned_from,
    )
    return Call(request, lambda answer: _needed(answer, "existing"))


def _freed(answer: Answer) -> Slots | Evicted:
    freed = _needed(answer, "groups", "slots")
    return freed if answer.groups is None else Evicted(freed)


def _nodes(answer: Answer) -> list[DumpedNode]:
    return [
        DumpedNode(node.tokens, node.slots, node.locks, node.parent)
        for node in _needed(answer, "nodes")
    ]


def _size(name: str) -> Callable[[Cache], Call]:
    return lambda cache: Call(Sizes(), lambda answer: _needed(answer, name))


_PREPARE: dict[str, Callable[..., Call]] = {
    "match_prefix": _match_prefix,
    "insert": _insert,
    "evict": lambda cache, num_tokens: Call(Evict(num_tokens=num_tokens), _freed),
    "inc_ref": lambda cache, handle: Call(
        IncRef(handle=handle.number), lambda answer: answer.delta, handle
    ),
    "dec_ref": lambda cache, handle: Call(
        DecRef(handle=handle.number), lambda answer: answer.delta, handle
    ),
    "reset": lambda cache: Call(Reset(), lambda answer: None),
    "dump": lambda cache: Call(Dump(), _nodes),
    **{name: _size(name) for name in SIZES},
}
"""Per method of a target: from its arguments to a call."""


class Command:
    """A cache in another process, as a target: it has the methods that the server says it has.

    Several calls may travel together: `radixcheck.ahead` prepares and sends them.
    """

    def __init__(self, cache: Cache, methods: Sequence[str], most_calls: int) -> None:
        self.capabilities = cache.capabilities
        self.most_calls = most_calls
        self.prepare, self.send = cache.prepare, cache.send
        for name in methods:
            setattr(self, name, getattr(cache, name))


def command(
    command: str,
    batch: int | Literal["off"] = MOST_CALLS,
    op_timeout: float = TIMEOUT_S,
    clock: Clock | None = None,
    **config: Value,
) -> Command:
    """Make a fresh cache in a server.

    Args:
        command: what starts the server, as a shell would split it.
        batch: how many operations may travel in one line; ``off`` is one.
        op_timeout: seconds that an answer may take.
        clock: answers the time, where the server wants it.
        config: what else the server is told.

    Raises:
        ValueError: the server cannot be started, is of another version, or refuses.
        BadAnswer, ServerError: it cannot be understood, or met an error.
        Crashed, Hung: it died, or says nothing.
    """
    most_calls = _most_calls(batch)
    server, _ = _greeted(command, op_timeout)
    try:
        opened = _opened(server, config, op_timeout)
        cache = Cache(server, opened, clock or count(1).__next__, op_timeout)
    except BaseException:
        server.close()
        raise
    finalize(cache, take_back, command, os.getcwd(), server)
    return Command(cache, opened.methods, most_calls)


def supports(command: str, op_timeout: float = TIMEOUT_S) -> dict[str, list[Value]]:
    """Ask a server which configurations a run may sweep.

    Raises:
        As `command`.
    """
    server, welcome = _greeted(command, op_timeout)
    take_back(command, os.getcwd(), server)
    return welcome.supports


def _most_calls(batch: object) -> int:
    if batch == "off":
        return 1
    if type(batch) is int and batch >= 1:
        return batch
    raise ValueError(f"batch={batch!r}: write a number of operations, or off")


# ------------------------------------------------------------------------------------- greetings

_welcomes: WeakKeyDictionary[Server, Welcome] = WeakKeyDictionary()


def _greeted(command: str, timeout_s: float) -> tuple[Server, Welcome]:
    """Return a server that speaks our version, and what it has said of itself."""
    server = lend(command)
    try:
        if (welcome := _welcomes.get(server)) is None:
            welcome = _welcomes[server] = _welcome(server, timeout_s)
    except BaseException:
        server.close()
        raise
    return server, welcome


def _welcome(server: Server, timeout_s: float) -> Welcome:
    line = server.ask(_encode(Hello()), timeout_s)
    _check_error(_decoded(line, _TROUBLE, server))
    version = _decoded(line, _VERSION, server).version
    if version != VERSION:
        raise ValueError(f"the server speaks version {version} of the protocol, and we {VERSION}")
    return _decoded(line, _WELCOME, server)


def _opened(server: Server, config: dict[str, Value], timeout_s: float) -> Opened:
    line = server.ask(_encode(Open(config)), timeout_s)
    _check_error(_decoded(line, _TROUBLE, server))
    opened = _decoded(line, _OPENED, server)
    if strange := sorted(set(opened.methods) - METHODS):
        known = f"known are {', '.join(sorted(METHODS))}"
        raise server.bad(f"the server has a method {strange[0]!r}", line, known)
    return opened


def _check_error(trouble: Trouble) -> None:
    if trouble.error is not None:
        raise ServerError(trouble.error, trouble.where)
    if trouble.refused is not None:
        raise ValueError(trouble.refused)


def _capabilities(opened: Opened, server: Server) -> Capabilities:
    try:
        return msgspec.convert(opened.capabilities, Capabilities)
    except (ValueError, msgspec.ValidationError) as error:
        raise server.bad(f"capabilities: {error}", _encode(opened.capabilities)) from None


def _decoded(line: bytes, decoder: msgspec.json.Decoder[Line], server: Server) -> Line:
    try:
        return decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise server.bad(f"a server's answer cannot be read ({error})", line) from None
