"""Long keys: how they are shortened, and that they stay what they are."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixcheck.operations import Tokens
from radixcheck.spelling import LONG_TOKENS, spell_keys, spell_numbers

LONG = tuple(range(60))
IRREGULAR = tuple(number * number % 101 for number in range(60))


@pytest.mark.parametrize(
    ("numbers", "spelled"),
    [
        ((), "[]"),
        ((3, 1), "[3, 1]"),
        (tuple(range(LONG_TOKENS)), str(list(range(LONG_TOKENS)))),
        (LONG, "range(0, 60)"),
        (tuple(range(5, 300, 5)), "range(5, 300, 5)"),
        (tuple(range(60, 0, -1)), "range(60, 0, -1)"),
        ((7,) * 50, "[7] * 50"),
        ((1, 2, 3) * 20, "[1, 2, 3] * 20"),
        (IRREGULAR, str(list(IRREGULAR))),
    ],
)
def test_many_regular_numbers_are_written_as_their_rule(numbers: Tokens, spelled: str) -> None:
    assert spelled == spell_numbers(numbers)


def test_a_long_key_is_written_as_what_it_shares_with_an_earlier_one() -> None:
    keys = [LONG, (1, 2), (*LONG, 7), LONG[:50], LONG, (*LONG[:45], 9, 9)]
    assert list(spell_keys(keys)) == [
        ('k1 = array("q", range(0, 60))', "k1[:]"),
        ("", 'array("q", [1, 2])'),
        ("", 'k1[:] + array("q", [7])'),
        ("", "k1[:50]"),
        ("", "k1[:]"),
        ("", 'k1[:45] + array("q", [9, 9])'),
    ]


def test_a_key_that_no_other_refers_to_has_no_name() -> None:
    assert list(spell_keys([LONG, IRREGULAR])) == [
        ("", 'array("q", range(0, 60))'),
        ("", f'array("q", {list(IRREGULAR)})'),
    ]


def test_names_may_build_on_names() -> None:
    other = (*LONG[:25], *IRREGULAR)
    assert [name for name, _ in spell_keys([LONG, other, (*other, 1)])] == [
        'k1 = array("q", range(0, 60))',
        f'k2 = k1[:25] + array("q", {list(IRREGULAR)})',
        "",
    ]


long_keys = st.builds(
    lambda take, rest, times: (*LONG[:take], *rest * times),
    st.integers(0, 60),
    st.lists(st.integers(0, 3), max_size=5),
    st.integers(0, 20),
)


@given(st.lists(long_keys, max_size=8))
def test_what_is_spelled_is_the_key_itself(keys: list[Tokens]) -> None:
    space: dict[str, object] = {"array": array}
    spelled = []
    for name, expression in spell_keys(keys):
        exec(name, space)
        spelled.append(tuple(eval(expression, space)))
    assert keys == spelled
