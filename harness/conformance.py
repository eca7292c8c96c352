"""The suite that every target should pass, for a project's own tests.

    from radixcheck.conformance import ConformanceSuite, check_target

    class TestMyCache(ConformanceSuite):  # under pytest: a test per configuration, trace and rule
        target = MyCache

    check_target(MyCache)                 # anywhere: what is wrong first is raised

``pytest --radix-target SPEC`` runs the same suite from any folder: `radixcheck.pytest_plugin`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from radixcheck import known, loop
from radixcheck.arena import Arena
from radixcheck.cli.hosting import Isolation, make_host
from radixcheck.cli.options import FINDINGS_DIR
from radixcheck.cli.results import Saved, Status, as_finding, packaged, replayed, saved_in
from radixcheck.cli.runner import keep
from radixcheck.finding import Finding
from radixcheck.hosts import Here, Host
from radixcheck.loop import Budget, Report
from radixcheck.protocol import Factory
from radixcheck.registry import source_of
from radixcheck.report.block import Origin, config_of
from radixcheck.report.plain import plain_text
from radixcheck.report.screen import BOXES
from radixcheck.report.unjudged import Promises, unjudged
from radixcheck.rules import RULES

__all__ = ["ConformanceSuite", "Inconclusive", "Settings", "Violated", "check_target"]

OPERATIONS = 10_000
"""Operations per configuration: a second or two for a plain tree."""

PATIENCE = 8
"""A configuration that has not reached every required situation by then gets so many times more."""

RULES_OF = {
    "tree": {"tree", "memory"},
    "pool": {"pool", "memory"},
    "requests": {"pool", "requests"},
}
"""The levels whose rules may apply to a target of each level."""


class Violated(AssertionError):
    """A rule is broken; the message is the whole finding, with a program that shows it."""


class Inconclusive(AssertionError):
    """Nothing is broken, and nothing is proven either: a dangerous situation was never reached, or
    a finding did not come back."""


class NotJudged(Exception):
    """It does not apply to this target; the message says why."""


class KnownFailure(Exception):
    """A rule is broken, and the project knows; the message is the reason."""


class Settings(NamedTuple):
    """How to judge."""

    seed: int = 0
    operations: int = OPERATIONS
    """Per configuration."""
    max_time_s: float | None = None
    """For all configurations together; with it the number of operations is not limited."""
    corpus: Path | None = None
    """A folder of traces of the project's own, replayed besides those that come along."""
    known: tuple[known.Failure, ...] = ()
    findings_dir: Path = FINDINGS_DIR
    """Where what is found is saved."""


DEFAULTS = Settings()


