"""From calls to a trace of whole requests, for caches that do the bookkeeping of requests.

An engine does not say when a request begins: it matches, it locks what it found, and the first that
its cache hears of the request is that a part of it is computed. So a request is admitted where the
node was locked that it names then::

    call        lock node 5    evict 8    lock node 5    publish r1 (node 5)    publish r2 (node 5)
                    |                         |
    operation   admit r1       evict 8    admit r2       prefill r1             prefill r2

Tokens that were sampled are written down where the cache hears of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any, NamedTuple

from radixcheck.live.naming import Words
from radixcheck.live.nodes import Node, stored_again
from radixcheck.live.tape import Called
from radixcheck.operations import (
    Abort,
    Admit,
    AnyOperation,
    Arrive,
    Audit,
    Decode,
    Evict,
    Finish,
    Namespace,
    Prefill,
    Reset,
    Tokens,
)
from radixcheck.trace import Config, Trace

KINDS = frozenset("publish end inc_ref evict reset".split())
"""The calls that a trace of requests is made of."""

TELLING = frozenset(("publish", "end"))
"""Those that only a cache with bookkeeping gets."""


class Heard(NamedTuple):
    """What a cache is told of a request, at one call."""

    request: Any
    """The engine's object, or its name."""
    tokens: Sequence[Any]
    """All of it that is known: the prompt, and what was sampled."""
    prompt_tokens: int
    """So many of these are the prompt."""
    computed: int
    """So many have a slot."""
    matched: int
    """So many of these it did not compute itself."""
    namespace: Any
    node: Any
    """What it has locked."""
    stored: bool = True
    """If it ends: whether what was computed is stored."""


class _Request:
    """A request on its way through the trace."""

    def __init__(self, name: str, namespace: Namespace) -> None:
        self.name = name
        self.namespace = namespace
        self.prompt: Tokens = ()
        self.computed = 0
        self.sampled = 0


class Requests:
    """Writes calls as operations on requests.

    Args:
        words: names tokens and namespaces.
    """

    def __init__(self, words: Words) -> None:
        self._words = words
        self._known: dict[int, tuple[Any, _Request]] = {}
        self._places: dict[int, list[list[Callable[[], AnyOperation]]]] = {}
        self._written: list[list[Callable[[], AnyOperation]]] = []
        """One list per call: operations are made at the end, when all of a request is known."""
        self._count = 0

    def operations(
        self, nodes: Sequence[Node], calls: Iterable[Called]
    ) -> tuple[AnyOperation, ...]:
        """Return the operations that store `nodes`, and those of the calls then."""
        for kind, given, _, _ in stored_again(nodes):
            if kind == "insert":
                self._store(given[0], given[2])
        for call in calls:
            if call[0] in KINDS and not (call[0] in TELLING and _is_empty(call[1][0])):
                self._write(call)
        return tuple(make() for make in chain.from_iterable(self._written))

    def _say(self, *operations: AnyOperation) -> None:
        self._written.append([_always(each) for each in operations])

    def _store(self, tokens: Sequence[Any], namespace: Any) -> None:
        """A request whose only purpose is that its prompt is stored."""
        request = self._new(namespace)
        key, name = (*self._words.tokens(tokens), 0), request.name
        self._say(Arrive(name, key[:-1], 0, request.namespace), Admit(name), Prefill(name))
        self._say(Finish(name))

    def _write(self, call: Called) -> None:
        kind, given, _, _ = call
        match kind:
            case "inc_ref":
                place: list[Callable[[], AnyOperation]] = []
                self._written.append(place)
                self._places.setdefault(id(given[0]), []).append(place)
            case "evict":
                self._say(Evict(max(0, int(given[0]))))
            case "reset":
                self._known.clear()
                self._say(Reset())
            case "publish":
                self._publish(given[0])
            case _:
                self._leave(given[0])

    def _publish(self, heard: Heard) -> None:
        request = self._admitted(heard)
        prompt = len(request.prompt)
        if (chunk := min(heard.computed, prompt) - request.computed) > 0:
            request.computed += chunk
            whole = request.computed == prompt
            self._say(Prefill(request.name) if whole else Prefill(request.name, chunk))
        self._decode(request, heard, heard.computed - prompt)

    def _leave(self, heard: Heard) -> None:
        request = self._admitted(heard)
        self._known.pop(id(heard.request), None)
        if not heard.stored:
            self._say(Abort(request.name))
            return
        if request.computed < len(request.prompt):
            self._say(Prefill(request.name))
        self._decode(request, heard, heard.computed - len(request.prompt) + 1)
        self._say(Finish(request.name))

    def _decode(self, request: _Request, heard: Heard, sampled: int) -> None:
        """Sample until so many tokens are: each gets its slot when the next one is."""
        tokens = self._words.tokens(heard.tokens[len(request.prompt) :])
        for place in range(request.sampled, sampled):
            self._say(Decode(request.name, tokens[place] if place < len(tokens) else 0))
        request.sampled = max(request.sampled, sampled)

    def _admitted(self, heard: Heard) -> _Request:
        """Find a request, or admit it where it locked what it found."""
        if (known := self._known.get(id(heard.request))) is not None:
            return known[1]
        request = self._new(heard.namespace)
        self._known[id(heard.request)] = heard.request, request
        prompt = max(heard.prompt_tokens, min(heard.computed, len(heard.tokens)))
        if heard.computed > heard.prompt_tokens > 0:
            prompt = heard.prompt_tokens
        request.prompt = self._words.tokens(heard.tokens[:prompt])
        request.computed = min(heard.matched, prompt)
        places = self._places.get(id(heard.node))
        if not places:
            self._written.append([])
        place = places.pop() if places else self._written[-1]
        place += [
            lambda: Arrive(request.name, request.prompt, request.sampled, request.namespace),
            lambda: Admit(request.name),
        ]
        return request

    def _new(self, namespace: Any) -> _Request:
        self._count += 1
        return _Request(f"r{self._count}", self._words.namespace(namespace))


MOST_SLOTS = 8_192
"""A pool of more is not asked for: some targets keep a table that grows with its square."""


def requests_trace(
    words: Words, nodes: Sequence[Node], calls: Iterable[Called], config: Config
) -> Trace:
    """Write calls as a trace of requests, whose pool is large enough for what they hold: evictions
    are operations of their own. It ends with an audit, since only at the end of a request it shows
    what it leaves behind."""
    operations = (*Requests(words).operations(nodes, calls), Audit())
    tokens = sum(len(each.tokens) for each in operations if isinstance(each, Arrive))
    tokens += sum(isinstance(each, Decode) for each in operations)
    size = int(config.get("page_size", 1))
    slots = min(MOST_SLOTS, max(64, 2 * tokens)) // size * size
    return Trace(operations, {**config, "capacity": slots})


def _is_empty(heard: Heard) -> bool:
    """Tell whether a request comes and goes without anything that has a slot."""
    return not heard.computed


def _always(operation: AnyOperation) -> Callable[[], AnyOperation]:
    return lambda: operation
