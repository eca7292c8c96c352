"""``radixcheck diff``: several targets on the same traces, and the first step where they part."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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
    Specs,
    Verbose,
    on_device,
    time_limit_s,
)


@guarded
def diff(
    context: typer.Context,
    specs: Specs,
    exact: Annotated[
        bool,
        typer.Option(
            "--exact",
            help="Want equal answers, as of replicas or of two ports of one tree.",
            show_default=False,
        ),
    ] = False,
    traces: Annotated[
        list[Path] | None,
        typer.Option(
            "--replay",
            metavar="PATH",
            help="Run saved traces again, rather than new ones. May be given several times.",
            show_default=False,
        ),
    ] = None,
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
    """Judge caches side by side: who breaks a rule that the others keep, or answers otherwise?

    Each lives in a worker of its own, so two releases of one package may be compared.
    """
    from radixcheck.cli.hosting import hosts, isolation
    from radixcheck.cli.replay import replay_all
    from radixcheck.cli.results import saved_in
    from radixcheck.cli.runner import Plan, announced, check_folder, judge
    from radixcheck.hosts.lockstep import Lockstep
    from radixcheck.loop import Budget
    from radixcheck.report import Screen

    if len(specs) < 2:
        raise typer.BadParameter("one target has nobody to part from: give two or more")
    screen = Screen(verbosity=verbose - quiet)
    with hosts(isolation(isolate is not False, op_timeout, memory_limit)) as at_hand:
        together = Lockstep([at_hand.of(on_device(each, device)) for each in specs], exact=exact)
        if traces:
            saved = list(saved_in(traces))
            raise typer.Exit(replay_all(screen, saved, together.source.spec, lambda _: together))
        seed = announced(screen, seed)
        check_folder(findings_dir)
        limit_s = time_limit_s(context, max_time, max_ops, profile)
        plan = Plan(seed, Budget(limit_s, max_ops, exitfirst), misuse, findings_dir)
        raise typer.Exit(judge(screen, together, plan)[1])
