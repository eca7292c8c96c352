"""Exit codes: how those of several targets or traces become one."""

from __future__ import annotations

import pytest

from radixcheck.cli.codes import Code, severest


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        ([], Code.NOTHING),
        ([Code.NOTHING, Code.NOTHING], Code.NOTHING),
        ([Code.NOTHING, Code.CLEAN], Code.CLEAN),
        ([Code.CLEAN, Code.INCONCLUSIVE], Code.INCONCLUSIVE),
        ([Code.INCONCLUSIVE, Code.UNUSABLE], Code.UNUSABLE),
        ([Code.UNUSABLE, Code.VIOLATION, Code.CLEAN], Code.VIOLATION),
        ([Code.VIOLATION, Code.HARNESS], Code.HARNESS),
        ([Code.HARNESS, Code.INTERRUPTED, Code.VIOLATION], Code.INTERRUPTED),
    ],
)
def test_the_severest_of_several_codes_wins(codes: list[Code], expected: Code) -> None:
    assert expected == severest(codes)


def test_the_codes_are_the_documented_numbers() -> None:
    assert [0, 1, 2, 3, 4, 5, 130] == sorted(Code)
