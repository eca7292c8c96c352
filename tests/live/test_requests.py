"""A cache of requests, recorded and watched: whole requests, and whose every slot is."""

from __future__ import annotations

import random
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import radixcheck
from radixcheck import trace as traces
from radixcheck.capabilities import Capabilities
from radixcheck.clock import Clock
from radixcheck.live import Call, books
from radixcheck.operations import (
    Abort,
    Admit,
    AnyOperation,
    Arrive,
    Audit,
    Decode,
    Finish,
    MatchRequest,
    Prefill,
    Retract,
)
from radixcheck.protocol import Refused
from radixcheck.requests import Checker, generate
from radixcheck.rules import Violation
from radixcheck.shrink import shrink
from radixcheck.targets.bookkeeper import RadixRequests
from radixcheck.targets.request_honest import REQUEST_HONEST, HasRows
from radixcheck.targets.request_liars import REQUEST_LIARS
from radixcheck.trace import Config, Trace
from radixcheck.verdict import Verdict, check

Make = Callable[..., Any]

CONFIGS: list[Config] = [
    {"page_size": 1, "capacity": 64},
    {"page_size": 4, "capacity": 64},
    {"page_size": 1, "capacity": 16},
]
OURS = frozenset(("audit", "idle", "interrupt", "starve"))
"""What a run does with a cache, and no server."""


class LosesASlot(RadixRequests):
    """Forgets one slot of an aborted request of which more than two are its own."""

    def abort(self, request: str) -> None:
        """Free all but one."""
        books = self._books[request]
        if books.computed - books.owned > 2:
            books.slots.pop()
        super().abort(request)


def verdict(make: Make, trace: Trace) -> Verdict:
    """Judge a fresh cache by a trace."""
    return check(lambda config, clock: make(**config), trace)


def broken(make: Make, trace: Trace) -> tuple[str, str]:
    """Name the rule that a fresh cache breaks under a trace, and where; empty if none."""
    violation = verdict(make, trace).violation
    return violation.signature if violation else ("", "")


def serve(
    cache: Any, seed: int, config: Config, *, leaving_out: frozenset[str] = OURS
) -> Violation | None:
    """Call a cache as a run would, up to the first violation."""
    caller = Checker(cache, Clock())
    for operation in generate(seed, cache.capabilities, 150, capacity=int(config["capacity"])):
        if operation.kind not in leaving_out and (violation := caller.apply(operation)):
            return violation
    return None


def prompt(*tokens: int) -> array[int]:
    """Return a prompt."""
    return array("q", tokens)


class Server:
    """Serves two requests at a time: takes slots for both, and then stores what is computed of
    both. So the calls of one lie between those of the other."""

    def __init__(self, cache: Any, seed: int = 1) -> None:
        self.cache = cache
        self.rng = random.Random(seed)
        self.running: dict[str, list[int]] = {}
        self.count = 0

    def round(self) -> None:
        """Let two requests in, let all who run sample a token, and let some go."""
        begun = [request for _ in range(2) if (request := self.begin())]
        for request in begun:
            self.cache.publish(request)
            self.running[request].append(self.token())
        for request in list(self.running):
            if self.take(request, 1):
                self.running[request].append(self.token())
                self.leave(request)

    def begin(self) -> str:
        """Begin a request and take the slots of its prompt, unless the pool is full."""
        self.count += 1
        request, tokens = f"secret {self.count}", [self.token() for _ in range(5)]
        try:
            matched = self.cache.begin(request, prompt(*tokens))
        except Refused:
            return ""
        self.running[request] = tokens
        return request if self.take(request, len(tokens) - matched) else ""

    def take(self, request: str, num_tokens: int) -> bool:
        """Take slots, or abort."""
        try:
            self.cache.append(request, prompt(*self.running[request]), num_tokens)
        except Refused:
            self.cache.abort(request)
            del self.running[request]
            return False
        return True

    def leave(self, request: str) -> None:
        """Let one in three go."""
        if (chance := self.rng.random()) < 0.33:
            tokens = prompt(*self.running.pop(request))
            if chance < 0.05:
                self.cache.abort(request)
            else:
                self.cache.end(request, tokens)

    def token(self) -> int:
        """Draw one of two tokens that nobody may read."""
        return 70_000 + self.rng.randrange(2)


