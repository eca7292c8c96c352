"""``--report`` and ``--report-dir``: what is written, and what happens where nothing can be."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeAlias
from xml.etree import ElementTree as ET

import msgspec
import pytest
from typer.testing import Result

from radixcheck.cli.options import REPORTS, kinds
from radixcheck.cli.reports import MOMENTS, Rates
from radixcheck.cli.results import packaged
from radixcheck.loop import Report
from radixcheck.operations import Insert, MatchPrefix
from radixcheck.report import written
from radixcheck.report.document import Document, RatePart
from radixcheck.report.parts import finding_part
from radixcheck.trace import Found

pytestmark = pytest.mark.slow

Call: TypeAlias = Callable[..., Result]
Save: TypeAlias = Callable[..., Path]

BROKEN = ("run", "radix-first-release", "--seed", "1", "--max-ops", "2000")
CLEAN = ("run", "radix", "--seed", "1", "--max-ops", "20000")


def read(folder: Path) -> Document:
    """Read the document that a command has written."""
    return msgspec.json.decode((folder / "radixcheck.json").read_bytes(), type=Document)


def test_a_run_tells_its_findings(call: Call, folder: Path) -> None:
    result = call(*BROKEN, "--report", "json", "--report-dir", "out")
    (target,) = read(folder / "out").targets
    (finding,) = target.findings
    assert (1, "violation", "1 violation", 1) == (
        result.exit_code,
        target.verdict,
        target.words,
        target.seed,
    )
    assert ("phantom-prefix", "match_prefix") == finding.signature
    assert Path(finding.path).read_text() == finding.trace
    assert "out/radixcheck.json" in result.output


def test_a_clean_run_tells_what_it_has_seen(call: Call, folder: Path) -> None:
    assert 0 == call(*CLEAN, "--report", "json").exit_code
    told = read(folder / "radixcheck-report")
    (target,) = told.targets
    assert (0, "clean", "no violation", ()) == (
        told.exit_code,
        target.verdict,
        target.words,
        target.findings,
    )
    assert target.operations == sum(each.operations for each in target.drivers)
    assert target.operations == pytest.approx(_operations(target.rates), rel=1e-6)
    assert 0 < len([each for each in target.situations if each.required and each.count])
    assert "foreign-slot" in target.rules and "namespace-leak" not in target.rules


def _operations(rates: Iterable[RatePart]) -> float:
    """Add up what a chart of a rate shows."""
    total, before_s = 0.0, 0.0
    for each in rates:
        total += each.operations_per_s * (each.elapsed_s - before_s)
        before_s = each.elapsed_s
    return total


def test_a_run_tells_what_known_failures_kept_it_from_judging(call: Call, folder: Path) -> None:
    (folder / "known.toml").write_text('[[failure]]\nrule = "phantom-prefix"\nreason = "old"\n')
    result = call(*BROKEN, "--known-failures", "known.toml", "--report", "json")
    (target,) = read(folder / "radixcheck-report").targets
    (known,) = target.known
    assert f"known  {target.cut_short:,} operations behind one were not judged" in result.output
    assert (True, f"no new violation, {known.times} known") == (target.cut_short > 0, target.words)


def test_a_replay_tells_a_case_for_each_trace(call: Call, folder: Path, save: Save) -> None:
    found = Found("phantom-prefix", "match_prefix", "radix-first-release")
    save("old.jsonl", Insert((1, 2)), Insert((1, 2, 3)), MatchPrefix((1, 3)), found=found)
    save("good.jsonl", Insert((1, 2)), MatchPrefix((1, 2)), found=found)
    Path("bad.jsonl").write_text("{")
    names = "old.jsonl good.jsonl bad.jsonl".split()
    call("replay", *names, "-t", "radix-first-release", "--report", "json,junit")
    (target,) = read(folder / "radixcheck-report").targets
    assert ["failed", "passed", "error"] == [case.status for case in target.cases]
    assert ["old.jsonl"] == [finding.path for finding in target.findings]
    root = ET.parse(folder / "radixcheck-report/radixcheck.xml").getroot()
    assert ("3", "1", "1") == tuple(root.get(each) for each in ("tests", "failures", "errors"))


def test_a_target_that_cannot_be_used_is_told_beside_the_others(call: Call, folder: Path) -> None:
    call(
        "run",
        "radix",
        "./cache.py:CannotOpen",
        "--max-ops",
        "200",
        "--report",
        "json",
        "--seed",
        "1",
    )
    told = {target.spec: target for target in read(folder / "radixcheck-report").targets}
    assert "error" == told["./cache.py:CannotOpen"].verdict
    assert "no [bold]GPU[/bold]" in told["./cache.py:CannotOpen"].error


def test_without_the_option_nothing_is_written(call: Call, folder: Path) -> None:
    call(*CLEAN)
    assert not (folder / "radixcheck-report").exists()


# ---- options -----------------------------------------------------------------------------


def test_kinds_are_read_once_each() -> None:
    assert "html,junit" == kinds(" HTML, junit,html,")


@pytest.mark.parametrize("text", ["pdf", "html,pdf", "", ","])
def test_an_unknown_kind_is_a_usage_error_that_lists_the_kinds(call: Call, text: str) -> None:
    result = call(*CLEAN, "--report", text)
    assert 2 == result.exit_code
    assert set(REPORTS) <= set(result.output.replace(",", " ").split())


def test_the_environment_asks_for_reports(call: Call, folder: Path) -> None:
    call(*CLEAN, RADIXCHECK_REPORT="md", RADIXCHECK_REPORT_DIR="env")
    assert ["radixcheck.md"] == [each.name for each in (folder / "env").iterdir()]


def test_settings_ask_for_reports(call: Call, folder: Path) -> None:
    lines = '[tool.radixcheck]\nreport = "md,json"\nreport-dir = "set"\n'
    (folder / "pyproject.toml").write_text(lines)
    call(*CLEAN)
    names = sorted(each.name for each in (folder / "set").iterdir())
    assert ["radixcheck.json", "radixcheck.md"] == names


def test_a_wrong_setting_names_the_kinds(call: Call, folder: Path) -> None:
    (folder / "pyproject.toml").write_text('[tool.radixcheck]\nreport = "pdf"\n')
    result = call(*CLEAN)
    assert (2, True) == (result.exit_code, "junit,json,sarif,md,html" in result.output)


# ---- what cannot be written --------------------------------------------------------------


def test_a_file_in_the_place_of_the_folder_is_told_before_the_run(call: Call) -> None:
    result = call(*BROKEN, "--report", "html", "--report-dir", "cache.py")
    assert 2 == result.exit_code
    assert "not a folder, so no report can be written" in " ".join(result.output.split())
    assert "violation" not in result.output


def test_a_full_disk_keeps_the_verdict_and_the_findings(
    call: Call, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, content: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr(written, "write_in_one_step", full)
    result = call(*BROKEN, "--report", "json,html")
    text = " ".join(result.output.split())
    assert 2 == result.exit_code
    assert "radix-first-release: 1 violation" in text
    assert "No space left on device" in text
    assert "the report radixcheck-report/radixcheck.json could not be written" in text
    assert 1 == len(list((folder / "radixcheck-findings").glob("*.jsonl")))


# ---- rates and levels --------------------------------------------------------------------


def test_a_long_run_has_no_more_moments_than_a_chart_can_show() -> None:
    rates, report = Rates(), Report("radix", 1, [])
    for each in range(10_000):
        report.elapsed_s, report.operations = each * 0.5, each * 50
        rates(report)
    assert MOMENTS >= len(rates.parts) > MOMENTS / 4
    assert {100.0} == {each.operations_per_s for each in rates.parts}


@pytest.mark.parametrize("level", ["tree", "pool", "requests"])
def test_findings_of_every_level_have_pictures(level: str) -> None:
    from radixcheck.cli.hosting import hosts, isolation
    from radixcheck.cli.results import as_finding, replayed
    from radixcheck.cli.told import origin_of

    seen = 0
    with hosts(isolation(False, 10.0, 2**30)) as at_hand:
        for saved in packaged():
            failed = replayed(saved, None, at_hand.of).failed
            if failed is None or len(failed.trace.operations) > 100:
                continue
            finding = as_finding(failed)
            if (origin := origin_of(failed.host, finding, None)).level.name != level:
                continue
            part = finding_part(finding, origin)
            assert len(part.steps) + 1 == len(part.pictures)
            seen += 1
    assert seen > 3
