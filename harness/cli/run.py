"""``radixcheck run``: judge targets by generated traces."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import typer

from radixcheck.cli.codes import Code, severest
from radixcheck.cli.errors import guarded, show_error
from radixcheck.cli.options import (
    FINDINGS_DIR,
    MEMORY_LIMIT,
    OP_TIMEOUT,
    REPORT_DIR,
    Device,
    ExitFirst,
    FindingsDir,
    Isolate,
    KnownFailures,
    MaxOps,
    MaxTime,
    MemoryLimit,
    Misuse,
    OpTimeout,
    ProfileName,
    Quiet,
    ReportDir,
    ReportKinds,
    Seed,
    Specs,
    Verbose,
    Workload,
    on_device,
    time_limit_s,
)

if TYPE_CHECKING:
    from radixcheck.cli.runner import Plan
    from radixcheck.hosts import Host
    from radixcheck.loop import Driver, Report
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
    isolate: Isolate = None,
    op_timeout: OpTimeout = OP_TIMEOUT,
    memory_limit: MemoryLimit = MEMORY_LIMIT,
    known_failures: KnownFailures = None,
    workload: Workload = None,
    findings_dir: FindingsDir = FINDINGS_DIR,
    report: ReportKinds = None,
    report_dir: ReportDir = REPORT_DIR,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Judge caches by generated traces, in every configuration that they support."""
    from radixcheck.cli.hosting import hosts, isolation
    from radixcheck.cli.reports import Reports
    from radixcheck.cli.runner import Plan, announced, check_folder
    from radixcheck.known import load
    from radixcheck.loop import Budget
    from radixcheck.report import Screen

    screen = Screen(verbosity=verbose - quiet)
    seed = announced(screen, seed)
    with hosts(isolation(isolate, op_timeout, memory_limit)) as at_hand:
        targets = [at_hand.of(on_device(spec, device)) for spec in specs]
        check_folder(findings_dir)
        reports = Reports(report, report_dir)
        limit_s = time_limit_s(context, max_time, max_ops, profile)
        budget = Budget(limit_s, max_ops, exitfirst)
        known = load(known_failures) if known_failures else ()
        beside = None if workload is None else _played(workload)
        plan = Plan(seed, budget, misuse, findings_dir, known, beside, reports)
        code = _judge_all(screen, targets, plan, verbose=verbose)
        raise typer.Exit(reports.written(screen, code))


def _played(name: str) -> Driver:
    """Return the driver that plays a workload; what is wrong with it is known before the run."""
    from radixcheck.drivers.workload import proposals
    from radixcheck.workloads import named

    return partial(proposals, workload=named(name))


def _judge_all(screen: Screen, targets: Sequence[Host], plan: Plan, *, verbose: bool) -> Code:
    """Judge each target in turn; one that cannot be used does not keep the others from it."""
    from radixcheck.cli.runner import judge, show_verdicts

    codes: list[Code] = []
    reports: list[Report] = []
    for host in targets:
        try:
            if len(targets) > 1:
                screen.heading(host.source.spec)
            report, code = judge(screen, host, plan)
        except BrokenPipeError:
            raise  # nobody reads any more: that is no fault of a target
        except Exception as error:
            codes.append(show_error(error, verbose))
            if plan.reports is not None:
                plan.reports.failed(host.source.spec, error)
            continue
        reports.append(report)
        codes.append(code)
        if report.interrupted:
            break
    if len(targets) > 1:
        show_verdicts(screen, reports)
    return severest(codes)
