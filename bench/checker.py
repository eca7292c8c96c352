"""What checking costs: one recorded trace, run bare, on the model alone, and checked. The generator
is left out, and garbage is collected as seldom as in a run.

    python bench/checker.py [SPEC ...]        e.g. 'sglang?path=DIR'

Ends with one line per figure, and exits 1 if one is below its bar.
"""

from __future__ import annotations

import statistics
import sys

import machine
from workload import measure, workload

from radixcheck.collecting import rare_collections
from radixcheck.hosts import Here
from radixcheck.loop import Budget, run
from radixcheck.operations import AnyOperation, Insert, MatchPrefix
from radixcheck.registry import Source, resolve
from radixcheck.trace import Config

OPERATIONS = 40_000
HYPOTHESIS_BARS = {"radix-paged": 10}
"""Where the target itself is slow, so is whoever tests it."""
BARS = {("radix-paged", 1): 0.2, ("radix-paged", 16): 0.4, ("sglang", 1): 0.7}
"""The least share of the bare rate that is left when every answer is checked."""


def main(specs: list[str]) -> int:
    """Measure each spec at pages 1 and 16, and tell whether all are above their bars."""
    operations = workload(OPERATIONS)
    good = True
    for spec in specs or ["radix-paged"]:
        source = resolve(spec)
        for page_size in (1, 16):
            good &= compare(source, {"page_size": page_size}, operations)
        good &= against_hypothesis(source)
    return 0 if good else 1


@rare_collections()
def compare(source: Source, config: Config, operations: list[AnyOperation]) -> bool:
    """Print the figures of one configuration."""
    keys = [each.tokens for each in operations if isinstance(each, MatchPrefix | Insert)]
    tokens_per_operation = sum(map(len, keys)) / len(operations)
    rates = measure(source, config, operations)
    checker_us = (rates.checked_s - rates.bare_s) * 1e6
    name = f"{source.name} page {config['page_size']}"
    bar = BARS.get((source.name, int(config["page_size"])))
    print(f"{name} bare: {1 / rates.bare_s:,.0f} operations/s")
    print(f"{name} model only: {1 / rates.model_s:,.0f} operations/s")
    print(f"{name} checked: {1 / rates.checked_s:,.0f} operations/s")
    print(f"{name} checker: {checker_us:.1f} us/operation")
    print(f"{name} checker: {checker_us / tokens_per_operation:.2f} us/token")
    print(f"{name} checked over bare: {rates.share:.2f}" + (f" (bar {bar})" if bar else ""))
    return bar is None or rates.share >= bar


def against_hypothesis(source: Source) -> bool:
    """Print how many operations a second we make and judge, and a plain state machine with our
    checker."""
    pairs = [(our_rate(source), machine.rate(source)) for _ in range(3)]
    ours, theirs = max(one for one, _ in pairs), max(other for _, other in pairs)
    ratio = statistics.median(one / other for one, other in pairs)
    print(f"{source.name} generated and checked: {ours:,.0f} operations/s")
    print(f"{source.name} by a Hypothesis state machine: {theirs:,.0f} operations/s")
    bar = HYPOTHESIS_BARS.get(source.name)
    print(f"{source.name} over Hypothesis: {ratio:.1f}" + (f" (bar {bar})" if bar else ""))
    return bar is None or ratio >= bar


def our_rate(source: Source) -> float:
    """Return the operations per second of a run, generator included."""
    report = run(Here(source), seed=1, budget=Budget(max_operations=20_000))
    return report.operations / report.elapsed_s


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
