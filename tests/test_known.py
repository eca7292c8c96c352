"""Known failures: what covers what, and when an entry should go."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from radixcheck import known
from radixcheck.known import Failure, KnownFailuresError

TODAY = date(2026, 6, 1)
PHANTOM = Failure("phantom-prefix", "a reason")


def test_an_entry_covers_its_signature_on_its_targets() -> None:
    entry = Failure("eviction-order", "a reason", operation="evict", target="sglang*")
    cases = {
        ("sglang?path=x", ("eviction-order", "evict")): True,
        ("sglang?path=x", ("eviction-order", "audit")): False,
        ("sglang?path=x", ("size-drift", "evict")): False,
        ("radix", ("eviction-order", "evict")): False,
    }
    assert cases == {case: entry.covers(*case, TODAY) for case in cases}


def test_an_entry_covers_until_the_end_of_its_day() -> None:
    entry = Failure("phantom-prefix", "a reason", expires=TODAY)
    days = TODAY, date(2026, 6, 2)
    assert [True, False] == [entry.covers("x", ("phantom-prefix", "insert"), day) for day in days]


def test_clean_runs_are_counted_and_begin_anew() -> None:
    tally: dict[str, int] = {}
    entry = Failure("phantom-prefix", "a reason", clean_runs=2)
    said = [list(known.settle([entry], seen, tally, TODAY)) for seen in ([], [entry], [], [])]
    assert [
        ["phantom-prefix did not occur (1 of 2 clean runs)"],
        [],
        ["phantom-prefix did not occur (1 of 2 clean runs)"],
        ["remove me: phantom-prefix did not occur in 2 runs"],
    ] == said


def test_a_tally_is_saved_and_a_damaged_one_begins_anew(tmp_path: Path) -> None:
    path = tmp_path / known.TALLY
    known.write_tally(path, {"a": 2})
    saved = known.read_tally(path)
    path.write_bytes(b"{")
    assert ({"a": 2}, {}) == (saved, known.read_tally(path))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[failure]", "is no TOML"),
        ('[[failure]]\nrule = "phantom-prefx"\nreason = "x"', "no rule 'phantom-prefx'"),
        ('[[failure]]\nrule = "phantom-prefix"', "missing required field `reason`"),
        ('[[failure]]\nrule = "phantom-prefix"\nreason = ""', "length >= 1"),
        ('[[failure]]\nrule = "hang"\nreason = "x"\nexpiry = 1', "unknown field `expiry`"),
    ],
)
def test_a_file_that_is_not_understood_is_named(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "known.toml"
    path.write_text(text)
    with pytest.raises(KnownFailuresError) as error:
        known.load(path)
    assert (True, True) == (str(path) in str(error.value), said in str(error.value))


def test_a_file_is_read_as_it_is_documented(tmp_path: Path) -> None:
    path = tmp_path / "known.toml"
    path.write_text((known.__doc__ or "").split("\n\n")[1].replace("    ", ""))
    (entry,) = known.load(path)
    assert ("eviction-order at evict on sglang?*", date(2027, 6, 30)) == (entry.name, entry.expires)
