"""How fast a search judges traces: of at most 5 operations over 2 tokens, keys up to length 3, page
1, one lock; and the smallest counterexample of the first release.

    python bench/exhaustive.py [--whole] [SPEC ...]

Stops after two minutes per spec, and says how many traces were judged by then and how many are all
of so many operations; from that follows a rate, and not yet that the rest goes as fast. ``--whole``
searches to the end, which takes up to ten minutes per spec and ends in a statement about all of
them. Ends with one line per figure, and exits 1 if one is below its bar.
"""

from __future__ import annotations

import sys
import time

from radixcheck.cli.exhaust import sentence
from radixcheck.drivers.exhaustive import Scope, Search, search
from radixcheck.hosts import Here
from radixcheck.registry import resolve

OPERATIONS = 5
WHOLE_S = 600
"""In which `TRACES` are to be judged."""
GLANCE_S = 110
TRACES = 10_000_000
"""To be judged in ten minutes, on one core."""
SMALLEST = (3, 7, True)
"""Operations and tokens of the smallest counterexample, and whether it is proven smallest."""


def main(arguments: list[str]) -> int:
    """Search each spec, and tell whether all are above their bars."""
    specs = [each for each in arguments if each != "--whole"]
    limit_s = WHOLE_S if len(specs) < len(arguments) else GLANCE_S
    good = [judged(spec, limit_s) for spec in specs or ["radix", "radix-paged"]]
    return 0 if all([*good, smallest("radix-first-release")]) else 1


def found_in(spec: str, limit_s: float) -> tuple[Search, float]:
    """Search one spec, and return the seconds of the processor that it took."""
    host = Here(resolve(spec))
    config = {**host.source.configurations()[0], "page_size": 1}
    began = time.process_time()
    found = search(host, Scope(OPERATIONS, config=config), max_time_s=limit_s)
    return found, time.process_time() - began


def judged(spec: str, limit_s: float) -> bool:
    """Print how many traces are judged, and in which time."""
    found, seconds = found_in(spec, limit_s)
    rate = found.traces / seconds
    print(f"{spec}: {sentence(found)}")
    print(f"{spec} violations: {int(found.smallest is not None)} (bar 0)")
    how = "done" if found.finished else "cut"
    print(f"{spec} traces, {how} after {seconds:.0f} s of one core: {found.traces:,}")
    print(f"{spec} run of these: {found.runs:,}")
    print(f"{spec} traces/s: {rate:,.0f} (bar {TRACES / WHOLE_S:,.0f})")
    return found.smallest is None and rate >= TRACES / WHOLE_S


def smallest(spec: str) -> bool:
    """Print the size of the smallest counterexample."""
    found, seconds = found_in(spec, WHOLE_S)
    if found.smallest is None:
        print(f"{spec} smallest counterexample: none (bar {SMALLEST})")
        return False
    size = len(found.smallest.trace.operations), found.smallest.tokens, found.proven
    print(f"{spec} smallest counterexample: {size} in {seconds:.1f} s (bar {SMALLEST})")
    return size == SMALLEST


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
