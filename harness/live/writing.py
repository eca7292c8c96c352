"""From calls to the operations of a pool and of requests.

A server calls as it likes, and a trace has its own pace. What a pool is given back is told by what
it was handed out with::

    call         alloc(4) -> [8, 9, 10, 11]    free([9, 10])
    operation    alloc(4) as h1                free h1 [1, 3)

What a request samples is known only when its slot is taken, or at the end. So that every slot is
taken when it was, the last token is written down before it is known, and put in afterwards::

    call         append([5, 6], 2)   append([5, 6, 7], 1)     append([5, 6, 7, 8], 1)   end([... 9])
    operation    prefill             decode 7, decode ?       decode ?                  finish
                                                     '- 8            '- 9
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, Protocol

from msgspec.structs import replace

from radixcheck.capabilities import PoolCapabilities
from radixcheck.live.tape import Called, Raised
from radixcheck.operations import (
    Abort,
    AddRefs,
    Admit,
    Alloc,
    AnyOperation,
    Arrive,
    Decode,
    Evict,
    Finish,
    Free,
    MatchRequest,
    Namespace,
    Prefill,
    Reset,
    Retract,
    Tokens,
)


class Writer(Protocol):
    """Writes calls as operations, one after the other."""

    changed: dict[int, AnyOperation]
    """By their place, operations that were written before and are otherwise now."""

    @property
    def misuse(self) -> bool:
        """Whether a call was one that no caller should make."""
        ...

    def write(self, called: Called) -> list[AnyOperation]:
        """Return the operations of one call."""
        ...

    def open_places(self) -> set[int]:
        """Return the places whose operations may still change."""
        ...


def written(writer: Writer, calls: Iterable[Called]) -> list[AnyOperation]:
    """Write calls, all that is known of them put in."""
    operations = [each for call in calls for each in writer.write(call)]
    for place, operation in writer.changed.items():
        operations[place] = operation
    return operations


# ------------------------------------------------------------------------------------- a pool


class PoolWriter:
    """Writes the calls of a pool.

    Args:
        can: what the pool promises.
    """

    def __init__(self, can: PoolCapabilities) -> None:
        self.misuse = False
        self.changed: dict[int, AnyOperation] = {}
        self._range = range(can.reserved, can.end)
        self._places: dict[int, tuple[str, int, int]] = {}
        """By slot, of which alloc it came last, at which place, and of how many."""
        self._held: Counter[int] = Counter()
        self._count = 0

    def open_places(self) -> set[int]:
        """Return none: all is known at once."""
        return set()

    def write(self, called: Called) -> list[AnyOperation]:
        """Return the operations of one call: several, if it names slots of several allocs."""
        kind, given, answer, _ = called
        match kind:
            case "alloc":
                return [self._alloc(given[0], answer)]
            case "free":
                return self._free(given[0], refused=isinstance(answer, Raised))
            case "add_refs" if not isinstance(answer, Raised):
                return list(self._add_refs(given[0]))
            case "reset":
                self._held.clear()
                return [Reset()]
        return []

    def _alloc(self, num_tokens: int, answer: Any) -> AnyOperation:
        if answer is None or isinstance(answer, Raised):
            return Alloc(num_tokens)
        self._count += 1
        name, length = f"h{self._count}", len(answer)
        for place, slot in enumerate(answer):
            self._places[slot] = name, place, length
            self._held[slot] = 1
        return Alloc(num_tokens, name)

    def _free(self, slots: Sequence[int], *, refused: bool) -> list[AnyOperation]:
        """Write what is held, if it came back, and what is not held apart from that."""
        times = Counter(slots)
        bad = Counter({slot: n for slot, n in times.items() if n > self._held[slot]})
        good = Counter[int]() if refused else times - bad
        self._held.subtract(good)
        nowhere = [slot for slot in bad if slot not in self._range]
        self.misuse |= any(slot in self._places for slot in bad) or bool(nowhere)
        runs = [*self._runs(good), *self._runs(bad)]
        return [*(Free(*run) for run in runs), *([Free()] if nowhere else [])]

    def _add_refs(self, slots: Sequence[int]) -> Iterator[AnyOperation]:
        self._held.update(slots)
        for name, start, stop, times in self._runs(Counter(slots)):
            yield from [AddRefs(name, start, stop)] * times

    def _runs(self, slots: Counter[int]) -> Iterator[tuple[str, int, int | None, int]]:
        """Yield runs of slots that one alloc has answered one after the other: its name, where they
        begin and end, and how often each is listed."""
        by_alloc: dict[str, list[tuple[str, int, int, int]]] = {}
        for slot, times in slots.items():
            if (place := self._places.get(slot)) is not None:  # else it was held before all this
                by_alloc.setdefault(place[0], []).append((*place, times))
        for places in by_alloc.values():
            places.sort()
            for _, group in groupby(enumerate(places), lambda one: (one[1][1] - one[0], one[1][3])):
                run = [each for _, each in group]
                name, start, length, times = run[0]
                stop = start + len(run)
                yield name, start, None if (start, stop) == (0, length) else stop, times


# ----------------------------------------------------------------------------------- requests


class _Request:
    """A request on its way through the trace."""

    __slots__ = ("arrived", "computed", "decode", "generated", "name", "prompt", "sampled")

    def __init__(self, name: str, arrived: tuple[int, Arrive]) -> None:
        self.name = name
        self.arrived = arrived
        """The place of its arrival, and that."""
        self.prompt = len(arrived[1].tokens)
        """Tokens that it began with last."""
        self.computed = 0
        self.sampled = 0
        """Tokens sampled since it began last."""
        self.generated = 0
        """... and since it arrived."""
        self.decode: int | None = None
        """The place of its last decode, if what that has sampled is not known yet."""


class RequestsWriter:
    """Writes the calls of a cache of requests."""

    def __init__(self) -> None:
        self.misuse = False
        self.changed: dict[int, AnyOperation] = {}
        self._requests: dict[str, _Request] = {}
        self._said: list[AnyOperation] = []
        self._count = 0

    def open_places(self) -> set[int]:
        """Return the places of those who run or wait."""
        requests = self._requests.values()
        decodes = {each.decode for each in requests if each.decode is not None}
        return decodes | {each.arrived[0] for each in requests}

    def write(self, called: Called) -> list[AnyOperation]:
        """Return the operations of one call."""
        kind, given, answer, _ = called
        self._said = []
        match kind:
            case "match":
                self._say(MatchRequest(self._known(*given).name))
            case "begin":
                self._begin(self._known(*given), given[1], answer)
            case "insert":
                self._store(given[0], given[2])
            case "evict":
                self._say(Evict(*given))
            case "reset":
                self._requests.clear()
                self._say(Reset())
            case "append" | "end" | "abort" | "retract":
                self._go_on(kind, given, refused=isinstance(answer, Raised))
        return self._said

    def _go_on(self, kind: str, given: tuple[Any, ...], *, refused: bool) -> None:
        if (request := self._requests.get(given[0])) is None:
            return
        match kind:
            case "append":
                self._append(request, *given[1:], refused=refused)
            case "end":
                self._end(request, given[1])
            case "retract":
                self._retract(request)
            case _:
                del self._requests[request.name]
                self._say(Abort(request.name))

    def _say(self, operation: AnyOperation) -> int:
        self._said.append(operation)
        self._count += 1
        return self._count - 1

    def _known(self, name: str, tokens: Tokens, namespace: Namespace, fresh: bool) -> _Request:
        """Find a request, or let it arrive."""
        if not fresh and name in self._requests:
            return self._requests[name]
        arrive = Arrive(name, tokens, 0, namespace)
        request = self._requests[name] = _Request(name, (self._say(arrive), arrive))
        return request

    def _begin(self, request: _Request, tokens: Tokens, answer: Any) -> None:
        if request.decode is not None:
            self._put_in(request, tokens[-1])
        request.prompt, request.sampled = len(tokens), 0
        request.computed = 0 if isinstance(answer, Raised) else answer
        self._say(Admit(request.name))

    def _store(self, tokens: Sequence[int], namespace: Namespace) -> None:
        """A request whose only purpose is that its prompt is stored."""
        name = f"s{self._count}"
        self._say(Arrive(name, tuple(tokens), 0, namespace))
        self._say(Admit(name))
        self._say(Prefill(name))
        self._say(Finish(name))

    def _append(self, request: _Request, start: int, tail: Tokens, *, refused: bool) -> None:
        prompt, stop = request.prompt, start + len(tail)
        if start < min(stop, prompt):
            chunk = min(stop, prompt) - start
            name = request.name
            self._say(Prefill(name) if stop >= prompt else Prefill(name, chunk))
        for place in range(max(start, prompt), stop):
            self._sampled(request, place - prompt, tail[place - start])
            if refused:
                self._try_to_decode(request)
                return
            self._decode(request)
        if not refused:
            request.computed = stop

    def _sampled(self, request: _Request, number: int, token: int) -> None:
        """This is the token that a request has sampled so many tokens after the first."""
        if number == request.sampled:
            self._decode(request)
        if number == request.sampled - 1 and request.decode is not None:
            self._put_in(request, token)

    def _decode(self, request: _Request) -> None:
        """Sample a token that is not known yet; the one before gets its slot."""
        request.decode = self._try_to_decode(request)
        request.sampled += 1
        request.generated += 1

    def _try_to_decode(self, request: _Request) -> int:
        """Do the same, and be refused perhaps: it must be allowed one more token in any case."""
        place, arrive = request.arrived
        self.changed[place] = replace(arrive, max_new_tokens=request.generated + 1)
        return self._say(Decode(request.name))

    def _put_in(self, request: _Request, token: int) -> None:
        assert request.decode is not None
        self.changed[request.decode] = Decode(request.name, token)
        request.decode = None

    def _retract(self, request: _Request) -> None:
        """Put a request back. If all of it was computed, it has sampled one token more."""
        if request.prompt + request.sampled == request.computed:
            self._decode(request)
        self._say(Retract(request.name))

    def _end(self, request: _Request, rest: Tokens) -> None:
        """A request is done, and the last that it has sampled is known."""
        if request.computed < request.prompt:
            self._say(Prefill(request.name))
        elif rest:
            self._sampled(request, request.computed - request.prompt, rest[0])
        del self._requests[request.name]
        self._say(Finish(request.name))
