"""A cache of requests that cannot be judged is told so when it is opened."""

from __future__ import annotations

from typing import Any

import pytest

from radixcheck.requests import unkept
from radixcheck.targets.bookkeeper import RadixRequests


def faults(cache: Any) -> list[str]:
    """Return what is said about a cache with pages of 4 in a pool of 16 slots."""
    return [seen for seen, _, _ in unkept(cache, {})]


@pytest.fixture
def cache() -> Any:
    return RadixRequests(page_size=4, capacity=16)


@pytest.mark.parametrize(
    ("kv", "seen"),
    [
        ([0] * 19, "the pool's kv is of shape (19,), and slots go up to 19"),
        ([0.0] * 20, "the pool's kv holds float"),
        ("0" * 20, "the pool's kv is a str"),
    ],
)
def test_a_buffer_that_cannot_hold_tags_is_told(cache: Any, kv: Any, seen: str) -> None:
    cache.pool.kv = kv
    assert [seen] == faults(cache)


@pytest.mark.parametrize("kind", ["int32", "float64", "uint64"])
def test_an_array_of_other_than_64_bit_integers_is_told(cache: Any, kind: str) -> None:
    numpy = pytest.importorskip("numpy")
    cache.pool.kv = numpy.zeros(20, dtype=kind)
    assert [f"the pool's kv holds {kind}"] == faults(cache)


def test_buffers_of_64_bit_integers_are_good(cache: Any) -> None:
    numpy, torch = pytest.importorskip("numpy"), pytest.importorskip("torch")
    buffers = [0] * 20, numpy.zeros(20, dtype="int64"), torch.zeros(20, dtype=torch.int64)
    for cache.pool.kv in buffers:
        assert [] == faults(cache)


def test_what_is_no_method_is_told(cache: Any) -> None:
    cache.begin = 5
    assert ["begin is no method: 5"] == faults(cache)


def test_a_pool_that_cannot_be_replaced_is_told() -> None:
    class ReadOnly(RadixRequests):
        def __setattr__(self, name: str, value: Any) -> None:
            if name == "pool" and hasattr(self, name):
                raise AttributeError(name)
            super().__setattr__(name, value)

    assert ["the cache's pool cannot be set"] == faults(ReadOnly(page_size=4, capacity=16))
