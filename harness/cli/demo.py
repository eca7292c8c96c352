"""``radixcheck demo``: a correct cache and a broken one, and a word on what one sees."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from radixcheck.cli.codes import Code
from radixcheck.cli.errors import guarded
from radixcheck.cli.options import Quiet, Verbose

if TYPE_CHECKING:
    from radixcheck.loop import Report
    from radixcheck.report import Screen

SEED = 11
OPERATIONS = 30_000
"""Enough for every required situation, with this seed."""

LIMIT_S = 8.0
SHRUNK_OPERATIONS = 3

GREEN, RED = "radix", "radix-first-release"


@guarded
def demo(quiet: Quiet = False, verbose: Verbose = False) -> None:
    """See a correct cache and a broken one judged, in a few seconds."""
    from radixcheck.cli.runner import announced
    from radixcheck.report import Screen

    screen = Screen(verbosity=verbose - quiet)
    announced(screen, SEED)
    screen.heading("1. a correct cache", "bold")
    screen.say(_GREEN)
    screen.blank()
    green = _judge(screen, GREEN)
    if green.interrupted:
        raise typer.Exit(Code.INTERRUPTED)
    screen.heading("2. a cache with a bug", "bold")
    screen.say(_RED)
    screen.blank()
    red = _judge(screen, RED)
    raise typer.Exit(_conclude(screen, green, red))


def _judge(screen: Screen, spec: str) -> Report:
    from radixcheck.cli.runner import Plan, judge
    from radixcheck.hosts import Here
    from radixcheck.loop import Budget
    from radixcheck.registry import resolve

    budget = Budget(LIMIT_S, OPERATIONS, first_only=True)
    report, _ = judge(screen, Here(resolve(spec)), Plan(SEED, budget))
    return report


def _conclude(screen: Screen, green: Report, red: Report) -> Code:
    if red.interrupted:
        return Code.INTERRUPTED
    if not _as_expected(green, red):
        screen.say((_UNEXPECTED, "bold red"))
        return Code.HARNESS
    screen.heading("what you saw", "bold")
    screen.say(_SEEN)
    screen.blank()
    screen.say(("next: ", "bold"), "point it at your own cache")
    for command in _NEXT:
        screen.say_whole(f"  {command}")
    return Code.CLEAN


def _as_expected(green: Report, red: Report) -> bool:
    shrunk = [
        finding.violation.rule
        for finding in red.violations
        if len(finding.trace.operations) == SHRUNK_OPERATIONS
    ]
    return not green.findings and not green.missing and shrunk == ["phantom-prefix"]


_GREEN = (
    f"`{GREEN}` is the first public radix tree over KV slots, built anew. Each operation of a "
    "random trace goes to the cache and to a model, and whatever the cache answers must be right, "
    "slot by slot. It counts only if the run also reached the situations in which caches break."
)
_RED = (
    f"`{RED}` is the same tree with the match bug of the first release (SGLang #7, January 2024): "
    "a key that parts in the middle of an edge walks on into what hangs below."
)
_UNEXPECTED = "These are not the verdicts that radixcheck should reach. Please report it."
_SEEN = (
    "The first cache is green: no answer was wrong, and every required situation was reached. The "
    "second is red: a match is longer than what is stored, so a request would be served the KV of "
    "another context. The trace that showed it was shrunk to three operations; the program above "
    "is all that one needs to see the bug, in a debugger or in a test."
)
_NEXT = (
    "radixcheck smoke ./my_cache.py:MyCache               # is the adapter right?",
    "radixcheck run ./my_cache.py:MyCache --max-time 10m  # is the cache?",
)
