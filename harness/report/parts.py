"""From what a command has seen to the document of its reports."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TypeVar

from radixcheck import trace
from radixcheck.arena import required, situations
from radixcheck.finding import Edge, Finding, Snapshot, Step
from radixcheck.loop import Report
from radixcheck.operations import Freed, Namespace
from radixcheck.report.block import Origin, config_of, program_of, reproduce_words
from radixcheck.report.document import (
    AnswerPart,
    DriverPart,
    EdgePart,
    FindingPart,
    HoldingPart,
    KnownPart,
    Outcome,
    OwnerPart,
    PicturePart,
    RatePart,
    RowPart,
    SituationPart,
    SkippedPart,
    StepPart,
    TargetPart,
    TreePart,
    Unfinished,
    UnjudgedPart,
)
from radixcheck.report.owners import claims
from radixcheck.report.steps import show_operation, show_outcome
from radixcheck.report.summary import describe_configs, verdict_words
from radixcheck.report.unjudged import Promises, Unjudged, judged_in, unjudged_in
from radixcheck.report.words import clean, spell
from radixcheck.rules import COST, RULES

LONGEST = 20_000
"""Characters of an expectation, of an answer, of an exception's text."""

P = TypeVar("P")


def target_part(
    report: Report,
    verdict: Outcome,
    promises: Sequence[Promises] = (),
    findings: Iterable[FindingPart] = (),
    known: Iterable[KnownPart] = (),
    drivers: Iterable[DriverPart] = (),
    rates: Iterable[RatePart] = (),
) -> TargetPart:
    """Tell what a run has seen of one target.

    Args:
        verdict: what the run is worth, as the exit code says it.
        promises: what the target promises, one entry per configuration.
    """
    return TargetPart(
        spec=_line(report.spec),
        verdict=verdict,
        words=verdict_words(report) + ", interrupted" * report.interrupted,
        level=report.arenas[0].level.name if report.arenas else "tree",
        seed=report.seed,
        operations=report.operations,
        traces=report.traces,
        elapsed_s=report.elapsed_s,
        configurations=describe_configs([arena.config for arena in report.arenas]),
        rules=tuple(judged_in(promises)),
        situations=tuple(_situations(report)),
        missing=tuple(report.missing),
        unjudged=_unjudged(promises),
        skipped=tuple(SkippedPart(_line(why), each) for why, each in report.skipped.most_common()),
        findings=tuple(findings),
        known=tuple(known),
        cut_short=report.cut_short,
        drivers=tuple(drivers),
        rates=tuple(rates),
    )


def _situations(report: Report) -> Iterable[SituationPart]:
    wanted = set(required(report.arenas))
    for name, each in situations(report.arenas).items():
        yield SituationPart(name, each.statement, name in wanted, report.reached[name])


def _unjudged(promises: Sequence[Promises]) -> tuple[UnjudgedPart, ...]:
    """Fold the rules that the same reason rules out in the same number of configurations."""
    folded: dict[tuple[Unjudged, int], list[str]] = {}
    for each, count in unjudged_in(promises):
        folded.setdefault((each._replace(rule=""), count), []).append(each.rule)
    return tuple(
        UnjudgedPart(each.reason, tuple(rules), each.hint, count)
        for (each, count), rules in folded.items()
    )


# ---- a finding ---------------------------------------------------------------------------


