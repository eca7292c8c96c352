"""The books of living requests, told what the cache has answered: whose every slot is, and what
must be in it.

What is judged, and how, is the business of the `Trial` of requests, as in a run. It calls an echo,
which answers from the call at hand, and does with the pool what the living cache did::

    living    append(r1, ...)    pool: alloc(4) -> [8, 9, 10, 11]    row [0, 1, 8, 9, 10, 11]
                   |                        |                            |
    echo      append: calls       alloc answers the same        table answers the same
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any, cast

from msgspec.structs import replace

from radixcheck.capabilities import Capabilities, PoolCapabilities
from radixcheck.checker.broken import counted, listed
from radixcheck.live.ledgers import EchoPool, Slots, named
from radixcheck.live.nodes import Node, stored_again
from radixcheck.live.reading import Seen
from radixcheck.live.tape import Called, Raised
from radixcheck.operations import (
    Abort,
    Admit,
    Arrive,
    Evict,
    Failure,
    Finish,
    MatchRequest,
    Namespace,
    Refusal,
    Reset,
    Retract,
)
from radixcheck.protocol import RequestCache
from radixcheck.requests.recorder import NOBODY, TREE
from radixcheck.requests.request import Request
from radixcheck.requests.steps import STEPS
from radixcheck.requests.trial import Trial
from radixcheck.rules import Violation

OPERATIONS = {"begin": "admit", "publish": "prefill", "end": "finish"}
"""The operation of a trace at which a method is called, where it has another name."""

ENDS = frozenset(("end", "abort", "retract"))
SIZES = ("total_size", "evictable_size")

SELDOM = 64
"""Requests that go before it is seen again whether all that nobody uses is stored: all slots that
are held are looked at for that."""

NOTHING = Seen()


class EchoCache:
    """A cache of requests that answers what the living one has answered at the call that is set as
    `call`, and does with the pool what that one did.

    Args:
        capabilities: without sizes, as a trial must not ask for any in the midst of a call.
        pool, rows: what the pools promise; None where there is no pool of rows.
    """

    def __init__(
        self, capabilities: Capabilities, pool: PoolCapabilities, rows: PoolCapabilities | None
    ) -> None:
        self.capabilities = replace(
            capabilities, evictable_size="absent", total_size="absent", reset="present"
        )
        self.pool: Any = EchoPool(pool)
        self.call: Called = ("", (), None, None)
        self.play: Callable[[Called], None] = lambda part: None
        """Told what was called of the pool."""
        if rows is not None:
            self.row_pool = SimpleNamespace(
                capabilities=rows, available_size=lambda: self.seen.rows
            )

    @property
    def seen(self) -> Seen:
        """What was looked at after the call."""
        seen: Seen | None = self.call[3]
        return NOTHING if seen is None else seen

    def _answer(self, *_arguments: Any) -> Any:
        for part in self.seen.parts:
            self.play(part)
        answer = self.call[2]
        if isinstance(answer, Raised):
            raise answer.error
        return answer

    match = begin = append = publish = end = abort = retract = evict = reset = _answer

    def table(self, _request: str) -> Any:
        """Answer the row that was."""
        if isinstance(self.seen.row, Raised):
            raise self.seen.row.error
        return self.seen.row


class RequestsFollower:
    """Follows a cache of requests that is empty, and whose pool is full.

    Args:
        can, pool, rows: as of `EchoCache`.
    """

    def __init__(
        self, can: Capabilities, pool: PoolCapabilities, rows: PoolCapabilities | None
    ) -> None:
        self._echo = echo = EchoCache(can, pool, rows)
        self.trial = trial = Trial(cast(RequestCache, echo))
        self._slots = Slots(trial.recorder, trial.breaks, caller_is_judged=True)
        echo.play = self._slots.play
        self._stored = Stored()
        self._left = 0
        """Requests that have gone since the last look at what is stored."""
        self._steps: dict[str, Callable[..., Any]] = {
            "match": self._match,
            "begin": self._begin,
            "append": self._append,
            "publish": self._publish,
            "end": self._end,
            "abort": lambda name: self._leave(name, Abort(name)),
            "retract": self._retract,
            "evict": lambda num_tokens: STEPS[Evict](trial, Evict(num_tokens)),
            "reset": lambda: STEPS[Reset](trial, Reset()),
        }

    def follow(self, call: Called) -> Violation | None:
        """Judge one call, count what is free, and where nobody runs, what is stored."""
        trial, (kind, given, answer, _) = self.trial, call
        operation = self._operation(kind, given)
        self._echo.call = call
        if (step := self._steps.get(kind)) is None:  # the pool, called by somebody else
            trial.recorder.serve(None, kind)
            self._slots.play(call)
        else:
            step(*given)
        if not trial.broken and call[3] is not None:
            self._slots.compare(self._echo.seen.free, refused=isinstance(answer, Raised))
            self._compare(kind, self._echo.seen)
        return named(trial.broken, operation)

    def _operation(self, kind: str, given: tuple[Any, ...]) -> str:
        """Name the operation of a trace that makes this call."""
        if kind == "append":
            request = self.trial.running.get(given[0])
            return "prefill" if request and request.computed < request.to_prefill else "decode"
        return OPERATIONS.get(kind, kind)

    # ---- what a request does -------------------------------------------------------------

    def _match(self, name: str, tokens: Any, namespace: Namespace, _fresh: bool) -> None:
        trial = self.trial
        trial.queue.append(Request(Arrive(name, tokens, 0, namespace)))
        STEPS[MatchRequest](trial, MatchRequest(name))
        trial.queue.clear()

    def _begin(self, name: str, tokens: Any, namespace: Namespace, _fresh: bool) -> None:
        trial = self.trial
        trial.queue.append(request := Request(Arrive(name, tokens, 0, namespace)))
        STEPS[Admit](trial, Admit(name))
        trial.queue.clear()
        self._stored.used(request, request.lent)

    def _append(self, name: str, start: int, tail: Any) -> None:
        """See the slots of the next tokens, as a trial does that computes them."""
        trial, request = self.trial, self.trial.running.get(name)
        if request is None:
            return
        for token in tail[max(0, len(request.tokens) - start) :]:
            request.sample(token)
        start, stop = request.computed, request.computed + len(tail)
        if isinstance(trial.call(request, "append"), Refusal | Failure):
            self._kept(request)
            return
        if trial.recorder.freed:
            trial.check_surplus(trial.recorder.taken - (trial.recorder.before or 0))
        row = trial.read_row(request, stop)
        if row is None or not trial.may_keep(request, row[:start]):
            return
        if trial.may_write(request, new := row[start:]):
            request.row = row
            trial.content.write(new, request.tags[start:stop])

    def _kept(self, request: Request) -> None:
        """See that a request that was refused has what it had, and no more."""
        trial, held = self.trial, self.trial.recorder.owned
        if len(request.own) > held:
            told = f"{counted(len(request.own) - held, 'slot')} more than before"
            trial.breaks("refused-with-effect", f"{request.name} holds what it held", told)
        row = trial.read_row(request, request.computed)
        if row is not None and row != request.row:
            trial.breaks("refused-with-effect", listed(request.row), listed(row), "the row changed")

    def _publish(self, name: str) -> None:
        """See the row that names what is stored, as a trial does between two chunks."""
        trial, request = self.trial, self.trial.running.get(name)
        if request is None or isinstance(trial.call(request, "publish"), Failure):
            return
        row = trial.read_row(request, request.computed)
        if row is None or not trial.may_read(request, row):
            return
        aligned = trial.aligned(request.computed)
        self._stored.add(request, aligned)
        trial.adopt(request, aligned, row)
        request.row, request.lent = row, aligned

    def _end(self, name: str, _rest: Any) -> None:
        if (request := self.trial.running.get(name)) is not None:
            request.to_prefill = min(request.to_prefill, request.computed)
        self._leave(name, Finish(name))

    def _retract(self, name: str) -> None:
        self._leave(name, Retract(name))
        self.trial.queue.clear()

    def _leave(self, name: str, operation: Finish | Abort | Retract) -> None:
        if (request := self.trial.running.get(name)) is not None:
            self._stored.add(request, self.trial.aligned(request.computed))
        STEPS[type(operation)](self.trial, operation)

    # ---- what is left --------------------------------------------------------------------

    def _compare(self, kind: str, seen: Seen) -> None:
        """See that what nobody uses is stored, if the cache can tell how much it stores."""
        trial = self.trial
        self._left += kind in ENDS
        if not trial.running:
            self._compare_idle(seen, trial.recorder.ledger.owner)
        elif self._left >= SELDOM:
            self._left = 0
            self._compare_busy(seen, trial.recorder.ledger.owner)

    def _compare_idle(self, seen: Seen, held: Mapping[int, Any]) -> None:
        """Where nobody runs, what is in use is what the cache says it stores."""
        for name, told in zip(SIZES, seen.sizes, strict=True):
            if told not in (None, len(held)) and NOBODY not in held.values():
                rule = "leaked-slot" if told < len(held) else "size-drift"
                expected = f"{name}() {len(held)} while nobody runs, as many as are in use"
                self.trial.breaks(rule, expected, f"{name}() {told}")
                return
        if seen.rows is not None:
            self.trial.check_rows_free()

    def _compare_busy(self, seen: Seen, held: Mapping[int, Any]) -> None:
        """What is the tree's and in nobody's row is stored, and no lock covers it where a lock
        covers no more than was matched."""
        in_rows = set[int]().union(*(each.row for each in self.trial.running.values()))
        loose = sum(owner == TREE and slot not in in_rows for slot, owner in held.items())
        total, evictable = seen.sizes
        splits = self._echo.capabilities.match_splits
        told = evictable if splits and evictable is not None else total
        if told is not None and told < loose:
            expected = f"{counted(loose)} stored, whose slots are in use and in nobody's row"
            self.trial.breaks("leaked-slot", expected, f"{told}")

    def again(self) -> list[Called]:
        """Let those run who run, as the pool has room for them now, and store what is stored, the
        least recently used first."""
        trial, held = self.trial, self.trial.recorder.ledger.owner
        running = [call for each in trial.running.values() for call in self._running(each)]
        trial.known_lineage()  # or what it has put off to sort would grow as long as it is watched
        alive = {trial.content.held(slot) for slot, owner in held.items() if owner == TREE}
        return [*running, *stored_again(self._stored.nodes(alive))]

    def _running(self, request: Request) -> Iterator[Called]:
        """Yield the calls after which a request has computed what it has."""
        tokens, prompt = tuple(request.tokens), request.to_prefill
        start = min(request.lent, self.trial.aligned(prompt - 1))
        yield "begin", (request.name, tokens[:prompt], request.namespace, True), start, None
        if request.computed > start:
            yield "append", (request.name, start, tokens[start : request.computed]), None, None


class Stored:
    """What was ever stored, token by token, by the tag that its slot holds."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[int | None, int, Namespace]] = {}
        """By its tag: the tag of the token before, the token, and the namespace."""
        self._used: dict[int, int] = {}
        """When a prefix was last used that ends with this tag."""
        self._time = 0

    def used(self, request: Request, end: int) -> None:
        """The first `end` tokens of a request were matched, or stored."""
        self._time += 1
        if end:
            self._used[request.tags[end - 1]] = self._time

    def add(self, request: Request, end: int) -> None:
        """The first `end` tokens of a request may be stored now."""
        tags, tokens, known = request.tags, request.tokens, self._known
        for place in range(min(request.lent, end), end):
            above = tags[place - 1] if place else None
            known[tags[place]] = above, tokens[place], request.namespace
        self.used(request, end)

    def nodes(self, alive: Iterable[int]) -> list[Node]:
        """List what is still there, parents first; all else is forgotten."""
        self._forget(set(alive))
        below: dict[int | None, list[int]] = {}
        for tag, (above, _, _) in self._known.items():
            below.setdefault(above, []).append(tag)
        found: list[Node] = []
        stack: list[tuple[int, int | None]] = [(tag, None) for tag in below.get(None, ())]
        while stack:
            tag, parent = stack.pop()
            run = [tag]
            while len(below.get(run[-1], ())) == 1 and run[-1] not in self._used:
                run += below[run[-1]]
            tokens, namespace = [self._known[each][1] for each in run], self._known[tag][2]
            used = self._used.get(run[-1], 0)
            found.append(Node(tokens, parent, used=used, namespace=namespace))
            stack += [(each, len(found) - 1) for each in below.get(run[-1], ())]
        return found

    def _forget(self, alive: set[int]) -> None:
        """Forget what is stored no more; when that was used, what it hung on was used."""
        for tag in [tag for tag in reversed(self._known) if tag not in alive]:
            above, used = self._known.pop(tag)[0], self._used.pop(tag, 0)
            if above is not None and used:
                self._used[above] = max(used, self._used.get(above, 0))
