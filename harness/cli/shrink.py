"""``radixcheck shrink``: reduce a failing trace to the simplest one that fails in the same way."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from radixcheck.cli.codes import Code
from radixcheck.cli.errors import guarded
from radixcheck.cli.options import FINDINGS_DIR, FindingsDir, Quiet, Target, Verbose


@guarded
def shrink(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="A trace file.", show_default=False)],
    target: Target = None,
    findings_dir: FindingsDir = FINDINGS_DIR,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Reduce a failing trace, show what is left, and save it."""
    from radixcheck import trace
    from radixcheck.cli.runner import check_folder, keep, show
    from radixcheck.cli.sources import source_for
    from radixcheck.loop import investigate
    from radixcheck.report import Screen
    from radixcheck.report.words import clean
    from radixcheck.verdict import check

    screen = Screen(verbosity=verbose - quiet)
    check_folder(findings_dir)
    failing = trace.load(path)
    source = source_for(failing, target)
    violation = check(source.open, failing).violation
    if violation is None:
        where = f"{clean(str(path))} breaks no rule on {clean(source.spec)}"
        screen.say(f"{where}: there is nothing to shrink.")
        raise typer.Exit(Code.CLEAN)
    seed = failing.found.seed if failing.found else None
    with screen.busy("shrinking"):
        finding = investigate(source, failing, violation, seed)
    saved = keep(finding, findings_dir)
    show(screen, source, finding, saved)
    raise typer.Exit(Code.INCONCLUSIVE if finding.flaky else Code.VIOLATION)