def finding_part(finding: Finding, origin: Origin, *, repeats: int = 0) -> FindingPart:
    """Tell all that was seen of one finding."""
    violation, film = finding.violation, _Film()
    rule = RULES[violation.rule]
    pictures = tuple(film.picture(each) for each in finding.pictures)
    return FindingPart(
        rule=rule.name,
        severity=str(rule.severity),
        statement=rule.statement,
        cost=COST[rule.severity],
        operation=violation.operation,
        signature=violation.signature,
        config=config_of(finding.trace.config.items()),
        program=_lines(program_of(finding, origin)),
        expected=_line(violation.expected),
        actual=_line(violation.actual),
        detail=_lines(violation.detail),
        also=violation.also,
        raised=_lines("\n".join(origin.raised)),
        flaky=finding.flaky,
        repeats=repeats,
        seed=finding.seed,
        level=origin.level.name,
        situations=finding.situations,
        shrunk=_how_far(finding),
        original_operations=finding.original_operations,
        reproduce=_line(reproduce_words(finding, origin)),
        path=_line(str(origin.saved or "")),
        trace=_lines(trace.dumps(finding.trace).decode("utf-8", "replace")),
        answers=tuple(
            AnswerPart(_line(spec), show_outcome(what)) for spec, what in finding.answers
        ),
        steps=tuple(_steps(finding)),
        edges=tuple(film.edges),
        holdings=tuple(film.holdings),
        pictures=pictures,
    )


def _how_far(finding: Finding) -> Unfinished | None:
    """Say how far a finding is shrunk, if time was too short for all of it."""
    if not finding.steps:
        return "not"
    return "partly" if finding.unfinished and not finding.flaky else None


def _steps(finding: Finding) -> Iterable[StepPart]:
    unpictured = len(finding.steps) - max(0, len(finding.pictures) - 1)
    for place, step in enumerate(finding.steps):
        before = finding.pictures[place - unpictured] if place >= unpictured else None
        yield _step(step, before)


def _step(step: Step, before: Snapshot | None) -> StepPart:
    operation, outcome = step.operation, step.outcome
    freed = chain.from_iterable(outcome.groups) if isinstance(outcome, Freed) else ()
    return StepPart(
        kind=operation.kind,
        call=show_operation(operation),
        answer=show_outcome(outcome),
        clock=step.clock,
        audit=step.audit,
        tokens=spell(getattr(operation, "tokens", ())),
        namespace=_named(getattr(operation, "namespace", ())),
        slots=spell([*getattr(outcome, "slots", ()), *freed]),
        owners=tuple(
            OwnerPart(spell(claim.slots), str(claim._replace(trouble="")), claim.trouble)
            for claim in (claims(step, before) if before is not None else ())
        ),
    )


class _Film:
    """Keeps each edge and each holding of some pictures once."""

    def __init__(self) -> None:
        self.edges: dict[EdgePart, int] = {}
        self.holdings: dict[HoldingPart, int] = {}

    def picture(self, snapshot: Snapshot) -> PicturePart:
        """Name what is stored by places."""
        trees = tuple(
            TreePart(_named(namespace), tuple(self._rows(tree)))
            for namespace, tree in snapshot.trees.items()
            if tree
        )
        holdings = (
            HoldingPart(_line(each.owner), spell(each.slots), each.start, _line(each.note))
            for each in snapshot.holdings
        )
        return PicturePart(trees, tuple(_place(self.holdings, each) for each in holdings))

    def _rows(self, tree: Sequence[Edge]) -> Iterable[RowPart]:
        # With a stack of its own: a tree may be deeper than Python's recursion limit.
        waiting = [(edge, 0) for edge in reversed(tree)]
        while waiting:
            edge, depth = waiting.pop()
            handles = tuple(map(_line, edge.handles))
            part = EdgePart(spell(edge.tokens), spell(edge.slots), edge.locks, handles)
            yield RowPart(_place(self.edges, part), depth)
            waiting += [(child, depth + 1) for child in reversed(edge.children)]


def _place(known: dict[P, int], part: P) -> int:
    return known.setdefault(part, len(known))


# ---- text --------------------------------------------------------------------------------


def _named(namespace: Namespace) -> str:
    return clean(repr(namespace)) if namespace else ""


def _line(text: str) -> str:
    return clean(text, LONGEST)


def _lines(text: str) -> str:
    """Keep the lines of a text, and make each of them safe."""
    return "\n".join(clean(each, len(each)) for each in text.split("\n"))
