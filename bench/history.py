"""Run a benchmark, and keep its figures: a row each in ``bench/history.csv``.

    python bench/history.py checker.py 'sglang?path=DIR'

Only figures that have a bar are kept. They are ratios for the most part, since these stay what they
are when a machine is slow; the others mean something beside rows of the same machine only.
"""

from __future__ import annotations

import csv
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from radixcheck.bite.work import machine

HERE = Path(__file__).parent
KEPT = HERE / "history.csv"
COLUMNS = ("day", "commit", "machine", "benchmark", "figure", "value", "bar")

FIGURE = re.compile(r"(?P<figure>.+): .*?(?P<value>[\d.,]+)[^\d(]*\(bar (?P<bar>[\d.,]+)")


def main(script: str, *arguments: str) -> int:
    """Run a script of this folder, show what it prints, and return its exit code."""
    process = subprocess.Popen(
        [sys.executable, HERE / script, *arguments], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        print(line, end="", flush=True)
        lines.append(line)
    code = process.wait()
    _keep([*_rows(Path(script).stem, lines)])
    return code


def _rows(benchmark: str, lines: list[str]) -> Iterator[tuple[str, ...]]:
    here = datetime.now(UTC).date().isoformat(), _commit(), machine(), benchmark
    for line in lines:
        if found := FIGURE.match(line):
            yield *here, *(each.replace(",", "") for each in found.group("figure", "value", "bar"))


def _commit() -> str:
    asked = "git", "-C", str(HERE), "rev-parse", "--short", "HEAD"
    return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()


def _keep(rows: list[tuple[str, ...]]) -> None:
    fresh = not KEPT.exists()
    with KEPT.open("a", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([COLUMNS, *rows] if fresh else rows)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
