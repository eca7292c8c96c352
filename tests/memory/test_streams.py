"""Streams: what is told to one lands in order, what is told to several lands when it likes."""

from __future__ import annotations

import importlib.util
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

from radixcheck.hosts import Here
from radixcheck.loop import Budget, run
from radixcheck.protocol import Refused
from radixcheck.registry import resolve
from radixcheck.streams import CudaStreams, SimulatedStreams
from radixcheck.targets.streamed import HastyPool, StreamedPool

QUICK, SLOW = 0, 1
DELAY = 3


def streams() -> SimulatedStreams:
    """Return a quick stream and a slow one over four slots."""
    return SimulatedStreams(4, (0, DELAY))


@cache
def bench() -> ModuleType:
    """Load bench/gpu.py, which is no part of the package."""
    path = Path(__file__).parents[2] / "bench" / "gpu.py"
    found = importlib.util.spec_from_file_location("gpu_bench", path)
    assert found is not None and found.loader is not None
    module = sys.modules["gpu_bench"] = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


# ---- one stream --------------------------------------------------------------------------


def test_a_stream_reads_what_it_was_told_to_write() -> None:
    ours = streams()
    ours.write(SLOW, [1, 2], [10, 20])
    assert [20, 10, 0] == ours.read(SLOW, [2, 1, 0])


def test_a_stream_does_things_in_order() -> None:
    ours = streams()
    for tag in (1, 2, 3):
        ours.write(SLOW, [0], [tag])
    assert [3] == ours.read(SLOW, [0])


@pytest.mark.parametrize(("ticks", "expected"), [(DELAY - 1, 0), (DELAY, 7)])
def test_a_write_lands_after_its_delay(ticks: int, expected: int) -> None:
    ours = streams()
    ours.write(SLOW, [0], [7])
    for _ in range(ticks):
        ours.tick()
    assert [expected] == ours.read(QUICK, [0])


def test_a_busy_stream_takes_one_write_after_the_other() -> None:
    ours = streams()
    ours.write(SLOW, [0], [7])
    ours.write(SLOW, [1], [8])
    for _ in range(2 * DELAY - 1):
        ours.tick()
    assert [7, 0] == ours.read(QUICK, [0, 1])


# ---- several streams ---------------------------------------------------------------------


def test_a_late_write_of_another_stream_wins() -> None:
    ours = streams()
    ours.write(SLOW, [0], [7])
    ours.write(QUICK, [0], [8])
    seen = ours.read(QUICK, [0])
    ours.settle()
    assert ([8], [7]) == (seen, ours.read(QUICK, [0]))


def test_a_write_that_waits_for_an_event_comes_after_it() -> None:
    ours = streams()
    ours.write(SLOW, [0], [7])
    ours.wait(QUICK, ours.record(SLOW))
    ours.write(QUICK, [0], [8])
    ours.settle()
    assert [8] == ours.read(QUICK, [0])


def test_an_event_is_about_what_came_before_it() -> None:
    ours = streams()
    event = ours.record(SLOW)
    ours.write(SLOW, [0], [7])
    ours.wait(QUICK, event)
    ours.write(QUICK, [0], [8])
    ours.settle()
    assert [7] == ours.read(QUICK, [0])


# ---- the pool ----------------------------------------------------------------------------


def test_a_pool_on_streams_refuses_what_it_has_not() -> None:
    pool = StreamedPool(4)
    pool.alloc(3)
    with pytest.raises(Refused):
        pool.alloc(2)
    assert 1 == pool.available_size()


def test_a_reset_waits_for_what_is_in_flight() -> None:
    pool = HastyPool(4)
    pool.write(pool.alloc(4), [1, 2, 3, 4])
    pool.reset()
    slots = pool.alloc(4)
    pool.write(slots, [5, 6, 7, 8])
    pool.streams.settle()
    assert [5, 6, 7, 8] == pool.read(slots)


def test_a_slot_that_is_handed_on_in_flight_is_found_by_its_content() -> None:
    source = resolve("radixcheck.targets.streamed:RadixHasty")
    report = run(Here(source), seed=1, budget=Budget(max_time_s=30, first_only=True))
    assert ["stale-content"] == [finding.violation.rule for finding in report.findings]


def test_who_waits_before_handing_on_is_not_accused() -> None:
    source = resolve("radixcheck.targets.streamed:RadixStreamed")
    report = run(Here(source), seed=1, budget=Budget(max_operations=5000))
    assert [] == report.findings


# ---- the same drill that a GPU gets ------------------------------------------------------


def test_the_drill_tells_both_pools_apart() -> None:
    told = [bench().hazard(pool, "cpu") for pool in (HastyPool, StreamedPool)]
    assert ["stale-content", ""] == told


def test_without_a_gpu_nothing_ran_which_is_not_green(capsys: pytest.CaptureFixture[str]) -> None:
    if not bench().no_gpu():
        pytest.skip("this machine has a GPU: run bench/gpu.py")
    assert 5 == bench().main()
    assert capsys.readouterr().out.startswith("nothing was run: ")


def test_the_planted_bugs_are_found_and_their_counterparts_are_not_accused() -> None:
    pytest.importorskip("torch")
    assert [True, True, True] == [line.good for line in bench().planted("cpu")]


def test_streams_of_cuda_need_cuda() -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    with pytest.raises(ValueError, match="is not there"):
        CudaStreams(4)


def test_streams_of_cuda_do_the_same() -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("torch finds no GPU: only simulated streams were tried")
    ours = CudaStreams(4, (0, 20))
    ours.write(SLOW, [0], [7])
    ours.wait(QUICK, ours.record(SLOW))
    ours.write(QUICK, [0, 1], [8, 9])
    ours.settle()
    assert [8, 9] == ours.read(QUICK, [0, 1])
