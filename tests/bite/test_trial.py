"""The file of trials survives what happens to files."""

from __future__ import annotations

from pathlib import Path

import pytest

from radixcheck.bite.trial import Trial, TrialsError, append, mend, read, settled

ONE = Trial("m", "swarm", 0, 2.0, 0.25, 40, "size-drift", "insert", 12, 3, 0.125, "a machine")
SURVIVOR = Trial("m", "swarm", 1, 2.0, 2.0, 900)


def test_what_is_appended_is_read(tmp_path: Path) -> None:
    for each in (ONE, SURVIVOR):
        append(tmp_path / "trials", each)
    assert [ONE, SURVIVOR] == read(tmp_path / "trials")


def test_no_file_holds_no_trials(tmp_path: Path) -> None:
    assert [] == read(tmp_path / "trials")


def test_a_last_line_that_was_broken_off_is_dropped_and_written_over(tmp_path: Path) -> None:
    path = tmp_path / "trials"
    append(path, ONE)
    path.write_bytes(path.read_bytes() + b'{"mutant":"m","dri')
    before = read(path)
    mend(path)
    append(path, SURVIVOR)
    assert ([ONE], [ONE, SURVIVOR]) == (before, read(path))


def test_a_damaged_line_in_the_middle_is_named(tmp_path: Path) -> None:
    path = tmp_path / "trials"
    path.write_bytes(b"nonsense\n")
    with pytest.raises(TrialsError, match=r"trials:1: no trial"):
        read(path)


def test_of_trials_made_twice_the_last_counts(tmp_path: Path) -> None:
    longer = Trial("m", "swarm", 1, 9.0, 5.0, 2000, "structure", "audit", 3)
    for each in (SURVIVOR, longer):
        append(tmp_path / "trials", each)
    assert [longer] == read(tmp_path / "trials")


@pytest.mark.parametrize(
    ("limit_s", "expected"),
    [(0.2, {0, 1}), (1.0, {0, 1}), (2.0, {0, 1}), (60.0, {0})],
)
def test_only_a_survivor_of_a_shorter_hunt_is_hunted_again(
    limit_s: float, expected: set[int]
) -> None:
    assert expected == {seed for _, _, seed in settled([ONE, SURVIVOR], limit_s)}