class Conformance:
    """One target, and all that is asked of it.

    Args:
        target: a spec, or a factory.

    Raises:
        TargetError: the target cannot be resolved, or not opened in one of its configurations.
    """

    def __init__(self, target: Factory | str, settings: Settings = DEFAULTS) -> None:
        self.settings = settings
        self.host: Host = (
            make_host(target, Isolation()) if isinstance(target, str) else Here(source_of(target))
        )
        self.arenas = self.host.arenas()
        self.covered: list[known.Failure] = []
        """The known failures that occurred, once per time."""
        self.close = self.host.close

    # ---- what there is to ask ------------------------------------------------------------

    def traces(self) -> Iterator[Saved]:
        """List the traces for this level that come along with radixcheck, and the project's own."""
        kinds = self.arenas[0].level.kinds
        for saved in packaged():
            if all(operation.kind in kinds for operation in saved.load().operations):
                yield saved
        if self.settings.corpus is not None:
            yield from saved_in([self.settings.corpus])

    def rules(self) -> list[str]:
        """Name the rules that there are for targets of this level."""
        levels = RULES_OF[self.arenas[0].level.name]
        return [name for name, rule in RULES.items() if rule.level in levels]

    # ---- the questions -------------------------------------------------------------------

    def check_adapter(self) -> None:
        """Try the plain claims of `radixcheck smoke`.

        Raises:
            Violated: one of them is false.
        """
        for tried in self.host.claims():
            if (trouble := tried.trouble) is not None:
                hint = f"\n{trouble.hint}" if trouble.hint else ""
                raise Violated(f"{tried.claim.words}: no. {trouble.seen}{hint}")

    def check_arena(self, arena: Arena) -> None:
        """Judge one configuration by generated traces.

        Raises:
            Violated, Inconclusive, KnownFailure: as their names say.
        """
        report = self._run(arena, 1)
        if report.missing and not report.findings and self.settings.max_time_s is None:
            report = self._run(arena, PATIENCE)
        if report.interrupted:
            raise KeyboardInterrupt
        folder = self.settings.findings_dir
        shown = [self._text(each, keep(each, folder)) for each in report.findings]
        if report.violations:
            raise Violated("\n".join(shown))
        if report.missing:
            shown.append(f"never reached, so nothing is proven: {', '.join(report.missing)}")
        if shown:
            raise Inconclusive("\n".join(shown))
        if report.known:
            raise KnownFailure(self._reasons(report))

    def check_trace(self, saved: Saved) -> None:
        """Replay a saved trace.

        Raises:
            Violated, NotJudged, KnownFailure: as their names say.
        """
        spec = self.host.source.spec
        result = replayed(saved, spec, lambda _: self.host)
        if result.status is Status.NOT_APPLICABLE:
            raise NotJudged(result.words)
        if result.status is Status.ERROR:
            raise Violated(f"{result.name}: {result.words}")
        if result.failed is not None:
            if (failure := self._known(result.failed.violation.signature)) is not None:
                raise KnownFailure(failure.reason)
            path = Path(saved.name)
            raise Violated(self._text(as_finding(result.failed), path if path.exists() else None))

    def check_rule(self, rule: str) -> None:
        """See that the target is judged by `rule` in some configuration.

        Raises:
            NotJudged: it is not, as what it promises rules that out.
        """
        reasons = [
            [each.reason for each in unjudged(_promises(arena)) if each.rule == rule]
            for arena in self.arenas
        ]
        if all(reasons):
            raise NotJudged(reasons[0][0])

    # ---- inside --------------------------------------------------------------------------

    def _run(self, arena: Arena, patience: int) -> Report:
        limit_s = self.settings.max_time_s
        share_s = None if limit_s is None else limit_s / len(self.arenas)
        operations = None if limit_s is not None else self.settings.operations * patience
        return loop.run(
            self.host,
            seed=self.settings.seed,
            budget=Budget(share_s, operations, first_only=True),
            arenas=[arena],
            known=lambda signature: self._known(signature) is not None,
        )

    def _known(self, signature: known.Signature) -> known.Failure | None:
        failure = known.covering(
            self.settings.known, self.host.source.spec, signature, known.today()
        )
        if failure is not None:
            self.covered.append(failure)
        return failure

    def _reasons(self, report: Report) -> str:
        covering = [self._known(signature) for signature in report.known]
        return "; ".join(dict.fromkeys(each.reason for each in covering if each))

    def _text(self, finding: Finding, saved: Path | None) -> str:
        """Write the block of a finding as plain text, without the number that it has in a run."""
        arena = self.host.look(finding.trace.config)
        origin = Origin(self.host.source, arena.capabilities, saved, arena.level)
        return plain_text(finding, origin).removeprefix(f"{BOXES.line * 2} finding 1: ")


def _promises(arena: Arena) -> Promises:
    return Promises(arena.capabilities, arena.methods, False, arena.level.name)


def check_target(target: Factory | str, settings: Settings = DEFAULTS) -> None:
    """Put a target to the whole suite.

    Args:
        target: a factory, or a spec.

    Raises:
        Violated: a rule is broken; the message is the finding.
        Inconclusive: a required situation was never reached, or a finding did not come back.
        TargetError: the target cannot be resolved or opened.
    """
    conformance = Conformance(target, settings)
    try:
        conformance.check_adapter()
        for saved in conformance.traces():
            with suppress(NotJudged, KnownFailure):
                conformance.check_trace(saved)
        for arena in conformance.arenas:
            with suppress(KnownFailure):
                conformance.check_arena(arena)
    finally:
        conformance.close()


class ConformanceSuite:
    """The suite as a class for pytest: subclass it, and say what the `target` is.

    ::

        test_adapter                     the plain claims of `radixcheck smoke`
        test_generated[page_size=4]      generated traces, in every configuration
        test_trace[sglang-7-edge-split]  a trace of a public bug, or of the project's own
        test_rule[eviction-order]        skipped, with the reason, if it does not apply
    """

    target: ClassVar[Any] = None
    """A factory or a spec."""
    settings: ClassVar[Settings] = DEFAULTS
    """What the command line does not say otherwise."""

    def test_adapter(self, radix_conformance: Conformance) -> None:
        """The adapter answers as a cache should."""
        radix_conformance.check_adapter()

    def test_generated(self, radix_conformance: Conformance, radix_arena: Arena) -> None:
        """Generated traces break no rule, and reach every dangerous situation."""
        radix_conformance.check_arena(radix_arena)

    def test_trace(self, radix_conformance: Conformance, radix_trace: Saved) -> None:
        """A saved trace breaks no rule."""
        radix_conformance.check_trace(radix_trace)

    def test_rule(self, radix_conformance: Conformance, radix_rule: str) -> None:
        """The rule applies to this target."""
        radix_conformance.check_rule(radix_rule)


def arena_id(arena: Arena) -> str:
    """Name a configuration as ``page_size=4,eviction=lru``."""
    return config_of(arena.config.items()).replace(", ", ",") or "default"
