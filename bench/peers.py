"""How much sooner radixcheck finds public bugs than its peers do: in one run, on the same mutants.

    python bench/peers.py [--seeds N] [--max-time SECONDS] [--trials FILE]

The peers are those of `radixcheck mutants --driver all`; one whose library is not installed is left
out. Ends with one line per figure, and exits 1 if one misses its bar.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from radixcheck.bite.document import missed, smallest_known
from radixcheck.bite.figures import Comparison, compare, rows
from radixcheck.bite.hunt import DRIVERS, OURS
from radixcheck.bite.trial import Trial, append, mend, read, settled
from radixcheck.bite.work import hunts, tasks
from radixcheck.targets.mutants import MUTANTS

OVERALL = {"hypothesis": 20.0}
"""So many times longer a peer must take, over all mutants."""

HARD = {"uniform": 3.0, "atheris": 3.0}
"""... over those that are hard for the uniform loop."""

EASY = 0.5
"""... over the others: ours may take twice as long as a peer of `HARD`."""


def main() -> int:
    """Hunt with every driver there is, and tell whether all figures meet their bars."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--max-time", type=float, default=5.0)
    parser.add_argument("--trials", type=Path, default=Path("radixcheck-peers.jsonl"))
    asked = parser.parse_args()
    drivers = [name for name, driver in DRIVERS.items() if not driver.missing()]
    trials = made(asked.trials, drivers, asked.seeds, asked.max_time)
    found = rows(trials, smallest_known())
    show_sums([each for each in trials if each.driver == "sums"])
    peers = [name for name in drivers if name not in (OURS, "sums")]
    verdicts = [judged(compare(found, OURS, peer)) for peer in peers]
    return 0 if all(verdicts) else 1


def made(path: Path, drivers: list[str], seeds: int, limit_s: float) -> list[Trial]:
    """Make the hunts that are not in the file, and return all that are asked for."""
    asked = list(tasks(MUTANTS, drivers, seeds, limit_s))
    done = settled(read(path), limit_s)
    mend(path)
    for trial in hunts([t for t in asked if (t.mutant, t.driver, t.seed) not in done], 1):
        append(path, trial)
    wanted = {(each.mutant, each.driver, each.seed) for each in asked}
    return [each for each in read(path) if (each.mutant, each.driver, each.seed) in wanted]


def show_sums(trials: list[Trial]) -> None:
    """Print what counters miss."""
    share = len(missed(trials)) / len(MUTANTS)
    print(f"mutants that conservation sums miss: {share:.2f}")


def judged(each: Comparison) -> bool:
    """Print how a peer does, and tell whether ours is as much better as it should be."""
    good = True
    for where, ratio, bars in (
        ("all", each.all, OVERALL),
        ("hard ones", each.hard, HARD),
        ("easy ones", each.easy, dict.fromkeys(HARD, EASY)),
    ):
        if ratio is None:
            continue
        bar = bars.get(each.peer)
        told = f"{ratio.middle:.1f} ({ratio.low:.1f} to {ratio.high:.1f})"
        print(f"{each.peer} over ours, {where}: {told}" + (f" (bar {bar:g})" if bar else ""))
        good &= bar is None or ratio.middle >= bar
    if each.worst is not None:
        mutant, times = each.worst
        print(f"ours over {each.peer}, the worst of the easy ones, {mutant}: {times:.1f}")
    return good


if __name__ == "__main__":
    sys.exit(main())
