"""Answers in advance: the verdict is that of single calls, and most calls travel together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import pytest
from msgspec import structs

from radixcheck.arena import arenas
from radixcheck.buffers import read_slots
from radixcheck.capabilities import Capabilities, override
from radixcheck.checker.calls import Calls
from radixcheck.drivers.swarm import proposals
from radixcheck.operations import Audit, Evict, IncRef, Insert, MatchPrefix
from radixcheck.protocol import Crashed, Hung, Match, Refused
from radixcheck.registry import resolve
from radixcheck.rules import Violation
from radixcheck.targets.honest import HONEST
from radixcheck.targets.liars import LIARS
from radixcheck.targets.messages import METHODS, SIZES
from radixcheck.targets.radix_paged import RadixPaged
from radixcheck.trace import Config, Trace
from radixcheck.verdict import check

pytestmark = pytest.mark.slow

Open = Callable[[Config, Any], Any]


class Box:
    """A handle that exists before the match that it names."""

    inside: Any = None


class Call(NamedTuple):
    method: str
    arguments: tuple[Any, ...]
    handle: Box
    now: float


class Reply(NamedTuple):
    value: Any
    error: Callable[[], Exception] | None
    sizes: dict[str, int]


class Batching:
    """A Python target that takes several calls at once, as one in another process does.

    Args:
        make: makes the target, from a clock that stands where it stood when a call was prepared.
        trips: gets the methods of each batch.
    """

    def __init__(
        self,
        make: Callable[[Callable[[], float]], Any],
        clock: Callable[[], float],
        trips: list[list[str]],
        most_calls: int = 64,
    ) -> None:
        self._now, self._clock = 0.0, clock
        target = make(lambda: self._now)
        self.capabilities: Capabilities = target.capabilities
        self.most_calls = most_calls
        self._target, self._calls, self._trips = target, Calls(target), trips
        self._sizes: dict[str, int] = {}
        for name in METHODS:
            if hasattr(target, name):
                setattr(self, name, self._single(name))

    def _single(self, method: str) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            if method in self._sizes:
                return self._sizes[method]
            asked = self.prepare(method, *arguments)
            (reply,) = self.send([asked])
            if reply.error is not None:
                raise reply.error()
            if method == "match_prefix":
                length, slots = reply.value
                return Match(length, slots, asked.handle)
            return reply.value

        return call

    def prepare(self, method: str, *arguments: Any) -> Call:
        copies = tuple(each if isinstance(each, Box) else deepcopy(each) for each in arguments)
        return Call(method, copies, Box(), self._clock())

    def send(self, calls: Sequence[Call]) -> list[Reply]:
        self._trips.append([call.method for call in calls])
        replies = list(map(self._reply, calls))
        self._sizes = replies[-1].sizes
        return replies

    def _reply(self, call: Call) -> Reply:
        self._now = call.now
        try:
            return Reply(self._answer(call), None, self._told())
        except Crashed:
            raise
        except Exception as error:
            return Reply(None, partial(type(error), *error.args), self._told())

    def _answer(self, call: Call) -> Any:
        match call.method:
            case "match_prefix":
                length, slots, call.handle.inside = self._calls.match(*call.arguments)
                return length, read_slots(slots)
            case "insert":
                return self._calls.insert(*call.arguments)
            case "inc_ref" | "dec_ref":
                return getattr(self._target, call.method)(call.arguments[0].inside)
        return getattr(self._target, call.method)(*call.arguments)

    def _told(self) -> dict[str, int]:
        told = [name for name in SIZES if getattr(self.capabilities, name) == "present"]
        return {name: getattr(self._target, name)() for name in told if hasattr(self, name)}


class Sent(list[list[str]]):
    """The batches that a target got, and how to open such a target."""

    def opener(self, factory: Callable[..., Any], most_calls: int = 64) -> Open:
        def open_target(config: Config, clock: Any) -> Any:
            source = resolve(f"{factory.__module__}:{factory.__qualname__}")
            return Batching(lambda now: source.open(config, now), clock, self, most_calls)

        return open_target


@pytest.fixture
def sent() -> Sent:
    return Sent()


def traces(factory: Callable[..., Any], number: int) -> Iterator[Trace]:
    """Generate traces for a target."""
    source = resolve(f"{factory.__module__}:{factory.__qualname__}")
    return islice(proposals(1, arenas(source), misuse=False), number)


def verdicts(open_target: Open, proposed: Iterator[Trace]) -> list[Violation | None]:
    """Judge a target by each trace; where its errors come from is left out."""
    found = [check(open_target, trace, thorough=False).violation for trace in proposed]
    return [
        structs.replace(each, detail="") if each and each.rule == "unexpected-error" else each
        for each in found
    ]


# ---------------------------------------------------------------------------------- the verdict

STEADY = sorted(LIARS.keys() - {"nondeterminism"})


@pytest.mark.parametrize("rule", STEADY)
def test_batches_change_no_verdict_about_a_liar(rule: str, sent: Sent) -> None:
    liar = LIARS[rule]
    expected = verdicts(sent.opener(liar, most_calls=1), traces(liar, 30))
    assert expected == verdicts(sent.opener(liar), traces(liar, 30))


@pytest.mark.parametrize("name", sorted(HONEST))
def test_batches_accuse_no_near_miss(name: str, sent: Sent) -> None:
    honest = HONEST[name]
    assert {None} == set(verdicts(sent.opener(honest), traces(honest, 16)))


def test_most_liars_are_judged_in_batches() -> None:
    batched = []
    for rule in STEADY:
        sent = Sent()
        verdicts(sent.opener(LIARS[rule]), traces(LIARS[rule], 3))
        batched.append(max(map(len, sent)) > 4)
    assert sum(batched) >= len(STEADY) - 3


class RefusesThird(RadixPaged):
    """Refuses its third insert, and lies in the next match if told to."""

    lies = False

    def insert(self, *arguments: Any, **keywords: Any) -> int:
        self.inserts = getattr(self, "inserts", 0) + 1
        if self.inserts == 3:
            raise Refused("no room")
        return super().insert(*arguments, **keywords)


class LiesOnce(RadixPaged):
    """The first of its caches lies about its last match; no other ever does."""

    caches = 0

    def __init__(self, **keywords: Any) -> None:
        LiesOnce.caches += 1
        self.first = LiesOnce.caches == 1
        super().__init__(**keywords)

    def match_prefix(self, tokens: Sequence[int], namespace: tuple[str, ...] = ()) -> Match:
        found = super().match_prefix(tokens, namespace)
        return found._replace(length=0, slots=[]) if self.first and len(tokens) == 3 else found


def local(sent: Sent, target: Callable[..., Any]) -> Open:
    """Open a target that no spec names."""
    return lambda config, clock: Batching(lambda now: target(**config), clock, sent)


KEYS = (Insert((1, 2)), Insert((3, 4)), Insert((1, 2, 3)), MatchPrefix((1, 2, 3)), Audit())


def test_a_refusal_is_judged_again_one_by_one(sent: Sent) -> None:
    trace = Trace(KEYS)
    assert None is check(local(sent, RefusesThird), trace, thorough=False).violation
    first, *others = [len(batch) for batch in sent if "insert" in batch or "match_prefix" in batch]
    assert (2, {1}) == (first, set(others[1:]))


@pytest.mark.parametrize("thorough", [True, False])
def test_a_lie_that_is_told_only_once_is_not_lost(sent: Sent, thorough: bool) -> None:
    LiesOnce.caches = 0
    violation = check(local(sent, LiesOnce), Trace(KEYS), thorough=thorough).violation
    assert violation is not None
    assert ("missed-prefix", 3) == (violation.rule, violation.step)


class Silent(RadixPaged):
    """Answers nothing to a lock, though it promises the change."""

    def inc_ref(self, handle: Any) -> Any:
        super().inc_ref(handle)


def test_no_answer_to_a_lock_is_seen_in_a_batch(sent: Sent) -> None:
    locked = Trace((Insert((1, 2)), MatchPrefix((1, 2), handle="h"), IncRef("h"), Evict(1)))
    violation = check(local(sent, Silent), locked, thorough=False).violation
    assert violation is not None
    assert ("delta-mismatch", "None") == (violation.rule, violation.actual)
    assert ["match_prefix", "inc_ref", "evict"] in sent


def test_what_has_more_than_one_right_answer_is_asked_one_by_one(sent: Sent) -> None:
    promises: list[dict[str, object]] = [
        {"match_splits": False},
        {"closed": False},
        {"duplicates": "both-kept"},
    ]
    for promise in promises:
        can = override(Capabilities(resolution_s=0.0), promise)

        def opened(config: Config, clock: Any, can: Capabilities = can) -> Any:
            target = Batching(lambda now: RadixPaged(), clock, sent)
            target.capabilities = can
            return target

        check(opened, Trace((Insert((1,)), MatchPrefix((1,)), Evict(1))))
    assert {1} == set(map(len, sent))


def test_a_cache_that_reads_the_time_is_asked_one_by_one(sent: Sent) -> None:
    def opened(config: Config, clock: Any) -> Any:
        target = Batching(lambda now: RadixPaged(), clock, sent)
        target.capabilities = Capabilities(resolution_s=None)
        return target

    check(opened, Trace((Insert((1,)), MatchPrefix((1,)), Evict(1))))
    assert {1} == set(map(len, sent))


# ------------------------------------------------------------------------------------ the trips


def test_a_batch_ends_where_only_the_target_can_answer(sent: Sent) -> None:
    operations = (
        Insert((1, 2)),
        MatchPrefix((1, 2), handle="h"),
        IncRef("h"),
        Evict(1),
        Insert((3,)),
    )
    check(local(sent, RadixPaged), Trace(operations), thorough=False)
    assert ["insert", "dump"] == sent[0]  # an audit looks at the first operation
    assert ["match_prefix", "inc_ref", "evict"] == sent[1]
    assert ["insert"] == sent[2]


def test_a_batch_holds_no_more_than_is_wanted(sent: Sent) -> None:
    check(sent.opener(RadixPaged, most_calls=5), Trace(KEYS * 5), thorough=False)
    assert 5 == max(map(len, sent))


def test_what_was_idle_while_others_were_evicted_is_asked_for(sent: Sent) -> None:
    operations = (Insert((1,)), MatchPrefix((1,), handle="h"), Evict(0), IncRef("h"), Insert((2,)))
    check(local(sent, RadixPaged), Trace(operations), thorough=False)
    assert ["inc_ref"] == sent[2]


# ----------------------------------------------------------------------------------- the deaths


class Dies(RadixPaged):
    """Dies at each match of three tokens, or only in its first cache."""

    caches = 0
    always = True
    death: Exception = Crashed("died of SIGSEGV", "stack")

    def __init__(self, **keywords: Any) -> None:
        Dies.caches += 1
        self.deadly = Dies.always or Dies.caches == 1
        super().__init__(**keywords)

    def match_prefix(self, tokens: Sequence[int], namespace: tuple[str, ...] = ()) -> Match:
        if self.deadly and len(tokens) == 3:
            raise Dies.death
        return super().match_prefix(tokens, namespace)


@pytest.fixture
def dies(monkeypatch: pytest.MonkeyPatch) -> type[Dies]:
    monkeypatch.setattr(Dies, "caches", 0)
    return Dies


def test_a_death_in_a_batch_is_found_where_it_happens(sent: Sent, dies: type[Dies]) -> None:
    violation = check(local(sent, dies), Trace(KEYS)).violation
    assert violation is not None
    assert ("crash", "match_prefix", 3) == (violation.rule, violation.operation, violation.step)
    assert ("died of SIGSEGV", "stack") == (violation.actual, violation.detail)


@pytest.mark.parametrize(("rule", "death"), [("crash", Crashed), ("hang", Hung)])
def test_a_death_that_does_not_come_back_is_told_where_its_batch_ended(
    sent: Sent, dies: type[Dies], monkeypatch: pytest.MonkeyPatch, rule: str, death: type[Crashed]
) -> None:
    monkeypatch.setattr(Dies, "always", False)
    monkeypatch.setattr(Dies, "death", death("went away"))
    trace = Trace((*KEYS[:4], Evict(1), MatchPrefix((1,))))
    violation = check(local(sent, dies), trace, thorough=False).violation
    assert violation is not None
    assert (rule, "evict", 4) == (violation.rule, violation.operation, violation.step)
    told = f"went away in a batch of {len(sent[1])} calls, and not when they came one by one"
    assert told == violation.actual


@pytest.mark.parametrize("death", [Crashed, Hung])
def test_a_death_in_the_last_batch_of_a_trace_is_told(
    sent: Sent, dies: type[Dies], monkeypatch: pytest.MonkeyPatch, death: type[Crashed]
) -> None:
    monkeypatch.setattr(Dies, "always", False)
    monkeypatch.setattr(Dies, "death", death("went away"))
    violation = check(local(sent, dies), Trace(KEYS[:4]), thorough=False).violation
    assert violation is not None
    assert 3 == violation.step


def test_a_hang_in_a_batch_is_found_where_it_happens(
    sent: Sent, dies: type[Dies], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Dies, "death", Hung("gave no answer within 1 s"))
    violation = check(local(sent, dies), Trace(KEYS)).violation
    assert violation is not None
    assert ("hang", "match_prefix", 3) == (violation.rule, violation.operation, violation.step)
    assert "gave no answer within 1 s" == violation.actual
