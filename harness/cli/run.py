"""``radixcheck run``: judge targets by generated traces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from radixcheck.cli.codes import Code, severest
from radixcheck.cli.errors import guarded, show_error
from radixcheck.cli.options import (
    FINDINGS_DIR,
    Device,
    ExitFirst,
    FindingsDir,
    MaxOps,
    MaxTime,
    Misuse,
    ProfileName,
    Quiet,
    Seed,
    Specs,
    Verbose,
    on_device,
    time_limit_s,
)

if TYPE_CHECKING:
    from radixcheck.cli.runner import Plan
    from radixcheck.loop import Report
    from radixcheck.registry import Source
    from radixcheck.report import Screen


@guarded
def run(
    context: typer.Context,
    specs: Specs,
    seed: Seed = None,
    max_time: MaxTime = None,
    max_ops: MaxOps = None,
    profile: ProfileName = None,
    exitfirst: ExitFirst = False,
    device: Device = None,
    misuse: Misuse = False,
    findings_dir: FindingsDir = FINDINGS_DIR,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Judge caches by generated traces, in every configuration that they support."""
    from radixcheck.cli.runner import Plan, announced, check_folder
    from radixcheck.loop import Budget
    from radixcheck.registry import resolve
    from radixcheck.report import Screen

    screen = Screen(verbosity=verbose - quiet)
    seed = announced(screen, seed)
    sources = [resolve(on_device(spec, device)) for spec in specs]
    check_folder(findings_dir)
    limit_s = time_limit_s(context, max_time, max_ops, profile)
    plan = Plan(seed, Budget(limit_s, max_ops, exitfirst), misuse, findings_dir)
    raise typer.Exit(_judge_all(screen, sources, plan, verbose=verbose))


def _judge_all(screen: Screen, sources: Sequence[Source], plan: Plan, *, verbose: bool) -> Code:
    """Judge each target in turn; one that cannot be used does not keep the others from it."""
    from radixcheck.cli.runner import judge, show_verdicts

    codes: list[Code] = []
    reports: list[Report] = []
    for source in sources:
        try:
            if len(sources) > 1:
                screen.heading(source.spec)
            report, code = judge(screen, source, plan)
        except BrokenPipeError:
            raise  # nobody reads any more: that is no fault of a target
        except Exception as error:
            codes.append(show_error(error, verbose))
            continue
        reports.append(report)
        codes.append(code)
        if report.interrupted:
            break
    if len(sources) > 1:
        show_verdicts(screen, reports)
    return severest(codes)
