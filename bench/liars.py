"""How fast each lie is found and shrunk: one liar per rule, ten seeds each.

    python bench/liars.py

Ends with one line per figure, and exits 1 if one misses its bar.
"""

from __future__ import annotations

import statistics
import sys
import time
from typing import NamedTuple

from radixcheck.arena import arenas
from radixcheck.drivers.swarm import proposals
from radixcheck.hosts import Here
from radixcheck.loop import investigate
from radixcheck.registry import Source, resolve
from radixcheck.rules import Violation
from radixcheck.targets.liars import LIARS
from radixcheck.trace import Trace
from radixcheck.verdict import check, same_answers

SEEDS = range(10)
PATIENCE_S = 10
MEDIAN_BAR_S = 0.1


class Caught(NamedTuple):
    """One liar under one seed."""

    rule: str
    operations: int
    found_s: float
    shrunk_s: float
    shrunk_operations: int
    signature_kept: bool


def main() -> int:
    """Measure every liar, and tell whether all figures meet their bars."""
    caught = {rule: [catch(rule, seed) for seed in SEEDS] for rule in LIARS}
    for rule, cases in caught.items():
        found = statistics.median(case.found_s for case in cases) * 1e3
        shrunk = statistics.median(case.shrunk_s for case in cases) * 1e3
        own = sum(case.rule == rule for case in cases)
        sizes = sorted({case.shrunk_operations for case in cases})
        print(
            f"{rule}: own rule {own} of {len(cases)}, found in {found:.0f} ms, "
            f"shrunk in {shrunk:.0f} ms to {sizes} operations"
        )
    return 0 if judged([case for cases in caught.values() for case in cases], caught) else 1


def judged(cases: list[Caught], caught: dict[str, list[Caught]]) -> bool:
    """Print the figures over all liars, and tell whether they meet their bars."""
    by_their_own = all(case.rule == rule for rule, each in caught.items() for case in each)
    found = statistics.median(case.found_s for case in cases)
    slowest = max(case.found_s for case in cases)
    shrunk = statistics.median(case.shrunk_s for case in cases)
    kept = all(case.signature_kept for case in cases)
    print(f"liars caught by their own rule, all seeds: {by_their_own} (bar True)")
    print(f"median time to find: {found * 1e3:.0f} ms (bar {MEDIAN_BAR_S * 1e3:.0f})")
    print(f"longest time to find: {slowest:.2f} s (bar {PATIENCE_S})")
    print(f"median time to shrink: {shrunk * 1e3:.0f} ms (bar {MEDIAN_BAR_S * 1e3:.0f})")
    print(f"longest time to shrink: {max(case.shrunk_s for case in cases):.2f} s")
    print(f"signature kept by shrinking: {kept} (bar True)")
    quick = found <= MEDIAN_BAR_S and shrunk <= MEDIAN_BAR_S and slowest <= PATIENCE_S
    return by_their_own and kept and quick


def catch(rule: str, seed: int) -> Caught:
    """Run a liar until it breaks its own rule, or patience ends, and shrink what it broke."""
    source = resolve(f"radixcheck.targets.liars:{LIARS[rule].__name__}")
    began, operations = time.perf_counter(), 0
    for trace in proposals(seed, arenas(source)):
        verdict = check(source.open, trace)
        operations += verdict.operations
        violation = verdict.violation or _unstable(source, trace, rule)
        if violation is not None:
            break
        if time.perf_counter() - began > PATIENCE_S:
            raise SystemExit(f"{rule}: not found in {PATIENCE_S} s with seed {seed}")
    found = time.perf_counter()
    finding = investigate(Here(source), trace, violation, seed)
    kept = finding.violation.signature == violation.signature
    shrunk = time.perf_counter() - found
    size = len(finding.trace.operations)
    return Caught(violation.rule, operations, found - began, shrunk, size, kept)


def _unstable(source: Source, trace: Trace, rule: str) -> Violation | None:
    """Run a trace twice where that is the only way to see the lie."""
    return same_answers(source.open, trace) if rule == "nondeterminism" else None


if __name__ == "__main__":
    sys.exit(main())
