"""What only a GPU can show: correct targets on it, three planted bugs of devices, and the speed of
the content oracle.

    python bench/gpu.py

Takes at most five minutes on one GPU. Prints one line per figure, and exits 1 if a correct target
was accused or a planted bug was missed. Where there is no GPU it says so and exits 5: nothing ran.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from random import Random
from statistics import median
from typing import Any, NamedTuple

from radixcheck.capabilities import Capabilities
from radixcheck.generate import generate
from radixcheck.generate.rounds import keep_the_front, rounds
from radixcheck.hosts import Here
from radixcheck.leaks import leak
from radixcheck.loop import Budget, run
from radixcheck.reference import content
from radixcheck.registry import resolve
from radixcheck.streams import CudaStreams, SimulatedStreams, Streams
from radixcheck.targets.streamed import HastyPool, StreamedPool
from radixcheck.trace import Trace
from radixcheck.verdict import check

NOTHING_RAN = 5
CHECKED = ("radix-torch", "requests:radix-torch", "pool-torch")
CHECK_S = 40.0
LIARS = "radixcheck.targets.memory_liars"
TAGS = 2**24
"""Slots of the buffer whose tags are written and compared: 128 MiB."""
PAGE = 16
REPEATS = 20
DRILL_SLOTS, DRILLS = 48, 12


class Line(NamedTuple):
    """One thing that was tried."""

    good: bool
    words: str


def no_gpu() -> str:
    """Say why there is no GPU; empty if there is one."""
    try:
        import torch
    except ImportError:
        return "torch is not installed"
    return "" if torch.cuda.is_available() else "torch finds no GPU"


# ---- correct targets ---------------------------------------------------------------------


def checks(device: str, seconds: float = CHECK_S) -> Iterator[Line]:
    """Judge each correct target on `device`."""
    for name in CHECKED:
        report = run(Here(resolve(f"{name}?device={device}")), seed=1, budget=Budget(seconds))
        rate = report.operations / report.elapsed_s
        broken = ", ".join(finding.violation.rule for finding in report.findings)
        words = f"{name}: {broken or 'no violation'} in {report.operations:,} operations"
        yield Line(not broken, f"{words}, {rate:,.0f} a second")


# ---- planted bugs ------------------------------------------------------------------------


def planted(device: str) -> Iterator[Line]:
    """See that each planted bug is found, and that its correct counterpart is not accused."""
    for what, judge, bad, good in (
        ("retained view", retained, "CutsTensorsIntoViews", "radix-torch"),
        ("allocator leak", leaked, *_leaky(device)),
    ):
        specs = [f"{LIARS}:{name}" if name[0].isupper() else name for name in (bad, good)]
        yield _line(what, judge(specs[0], device), judge(specs[1], device))
    yield _line("stream hazard", hazard(HastyPool, device), hazard(StreamedPool, device))


def _leaky(device: str) -> tuple[str, str]:
    on_a_cpu = "LosesBlocks", "RadixAllocating"
    return on_a_cpu if device == "cpu" else ("LosesTensors", "radix-torch")


def _line(what: str, bad: str, good: str) -> Line:
    found, accused = bad or "NOT FOUND", f"ACCUSED of {good}" if good else "not accused"
    return Line(bool(bad) and not good, f"{what}: {found}; without the bug {accused}")


def retained(spec: str, device: str) -> str:
    """Judge rounds that cut a long edge and evict all but its front; name the broken rule."""
    drawn = (Trace(tuple(rounds(Random(seed), 1)), {"page_size": 1}) for seed in range(99))
    trace = next(each for each in drawn if _keeps_the_front(each))
    violation = check(_opener(spec, device), trace).violation
    return violation.rule if violation else ""


def _keeps_the_front(trace: Trace) -> bool:
    key = trace.operations[1].tokens  # type: ignore[union-attr]  # every round begins with a key
    return trace.operations[1:5] == tuple(keep_the_front(key, "h1", 1))


def leaked(spec: str, device: str) -> str:
    """Run one trace on one fresh target after the other; name the broken rule."""
    can = Capabilities(namespaces="absent", misuse="raises")
    violation = leak(_opener(spec, device), Trace(generate(1, can, 100)))
    return violation.rule if violation else ""


def _opener(spec: str, device: str) -> Callable[..., Any]:
    source = resolve(spec)
    return resolve(f"{spec}?device={device}").open if source.accepts("device") else source.open


def hazard(make_pool: Callable[[int, Streams], StreamedPool], device: str) -> str:
    """Let slots change hands while they are written on a busy stream; name the broken rule.

    Each holder writes and goes, and the next one writes the same slots on another stream. When all
    has landed, every slot must hold what its last holder wrote.
    """
    streams: Streams = (
        SimulatedStreams(DRILL_SLOTS)
        if device == "cpu"
        else CudaStreams(DRILL_SLOTS, device=device)
    )
    pool = make_pool(DRILL_SLOTS, streams)
    for drill in range(DRILLS):
        for holder in range(streams.count + 1):
            slots = pool.alloc(DRILL_SLOTS)
            tags = [1 + slot + DRILL_SLOTS * (holder + drill * 100) for slot in slots]
            pool.write(slots, tags)
            if holder < streams.count:
                pool.free(slots)
        streams.settle()
        if pool.read(slots) != tags:
            return "stale-content"
        pool.free(slots)
    return ""


# ---- throughput --------------------------------------------------------------------------


def throughput(device: str) -> Iterator[str]:
    """Measure tags written and compared, as a share of the bandwidth of a plain copy."""
    import torch

    pages = torch.randperm(TAGS // PAGE, device=device)
    slots = (pages[:, None] * PAGE + torch.arange(PAGE, device=device)).flatten()
    tags = torch.randint(1, 2**62, (TAGS,), device=device)
    kv, copied = torch.zeros_like(tags), torch.empty_like(tags)
    copy_s = _seconds(lambda: copied.copy_(tags))
    bandwidth = 2 * 8 * TAGS / copy_s
    yield f"copy: {bandwidth / 1e9:,.0f} GB/s"
    for what, call, moved in (
        ("write", lambda: content.write(kv, slots, tags), 3),
        ("compare", lambda: content.compare(kv, slots, tags), 3),
    ):
        took = _seconds(call)
        share = moved * 8 * TAGS / took / bandwidth
        yield f"{what}: {TAGS / took / 1e9:.2f} G tags/s, {share:.0%} of the copy's bandwidth"


def _seconds(call: Callable[[], object]) -> float:
    """Return the median time of a call, measured on the device."""
    import torch

    times = []
    for _ in range(REPEATS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        call()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) / 1000)
    return median(times)


def main() -> int:
    """Run everything, or say that nothing was run."""
    if reason := no_gpu():
        print(f"nothing was run: {reason}")
        return NOTHING_RAN
    import torch

    began, good = time.monotonic(), True
    print(f"device: {torch.cuda.get_device_name()}, torch {torch.__version__}")
    for line in (*planted("cuda"), *checks("cuda")):
        good &= line.good
        print(line.words)
    for words in throughput("cuda"):
        print(words)
    print(f"took {time.monotonic() - began:.0f} s")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
