"""Traffic as operations: exact programs, correct targets spared, planted bugs found."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections import Counter
from functools import cache
from itertools import islice
from random import Random
from typing import Any

import pytest

from radixcheck.arena import arenas
from radixcheck.capabilities import Capabilities, PoolCapabilities
from radixcheck.drivers.workload import proposals
from radixcheck.operations import (
    Admit,
    Alloc,
    AnyOperation,
    Arrive,
    Audit,
    Decode,
    DecRef,
    Evict,
    Finish,
    Free,
    IncRef,
    Insert,
    MatchPrefix,
    Prefill,
    Tick,
)
from radixcheck.registry import resolve
from radixcheck.targets.liars import LIARS
from radixcheck.trace import Trace, dumps
from radixcheck.verdict import Verdict, check
from radixcheck.workloads import WORKLOADS, named, play
from radixcheck.workloads.room import Need, Room
from radixcheck.workloads.stream import PLAYS
from radixcheck.workloads.traffic import Begin, End, Request, Terms

TERMS = Terms(1, 100)
LEVELS: dict[str, Any] = {
    "tree": Capabilities(page_size=4, namespaces="structured", clock="injected"),
    "pool": PoolCapabilities(page_size=4, capacity=512),
    "requests": Capabilities(page_size=4),
}
SPECS = ("radix", "radix-paged", "pool-paged", "requests:radix-paged")
MOST_OPERATIONS = 1200

each_workload = pytest.mark.parametrize("name", WORKLOADS)


def played(level: str, *events: Begin | End) -> list[AnyOperation]:
    """Return what a level does for this traffic, by a chance that aborts and cuts nothing."""
    capabilities = PoolCapabilities(capacity=64) if level == "pool" else Capabilities()
    return list(PLAYS[level](_Steady(), iter(events), capabilities, TERMS))


class _Steady(Random):
    """Always the last choice."""

    def random(self) -> float:
        return 0.999


@cache
def verdicts(spec: str, name: str) -> list[Verdict]:
    """Judge a target by a workload, up to `MOST_OPERATIONS`."""
    source, seen = resolve(spec), list[Verdict]()
    for trace in proposals(1, arenas(source), WORKLOADS[name]):
        seen.append(check(source.open, trace))
        if sum(each.operations for each in seen) > MOST_OPERATIONS:
            break
    return seen


def digest() -> str:
    traces = [
        Trace(play(WORKLOADS[name], Random(7), level, LEVELS[level], turn=1, capacity=64))
        for name in WORKLOADS
        for level in LEVELS
    ]
    return hashlib.sha256(b"".join(map(dumps, traces))).hexdigest()


# ------------------------------------------------------------------------- exact programs

TRAFFIC = (
    Begin(1, Request((1, 2), (3,))),
    Begin(2, Request((1, 2, 4), (5, 6))),
    End(1),
    End(2),
)


def test_a_tree_is_matched_locked_stored_into_and_unlocked() -> None:
    assert [
        MatchPrefix((1, 2), (), "h1"),
        IncRef("h1"),
        MatchPrefix((1, 2, 4), (), "h2"),
        IncRef("h2"),
        Insert((1, 2, 3), (), 0, "h1"),
        DecRef("h1"),
        Insert((1, 2, 4, 5, 6), (), 0, "h2"),
        DecRef("h2"),
    ] == played("tree", *TRAFFIC)


def test_a_pool_gives_slots_for_every_token() -> None:
    assert [
        Alloc(2, "a1"),
        Alloc(3, "a2"),
        Alloc(1, "b1"),
        Free("b1"),
        Free("a1"),
        Alloc(2, "b2"),
        Free("b2"),
        Free("a2"),
    ] == played("pool", *TRAFFIC)


def test_a_server_lets_requests_in_and_decodes_their_answers() -> None:
    assert [
        Arrive("r1", (1, 2), 1),
        Admit("r1"),
        Prefill("r1"),
        Arrive("r2", (1, 2, 4), 2),
        Admit("r2"),
        Prefill("r2"),
        Decode("r1", 3),
        Finish("r1"),
        Decode("r2", 5),
        Decode("r2", 6),
        Finish("r2"),
    ] == played("requests", *TRAFFIC)


def test_who_runs_first_makes_room_for_who_comes() -> None:
    long = Request(tuple(range(120)), ()), Request(tuple(range(200, 320)), ())
    assert [
        Arrive("r1", long[0].prompt),
        Admit("r1"),
        Prefill("r1"),
        Finish("r1"),
        Arrive("r2", long[1].prompt),
        Admit("r2"),
        Prefill("r2"),
        Finish("r2"),
    ] == played("requests", Begin(1, long[0]), Begin(2, long[1]), End(1), End(2))


def test_an_engine_evicts_what_it_has_no_room_for() -> None:
    events = [
        event
        for number in range(5)
        for event in (Begin(number, Request((number,) * 96, ())), End(number))
    ]
    evictions = [each for each in played("tree", *events) if isinstance(each, Evict)]
    assert [Evict(88), Evict(96)] == evictions


def test_room_knows_prefixes_and_forgets_the_oldest() -> None:
    room = Room(8, 24)
    long = tuple(range(24))
    assert [Need(0, 0), Need(16, 0), Need(0, 8), Need(8, 8)] == [
        room.take((), long),
        room.take((), long[:20]),
        room.take((), long[8:16]),
        room.take((), (*long[:8], *long[:8])),
    ]


def test_room_tells_namespaces_apart() -> None:
    room = Room(8, 100)
    room.take((), tuple(range(8)))
    assert Need(0, 0) == room.take(("a",), tuple(range(8)))


# ------------------------------------------------------------------------- whole workloads


@each_workload
@pytest.mark.parametrize("level", LEVELS)
def test_a_trace_ends_with_an_audit(level: str, name: str) -> None:
    trace = play(WORKLOADS[name], Random(1), level, LEVELS[level], capacity=64)
    assert [Audit] == [type(each) for each in trace if isinstance(each, Audit)]
    assert isinstance(trace[-1], Audit)


@each_workload
def test_every_lock_is_given_back(name: str) -> None:
    held = Counter[str]()
    for operation in play(WORKLOADS[name], Random(1), "tree", LEVELS["tree"], turn=3):
        if isinstance(operation, IncRef):
            held[operation.handle] += 1
        elif isinstance(operation, DecRef):
            held[operation.handle] -= 1
    assert {0} == set(held.values())


@each_workload
def test_nothing_is_played_that_a_target_cannot_do(name: str) -> None:
    trace = [
        each
        for seed in range(5)
        for each in play(WORKLOADS[name], Random(seed), "tree", Capabilities(), turn=3)
    ]
    keyed = [each for each in trace if isinstance(each, MatchPrefix | Insert)]
    assert {()} == {each.namespace for each in keyed}
    assert not [each for each in trace if isinstance(each, Tick)]


@each_workload
@pytest.mark.parametrize("spec", SPECS)
def test_a_correct_target_is_never_accused(spec: str, name: str) -> None:
    assert [None] == list({verdict.violation for verdict in verdicts(spec, name)})


@each_workload
@pytest.mark.parametrize("spec", SPECS)
def test_little_of_a_workload_is_skipped(spec: str, name: str) -> None:
    seen = verdicts(spec, name)
    skipped = sum(each.skipped.total() for each in seen)
    assert skipped < 0.25 * sum(each.operations for each in seen)


@each_workload
@pytest.mark.parametrize("rule", "phantom-prefix size-drift evicted-unknown changed-slot".split())
def test_a_workload_alone_finds_a_lie(rule: str, name: str) -> None:
    seen = verdicts(f"radixcheck.targets.liars:{LIARS[rule].__name__}", name)
    assert any(verdict.violation for verdict in seen)


@each_workload
def test_a_workload_reaches_what_only_sharing_reaches(name: str) -> None:
    reached = sum((each.reached for each in verdicts("radix-paged", name)), Counter[str]())
    wanted = {"edge-split", "split-under-lock", "insert-after-match", "lock-nested", "audit"}
    assert set() == wanted - set(reached)


@pytest.mark.parametrize("hash_seed", ["0", "777"])
def test_the_same_seed_plays_the_same_trace_whatever_the_hash_seed(hash_seed: str) -> None:
    program = f"import runpy; print(runpy.run_path({__file__!r})['digest']())"
    environment = os.environ | {"PYTHONHASHSEED": hash_seed}
    answer = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == digest()


def test_different_seeds_play_different_traces() -> None:
    seen = arenas(resolve("radix"))
    traces = {next(proposals(seed, seen, WORKLOADS["chat"])).operations for seed in range(20)}
    assert 20 == len(traces)


def test_every_configuration_has_its_turn() -> None:
    seen = arenas(resolve("radix-paged"))
    traces = islice(proposals(1, seen, WORKLOADS["chat"]), 2 * len(seen))
    assert [arena.config for arena in seen] * 2 == [trace.config for trace in traces]


def test_a_workload_that_nobody_knows_is_told_what_there_is() -> None:
    with pytest.raises(FileNotFoundError) as caught:
        named("chatt")
    known = "known: shared-prompt, few-shot, chat, tree-of-thought, agents"
    assert f"no workload and no file; nearest: chat; {known}" == caught.value.strerror
