"""The bytes that say operations: nothing is lost, nothing is invalid, and changes stay local."""

from __future__ import annotations

from itertools import islice
from os.path import commonprefix
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixcheck.arena import arenas
from radixcheck.bytecode import Dialect, NotExpressible, decode, encode, records
from radixcheck.corpus import Entry, packaged
from radixcheck.drivers.swarm import proposals
from radixcheck.levels import TREE
from radixcheck.mutation import CHANGES, Change, mutate
from radixcheck.operations import (
    Alloc,
    AnyOperation,
    Audit,
    DecRef,
    Evict,
    IncRef,
    Insert,
    MatchPrefix,
    Namespace,
    Reset,
    Tick,
    Weigh,
)
from radixcheck.registry import resolve
from radixcheck.trace import Config, Trace, dumps, loads

pytestmark = pytest.mark.slow

REGRESSIONS = packaged().entries
BYTES = st.binary(max_size=200)

# --------------------------------------------------------------------------------- the format

EXAMPLES: dict[str, tuple[AnyOperation, ...]] = {
    "80 00 00 07 07 03": (MatchPrefix((7, 7, 3)),),
    "80": (MatchPrefix(()),),
    "80 00 00 07 08  80 01 02 09": (MatchPrefix((7, 8)), MatchPrefix((7, 9))),
    "80 00 00 07  80 00 00 08  80 02 00": (
        MatchPrefix((7,)),
        MatchPrefix((8,)),
        MatchPrefix((7,)),
    ),
    "83 02 00 00 07": (MatchPrefix((7,), ("b",), "h1"),),
    "A4 06 00 00 07": (Insert((7,), priority=3),),
    "82 00 00 07  A2 00 01 00 08": (MatchPrefix((7,), handle="h1"), Insert((7, 8), lent="h1")),
    "82  82  D0 01  E0 00": (
        MatchPrefix((), handle="h1"),
        MatchPrefix((), handle="h2"),
        IncRef("h1"),
        DecRef("h1"),
    ),
    "82  E0 00  E7 00": (MatchPrefix((), handle="h1"), DecRef("h1")),
    "C0 05  C0  C0 72 01 00": (Evict(5), Evict(0), Evict(128)),
    "F0 13  F0 0E": (Tick(-10), Tick(7)),
    "F8  F9 03  FA": (Reset(), Audit(3), Weigh()),
    "FB 02 61 62 00  81 0F": (MatchPrefix((), ("ab", "")),),
    "D0 00  FF FF 05  E0 00": (),
}
"""Of version 1; what it has once said, it says for ever."""


@pytest.mark.parametrize(("text", "expected"), EXAMPLES.items())
def test_bytes_are_read_as_ever(text: str, expected: tuple[AnyOperation, ...]) -> None:
    assert expected == decode(bytes.fromhex(text)).operations


HEADERS: dict[str, tuple[Config, bool]] = {
    "": ({}, False),
    "04 05": ({"page_size": 4, "eviction": "lfu"}, False),
    "00 02 03": ({"eviction": "mru", "disable": True}, True),
}


@pytest.mark.parametrize(("text", "expected"), HEADERS.items())
def test_a_header_says_the_configuration(text: str, expected: tuple[Config, bool]) -> None:
    trace = decode(bytes.fromhex(text) + b"\x80")
    assert expected == (trace.config, trace.misuse)


@given(BYTES)
def test_every_string_of_bytes_is_a_trace_that_a_file_can_keep(data: bytes) -> None:
    trace = decode(data)
    assert trace == loads(dumps(trace))


# ---------------------------------------------------------------------------- nothing is lost


@given(BYTES)
def test_what_was_read_is_written_and_read_as_the_same(data: bytes) -> None:
    trace = decode(data)
    assert trace == decode(encode(trace))


@pytest.mark.parametrize("token", [0, 1, 111, 112, 113, 127, 128, 257, 2**31 - 1, 2**63 - 1])
def test_no_token_is_too_large(token: int) -> None:
    trace = Trace((Insert((token, token, 1)), MatchPrefix((token,))))
    assert trace == decode(encode(trace))


@pytest.mark.parametrize("namespace", [(), ("",), ("a", "bc"), ("\x00:", "é", "\U0001f333")])
def test_no_namespace_is_too_strange(namespace: Namespace) -> None:
    trace = Trace((Insert((1,), namespace), Insert((2,), ("b",)), MatchPrefix((1,), namespace)))
    assert trace == decode(encode(trace))


def test_every_trace_that_swarm_proposes_comes_back() -> None:
    traces = list(islice(proposals(5, arenas(resolve("radix-paged")), misuse=True), 60))
    assert traces == [decode(encode(trace)) for trace in traces]


