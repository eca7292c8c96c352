"""A run of requests as a Python program that imports nothing but the cache, to be read, pasted and
run.

An operation of a trace is what a server does; here are the calls that its cache gets for it::

    cache = requests(RadixPaged(page_size=4), capacity=16)
    cache.begin("r1", array("q", [1, 2, 3, 4, 5]))
    cache.append("r1", array("q", [1, 2, 3, 4]), 4)  # row [4, 5, 6, 7]
    cache.publish("r1")
    cache.evict(4)

What a slot holds is the server's affair, so a program shows who names it, and not what is in it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from radixcheck.finding import Step
from radixcheck.operations import (
    Abort,
    Admit,
    Allocated,
    Arrive,
    Decode,
    Done,
    Evict,
    Failure,
    Finish,
    Idle,
    Interrupt,
    MatchRequest,
    Operation,
    Outcome,
    Prefill,
    Queued,
    Refusal,
    Reset,
    Retract,
    Returned,
    Row,
    Schedule,
    Skipped,
    Starve,
    Tokens,
    Unanswered,
)
from radixcheck.program import importing
from radixcheck.registry import Source, resolve
from radixcheck.requests.recorder import INTERRUPTED
from radixcheck.requests.steps import UNDONE
from radixcheck.rules import Violation
from radixcheck.spelling import spell_numbers
from radixcheck.trace import Config

WRAPPED = "requests:"
FAULTY = """
class Faulty:
    def __init__(self, pool):
        self.pool, self.starving, self.interrupting = pool, 0, None

    def __getattr__(self, name):
        return getattr(self.pool, name)

    def alloc(self, num_tokens):
        if self.starving:
            self.starving -= 1
            size = self.pool.capabilities
            num_tokens = size.capacity + size.page_size
        return self.pool.alloc(num_tokens)

    def free(self, slots):
        if self.interrupting == 0:
            self.interrupting = None
            raise RuntimeError("interrupted")
        if self.interrupting is not None:
            self.interrupting -= 1
        self.pool.free(slots)
"""
"""A pool that is asked for more than it has, or raises in a free, when it is told to."""

ALL_FREE = "assert cache.pool.available_size() == cache.pool.capabilities.capacity"


def render(
    steps: Sequence[Step],
    source: Source,
    config: Config | None = None,
    violation: Violation | None = None,
    *,
    slots_as: str = "list",
    overwrites: bool = False,
) -> str:
    """Write `steps` as a program, with what `violation` expected in its last lines.

    Args:
        source: the cache that the program makes, under `config`.
        slots_as, overwrites: mean nothing at this level.
    """
    imports, opening = _opening(source, config or {})
    server = _Server(retracts=_has(source, "retract"), counts=_has(source, "evictable_size"))
    lines = [line for step in steps for line in server.calls(step)]
    if violation is not None:
        lines += _verdict(violation)
    if any("cache.pool." in line and " = " in line for line in lines):
        opening = f"{FAULTY}\n\n{opening}\ncache.pool = Faulty(cache.pool)"
    needed = [line for word, line in IMPORTS.items() if any(word in each for each in lines)]
    return "\n".join([*needed, *imports, "", opening, *lines]) + "\n"


def _has(source: Source, method: str) -> bool:
    """Tell whether a cache has a method that may be missing: behind the bookkeeper, as its tree."""
    if source.name.startswith(WRAPPED):
        source = resolve(source.name.removeprefix(WRAPPED))
    return hasattr(source.factory, method)


IMPORTS = {
    "array(": "from array import array",
    "suppress(": "from contextlib import suppress",
}
"""What a program that says this needs."""


def _opening(source: Source, config: Config) -> tuple[list[str], str]:
    """Return the imports, and the line that makes the cache."""
    if not source.name.startswith(WRAPPED):
        return [*importing(source)], f"cache = {_made(source, config, source.parameters)}"
    tree = resolve(source.name.removeprefix(WRAPPED))
    own = [key for key in source.keywords(config) if key not in tree.parameters]
    keywords = _given(source, config, own)
    inside = _made(tree, {**config, **source.arguments}, tree.parameters)
    call = ", ".join([inside, *keywords])
    return [*importing(source), *importing(tree)], f"cache = {source.place.attribute}({call})"


def _made(source: Source, config: Config, takes: Iterable[str]) -> str:
    return f"{source.place.attribute}({', '.join(_given(source, config, takes))})"


def _given(source: Source, config: Config, keys: Iterable[str]) -> list[str]:
    wanted = set(keys)
    return [
        f"{key}={value!r}"
        for key, value in source.keywords(config).items()
        if key in wanted and value != getattr(source.parameters.get(key), "default", None)
    ]


def _verdict(violation: Violation) -> Iterator[str]:
    """Write what should have held: as an assertion, where the program can see it."""
    if violation.expected == "every slot is free":
        yield ALL_FREE
    yield f"# expected: {_one_line(violation.expected)}"
    yield f"# actual: {_one_line(violation.actual)}"
    if violation.detail:
        yield f"# {_one_line(violation.detail)}"


def _one_line(text: str) -> str:
    """Keep a target's words within a comment: their second line would be code."""
    return " ".join(text.split())


