"""``radixcheck replay``, ``shrink`` and ``corpus``: what becomes of saved traces."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest
from typer.testing import Result

from radixcheck import trace
from radixcheck.cli import results
from radixcheck.hosts import here
from radixcheck.operations import Audit, Insert, MatchPrefix
from radixcheck.trace import Found

pytestmark = pytest.mark.slow

Call: TypeAlias = Callable[..., Result]
Save: TypeAlias = Callable[..., Path]

PHANTOM = (Insert((1, 2, 3)), Insert((1, 2, 3, 4)), MatchPrefix((1, 4)))
FIRST = Found("phantom-prefix", "match_prefix", "radix-first-release")


def lines(result: Result) -> list[str]:
    """Return status and name of every trace of a replay."""
    statuses = tuple(results.Status)
    shown = [line for line in result.stdout.splitlines() if line.startswith(statuses)]
    return [f"{line[:14].rstrip()}  {line[16:].partition('  ')[0]}" for line in shown]


def test_a_trace_is_replayed_on_the_target_that_it_names(call: Call, save: Save) -> None:
    save("a.jsonl", *PHANTOM, found=FIRST)
    result = call("replay", "a.jsonl")
    assert (1, True) == (
        result.exit_code,
        "phantom-prefix at match_prefix: expected 1 token, got 2 tokens" in result.stdout,
    )


def test_a_trace_that_breaks_nothing_is_fixed(call: Call, save: Save) -> None:
    save("a.jsonl", *PHANTOM, found=FIRST)
    result = call("replay", "a.jsonl", "--target", "radix")
    assert (0, ["FIXED  a.jsonl"]) == (result.exit_code, lines(result))


def test_a_trace_of_an_older_format_is_replayed_as_any_other(
    call: Call, save: Save, monkeypatch: pytest.MonkeyPatch
) -> None:
    save("old.jsonl", *PHANTOM, found=FIRST)
    monkeypatch.setattr(trace, "FORMAT", 2)
    monkeypatch.setattr(trace, "UPGRADES", {1: lambda fields: fields})
    result = call("replay", "old.jsonl")
    assert (1, ["FAILED  old.jsonl"]) == (result.exit_code, lines(result))


def test_another_violation_than_the_saved_one_is_told(call: Call, save: Save) -> None:
    save("a.jsonl", *PHANTOM, found=Found("foreign-slot", "match_prefix", "radix-first-release"))
    result = call("replay", "a.jsonl")
    assert "phantom-prefix at match_prefix instead of foreign-slot" in result.stdout


def test_a_folder_stands_for_every_trace_below_it(call: Call, save: Save, folder: Path) -> None:
    save("traces/b.jsonl", *PHANTOM)
    save("traces/deep/a.jsonl", *PHANTOM)
    (folder / "traces" / "notes.txt").write_text("no trace")
    result = call("replay", "traces", "--target", "radix")
    expected = ["FIXED  traces/b.jsonl", "FIXED  traces/deep/a.jsonl"]
    assert (0, expected) == (result.exit_code, lines(result))


def test_what_a_target_cannot_take_is_not_applicable(call: Call, save: Save) -> None:
    save("pages.jsonl", *PHANTOM, config={"page_size": 4})
    save("off.jsonl", *PHANTOM, config={"capacity": 3})
    save("names.jsonl", Insert((1,), ("a",)), Audit())
    save("policy.jsonl", *PHANTOM, config={"eviction": "mru"})
    save("strange.jsonl", *PHANTOM, config={"path": "/etc"})
    save("empty.jsonl")
    names = ("pages", "names", "policy", "strange", "empty")
    result = call("replay", *(f"{name}.jsonl" for name in names), "--target", "radix")
    expected = [f"NOT APPLICABLE  {name}.jsonl" for name in names]
    assert (5, expected) == (result.exit_code, lines(result))


def test_a_configuration_that_the_factory_refuses_is_not_applicable(call: Call, save: Save) -> None:
    save("a.jsonl", *PHANTOM, config={"eviction": "nonsense"})
    result = call("replay", "a.jsonl", "--target", "radix-paged")
    assert 5 == result.exit_code


@pytest.mark.parametrize("content", [b"", b"{]\n", b'{"radixcheck": 99}\n', b"\xff\xfe\n"])
def test_a_damaged_trace_is_an_error_and_hides_no_other(
    call: Call, save: Save, folder: Path, content: bytes
) -> None:
    save("good.jsonl", *PHANTOM)
    (folder / "bad.jsonl").write_bytes(content)
    result = call("replay", "bad.jsonl", "good.jsonl", "--target", "radix")
    assert (2, ["ERROR  bad.jsonl", "FIXED  good.jsonl"]) == (result.exit_code, lines(result))


def test_a_missing_file_is_an_error(call: Call) -> None:
    result = call("replay", "none.jsonl", "--target", "radix")
    assert (2, ["ERROR  none.jsonl"]) == (result.exit_code, lines(result))


def test_a_failure_of_the_harness_is_one_error_of_ours(
    monkeypatch: pytest.MonkeyPatch, call: Call, save: Save
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("ours")

    monkeypatch.setattr(here, "check", fail)
    save("a.jsonl", *PHANTOM)
    result = call("replay", "a.jsonl", "--target", "radix")
    assert (3, True) == (result.exit_code, "We are sorry" in result.stderr)


def test_a_target_that_cannot_open_is_told_once(call: Call, save: Save) -> None:
    save("a.jsonl", *PHANTOM)
    save("b.jsonl", *PHANTOM)
    result = call("replay", "a.jsonl", "b.jsonl", "--target", "./cache.py:CannotOpen")
    assert (2, "", 1) == (result.exit_code, result.stdout, result.stderr.count("cannot be opened"))


@pytest.mark.parametrize(
    "spec",
    ["os:system", "./cache.py:Honest", "sglang?path=evil", "radixcheck.targets.radix:os.system"],
)
def test_a_trace_cannot_make_us_run_code_that_nobody_named(
    call: Call, save: Save, spec: str
) -> None:
    save("a.jsonl", *PHANTOM, found=Found("phantom-prefix", "match_prefix", spec))
    result = call("replay", "a.jsonl")
    assert (2, True) == (result.exit_code, "if you trust it, add --target" in result.stdout)


def test_text_of_a_trace_cannot_steer_the_terminal(call: Call, save: Save) -> None:
    found = Found("[red]x[/red]\x1b[31m", "match_prefix", "radix")
    save("a.jsonl", *PHANTOM, found=found)
    result = call("replay", "a.jsonl")
    assert (0, True) == (result.exit_code, "was [red]x[/red]\\x1b[31m" in result.stdout)


def test_many_fixed_traces_are_only_counted(call: Call, save: Save) -> None:
    for number in range(60):
        save(f"many/{number}.jsonl", *PHANTOM)
    brief, full = (call("replay", "many", "--target", "radix", *more) for more in ((), ("-v",)))
    assert ([], 60, True) == (lines(brief), len(lines(full)), "60 FIXED" in brief.stdout)


def test_counts_come_last(call: Call, save: Save) -> None:
    save("a.jsonl", *PHANTOM)
    save("b.jsonl", *PHANTOM, config={"page_size": 4})
    last = call("replay", "a.jsonl", "b.jsonl", "-t", "radix").stdout.splitlines()[-1]
    assert last.startswith("2 traces in ")
    assert last.endswith(": 1 FIXED, 1 NOT APPLICABLE")


def test_without_a_path_the_packaged_regressions_are_replayed(call: Call) -> None:
    result = call("replay", "--target", "radix-paged", "-v")
    listed = call("corpus", "list").stdout.splitlines()
    ids = {line.split()[0] for line in listed[:-1] if not line.startswith(" ")}
    assert (0, ids) == (result.exit_code, {line.split("  ")[1] for line in lines(result)})


def test_an_empty_folder_is_never_green(call: Call, folder: Path) -> None:
    (folder / "none").mkdir()
    result = call("replay", "none", "--target", "radix")
    assert (5, True) == (result.exit_code, "nothing to replay" in result.stdout)


# ---- shrink ------------------------------------------------------------------------------


def test_shrink_saves_the_simplest_trace_and_reports_the_violation(
    call: Call, save: Save, folder: Path
) -> None:
    save("a.jsonl", Insert((8, 9)), *PHANTOM, MatchPrefix((5,)), found=FIRST)
    result = call("shrink", "a.jsonl")
    (path,) = (folder / "radixcheck-findings").glob("phantom-prefix-*.jsonl")
    assert (1, 3) == (result.exit_code, len(trace.load(path).operations))
    assert "3 operations, shrunk from 4." in result.stdout


def test_there_is_nothing_to_shrink_in_a_clean_trace(call: Call, save: Save) -> None:
    save("a.jsonl", *PHANTOM)
    result = call("shrink", "a.jsonl", "--target", "radix")
    assert (0, True) == (result.exit_code, "there is nothing to shrink" in result.stdout)


def test_a_trace_that_cannot_be_read_cannot_be_shrunk(call: Call, folder: Path) -> None:
    (folder / "a.jsonl").write_text("junk")
    result = call("shrink", "a.jsonl", "--target", "radix")
    assert (2, True) == (result.exit_code, "a.jsonl:1: not a trace header" in result.stderr)
