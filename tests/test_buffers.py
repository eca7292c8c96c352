"""Buffers: how arguments are made and answers are read, for every kind of sequence."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

import pytest

from radixcheck.buffers import (
    OVERWRITTEN,
    BadAnswer,
    legible,
    make_slots,
    make_tokens,
    overwrite,
    read_slots,
    unchanged,
)
from radixcheck.capabilities import CHOICES

LIBRARIES = ("numpy", "torch")


@pytest.fixture(params=CHOICES["slots_as"])
def kind(request: pytest.FixtureRequest) -> str:
    """Name a kind of buffer whose library, if it needs one, is installed."""
    if request.param in LIBRARIES:
        pytest.importorskip(request.param)
    return str(request.param)


def of_library(library: str, code: str) -> Any:
    """Evaluate `code`, in which ``np`` or ``torch`` is `library`, where that is installed."""
    return eval(code, {"np" if library == "numpy" else library: pytest.importorskip(library)})


# ---- made --------------------------------------------------------------------------------


def test_tokens_are_an_array_of_eight_bytes_each() -> None:
    assert make_tokens((1, 2**63 - 1)) == array("q", [1, 2**63 - 1])


def test_slots_are_of_the_wanted_kind(kind: str) -> None:
    made = {"list": "list", "array": "array", "numpy": "ndarray", "torch": "Tensor"}
    assert made[kind] == type(make_slots(kind, [3, 1])).__name__


@pytest.mark.parametrize("kind", LIBRARIES)
@pytest.mark.parametrize("slots", [[], [1, 2]])
def test_numpy_and_torch_slots_are_int64(kind: str, slots: list[int]) -> None:
    pytest.importorskip(kind)
    assert str(make_slots(kind, slots).dtype).endswith("int64")


@pytest.mark.parametrize("slots", [[], [5], (7, 2**40)])
def test_what_is_made_is_read_back(kind: str, slots: Sequence[int]) -> None:
    assert list(slots) == read_slots(make_slots(kind, slots))


def test_each_buffer_is_a_new_one(kind: str) -> None:
    source = [1, 2]
    first, second = make_slots(kind, source), make_slots(kind, source)
    overwrite(first)
    assert (source, read_slots(second)) == ([1, 2], [1, 2])


def test_torch_slots_lie_on_the_wanted_device() -> None:
    pytest.importorskip("torch")
    assert make_slots("torch", [1], device="meta").device.type == "meta"


# ---- read --------------------------------------------------------------------------------

READABLE = {
    "[]": [],
    "[3, 1]": [3, 1],
    "()": [],
    "(3, 1)": [3, 1],
    "range(2)": [0, 1],
    "array('q')": [],
    "array('i', [3, 1])": [3, 1],
    "memoryview(array('q', [3, 1]))": [3, 1],
}


@pytest.mark.parametrize(("answer", "slots"), READABLE.items())
def test_sequences_are_read(answer: str, slots: list[int]) -> None:
    assert slots == read_slots(eval(answer))


@pytest.mark.parametrize(
    ("library", "answer", "slots"),
    [
        ("numpy", "np.array([3, 1])", [3, 1]),
        ("numpy", "np.array([3, 1], dtype=np.int32)[::-1]", [1, 3]),
        ("numpy", "[np.int64(3), np.int32(1)]", [3, 1]),
        ("numpy", "np.array([])", []),
        ("torch", "torch.tensor([3, 1])", [3, 1]),
        ("torch", "torch.tensor([3, 1], dtype=torch.int32)", [3, 1]),
        ("torch", "list(torch.tensor([3, 1]))", [3, 1]),
        ("torch", "torch.empty(0)", []),
    ],
)
def test_arrays_and_tensors_are_read(library: str, answer: str, slots: list[int]) -> None:
    assert slots == read_slots(of_library(library, answer))


@pytest.mark.parametrize("answer", ["[3, 1]", "array('q', [3, 1])"])
def test_what_was_read_is_a_copy_of_plain_integers(answer: str) -> None:
    given = eval(answer)
    slots = read_slots(given)
    overwrite(given)
    assert [(int, 3), (int, 1)] == [(type(slot), slot) for slot in slots]


UNREADABLE = {
    "None": "NoneType is no run of slots: None",
    "7": "int is no run of slots: 7",
    "'ab'": "str is no run of slots: 'ab'",
    "b'ab'": "bytes is no run of slots: b'ab'",
    "{1: 2}": "dict is no run of slots: {1: 2}",
    "{1}": "set is no run of slots: {1}",
    "iter([1])": "list_iterator is no run of slots",
    "[1.5]": "float at place 0: [1.5]",
    "(1, 2.0)": "float at place 1: (1, 2.0)",
    "[True]": "bool at place 0: [True]",
    "[1, None]": "NoneType at place 1: [1, None]",
    "['1']": "str at place 0: ['1']",
    "[[1, 2]]": "list at place 0: [[1, 2]]",
    "array('d', [1.0])": "float at place 0: array('d', [1.0])",
    "[None] * 100": f"NoneType at place 0: [{'None, ' * 20}...]; expected",
    "'7' * 500": f"str is no run of slots: '{'7' * 197}...{'7' * 198}'; expected",
}


@pytest.mark.parametrize(("answer", "message"), UNREADABLE.items())
def test_what_holds_no_slots_is_refused(answer: str, message: str) -> None:
    with pytest.raises(BadAnswer) as caught:
        read_slots(eval(answer))
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("library", "answer", "message"),
    [
        ("numpy", "np.zeros((2, 2), dtype=int)", "2 dimensions instead of 1"),
        ("numpy", "np.array([True])", "bool at place 0"),
        ("numpy", "np.array([0.5])", "float at place 0"),
        ("numpy", "[np.array([1])]", "ndarray at place 0"),
        ("torch", "torch.tensor(3)", "0 dimensions instead of 1"),
        ("torch", "torch.zeros(1, 2, dtype=torch.int64)", "2 dimensions instead of 1"),
        ("torch", "torch.zeros(2)", "float at place 0"),
        ("torch", "torch.tensor([True])", "bool at place 0"),
    ],
)
def test_arrays_and_tensors_that_hold_no_slots_are_refused(
    library: str, answer: str, message: str
) -> None:
    with pytest.raises(BadAnswer, match=message):
        read_slots(of_library(library, answer))


def test_a_refusal_says_what_was_expected_and_who_is_at_fault() -> None:
    expected = (
        "float at place 0: [0.5]; expected one slot number per token, in a list, tuple, array, "
        "numpy array or 1-D tensor. The adapter is at fault, not the cache."
    )
    with pytest.raises(BadAnswer) as caught:
        read_slots([0.5])
    assert expected == str(caught.value)


# ---- lent --------------------------------------------------------------------------------


def test_an_overwritten_buffer_shows_through_every_alias(kind: str) -> None:
    buffer = alias = make_slots(kind, [1, 2, 3])
    overwrite(buffer)
    assert [OVERWRITTEN] * 3 == read_slots(alias)


def test_an_empty_buffer_may_be_overwritten(kind: str) -> None:
    buffer = make_slots(kind, [])
    overwrite(buffer)
    assert read_slots(buffer) == []


def test_an_untouched_buffer_is_unchanged(kind: str) -> None:
    assert unchanged(make_slots(kind, (1, 2)), (1, 2))
    assert unchanged(make_slots(kind, ()), ())


def test_any_other_content_is_a_change(kind: str) -> None:
    assert [False] * 4 == [
        unchanged(make_slots(kind, now), (1, 2)) for now in ([1, 3], [2, 1], [1], [1, 2, 3])
    ]


# ---- told --------------------------------------------------------------------------------


def test_text_of_a_target_can_be_written() -> None:
    assert ("naïve 你好", "caf\\udce9") == (legible("naïve 你好"), legible("caf\udce9"))


class Named:
    """Shows itself by a name that is no UTF-8."""

    def __repr__(self) -> str:
        return "caf\udce9"


def test_an_answer_that_cannot_be_read_can_be_written() -> None:
    no_slots: Any = Named()
    with pytest.raises(BadAnswer) as caught:
        read_slots(no_slots)
    assert r"caf\udce9" in str(caught.value)
    assert str(caught.value) == str(caught.value).encode().decode()
