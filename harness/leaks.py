"""Whether a device's memory comes back when a target is dropped: the rule ``device-leak``.

Unlike ``retained-storage`` it sees what no reference of the cache leads to. The same trace is run
again and again, each time on a fresh target that is dropped with all it answered::

    allocated   ---.      .------.      .------.
                    '----'        '----'        '----   comes back: no leak, whatever is reserved
                  warm-up      1             2
"""

from __future__ import annotations

import gc

from radixcheck.clock import Clock
from radixcheck.devices import Allocator, allocator_of
from radixcheck.rules import Violation
from radixcheck.trace import Trace
from radixcheck.verdict import Open, check

WARM_UP = 2
"""Runs after which libraries have loaded what they keep."""

RUNS = 5
"""Runs in each of which the allocated memory must have grown."""


def leak(open_target: Open, trace: Trace) -> Violation | None:
    """Run `trace` several times, and see that what is allocated does not grow with every run.

    A target whose device nobody counts is not judged.

    Raises:
        TargetError: the target cannot be opened.
    """
    allocator = allocator_of(open_target(trace.config, Clock()))
    if allocator is None or not trace.operations:
        return None
    readings = [_after(open_target, trace, allocator) for _ in range(WARM_UP)]
    for _ in range(RUNS):
        readings.append(_after(open_target, trace, allocator))
        if readings[-1] <= readings[-2]:
            return None
    return Violation(
        "device-leak",
        trace.operations[-1].kind,
        len(trace.operations) - 1,
        f"{readings[WARM_UP - 1]} bytes allocated, as before",
        f"{readings[-1]} bytes, after {RUNS} targets that ran this trace and were dropped",
        f"{allocator.reserved()} bytes are reserved, which is the allocator's own affair",
    )


def _after(open_target: Open, trace: Trace, allocator: Allocator) -> int:
    """Run a trace, drop the target and all its rings of references, and count."""
    check(open_target, trace)
    gc.collect()
    return allocator.allocated()
