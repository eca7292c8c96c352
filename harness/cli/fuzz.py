"""``radixcheck fuzz``: a campaign by many workers, that goes on where it was stopped."""

from __future__ import annotations

import os
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Option

from radixcheck.cli.errors import guarded
from radixcheck.cli.options import (
    BUDGET_S,
    MEMORY_LIMIT,
    OP_TIMEOUT,
    REPORT_DIR,
    Device,
    ExitFirst,
    Isolate,
    KnownFailures,
    MaxOps,
    MemoryLimit,
    Misuse,
    OpTimeout,
    Profile,
    ProfileName,
    Quiet,
    ReportDir,
    ReportKinds,
    Seed,
    Specs,
    Verbose,
    duration_option,
    on_device,
    time_limit_s,
)

if TYPE_CHECKING:
    from radixcheck.campaign.pool import Pool

STATE = Path("radixcheck-campaign")
MOST_WORKERS = 4096
AUTO = "auto"
HERE = "local"
"""The address of a Ray that is started for the campaign."""

CampaignTime = Annotated[
    float | None,
    Option(
        "--max-time",
        metavar="TIME",
        parser=duration_option,
        envvar="RADIXCHECK_MAX_TIME",
        help="End after 90s, 10m or 8h, whatever number of targets. Default: 10m.",
        show_default=False,
    ),
]
Jobs = Annotated[
    str,
    Option("--jobs", "-j", metavar="auto|N", help="Workers at a time; auto: one for each core."),
]
StateFolder = Annotated[
    Path,
    Option(
        "--state",
        metavar="DIR",
        envvar="RADIXCHECK_STATE",
        help="The campaign's folder: corpus, findings, tallies. With the same one it goes on.",
    ),
]
Canary = Annotated[
    str | None,
    Option(
        "--canary",
        metavar="SPEC|none",
        help="A target with a planted bug that must be found, or the night proves nothing. "
        "Default: one for each level.",
        show_default=False,
    ),
]
OnlyNew = Annotated[
    bool,
    Option(
        "--only-new",
        help="A finding that fails on the baseline too is no violation.",
        show_default=False,
    ),
]
Baseline = Annotated[
    str | None,
    Option(
        "--baseline",
        metavar="SPEC",
        help="Try the shrunk trace of each finding on this target, such as the release before.",
        show_default=False,
    ),
]
OnRay = Annotated[
    str | None,
    Option(
        "--ray",
        metavar="local|ADDRESS",
        help="Run the tasks on Ray: one that is started here, or the cluster at this address.",
        show_default=False,
    ),
]


@guarded
def fuzz(
    context: typer.Context,
    specs: Specs,
    seed: Seed = None,
    max_time: CampaignTime = None,
    max_ops: MaxOps = None,
    profile: ProfileName = None,
    exitfirst: ExitFirst = False,
    jobs: Jobs = AUTO,
    ray: OnRay = None,
    state: StateFolder = STATE,
    canary: Canary = None,
    only_new: OnlyNew = False,
    baseline: Baseline = None,
    known_failures: KnownFailures = None,
    device: Device = None,
    misuse: Misuse = False,
    isolate: Isolate = None,
    op_timeout: OpTimeout = OP_TIMEOUT,
    memory_limit: MemoryLimit = MEMORY_LIMIT,
    report: ReportKinds = None,
    report_dir: ReportDir = REPORT_DIR,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Judge caches for hours by many workers and drivers; go on where the last run was stopped."""
    from radixcheck.campaign.night import Plan
    from radixcheck.campaign.unit import Task
    from radixcheck.cli.hosting import as_judged, isolation
    from radixcheck.cli.night import Wanted, campaign
    from radixcheck.cli.reports import Reports
    from radixcheck.cli.runner import announced
    from radixcheck.hosts import Limits
    from radixcheck.known import load
    from radixcheck.loop import Budget
    from radixcheck.report import Screen

    began_s = time.monotonic()
    _check(only_new, baseline, jobs, state)
    screen = Screen(verbosity=verbose - quiet)
    seed = announced(screen, seed)
    limit_s = time_limit_s(context, max_time, max_ops, profile, BUDGET_S[Profile.nightly])
    apart = True if ray is not None and isolate is None else isolate
    judging = isolation(apart, op_timeout, memory_limit)
    compared = as_judged(on_device(baseline, device), judging)[0] if baseline else ""
    like = Task("", "", misuse=misuse, limits=Limits(op_timeout, memory_limit))
    plan = Plan(seed, Budget(limit_s, max_ops, exitfirst), like, compared, only_new)
    wanted = Wanted(
        [on_device(spec, device) for spec in dict.fromkeys(specs)],
        canary,
        judging,
        load(known_failures) if known_failures else (),
        state,
        partial(_pool, jobs, ray, memory_limit),
        Reports(report, report_dir),
    )
    raise typer.Exit(campaign(screen, plan, wanted, began_s, verbose))


def _check(only_new: bool, baseline: str | None, jobs: str, state: Path) -> None:
    if state == Path():
        raise typer.BadParameter("--state wants a folder of its own, and not the current one")
    if only_new and baseline is None:
        raise typer.BadParameter("--only-new needs --baseline SPEC: new compared with what?")
    if jobs != AUTO and not (jobs.isdigit() and 1 <= int(jobs) <= MOST_WORKERS):
        raise typer.BadParameter(f"-j {jobs}: write auto, or a number from 1 to {MOST_WORKERS}")


def _pool(jobs: str, ray: str | None, memory_bytes: int) -> Pool:
    """Return what runs the tasks.

    Raises:
        PoolError: there is no Ray, or nobody at its address.
    """
    if ray is not None:
        from radixcheck.campaign.ray import Cluster

        address = None if ray == HERE else ray
        return Cluster(address, None if jobs == AUTO else int(jobs))
    from radixcheck.campaign.workers import Workers

    return Workers(len(os.sched_getaffinity(0)) if jobs == AUTO else int(jobs), memory_bytes)
