"""The pytest plugin, as a project meets it: a folder of its own, and pytest as a process."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as xml
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TypeAlias

import pytest

from radixcheck import corpus

pytestmark = pytest.mark.slow

Pytest: TypeAlias = Callable[..., "subprocess.CompletedProcess[str]"]

CACHE = '''
from bisect import bisect_left

from radixcheck.capabilities import Capabilities
from radixcheck.protocol import Match


class MyCache:
    """Fifteen lines: a sorted list of whole keys would do, and so does a dictionary of prefixes."""

    def __init__(self):
        self.capabilities = Capabilities()
        self.slots = {}

    def match_prefix(self, tokens):
        key = tuple(tokens)
        length = next(n for n in range(len(key), -1, -1) if not n or key[:n] in self.slots)
        return Match(length, [self.slots[key[: n + 1]] for n in range(length)], key[:length])

    def insert(self, tokens, slots):
        existing = self.match_prefix(tokens).length
        for n in range(existing, len(tokens)):
            self.slots[tuple(tokens[: n + 1])] = slots[n]
        return existing


class Planted(MyCache):
    def match_prefix(self, tokens):
        found = super().match_prefix(tokens)
        return found if len(tokens) < 3 else super().match_prefix(tokens[:-1])


class ThirdTime(MyCache):
    opened = 0

    def __init__(self):
        super().__init__()
        ThirdTime.opened += 1
        if ThirdTime.opened > 3:
            raise RuntimeError("no more of them")
'''

SUITE = """
from my_cache import {0}
from radixcheck.conformance import ConformanceSuite


class TestMine(ConformanceSuite):
    target = {0}
"""


xdist = pytest.mark.skipif(find_spec("xdist") is None, reason="pytest-xdist is not installed")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Make a project with a small cache and one trace."""
    (tmp_path / "my_cache.py").write_text(CACHE)
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = .\n")
    traces = tmp_path / "traces"
    traces.mkdir()
    (traces / "ours.jsonl").write_text('{"radixcheck": 1}\n{"op": "insert", "tokens": [1]}\n')
    return tmp_path


