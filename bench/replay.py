"""How long all regressions that come along take on all correct targets that come along.

    python bench/replay.py

Every trace is offered to every target; those of another level, or of a page size that a target does
not have, do not apply. A target that cannot be opened here, for want of a compiler or of torch, is
left out and named. Ends with one line per figure, and exits 1 if one is beyond its bar.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter

from radixcheck.cli.hosting import Isolation, make_host
from radixcheck.cli.results import Saved, Status, packaged, replayed
from radixcheck.registry import TargetError

TREES = ("radix", "radix-paged", "radix-torch", "radix-cpp")
POOLS = ("pool-exclusive", "pool-counted", "pool-paged", "pool-torch")
CORRECT = (*TREES, *POOLS, *(f"requests:{tree}" for tree in TREES))

WHOLE_S = 60
"""In which one core is to replay all of them, workers included."""


def main() -> int:
    """Replay everything on everything, and tell whether all is above its bar."""
    saved, seen = list(packaged()), Counter[Status]()
    began, began_s = time.monotonic(), busy_s()
    for spec in CORRECT:
        seen += on_one(spec, saved)
    whole_s = busy_s() - began_s
    red = seen[Status.FAILED] + seen[Status.ERROR]
    print(f"replays of {len(saved)} traces: {seen.total() - seen[Status.NOT_APPLICABLE]}")
    print(f"replays that are red: {red} (bar 0)")
    print(f"seconds by the clock: {time.monotonic() - began:.1f}")
    print(f"seconds of one core: {whole_s:.1f} (bar {WHOLE_S})")
    return 0 if not red and whole_s < WHOLE_S else 1


def busy_s() -> float:
    """Return how long a processor was busy for us, and for what we have started and ended."""
    return sum(os.times()[:4])


def on_one(spec: str, saved: list[Saved]) -> Counter[Status]:
    """Print what becomes of the traces on one target, and count it."""
    began_s = busy_s()
    try:
        host = make_host(spec, Isolation())
        host.arenas()
    except TargetError as error:
        print(f"{spec}: left out, {error.message.splitlines()[0]}")
        return Counter()
    results = [replayed(each, spec, lambda _, host=host: host) for each in saved]
    host.close()
    for result in results:
        if result.status in (Status.FAILED, Status.ERROR):
            print(f"{spec}: {result.name}: {result.words}")
    seen = Counter(result.status for result in results)
    told = ", ".join(f"{times} {status}" for status, times in seen.items())
    print(f"{spec}: {told}, in {busy_s() - began_s:.1f} s")
    return seen


if __name__ == "__main__":
    sys.exit(main())
