"""Generated mutants: each hunted in a process of its own, counted, and matched with the list."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from radixcheck.bite import operators
from radixcheck.bite.alone import Task, check_original, hunts, tasks
from radixcheck.bite.generated import (
    INCONCLUSIVE,
    STILLBORN,
    SUBJECTS,
    Fate,
    Generated,
    Litter,
    balance,
    generate,
    is_settled,
    known,
    left_out,
    listed,
    missing,
    read,
)
from radixcheck.bite.trial import append
from radixcheck.cli.app import app
from radixcheck.cli.codes import Code
from radixcheck.registry import TargetError

HERE = [name for name in SUBJECTS if not missing(name)]

with_library = pytest.mark.skipif(
    find_spec(operators.LIBRARY) is None, reason="Cosmic Ray is not installed"
)

ONE = Generated("radix", "Radix._cut", "a = b", "a = c", "name")
OTHER = Generated("radix", "Radix._cut", "a = b", "pass", "statement")
LITTER = Litter("radix", "digest", {ONE: "", OTHER: ""})


def fate(mutant: Generated, rule: str = "", *, seed: int = 0, source: str = "digest") -> Fate:
    """Make an end of a hunt; without a rule, of a survivor."""
    return Fate(mutant, source, seed, 3.0, 0.5 if rule else 3.0, 10, rule)


# ------------------------------------------------------------------------- a process of its own


def hunted(target: str, old: str, new: str, limit_s: float = 1.0) -> Fate:
    """Hunt what a target becomes when a part of its source is another."""
    source = SUBJECTS[target].source()
    assert source.count(old) == 1
    task = Task(Generated(target, "", old, new, ""), "", source.replace(old, new), 0, limit_s)
    (end,) = hunts([task], 1)
    return end


@pytest.mark.slow
def test_a_mistake_is_killed_by_a_rule() -> None:
    end = hunted("pool-plain", "if count > len(self._free)", "if count >= len(self._free)", 20.0)
    assert ("leaked-slot", True) == (end.rule, end.operations > 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("self._free = list(", "while True: list(", "hang"),
        ("self._free = list(", "__import__('os').abort(); list(", "crash"),
        ("can = self.capabilities", "raise ValueError", "unusable"),
        ("promises: ClassVar[Mapping[str, Any]] = {}", "promises = {", STILLBORN),
        ('"""Take everything back."""', '"""Forget."""', ""),
    ],
)
def test_whatever_a_mutant_does_its_hunt_ends(old: str, new: str, expected: str) -> None:
    assert expected == hunted("pool-plain", old, new).rule


@pytest.mark.slow
@pytest.mark.parametrize("target", HERE)
def test_a_correct_target_survives(target: str) -> None:
    check_original(target, 1.0)


@pytest.mark.slow
def test_a_target_that_cannot_be_judged_within_its_time_is_an_error() -> None:
    with pytest.raises(TargetError, match="cannot be judged"):
        check_original("radix-paged", 0.001)


@pytest.mark.slow
def test_a_target_that_stores_nothing_is_not_taken_for_clean() -> None:
    old, new = "key = self._key(tokens, namespace)\n", "key = self._key(namespace, tokens)\n"
    assert INCONCLUSIVE == hunted("radix", old, new, 0.2).rule


# --------------------------------------------------------------------------- the file of fates


def test_what_is_put_down_is_read(tmp_path: Path) -> None:
    for each in (fate(ONE), fate(OTHER, "structure")):
        append(tmp_path / "fates", each)
    assert [fate(ONE), fate(OTHER, "structure")] == list(read(tmp_path / "fates").values())


@pytest.mark.parametrize(
    ("end", "limit_s", "expected"),
    [
        (None, 1.0, False),
        (fate(ONE), 3.0, True),
        (fate(ONE), 30.0, False),
        (fate(ONE, "structure"), 30.0, True),
    ],
)
def test_only_a_survivor_is_hunted_again_for_longer(
    end: Fate | None, limit_s: float, expected: bool
) -> None:
    assert expected == is_settled(end, limit_s)


def test_an_edit_of_the_source_has_every_mutant_hunted_again() -> None:
    made = {each.key: each for each in (fate(ONE, "structure"), fate(OTHER, "x", source="old"))}
    assert [OTHER] == [task.mutant for task in tasks(LITTER, made, 1, 3.0)]


# ------------------------------------------------------------------------------------ the list

ENTRY = """
[[equivalent]]
target = "radix"
where = "Radix._cut"
line = "a = b"
why = "c is b"
mutated.name = ["a = c"]
"""


def test_a_survivor_that_is_listed_is_equivalent() -> None:
    found = balance(LITTER, [fate(ONE), fate(OTHER)], listed(ENTRY))
    assert ([fate(ONE)], [fate(OTHER)]) == (found.equivalent, found.survivors)


def test_an_entry_is_about_all_mutants_that_read_alike() -> None:
    second = msgspec.structs.replace(ONE, nth=1)
    litter = Litter("radix", "digest", {ONE: "", second: ""})
    found = balance(litter, [fate(ONE), fate(second)], listed(ENTRY))
    assert (2, []) == (len(found.equivalent), found.survivors)


def test_an_entry_without_its_mutant_is_stale() -> None:
    found = balance(Litter("radix", "digest", {OTHER: ""}), [fate(OTHER, "structure")], {ONE: ""})
    assert ([ONE], []) == (found.stale, found.wrong)


def test_an_entry_whose_mutant_was_killed_is_wrong() -> None:
    found = balance(LITTER, [fate(ONE, "structure")], listed(ENTRY))
    assert ([], [ONE]) == (found.stale, found.wrong)


def test_an_entry_must_say_why() -> None:
    with pytest.raises(msgspec.ValidationError):
        listed(ENTRY.replace("c is b", ""))


# --------------------------------------------------------------------------------- the figures


def test_a_mutant_is_killed_if_any_seed_kills_it() -> None:
    found = balance(LITTER, [fate(ONE, "structure"), fate(ONE, seed=1)], {})
    assert ([ONE], 1.0) == ([each.mutant for each in found.killed], found.share)


def test_what_is_stillborn_counts_for_nothing() -> None:
    found = balance(LITTER, [fate(ONE, STILLBORN), fate(OTHER)], {})
    assert (1, 0.0) == (found.total, found.share)


def test_a_survivor_is_shown_as_two_lines() -> None:
    told = [part for line in balance(LITTER, [fate(ONE)], {}).troubles() for part in line]
    assert [("- a = b", "red"), ("+ a = c", "green")] == told[-2:]


# -------------------------------------------------------------------------- the committed list


@with_library
@pytest.mark.parametrize("target", SUBJECTS)
def test_every_entry_of_the_list_has_its_mutant(target: str) -> None:
    assert [] == balance(generate(target), []).stale


@with_library
@pytest.mark.parametrize("target", SUBJECTS)
def test_mutants_keep_their_names_when_lines_move(target: str) -> None:
    source = SUBJECTS[target].source()
    moved = source.replace("\nfrom __future__", "\n# a line more\n\nfrom __future__")
    texts = [(each.operator, each.text) for each in operators.changes(source)]
    assert texts == [(each.operator, each.text) for each in operators.changes(moved)]


# --------------------------------------------------------------------------------- the command


def run(*arguments: str) -> tuple[int, str]:
    """Call the command."""
    told = CliRunner().invoke(app, ["mutants", "--generated", *arguments])
    return told.exit_code, told.output


@with_library
@pytest.mark.parametrize(("rule", "code"), [("structure", Code.CLEAN), ("", Code.VIOLATION)])
def test_a_survivor_without_a_reason_is_red(rule: str, code: Code, tmp_path: Path) -> None:
    litter = generate("pool-plain")
    mutant = next(each for each in litter.codes if each not in listed())
    append(tmp_path / "fates", fate(mutant, rule, source=litter.source))
    exit_code, told = run("pool-plain", "--seeds", "0", f"--trials={tmp_path / 'fates'}")
    assert (code, not rule) == (exit_code, f"+ {mutant.mutated}" in told)


@with_library
def test_no_hunt_is_never_green(tmp_path: Path) -> None:
    told = run("pool-plain", "--seeds", "0", f"--trials={tmp_path / 'fates'}")
    assert Code.NOTHING == told[0]


@with_library
def test_a_damaged_file_is_an_error_of_usage(tmp_path: Path) -> None:
    (tmp_path / "fates").write_text("nonsense\n")
    told = run("pool-plain", "--seeds", "0", f"--trials={tmp_path / 'fates'}")
    assert Code.UNUSABLE == told[0]


@pytest.mark.parametrize("arguments", [["nobody"], ["--driver", "uniform"], ["--canary-set"]])
def test_what_cannot_be_generated_is_an_error_of_usage(arguments: list[str]) -> None:
    assert Code.UNUSABLE == run(*arguments)[0]


def test_without_the_library_the_command_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(operators, "find_spec", lambda name: None)
    code, told = run("radix", "--seeds", "0")
    assert (Code.UNUSABLE, True) == (code, "radixcheck[mutation]" in told)


def test_every_target_that_can_be_judged_here_is_mutated_unless_some_are_named() -> None:
    assert (HERE, ["radix"]) == (known(None), known(["radix"]))


def test_a_target_that_cannot_be_judged_here_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SUBJECTS, "radix", SUBJECTS["radix"]._replace(libraries=("no_library",)))
    told = [each for each in left_out(None) if "no_library" in each]
    assert (["radix is left out: it needs no_library"], []) == (told, left_out(["radix-paged"]))


def test_a_target_that_is_not_mutated_is_an_error() -> None:
    with pytest.raises(TargetError, match="nobody"):
        known(["nobody"])
