"""What it costs to judge a native tree: in this process, in a worker, and over a pipe.

    python bench/native.py

First a recorded trace is run bare, on the model alone, and checked, as in bench/checker.py. Then
whole runs are timed, generator included, wherever a tree may live. They take turns, so that what
else the machine does is bad for all of them alike.

Ends with one line per figure, and exits 1 if one is below its bar.
"""

from __future__ import annotations

import shutil
import statistics
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from workload import measure, workload

from radixcheck.collecting import rare_collections
from radixcheck.hosts import Here, Host, Isolated
from radixcheck.loop import Budget, run
from radixcheck.registry import resolve

SPEC = "radix-cpp"
SERVER = Path(__file__).parent.parent / "targets" / "node" / "radix.js"
OPERATIONS, FEW_OPERATIONS = 40_000, 8_000
TURNS = 5

CHECKED_BAR = 0.8
"""The least share of the model's own rate that is left when the tree answers."""

ISOLATED_BAR = 0.85
"""The least share of the rate in this process that is left in a worker."""


def main() -> int:
    """Measure all, and tell whether all is above its bar."""
    good = [checked(page_size) for page_size in (1, 16)]
    good.append(hosts())
    return 0 if all(good) else 1


# ------------------------------------------------------------------------------ in this process


@rare_collections()
def checked(page_size: int) -> bool:
    """Print what the calls of a tree add to what the checker does anyway."""
    rates = measure(resolve(SPEC), {"page_size": page_size}, workload(OPERATIONS))
    name = f"{SPEC} page {page_size}"
    print(f"{name} bare: {1 / rates.bare_s:,.0f} operations/s")
    print(f"{name} model only: {1 / rates.model_s:,.0f} operations/s")
    print(f"{name} checked: {1 / rates.checked_s:,.0f} operations/s")
    print(f"{name} checked over bare: {rates.share:.2f}")
    print(f"{name} checked over model only: {rates.model_share:.2f} (bar {CHECKED_BAR})")
    return rates.model_share >= CHECKED_BAR


# ------------------------------------------------------------------------------------- anywhere


def hosts() -> bool:
    """Print how many operations a second are made and judged, by where the tree lives."""
    here, apart = Here(resolve(SPEC)), Isolated(SPEC)
    with closing(here), closing(apart):
        rates = in_turns({f"{SPEC} in process": here, f"{SPEC} isolated": apart})
    pairs = zip(*rates.values(), strict=True)
    ratio = statistics.median(isolated / in_process for in_process, isolated in pairs)
    print(f"{SPEC} isolated over in process: {ratio:.2f} (bar {ISOLATED_BAR})")
    if shutil.which("node"):
        by_command(f"cmd:node {SERVER}")
    else:
        print("cmd: not measured, for there is no node")
    return ratio >= ISOLATED_BAR


def by_command(spec: str) -> None:
    """Print what a pipe costs: bare, and judged with and without batches."""
    one_by_one = f"{spec}?batch=off"
    rates = measure(resolve(one_by_one), {}, workload(FEW_OPERATIONS))
    print(f"cmd bare: {1 / rates.bare_s:,.0f} operations/s")
    print(f"cmd checked over bare: {rates.share:.2f}")
    batched, plain = Here(resolve(spec)), Here(resolve(one_by_one))
    with closing(batched), closing(plain):
        in_turns({"cmd in batches": batched, "cmd one by one": plain}, FEW_OPERATIONS)


def in_turns(hosts: Mapping[str, Host], max_operations: int = OPERATIONS) -> dict[str, list[float]]:
    """Let every host judge the same traces, in turns; print its best rate and return all."""
    for host in hosts.values():
        run(host, seed=0, budget=Budget(max_operations=1000))  # whoever must start has started
    rates: dict[str, list[float]] = {name: [] for name in hosts}
    for seed in range(TURNS):
        for name, host in hosts.items():
            report = run(host, seed=seed, budget=Budget(max_operations=max_operations))
            assert not report.findings, report.findings
            rates[name].append(report.operations / report.elapsed_s)
    for name, seen in rates.items():
        print(f"{name} generated and checked: {max(seen):,.0f} operations/s")
    return rates


if __name__ == "__main__":
    sys.exit(main())
