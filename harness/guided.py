"""A run that coverage guides: a fuzzer proposes and judges in a process of its own; what it leaves
is judged again here, shrunk, and a finding like any other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from shutil import rmtree

from msgspec.structs import replace

from radixcheck.fuzzing import Fuzzer, Orders, Seen, dialect_of, signature_of, trace_of
from radixcheck.hosts import Host
from radixcheck.loop import MAX_FINDINGS, Report, ShrinkingInterrupted, Watch, investigate
from radixcheck.registry import TargetError
from radixcheck.rules import Violation
from radixcheck.trace import Trace


def run(
    host: Host,
    orders: Orders,
    flags: Sequence[str],
    *,
    seed: int,
    environment: Mapping[str, str],
    watch: Watch = lambda report: None,
) -> Report:
    """Fuzz as ordered, then turn what was found into findings. Ctrl-C ends the former.

    Args:
        host: where the target lives while it is judged again; it may die there.
        flags: for libFuzzer, with the folders of its corpus.
        environment: of the process that fuzzes.

    Raises:
        TargetError: the target cannot be opened or is no tree, or the fuzzer could not begin.
        BadAnswer: its adapter answered what cannot be read.
    """
    report = Report(host.source.spec, seed, host.arenas())
    dialect = dialect_of(report.arenas, orders.key_length)
    fuzzer = Fuzzer(orders, flags, environment)
    try:
        for seen in fuzzer.watch():
            _count(seen, report)
            watch(report)
    except KeyboardInterrupt:
        report.interrupted = True
    finally:
        fuzzer.stop()
    found = [
        (trace_of(data, dialect, misuse=orders.misuse), violation)
        for data, violation in fuzzer.found()
    ]
    if not report.traces and not found and not report.interrupted:
        raise TargetError("the fuzzer ended before its first trace", fuzzer.said())
    for _ in _investigated(host, found, report):
        watch(report)
    _count(fuzzer.seen(), report)
    return report


def _investigated(
    host: Host, found: Sequence[tuple[Trace, Violation]], report: Report
) -> Iterator[None]:
    """Find out what each trace shows; a signature is shrunk once. What is not seen again, is flaky:
    a run that saw it is not green."""
    try:
        for trace, told in found[:MAX_FINDINGS]:
            last = replace(told, step=len(trace.operations) - 1)
            violation = host.check(trace).violation or last
            known = {finding.violation.signature for finding in report.findings}
            if violation.signature not in known:
                report.findings.append(investigate(host, trace, violation, report.seed))
            yield
    except KeyboardInterrupt as stop:
        if isinstance(stop, ShrinkingInterrupted):
            report.findings.append(stop.finding)
        report.interrupted = True


def _count(seen: Seen, report: Report) -> None:
    """Take over what the fuzzer has counted."""
    report.traces, report.operations = seen.traces, seen.operations
    report.elapsed_s = seen.elapsed_s
    report.reached, report.skipped = Counter(seen.reached), Counter(seen.skipped)
    known = {finding.violation.signature for finding in report.findings}
    repeats = {signature_of(text): count - 1 for text, count in seen.repeats.items()}
    report.repeats = Counter({each: count for each, count in repeats.items() if each in known})


def minimise(
    orders: Orders, flags: Sequence[str], inputs: Path, environment: Mapping[str, str]
) -> tuple[int, int]:
    """Reduce a folder of bytes to those that together reach all that it reaches: places in the
    code, and situations. Answer how many there were, and how many are left.

    Raises:
        TargetError: the fuzzer failed; nothing has changed.
    """
    fewer, gone = inputs.with_suffix(".fewer"), inputs.with_suffix(".gone")
    fewer.mkdir()
    try:
        fuzzer = Fuzzer(orders, ["-merge=1", *flags, str(fewer), str(inputs)], environment)
        try:
            fuzzer.process.wait()
        finally:
            fuzzer.stop()
        if fuzzer.process.returncode:
            raise TargetError("the corpus could not be minimised", fuzzer.said())
        counts = len(list(inputs.iterdir())), len(list(fewer.iterdir()))
        inputs.rename(gone)
        fewer.rename(inputs)
        rmtree(gone)
    finally:
        rmtree(fewer, ignore_errors=True)
    return counts