def busy(cache: Any) -> None:
    """Serve for a hundred rounds."""
    server = Server(cache)
    for _ in range(100):
        server.round()


def operations(
    use: Callable[[Any], None], cache: Any = None, last: int = 1_000
) -> tuple[AnyOperation, ...]:
    """Return what is recorded of `use`, tokens as they are, without the audit at the end."""
    cache = cache or RadixRequests()
    with radixcheck.record(cache, last=last, keep_tokens=True) as recording:
        use(cache)
    *found, audit = recording.trace().operations
    assert audit == Audit()
    return tuple(found)


# ------------------------------------------------------------------------------- recorded


@pytest.mark.parametrize("last", [10_000, 60])
def test_a_planted_leak_of_one_slot_is_recorded_replayed_shrunk_and_named(last: int) -> None:
    cache = LosesASlot()
    with radixcheck.record(cache, last=last) as recording:
        busy(cache)
    trace, leak = recording.trace(), ("leaked-slot", "audit")
    assert broken(LosesASlot, trace) == leak
    shrunk = shrink(trace, lambda smaller: broken(LosesASlot, smaller) == leak).trace
    kinds = [each.kind for each in shrunk.operations]
    assert kinds == ["arrive", "admit", "prefill", *["decode"] * 4, "audit"]


def test_all_operations_go_to_a_file_that_says_the_same(tmp_path: Path) -> None:
    kept, filed, path = LosesASlot(), LosesASlot(), tmp_path / "all.jsonl"
    with radixcheck.record(kept) as recording, radixcheck.record(filed, to=path):
        busy(kept)
        busy(filed)
    trace = traces.load(path)
    assert trace.operations == recording.trace().operations
    assert broken(LosesASlot, trace) == ("leaked-slot", "audit")


def test_a_file_can_be_replayed_at_any_time(tmp_path: Path) -> None:
    cache, path = RadixRequests(capacity=512), tmp_path / "all.jsonl"
    recording = radixcheck.record(cache, to=path)
    busy(cache)
    found = verdict(RadixRequests, traces.load(path))
    recording.stop()
    assert found.operations > 256
    assert (found.violation, sum(found.skipped.values())) == (None, 0)


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("seed", range(4))
def test_a_recording_of_a_good_cache_replays_every_operation(seed: int, config: Config) -> None:
    cache = RadixRequests(**config)  # type: ignore[arg-type]  # as a run makes it
    with radixcheck.record(cache) as recording:
        assert serve(cache, seed, config) is None
    found = verdict(RadixRequests, recording.trace())
    assert found.operations > 100
    assert (found.violation, sum(found.skipped.values())) == (None, 0)


def test_prompts_are_renamed_and_so_are_requests() -> None:
    cache = RadixRequests()
    with radixcheck.record(cache) as recording:
        busy(cache)
    written = traces.dumps(recording.trace())
    assert (b"7000" in written, b"secret" in written) == (False, False)


def test_what_was_sampled_is_put_in_where_its_slot_was_taken() -> None:
    def use(cache: Any) -> None:
        cache.begin("a", prompt(1, 2, 3))
        cache.append("a", prompt(1, 2), 2)
        cache.publish("a")
        cache.append("a", prompt(1, 2, 3), 1)
        cache.publish("a")
        cache.append("a", prompt(1, 2, 3, 7), 1)
        cache.append("a", prompt(1, 2, 3, 7, 8), 1)
        cache.end("a", prompt(1, 2, 3, 7, 8, 9))

    assert operations(use) == (
        Arrive("r1", (1, 2, 3), 3),
        Admit("r1"),
        Prefill("r1", 2),
        Prefill("r1"),
        Decode("r1", 7),
        Decode("r1", 8),
        Decode("r1", 9),
        Finish("r1"),
    )