def _is_of_a_tree(entry: Entry) -> bool:
    return TREE.kinds.issuperset(operation.kind for operation in entry.trace.operations)


@pytest.mark.parametrize(
    "entry", [each for each in REGRESSIONS if _is_of_a_tree(each)], ids=lambda each: each.id
)
def test_every_regression_of_a_tree_comes_back(entry: Entry) -> None:
    assert entry.trace.replace(found=None) == decode(encode(entry.trace))


UNSAID = {
    "a pool": Trace((Alloc(1),)),
    "an argument of its own": Trace((), {"capacity": 64}),
    "a policy of its own": Trace((), {"eviction": "oldest"}),
    "two handles of one name": Trace((MatchPrefix((), handle="h"), MatchPrefix((), handle="h"))),
    "a handle of nobody's": Trace((IncRef("h1"),)),
    "a handle that a reset has killed": Trace(
        (MatchPrefix((), handle="h1"), Reset(), DecRef("h1"))
    ),
    "an age of the universe": Trace((Tick(2**63),)),
}


@pytest.mark.parametrize("trace", UNSAID.values(), ids=UNSAID)
def test_what_cannot_be_said_is_refused_and_not_bent(trace: Trace) -> None:
    with pytest.raises(NotExpressible):
        encode(trace)


def test_only_traces_of_other_levels_are_not_expressible_among_the_regressions() -> None:
    assert [] == [
        entry.id for entry in REGRESSIONS if _is_of_a_tree(entry) != _is_expressible(entry.trace)
    ]


def _is_expressible(trace: Trace) -> bool:
    try:
        encode(trace)
    except NotExpressible:
        return False
    return True


# ------------------------------------------------------------------- a change stays where it is


@given(
    BYTES, st.integers(0, 200), st.sampled_from(["insert", "erase", "flip"]), st.integers(1, 255)
)
def test_a_changed_byte_touches_two_records_at_most(
    data: bytes, place: int, how: str, byte: int
) -> None:
    place %= len(data) + 1
    head, tail = data[:place], data[place:]
    if how == "insert":
        tail = bytes((byte,)) + tail
    elif tail:
        tail = tail[1:] if how == "erase" else bytes((tail[0] ^ byte,)) + tail[1:]
    assert _touched(records(data), records(head + tail)) <= 2


def _touched(before: list[bytes], after: list[bytes]) -> int:
    """Count the records of the longer list that are neither in a common front nor in a common
    end."""
    front = len(commonprefix([before, after]))
    end = len(commonprefix([before[front:][::-1], after[front:][::-1]]))
    return max(len(before), len(after)) - front - end


# --------------------------------------------------------------------------------- a dialect

PAGED = Dialect(({"page_size": 1}, {"page_size": 4}, {"page_size": 4, "disable": True}))
CHOSEN: dict[str, Config] = {
    "": {"page_size": 1},
    "04": {"page_size": 4},
    "04 00 01": {"page_size": 4, "disable": True},
    "07 00 00 01": {"page_size": 4},
    "00 05 00 02": {"page_size": 1},
}


@pytest.mark.parametrize(("text", "expected"), CHOSEN.items())
def test_a_target_gets_the_configuration_that_is_nearest(text: str, expected: Config) -> None:
    assert expected == decode(bytes.fromhex(text) + b"\x80", PAGED).config


def test_a_target_without_namespaces_is_told_of_none() -> None:
    assert decode(bytes.fromhex("81 01 00 00 07"), Dialect(most_names=0)).operations == (
        MatchPrefix((7,)),
    )


def test_keys_are_cut_to_the_length_that_was_asked_for() -> None:
    said = bytes.fromhex("A0 00 00 01 02 03  A0 01 00 04 05")
    assert (Insert((1, 2)), Insert((1, 2))) == decode(said, Dialect(most_tokens=2)).operations


# --------------------------------------------------------------------------------- mutations


def test_a_seed_always_changes_bytes_in_the_same_way() -> None:
    data = encode(REGRESSIONS[0].trace)
    assert mutate(data, Random(3)) == mutate(data, Random(3))


@pytest.mark.parametrize(
    "change", dict.fromkeys(CHANGES), ids=lambda change: change.__name__.strip("_")
)
@given(data=BYTES, seed=st.integers(0, 2**32))
def test_every_change_is_of_whole_records(change: Change, data: bytes, seed: int) -> None:
    parts = change(records(data), Random(seed))
    assert parts == records(b"".join(parts))


def test_mutations_alone_find_every_kind_of_operation_from_nothing() -> None:
    rng, data = Random(1), b""
    for _ in range(400):
        data = mutate(data, rng)
    assert TREE.kinds == {operation.kind for operation in decode(data).operations}
