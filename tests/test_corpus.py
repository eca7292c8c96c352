"""Folders of traces: what is found in them, and what they are called."""

from __future__ import annotations

from pathlib import Path

import pytest

from radixcheck.corpus import Entry, content_name, load, packaged, without_duplicates
from radixcheck.operations import Evict, Insert
from radixcheck.trace import Found, Trace, save

SMALL = Trace((Insert((1, 2)), Evict(1)), {"page_size": 1, "eviction": "lru"})
OTHER = Trace((Insert((1, 2)), Evict(2)), {"page_size": 1, "eviction": "lru"})
FOUND = Found("phantom-prefix", "evict", "radix", source="SGLang #7")


def test_an_entry_tells_what_a_list_shows() -> None:
    entry = Entry("sglang-7", SMALL.replace(found=FOUND))
    assert (entry.id, entry.source, entry.rule) == ("sglang-7", "SGLang #7", "phantom-prefix")


def test_a_trace_that_found_nothing_has_no_rule_and_no_source() -> None:
    entry = Entry("seed", SMALL)
    assert (entry.rule, entry.source) == ("", "")


def test_traces_are_found_in_a_folder_and_below_in_the_order_of_their_ids(tmp_path: Path) -> None:
    for path in ("b.jsonl", "a.jsonl", "deep/er/c.jsonl"):
        save(SMALL, tmp_path / path)
    assert [entry.id for entry in load(tmp_path).entries] == ["a", "b", "deep/er/c"]


def test_other_files_are_no_traces(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("about these traces")
    assert load(tmp_path) == ((), ())


def test_a_trace_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    save(SMALL.replace(found=FOUND), tmp_path / "a.jsonl")
    assert load(tmp_path).entries == (Entry("a", SMALL.replace(found=FOUND)),)


def test_a_damaged_file_is_named_and_hides_no_other(tmp_path: Path) -> None:
    save(SMALL, tmp_path / "a.jsonl")
    (tmp_path / "b.jsonl").write_text('{"radixcheck": 1}\n{"op": "insert"}\n')
    save(OTHER, tmp_path / "c.jsonl")
    entries, damaged = load(tmp_path)
    assert [entry.id for entry in entries] == ["a", "c"]
    assert [str(error).partition(": ")[0] for error in damaged] == [f"{tmp_path / 'b.jsonl'}:2"]


def test_a_file_that_cannot_be_read_is_named_and_hides_no_other(tmp_path: Path) -> None:
    save(SMALL, tmp_path / "a.jsonl")
    (tmp_path / "b.jsonl").symlink_to(tmp_path / "gone")
    entries, damaged = load(tmp_path)
    assert [entry.id for entry in entries] == ["a"]
    assert list(map(str, damaged)) == [f"{tmp_path / 'b.jsonl'}: No such file or directory"]


def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="missing"):
        load(tmp_path / "missing")


ALIKE = {
    "found": SMALL.replace(found=FOUND),
    "config in another order": SMALL.replace(config={"eviction": "lru", "page_size": 1}),
}
UNLIKE = {
    "operations": OTHER,
    "config": SMALL.replace(config={"page_size": 2}),
    "misuse": SMALL.replace(misuse=True),
}


@pytest.mark.parametrize("trace", ALIKE.values(), ids=ALIKE)
def test_traces_that_run_alike_have_one_name(trace: Trace) -> None:
    assert content_name(trace) == content_name(SMALL)


@pytest.mark.parametrize("trace", UNLIKE.values(), ids=UNLIKE)
def test_traces_that_run_otherwise_have_another_name(trace: Trace) -> None:
    assert content_name(trace) != content_name(SMALL)


def test_the_name_of_a_trace_never_changes() -> None:
    assert Entry("any", SMALL).name == "da0dcbde21f7"


def test_the_first_of_two_equal_traces_is_kept() -> None:
    entries = [Entry("a", SMALL), Entry("b", OTHER), Entry("c", SMALL.replace(found=FOUND))]
    assert [entry.id for entry in without_duplicates(entries)] == ["a", "b"]


def test_the_packaged_regressions_are_whole_and_name_their_sources() -> None:
    entries, damaged = packaged()
    assert damaged == ()
    assert [] == [entry.id for entry in entries if not (entry.rule and entry.source)]


def test_the_first_public_bug_is_packaged() -> None:
    sources = {entry.id: entry.source for entry in packaged().entries}
    assert sources["sglang-7-edge-split"] == "SGLang #7"
