"""What checking costs: one recorded trace, run bare, on the model alone, and checked. The generator
is left out.

    python bench/checker.py [SPEC ...]        e.g. 'sglang?path=DIR'

Ends with one line per figure, and exits 1 if one is below its bar.
"""

from __future__ import annotations

import statistics
import sys

import machine
from workload import interleaved, time_bare, time_checked, time_model, workload

from radixcheck.loop import Budget, run
from radixcheck.operations import AnyOperation, Insert, MatchPrefix
from radixcheck.registry import Source, resolve
from radixcheck.trace import Config

OPERATIONS = 20_000
HYPOTHESIS_BAR = 10
BARS = {("radix-paged", 1): 0.2, ("radix-paged", 16): 0.4, ("sglang", 1): 0.7}
"""The least share of the bare rate that is left when every answer is checked."""


def main(specs: list[str]) -> int:
    """Measure each spec at pages 1 and 16, and tell whether all are above their bars."""
    operations = workload(OPERATIONS)
    good = True
    for spec in specs or ["radix-paged"]:
        source = resolve(spec)
        for page_size in (1, 16):
            good &= measure(source, {"page_size": page_size}, operations)
        good &= against_hypothesis(source)
    return 0 if good else 1


def measure(source: Source, config: Config, operations: list[AnyOperation]) -> bool:
    """Print the figures of one configuration."""
    count = len(operations)
    tokens = sum(len(each.tokens) for each in operations if isinstance(each, MatchPrefix | Insert))
    bare, model, checked, share = interleaved(
        lambda: time_bare(source, config, operations),
        lambda: time_model(source, config, operations),
        lambda: time_checked(source, config, operations),
    )
    name = f"{source.name} page {config['page_size']}"
    bar = BARS.get((source.name, int(config["page_size"])))
    print(f"{name} bare: {count / bare:,.0f} operations/s")
    print(f"{name} model only: {count / model:,.0f} operations/s")
    print(f"{name} checked: {count / checked:,.0f} operations/s")
    print(f"{name} checker: {(checked - bare) / count * 1e6:.1f} us/operation")
    print(f"{name} checker: {(checked - bare) / tokens * 1e6:.2f} us/token")
    print(f"{name} checked over bare: {share:.2f}" + (f" (bar {bar})" if bar else ""))
    return bar is None or share >= bar


def against_hypothesis(source: Source) -> bool:
    """Print how many operations a second we make and judge, and a plain state machine with our
    checker."""
    pairs = [(our_rate(source), machine.rate(source)) for _ in range(3)]
    ours, theirs = max(one for one, _ in pairs), max(other for _, other in pairs)
    ratio = statistics.median(one / other for one, other in pairs)
    print(f"{source.name} generated and checked: {ours:,.0f} operations/s")
    print(f"{source.name} by a Hypothesis state machine: {theirs:,.0f} operations/s")
    print(f"{source.name} over Hypothesis: {ratio:.1f} (bar {HYPOTHESIS_BAR})")
    return ratio >= HYPOTHESIS_BAR


def our_rate(source: Source) -> float:
    """Return the operations per second of a run, generator included."""
    report = run(source, seed=1, budget=Budget(max_operations=20_000))
    return report.operations / report.elapsed_s


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
