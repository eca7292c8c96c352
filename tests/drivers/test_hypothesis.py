"""What Hypothesis draws, and the operations that are made of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixcheck.arena import Arena
from radixcheck.capabilities import Capabilities, PoolCapabilities
from radixcheck.drivers.hypothesis import ALWAYS, TIMES, WAYS, Past, key, operations, ways
from radixcheck.hosts import Here
from radixcheck.levels import LEVELS, POOL, REQUESTS
from radixcheck.operations import AnyOperation, DecRef, IncRef, Insert, MatchPrefix
from radixcheck.registry import resolve
from radixcheck.trace import Trace, dumps, loads

ARENAS = {
    "tree": Arena({}, Capabilities(namespaces="structured", priorities="present", reset="present")),
    "pool": Arena(
        {}, PoolCapabilities(capacity=32, ownership="counted"), frozenset(POOL.methods), POOL
    ),
    "requests": Arena({}, Capabilities(page_size=4), frozenset(REQUESTS.methods), REQUESTS, 64),
}
"""One of each level."""

KEYS = {
    "no earlier key": ((0, 0, b"\x04"), (4,)),
    "the latest key again": ((1, 0, b""), (5, 6, 7, 9)),
    "the key before, cut": ((2, 3, b""), (5,)),
    "the latest key, extended": ((1, 0, b"\x01\x02"), (5, 6, 7, 9, 1, 2)),
    "the latest key, forked": ((1, 1, b"\x04"), (5, 6, 7, 4)),
    "the first key, where there are no more": ((15, 0, b""), (5, 6, 7, 8)),
    "nothing, where all is dropped": ((1, 40, b""), ()),
    "one token many times": ((0, 0, b"\xff"), (255 % 10,) * TIMES),
}


@pytest.mark.parametrize(("recipe", "expected"), KEYS.values(), ids=KEYS)
def test_a_key_relates_to_earlier_ones(
    recipe: tuple[int, int, bytes], expected: tuple[int, ...]
) -> None:
    assert key(1, range(10), [(5, 6, 7, 8), (5, 6, 7, 9)], *recipe) == expected


PAGES = {
    "whole pages": ((0, 0, b"\x00\x02"), (1, 1, 1, 1, 2, 2, 2, 1)),
    "pages that differ in their last token": ((0, 0, b"\x00\x01"), (1, 1, 1, 1, 1, 1, 1, 2)),
    "cut at a boundary": ((1, 3, b""), (1, 1, 1, 1)),
    "cut one token before it": ((1, 4, b""), (1, 1, 1)),
    "cut one token behind it": ((1, 5, b""), (1, 1, 1, 1, 2)),
}


@pytest.mark.parametrize(("recipe", "expected"), PAGES.values(), ids=PAGES)
def test_keys_of_pages_part_at_boundaries_and_one_token_either_side(
    recipe: tuple[int, int, bytes], expected: tuple[int, ...]
) -> None:
    assert key(4, range(1, 3), [(1, 1, 1, 1, 2, 2, 2, 2)], *recipe) == expected


def _gone(name: str, **drawn: object) -> tuple[AnyOperation, ...]:
    past = Past(ARENAS["tree"], range(1, 4))
    past.key(0, 0, b"\x00\x01", ("a",))
    return tuple(WAYS[name].go(past, **drawn))


def test_a_request_locks_its_prompt_stores_its_answer_and_unlocks() -> None:
    assert _gone("request", back=1, dropped=1, then=b"\x02", namespace=("a",)) == (
        MatchPrefix((1,), ("a",), "h1"),
        IncRef("h1"),
        Insert((1, 3), ("a",), 0, "h1"),
        DecRef("h1"),
    )


def test_a_key_that_is_stored_again_stays_in_its_namespace() -> None:
    stored, _ = _gone("insert_again", back=0)
    assert stored == Insert((1, 2), ("a",))


@given(st.data(), st.sampled_from(sorted(ARENAS)))
def test_what_is_drawn_is_a_trace_of_its_level(data: st.DataObject, level: str) -> None:
    drawn = data.draw(operations(ARENAS[level], None, 30))
    trace = Trace(drawn)
    assert {each.kind for each in drawn} - LEVELS[level].kinds == set()
    assert loads(dumps(trace)) == trace


@given(st.data(), st.sampled_from(sorted(ARENAS)))
def test_an_operation_names_only_what_was_there_before(data: st.DataObject, level: str) -> None:
    known: set[str] = set()
    unknown: list[AnyOperation] = []
    for each in data.draw(operations(ARENAS[level], None, 30)):
        makes = each.kind in ("match_prefix", "alloc", "arrive")
        named = {str(getattr(each, name, None) or "") for name in ("handle", "lent", "request")}
        named -= {""}
        unknown += [each] if named - known and not makes else []
        known |= named
    assert unknown == []


def test_every_kind_but_audits_and_weighings_can_be_drawn() -> None:
    drawn = {kind for way in WAYS.values() for kind in way.kinds}
    known = {kind for level in LEVELS.values() for kind in level.kinds}
    assert known - drawn == {"audit", "weigh"}


@pytest.mark.parametrize("name", WAYS)
def test_whatever_a_way_is_told_is_drawn(name: str) -> None:
    everything = ways([*ARENAS.values()] if name != "tick" else _arenas("radix-paged"))
    optional = {"namespace", "priority", "times"}
    assert set(everything.get(name, ALWAYS)) - optional <= {*ALWAYS, "delta"}


def test_a_target_without_namespaces_is_asked_for_none() -> None:
    (drawn,) = (way for name, way in ways([Arena({}, Capabilities())]).items() if name == "match")
    assert set(drawn) == {"back", "dropped", "then"}


def test_only_the_wanted_kinds_are_drawn() -> None:
    names = ways([ARENAS["tree"]], ["insert", "match_prefix"])
    assert set(names) == {"insert", "insert_again", "insert_lent", "match", "match_again"}


def test_a_kind_that_the_level_lacks_is_an_error_that_lists_the_others() -> None:
    with pytest.raises(ValueError, match=r"no operation 'alloc' here: choose of .*insert"):
        ways([ARENAS["tree"]], ["alloc"])


def test_kinds_that_need_an_earlier_operation_cannot_be_all() -> None:
    with pytest.raises(ValueError, match="evict, inc_ref: none of these can begin a trace"):
        ways([ARENAS["tree"]], ["evict", "inc_ref"])


def test_a_method_that_the_target_lacks_is_not_drawn() -> None:
    small = Arena({}, Capabilities(), frozenset(("match_prefix", "insert")))
    assert {kind for name in ways([small]) for kind in WAYS[name].kinds} == small.operations


def _arenas(spec: str) -> list[Arena]:
    return Here(resolve(spec)).arenas()
