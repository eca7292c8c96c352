"""The options that several commands share, each with one spelling, one variable and one help text.

Light on purpose: the whole of it is imported for ``radixcheck --help``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, TypeAlias

import typer
from typer import Argument, Option

FINDINGS_DIR = Path("radixcheck-findings")
OP_TIMEOUT = 10.0
MEMORY_LIMIT = 2 * 2**30
REPORT_DIR = Path("radixcheck-report")
REPORTS = ("junit", "json", "sarif", "md", "html")
"""The kinds of report."""

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|h|)")
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?")
_BYTES = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


class Profile(StrEnum):
    """A time budget by name."""

    smoke = "smoke"
    pr = "pr"
    nightly = "nightly"


BUDGET_S: Mapping[Profile, float] = {Profile.smoke: 3, Profile.pr: 20, Profile.nightly: 600}


def duration(text: str) -> float:
    """Read ``90s``, ``10m``, ``8h`` or a bare number of seconds.

    Raises:
        ValueError: `text` is none of these, or no time at all.
    """
    found = _DURATION.fullmatch(text.strip().lower())
    seconds = float(found[1]) * _SECONDS[found[2]] if found else 0.0
    if not seconds:
        raise ValueError(f"{text!r} is no duration: write 90s, 10m or 8h")
    return seconds


def duration_option(text: str | float) -> float:
    """Read a duration for a parameter; what is none, is a mistake of usage."""
    try:
        return duration(str(text))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def size(text: str) -> int:
    """Read ``2G``, ``512M`` or a bare number of bytes.

    Raises:
        ValueError: `text` is none of these, or nothing at all.
    """
    found = _SIZE.fullmatch(text.strip().lower())
    num_bytes = int(float(found[1]) * _BYTES[found[2]]) if found else 0
    if not num_bytes:
        raise ValueError(f"{text!r} is no amount of memory: write 2G or 512M")
    return num_bytes


def _size_option(text: str | int) -> int:
    try:
        return size(str(text))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def kinds(text: str) -> str:
    """Read ``junit,html``: the same again, each kind once and nothing around it.

    Raises:
        ValueError: one of them is no kind of report, or there is none.
    """
    found = dict.fromkeys(each.strip().lower() for each in text.split(",") if each.strip())
    if not found or not found.keys() <= {*REPORTS}:
        raise ValueError(f"{text!r}: write one or more of {', '.join(REPORTS)}")
    return ",".join(found)


def _report_option(text: str) -> str:
    try:
        return kinds(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def time_limit_s(
    context: typer.Context,
    max_time: float | None,
    max_ops: int | None,
    profile: Profile | None,
    default_s: float = BUDGET_S[Profile.pr],
) -> float | None:
    """Fold the options that limit a run into seconds; None where only operations limit it.

    A profile wins over a time that comes from further away, such as a flag over pyproject.toml.
    """
    if profile is not None and (
        max_time is None or _distance(context, "profile") < _distance(context, "max_time")
    ):
        return BUDGET_S[profile]
    return max_time if max_time is not None or max_ops is not None else default_s


def _distance(context: typer.Context, parameter: str) -> int:
    source = context.get_parameter_source(parameter)
    return _SOURCES.index(source.name) if source is not None else len(_SOURCES)


_SOURCES = ("COMMANDLINE", "ENVIRONMENT", "DEFAULT_MAP", "DEFAULT")


def on_device(spec: str, device: str | None) -> str:
    """Put a device behind the name of a target, as a person could have typed it."""
    return spec if device is None else f"{spec}{'&' if '?' in spec else '?'}device={device}"


Specs: TypeAlias = Annotated[
    list[str],
    Argument(
        metavar="SPEC",
        help="Targets: a registered name, package.module:factory or ./path.py:factory, "
        "each with ?key=value arguments.",
        show_default=False,
    ),
]
Spec: TypeAlias = Annotated[
    str, Argument(metavar="SPEC", help="The target, as for `run`.", show_default=False)
]
Target: TypeAlias = Annotated[
    str | None,
    Option("--target", "-t", metavar="SPEC", help="The target, as for `run`.", show_default=False),
]
Seed: TypeAlias = Annotated[
    int | None,
    Option(
        "--seed",
        min=0,
        envvar="RADIXCHECK_SEED",
        help="Repeat the run that this number began. Default: a new one.",
        show_default=False,
    ),
]
MaxTime: TypeAlias = Annotated[
    float | None,
    Option(
        "--max-time",
        metavar="TIME",
        parser=duration_option,
        envvar="RADIXCHECK_MAX_TIME",
        help="Stop each target after 90s, 10m or 8h. Reaching it is success.",
        show_default=False,
    ),
]
MaxOps: TypeAlias = Annotated[
    int | None,
    Option(
        "--max-ops",
        metavar="N",
        min=1,
        envvar="RADIXCHECK_MAX_OPS",
        help="Stop each target after so many operations; alone, it lifts the time limit.",
        show_default=False,
    ),
]
ExitFirst: TypeAlias = Annotated[
    bool, Option("--exitfirst", "-x", help="Stop with the first finding.", show_default=False)
]
ProfileName: TypeAlias = Annotated[
    Profile | None,
    Option(
        "--profile",
        envvar="RADIXCHECK_PROFILE",
        help="A time limit by name: smoke 3 s, pr 20 s (the default), nightly 10 min.",
        show_default=False,
    ),
]
Device: TypeAlias = Annotated[
    str | None,
    Option(
        "--device",
        metavar="cpu|cuda|auto",
        envvar="RADIXCHECK_DEVICE",
        help="Where a target keeps its tensors: the same as ?device= behind its name.",
        show_default=False,
    ),
]
Misuse: TypeAlias = Annotated[
    bool,
    Option(
        "--misuse",
        envvar="RADIXCHECK_MISUSE",
        help="Also make calls that no caller should make, such as a second unlock.",
        show_default=False,
    ),
]
Isolate: TypeAlias = Annotated[
    bool | None,
    Option(
        "--isolate/--no-isolate",
        envvar="RADIXCHECK_ISOLATE",
        help="Judge in a worker process, so that a crash or a hang is a finding. Default: on for "
        "native targets.",
        show_default=False,
    ),
]
OpTimeout: TypeAlias = Annotated[
    float,
    Option(
        "--op-timeout",
        metavar="TIME",
        parser=duration_option,
        envvar="RADIXCHECK_OP_TIMEOUT",
        help="An isolated target hangs when a call takes longer than this. Default: 10s.",
        show_default=False,
    ),
]
MemoryLimit: TypeAlias = Annotated[
    int,
    Option(
        "--memory-limit",
        metavar="SIZE",
        parser=_size_option,
        envvar="RADIXCHECK_MEMORY_LIMIT",
        help="An isolated target is ended when its process takes more than this. Default: 2G.",
        show_default=False,
    ),
]
KnownFailures: TypeAlias = Annotated[
    Path | None,
    Option(
        "--known-failures",
        metavar="FILE",
        envvar="RADIXCHECK_KNOWN_FAILURES",
        help="Failures that are counted, and not red: see docs/pytest.md.",
        show_default=False,
    ),
]
Workload: TypeAlias = Annotated[
    str | None,
    Option(
        "--workload",
        metavar="NAME|FILE",
        envvar="RADIXCHECK_WORKLOAD",
        help="Let the traffic of a service take turns with the swarm: see docs/workloads.md.",
        show_default=False,
    ),
]
FindingsDir: TypeAlias = Annotated[
    Path,
    Option(
        "--findings-dir",
        metavar="DIR",
        envvar="RADIXCHECK_FINDINGS_DIR",
        help="Where findings are saved as trace files.",
    ),
]
ReportKinds: TypeAlias = Annotated[
    str | None,
    Option(
        "--report",
        metavar="KIND,...",
        parser=_report_option,
        envvar="RADIXCHECK_REPORT",
        help=f"Write reports: any of {', '.join(REPORTS)}. See docs/reports.md.",
        show_default=False,
    ),
]
ReportDir: TypeAlias = Annotated[
    Path,
    Option(
        "--report-dir",
        metavar="DIR",
        envvar="RADIXCHECK_REPORT_DIR",
        help="Where reports are written.",
    ),
]
Quiet: TypeAlias = Annotated[
    bool, Option("--quiet", "-q", help="Verdicts only.", show_default=False)
]
Verbose: TypeAlias = Annotated[
    bool,
    Option("--verbose", "-v", help="Everything, with tracebacks of errors.", show_default=False),
]
