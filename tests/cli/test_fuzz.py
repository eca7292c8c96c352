"""``radixcheck fuzz`` in this process: what a person and a report are told of a campaign."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from html import unescape
from math import inf
from pathlib import Path
from typing import TypeAlias
from xml.etree import ElementTree as ET

import msgspec
import pytest
from msgspec.structs import replace
from typer.testing import Result

from radixcheck.campaign.pool import Done
from radixcheck.campaign.unit import Task, work
from radixcheck.cli import fuzz as command
from radixcheck.report.document import Document, TargetPart

pytestmark = pytest.mark.slow

Call: TypeAlias = Callable[..., Result]
Fuzz: TypeAlias = Callable[..., Result]

BROKEN = "./cache.py:Broken"
REPORTS = Path("radixcheck-report")


class Inline:
    """A pool of one worker, which is this process. What is isolated is so here too."""

    size, running, stuck = 1, 0, False
    notes: tuple[str, ...] = ()

    def submit(self, task: Task) -> None:
        """Take a task."""
        self.task, self.running = task, 1

    def done(self, wait_s: float) -> list[Done]:
        """Do it."""
        self.running = 0
        return [Done(self.task, work(self.task))]

    def close(self) -> None:
        """Nothing is left."""


class Slow(Inline):
    """The time for shrinking is always up before it is done."""

    def submit(self, task: Task) -> None:
        """Take a task, with no time for shrinking."""
        super().submit(replace(task, max_time_s=0) if task.driver == "shrink" else task)


class Losing(Inline):
    """Whoever shrinks dies of it."""

    def done(self, wait_s: float) -> list[Done]:
        """Do it, or die."""
        if self.task.driver != "shrink":
            return super().done(wait_s)
        self.running = 0
        return [Done(self.task, None, "died of SIGSEGV")]


class Stopped(Inline):
    """Somebody presses Ctrl-C during the first trace."""

    def submit(self, task: Task) -> None:
        """Take a task, one trace of it."""
        super().submit(replace(task, max_operations=1))

    def done(self, wait_s: float) -> list[Done]:
        """Do it, and press the keys."""
        os.kill(os.getpid(), signal.SIGINT)
        return super().done(wait_s)


class Dying(Inline):
    """Whatever is not isolated ends its worker."""

    def done(self, wait_s: float) -> list[Done]:
        """Do what can be done."""
        if self.task.isolate:
            return super().done(wait_s)
        self.running = 0
        return [Done(self.task, None, "died of SIGSEGV")]


@pytest.fixture
def fuzz(call: Call, monkeypatch: pytest.MonkeyPatch) -> Fuzz:
    """Spend a short campaign in this process, and write reports."""

    def run(*arguments: str, pool: Callable[[], Inline] = Inline, canary: str = "none") -> Result:
        monkeypatch.setattr(command, "_pool", lambda *_: pool())
        always = ("--seed", "1", "--canary", canary, "--report", "json,junit,md,html")
        return call("fuzz", *arguments, *always, COLUMNS="200")

    return run


def told(place: int = 0) -> TargetPart:
    """Read what the report tells of a target."""
    written = (REPORTS / "radixcheck.json").read_bytes()
    return msgspec.json.decode(written, type=Document).targets[place]


# ---- what is not new ---------------------------------------------------------------------


def test_what_is_not_new_stays_in_the_report_and_is_no_failure(fuzz: Fuzz) -> None:
    result = fuzz(BROKEN, "--max-ops", "3000", "--only-new", "--baseline", "radix-first-release")
    (finding,) = told().findings
    assert (0, "clean", "no violation") == (result.exit_code, told().verdict, told().words)
    assert (False, True) == (finding.new, finding.excused)
    assert "0" == ET.parse(REPORTS / "radixcheck.xml").getroot().get("failures")


def test_what_is_not_new_is_a_violation_where_everything_counts(fuzz: Fuzz) -> None:
    result = fuzz(BROKEN, "--max-ops", "3000", "--baseline", "radix-first-release")
    (finding,) = told().findings
    assert (1, False, False) == (result.exit_code, finding.new, finding.excused)


# ---- how to see it again -----------------------------------------------------------------


def test_what_was_found_without_isolation_is_replayed_without(fuzz: Fuzz) -> None:
    result = fuzz(BROKEN, "--max-ops", "3000")
    (finding,) = told().findings
    assert f"radixcheck replay {finding.path} --target {BROKEN}" == finding.reproduce
    assert f"reproduce: {finding.reproduce}\n" in result.output


def test_what_was_found_in_isolation_is_replayed_there(fuzz: Fuzz) -> None:
    result = fuzz(BROKEN, "--max-ops", "3000", "--isolate")
    (finding,) = told().findings
    assert finding.reproduce.endswith(" --isolate")
    assert f"reproduce: {finding.reproduce}\n" in result.output


def test_a_crash_is_replayed_in_isolation(fuzz: Fuzz) -> None:
    fuzz("radixcheck.targets.fatal:CutsWildly", "--max-ops", "1500", pool=Dying)
    (finding,) = told().findings
    assert ("crash", True) == (finding.rule, finding.reproduce.endswith(" --isolate"))


# ---- what is not finished ----------------------------------------------------------------


def test_a_finding_that_is_partly_shrunk_says_so(fuzz: Fuzz) -> None:
    result = fuzz(BROKEN, "--max-ops", "3000", pool=Slow)
    (finding,) = told().findings
    assert "partly" == finding.shrunk
    words = "Partly shrunk, since time was up; radixcheck shrink goes on with it."
    assert f"\n{words}\n" in result.output
    summary = (REPORTS / "radixcheck.md").read_text()
    assert words in unescape(summary)


def test_a_finding_that_is_shrunk_says_nothing_more(fuzz: Fuzz) -> None:
    result = fuzz(BROKEN, "--max-ops", "3000")
    assert (None, False) == (told().findings[0].shrunk, "goes on with it" in result.output)


def test_a_finding_of_an_earlier_night_that_was_not_looked_at_again_is_not_forgotten(
    fuzz: Fuzz,
) -> None:
    fuzz(BROKEN, "--max-ops", "3000")
    (finding,) = told().findings
    result = fuzz(BROKEN, "--max-ops", "5", pool=Losing)
    again = f"radixcheck replay {finding.path} --target {BROKEN}"
    said = f"not seen again  {finding.rule} at {finding.operation}: {again}"
    assert (4, True) == (result.exit_code, said in " ".join(result.output.split("\n")))
    assert (Path(finding.path).name,) == told().pending


def test_a_campaign_that_is_stopped_names_few_of_the_situations_that_it_missed(fuzz: Fuzz) -> None:
    result = fuzz("radix-paged", "--max-time", "60s", pool=Stopped)
    missing = told().missing
    named = [each for each in missing if each in result.output.partition("missed: ")[2]]
    assert 130 == result.exit_code
    assert f"missed: {len(missing)} required situations, such as " in result.output
    assert list(missing[:3]) == named


@pytest.mark.parametrize(("more", "named"), [((), 3), (("-v",), inf)])
def test_a_campaign_that_was_too_short_says_so(
    fuzz: Fuzz, more: tuple[str, ...], named: float
) -> None:
    result = fuzz("radix-paged", "--max-ops", "1", *more)
    missing = told().missing
    seen = [each for each in missing if each in result.output.partition("missed: ")[2]]
    assert (4, min(named, len(missing))) == (result.exit_code, len(seen))
    assert ("the run was too short" in result.output) == (not more)


# ---- canaries ----------------------------------------------------------------------------


def test_a_canary_owes_nothing_but_to_be_found(fuzz: Fuzz) -> None:
    result = fuzz("radix", "--max-ops", "6000", canary="radix-first-release")
    assert "canary  found phantom-prefix" in result.output
    assert (True, "clean", "found", ()) == (
        told(1).canary,
        told(1).verdict,
        told(1).words,
        told(1).missing,
    )


def test_a_canary_that_was_missed_is_a_failure_of_its_own(fuzz: Fuzz) -> None:
    fuzz("radix", "--max-ops", "6000", canary="radix")
    suites = ET.parse(REPORTS / "radixcheck.xml").getroot()
    assert ["0", "1"] == [suite.get("failures") for suite in suites]
    assert "missed" == told(1).words
