"""What a campaign has brought: findings as they come, and in the end a summary of everything."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from msgspec import structs

from radixcheck.campaign.night import Night, Plan
from radixcheck.campaign.standing import Standing
from radixcheck.campaign.state import State, finding_name
from radixcheck.cli import runner
from radixcheck.cli.codes import Code
from radixcheck.cli.errors import show_error
from radixcheck.cli.reports import Reports
from radixcheck.cli.told import finding_told, known_told, origin_of, outcome
from radixcheck.finding import Finding
from radixcheck.hosts import Host
from radixcheck.known import Failure
from radixcheck.loop import Report
from radixcheck.report import Screen, show_finding, show_report
from radixcheck.report.document import DriverPart, FindingPart, RatePart
from radixcheck.report.parts import target_part
from radixcheck.report.words import clean, counted, goes_on, show_duration
from radixcheck.rules import FATAL

CANARY_WORDS = {
    Code.CLEAN: "found",
    Code.INCONCLUSIVE: "missed",
    Code.INTERRUPTED: "not found yet",
    Code.UNUSABLE: "not judged",
}
"""What reports say of a canary, by the code that `Morning` has for it."""


class Morning:
    """Shows what a campaign has brought.

    Args:
        hosts: where each target can be looked at, by its spec.
        known: failures that are no news, those that have expired too.
        reports: what is told when the command ends.
    """

    def __init__(
        self,
        screen: Screen,
        night: Night,
        plan: Plan,
        state: State,
        hosts: Mapping[str, Host],
        known: Sequence[Failure],
        reports: Reports,
    ) -> None:
        self._screen, self._night, self._plan, self._state = screen, night, plan, state
        self._hosts, self._known, self._reports = hosts, known, reports
        self._shown: set[str] = set()
        self._trouble = ""

    # ---- as they come --------------------------------------------------------------------

    def show_new(self, last: bool = False) -> None:
        """Show each finding once, when it is shrunk and the baseline has been asked.

        Args:
            last: show what is not so far as well: there is no more time.
        """
        for standing in self._night.standings:
            if not standing.canary:
                for finding in list(standing.report.findings):
                    self._show(standing, finding, last)
        self._show_trouble()

    def _show(self, standing: Standing, finding: Finding, last: bool) -> None:
        signature = finding.violation.signature
        name, new = finding_name(standing.spec, signature), standing.new.get(signature)
        ready = finding.steps and (new is not None or not self._plan.baseline)
        if name in self._shown or not (ready or last):
            return
        self._shown.add(name)
        if self._is_excused(standing, finding):
            return
        self._show_block(standing, finding)
        if not finding.steps:
            self._screen.say((f"  {goes_on('not')}", "yellow"))

    def _show_block(self, standing: Standing, finding: Finding) -> None:
        screen, host = self._screen, self._hosts[standing.spec]
        saved = self._saved(standing, finding)
        if screen.verbosity < 0:
            runner.show(screen, host, finding, saved)
            return
        raises = screen.verbosity > 0 and finding.violation.rule == "unexpected-error"
        plainly = _replays_plainly(standing, finding)
        origin = origin_of(host, finding, saved, raises=raises, plainly=plainly)
        show_finding(screen, finding, origin, len(self._shown))

    def _saved(self, standing: Standing, finding: Finding) -> Path | None:
        path = self._state.finding(finding_name(standing.spec, finding.violation.signature))
        return path if path.exists() else None

    def _is_excused(self, standing: Standing, finding: Finding) -> bool:
        """Tell whether nobody wants to hear of a finding, since it is not new."""
        return self._plan.only_new and standing.new.get(finding.violation.signature) is False

    def _show_trouble(self) -> None:
        trouble = self._state.trouble
        told = f"{trouble.filename}: {trouble.strerror}" if trouble else ""
        if told and not self._trouble:
            later = "what cannot be written is kept and tried again"
            self._screen.say((f"{clean(told)}: {later}", "bold yellow"))
        self._trouble = told

    # ---- in the end ----------------------------------------------------------------------

    def summary(self, notes: Sequence[str]) -> list[Code]:
        """Show everything, and answer what each target is worth.

        Args:
            notes: what is to be said of the workers.
        """
        self.show_new(last=True)
        targets = [each for each in self._night.standings if not each.canary]
        codes = [self._show_target(each, heading=len(targets) > 1) for each in targets]
        if Code.NOTHING in codes and {*codes} != {Code.NOTHING}:
            codes.append(Code.INCONCLUSIVE)  # a target that had no turn is not green
        canaries = [self._canary(each) for each in self._night.standings if each.canary]
        codes += [code for code in canaries if code is not Code.CLEAN]  # that alone proves nothing
        self._reports.notes = [clean(note, 2000) for note in (*self._notes(), *notes)]
        for note in self._reports.notes:
            self._say("note", note)
        self._say("in all", self._in_all(targets))
        if self._state.trouble is not None:
            codes.append(show_error(self._state.trouble))
        return codes

    def _show_target(self, standing: Standing, *, heading: bool) -> Code:
        screen = self._screen
        if heading and screen.verbosity >= 0:
            screen.heading(standing.spec)
        report = self._news(standing)
        show_report(screen, report, runner.promises_of(report, self._plan.like.misuse))
        self._show_not_new(standing)
        plan = runner.Plan(
            self._plan.seed, self._plan.budget, findings_dir=self._state.folder, known=self._known
        )
        runner.show_known(screen, report, plan)
        if screen.verbosity >= 0:
            self._show_drivers(standing)
        failed = standing.failed
        code = show_error(failed.error()) if failed else runner.code_of(report)
        if self._show_pending(standing) and code is Code.CLEAN:
            code = Code.INCONCLUSIVE
        self._tell(standing, report, code)
        return code

    def _news(self, standing: Standing) -> Report:
        """Return what was seen of a target, without the findings that nobody wants to hear of."""
        findings = [
            each for each in standing.report.findings if not self._is_excused(standing, each)
        ]
        interrupted = self._night.stopped
        return structs.replace(standing.report, findings=findings, interrupted=interrupted)

    def _tell(self, standing: Standing, report: Report, code: Code) -> None:
        """Take down for the reports what was seen of a target, what is not new in the end."""
        if not self._reports.wanted:
            return
        failed = standing.failed
        found = [] if standing.canary else standing.report.findings
        told = [self._finding_told(standing, each) for each in found]
        part = target_part(
            report,
            outcome(code),
            runner.promises_of(report, self._plan.like.misuse),
            findings=sorted(told, key=lambda each: each.excused),
            known=known_told(report, self._known),
            drivers=_drivers_told(standing),
            rates=_rates_told(standing),
        )
        if standing.canary:  # it owes nothing but to be found
            part = structs.replace(part, canary=True, words=CANARY_WORDS[code], missing=())
        error, pending = clean(failed.message, 2000) if failed else "", tuple(standing.pending)
        self._reports.add(structs.replace(part, error=error, pending=pending))

    def _finding_told(self, standing: Standing, finding: Finding) -> FindingPart:
        signature = finding.violation.signature
        told = finding_told(
            self._hosts[standing.spec],
            finding,
            self._saved(standing, finding),
            standing.report.repeats[signature],
            plainly=_replays_plainly(standing, finding),
        )
        return structs.replace(
            told,
            new=standing.new.get(signature),
            excused=self._is_excused(standing, finding),
        )

    def _show_not_new(self, standing: Standing) -> None:
        for finding in standing.report.findings:
            if standing.new.get(finding.violation.signature) is False:
                rule, operation = finding.violation.rule, finding.violation.operation
                also = f"its trace fails on {clean(self._plan.baseline)} too"
                self._say("not new", f"{rule} at {operation}: {also}")

    def _show_pending(self, standing: Standing) -> bool:
        """Name the findings of earlier runs of which nothing was seen; tell whether there are."""
        for name, found in standing.pending.items():
            path = self._state.finding(name)
            command = ["radixcheck", "replay", str(path), "--target", standing.spec]
            self._say("not seen again", f"{found.rule} at {found.operation}: {shlex.join(command)}")
        return bool(standing.pending)

    def _show_drivers(self, standing: Standing) -> None:
        self._screen.say(("  drivers, and what each discovered", "dim"))
        self._screen.table(_rows(standing), indent=4)
        if cut := sum(share.cut for share in standing.shares):
            traces = counted(sum(share.traces for share in standing.shares), "trace")
            self._say("cut short", f"{cut:,} of {traces}, by what is no news")

    def _canary(self, standing: Standing) -> Code:
        """Say of a canary whether it was found, and answer what that makes of the night."""
        code = self._canary_code(standing)
        seen = f"{clean(standing.spec)}, in {counted(standing.report.operations, 'operation')}"
        if standing.found:
            rule = standing.report.findings[0].violation.rule
            self._say("canary", f"found {rule} in {seen}")
        elif standing.failed is not None:
            show_error(standing.failed.error())
        elif self._night.stopped:
            self._say("canary", f"not found yet: {seen}")
        else:
            proves = "this night proves nothing"
            self._screen.say((f"canary missed: {seen}: {proves}", "bold red"))
        self._tell(standing, standing.report, code)
        return code

    def _canary_code(self, standing: Standing) -> Code:
        if standing.found:
            return Code.CLEAN
        if standing.failed is not None:
            return Code.UNUSABLE
        return Code.INTERRUPTED if self._night.stopped else Code.INCONCLUSIVE

    def _notes(self) -> Iterator[str]:
        yield from self._state.notes
        yield from self._night.notes
        for (spec, how), times in self._night.lost.items():
            again = "its task was done again"
            yield f"a worker that judged {spec} {how}, {counted(times, 'time')}: {again}"

    def _in_all(self, targets: Sequence[Standing]) -> str:
        tallies, night = self._state.tallies, self._night
        rate = night.operations / max(night.elapsed_s, 1e-9)
        total = sum(tallies.of(each.spec).operations for each in targets)
        return (
            f"{counted(night.operations, 'operation')} in {show_duration(night.elapsed_s)}, "
            f"{rate:,.0f} a second; {counted(total, 'operation')} in "
            f"{counted(tallies.runs, 'run')}; {clean(str(self._state.folder))}"
        )

    def _say(self, word: str, text: str) -> None:
        if self._screen.verbosity >= 0:
            self._screen.say((f"{word}  ", "yellow"), text)


def _replays_plainly(standing: Standing, finding: Finding) -> bool:
    """Tell whether a finding needs no process of its own to be seen again."""
    return not standing.isolate and finding.violation.rule not in FATAL


def _rows(standing: Standing) -> Iterator[list[str]]:
    for share in sorted(standing.shares, key=lambda each: -each.discovered):
        if share.given:
            yield [
                f"{share.discovered:>6,}",
                share.driver,
                f"{share.operations:>12,} operations",
                f"{show_duration(share.elapsed_s):>10}",
                clean(share.benched),
            ]


def _drivers_told(standing: Standing) -> Iterator[DriverPart]:
    for share in standing.shares:
        seen = share.operations, share.traces, share.elapsed_s, share.discovered
        yield DriverPart(share.driver, *seen)


def _rates_told(standing: Standing) -> Iterator[RatePart]:
    for before, now in pairwise(standing.rates):
        passed_s = max(now.elapsed_s - before.elapsed_s, 1e-9)
        rate = (now.operations - before.operations) / passed_s
        yield RatePart(now.elapsed_s, rate, now.situations, now.findings)
