"""Generated operations of pools: repeatable, and the caller's books are right."""

from __future__ import annotations

import pytest

from radixcheck.capabilities import PoolCapabilities
from radixcheck.operations import AddRefs, Alloc, Free
from radixcheck.pools import generate

PAGED = PoolCapabilities(page_size=4, capacity=64, partial_pages="counted")


def test_the_same_seed_gives_the_same_operations() -> None:
    assert generate(3, PAGED, 80) == generate(3, PAGED, 80) != generate(4, PAGED, 80)


@pytest.mark.parametrize("swarm", [False, True])
def test_a_caller_that_is_honest_frees_nothing_twice(swarm: bool) -> None:
    kinds = {
        "misuse": sum(each.handle is None for each in _frees(generate(5, PAGED, 400, swarm=swarm)))
    }
    assert {"misuse": 0} == kinds


def test_misuse_is_made_on_demand() -> None:
    assert any(each.handle is None for each in _frees(generate(5, PAGED, 400, misuse=True)))


def test_only_a_pool_that_counts_is_asked_to() -> None:
    counted = PoolCapabilities(capacity=8, ownership="counted")
    shared = [_shares(generate(5, can, 400)) for can in (counted, PAGED)]
    assert [True, False] == shared


def test_a_pool_of_one_page_is_no_endless_story() -> None:
    assert any(isinstance(each, Alloc) for each in generate(1, PoolCapabilities(capacity=1), 50))


def _frees(operations: tuple[object, ...]) -> list[Free]:
    return [each for each in operations if isinstance(each, Free)]


def _shares(operations: tuple[object, ...]) -> bool:
    return any(isinstance(each, AddRefs) for each in operations)
