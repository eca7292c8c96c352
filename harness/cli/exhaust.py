"""``radixcheck exhaust``: judge a tree by every trace up to a bound, for a sentence to quote."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from radixcheck.cli.codes import Code
from radixcheck.cli.errors import guarded
from radixcheck.cli.options import (
    FINDINGS_DIR,
    MEMORY_LIMIT,
    OP_TIMEOUT,
    Device,
    FindingsDir,
    Isolate,
    MaxTime,
    MemoryLimit,
    OpTimeout,
    Quiet,
    Spec,
    Verbose,
    on_device,
)

if TYPE_CHECKING:
    from radixcheck.drivers.exhaustive import Scope, Search
    from radixcheck.hosts import Host
    from radixcheck.report import Screen
    from radixcheck.trace import Config


@guarded
def exhaust(
    spec: Spec,
    operations: Annotated[
        int, typer.Option("--operations", min=1, help="The longest traces have so many.")
    ] = 4,
    tokens: Annotated[
        int, typer.Option("--tokens", min=1, help="Different tokens in the keys of a trace.")
    ] = 2,
    key_length: Annotated[
        int, typer.Option("--key-length", min=0, help="Tokens in the longest key.")
    ] = 3,
    locks: Annotated[int, typer.Option("--locks", min=0, help="Locks held at the same time.")] = 1,
    page_size: Annotated[
        int | None,
        typer.Option("--page-size", min=1, help="Default: the spec's, or 1.", show_default=False),
    ] = None,
    evict: Annotated[
        list[int] | None,
        typer.Option(
            "--evict",
            min=0,
            help="Tokens an eviction asks for; may be repeated. Default: 1.",
            show_default=False,
        ),
    ] = None,
    namespaces: Annotated[
        int, typer.Option("--namespaces", min=0, help="Namespaces beside the one without a name.")
    ] = 0,
    max_time: MaxTime = None,
    device: Device = None,
    isolate: Isolate = None,
    op_timeout: OpTimeout = OP_TIMEOUT,
    memory_limit: MemoryLimit = MEMORY_LIMIT,
    findings_dir: FindingsDir = FINDINGS_DIR,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Judge a cache by every trace up to a bound: no violation, or the smallest there is."""
    from radixcheck.cli.hosting import hosts, isolation
    from radixcheck.cli.runner import check_folder
    from radixcheck.drivers.exhaustive import Scope
    from radixcheck.report import Screen

    screen = Screen(verbosity=verbose - quiet)
    check_folder(findings_dir)
    with hosts(isolation(isolate, op_timeout, memory_limit)) as at_hand:
        host = at_hand.of(on_device(spec, device))
        amounts = tuple(dict.fromkeys(evict or (1,)))
        config = _config(host, page_size)
        scope = Scope(operations, tokens, key_length, locks, amounts, namespaces, config)
        found = _searched(screen, host, scope, max_time)
        _show_smallest(screen, host, found, findings_dir)
        _show_result(screen, found)
    raise typer.Exit(_code(found))


def _config(host: Host, page_size: int | None) -> Config:
    """Return the target's first configuration, with pages of this size."""
    first = host.source.configurations()[0]
    size = page_size or host.source.arguments.get("page_size", 1)
    return {**first, "page_size": size}


def _code(found: Search) -> Code:
    if found.interrupted:
        return Code.INTERRUPTED
    if found.smallest is not None:
        return Code.VIOLATION
    if not found.traces:
        return Code.NOTHING
    return Code.INCONCLUSIVE if found.flaky else Code.CLEAN


# ---- while it runs -----------------------------------------------------------------------


def _searched(screen: Screen, host: Host, scope: Scope, max_time_s: float | None) -> Search:
    """Search, and show a person who watches how far it is."""
    from radixcheck.drivers.exhaustive import search
    from radixcheck.report.words import clean

    if not screen.animated or screen.verbosity < 0:
        return search(host, scope, max_time_s=max_time_s)
    with screen.console.status(clean(f"{host.source.spec}: every trace")) as status:
        return search(
            host,
            scope,
            max_time_s=max_time_s,
            watch=lambda found: status.update(clean(progress(found))),
        )


def progress(found: Search) -> str:
    """Say how far a search is."""
    from radixcheck.report.words import counted, show_duration

    rate = found.traces / max(found.elapsed_s, 1e-9)
    left = "" if found.left_s is None else f", about {show_duration(found.left_s)} left"
    longest = f"at {counted(found.depth + 1, 'operation')} of {found.scope.operations}"
    return f"{counted(found.traces, 'trace')}, {rate:,.0f}/s, {longest}{left}"