def test_a_name_that_is_used_again_is_another_request() -> None:
    def use(cache: Any) -> None:
        for _ in range(2):
            cache.begin("a", prompt(1))
            cache.append("a", prompt(1), 1)
            cache.end("a", prompt(1))

    arrived = [each for each in operations(use) if isinstance(each, Arrive)]
    assert arrived == [Arrive("r1", (1,)), Arrive("r2", (1,))]


class Retracts(RadixRequests):
    """Has a word of its own for who must wait again."""

    def retract(self, request: str) -> None:
        """Abort."""
        super().abort(request)


def test_who_is_retracted_goes_on_with_what_it_had_and_the_token_it_sampled() -> None:
    def use(cache: Any) -> None:
        cache.begin("a", prompt(1, 2))
        cache.append("a", prompt(1, 2), 2)
        cache.retract("a")
        cache.begin("a", prompt(1, 2, 8))

    went = Arrive("r1", (1, 2), 1), Admit("r1"), Prefill("r1"), Decode("r1", 8), Retract("r1")
    assert operations(use, Retracts()) == (*went, Admit("r1"))


def test_who_is_retracted_and_begins_with_something_else_is_another_request() -> None:
    def use(cache: Any) -> None:
        cache.begin("a", prompt(1, 2))
        cache.retract("a")
        cache.begin("a", prompt(1, 3))

    first = Arrive("r1", (1, 2)), Admit("r1"), Retract("r1"), Abort("r1")
    assert operations(use, Retracts()) == (*first, Arrive("r2", (1, 3)), Admit("r2"))


def test_who_was_looked_up_and_refused_arrives_once() -> None:
    def use(cache: Any) -> None:
        cache.match(prompt(1, 2))
        cache.match(prompt(1, 2))
        cache.begin("a", prompt(1, 2))

    look = MatchRequest("r1")
    assert operations(use) == (Arrive("r1", (1, 2)), look, look, Admit("r1"))


def test_several_tokens_that_get_their_slots_at_once_are_decoded_one_by_one() -> None:
    def use(cache: Any) -> None:
        cache.begin("a", prompt(1))
        cache.append("a", prompt(1), 1)
        cache.append("a", prompt(1, 5, 6), 2)
        cache.end("a", prompt(1, 5, 6))

    decoded = [each for each in operations(use) if isinstance(each, Decode)]
    assert decoded == [Decode("r1", 5), Decode("r1", 6), Decode("r1")]


def test_a_trace_that_begins_in_mid_life_begins_with_who_runs_and_what_is_stored() -> None:
    def use(cache: Any) -> None:
        cache.begin("long", prompt(1, 2))
        cache.append("long", prompt(1, 2), 2)
        cache.publish("long")
        for number in range(100):
            cache.begin("short", prompt(3, number % 2))
            cache.append("short", prompt(3, number % 2), 2 if number < 1 else 1)
            cache.end("short", prompt(3, number % 2))
        cache.abort("long")

    found = operations(use, last=20)
    assert found[:3] == (Arrive("r1", (1, 2)), Admit("r1"), Prefill("r1"))
    stored = [each.tokens for each in found if isinstance(each, Arrive) if each.request[0] == "s"]
    assert sorted(stored) == [(1, 2), (3, 0), (3, 1)]
    assert found[-1] == Abort("r1")
    assert len(found) < 400


class Engine(RadixRequests):
    """Names of its own, and a prompt that comes as text."""

    def start(self, text: str, name: str) -> int:
        """Begin."""
        return self.begin(name, prompt(*map(ord, text)))


def test_a_cache_with_names_of_its_own_is_recorded_by_them() -> None:
    calls: dict[str, Call | str] = {
        "begin": Call("start", given=lambda text, name: (name, list(map(ord, text)))),
        **{kind: kind for kind in ("append", "publish", "table", "end", "abort")},
    }
    cache = Engine()
    with radixcheck.record(cache, calls=calls, keep_tokens=True) as recording:
        cache.start("hi", "a")
    assert recording.trace().operations[0] == Arrive("r1", (104, 105))


# --------------------------------------------------------------------------------- watched

ALL_HONEST: dict[str, Any] = {"itself": RadixRequests, **REQUEST_HONEST}


