"""What guidance costs, and what it brings: Atheris by our bytes, Atheris over Hypothesis, swarm.

    python bench/guided.py [SPEC]        with Atheris installed

The two kinds of Atheris have the same instrumented target and the same checker. Rates are per
second of processor time, so that a busy machine does not decide. Ends with one line per figure, and
exits 1 if one is below its bar.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from radixcheck.arena import arenas, required
from radixcheck.fuzzing import Fuzzer, Orders, Seen
from radixcheck.hosts import Here
from radixcheck.loop import Budget, run
from radixcheck.registry import resolve

KEY_LENGTH = 8
RATE_S = 12.0
REACH_S = 60.0
RATE_BAR = 25_000
RATIO_BAR = 5.0
FLAGS = ["-len_control=0", "-max_len=1024", "-reduce_inputs=0", "-seed=1"]

OVER_HYPOTHESIS = """\
import os, sys, time
import atheris
from hypothesis import HealthCheck, given, settings
from radixcheck import strategies
from radixcheck.checker import witness
from radixcheck.collecting import rare_collections
from radixcheck.drivers.atheris import instrument, modules_of
from radixcheck.registry import resolve
from radixcheck.verdict import check

spec, seconds, *flags = sys.argv[1:]
source = resolve(spec)
instrument([*modules_of(source.open({}, lambda: 0)), witness])
deadline, began_s = time.monotonic() + float(seconds), time.process_time()
applied = 0

@settings(database=None, deadline=None, suppress_health_check=list(HealthCheck))
@given(strategies.traces(spec))
def judge(trace):
    global applied
    applied += check(source.open, trace, thorough=False).operations

def one(data):
    judge.hypothesis.fuzz_one_input(data)
    if time.monotonic() > deadline:
        print(applied / (time.process_time() - began_s), flush=True)
        os._exit(0)

atheris.Setup([sys.argv[0], *flags], one)
with rare_collections():
    atheris.Fuzz()
"""


def main(arguments: list[str]) -> int:
    """Print all figures, and tell whether each is above its bar."""
    spec = arguments[0] if arguments else "radix-paged"
    short = rate(by_bytes(spec, RATE_S, KEY_LENGTH))
    pairs = [(rate(by_bytes(spec, RATE_S)), over_hypothesis(spec, RATE_S)) for _ in range(2)]
    ours, theirs = (max(column) for column in zip(*pairs, strict=True))
    ratio = max(one / other for one, other in pairs)
    print(f"{spec} by Atheris, keys up to {KEY_LENGTH} tokens: {short:,.0f} operations/s", end="")
    print(f" (bar {RATE_BAR:,})")
    print(f"{spec} by Atheris, keys of any length: {ours:,.0f} operations/s")
    print(f"{spec} by Atheris over fuzz_one_input: {theirs:,.0f} operations/s")
    print(f"{spec} bytes over fuzz_one_input: {ratio:.1f} (bar {RATIO_BAR})")
    missed = compare_reach(spec)
    return 0 if short >= RATE_BAR and ratio >= RATIO_BAR and not missed else 1


def rate(seen: Seen) -> float:
    """Return the operations that were applied per second of processor time."""
    return seen.operations / seen.busy_s


def by_bytes(spec: str, seconds: float, key_length: int | None = None) -> Seen:
    """Let our driver run for so long, from an empty corpus."""
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder, "corpus")
        corpus.mkdir()
        orders = Orders(spec, folder, max_time_s=seconds, key_length=key_length)
        fuzzer = Fuzzer(orders, [*FLAGS, str(corpus)], os.environ)
        fuzzer.process.wait()
        seen = fuzzer.seen()
        assert seen.traces, fuzzer.said()
        assert not seen.repeats, seen.repeats
        return seen


def over_hypothesis(spec: str, seconds: float) -> float:
    """Let Hypothesis make traces of the bytes for so long; answer the operations per second."""
    words = [sys.executable, "-c", OVER_HYPOTHESIS, spec, str(seconds), *FLAGS]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ended.stdout, ended.stderr[-2000:]
    return float(ended.stdout)


def compare_reach(spec: str) -> set[str]:
    """Print which required situations each has reached; answer what only swarm has."""
    source = resolve(spec)
    wanted = set(required(arenas(source)))
    swarm = run(Here(source), seed=1, budget=Budget(REACH_S)).reached
    guided = by_bytes(spec, REACH_S).reached
    by_swarm, by_guidance = (
        {name for name in wanted if seen.get(name)} for seen in (swarm, guided)
    )
    print(f"{spec} situations by swarm in {REACH_S:.0f} s: {len(by_swarm)} of {len(wanted)}")
    print(f"{spec} situations by Atheris from nothing: {len(by_guidance)} of {len(wanted)}", end="")
    print(f" (bar {len(by_swarm)})")
    for name in sorted(by_swarm - by_guidance):
        print(f"  only by swarm: {name}")
    return by_swarm - by_guidance


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