@pytest.fixture
def run(project: Path) -> Pytest:
    """Run pytest in the project, with a cache of its own: under tox all would share one."""

    def run(*arguments: str, python: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
        options = ("-p", "no:randomly", "--radix-profile", "smoke")
        command = [sys.executable, *python, "-m", "pytest", *options, *arguments]
        own = {name: text for name, text in os.environ.items() if name != "TOX_ENV_DIR"}
        return subprocess.run(
            command, cwd=project, env=own, capture_output=True, text=True, check=False
        )

    return run


def outcome(done: subprocess.CompletedProcess[str]) -> tuple[int, str]:
    """Return the exit code, and the last line without its time."""
    return done.returncode, done.stdout.strip().splitlines()[-1].strip("= ").partition(" in ")[0]


def test_a_correct_cache_is_green_from_any_folder(run: Pytest, project: Path) -> None:
    strict = ("-W", "error", "--strict-markers", "--junitxml", "junit.xml")
    done = run("--radix-target", "./my_cache.py:MyCache", "--radix-corpus", "traces", *strict)
    assert (0, False) == (done.returncode, "failed" in outcome(done)[1]), done.stdout
    assert "MyCache, seed 0, 1 configurations, a tree" in done.stdout
    cases = xml.parse(project / "junit.xml").iter("testcase")
    (ours,) = [case for case in cases if case.get("name") == "test_trace[ours.jsonl]"]
    assert [] == list(ours)


def test_a_planted_bug_is_red_and_shown_as_a_program(run: Pytest) -> None:
    done = run("--radix-target", "./my_cache.py:Planted", "-k", "test_generated")
    assert 1 == done.returncode
    assert "cache = Planted()" in done.stdout
    assert "pytest_plugin.py" not in done.stdout


def test_a_planted_bug_is_red_in_junit_too(run: Pytest, project: Path) -> None:
    run("--radix-target", "./my_cache.py:Planted", "-k", "generated", "--junitxml", "junit.xml")
    (failure,) = xml.parse(project / "junit.xml").iter("failure")
    assert "missed-prefix" in str(failure.text)


def test_verdicts_survive_optimised_python(run: Pytest) -> None:
    done = run("--radix-target", "./my_cache.py:Planted", "-k", "generated", python=("-O",))
    assert (1, "1 failed") == (done.returncode, outcome(done)[1].partition(",")[0])


@pytest.mark.parametrize(("name", "code"), [("MyCache", 0), ("Planted", 1)])
def test_a_project_may_write_the_class_itself(
    run: Pytest, project: Path, name: str, code: int
) -> None:
    (project / "test_mine.py").write_text(SUITE.format(name))
    assert code == run("-k", "generated or adapter").returncode


def test_every_trace_is_one_test_with_a_stable_id(run: Pytest) -> None:
    target = ("--radix-target", "radix", "--radix-corpus", "traces")
    listed = run(*target, "--collect-only", "-q", "-k", "test_trace").stdout
    assert "radixcheck::TestTarget::test_trace[sglang-7-edge-split]" in listed
    assert "radixcheck::TestTarget::test_trace[ours.jsonl]" in listed


def test_what_failed_last_runs_alone(run: Pytest) -> None:
    target = ("--radix-target", "radix-first-release", "-k", "sglang-7-edge-split or adapter")
    first, again = run(*target), run(*target, "--lf")
    assert (1, 1) == (first.returncode, again.returncode)
    assert "1 failed" == outcome(again)[1].partition(",")[0]


@xdist
def test_workers_share_the_suite(run: Pytest) -> None:
    done = run("--radix-target", "radix-first-release", "-n", "2", "-k", "generated or edge")
    assert (1, "2 failed") == (done.returncode, outcome(done)[1].partition(",")[0])


def test_a_rule_that_does_not_apply_is_skipped_with_the_reason(run: Pytest) -> None:
    done = run("--radix-target", "./my_cache.py:MyCache", "-rs", "-k", "test_rule")
    assert "there is no evict" in done.stdout


def test_a_damaged_trace_fails_alone(run: Pytest, project: Path) -> None:
    (project / "traces/damaged.jsonl").write_text('{"radixcheck": 1}\n{"op": "ins')
    (project / "traces/copy.jsonl").write_text((project / "traces/ours.jsonl").read_text())
    (project / "traces/notes.txt").write_text("no trace")
    done = run("--radix-target", "radix", "--radix-corpus", "traces", "-k", "jsonl")
    assert (1, "1 failed, 2 passed") == (done.returncode, outcome(done)[1].rpartition(",")[0])
    assert "damaged.jsonl" in done.stdout


def test_a_target_that_is_not_there_is_a_sentence(run: Pytest) -> None:
    done = run("--radix-target", "radx")
    assert 2 == done.returncode
    assert "unknown target 'radx'; nearest: radix" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


def test_a_factory_that_fails_late_is_a_sentence(run: Pytest) -> None:
    done = run("--radix-target", "./my_cache.py:ThirdTime", "-k", "generated")
    assert 1 == done.returncode
    assert "RuntimeError: no more of them" in done.stdout
    assert "registry.py" not in done.stdout


TWO_SUITES = """
from radixcheck.conformance import ConformanceSuite


class TestOne(ConformanceSuite):
    target = "radix"


class TestTwo(ConformanceSuite):
    target = "radix"
"""

KNOWN = '[[failure]]\nrule = "phantom-prefix"\nreason = "the bug of 2024"\n'


def test_a_known_failure_is_counted_and_not_red(run: Pytest, project: Path) -> None:
    (project / "known.toml").write_text(KNOWN)
    known = ("--radix-target", "radix-first-release", "--radix-known-failures", "known.toml")
    done = run(*known, "-rx", "-k", "generated")
    assert (0, "1 xfailed") == (done.returncode, outcome(done)[1].split(", ")[-1])
    assert "known: the bug of 2024" in done.stdout


def test_an_expired_entry_covers_nothing_and_is_to_be_removed(run: Pytest, project: Path) -> None:
    (project / "known.toml").write_text(KNOWN + "expires = 2024-02-01\n")
    known = ("--radix-target", "radix-first-release", "--radix-known-failures", "known.toml")
    done = run(*known, "-k", "generated")
    assert 1 == done.returncode
    assert "remove me: phantom-prefix expired on 2024-02-01" in done.stdout


def test_an_entry_that_stays_clean_is_to_be_removed(run: Pytest, project: Path) -> None:
    (project / "known.toml").write_text(KNOWN + "clean_runs = 2\n")
    known = ("--radix-target", "radix", "--radix-known-failures", "known.toml", "-k", "adapter")
    assert "did not occur (1 of 2 clean runs)" in run(*known).stdout
    assert "remove me: phantom-prefix did not occur in 2 runs" in run(*known).stdout


@xdist
@pytest.mark.parametrize("workers", [(), ("-n", "2")])
def test_an_entry_is_told_once_for_all_suites(
    run: Pytest, project: Path, workers: tuple[str, ...]
) -> None:
    (project / "known.toml").write_text(KNOWN + "clean_runs = 2\n")
    (project / "test_mine.py").write_text(TWO_SUITES)
    known = (*workers, "--radix-known-failures", "known.toml", "-k")
    told = [run(*known, "adapter").stdout.count("phantom-prefix did not occur")]
    (project / "test_mine.py").write_text(TWO_SUITES.replace('"radix"', '"radix-first-release"'))
    told.append(run(*known, "generated").stdout.count("phantom-prefix did not occur"))
    assert [1, 0] == told


def test_what_is_only_collected_is_no_clean_run(run: Pytest, project: Path) -> None:
    (project / "known.toml").write_text(KNOWN)
    known = ("--radix-target", "radix", "--radix-known-failures", "known.toml")
    assert "did not occur" not in run(*known, "--collect-only").stdout


def test_the_suite_replays_every_regression_of_its_level(run: Pytest) -> None:
    trees = [
        entry.id
        for entry in corpus.packaged().entries
        if all(each.kind in {"match_prefix", "insert", "evict"} for each in entry.trace.operations)
    ]
    listed = run("--radix-target", "radix", "--collect-only", "-q").stdout
    assert [] == [id for id in trees if f"[{id}]" not in listed]