class _Server:
    """Tells the calls of each step, and keeps in mind what the requests have come to."""

    def __init__(self, *, retracts: bool, counts: bool) -> None:
        self._retracts = retracts
        self._all = "cache.evictable_size()" if counts else "cache.pool.capabilities.capacity"
        """As much as can be evicted when nobody runs."""
        self._arrivals: dict[str, Arrive] = {}
        self._tokens: dict[str, Tokens] = {}
        self._queue: list[str] = []
        self._computed: dict[str, int] = {}
        """Computed tokens of each running request."""
        self._interrupting: int | None = None
        """The free that is to raise, in the next call that evicts so much: the one that fails."""

    def calls(self, step: Step) -> Iterator[str]:
        """Yield the lines of one step."""
        if isinstance(step.outcome, Skipped):
            return
        if self._interrupting is not None and _goes_wrong(step.outcome):
            yield f"cache.pool.interrupting = {self._interrupting}"
            self._interrupting = None
        yield from CALLS[type(step.operation)](self, step.operation, step.outcome)

    # ---- the queue -----------------------------------------------------------------------

    def arrive(self, operation: Arrive, outcome: Outcome) -> Iterator[str]:
        self._arrivals[operation.request] = operation
        self._tokens[operation.request] = operation.tokens
        self._queue.append(operation.request)
        yield from ()

    def schedule(self, operation: Schedule, outcome: Outcome) -> Iterator[str]:
        for name in self._queue:
            yield f"cache.match({self._key(name)})"
        if isinstance(outcome, Queued):
            self._queue = list(outcome.requests)
            yield f"# the queue, {operation.order}: {', '.join(self._queue) or 'empty'}"

    def match(self, operation: MatchRequest, outcome: Outcome) -> Iterator[str]:
        yield f"cache.match({self._key(operation.request)}){_remark(outcome)}"

    def admit(self, operation: Admit, outcome: Outcome) -> Iterator[str]:
        name = operation.request or self._queue[0]
        call = f"cache.begin({_quoted(name)}, {self._key(name)})"
        if not isinstance(outcome, Refusal):
            yield f"{call}{_remark(outcome)}"
            self._queue.remove(name)
            self._computed[name] = outcome.matched if isinstance(outcome, Row) else 0
        elif outcome.message == UNDONE:
            yield call
            yield f"cache.abort({_quoted(name)})  # {UNDONE}"
        else:
            yield f"with suppress(Exception): {call}  # refused"

    # ---- who runs ------------------------------------------------------------------------

    def prefill(self, operation: Prefill, outcome: Outcome) -> Iterator[str]:
        name = operation.request
        left = len(self._tokens[name]) - self._computed[name]
        yield from self._append(name, min(operation.num_tokens, left), outcome)
        if not isinstance(outcome, Refusal):
            yield f"cache.publish({_quoted(name)}){_remark(outcome)}"

    def decode(self, operation: Decode, outcome: Outcome) -> Iterator[str]:
        name = operation.request
        if self._computed[name] < len(self._tokens[name]):
            yield from self._append(name, 1, outcome)
        if not isinstance(outcome, Refusal):
            self._tokens[name] += (operation.token,)

    def finish(self, operation: Finish, outcome: Outcome) -> Iterator[str]:
        name = operation.request
        del self._computed[name]
        yield f"cache.end({_quoted(name)}, {_array(self._tokens[name])})"

    def abort(self, operation: Abort, outcome: Outcome) -> Iterator[str]:
        name = operation.request
        if self._computed.pop(name, None) is None:
            self._queue.remove(name)  # no cache had heard of it
        else:
            yield f"cache.abort({_quoted(name)})"

    def retract(self, operation: Retract, outcome: Outcome) -> Iterator[str]:
        name = operation.request
        del self._computed[name]
        self._queue.insert(0, name)
        yield f"cache.{'retract' if self._retracts else 'abort'}({_quoted(name)})"

    def _append(self, name: str, num_tokens: int, outcome: Outcome) -> Iterator[str]:
        stop = self._computed[name] + num_tokens
        tokens = _array(self._tokens[name][:stop])
        call = f"cache.append({_quoted(name)}, {tokens}, {num_tokens})"
        if isinstance(outcome, Refusal):
            yield f"with suppress(Exception): {call}  # refused"
        else:
            yield f"{call}{_remark(outcome) if isinstance(outcome, Allocated) else ''}"
            self._computed[name] = stop

    def _key(self, name: str) -> str:
        namespace = self._arrivals[name].namespace
        return _array(self._tokens[name]) + (f", {namespace!r}" if namespace else "")

    # ---- the cache -----------------------------------------------------------------------

    def evict(self, operation: Evict, outcome: Outcome) -> Iterator[str]:
        call = f"cache.evict({operation.num_tokens})"
        if isinstance(outcome, Refusal):
            yield f"with suppress(Exception): {call}  # refused"
        else:
            yield f"{call}{_remark(outcome)}"

    def starve(self, operation: Starve, outcome: Outcome) -> Iterator[str]:
        yield f"cache.pool.starving = {operation.count}"

    def interrupt(self, operation: Interrupt, outcome: Outcome) -> Iterator[str]:
        self._interrupting = operation.after
        yield from ()

    def reset(self, operation: Reset, outcome: Outcome) -> Iterator[str]:
        self._computed.clear()
        self._queue.clear()
        yield "cache.reset()"

    def idle(self, operation: Idle, outcome: Outcome) -> Iterator[str]:
        self._interrupting = None
        yield "# nothing runs: what is not free must be stored"
        if not isinstance(outcome, Done):
            yield f"cache.evict({self._all}){_remark(outcome)}"


