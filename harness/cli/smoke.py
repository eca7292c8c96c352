"""``radixcheck smoke``: the adapter or the cache? Plain checks, then two seconds of fuzzing."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import typer

from radixcheck.cli.codes import Code, severest
from radixcheck.cli.errors import guarded
from radixcheck.cli.options import (
    FINDINGS_DIR,
    MEMORY_LIMIT,
    OP_TIMEOUT,
    Device,
    ExitFirst,
    FindingsDir,
    Isolate,
    MaxOps,
    MaxTime,
    MemoryLimit,
    Misuse,
    OpTimeout,
    ProfileName,
    Quiet,
    Seed,
    Spec,
    Verbose,
    on_device,
    time_limit_s,
)

if TYPE_CHECKING:
    from radixcheck.claims import Tried
    from radixcheck.claims.bench import Trouble
    from radixcheck.hosts import Host
    from radixcheck.report import Screen

FUZZ_S = 2.0


@guarded
def smoke(
    context: typer.Context,
    spec: Spec,
    seed: Seed = None,
    max_time: MaxTime = None,
    max_ops: MaxOps = None,
    profile: ProfileName = None,
    exitfirst: ExitFirst = False,
    device: Device = None,
    misuse: Misuse = False,
    isolate: Isolate = None,
    op_timeout: OpTimeout = OP_TIMEOUT,
    memory_limit: MemoryLimit = MEMORY_LIMIT,
    findings_dir: FindingsDir = FINDINGS_DIR,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Tell a broken adapter from a buggy cache: plain checks, and 2 seconds of fuzzing."""
    from radixcheck.cli.hosting import hosts, isolation
    from radixcheck.cli.runner import Plan, announced, check_folder, judge
    from radixcheck.loop import Budget
    from radixcheck.report import Screen

    screen = Screen(verbosity=verbose - quiet)
    seed = announced(screen, seed)
    check_folder(findings_dir)
    with hosts(isolation(isolate, op_timeout, memory_limit)) as at_hand:
        host = at_hand.of(on_device(spec, device))
        code = _check_plainly(screen, host)
        if code is not Code.UNUSABLE:
            limit_s = time_limit_s(context, max_time, max_ops, profile, FUZZ_S)
            plan = Plan(seed, Budget(limit_s, max_ops, exitfirst), misuse, findings_dir)
            _, fuzzed = judge(screen, host, plan)
            code = fuzzed if code is Code.CLEAN else severest([code, fuzzed])
    raise typer.Exit(code)


def _check_plainly(screen: Screen, host: Host) -> Code:
    """Print one line per claim, and answer what they are worth together."""
    from radixcheck.claims import OPENS

    troubles: list[Trouble] = []
    for tried in host.claims():
        _show(screen, tried, known={trouble.hint for trouble in troubles})
        troubles += [tried.trouble] if tried.trouble else []
        if tried.claim is OPENS and tried.trouble:
            return Code.UNUSABLE
    if not troubles:
        return Code.CLEAN
    screen.blank()
    if all(trouble.fault == "cache" for trouble in troubles):
        screen.say(_CACHE)
        screen.blank()
        return Code.VIOLATION
    screen.say(_ADAPTER)
    return Code.UNUSABLE


def _show(screen: Screen, tried: Tried, known: Collection[str]) -> None:
    """Print a line for what is right; for trouble what was seen, and the hint unless `known`."""
    from radixcheck.report.screen import line
    from radixcheck.report.words import clean

    words = tried.claim.words
    if tried.trouble is not None:
        _show_trouble(screen, tried, known)
    elif tried.unneeded and screen.verbosity >= 0:
        reason = line((f"{words}: {clean(tried.unneeded)}", "dim"))
        screen.table([[line(("  -   ", "dim")), reason]])
    elif screen.verbosity >= 0:
        screen.say(("  OK    ", "green"), words)


def _show_trouble(screen: Screen, tried: Tried, known: Collection[str]) -> None:
    from radixcheck.claims.bench import LIKELY
    from radixcheck.report.block import config_of
    from radixcheck.report.words import clean

    trouble = tried.trouble
    assert trouble is not None
    under = f", under {config_of(tried.config.items())}" if tried.config else ""
    screen.say(("FAILED  ", "bold red"), (tried.claim.words, "bold"), under)
    screen.say(clean(trouble.seen), indent=8)
    if trouble.hint in known:
        screen.say(("as above", "yellow"), indent=8)
        return
    joint = ", " if trouble.hint.startswith("unless ") else ": "
    hint = f"{joint}{clean(trouble.hint)}" if trouble.hint else ""
    screen.say((LIKELY[trouble.fault], "yellow"), hint, indent=8)


_ADAPTER = (
    "Mend these first: while the adapter and the cache misunderstand each other, fuzzing would "
    "only say the same in more words. docs/writing-a-target.md has a worked example."
)
_CACHE = (
    "The adapter looks right, the cache does not. The fuzz below looks for the shortest program "
    "that shows why."
)
