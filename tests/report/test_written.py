"""Reports as files, and what keeps them from being written."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from radixcheck.report import written
from radixcheck.report.document import Document

NAMES = "radixcheck.html radixcheck.json radixcheck.md radixcheck.sarif radixcheck.xml".split()


def test_every_kind_is_one_file(tmp_path: Path, make: Callable[..., Document]) -> None:
    written.write(make(), written.KINDS, tmp_path / "new")
    assert NAMES == sorted(each.name for each in (tmp_path / "new").iterdir())


def test_a_full_disk_leaves_the_old_report(
    tmp_path: Path, make: Callable[..., Document], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "radixcheck.json"
    path.write_text("old")

    def full(*args: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space left") as caught:
        written.write(make(), ["json"], tmp_path)
    assert [f"the report {path} could not be written"] == caught.value.__notes__
    assert ["old"] == [each.read_text() for each in tmp_path.iterdir()]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 16 KiB."""
    place = tmp_path / "small"
    place.mkdir()
    mounted = shutil.which("mount") and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(place)],
        check=False,
        stderr=subprocess.DEVNULL,
    )
    if not mounted or mounted.returncode:
        pytest.skip("only root may mount a small file system")
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.mark.slow
def test_a_disk_that_fills_up_keeps_the_reports_before_and_no_half_of_one(
    small_disk: Path, make: Callable[..., Document]
) -> None:
    with pytest.raises(OSError, match="No space left"):
        written.write(make(), ["json", "html"], small_disk)
    assert ["radixcheck.json"] == [each.name for each in small_disk.iterdir()]


def test_a_file_in_the_place_of_the_folder_is_seen_before(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError, match="not a folder, so no report can be written"):
        written.check_folder(tmp_path / "file" / "below")


def test_a_folder_is_made_before_the_run() -> None:
    with pytest.raises(OSError, match="proc") as told:
        written.check_folder(Path("/proc/no-such-folder/reports"))
    assert told.value.__notes__ == ["no report can be written in /proc/no-such-folder/reports"]


def test_a_folder_below_one_that_is_not_there_is_made(tmp_path: Path) -> None:
    written.check_folder(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()
