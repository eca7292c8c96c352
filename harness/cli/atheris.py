"""``radixcheck atheris``: judge a tree by traces that the coverage of its code guides."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.util import find_spec
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from radixcheck.cli.codes import Code
from radixcheck.cli.errors import guarded, show_error
from radixcheck.cli.options import (
    FINDINGS_DIR,
    MEMORY_LIMIT,
    OP_TIMEOUT,
    ExitFirst,
    FindingsDir,
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
    time_limit_s,
)

if TYPE_CHECKING:
    from radixcheck.cli.runner import Plan
    from radixcheck.fuzzing import Orders
    from radixcheck.hosts import Host
    from radixcheck.loop import Report
    from radixcheck.report import Screen

Flags = Annotated[
    list[str] | None,
    Argument(
        metavar="[-- FLAG...]",
        help="Flags for libFuzzer, such as -max_len=4096 or -use_value_profile=1.",
        show_default=False,
    ),
]
CorpusDir = Annotated[
    Path | None,
    Option(
        "--corpus",
        metavar="DIR",
        help="Begin with what is kept here, traces or bytes, and keep what reached something new. "
        "Default: begin with the regressions, keep nothing.",
        show_default=False,
    ),
]
Minimise = Annotated[
    bool,
    Option("--minimise", help="Only reduce the corpus to what reaches all that it reaches."),
]
KeyLength = Annotated[
    int | None,
    Option(
        "--key-length",
        metavar="N",
        min=1,
        help="Cut keys to so many tokens: more operations a second, fewer situations.",
        show_default=False,
    ),
]
Cover = Annotated[
    list[str] | None,
    Option(
        "--cover",
        metavar="MODULE",
        help="Instrument this module too. Those of the target's own classes always are.",
        show_default=False,
    ),
]


@guarded
def atheris(
    context: typer.Context,
    spec: Spec,
    flags: Flags = None,
    corpus: CorpusDir = None,
    minimise: Minimise = False,
    key_length: KeyLength = None,
    cover: Cover = None,
    seed: Seed = None,
    max_time: MaxTime = None,
    max_ops: MaxOps = None,
    profile: ProfileName = None,
    exitfirst: ExitFirst = False,
    misuse: Misuse = False,
    op_timeout: OpTimeout = OP_TIMEOUT,
    memory_limit: MemoryLimit = MEMORY_LIMIT,
    findings_dir: FindingsDir = FINDINGS_DIR,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Judge a tree by traces that the coverage of its code guides. Needs Atheris."""
    _require_atheris()
    from radixcheck.cli.hosting import hosts, isolation
    from radixcheck.cli.runner import Plan, announced, check_folder
    from radixcheck.fuzzing import LONG_INPUTS, Orders
    from radixcheck.loop import Budget
    from radixcheck.report import Screen

    screen = Screen(verbosity=verbose - quiet)
    check_folder(findings_dir)
    seed = announced(screen, seed)
    limit_s = time_limit_s(context, max_time, max_ops, profile)
    plan = Plan(seed, Budget(limit_s, max_ops, exitfirst), misuse, findings_dir)
    own = [f"-seed={seed % 2**31 + 1}", *LONG_INPUTS]
    own += [f"-timeout={ceil(op_timeout)}", f"-rss_limit_mb={memory_limit >> 20}"]
    os.environ.update(_preloaded(screen, spec))
    with TemporaryDirectory(prefix="radixcheck-") as folder:
        inputs = _inputs(screen, corpus, Path(folder))
        all_flags = [*own, *(flags or ())]
        modules = tuple(cover or ())
        if minimise:
            raise typer.Exit(
                _reduce(screen, Orders(spec, folder, cover=modules), all_flags, inputs)
            )
        orders = Orders(
            spec,
            folder,
            misuse,
            limit_s,
            max_ops,
            exitfirst,
            key_length,
            tuple(cover or ()),
            os.getpid(),
        )
        with hosts(isolation(True, op_timeout, memory_limit)) as at_hand:
            host = at_hand.of(spec)
            raise typer.Exit(_fuzz(screen, host, orders, [*all_flags, str(inputs)], plan))


def _require_atheris() -> None:
    from radixcheck.registry import TargetError

    if find_spec("atheris") is None:
        hint = "pip install 'radixcheck[atheris]' (Linux, Python 3.11 to 3.13); all else works"
        raise TargetError("Atheris is not installed", f"{hint} without it")


def _fuzz(screen: Screen, host: Host, orders: Orders, flags: Sequence[str], plan: Plan) -> Code:
    """Fuzz, show everything, and answer what came of it."""
    from radixcheck import guided
    from radixcheck.cli.progress import Bar
    from radixcheck.cli.runner import Shown, code_of, promises_of
    from radixcheck.report import show_report
    from radixcheck.report.words import clean

    shown = Shown(screen, host, plan.findings_dir)
    with Bar(screen, clean(orders.spec, 24), plan.budget) as bar:

        def watch(report: Report) -> None:
            bar(report)
            shown(report)

        report = guided.run(
            host, orders, flags, seed=plan.seed, environment=os.environ, watch=watch
        )
    shown(report)
    show_report(screen, report, promises_of(report, plan.misuse))
    return code_of(report)


# ---- the corpus --------------------------------------------------------------------------


def _inputs(screen: Screen, corpus: Path | None, spare: Path) -> Path:
    """Return the folder of bytes to begin with; traces are written into it as bytes."""
    from radixcheck.bytecode import VERSION
    from radixcheck.corpus import load, packaged
    from radixcheck.fuzzing import plant
    from radixcheck.report.words import counted

    inputs = (corpus or spare) / f"bytes-{VERSION}"
    inputs.mkdir(parents=True, exist_ok=True)
    known = packaged() if corpus is None else load(corpus)
    for error in known.damaged:
        show_error(error)
    planted = plant([entry.trace for entry in known.entries], inputs)
    if corpus is not None and (left := len(known.entries) - planted):
        screen.say(f"{counted(left, 'trace')} of the corpus cannot be said in bytes")
    return inputs


def _reduce(screen: Screen, orders: Orders, flags: Sequence[str], inputs: Path) -> Code:
    """Let libFuzzer choose the few inputs that reach all that the corpus reaches."""
    from radixcheck import guided
    from radixcheck.report.words import counted

    with screen.busy("minimising"):
        before, after = guided.minimise(orders, flags, inputs, os.environ)
    screen.say(f"{counted(before, 'input')} reduced to {after:,}")
    return Code.CLEAN if before else Code.NOTHING


# ---- native targets ----------------------------------------------------------------------


def _preloaded(screen: Screen, spec: str) -> dict[str, str]:
    """Return the variables under which a library can be loaded that was built for libFuzzer."""
    from radixcheck.cli.hosting import NATIVE
    from radixcheck.fuzzing import preload
    from radixcheck.registry import module_of

    if not f"{module_of(spec)}.".startswith(f"{NATIVE}."):
        return {}
    variables = preload(Path(spec.partition("?")[0].partition(":")[2]))
    if not variables:
        screen.say(
            "The library tells no coverage, so only the Python around it guides. Built by "
            "`radixcheck native build --sanitize address,fuzzer-no-link` it would: see "
            "docs/coverage.md."
        )
    return variables
