"""Trace files: what is written is read back, and what is damaged, hostile or too new is refused."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixcheck import trace as trace_module
from radixcheck.operations import (
    OPERATIONS,
    Abort,
    AddRefs,
    Admit,
    Alloc,
    AnyOperation,
    Arrive,
    Audit,
    Decode,
    DecRef,
    Evict,
    Finish,
    Free,
    Idle,
    IncRef,
    Insert,
    Interrupt,
    MatchPrefix,
    MatchRequest,
    Prefill,
    QueueOrder,
    Reset,
    Retract,
    Schedule,
    Starve,
    Tick,
    Tokens,
    Weigh,
)
from radixcheck.trace import (
    FORMAT,
    MAX_LINE_BYTES,
    MAX_TOKEN,
    SHORT_KEY_TOKENS,
    UPGRADES,
    Found,
    Trace,
    TraceError,
    Upgrade,
    dumps,
    load,
    loads,
    save,
)

HEADER = '{"radixcheck":1}\n'

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
handles = st.none() | texts
counts = st.integers(0, 99)
namespaces = st.lists(texts, max_size=3).map(tuple)
any_tokens = st.integers(0, MAX_TOKEN) | st.integers(0, 3)
keys = st.lists(any_tokens, max_size=6).map(tuple) | st.builds(
    lambda length, rest: (*range(length), *rest),
    st.integers(SHORT_KEY_TOKENS - 2, SHORT_KEY_TOKENS + 9),
    st.lists(any_tokens, max_size=3),
)
operations: st.SearchStrategy[AnyOperation] = st.one_of(
    st.builds(MatchPrefix, keys, namespaces, handles),
    st.builds(Insert, keys, namespaces, st.integers(-9, 9), handles),
    st.builds(Evict, counts),
    st.builds(IncRef, texts),
    st.builds(DecRef, texts),
    st.builds(Reset),
    st.builds(Tick, st.integers(-9, 9)),
    st.builds(Audit, st.integers(0, 99)),
    st.builds(Alloc, counts, handles),
    st.builds(Free, handles, counts, st.none() | counts, st.integers(1, 16)),
    st.builds(AddRefs, texts, counts, st.none() | counts),
    st.builds(Arrive, texts, keys, counts, namespaces),
    st.builds(Schedule, st.sampled_from(get_args(QueueOrder)), counts),
    *(st.builds(kind, texts) for kind in (MatchRequest, Admit, Finish, Abort, Retract)),
    st.builds(Prefill, texts, counts),
    st.builds(Decode, texts, any_tokens),
    st.builds(Starve, counts),
    st.builds(Interrupt, counts),
    st.builds(Idle),
    st.builds(Weigh),
)
values = st.booleans() | st.integers(-9, 2**40) | st.floats(allow_nan=False, allow_infinity=False)
configs = st.dictionaries(texts, values | texts, max_size=3)
founds = st.builds(Found, texts, texts, texts, st.none() | st.integers(0, 2**40), texts, namespaces)
traces = st.builds(
    Trace,
    st.lists(operations, max_size=8).map(tuple),
    configs,
    st.booleans(),
    st.none() | founds,
)


def only_operation(line: str) -> AnyOperation:
    """Read a file of one operation."""
    (operation,) = loads((HEADER + line).encode()).operations
    return operation


# ---- written and read --------------------------------------------------------------------


@given(traces)
def test_what_is_written_is_read_back(trace: Trace) -> None:
    assert trace == loads(dumps(trace))


@given(traces)
def test_what_is_read_is_written_back(trace: Trace) -> None:
    text = dumps(trace)
    assert text == dumps(loads(text))


@given(traces)
def test_a_file_has_one_line_per_operation_below_its_header(trace: Trace) -> None:
    lines = dumps(trace).split(b"\n")
    assert len(lines) == 1 + len(trace.operations) + 1
    assert lines[-1] == b""
    assert {dict} == {type(json.loads(line)) for line in lines[:-1]}


def test_every_kind_of_operation_is_written_somehow() -> None:
    sample = (
        MatchPrefix((1, 4), ("a",), "h3"),
        Insert((1, 2), ("a",), 7, "h3"),
        Evict(2),
        IncRef("h3"),
        DecRef("h3"),
        Reset(),
        Tick(-1),
        Audit(5),
        Weigh(),
        Alloc(3, "h4"),
        Free("h4", 1, 2),
        AddRefs("h4"),
        Arrive("r1", (1, 2), 8, ("a",)),
        Schedule("random", 7),
        MatchRequest("r1"),
        Admit("r1"),
        Prefill("r1", 2),
        Decode("r1", 4),
        Finish("r1"),
        Abort("r1"),
        Retract("r1"),
        Starve(2),
        Interrupt(1),
        Idle(),
    )
    assert {operation.kind for operation in sample} == set(OPERATIONS)
    assert dumps(Trace(sample, {"page_size": 1, "eviction": "lru"})).decode() == (
        '{"radixcheck":1,"config":{"page_size":1,"eviction":"lru"}}\n'
        '{"op":"match_prefix","tokens":[1,4],"namespace":["a"],"as":"h3"}\n'
        '{"op":"insert","tokens":[1,2],"namespace":["a"],"priority":7,"lent":"h3"}\n'
        '{"op":"evict","num_tokens":2}\n'
        '{"op":"inc_ref","handle":"h3"}\n'
        '{"op":"dec_ref","handle":"h3"}\n'
        '{"op":"reset"}\n'
        '{"op":"tick","delta":-1}\n'
        '{"op":"audit","order":5}\n'
        '{"op":"weigh"}\n'
        '{"op":"alloc","num_tokens":3,"as":"h4"}\n'
        '{"op":"free","handle":"h4","start":1,"stop":2}\n'
        '{"op":"add_refs","handle":"h4"}\n'
        '{"op":"arrive","request":"r1","tokens":[1,2],"max_new_tokens":8,"namespace":["a"]}\n'
        '{"op":"schedule","order":"random","draw":7}\n'
        '{"op":"match","request":"r1"}\n'
        '{"op":"admit","request":"r1"}\n'
        '{"op":"prefill","request":"r1","num_tokens":2}\n'
        '{"op":"decode","request":"r1","token":4}\n'
        '{"op":"finish","request":"r1"}\n'
        '{"op":"abort","request":"r1"}\n'
        '{"op":"retract","request":"r1"}\n'
        '{"op":"starve","count":2}\n'
        '{"op":"interrupt","after":1}\n'
        '{"op":"idle"}\n'
    )


def test_defaults_are_left_out() -> None:
    sample = Trace((Insert((1,)), MatchPrefix((1,)), Audit()))
    assert dumps(sample).decode() == (
        '{"radixcheck":1}\n'
        '{"op":"insert","tokens":[1]}\n'
        '{"op":"match_prefix","tokens":[1]}\n'
        '{"op":"audit"}\n'
    )


def test_a_finding_says_in_the_header_what_it_showed() -> None:
    found = Found("foreign-slot", "match_prefix", "radix", 7, "SGLang #7", ("edge-split",))
    assert dumps(Trace((), {}, True, found)).decode() == (
        '{"radixcheck":1,"misuse":true,"found":{"rule":"foreign-slot","operation":"match_prefix",'
        '"target":"radix","seed":7,"source":"SGLang #7","situations":["edge-split"]}}\n'
    )


# ---- back references ---------------------------------------------------------------------

LONG: Tokens = tuple(range(SHORT_KEY_TOKENS + 8))


@pytest.mark.parametrize(
    ("key", "written"),
    [
        (LONG, {"of": 0, "take": 40}),
        ((*LONG, 7), {"of": 0, "take": 40, "then": [7]}),
        ((*LONG[:33], 7), {"of": 0, "take": 33, "then": [7]}),
        ((*LONG[:31], 7, 7, 7), [*LONG[:31], 7, 7, 7]),
        (LONG[:SHORT_KEY_TOKENS], list(LONG[:SHORT_KEY_TOKENS])),
    ],
)
def test_a_long_key_is_written_as_what_it_shares_with_an_earlier_one(
    key: Tokens, written: Any
) -> None:
    last_line = dumps(Trace((Insert(LONG), MatchPrefix(key)))).splitlines()[-1]
    assert written == json.loads(last_line)["tokens"]


def test_a_back_reference_looks_past_operations_without_a_key() -> None:
    trace = Trace((Insert(LONG), Evict(3), Insert((1,)), MatchPrefix((*LONG, 7))))
    assert b'{"of":0,"take":40,"then":[7]}' in dumps(trace)
    assert trace == loads(dumps(trace))


def test_a_back_reference_may_name_a_short_key_and_another_back_reference() -> None:
    lines = (
        '{"op":"insert","tokens":[1,2,3]}\n'
        '{"op":"insert","tokens":{"of":0,"take":2,"then":[9]}}\n'
        '{"op":"match_prefix","tokens":{"of":1,"take":3,"then":[9]}}\n'
    )
    expected = (Insert((1, 2, 3)), Insert((1, 2, 9)), MatchPrefix((1, 2, 9, 9)))
    assert expected == loads((HEADER + lines).encode()).operations


def test_blank_lines_are_skipped() -> None:
    assert loads((HEADER + '\n  \n{"op":"reset"}\n\n').encode()).operations == (Reset(),)


def test_a_last_line_needs_no_newline() -> None:
    assert only_operation('{"op":"reset"}') == Reset()


# ---- refused -----------------------------------------------------------------------------

# ---- older formats -----------------------------------------------------------------------

FORMATS = {int(path.stem): path for path in (Path(__file__).parent / "data/formats").iterdir()}
"""A file of each format, as a release wrote it that knew no later one. All hold the same trace."""

SPLIT_UNDER_LOCK = (
    Insert((1, 2, 3, 4)),
    MatchPrefix((1, 2), handle="h1"),
    IncRef("h1"),
    Insert((1, 2, 5)),
    DecRef("h1"),
    Evict(5),
)


def test_every_format_has_a_file_and_every_older_one_a_step() -> None:
    assert (set(range(1, FORMAT + 1)), set(range(1, FORMAT))) == (set(FORMATS), set(UPGRADES))


@pytest.mark.parametrize("path", FORMATS.values(), ids=lambda path: path.name)
def test_a_file_of_any_format_is_read(path: Path) -> None:
    trace = load(path)
    assert (SPLIT_UNDER_LOCK, {"page_size": 1, "eviction": "lru"}) == (
        trace.operations,
        trace.config,
    )


def renamed(old: str, new: str) -> Upgrade:
    """Return a step after which a field has another name."""
    return lambda fields: {new if name == old else name: value for name, value in fields.items()}


def test_an_older_file_goes_through_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = {1: renamed("amount", "count"), 2: renamed("count", "num_tokens")}
    steps[3] = renamed("settings", "config")
    monkeypatch.setattr(trace_module, "FORMAT", 4)
    monkeypatch.setattr(trace_module, "UPGRADES", steps)
    text = FORMATS[1].read_text()
    older = text.replace('"num_tokens"', '"amount"').replace('"config"', '"settings"')
    newer = text.replace('"radixcheck":1', '"radixcheck":4')
    assert loads(newer.encode()) == loads(older.encode())


DAMAGED_HEADERS = {
    "": "t:1: not a trace header: ",
    "[]": "t:1: not a trace header: Expected `object`, got `array`",
    "import os": "t:1: not a trace header: JSON is malformed",
    "{}": "t:1: not a trace header: Object missing required field `radixcheck`",
    '{"radixcheck":"1"}': "t:1: not a trace header: Expected `int`, got `str` - at `$.radixcheck`",
    '{"radixcheck":1,"x":1}': "t:1: not a trace header: Object contains unknown field `x`",
    '{"radixcheck":1,"config":[]}': "got `array` - at `$.config`",
    '{"radixcheck":1,"config":{"page_size":null}}': "got `null` - at `$.config[...]`",
    '{"radixcheck":1,"found":{"rule":"x"}}': "missing required field `operation` - at `$.found`",
    '{"radixcheck":1': "t:1: not a trace header: Input data was truncated",
    '{"radixcheck":0}': f"t:1: trace format 0, but this radixcheck reads 1 to {FORMAT}",
    '{"radixcheck":2}': "t:1: trace format 2, but this radixcheck reads 1 to 1: upgrade",
    "[" * 100_000: "t:1: not a trace header: ",
    '{"op":"reset"}': "t:1: not a trace header: ",
}


@pytest.mark.parametrize(("line", "message"), DAMAGED_HEADERS.items(), ids=lambda text: text[:40])
def test_a_damaged_header_is_refused(line: str, message: str) -> None:
    with pytest.raises(TraceError) as caught:
        loads(f"{line}\n".encode(), "t")
    assert message in str(caught.value)


DAMAGED_OPERATIONS = {
    '{"op":"insert","tokens":[1,2': "Input data was truncated",
    '{"op":"reset"}{"op":"reset"}': "JSON is malformed",
    "[]": "Expected `object`, got `array`",
    "__import__('os')": "JSON is malformed",
    '{"tokens":[1]}': "Object missing required field `op`",
    '{"op":"instert","tokens":[1]}': "Invalid value 'instert' - at `$.op`",
    '{"op":"reset","handle":"h1"}': "Object contains unknown field `handle`",
    '{"op":"insert"}': "Object missing required field `tokens`",
    '{"op":"insert","tokens":[1.5]}': "Expected `int`, got `float` - at `$.tokens[0]`",
    '{"op":"insert","tokens":[true]}': "Expected `int`, got `bool` - at `$.tokens[0]`",
    '{"op":"insert","tokens":["1"]}': "Expected `int`, got `str` - at `$.tokens[0]`",
    '{"op":"insert","tokens":[1,-1]}': "token -1 is outside 0 to 2**63-1 - at `$.tokens`",
    '{"op":"insert","tokens":[9223372036854775808]}': "outside 0 to 2**63-1 - at `$.tokens`",
    '{"op":"insert","tokens":[1],"namespace":"a"}': "got `str` - at `$.namespace`",
    '{"op":"insert","tokens":[1],"slots":[1]}': "Object contains unknown field `slots`",
    '{"op":"evict","num_tokens":null}': "Expected `int`, got `null` - at `$.num_tokens`",
    '{"op":"inc_ref","handle":3}': "Expected `str`, got `int` - at `$.handle`",
    '{"op":"insert","tokens":{"of":0}}': "Object missing required field `take`",
    '{"op":"insert","tokens":{"of":1,"take":0}}': "which is not earlier - at `$.tokens.of`",
    '{"op":"insert","tokens":{"of":-1,"take":0}}': "which is not earlier - at `$.tokens.of`",
    '{"op":"insert","tokens":{"of":0,"take":2}}': "takes 2 tokens - at `$.tokens.take`",
    '{"op":"insert","tokens":{"of":0,"take":-1}}': "takes -1 tokens - at `$.tokens.take`",
    '{"op":"insert","tokens":{"of":0,"take":0,"x":0}}': "Object contains unknown field `x`",
    '{"op":"slide","num_tokens":3}': "operation 'slide' belongs to a later radixcheck: upgrade",
    '{"op":"alloc"}': "Object missing required field `num_tokens`",
    '{"op":"alloc","num_tokens":-1}': "Expected `int` >= 0 - at `$.num_tokens`",
    '{"op":"free","handle":"h1","stop":-2}': "Expected `int` >= 0 - at `$.stop`",
    '{"op":"free","handle":"h1","times":0}': "Expected `int` >= 1 - at `$.times`",
    '{"op":"add_refs"}': "Object missing required field `handle`",
    '{"op":"arrive","request":"r1","tokens":[-1]}': "outside 0 to 2**63-1 - at `$.tokens`",
    '{"op":"schedule","order":"lifo"}': "Invalid enum value 'lifo' - at `$.order`",
    '{"op":"decode","request":"r1","token":-1}': "outside 0 to 2**63-1 - at `$.token`",
    '{"op":"starve","count":"all"}': "Expected `int`, got `str` - at `$.count`",
    '{"op":"reset","a":' + "[" * 100_000: "",
    '{"op":"insert","tokens":[' + "1," * (MAX_LINE_BYTES // 2) + "1]}": "at most 4000000 are read",
}


@pytest.mark.parametrize(
    ("line", "message"), DAMAGED_OPERATIONS.items(), ids=lambda text: text[:50]
)
def test_a_damaged_operation_is_refused_with_its_line_and_field(line: str, message: str) -> None:
    first = '{"op":"match_prefix","tokens":[1]}\n'
    with pytest.raises(TraceError) as caught:
        loads(f"{HEADER}{first}{line}\n".encode(), "t")
    assert str(caught.value).startswith("t:3: ")
    assert message in str(caught.value)


@pytest.mark.parametrize("damage", [b"\xff", b'{"op":"inc_ref","handle":"\xff"}', b"\x00\x80\x04"])
def test_bytes_that_are_no_text_are_refused(damage: bytes) -> None:
    for data in (damage, HEADER.encode() + damage):
        with pytest.raises(TraceError):
            loads(data)


def test_an_empty_file_is_refused() -> None:
    with pytest.raises(TraceError, match="t: empty file, expected a header line"):
        loads(b"", "t")


@given(traces.filter(lambda trace: trace.operations), st.data())
def test_a_file_cut_anywhere_is_refused_or_is_a_shorter_trace(
    trace: Trace, data: st.DataObject
) -> None:
    text = dumps(trace)
    cut = text[: data.draw(st.integers(0, len(text) - 2))]
    try:
        read = loads(cut)
    except TraceError:
        return
    assert trace.operations[: len(read.operations)] == read.operations
    assert len(read.operations) < len(trace.operations)


@given(st.binary(max_size=60))
def test_any_bytes_are_a_trace_or_a_trace_error(garbage: bytes) -> None:
    for data in (garbage, HEADER.encode() + garbage):
        try:
            loads(data)
        except TraceError as error:
            assert str(error).startswith("<trace>:")


def test_a_trace_of_too_many_tokens_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_module, "MAX_TOTAL_TOKENS", 80)
    doubled = '{"op":"insert","tokens":{"of":0,"take":40}}\n'
    text = dumps(Trace((Insert(LONG),))).decode()
    assert len(loads((text + doubled).encode()).operations) == 2
    with pytest.raises(TraceError, match="t:4: the trace holds more than 80 tokens"):
        loads((text + doubled * 2).encode(), "t")


# ---- files -------------------------------------------------------------------------------

SAMPLE = Trace((Insert((1, 2)), MatchPrefix((1, 4), handle="h1")), {"page_size": 1})


def test_a_saved_trace_is_loaded_from_a_folder_that_was_not_there(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "a.jsonl"
    save(SAMPLE, path)
    assert load(path) == SAMPLE
    assert [path] == list(path.parent.iterdir())


def test_a_trace_replaces_the_one_that_was_there(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    save(SAMPLE, path)
    save(Trace(()), path)
    assert load(path) == Trace(())


def test_an_error_in_a_file_names_the_file_and_the_line(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(HEADER + '{"op":"reset"}\n{"op":\n')
    with pytest.raises(TraceError) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}:3: ")


class FullDisk:
    """A file that takes nothing."""

    def __init__(self, descriptor: int, _: str) -> None:
        self.descriptor = descriptor

    def __enter__(self) -> FullDisk:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.descriptor)

    def write(self, _: bytes) -> int:
        raise OSError(28, "No space left on device")


def interrupt(*_: object) -> None:
    """Stand in for whatever a person interrupts."""
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("where", "name", "failing", "error"),
    [
        (os, "fdopen", FullDisk, OSError),
        (trace_module, "dumps", interrupt, KeyboardInterrupt),
        (Path, "replace", interrupt, KeyboardInterrupt),
    ],
)
@pytest.mark.parametrize("existed", [True, False])
def test_a_write_that_fails_leaves_what_was_there_and_nothing_else(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    where: Any,
    name: str,
    failing: Any,
    error: type[BaseException],
    existed: bool,
) -> None:
    path = tmp_path / "a.jsonl"
    if existed:
        save(SAMPLE, path)
    with monkeypatch.context() as patched:
        patched.setattr(where, name, failing)
        with pytest.raises(error):
            save(Trace(()), path)
    assert [path] * existed == list(tmp_path.iterdir())
    assert [SAMPLE] * existed == [load(each) for each in tmp_path.iterdir()]


@pytest.mark.skipif(os.name != "posix", reason="file modes are those of POSIX")
def test_a_saved_trace_may_be_read_by_everyone(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    save(SAMPLE, path)
    assert path.stat().st_mode & 0o777 == 0o644