CALLS: dict[type[Operation], Callable[[_Server, Any, Outcome], Iterator[str]]] = {
    Arrive: _Server.arrive,
    Schedule: _Server.schedule,
    MatchRequest: _Server.match,
    Admit: _Server.admit,
    Prefill: _Server.prefill,
    Decode: _Server.decode,
    Finish: _Server.finish,
    Abort: _Server.abort,
    Retract: _Server.retract,
    Evict: _Server.evict,
    Starve: _Server.starve,
    Interrupt: _Server.interrupt,
    Reset: _Server.reset,
    Idle: _Server.idle,
}
"""What is written about each kind of operation."""


def _goes_wrong(outcome: Outcome) -> bool:
    return isinstance(outcome, Failure | Unanswered) or outcome == Refusal(INTERRUPTED)


def _array(tokens: Tokens) -> str:
    return f'array("q", {spell_numbers(tokens)})'


def _quoted(name: str) -> str:
    return json.dumps(name)


def _remark(outcome: Outcome) -> str:
    match outcome:
        case Row(slots, matched):
            return f"  # row {spell_numbers(slots)}" if slots else f"  # {matched} matched"
        case Allocated(slots):
            return f"  # slots {spell_numbers(slots)}"
        case Returned(slots):
            return f"  # freed {spell_numbers(slots)}"
        case Refusal():
            return "  # refused"
    return ""
