"""``radixcheck fuzz`` as a process: it ends in time, may be killed at any moment, and goes on."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeAlias

import pytest

from radixcheck import trace

pytestmark = pytest.mark.slow

Started: TypeAlias = "subprocess.Popen[str]"
Fuzz: TypeAlias = Callable[..., Started]

PLANTED = "radix-first-release"
SHORT = ("--max-ops", "15000", "--seed", "1")
"""With most seeds, and with this one, the canary is found in its first turn; it has no second."""

LATEST_S = 5.0
"""A campaign ends no later after its limit."""

TARGETS = '''
import os
import subprocess
import sys
import time

from radixcheck.targets.radix import Radix

KEPT = []


class Forks(Radix):
    """Starts a process that outlives everybody, if nobody ends it."""

    def reset(self):
        code = f"import time; time.sleep(600)  # {os.environ['LEFT_BEHIND']}"
        subprocess.Popen([sys.executable, "-c", code])
        return super().reset()


class Prints(Radix):
    """Prints megabytes."""

    def insert(self, *arguments, **keywords):
        print("x" * 20_000)
        return super().insert(*arguments, **keywords)


class Leaks(Radix):
    """Keeps some memory of each life."""

    def __init__(self, **options):
        super().__init__(**options)
        KEPT.append(bytearray(4_000_000))


class Hangs(Radix):
    def evict(self, num_tokens):
        while True:
            time.sleep(0.01)
'''


@pytest.fixture
def fuzz(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fuzz:
    """Start a campaign in a folder of its own, with ``cache.py`` in it."""
    for name in [name for name in os.environ if name.startswith("RADIXCHECK_")]:
        monkeypatch.delenv(name)
    (tmp_path / "cache.py").write_text(TARGETS)

    def start(*arguments: str, jobs: int = 2, **environment: str) -> Started:
        return subprocess.Popen(
            [sys.executable, "-m", "radixcheck", "fuzz", *arguments, "-j", str(jobs)],
            cwd=tmp_path,
            env=os.environ | {"COLUMNS": "200"} | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    return start


def ended(running: Started) -> tuple[int, str]:
    """Wait for the end of a campaign."""
    told, _ = running.communicate(timeout=120)
    return running.returncode, told


def tallies(folder: Path) -> dict[str, int]:
    """Read how many operations were judged of each target."""
    path = folder / "radixcheck-campaign" / "campaign.json"
    told = json.loads(path.read_text()) if path.exists() else {"targets": {}}
    return {spec: each["operations"] for spec, each in told["targets"].items()}


def sizes(folder: Path) -> dict[str, int]:
    """Read every trace of a campaign; answer how long the findings are."""
    found = {}
    for path in sorted((folder / "radixcheck-campaign").rglob("*.jsonl")):
        operations = trace.load(path).operations
        if path.parent.name == "findings":
            found[path.name] = len(operations)
    return found


def has_gone_on(folder: Path, judged: int) -> bool:
    """Tell whether a campaign has found something, and judged more than so many operations."""
    findings = folder / "radixcheck-campaign" / "findings"
    return any(findings.glob("*.jsonl")) and sum(tallies(folder).values()) > judged


def wait_for(what: Callable[[], object], running: Started) -> None:
    """Wait until something holds, or the campaign has ended."""
    while not what() and running.poll() is None:
        time.sleep(0.05)


def left_behind(mark: str) -> list[int]:
    """Return the processes whose command line has a word in it, a moment later."""
    found: list[int] = []
    for _ in range(100):
        found = [int(path.parent.name) for path in _command_lines() if mark in _read(path)]
        if not found:
            break
        time.sleep(0.1)
    return found


def _command_lines() -> list[Path]:
    return list(Path("/proc").glob("[0-9]*/cmdline"))


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


# ---- what came of it ---------------------------------------------------------------------


def test_a_planted_bug_makes_the_night_red_and_is_saved(fuzz: Fuzz, tmp_path: Path) -> None:
    code, told = ended(fuzz(PLANTED, "--max-ops", "6000"))
    assert (1, [3]) == (code, list(sizes(tmp_path).values())), told


def test_a_correct_target_is_green_and_its_canary_is_found(fuzz: Fuzz) -> None:
    code, told = ended(fuzz("radix", *SHORT))
    assert (0, True) == (code, "canary  found" in told), told


def test_a_canary_that_is_not_found_makes_the_night_red(fuzz: Fuzz) -> None:
    code, told = ended(fuzz("radix", "--max-ops", "10000", "--canary", "radix"))
    assert (4, True) == (code, "canary missed: radix" in told), told


def test_a_night_in_which_nothing_but_its_canary_ran_is_not_green(fuzz: Fuzz) -> None:
    code, told = ended(fuzz("radixcheck.targets.fatal:NeverReturns", "--max-time", "0.01s"))
    assert (True, True) == (code in (4, 5), "nothing ran" in told), told


def test_only_known_failures_are_green(fuzz: Fuzz, tmp_path: Path) -> None:
    known = tmp_path / "known.toml"
    known.write_text('[[failure]]\nrule = "phantom-prefix"\nreason = "the first release"\n')
    code, told = ended(fuzz(PLANTED, *SHORT, "--known-failures", str(known)))
    assert (0, {}) == (code, sizes(tmp_path)), told
    assert "cut short" in told


@pytest.mark.parametrize(("baseline", "expected"), [(PLANTED, 0), ("radix", 1)])
def test_only_what_the_baseline_does_not_show_is_red(
    fuzz: Fuzz, baseline: str, expected: int
) -> None:
    only_new = "--only-new", "--baseline", baseline
    code, told = ended(fuzz(PLANTED, *SHORT, *only_new))
    assert (expected, expected == 0) == (code, "not new" in told), told


def test_only_new_needs_something_to_compare_with(fuzz: Fuzz) -> None:
    code, told = ended(fuzz("radix", "--only-new"))
    assert (2, True) == (code, "--baseline" in told), told


def test_a_baseline_that_is_not_there_is_told_before_the_night(fuzz: Fuzz) -> None:
    gone = ("--only-new", "--baseline", "./gone.py:X")
    code, said = ended(fuzz("radix", *gone, "--max-time", "60s"))
    assert (code, "no file" in said, "operations" in said) == (2, True, False)


def test_a_campaign_wants_a_folder_of_its_own(fuzz: Fuzz) -> None:
    code, said = ended(fuzz("radix", "--state", "", "--max-time", "1s"))
    assert (code, "a folder of its own" in said) == (2, True)


def test_a_target_that_is_not_there_does_not_keep_others_from_it(fuzz: Fuzz) -> None:
    code, told = ended(fuzz("radix", "nowhere:Cache", "--max-ops", "5000"))
    assert (2, True) == (code, "radix: no violation" in told), told


# ---- its end -----------------------------------------------------------------------------


def test_a_night_ends_in_time_whatever_its_targets_do(fuzz: Fuzz, tmp_path: Path) -> None:
    limits = "--max-time", "20s", "--op-timeout", "1s"
    code, told = ended(fuzz("./cache.py:Hangs", PLANTED, *limits, "-q"))
    seen = json.loads((tmp_path / "radixcheck-campaign" / "campaign.json").read_text())
    assert (1, True) == (code, 20 <= seen["elapsed_s"] < 20 + LATEST_S), told
    assert "hang at evict" in told


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopped_it_says_what_it_has_and_goes_on_the_next_time(
    fuzz: Fuzz, tmp_path: Path, number: signal.Signals
) -> None:
    running = fuzz("radix", "--max-time", "60s")
    wait_for(lambda: tallies(tmp_path).get("radix"), running)
    running.send_signal(number)
    code, told = ended(running)
    first = tallies(tmp_path)["radix"]
    again, more = ended(fuzz("radix", "--max-ops", "3000", "--canary", "none"))
    assert (130, True) == (code, "interrupted" in told), told
    assert "it goes on" in more
    assert (True, True) == (again in (0, 4), tallies(tmp_path)["radix"] > first)


def test_killed_at_any_moment_nothing_that_was_found_is_lost(fuzz: Fuzz, tmp_path: Path) -> None:
    rng, found, judged = random.Random(3), dict[str, int](), 0
    for _ in range(3):
        running = fuzz("radix", PLANTED, "--max-time", "60s")
        wait_for(partial(has_gone_on, tmp_path, judged), running)
        time.sleep(2 * rng.random())
        running.kill()
        running.communicate()
        now, judged = sizes(tmp_path), sum(tallies(tmp_path).values())
        assert all(now[name] <= size for name, size in found.items())
        found = now
    assert ([3], False) == (
        list(found.values()),
        (tmp_path / "radixcheck-campaign" / "damaged").exists(),
    )


def test_two_campaigns_in_one_folder_are_a_mistake(fuzz: Fuzz, tmp_path: Path) -> None:
    first = fuzz("radix", "--max-time", "60s")
    wait_for((tmp_path / "radixcheck-campaign" / "campaign.json").exists, first)
    code, told = ended(fuzz("radix"))
    first.kill()
    first.communicate()
    assert (2, True) == (code, f"process {first.pid}" in told), told


def test_a_full_disk_is_told_and_the_verdict_all_the_same(fuzz: Fuzz, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root may mount a small file system")
    try:
        code, told = ended(fuzz(PLANTED, "--max-ops", "8000", "--state", str(disk / "state")))
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)
    assert (1, True, True) == (code, "No space left" in told, "phantom-prefix" in told), told


# ---- bad targets -------------------------------------------------------------------------


def test_what_a_target_has_started_does_not_outlive_a_campaign(fuzz: Fuzz, tmp_path: Path) -> None:
    mark = f"mark-{tmp_path.name}-{os.getpid()}"
    code, told = ended(
        fuzz("./cache.py:Forks", "--max-ops", "2000", "--canary", "none", LEFT_BEHIND=mark)
    )
    assert ([], True) == (left_behind(mark), code in (0, 4)), told


def test_nobody_outlives_a_campaign_that_is_killed(fuzz: Fuzz, tmp_path: Path) -> None:
    mark = f"mark-{tmp_path.name}-{os.getpid()}"
    running = fuzz("./cache.py:Forks", "--max-time", "60s", LEFT_BEHIND=mark)
    wait_for(lambda: tallies(tmp_path).get("./cache.py:Forks"), running)
    workers = [path.parent.name for path in _command_lines() if _is_worker(path, running.pid)]
    running.kill()
    running.communicate()
    assert (2, []) == (len(workers), left_behind(mark))
    wait_for_none(workers)
    assert [] == [each for each in workers if _read(Path("/proc", each, "cmdline"))]


def _is_worker(path: Path, parent: int) -> bool:
    stat = _read(path.with_name("stat")).rpartition(")")[2].split()
    return "radixcheck.campaign.worker" in _read(path) and stat[1:2] == [str(parent)]


def wait_for_none(pids: list[str]) -> None:
    """Wait until none of some processes is left."""
    until_s = time.monotonic() + 10
    while any(_read(Path("/proc", each, "cmdline")) for each in pids):
        if time.monotonic() > until_s:
            return
        time.sleep(0.1)


def test_a_target_that_prints_megabytes_fills_no_disk(fuzz: Fuzz) -> None:
    code, told = ended(fuzz("./cache.py:Prints", "--max-ops", "8000", "--canary", "none"))
    assert (True, True) == (code in (0, 4), len(told) < 20_000)


def test_a_worker_that_grows_is_replaced_and_nothing_is_accused(fuzz: Fuzz) -> None:
    limits = "--memory-limit", "400M", "--max-ops", "20000", "--canary", "none"
    code, told = ended(fuzz("./cache.py:Leaks", *limits, jobs=1))
    assert (True, True) == (code in (0, 4), "was replaced" in told), told


def test_a_crash_is_a_finding_and_no_end(fuzz: Fuzz, tmp_path: Path) -> None:
    limits = "--max-ops", "4000", "--canary", "none"
    code, told = ended(fuzz("radixcheck.targets.fatal:CutsWildly", *limits))
    assert (1, ["crash"]) == (code, [name.partition("-")[0] for name in sizes(tmp_path)]), told