@pytest.mark.parametrize("name", ALL_HONEST)
@pytest.mark.parametrize("seed", range(4))
def test_a_correct_cache_is_spared_and_its_last_calls_replay(
    name: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(books, "SELDOM", 1)
    make, config = ALL_HONEST[name], CONFIGS[seed % 3]
    config = {**config, "page_size": min(make.supports["page_size"][-1], int(config["page_size"]))}
    cache: Any = make(**config)
    with radixcheck.watch(cache, every=7, last=60, to=None, then="raise") as watched:
        assert serve(cache, seed, config) is None
    assert (watched.violation, watched.lost) == (None, "")
    assert broken(make, watched.trace()) == ("", "")


@pytest.mark.parametrize("every", [1, 16])
def test_a_server_whose_requests_take_turns_is_spared(every: int) -> None:
    cache = RadixRequests(page_size=4)
    with radixcheck.watch(cache, every=every, to=None, then="raise") as watched:
        busy(cache)
    assert watched.calls > 500
    assert (watched.violation, watched.lost) == (None, "")


INTERRUPTED = {"interrupted-eviction-lost", "interrupted-eviction-freed-twice"}
EARLIER = {"abort-frees-what-is-stored": {"size-drift"}}
"""Seen by what the cache says it stores, before anybody is hurt by it."""


@pytest.mark.parametrize("name", sorted(REQUEST_LIARS.keys() - INTERRUPTED))
def test_a_liar_is_named_as_a_run_names_it(name: str) -> None:
    make: Any = REQUEST_LIARS[name][0]
    leaving_out = frozenset(("interrupt",))
    for seed in range(20):
        config = CONFIGS[seed % 3]
        cache: Any = make(**config)
        with radixcheck.watch(cache, every=1, to=None, then=lambda *_: None) as watched:
            in_a_run = serve(cache, seed, config, leaving_out=leaving_out)
        if in_a_run is not None:
            assert watched.violation is not None
            assert watched.violation.rule in {in_a_run.rule} | EARLIER.get(name, set())
            return
    pytest.fail("no seed shows the lie in a run")


def test_a_leak_is_seen_while_others_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(books, "SELDOM", 1)
    cache, path = LosesASlot(), tmp_path / "violation.jsonl"
    with (
        pytest.warns(RuntimeWarning, match="leaked-slot at abort.*in nobody's row"),
        radixcheck.watch(cache, every=16, to=path),
    ):
        busy(cache)
    assert broken(LosesASlot, traces.load(path)) == ("leaked-slot", "audit")


def test_stop_gives_the_methods_of_cache_and_pool_back() -> None:
    cache = RadixRequests()
    before = dict(vars(cache)), dict(vars(cache.pool))
    radixcheck.watch(cache, to=None).stop()
    assert (vars(cache), vars(cache.pool)) == before


def test_a_row_that_is_left_is_a_leak() -> None:
    cache: Any = HasRows()
    cache.free_row = lambda request: None
    with radixcheck.watch(cache, every=1, to=None, then=lambda *_: None) as watched:
        cache.begin("a", prompt(1))
        cache.abort("a")
    assert watched.violation is not None
    assert watched.violation.actual == "row_pool.available_size() 3"


def test_slots_that_somebody_else_takes_are_nobodys_leak() -> None:
    cache = RadixRequests()
    with radixcheck.watch(cache, every=1, to=None, then="raise") as watched:
        padding = cache.pool.alloc(2)
        cache.evict(1)
        cache.pool.free(padding)
        cache.evict(1)
    assert [each.kind for each in watched.trace().operations] == ["evict", "evict", "audit"]


def test_a_cache_in_mid_life_is_refused() -> None:
    cache = RadixRequests()
    cache.begin("a", prompt(1))
    cache.append("a", prompt(1), 1)
    with pytest.raises(ValueError, match="slots of the RadixRequests are held"):
        radixcheck.watch(cache)


def test_promises_of_another_level_are_refused() -> None:
    cache = RadixRequests()
    cache.pool.capabilities = Capabilities()  # type: ignore[assignment]  # a tree's
    with pytest.raises(ValueError, match=r"PoolPaged promise\? Say capabilities=PoolCap"):
        radixcheck.record(cache)
