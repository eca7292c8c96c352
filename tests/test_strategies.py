"""Hypothesis for caches: what a person imports, and what comes of it under pytest."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.database import InMemoryExampleDatabase
from hypothesis.stateful import run_state_machine_as_test

from radixcheck.operations import AnyOperation, Audit, Insert, MatchPrefix
from radixcheck.registry import resolve
from radixcheck.strategies import Machine, RuleBroken, judge, keys, machine, operations, traces
from radixcheck.targets.first_release import RadixFirstRelease
from radixcheck.targets.honest import HONEST
from radixcheck.targets.liars import LIARS
from radixcheck.trace import Trace, load
from radixcheck.verdict import check

pytestmark = pytest.mark.slow

QUICK = settings(
    max_examples=20,
    deadline=None,
    database=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=(HealthCheck.too_slow, HealthCheck.data_too_large),
)
"""Without Hypothesis's own shrinking: ours does it in a tenth of the time."""

PATIENT = settings(QUICK, max_examples=300)

LOST_AT_A_FORK = Trace((Insert((1, 2)), Insert((1, 2, 3)), MatchPrefix((1, 3))))
"""What the first release gets wrong."""


def run(made: type[Machine], limits: settings = QUICK) -> None:
    run_state_machine_as_test(made, settings=limits)


# ------------------------------------------------------------------------------------ strategies


@given(st.data())
def test_keys_begin_as_an_earlier_one_or_are_made_of_the_alphabet(data: st.DataObject) -> None:
    drawn = data.draw(keys(near=[(7, 8, 9)], alphabet=range(1, 3)))
    shared = next((n for n in (3, 2, 1) if drawn[:n] == (7, 8, 9)[:n]), 0)
    assert set(drawn[shared:]) <= {1, 2}


def test_the_simplest_key_is_empty() -> None:
    assert find(keys(), lambda key: True) == ()


def test_the_simplest_key_of_two_pages_is_two_pages_of_one_token() -> None:
    assert find(keys(page_size=2), lambda key: len(key) == 4) == (1, 1, 1, 1)


@settings(max_examples=20)
@given(traces("radix"))
def test_a_trace_ends_in_an_audit_and_has_a_supported_configuration(trace: Trace) -> None:
    configurations = resolve("radix").configurations()
    assert trace.operations[-1] == Audit()
    assert trace.config in [*configurations, configurations[0] | {"disable": True}]


@settings(max_examples=20)
@given(operations("radix", max_size=8))
def test_there_are_never_more_operations_than_was_wanted(drawn: tuple[AnyOperation, ...]) -> None:
    assert len(drawn) <= 8


@settings(max_examples=10)
@given(operations("radix", only=["insert"]))
def test_operations_are_of_the_wanted_kinds(drawn: tuple[AnyOperation, ...]) -> None:
    assert {each.kind for each in drawn} <= {"insert"}


# ------------------------------------------------------------------------------------ whole traces


