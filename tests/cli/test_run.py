"""``radixcheck run``: verdicts, exit codes, what is saved, and whose fault an error is."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import msgspec
import pytest
from typer.testing import Result

from radixcheck import loop, trace
from radixcheck.hosts import Here, Host
from radixcheck.loop import Report
from radixcheck.registry import resolve

Call: TypeAlias = Callable[..., Result]

BROKEN = ("run", "./cache.py:Broken", "--seed", "3", "--max-ops", "2000", "-x")


def saved(folder: Path) -> list[Path]:
    """List the findings that were saved in `folder`."""
    return sorted((folder / "radixcheck-findings").glob("*"))


# ---- verdicts ----------------------------------------------------------------------------


def test_a_correct_cache_is_clean(call: Call, folder: Path) -> None:
    result = call("run", "radix", "--seed", "3", "--max-ops", "20000")
    assert (0, []) == (result.exit_code, saved(folder))
    assert "✔ radix: no violation in" in result.stdout


def test_the_seed_comes_first(call: Call) -> None:
    result = call("run", "radix", "--seed", "42", "--max-ops", "1")
    assert result.stdout.startswith("seed 42  repeat this run with --seed 42\n")


def test_a_seed_is_drawn_where_none_is_given(call: Call) -> None:
    seeds = {call("run", "radix", "--max-ops", "1").stdout.split()[1] for _ in range(3)}
    assert 1 < len(seeds)


def test_the_same_seed_finds_the_same(call: Call) -> None:
    first, second = (call(*BROKEN).stdout.partition("✘")[0] for _ in range(2))
    assert first == second


def test_a_violation_is_shown_saved_and_worth_one(call: Call, folder: Path) -> None:
    result = call(*BROKEN)
    (path,) = saved(folder)
    found = trace.load(path).found
    assert found is not None
    assert (1, "phantom-prefix", "./cache.py:Broken", 3) == (
        result.exit_code,
        found.rule,
        found.target,
        found.seed,
    )
    command = f"reproduce: radixcheck replay {path.relative_to(folder)} --target ./cache.py:Broken"
    assert command in result.stdout.splitlines()


def test_a_finding_is_named_by_rule_and_content(call: Call, folder: Path) -> None:
    call(*BROKEN)
    call(*BROKEN)
    (path,) = saved(folder)
    assert path.name.startswith("phantom-prefix-")


def test_what_two_targets_are_found_by_is_saved_in_two_files(call: Call, folder: Path) -> None:
    twins = ["./cache.py:Broken", "./twin.py:Broken"]
    (folder / "twin.py").write_text((folder / "cache.py").read_text())
    for spec in twins:
        call("run", spec, *BROKEN[2:])
    found = [trace.load(path).found for path in saved(folder)]
    assert twins == sorted(each.target for each in found if each)


def test_the_program_of_a_finding_fails_when_it_is_run(call: Call, folder: Path) -> None:
    lines = call(*BROKEN).stdout.splitlines()
    start = lines.index("from array import array")
    program = "\n".join(lines[start : lines.index("", lines.index("", start) + 1)])
    pasted = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=False
    )
    assert pasted.stderr.splitlines()[-1:] == ["AssertionError: 2"]


def test_a_missed_situation_is_inconclusive(call: Call) -> None:
    result = call("run", "radix", "--seed", "3", "--max-ops", "100")
    assert 4 == result.exit_code
    assert "  missed: about these the run proves nothing; try a longer one" in result.stdout


def test_only_flaky_findings_are_inconclusive(call: Call) -> None:
    result = call("run", "./cache.py:Once", "--seed", "3", "--max-ops", "20000")
    assert (4, True) == (result.exit_code, "inconclusive, 1 flaky finding" in result.stdout)


def test_a_flaky_finding_that_becomes_a_steady_one_is_shown_again(
    monkeypatch: pytest.MonkeyPatch, call: Call, folder: Path
) -> None:
    broken = Here(resolve("radix-first-release"))
    (found,) = loop.run(broken, seed=3, budget=loop.Budget(first_only=True)).findings

    def run(host: Host, *, watch: loop.Watch, **_: object) -> Report:
        report = Report("radix-first-release", 3, host.arenas())
        for each in (msgspec.structs.replace(found, flaky=True), found):
            report.findings = [each]
            watch(report)
            watch(report)
        return report

    monkeypatch.setattr(loop, "run", run)
    result = call("run", "radix-first-release")
    assert (1, 2, 1) == (
        result.exit_code,
        result.stdout.count("── finding 1: phantom-prefix"),
        result.stdout.count("Flaky."),
    )


def test_several_targets_get_one_summary_and_the_severest_code(call: Call) -> None:
    result = call("run", "./cache.py:Broken", "radix", "--seed", "3", "--max-ops", "20000", "-q")
    summary = result.stdout.partition("── 2 targets ")[2].splitlines()[1:]
    assert (1, ["✘ ./cache.py:Broken", "✔ radix"]) == (
        result.exit_code,
        [verdict.partition(": ")[0] for verdict in summary],
    )


def test_a_target_that_answers_nonsense_does_not_keep_others_from_being_judged(call: Call) -> None:
    result = call("run", "./cache.py:BadAnswers", "./cache.py:Broken", "--seed", "3", "-x")
    assert 1 == result.exit_code
    assert "the adapter, not the cache behind it" in result.stderr


def test_a_sweep_says_which_configurations_ran(call: Call) -> None:
    some = call("run", "radix-paged?eviction=lru", "--seed", "3", "--max-ops", "1")
    every = call("run", "radix-paged?eviction=lru", "--seed", "3", "--max-ops", "2000")
    sweep = "5: page_size 1, 2, 3, 4, 16; eviction lru"
    assert f"configurations  only the first 1 of {sweep}" in some.stdout
    assert f"configurations  {sweep}" in every.stdout


def test_rules_that_do_not_apply_are_told_with_what_to_promise(call: Call, folder: Path) -> None:
    result = call("run", "./cache.py:Timed", "--seed", "3", "--max-ops", "100")
    words = " ".join(result.stdout.split())
    assert "eviction-order: its own clock has no known resolution" in words
    assert "promise resolution_s=0 for a counter" in words


def test_quiet_prints_verdicts_only(call: Call, folder: Path) -> None:
    result = call(*BROKEN, "-q")
    rule, where, verdict, again = result.stdout.splitlines()[1:]
    assert rule == "phantom-prefix at match_prefix: expected 1 token, got 2 tokens"
    assert where == f"  saved as {saved(folder)[0].relative_to(folder)}"
    assert verdict.startswith("✘ ./cache.py:Broken: 1 violation in")
    assert again.startswith("  phantom-prefix at match_prefix")


# ---- limits ------------------------------------------------------------------------------


def limits(monkeypatch: pytest.MonkeyPatch, call: Call, *arguments: str) -> loop.Budget:
    """Return the budget that a run gets from its options."""
    seen: list[loop.Budget] = []

    def run(host: Host, *, budget: loop.Budget, **_: object) -> Report:
        seen.append(budget)
        return Report("radix", 1, host.arenas())

    monkeypatch.setattr(loop, "run", run)
    assert 5 == call("run", "radix", *arguments).exit_code
    return seen[0]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), loop.Budget(20)),
        (("--profile", "smoke"), loop.Budget(3)),
        (("--profile", "nightly"), loop.Budget(600)),
        (("--max-time", "90s"), loop.Budget(90)),
        (("--max-time", "10m"), loop.Budget(600)),
        (("--max-time", "1.5h"), loop.Budget(5400)),
        (("--max-ops", "9"), loop.Budget(None, 9)),
        (("--max-ops", "9", "--profile", "pr"), loop.Budget(20, 9)),
        (("-x",), loop.Budget(20, None, True)),
    ],
)
def test_options_limit_a_run(
    monkeypatch: pytest.MonkeyPatch, call: Call, arguments: tuple[str, ...], expected: loop.Budget
) -> None:
    assert expected == limits(monkeypatch, call, *arguments)


@pytest.mark.parametrize("text", ["10x", "0s", "", "-3s", "1e9", "m"])
def test_what_is_no_duration_is_a_usage_error(call: Call, text: str) -> None:
    result = call("run", "radix", f"--max-time={text}")
    assert (2, True) == (result.exit_code, "write 90s, 10m or 8h" in result.stderr)


def test_a_run_in_which_nothing_ran_is_never_green(
    monkeypatch: pytest.MonkeyPatch, call: Call
) -> None:
    monkeypatch.setattr(loop, "run", lambda host, **_: Report("radix", 1, host.arenas()))
    result = call("run", "radix")
    assert (5, True) == (result.exit_code, "? radix: nothing ran" in result.stdout)


# ---- errors ------------------------------------------------------------------------------


def test_an_unknown_target_names_the_nearest(call: Call) -> None:
    result = call("run", "radx", "--seed", "1")
    assert 2 == result.exit_code
    assert result.stderr.startswith("✘ unknown target 'radx'\n  fault  what was asked for\n")
    assert "nearest: radix" in result.stderr


def test_a_target_that_cannot_open_shows_where_and_no_traceback(call: Call) -> None:
    plain, verbose = (call("run", "./cache.py:CannotOpen", *more) for more in ((), ("-v",)))
    assert 2 == plain.exit_code
    assert "RuntimeError: no [bold]GPU[/bold]" in plain.stderr
    assert (False, True) == ("Traceback" in plain.stderr, "Traceback" in verbose.stderr)


def test_an_unreadable_answer_is_the_adapters_fault(call: Call) -> None:
    result = call("run", "./cache.py:BadAnswers")
    assert (2, True) == (result.exit_code, "the adapter, not the cache behind it" in result.stderr)


def test_a_target_that_ends_the_process_does_not_decide_the_exit_code(call: Call) -> None:
    result = call("run", "./cache.py:Leaves", "--max-ops", "100")
    assert 0 != result.exit_code


def test_a_target_that_ends_the_process_when_it_is_made_cannot_be_used(call: Call) -> None:
    result = call("run", "./cache.py:LeavesAtOnce", "radix", "--seed", "3", "--max-ops", "20000")
    assert (2, True) == (result.exit_code, "cannot be opened: SystemExit: 0" in result.stderr)
    assert "✔ radix: no violation" in result.stdout


def test_an_error_of_the_target_shows_its_own_traceback_if_all_is_wanted(call: Call) -> None:
    arguments = ("run", "./cache.py:RaisesDeep", "--seed", "3", "-x")
    plain, verbose = (call(*arguments, *more).stdout for more in ((), ("-v",)))
    lines = [line for line in verbose.splitlines() if line.startswith("    File ")]
    assert ["match_prefix", "look"] == [line.rpartition(" in ")[2] for line in lines]
    assert (True, False) == ("-v shows" in plain, "    File " in plain)


def test_a_failure_of_the_harness_apologises_with_a_traceback(
    monkeypatch: pytest.MonkeyPatch, call: Call
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("ours")

    monkeypatch.setattr(loop, "run", fail)
    result = call("run", "radix")
    assert 3 == result.exit_code
    assert "Traceback" in result.stderr
    assert "We are sorry: this says nothing about your cache." in result.stderr


def test_a_folder_that_cannot_be_written_is_told_before_the_run(call: Call, folder: Path) -> None:
    result = call("run", "radix", "--findings-dir", "cache.py/findings")
    assert 2 == result.exit_code
    assert "not a folder, so no finding can be saved there" in " ".join(result.stderr.split())


def test_a_finding_that_cannot_be_saved_is_still_shown(
    monkeypatch: pytest.MonkeyPatch, call: Call
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(trace, "save", full)
    result = call(*BROKEN)
    assert 1 == result.exit_code
    assert "✘ No space left on device" in result.stderr
    assert "reproduce: radixcheck run ./cache.py:Broken --seed 3" in result.stdout


def test_what_a_target_raises_is_not_read_as_markup(call: Call) -> None:
    result = call("run", "./cache.py:Raises", "--seed", "3", "-x")
    assert (1, True) == (result.exit_code, "[red]bad[/red] \\x1b[31m" in result.stdout)
