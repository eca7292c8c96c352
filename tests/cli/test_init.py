"""``radixcheck init``: what it writes passes, is held by its own workflows, and harms nothing."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeAlias

import pytest
from typer.testing import Result

from radixcheck import known
from radixcheck import trace as traces
from radixcheck.rules import RULES
from radixcheck.skeleton import GATE, NIGHTLY, Gaps, name_of, project, workflows

Call: TypeAlias = Callable[..., Result]

CHECKOUT = Path(__file__).resolve().parents[2]
TARGET = "tests/radix/cache_1_target.py"
SPEC = f"./{TARGET}:Target"

WRITTEN = {
    TARGET,
    "tests/radix/test_cache_1_conformance.py",
    "tests/radix/known_failures.toml",
    "tests/radix/traces/README.md",
    "tests/radix/traces/first-steps.jsonl",
    "pyproject.toml",
    ".gitignore",
    ".github/workflows/radixcheck.yml",
    ".github/workflows/radixcheck-nightly.yml",
}

INSTALLABLE = '[project]\nname = "my-cache"\nversion = "0.1"\n'


def files(folder: Path) -> dict[str, str]:
    """Return what lies in `folder`, by path."""
    found = (path for path in folder.rglob("*") if path.is_file() and ".git/" not in str(path))
    return {path.relative_to(folder).as_posix(): path.read_text() for path in found}


@pytest.fixture
def home(folder: Path) -> Path:
    """An empty project in a folder called ``Cache-1``."""
    made = folder / "Cache-1"
    made.mkdir()
    return made


# ---- what is written ---------------------------------------------------------------------


def test_an_empty_folder_gets_every_file(call: Call, home: Path) -> None:
    assert 0 == call("init", str(home)).exit_code
    assert set(files(home)) == WRITTEN


def test_a_folder_that_is_not_there_is_made(call: Call, folder: Path) -> None:
    made = folder / "deep" / "cache 1"
    assert 0 == call("init", str(made)).exit_code
    assert set(files(made)) == WRITTEN


def test_what_exists_is_kept_and_the_others_are_written(call: Call, home: Path) -> None:
    (home / TARGET).parent.mkdir(parents=True)
    (home / TARGET).write_text("mine")
    result = call("init", str(home))
    assert 0 == result.exit_code
    assert f"exists, kept  {TARGET}" in result.output
    assert (set(files(home)), files(home)[TARGET]) == (WRITTEN, "mine")


def test_a_link_to_nowhere_is_not_written_through(call: Call, home: Path) -> None:
    (home / ".gitignore").symlink_to(home / "elsewhere")
    assert 0 == call("init", str(home)).exit_code
    assert not (home / "elsewhere").exists()


def test_a_second_init_writes_nothing(call: Call, home: Path) -> None:
    call("init", str(home))
    before = files(home)
    result = call("init", str(home))
    assert (0, before) == (result.exit_code, files(home))
    assert "written" not in result.output


def test_a_dry_run_writes_nothing(call: Call, home: Path) -> None:
    result = call("init", str(home), "--dry-run")
    assert len(WRITTEN) == result.output.count("would write")
    assert files(home) == {}


@pytest.mark.parametrize("there", ["", INSTALLABLE], ids=["empty", "a project"])
def test_pyproject_is_never_changed_but_the_lines_are_shown(
    call: Call, home: Path, there: str
) -> None:
    (home / "pyproject.toml").write_text(there)
    result = call("init", str(home))
    assert 'known-failures = "tests/radix/known_failures.toml"' in result.output
    assert there == (home / "pyproject.toml").read_text()


def test_lines_that_are_there_are_not_asked_for(call: Call, home: Path) -> None:
    (home / "pyproject.toml").write_text('[tool.radixcheck]\nknown-failures = "mine.toml"\n')
    (home / ".gitignore").write_text("*.pyc\nradixcheck-report/\nradixcheck-findings/\n")
    output = call("init", str(home)).output
    assert "add to pyproject.toml" not in output
    assert "add to .gitignore\n  radixcheck-campaign/\n\n" in output


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Prefix-Cache 2", "prefix_cache_2"),
        ("2fast", "cache_2fast"),
        ("кэш", "cache"),
        ("a$(touch x)`b`; #", "a_touch_x_b"),
        ("${{ secrets }}", "secrets"),
        ("class", "class"),
        ("x" * 99, "x" * 40),
    ],
)
def test_modules_are_named_safely_after_the_folder(
    tmp_path: Path, name: str, expected: str
) -> None:
    assert expected == name_of(tmp_path / name)


# ---- bad input ---------------------------------------------------------------------------


def test_a_file_in_the_place_of_the_folder_is_an_error(call: Call, folder: Path) -> None:
    result = call("init", "cache.py")
    assert 2 == result.exit_code
    assert "cache.py: not a folder" in result.output


def test_a_file_in_the_place_of_a_folder_below_is_an_error(call: Call, home: Path) -> None:
    (home / "tests").write_text("")
    assert 2 == call("init", str(home)).exit_code


def test_a_pyproject_that_is_no_toml_is_an_error_before_anything_is_written(
    call: Call, home: Path
) -> None:
    (home / "pyproject.toml").write_text("[project")
    result = call("init", str(home))
    assert 2 == result.exit_code
    assert "is no TOML" in result.output
    assert {"pyproject.toml"} == set(files(home))


# ---- what was written works --------------------------------------------------------------


def test_the_skeleton_passes_smoke(call: Call, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    call("init", str(home))
    monkeypatch.chdir(home)
    result = call("smoke", SPEC, "--seed", "1", "--max-ops", "4000")
    assert "FAILED" not in result.output
    assert 0 == result.exit_code


def test_the_adapter_is_about_fifteen_lines(home: Path) -> None:
    text = project(home, "1")[TARGET]
    adapter = text[text.index("class Target") : text.index("# ---- delete the rest")]
    code = re.sub(r'""".*?"""|#.*', "", adapter)
    assert sum(bool(line.strip()) for line in code.splitlines()) <= 17


def test_the_example_of_a_known_failure_can_be_read(home: Path, tmp_path: Path) -> None:
    text = project(home, "1")["tests/radix/known_failures.toml"]
    path = tmp_path / "known.toml"
    path.write_text(re.sub(r"^# (?=\[|\w+ +?= )", "", text, flags=re.MULTILINE))
    (failure,) = known.load(path)
    assert (True, True) == (failure.rule in RULES, failure.concerns(SPEC))


def test_the_first_trace_is_as_it_would_be_saved(home: Path) -> None:
    text = project(home, "1")["tests/radix/traces/first-steps.jsonl"].encode()
    assert text == traces.dumps(traces.loads(text))


def test_pyproject_says_only_what_radixcheck_knows(
    call: Call, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call("init", str(home))
    monkeypatch.chdir(home)
    assert 0 == call("run", SPEC, "--seed", "1", "--max-ops", "4000", "-q").exit_code


def test_without_packaging_the_cache_is_found_by_its_folder(home: Path) -> None:
    beside = project(home, "1")[TARGET]
    (home / "pyproject.toml").write_text(INSTALLABLE)
    installed = project(home, "1")[TARGET]
    assert ("sys.path.insert" in beside, "sys.path" in installed) == (True, False)


# ---- the workflows are safe --------------------------------------------------------------


class Step(NamedTuple):
    """A step of a workflow that runs something."""

    name: str
    script: str
    always: bool
    """Whether it runs although a step before it has failed."""


def steps(text: str) -> Iterator[Step]:
    """Read the steps of the first job of a workflow that ``init`` wrote."""
    job = re.split(r"^  [a-z-]+:\n", text.partition("\njobs:\n")[2], flags=re.MULTILINE)[1]
    for step in job.split("      - name: ")[1:]:
        name, _, rest = step.partition("\n")
        inline = re.search(r"^        run: (?!\|)(.+)$", rest, re.MULTILINE)
        block = re.search(r"^        run: \|\n((?: {10}.*\n|\n)+)", rest, re.MULTILINE)
        script = inline[1] if inline else textwrap.dedent(block[1]) if block else ""
        if script:
            yield Step(name, script, "        if:" in rest)


def variants(home: Path) -> dict[str, str]:
    """Return each workflow that ``init`` can write, and our own."""
    bare = project(home, "1.2.3")
    (home / "pyproject.toml").write_text(INSTALLABLE)
    packaged = project(home, "1.2.3")
    own = {path: (CHECKOUT / path).read_text() for path in (GATE, NIGHTLY)}
    named = {"bare": bare, "packaged": packaged, "own": own}
    return {f"{how} {path}": each[path] for how, each in named.items() for path in (GATE, NIGHTLY)}


def test_every_action_is_pinned_by_its_full_hash_with_one_version(home: Path) -> None:
    texts = "".join(variants(home).values())
    pins = set(re.findall(r"uses: ([\w/-]+)@([0-9a-f]{40}) # (v[\d.]+)\n", texts))
    actions = [name.split("/")[1] for name in re.findall(r"uses: ([\w/-]+)@", texts)]
    assert len(re.findall(r"\buses:", texts)) == len(re.findall(r"@[0-9a-f]{40} # v", texts))
    assert len({(name.split("/")[1], commit) for name, commit, _ in pins}) == len(set(actions))


def test_nothing_is_interpolated_into_a_script(home: Path) -> None:
    scripts = [step.script for text in variants(home).values() for step in steps(text)]
    scripts += re.findall(r"run: (?:\|\n(?: {10}.*\n)+|.*)", "".join(variants(home).values()))
    assert [] == [each for each in scripts if "${{" in each]


def test_a_token_can_do_nothing_unless_a_job_says_why(home: Path) -> None:
    for text in variants(home).values():
        assert "\npermissions: {}\n" in text
        assert "pull_request_target" not in text
        writes = re.findall(r"(\S+): write(.*)", text)
        assert all(reason.startswith(" # ") for _, reason in writes)
        assert len(writes) == 1
        assert text.count("actions/checkout@") == text.count("persist-credentials: false")


def test_every_job_ends_some_time(home: Path) -> None:
    for text in variants(home).values():
        assert text.count("runs-on:") == text.count("timeout-minutes:")
        assert "\nconcurrency:\n" in text


def test_our_own_workflows_are_what_init_writes() -> None:
    own: Gaps = runpy.run_path(str(CHECKOUT / ".github" / "own.py"))["OWN"]
    expected = workflows(own)
    assert expected == {path: (CHECKOUT / path).read_text() for path in expected}


# ---- the workflows hold a project --------------------------------------------------------


@pytest.fixture
def gate(call: Call, home: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], bool]:
    """A repository with what ``init`` writes; return what runs its gate and tells whether it is
    green."""
    call("init", str(home))
    commit(home, "radixcheck init")
    commit(home, "a pull request")
    scripts = Path(sys.executable).parent
    monkeypatch.setenv("PATH", f"{scripts}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(home / "summary.md"))

    def run() -> bool:
        green = True
        for step in steps((home / GATE).read_text()):
            if step.name != "Install" and (green or step.always):
                command = step.script.replace("--max-time 120s", "--max-time 6s -j 1")
                ran = subprocess.run(
                    ["bash", "-eo", "pipefail", "-c", command],
                    cwd=home,
                    capture_output=True,
                    text=True,
                    check=False,
                )
                green &= ran.returncode == 0
        return green

    return run


def commit(home: Path, message: str) -> None:
    """Commit all that lies in `home`."""
    author = ("-c", "user.name=Author", "-c", "user.email=author@example.com")
    subprocess.run(["git", "init", "-q"], cwd=home, check=True)
    subprocess.run(["git", "add", "-A"], cwd=home, check=True)
    commit = ["git", *author, "commit", "-qm", message, "--allow-empty"]
    subprocess.run(commit, cwd=home, check=True)


def plant(home: Path) -> None:
    """Let the stand-in evict a parent before its children."""
    text = (home / TARGET).read_text()
    assert "for node in reversed(path):" in text
    (home / TARGET).write_text(text.replace("for node in reversed(path):", "for node in path:"))


@pytest.mark.slow
def test_the_gate_is_green_as_it_stands(gate: Callable[[], bool], home: Path) -> None:
    assert gate()
    summary = (home / "summary.md").read_text()
    assert 2 == summary.count("## radixcheck")
    assert "no violation" in summary


@pytest.mark.slow
def test_the_gate_is_red_for_a_new_bug_and_the_summary_shows_it(
    gate: Callable[[], bool], home: Path
) -> None:
    plant(home)
    commit(home, "a bug")
    assert not gate()
    summary = (home / "summary.md").read_text()
    assert "<b>orphaned-suffix</b> at <code>evict</code>" in summary
    assert "<i>new</i>" in summary
    assert "assert freed != [1], freed" in summary


@pytest.mark.slow
def test_the_gate_is_green_for_a_bug_that_the_base_has_too(
    gate: Callable[[], bool], home: Path
) -> None:
    plant(home)
    commit(home, "a bug")
    commit(home, "an innocent pull request")
    assert gate()


def test_known_failures_of_a_project_are_toml(home: Path) -> None:
    assert {} == tomllib.loads(project(home, "1")["tests/radix/known_failures.toml"])
