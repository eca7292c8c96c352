"""Recorded traffic: what the file says is kept, what is damaged is named."""

from __future__ import annotations

import json
import os
from pathlib import Path
from random import Random
from typing import Any

import pytest

from radixcheck.trace import TraceError
from radixcheck.workloads.mooncake import OWN, Row, block, load, requests, workload
from radixcheck.workloads.stream import REQUESTS
from radixcheck.workloads.traffic import Begin, End, Request, Terms, first

TERMS = Terms(4, 128)
GOOD = {"timestamp": 0, "input_length": 1100, "output_length": 52, "hash_ids": [0, 1, 2]}


def row(*ids: int, length: int | None = None, timestamp: float = 0, answer: int = 512) -> Row:
    """Return a row whose ids fill their blocks, if no length is given."""
    return Row(timestamp, len(ids) * 512 if length is None else length, answer, ids)


def prompts(*rows: Row, terms: Terms = TERMS) -> list[tuple[int, ...]]:
    return [request.prompt for _, _, request in requests(rows, terms)]


def saved(folder: Path, *rows: Any) -> Path:
    """Write a file of these lines; what is bytes is written as it is."""
    path = folder / "recorded.jsonl"
    lines = [each if isinstance(each, bytes) else json.dumps(each).encode() for each in rows]
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path


def test_a_row_becomes_a_request_that_is_scaled_down() -> None:
    ((begins, ends, request),) = requests([row(0, 1, length=800, timestamp=7)], TERMS)
    assert (7, 7 + 800 / 8 + 512 * 20) == (begins, ends)
    assert Request((1, 1, 1, 1, 0, 2, 2), (OWN,) * 4) == request


def test_blocks_part_anywhere() -> None:
    drawn = [block(hash_id, 4) for hash_id in (4, 5, 6, 7)]
    assert [(5, 5, 5, 5), (0, 6, 6, 6), (0, 0, 7, 7), (0, 0, 0, 8)] == drawn


@pytest.mark.parametrize("page_size", [1, 4, 16, 64])
def test_prompts_share_the_blocks_that_they_name_and_no_further_one(page_size: int) -> None:
    terms = Terms(page_size, 10_000)
    first, second = prompts(row(0, 1, 2, 3), row(0, 1, 4, 5), terms=terms)
    shared = len(os.path.commonprefix([first, second]))
    assert shared // terms.unit == 2


def test_what_no_id_covers_is_the_requests_own() -> None:
    first, second = prompts(row(3, length=1024), row(3, length=1024))
    assert ((0, 0, 0, 4, *(OWN,) * 4), (0, 0, 0, 4, *(OWN + 1,) * 4)) == (first, second)


def test_a_prompt_is_as_long_as_a_target_can_take() -> None:
    (prompt,) = prompts(row(*range(100)), terms=Terms(4, 10, ((),)))
    assert 10 == len(prompt)


def test_an_answer_of_nothing_is_nothing() -> None:
    ((_, _, request),) = requests([row(0, answer=0)], TERMS)
    assert () == request.answer


def test_rows_are_sorted_and_ids_are_numbered(tmp_path: Path) -> None:
    late = GOOD | {"timestamp": 3000, "hash_ids": [2**63 + 5, 17, 4]}
    early = GOOD | {"timestamp": 20.5, "hash_ids": [2**63 + 5, 9], "session": "x"}
    rows = load(saved(tmp_path, late, b"", early))
    assert [(20.5, (0, 1)), (3000, (0, 2, 3))] == [(each.timestamp, each.hash_ids) for each in rows]


def test_traces_follow_each_other_through_a_file(tmp_path: Path) -> None:
    count = sum(REQUESTS)
    rows = [GOOD | {"timestamp": place, "hash_ids": [place]} for place in range(count)]
    flow = workload(saved(tmp_path, *rows))
    seen = []
    for turn, size in enumerate(REQUESTS):
        part = list(first(flow(Random(1), TERMS, sum(REQUESTS[:turn])), size))
        seen += [event.request.prompt for event in part if isinstance(event, Begin)]
        assert size == sum(isinstance(event, End) for event in part)
    assert seen == prompts(*load(tmp_path / "recorded.jsonl"))


DAMAGED: dict[str, tuple[Any, str]] = {
    "cut short": (b'{"timestamp": 0, "input', "JSON is malformed"),
    "no object": ([1, 2], "Expected `object`, got `array`"),
    "a missing field": ({"timestamp": 0}, "missing required field `input_length`"),
    "a wrong type": (GOOD | {"hash_ids": "0 1"}, "Expected `array`, got `str` - at `$.hash_ids`"),
    "no tokens": (GOOD | {"input_length": 0}, "Expected `int` >= 1 - at `$.input_length`"),
    "a length beyond all": (GOOD | {"output_length": 10**9}, "- at `$.output_length`"),
    "a time before the first": (GOOD | {"timestamp": -1}, "- at `$.timestamp`"),
    "too many ids": (GOOD | {"input_length": 512}, "3 hash ids for 512 tokens, which fill 1"),
    "other bytes": (b"\xff\xfe", "no request in Mooncake's format"),
    "nested too deep": (b"[" * 100_000, "no request in Mooncake's format"),
    "a line without an end": (b" " * 4_000_000 + b"x", "a line of more than 4000000 bytes"),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_line_is_named(damage: str, tmp_path: Path) -> None:
    line, message = DAMAGED[damage]
    path = saved(tmp_path, GOOD, line)
    with pytest.raises(TraceError) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}:2: ")
    assert message in str(caught.value)


def test_an_empty_file_is_no_workload(tmp_path: Path) -> None:
    path = saved(tmp_path)
    with pytest.raises(TraceError, match="no request in it"):
        load(path)
