"""What the drivers make of a second: operations made and judged, one driver beside the other.

    python bench/drivers.py

Ends with one line per figure, and exits 1 if one misses its bar.
"""

from __future__ import annotations

import statistics
import sys
import time
from typing import Any

import machine
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from radixcheck import strategies
from radixcheck.operations import AnyOperation
from radixcheck.registry import resolve

ROUNDS = 3


def main() -> int:
    """Measure each driver, and tell whether all figures meet their bars."""
    return 0 if against_plain_machine("radix-paged") else 1


# ---- Hypothesis --------------------------------------------------------------------------


def against_plain_machine(spec: str) -> bool:
    """Print the rates of our state machine and of a plain one, both with our checker."""
    source = resolve(spec)
    pairs = [(machine_rate(spec), machine.rate(source)) for _ in range(ROUNDS)]
    ours, plain = (statistics.median(rates) for rates in zip(*pairs, strict=True))
    ratio = statistics.median(one / other for one, other in pairs)
    print(f"{spec} by strategies.machine: {ours:,.0f} operations/s")
    print(f"{spec} by a plain state machine: {plain:,.0f} operations/s")
    print(f"{spec} strategies.machine over plain: {ratio:.2f} (bar 1)")
    return ratio >= 1


def machine_rate(spec: str) -> float:
    """Return the operations per second of `radixcheck.strategies.machine`."""
    applied = 0

    base: Any = strategies.machine(spec, findings_dir=None)

    class Counted(base):  # type: ignore[misc]  # made by a call
        def apply(self, operation: AnyOperation) -> None:
            nonlocal applied
            applied += 1
            super().apply(operation)

    limits = settings(
        max_examples=machine.EXAMPLES,
        stateful_step_count=machine.STEPS,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    began = time.perf_counter()
    run_state_machine_as_test(Counted, settings=limits)
    return applied / (time.perf_counter() - began)


if __name__ == "__main__":
    sys.exit(main())
