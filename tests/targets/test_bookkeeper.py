"""The bookkeeper: what it does with the slots of a request, call by call."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

import pytest

from radixcheck.capabilities import Capabilities, PoolCapabilities
from radixcheck.protocol import Refused
from radixcheck.registry import TargetError, resolve
from radixcheck.targets.bookkeeper import Bookkeeper, requests
from radixcheck.targets.radix_paged import RadixPaged

PAGE = 4
LONG = tuple(range(10))


class ListPool:
    """The plainest pool there is: pages in a list, first in, first out."""

    def __init__(self, capacity: int = 32) -> None:
        self.capabilities = PoolCapabilities(page_size=PAGE, capacity=capacity)
        self.pages = list(range(0, capacity, PAGE))

    def alloc(self, num_tokens: int) -> list[int] | None:
        count = num_tokens // PAGE
        if count > len(self.pages):
            return None
        taken, self.pages = self.pages[:count], self.pages[count:]
        return [slot for page in taken for slot in range(page, page + PAGE)]

    def free(self, slots: Sequence[int]) -> None:
        self.pages += slots[::PAGE]

    def available_size(self) -> int:
        return PAGE * len(self.pages)


class Seen(RadixPaged):
    """A tree that notes how much it is asked to evict."""

    def evict(self, num_tokens: int) -> Any:
        self.asked = [*getattr(self, "asked", []), num_tokens]
        return super().evict(num_tokens)


def opened(capacity: int = 32) -> Bookkeeper:
    """Return a cache of requests with pages of 4."""
    return Bookkeeper(Seen(page_size=PAGE), ListPool(capacity))


def key(tokens: Sequence[int]) -> array[int]:
    """Return tokens as a server passes them on."""
    return array("q", tokens)


def computed(cache: Bookkeeper, request: str, tokens: Sequence[int], chunk: int = 99) -> None:
    """Begin a request, and compute its prompt chunk by chunk."""
    done = cache.begin(request, key(tokens))
    while done < len(tokens):
        stop = min(len(tokens), done + chunk)
        cache.append(request, key(tokens[:stop]), stop - done)
        cache.publish(request)
        done = stop


def stored(cache: Bookkeeper, tokens: Sequence[int]) -> None:
    """Let a request store `tokens`, and go."""
    computed(cache, "once", tokens)
    cache.end("once", key(tokens))


def test_a_request_begins_with_what_is_stored_of_all_but_its_last_token() -> None:
    cache = opened()
    stored(cache, LONG[:8])
    assert [4, 8] == [cache.begin("a", key(LONG[:8])), cache.begin("b", key(LONG[:9]))]


def test_a_match_counts_the_same_and_locks_nothing() -> None:
    cache = opened()
    stored(cache, LONG[:8])
    assert (8, 8) == (cache.match(key(LONG)), cache.evictable_size())


@pytest.mark.parametrize("chunk", [1, 2, 3, 4, 5, 99])
def test_chunks_of_any_size_make_the_same_row(chunk: int) -> None:
    cache = opened()
    computed(cache, "a", LONG, chunk)
    assert list(range(10)) == cache.table("a")


def test_whole_pages_are_published_and_the_tail_is_not() -> None:
    cache = opened()
    computed(cache, "a", LONG)
    assert (8, 8) == (cache.total_size(), cache.match(key(LONG)))


def test_duplicates_are_freed_and_the_row_names_the_tree_s_slots() -> None:
    cache = opened()
    cache.begin("a", key(LONG))
    computed(cache, "b", LONG)
    cache.append("a", key(LONG), 10)
    cache.publish("a")
    assert [*range(8), 20, 21] == cache.table("a")
    assert 32 - 8 - 4 - 4 == cache.pool.available_size()


def test_what_is_published_is_locked() -> None:
    cache = opened()
    computed(cache, "a", LONG)
    cache.evict(99)
    assert (8, 0) == (cache.total_size(), cache.evictable_size())


def test_the_end_stores_whole_pages_and_frees_the_rest() -> None:
    cache = opened()
    computed(cache, "a", LONG)
    cache.append("a", key((*LONG, 10, 11)), 2)
    cache.end("a", key((*LONG, 10, 11, 12)))
    assert (12, 20) == (cache.total_size(), cache.pool.available_size())


def test_an_abort_stores_nothing_more_and_unlocks() -> None:
    cache = opened()
    computed(cache, "a", LONG)
    cache.abort("a")
    assert (8, 8, 24) == (cache.total_size(), cache.evictable_size(), cache.pool.available_size())


def test_an_eviction_asks_for_exactly_what_is_missing() -> None:
    cache: Any = opened(16)
    stored(cache, LONG[:8])
    computed(cache, "a", (20, 21, 22, 23, 24, 25, 26, 27, 28))
    assert [4] == cache.tree.asked


def test_a_refused_request_keeps_what_it_had() -> None:
    cache = opened(8)
    computed(cache, "a", LONG[:6])
    with pytest.raises(Refused):
        cache.append("a", key(LONG), 4)
    assert (list(range(6)), 0) == (cache.table("a"), cache.pool.available_size())


def test_an_order_that_there_is_not_is_told() -> None:
    with pytest.raises(TargetError) as caught:
        resolve("requests:radix-paged?order=fifo").open()
    assert "order='fifo': choose one of fcfs, random, lpm, weight" in str(caught.value)


def test_a_tree_that_cannot_lock_makes_no_cache_of_requests() -> None:
    class Bare:
        capabilities = Capabilities()

    with pytest.raises(ValueError, match="requests need a tree with evict, inc_ref, dec_ref"):
        requests(Bare())  # type: ignore[arg-type]  # that is the mistake


def test_a_pool_holds_at_least_one_page() -> None:
    cache = requests(RadixPaged(page_size=16), capacity=8)
    assert 16 == cache.pool.available_size()
