"""Which memory hangs on an object: each storage once, whatever views of it are left."""

from __future__ import annotations

from array import array
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from radixcheck.storage import num_bytes


def held(**attributes: Any) -> SimpleNamespace:
    """Return an object with these attributes."""
    return SimpleNamespace(**attributes)


def words(count: int) -> array[int]:
    """Return an array of `count` numbers of 8 bytes."""
    return array("q", [7] * count)


def test_an_object_without_arrays_weighs_nothing() -> None:
    assert 0 == num_bytes(held(a=1, b="text", c=[2, (3, {"d": b"4"})]))


def test_arrays_are_found_however_deep() -> None:
    deep: Any = held(a=[{"b": (held(c=words(5)),)}])
    assert 40 == num_bytes(deep)


def test_one_array_that_is_held_twice_counts_once() -> None:
    shared = words(5)
    assert 40 == num_bytes(held(a=shared, b=[shared, shared]))


def test_a_view_counts_as_all_that_it_keeps_alive() -> None:
    assert 8000 == num_bytes(held(a=memoryview(words(1000))[:10]))


def test_two_views_of_one_buffer_count_once() -> None:
    view = memoryview(words(1000))
    assert 8000 == num_bytes(held(a=view[:10], b=view[10:]))


def test_a_view_of_bytes_counts_as_the_bytes() -> None:
    assert 16 == num_bytes(held(a=memoryview(b"0123456789abcdef")[3:5]))


def test_rings_end() -> None:
    ring = held(a=words(5))
    ring.self = ring
    assert 40 == num_bytes(ring)


def test_closures_and_bound_methods_are_followed() -> None:
    hidden = words(5)
    assert [40, 40, 40] == [
        num_bytes(held(a=lambda: hidden)),
        num_bytes(held(a=held(b=words(5)).__class__.__repr__, c=partial(len, hidden))),
        num_bytes(held(a=hidden.append)),
    ]


EVERYWHERE = words(5)


def test_modules_classes_and_globals_are_not() -> None:
    class Here:
        shared = words(5)

        def method(self) -> int:
            return len(EVERYWHERE)

    assert 0 == num_bytes(held(a=pytest, b=Here, c=Here(), d=Here().method, e=held))


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_views_of_libraries_count_as_their_whole_storage(library: str) -> None:
    ones = pytest.importorskip(library).ones(1000)
    size = ones.itemsize * 1000
    assert [size, size] == [num_bytes([ones[3:5]]), num_bytes([ones[:1], ones[1:]])]


def test_a_clone_counts_for_itself() -> None:
    torch = pytest.importorskip("torch")
    whole = torch.ones(1000, dtype=torch.int64)
    assert 80 == num_bytes(held(a=whole[:10].clone()))


def test_numpy_and_torch_over_one_memory_count_once() -> None:
    numpy, torch = pytest.importorskip("numpy"), pytest.importorskip("torch")
    whole = numpy.ones(1000)
    assert 8000 == num_bytes(held(a=whole, b=torch.from_numpy(whole)[:10]))


def test_an_array_over_a_bytearray_counts_as_that() -> None:
    numpy = pytest.importorskip("numpy")
    memory = bytearray(1000)
    assert 1000 == num_bytes(held(a=numpy.frombuffer(memory, dtype=numpy.uint8)[:10]))
