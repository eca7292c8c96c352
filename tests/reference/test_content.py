"""Tags: equal for the same namespace, prefix and position, and for nothing else."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixcheck.buffers import make_slots
from radixcheck.operations import Namespace
from radixcheck.reference.content import UNWRITTEN, compare, longer, tags, write

KINDS = ["list", "numpy", "torch"]
SEQUENCES = st.lists(st.integers(0, 2**63 - 1) | st.integers(0, 3), max_size=40)
NAMESPACES = st.lists(st.sampled_from(["", "a", "b", "ab", "\ud800"]), max_size=3).map(tuple)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """Return the kind of a buffer whose library is installed."""
    if request.param != "list":
        pytest.importorskip(request.param)
    return str(request.param)


def written(kind: str, slots: list[int], tags: list[int]) -> Any:
    """Return a buffer of 8 slots of which some hold tags."""
    kv = make_slots(kind, [UNWRITTEN] * 8)
    write(kv, make_slots(kind, slots), make_slots(kind, tags))
    return kv


@given(SEQUENCES, SEQUENCES, NAMESPACES)
def test_tags_are_equal_as_far_as_the_prefix_is(
    one: list[int], other: list[int], namespace: Namespace
) -> None:
    pairs = list(zip(tags(one, namespace), tags(other, namespace), strict=False))
    expected = [one[: end + 1] == other[: end + 1] for end in range(len(pairs))]
    assert expected == [ours == theirs for ours, theirs in pairs]


@given(NAMESPACES, NAMESPACES)
def test_namespaces_share_no_tag(one: Namespace, other: Namespace) -> None:
    assert (one == other) == (tags([1], one) == tags([1], other))


@given(SEQUENCES.filter(bool), NAMESPACES)
def test_a_sequence_grows_by_the_tag_it_would_have_had(
    tokens: list[int], namespace: Namespace
) -> None:
    assert tags(tokens, namespace)[-1] == longer(
        tags(tokens[:-1], namespace), tokens[-1], namespace
    )


@given(SEQUENCES)
def test_tags_fit_a_signed_element(tokens: list[int]) -> None:
    assert all(-(2**63) <= tag < 2**63 for tag in tags(tokens))


def test_tags_are_the_same_in_every_process() -> None:
    assert [3168433308426884698, 6375991521999523221] == tags([1, 2], ("a",))


def test_small_tokens_that_change_places_do_not_cancel_out() -> None:
    ours, theirs = tags([1, 0, 2, 1, 2]), tags([2, 0, 2, 1, 1])
    assert set() == set(ours) & set(theirs)


def test_what_was_written_is_found(kind: str) -> None:
    kv = written(kind, [6, 2, 5], [11, 12, 13])
    assert compare(kv, make_slots(kind, [6, 2, 5]), make_slots(kind, [11, 12, 13])) is None


@pytest.mark.parametrize(
    ("slots", "expected"), [([6, 2, 5], None), ([6, 3, 5], 1), ([2, 6, 5], 0), ([6, 2, 2], 2)]
)
def test_the_first_wrong_place_is_told(kind: str, slots: list[int], expected: int | None) -> None:
    kv = written(kind, [6, 2, 5], [11, 12, 13])
    assert expected == compare(kv, make_slots(kind, slots), make_slots(kind, [11, 12, 13]))


@pytest.mark.parametrize(("slot", "expected"), [(6, None), (5, 0)])
def test_one_slot_is_compared_like_many(kind: str, slot: int, expected: int | None) -> None:
    kv = written(kind, [6, 5], [11, 12])
    assert expected == compare(kv, make_slots(kind, [slot]), make_slots(kind, [11]))


def test_no_slots_are_never_wrong(kind: str) -> None:
    assert compare(written(kind, [], []), make_slots(kind, []), make_slots(kind, [])) is None


def test_the_oracle_needs_no_library() -> None:
    content = import_module("radixcheck.reference.content")
    assert {"numpy", "torch"} & set(vars(content)) == set()