def test_a_good_trace_is_judged_in_silence_outside_of_hypothesis_too(tmp_path: Path) -> None:
    judge("radix", LOST_AT_A_FORK, findings_dir=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_broken_rule_is_raised_as_a_finding_and_saved_as_a_trace(tmp_path: Path) -> None:
    with pytest.raises(RuleBroken, match=r"phantom-prefix \(corruption\)") as raised:
        judge("radix-first-release", LOST_AT_A_FORK, findings_dir=tmp_path)
    (saved,) = tmp_path.glob("phantom-prefix-*.jsonl")
    again = check(resolve("radix-first-release").open, load(saved)).violation
    assert again is not None
    assert again.signature == ("phantom-prefix", "match_prefix")
    assert f"reproduce: radixcheck replay {saved}" in str(raised.value)


def test_rules_that_do_not_count_are_not_raised() -> None:
    judge("radix-first-release", LOST_AT_A_FORK, rules=["evicted-locked"], findings_dir=None)


# --------------------------------------------------------------------------------- state machines


@pytest.mark.parametrize("spec", ["radix", "radix-paged", "pool-counted", "requests:radix"])
def test_a_correct_target_of_any_level_is_green(spec: str) -> None:
    run(machine(spec, findings_dir=None))


@pytest.mark.parametrize("name", ["keeps-both-copies", "leaves-last-token", "bare-minimum"])
def test_a_near_miss_is_spared(name: str) -> None:
    run(machine(HONEST[name], findings_dir=None))


@pytest.mark.parametrize("rule", ["foreign-slot", "handle-mismatch", "lost-insert", "size-drift"])
def test_a_liar_is_caught_by_its_own_rule(rule: str) -> None:
    with pytest.raises(RuleBroken) as raised:
        run(machine(LIARS[rule], rules=[rule], findings_dir=None), PATIENT)
    assert f"finding 1: {rule} " in str(raised.value)


def test_a_finding_is_shrunk_to_the_end_whatever_hypothesis_left(tmp_path: Path) -> None:
    with pytest.raises(RuleBroken, match=r"3 operations, shrunk from \d+"):
        run(machine(RadixFirstRelease, findings_dir=tmp_path), PATIENT)
    (saved,) = tmp_path.iterdir()
    assert len(load(saved).operations) == 3


def test_hypothesis_shrinks_what_it_drew() -> None:
    limits = settings(
        PATIENT, phases=[Phase.generate, Phase.shrink], stateful_step_count=15, derandomize=True
    )
    with pytest.raises(RuleBroken) as raised:
        run(machine(RadixFirstRelease, only=["insert", "match_prefix"], findings_dir=None), limits)
    steps = [note for note in raised.value.__notes__ if note.startswith("state.")]
    assert len(steps) <= 10


def test_what_failed_is_remembered_and_fails_at_once() -> None:
    limits = settings(PATIENT, derandomize=False, database=InMemoryExampleDatabase())
    examples = 0

    base: Any = machine(RadixFirstRelease, findings_dir=None)

    class Counted(base):  # type: ignore[misc]  # made by a call
        def teardown(self) -> None:
            nonlocal examples
            examples += 1
            super().teardown()

    with pytest.raises(RuleBroken):
        run(Counted, limits)
    examples = 0
    with pytest.raises(RuleBroken):
        run(Counted, settings(limits, phases=[Phase.reuse]))
    assert examples <= 3


def test_a_machine_has_only_the_wanted_kinds() -> None:
    seen: set[str] = set()

    base: Any = machine("radix", only=["insert"], findings_dir=None)

    class Watched(base):  # type: ignore[misc]  # made by a call
        def apply(self, operation: object) -> None:
            seen.add(type(operation).__name__)

    run(Watched)
    assert seen == {"Insert", "Audit"}


def test_an_unknown_rule_is_an_error_that_lists_the_others() -> None:
    with pytest.raises(ValueError, match="no rule 'tidiness': choose of foreign-slot, "):
        machine("radix", rules=["tidiness"])


def test_a_rule_that_does_not_count_ends_the_trace_in_silence() -> None:
    run(machine(RadixFirstRelease, rules=["evicted-locked"], findings_dir=None))


def test_profiles_are_honoured_but_for_explanations_of_our_own_lines() -> None:
    made = machine("radix").TestCase.settings
    assert made.stateful_step_count == settings().stateful_step_count
    assert set(settings().phases) - set(made.phases) == {Phase.explain}


# --------------------------------------------------------------------------------- under pytest

MINE = """
from hypothesis import Phase, settings
from radixcheck.strategies import machine
from radixcheck.targets.first_release import RadixFirstRelease

class Forgets(RadixFirstRelease):
    'A cache in a file of its own.'

TestForgets = machine(Forgets).TestCase
TestForgets.settings = settings(
    TestForgets.settings, max_examples=500, phases=[Phase.reuse, Phase.generate]
)
TestRadix = machine("radix").TestCase
TestRadix.settings = settings(TestRadix.settings, max_examples=5)
"""


def run_in(folder: Path, *arguments: str, ci: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={key: value for key, value in os.environ.items() if key != "CI"}
        | ({"CI": ci} if ci else {}),
        capture_output=True,
        text=True,
        check=False,
    )


def pytest_in(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_mine.py").write_text(MINE)
    return run_in(folder, "-m", "pytest", "-p", "no:cacheprovider", *options, "test_mine.py")


Failed: TypeAlias = tuple[Path, subprocess.CompletedProcess[str]]
"""The folder of a test run, and its output."""


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> Failed:
    folder = tmp_path_factory.mktemp("mine")
    return folder, pytest_in(folder, "--hypothesis-seed=1", "-k", "Forgets")


def test_under_pytest_a_failure_is_our_finding_and_no_stack_of_ours(failed: Failed) -> None:
    _, result = failed
    assert result.returncode == 1
    assert "E   match = cache.match_prefix" in result.stdout
    assert "strategies.py:" not in result.stdout


def test_the_saved_trace_fails_again_by_the_command_that_is_shown(failed: Failed) -> None:
    folder, result = failed
    (arguments,) = re.findall(r"reproduce: radixcheck (.*)", result.stdout)
    again = run_in(folder, "-m", "radixcheck", *arguments.split())
    assert (again.returncode, "FAILED" in again.stdout) == (1, True)


def test_the_same_seed_finds_the_same(failed: Failed, tmp_path: Path) -> None:
    folder, _ = failed
    pytest_in(tmp_path, "--hypothesis-seed=1", "-k", "Forgets")
    found = [load(file) for each in (folder, tmp_path) for file in each.glob("*findings/*")]
    assert len(found) == 2
    assert found[0].operations == found[1].operations


def test_statistics_show_the_situations_that_were_reached(tmp_path: Path) -> None:
    result = pytest_in(tmp_path, "--hypothesis-show-statistics", "-k", "Radix")
    assert re.search(r"\d+\.\d+%, audit", result.stdout)


def test_the_nightly_profile_draws_anew_and_remembers_even_where_ci_is_set(tmp_path: Path) -> None:
    code = """
from hypothesis import settings
from radixcheck.strategies import register_profiles
before = settings()
register_profiles()
settings.load_profile("nightly")
now = settings()
print(before.derandomize, before.database, now.derandomize, now.database is None)
"""
    done = run_in(tmp_path, "-c", code, ci="1")
    assert done.stdout.split() == ["True", "None", "False", "False"]
