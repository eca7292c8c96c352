"""``radixcheck mutants``: tables, files and exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from typer.testing import CliRunner, Result

from radixcheck.bite.document import BY_HAND, by_hand, document
from radixcheck.bite.trial import Trial, append, read
from radixcheck.cli.app import app
from radixcheck.cli.codes import Code
from radixcheck.targets.mutants import LATER, MUTANTS

pytestmark = pytest.mark.slow

ID = "sglang-38941-seam"
KILL = Trial(ID, "swarm", 0, 5.0, 0.001, 2, "double-free", "free", 2, 2, 0.004, "a machine")
LIVES = Trial(ID, "uniform", 0, 5.0, 5.0, 9000, machine="a machine")


def run(*arguments: str) -> Result:
    """Call the command."""
    return CliRunner().invoke(app, ["mutants", *arguments])


def kept(path: Path, *trials: Trial) -> str:
    """Put trials down, and return the option that names the file."""
    for each in trials:
        append(path / "trials", each)
    return f"--trials={path / 'trials'}"


def test_hunts_are_made_once_and_put_down(tmp_path: Path) -> None:
    first = run(ID, "--seeds", "2", "--max-time", "5s", kept(tmp_path))
    made = read(tmp_path / "trials")
    again = run(ID, "--seeds", "2", "--max-time", "5s", kept(tmp_path))
    assert (Code.CLEAN, Code.CLEAN) == (first.exit_code, again.exit_code)
    assert ([0, 1], made) == ([each.seed for each in made], read(tmp_path / "trials"))


def test_what_the_swarm_missed_is_red(tmp_path: Path) -> None:
    missed = Trial(ID, "swarm", 0, 5.0, 5.0, 9000)
    assert Code.VIOLATION == run(ID, "--seeds", "0", kept(tmp_path, missed)).exit_code


def test_what_a_peer_missed_is_not(tmp_path: Path) -> None:
    told = run(ID, "--seeds", "0", "--driver", "swarm,uniform", kept(tmp_path, KILL, LIVES))
    assert (Code.CLEAN, True) == (told.exit_code, "0 of 1" in told.output)


def test_no_hunt_is_never_green(tmp_path: Path) -> None:
    assert Code.NOTHING == run("--seeds", "0", kept(tmp_path)).exit_code


@pytest.mark.parametrize(
    "arguments",
    [
        ["sglang-7-edge-splits"],
        [next(iter(LATER))],
        ["--driver", "nobody"],
        ["--max-time", "soon"],
    ],
)
def test_what_cannot_be_hunted_is_an_error_of_usage(arguments: list[str], tmp_path: Path) -> None:
    assert Code.UNUSABLE == run(*arguments, "--seeds", "0", kept(tmp_path)).exit_code


def test_a_damaged_file_is_an_error_of_usage(tmp_path: Path) -> None:
    (tmp_path / "trials").write_text("nonsense\n")
    assert Code.UNUSABLE == run("--seeds", "0", kept(tmp_path)).exit_code


def test_the_page_and_its_drawing_are_made_of_the_file(tmp_path: Path) -> None:
    page = tmp_path / "bite.md"
    run(ID, "--seeds", "0", kept(tmp_path, KILL, LIVES), "--write", str(page))
    expected = document([KILL, LIVES], "bite.svg", "trials")
    assert (expected, True) == (page.read_text(), (tmp_path / "bite.svg").exists())


def test_what_a_person_wrote_below_the_page_stays(tmp_path: Path) -> None:
    page = tmp_path / "bite.md"
    page.write_text(f"outdated\n\n{BY_HAND}\n\nmine\n")
    run(ID, "--seeds", "0", kept(tmp_path, KILL), "--write", str(page))
    text = page.read_text()
    assert (False, True) == ("outdated" in text, text.endswith(f"\n\n{BY_HAND}\n\nmine\n"))


def test_the_page_names_every_bug_that_is_not_planted_yet() -> None:
    page = document([KILL], "bite.svg", "trials")
    assert [] == [id for id in LATER if f"`{id}`" not in page]


def test_the_page_links_a_mutant_to_its_public_bug() -> None:
    assert f"| `{ID}` | {MUTANTS[ID].source} | 1 of 1 |" in document([KILL], "x.svg", "trials")


def test_the_page_tells_kills_by_what_a_bug_is_not_known_for() -> None:
    other = replace(KILL, rule="leaked-slot", seed=1)
    page = document([KILL, other], "x.svg", "trials")
    assert "1 of 2 go by one that the bug is known for" in page
    assert f"{KILL.rule}, *leaked-slot* |" in page


def test_the_page_in_docs_is_what_the_trials_beside_it_say() -> None:
    path = Path(__file__).resolve().parents[2] / "docs" / "bite.md"
    page = path.read_text(encoding="utf-8")
    made = read(path.with_suffix(".jsonl"))
    assert document(made, "bite.svg", "bite.jsonl", by_hand(page)) == page


def test_the_page_in_docs_has_every_mutant() -> None:
    path = Path(__file__).resolve().parents[2] / "docs" / "bite.jsonl"
    hunted = {trial.mutant for trial in read(path) if trial.driver == "swarm"}
    assert set(MUTANTS) == hunted
