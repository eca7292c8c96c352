"""A run of requests as a program: the calls that a cache gets, and no other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from radixcheck.arena import arenas
from radixcheck.corpus import packaged
from radixcheck.drivers.swarm import proposals
from radixcheck.operations import (
    Abort,
    Admit,
    AnyOperation,
    Arrive,
    Decode,
    Evict,
    Finish,
    Idle,
    Interrupt,
    MatchRequest,
    Prefill,
    Retract,
    Schedule,
    Starve,
)
from radixcheck.registry import resolve
from radixcheck.requests import render
from radixcheck.targets.radix_paged import RadixPaged
from radixcheck.trace import Trace
from radixcheck.verdict import replay

SPEC = "requests:radix-paged"
CONFIG: dict[str, Any] = {"page_size": 4, "capacity": 16}
LIFE = (
    Arrive("r1", (1, 2, 3, 4, 5, 6), 2),
    MatchRequest("r1"),
    Admit("r1"),
    Prefill("r1", 4),
    Prefill("r1"),
    Decode("r1", 7),
    Decode("r1", 8),
    Finish("r1"),
    Evict(4),
)
OF_REQUESTS = [
    entry for entry in packaged().entries if isinstance(entry.trace.operations[0], Arrive)
]


def program(*operations: AnyOperation, spec: str = SPEC) -> str:
    """Run `operations`, and write what happened."""
    source = resolve(spec)
    seen = replay(source.open, Trace(operations, CONFIG))
    return render(seen.steps, source, CONFIG, seen.verdict.violation)


def test_a_life_is_written_call_by_call() -> None:
    assert program(*LIFE) == (
        "from array import array\n"
        "from radixcheck.targets.bookkeeper import requests\n"
        "from radixcheck.targets.radix_paged import RadixPaged\n"
        "\n"
        "cache = requests(RadixPaged(page_size=4), capacity=16)\n"
        'cache.match(array("q", [1, 2, 3, 4, 5, 6]))  # 0 matched\n'
        'cache.begin("r1", array("q", [1, 2, 3, 4, 5, 6]))  # 0 matched\n'
        'cache.append("r1", array("q", [1, 2, 3, 4]), 4)\n'
        'cache.publish("r1")  # row [4, 5, 6, 7]\n'
        'cache.append("r1", array("q", [1, 2, 3, 4, 5, 6]), 2)\n'
        'cache.publish("r1")  # row [4, 5, 6, 7, 8, 9]\n'
        'cache.append("r1", array("q", [1, 2, 3, 4, 5, 6, 7]), 1)  # slots [10]\n'
        'cache.end("r1", array("q", [1, 2, 3, 4, 5, 6, 7, 8]))\n'
        "cache.evict(4)  # freed [4, 5, 6, 7]\n"
    )


def test_what_no_cache_hears_of_is_left_out() -> None:
    quiet = Arrive("r1", (1, 2)), Prefill("r1"), Abort("r1"), Idle()
    assert "cache." not in program(*quiet[:3]).partition("cache = ")[2]


def test_a_queue_is_shown_in_its_order() -> None:
    waiting = Arrive("r2", (9,)), Arrive("r3", (1, 2, 3, 4, 5))
    shown = program(*LIFE[:-1], *waiting, Schedule("lpm"), Admit())
    assert 'queue, lpm: r3, r2\ncache.begin("r3", ' in shown


def test_a_finding_ends_in_what_was_expected() -> None:
    spec = "radixcheck.targets.mutants.bookkeeping:LocksEveryChunk"
    chunks = Prefill("r1", 4), Prefill("r1", 4)
    shown = program(Arrive("r1", tuple(range(8))), Admit(), *chunks, Abort("r1"), Idle(), spec=spec)
    assert shown.endswith(
        "assert cache.pool.available_size() == cache.pool.capabilities.capacity\n"
        "# expected: every slot is free\n"
        "# actual: [4, 5, 6, 7]\n"
        "# 4 slots of the tree\n"
    )


def test_a_starving_pool_is_part_of_the_program() -> None:
    shown = program(*LIFE[:4], Starve(1), Prefill("r1"), Retract("r1"))
    namespace: dict[str, Any] = {}
    exec(shown, namespace)
    assert 16 == namespace["cache"].pool.available_size() + 4


def test_what_is_evicted_when_nobody_runs_depends_on_no_run() -> None:
    *_, last = program(*LIFE[:-1], Idle()).splitlines()
    assert "cache.evict(cache.evictable_size())  # freed [4, 5, 6, 7]" == last


def test_where_nothing_tells_what_can_be_evicted_it_is_the_whole_pool(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = resolve(SPEC)
    steps = replay(source.open, Trace((*LIFE[:-1], Idle()), CONFIG)).steps
    monkeypatch.delattr(RadixPaged, "evictable_size")
    *_, last = render(steps, source, CONFIG).splitlines()
    assert "cache.evict(cache.pool.capabilities.capacity)  # freed [4, 5, 6, 7]" == last


def test_a_starving_pool_refuses_as_it_always_does() -> None:
    spec = "radixcheck.targets.request_honest:TakesThePromptAtOnce"
    shown = program(LIFE[0], Starve(1), Admit("r1"), spec=spec)
    namespace: dict[str, Any] = {}
    exec(f"{shown}\ncache.pool.starving = 1\nanswer = cache.pool.alloc(4)", namespace)
    assert namespace["answer"] is None


def test_a_pool_that_raises_is_part_of_the_program() -> None:
    stored = Arrive("r1", (1, 2, 3, 4)), Admit("r1"), Prefill("r1"), Finish("r1")
    shown = program(*stored, Interrupt(), Evict(4), Evict(4))
    namespace: dict[str, Any] = {}
    exec(shown, namespace)
    assert "interrupting = 0\nwith suppress(Exception): cache.evict(4)  # refused" in shown
    assert 16 == namespace["cache"].pool.available_size()


@pytest.mark.parametrize("seed", range(3))
def test_the_program_of_a_clean_run_runs(seed: int) -> None:
    source = resolve(SPEC)
    traces = proposals(seed, arenas(source))
    for _ in range(12):
        trace = next(traces)
        steps = replay(source.open, trace).steps
        exec(render(steps, source, trace.config), {})


@pytest.mark.parametrize("entry", OF_REQUESTS, ids=[entry.id for entry in OF_REQUESTS])
def test_the_program_of_a_public_bug_shows_every_call(entry: Any) -> None:
    found = entry.trace.found
    source = resolve(found.target)
    seen = replay(source.open, entry.trace)
    shown = render(seen.steps, source, entry.trace.config, seen.verdict.violation)
    begun = [each for each in seen.steps if each.operation.kind == "admit"]
    assert len(begun) == shown.count("cache.begin(")


def test_a_tree_in_a_file_that_no_import_can_name_is_loaded_from_its_path(tmp_path: Path) -> None:
    path = tmp_path / "my-tree.py"
    path.write_text("from radixcheck.targets.radix_paged import RadixPaged as Tree\n")
    source = resolve(f"requests:{path}:Tree")
    program = render(replay(source.open, Trace((Idle(),))).steps, source)
    assert f'Tree = run_path("{path}")["Tree"]' in program
    exec(compile(program, "program", "exec"), {})
