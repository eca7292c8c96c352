"""How many traces a search judges: every one of at most 5 operations over 2 tokens, keys up to
length 3, page 1, one lock; and the smallest counterexample of the first release.

    python bench/exhaustive.py [SPEC ...]

Takes up to ten minutes per spec. Ends with one line per figure, and exits 1 if one is below its
bar.
"""

from __future__ import annotations

import sys
import time

from radixcheck.drivers.exhaustive import Scope, Search, search
from radixcheck.hosts import Here
from radixcheck.registry import resolve

OPERATIONS = 5
LIMIT_S = 600
TRACES = 10_000_000
"""To be judged before the limit, on one core."""
SMALLEST = (3, 7, True)
"""Operations and tokens of the smallest counterexample, and whether it is proven smallest."""


def main(specs: list[str]) -> int:
    """Search each spec, and tell whether all are above their bars."""
    good = [judged(spec) for spec in specs or ["radix", "radix-paged"]]
    return 0 if all([*good, smallest("radix-first-release")]) else 1


def found_in(spec: str, operations: int) -> tuple[Search, float]:
    """Search one spec, and return the seconds of the processor that it took."""
    host = Here(resolve(spec))
    config = {**host.source.configurations()[0], "page_size": 1}
    began = time.process_time()
    found = search(host, Scope(operations, config=config), max_time_s=LIMIT_S)
    return found, time.process_time() - began


def judged(spec: str) -> bool:
    """Print how many traces are judged, and in which time."""
    found, seconds = found_in(spec, OPERATIONS)
    rate = found.traces / seconds
    print(f"{spec} violations: {int(found.smallest is not None)} (bar 0)")
    print(f"{spec} traces in {seconds:.0f} s of one core: {found.traces:,}")
    print(f"{spec} run of these: {found.runs:,}")
    print(f"{spec} traces/s: {rate:,.0f} (bar {TRACES / LIMIT_S:,.0f})")
    return found.smallest is None and rate >= TRACES / LIMIT_S


def smallest(spec: str) -> bool:
    """Print the size of the smallest counterexample."""
    found, seconds = found_in(spec, OPERATIONS)
    if found.smallest is None:
        print(f"{spec} smallest counterexample: none (bar {SMALLEST})")
        return False
    size = len(found.smallest.trace.operations), found.smallest.tokens, found.proven
    print(f"{spec} smallest counterexample: {size} in {seconds:.1f} s (bar {SMALLEST})")
    return size == SMALLEST


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