# ---- what came of it ---------------------------------------------------------------------


def _show_smallest(screen: Screen, host: Host, found: Search, folder: Path) -> None:
    """Show and save the smallest counterexample, if there is one. Nothing could shrink it."""
    from msgspec.structs import replace

    from radixcheck.cli.results import Failed, as_finding
    from radixcheck.cli.runner import keep, show
    from radixcheck.trace import Found

    if found.smallest is None:
        return
    trace, violation, _ = found.smallest
    seen = as_finding(Failed(trace, host, violation))
    broken = seen.violation
    note = Found(broken.rule, broken.operation, found.spec, situations=seen.situations)
    finding = replace(seen, trace=trace.replace(found=note))
    show(screen, host, finding, keep(finding, folder))


def _show_result(screen: Screen, found: Search) -> None:
    from radixcheck.arena import missing, required
    from radixcheck.report.screen import line
    from radixcheck.report.words import clean, counted, show_duration

    good = found.smallest is None and not found.flaky
    mark, style = (screen.glyphs.good, "green") if good else (screen.glyphs.bad, "red")
    screen.say((f"{mark} {clean(found.spec)}: ", f"bold {style}"), clean(sentence(found), 1000))
    if screen.verbosity < 0:
        return
    wanted = required([found.arena])
    reached = len(wanted) - len(missing(found.reached, [found.arena]))
    how = f"{found.runs:,} run, the others lead where one of these does"
    if found.replayed_because:
        how = f"each run from the start, because {found.replayed_because}"
    facts = [
        ("traces", f"{found.traces:,} in {show_duration(found.elapsed_s)}: {how}"),
        ("operations", ", ".join(_kinds(found))),
        ("situations", f"{reached} of the {len(wanted)} that a run must reach"),
    ]
    if found.flaky:
        facts.append(("flaky", f"{counted(found.flaky, 'trace')} broke a rule and then did not"))
    screen.table([(line((word, "dim")), clean(text, 1000)) for word, text in facts], indent=2)


def _kinds(found: Search) -> Iterator[str]:
    from radixcheck.drivers.exhaustive import Alphabet

    for kind in Alphabet(found.scope, found.arena).kinds:
        amounts = " or ".join(map(str, found.scope.evictions))
        yield {"evict": f"evict {amounts}", "audit": "at the end an audit"}.get(kind, kind)


def sentence(found: Search) -> str:
    """Say what is known now, in a sentence that can be quoted."""
    if found.smallest is not None:
        return _counterexample(found)
    most = found.scope.operations
    if found.depth == most:
        return f"no violation in all {found.traces:,} traces of at most {_size(most)}{_over(found)}"
    stopped = f"no violation in {found.traces:,} traces{_over(found)}"
    if not found.depth:
        return f"{stopped}, which are not all of 1 operation"
    more = ", and some of one more" if found.traces > found.complete else ""
    return f"{stopped}: all {found.complete:,} of at most {_size(found.depth)}{more}"


def _counterexample(found: Search) -> str:
    assert found.smallest is not None
    size = len(found.smallest.trace.operations)
    tokens = f"{found.smallest.tokens} token{'s' * (found.smallest.tokens != 1)}"
    what = f"{found.smallest.violation.rule} after {_size(size)} with {tokens}"
    if found.proven:
        nor = "nor any of as many with fewer tokens"
        return f"{what}; proven smallest{_over(found)}: no trace of fewer operations fails, {nor}"
    return f"{what}; no trace of fewer operations fails{_over(found)}"


def _size(operations: int) -> str:
    return f"{operations} operation{'s' * (operations != 1)}"


def _over(found: Search) -> str:
    """Name the bounds."""
    scope = found.scope
    tokens = f"{scope.tokens} token{'s' * (scope.tokens != 1)}"
    locks = {0: "no lock", 1: "one lock"}.get(scope.locks, f"{scope.locks} locks")
    bounds = [tokens, f"keys up to length {scope.key_length}"]
    bounds += [f"page {scope.config.get('page_size', 1)}", locks]
    if scope.namespaces:
        bounds.append(f"{scope.namespaces + 1} namespaces")
    return f" over {', '.join(bounds)}"
