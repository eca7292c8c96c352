"""``radixcheck shrink``: reduce a failing trace to the simplest one that fails in the same way."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from radixcheck.cli.codes import Code
from radixcheck.cli.errors import guarded
from radixcheck.cli.options import (
    FINDINGS_DIR,
    MEMORY_LIMIT,
    OP_TIMEOUT,
    FindingsDir,
    Isolate,
    MemoryLimit,
    OpTimeout,
    Quiet,
    Target,
    Verbose,
)

if TYPE_CHECKING:
    from radixcheck.hosts import Host
    from radixcheck.report import Screen
    from radixcheck.trace import Trace


@guarded
def shrink(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="A trace file.", show_default=False)],
    target: Target = None,
    isolate: Isolate = None,
    op_timeout: OpTimeout = OP_TIMEOUT,
    memory_limit: MemoryLimit = MEMORY_LIMIT,
    findings_dir: FindingsDir = FINDINGS_DIR,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Reduce a failing trace, show what is left, and save it."""
    from radixcheck import trace
    from radixcheck.cli.hosting import hosts, isolation
    from radixcheck.cli.runner import check_folder
    from radixcheck.cli.sources import spec_for
    from radixcheck.report import Screen
    from radixcheck.report.words import clean

    screen = Screen(verbosity=verbose - quiet)
    check_folder(findings_dir)
    failing = trace.load(path)
    with hosts(isolation(isolate, op_timeout, memory_limit)) as at_hand:
        host = at_hand.of(spec_for(failing, target))
        code = _shrink(screen, host, failing, findings_dir)
    if code is Code.CLEAN:
        where = f"{clean(str(path))} breaks no rule on {clean(host.source.spec)}"
        screen.say(f"{where}: there is nothing to shrink.")
    raise typer.Exit(code)


def _shrink(screen: Screen, host: Host, failing: Trace, findings_dir: Path) -> Code:
    """Judge, shrink, show and save; a trace that breaks no rule is left alone."""
    from radixcheck.cli.runner import keep, show
    from radixcheck.loop import investigate

    violation = host.check(failing).violation
    if violation is None:
        return Code.CLEAN
    seed = failing.found.seed if failing.found else None
    with screen.busy("shrinking"):
        finding = investigate(host, failing, violation, seed)
    show(screen, host, finding, keep(finding, findings_dir))
    return Code.INCONCLUSIVE if finding.flaky else Code.VIOLATION
