"""What a second worker is worth, what memory a campaign keeps, and how soon it ends.

    python bench/campaign.py [SECONDS]

Runs the same campaign with one worker and with two, in turn, on what is idle of two cores: a busy
machine has no second core to give, and this says so. Ends with one line per figure, and exits 1 if
one is below its bar.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from radixcheck.arena import arenas
from radixcheck.campaign.night import Night, Plan
from radixcheck.campaign.standing import Standing
from radixcheck.campaign.state import State
from radixcheck.campaign.unit import Task
from radixcheck.campaign.workers import Workers
from radixcheck.hosts.life import resident_bytes
from radixcheck.loop import Budget
from radixcheck.registry import resolve

SPECS = ("radix", "radix-paged", "pool-paged", "requests:radix-paged")
SECONDS = 20.0
REPEATS = 3
BAR = 1.8
"""Two workers judge at least so many times the operations of one."""
LATEST_S = 5.0
MOST_GROWTH_MIB = 100.0
"""What the conductor may have more in the end than when half of the time was over."""


class Measured:
    """One campaign, and what it took."""

    def __init__(self, workers: int, seconds: float, folder: Path) -> None:
        state = State(folder)
        standings = [Standing(spec, arenas(resolve(spec)), 1, state) for spec in SPECS]
        pool = Workers(workers, 2 * 2**30)
        self.memory_mib: list[float] = []
        self._weighed_s = 0.0
        began_s = time.monotonic()
        night = Night(Plan(1, Budget(seconds), Task("", "")), state, pool, standings, began_s)
        night.run(self._weigh)
        state.close()
        self.late_s = time.monotonic() - began_s - seconds
        self.rate = night.operations / (seconds + self.late_s)
        self.findings = sum(len(each.report.findings) for each in standings)

    def _weigh(self, night: Night) -> None:
        if night.elapsed_s - self._weighed_s > 0.5:
            self._weighed_s = night.elapsed_s
            self.memory_mib.append(resident_bytes(os.getpid()) / 2**20)


def main(seconds: float) -> int:
    """Measure, and tell whether all figures are good."""
    pairs = []
    for turn in range(REPEATS):
        with tempfile.TemporaryDirectory() as folder:
            runs = [Measured(n, seconds, Path(folder, f"{turn}-{n}")) for n in (1, 2)]
        one, two = runs
        pairs.append(runs)
        print(f"-j 1: {one.rate:,.0f} operations/s; -j 2: {two.rate:,.0f} operations/s")
    ratio = statistics.median(two.rate / one.rate for one, two in pairs)
    late_s = max(each.late_s for pair in pairs for each in pair)
    grown = max(each[-1] - each[len(each) // 2] for _, two in pairs if (each := two.memory_mib))
    found = sum(each.findings for pair in pairs for each in pair)
    print(f"-j 2 over -j 1: {ratio:.2f} (bar {BAR})")
    print(f"ends after its limit: {late_s:.1f} s (bar {LATEST_S:.0f} at most)")
    print(
        f"conductor grows in the second half: {grown:.0f} MiB (bar {MOST_GROWTH_MIB:.0f} at most)"
    )
    print(f"findings on correct targets: {found} (bar 0 at most)")
    good = late_s <= LATEST_S and grown <= MOST_GROWTH_MIB and not found
    return 0 if good and ratio >= BAR else 1


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS))
