"""How much of an eviction was surely too much, whatever the tree's edges."""

from __future__ import annotations

import pytest

from radixcheck.requests.surplus import without_the_last

LINEAGE = {1: (0, 10), 2: (10, 20), 3: (20, 30), 4: (20, 31), 5: (0, 40), 6: (40, 50)}
"""Slots 1 and 2 hold a run that branches into 3 and 4; 5 and 6 hold another one."""


@pytest.mark.parametrize(
    ("freed", "expected"),
    [
        ([], 0),
        ([3], 0),
        ([3, 4], 1),
        ([3, 2, 1], 0),
        ([3, 4, 2], 1),
        ([3, 4, 2, 1], 1),
        ([5, 6, 3], 1),
        ([6, 5, 3, 4, 2, 1], 3),
        ([3, 99], 0),
    ],
)
def test_the_last_victim_is_no_longer_than_the_longest_way_down(
    freed: list[int], expected: int
) -> None:
    assert expected == without_the_last(freed, LINEAGE)
