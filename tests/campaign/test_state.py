"""The folder of a campaign: whatever happens to it, nothing that was found is lost."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from radixcheck.campaign import state as module
from radixcheck.campaign.state import FORMAT, State, StateError, finding_name, folder_name
from radixcheck.operations import Insert, MatchPrefix
from radixcheck.trace import Found, Trace, dumps, load

SHORT = Trace((Insert((1, 2)),))
LONG = Trace((Insert((1, 2)), Insert((1, 2, 3)), MatchPrefix((1,))))
FOUND = Found("phantom-prefix", "match_prefix", "radix")
NAME = finding_name("radix", ("phantom-prefix", "match_prefix"))


def reopened(state: State) -> State:
    """Close a folder and open it again, as the next run does."""
    state.close()
    return State(state.folder)


def test_what_is_kept_is_there_when_the_folder_is_opened_again(state: State) -> None:
    state.keep("radix", "abc", dumps(LONG))
    state.find(NAME, LONG, FOUND)
    state.tallies.of("radix").operations = 7
    state.save()
    again = reopened(state)
    assert (["abc"], (dumps(LONG),)) == (again.corpus("radix"), again.read("radix", ["abc"]))
    assert {NAME: LONG.replace(found=FOUND)} == again.findings()
    assert again.tallies.of("radix").operations == 7


def test_the_corpus_of_a_target_is_its_own(state: State) -> None:
    state.keep("radix", "abc", dumps(LONG))
    assert [] == state.corpus("radix?page_size=2")


def test_only_a_smaller_trace_replaces_a_finding(state: State) -> None:
    told = [state.find(NAME, trace, FOUND) for trace in (LONG, SHORT, LONG, SHORT)]
    assert [True, True, False, False] == told
    assert SHORT.operations == load(state.finding(NAME)).operations


def test_two_campaigns_cannot_share_a_folder(state: State) -> None:
    with pytest.raises(StateError, match=f"process {os.getpid()}"):
        State(state.folder)


def test_the_folder_is_free_again_when_its_campaign_is_killed(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys; from pathlib import Path\n"
        "from radixcheck.campaign.state import State\n"
        "state = State(Path(sys.argv[1])); os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    State(tmp_path).close()


def test_a_damaged_tally_is_set_aside_and_counting_begins_anew(state: State) -> None:
    state.keep("radix", "abc", dumps(LONG))
    (state.folder / "campaign.json").write_text('{"format": 1, "runs": ')
    again = reopened(state)
    assert (0, 1) == (again.tallies.runs, len(again.corpus("radix")))
    assert (again.folder / "damaged" / "campaign.json").exists()
    assert "cannot be read" in again.notes[0]


def test_a_damaged_trace_is_set_aside_and_the_others_are_read(state: State) -> None:
    state.keep("radix", "abc", dumps(LONG))
    path = state.folder / "corpus" / folder_name("radix") / "bad.jsonl"
    path.write_bytes(b"\x00")
    assert ["abc"] == state.corpus("radix")
    assert (False, True) == (path.exists(), (state.folder / "damaged" / "bad.jsonl").exists())


def test_a_newer_folder_is_refused(state: State) -> None:
    (state.folder / "campaign.json").write_text(f'{{"format": {FORMAT + 1}}}')
    state.close()
    with pytest.raises(StateError, match="this radixcheck reads"):
        State(state.folder)


def test_a_folder_that_is_refused_is_not_held(state: State) -> None:
    path = state.folder / "campaign.json"
    path.write_text(f'{{"format": {FORMAT + 1}}}')
    state.close()
    with pytest.raises(StateError):
        State(state.folder)
    path.unlink()
    State(state.folder).close()


def test_an_older_folder_is_upgraded(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(module.UPGRADES, 0, lambda told: {"runs": told["nights"]})
    (state.folder / "campaign.json").write_text('{"format": 0, "nights": 3}')
    again = reopened(state)
    again.save()
    assert (3, FORMAT) == (again.tallies.runs, reopened(again).tallies.format)


def test_fields_that_are_not_known_are_left_out_and_missing_ones_have_defaults(
    state: State,
) -> None:
    (state.folder / "campaign.json").write_text('{"format": 1, "runs": 2, "colour": "red"}')
    assert (2, {}) == ((again := reopened(state)).tallies.runs, again.tallies.targets)


def test_what_a_killed_writer_has_left_is_swept_up(state: State) -> None:
    left = state.folder / "findings" / "x.jsonlabc.tmp"
    left.parent.mkdir()
    left.touch()
    reopened(state)
    assert not left.exists()


def test_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root may mount a small file system")
    try:
        state = State(disk / "campaign")
        filler = disk / "filler"
        with suppress(OSError):
            filler.write_bytes(bytes(200_000))
        state.find(NAME, LONG, FOUND)
        trouble = state.trouble
        filler.unlink()
        state.save()
        assert (True, None) == (trouble is not None, state.trouble)
        assert {NAME: LONG.replace(found=FOUND)} == reopened(state).findings()
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


@pytest.mark.parametrize("spec", ["radix", "./my cache.py:Make?page_size=4", "x" * 300])
def test_any_spec_makes_a_name_for_a_folder(spec: str, tmp_path: Path) -> None:
    (tmp_path / folder_name(spec)).mkdir()


def test_specs_that_look_alike_have_folders_of_their_own() -> None:
    assert folder_name("radix?a=1") != folder_name("radix-a-1")
