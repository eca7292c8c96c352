"""No call that makes the host wait for a device. Tensors of torch's ``meta`` device have no data:
whatever reads one raises."""

from __future__ import annotations

from array import array
from types import SimpleNamespace
from typing import Any

import pytest

import radixcheck

torch = pytest.importorskip("torch")

WAITING = (
    "item tolist cpu numpy cuda __bool__ __int__ __float__ __index__ __len__ __iter__ "
    "__contains__ nonzero equal __array__ is_nonzero"
).split()
"""Methods of tensors that read data, or copy it to the host. `len` and iteration do not wait, but
lead there."""


class Served:
    """A cache of SGLang's shape whose slots lie on a device."""

    page_size = 1

    def __init__(self, device: str) -> None:
        self.device = device
        self.root_node = SimpleNamespace(children={})
        self.token_to_kv_pool_allocator = Pool(device)

    def match_prefix(self, params: Any) -> Any:
        """Match two tokens."""
        slots = torch.empty(2, dtype=torch.int64, device=self.device)
        return SimpleNamespace(device_prefix_len=2, last_device_node=self, slots=slots)

    def path_device_indices(self, node: Any) -> Any:
        """Answer the slots of a match."""
        return torch.empty(2, dtype=torch.int64, device=self.device)

    def insert(self, params: Any) -> Any:
        """Store everything."""
        return SimpleNamespace(prefix_len=0)

    def evict(self, params: Any) -> None:
        """Evict two slots."""
        slots = torch.empty(2, dtype=torch.int64, device=self.device)
        self.token_to_kv_pool_allocator.free(slots)

    def inc_lock_ref(self, node: Any) -> Any:
        """Lock."""
        return SimpleNamespace(delta=0)

    def dec_lock_ref(self, node: Any) -> Any:
        """Unlock."""
        return SimpleNamespace(delta=0)

    def evictable_size(self) -> int:
        """Count nothing."""
        return 0

    protected_size = evictable_size


class Pool:
    """Hands out tensors, and takes them back."""

    def __init__(self, device: str) -> None:
        self.device = device

    def alloc(self, num_tokens: int) -> Any:
        """Hand out slots."""
        return torch.empty(num_tokens, dtype=torch.int64, device=self.device)

    def free(self, free_index: Any) -> None:
        """Take slots back."""


def serve(cache: Any) -> None:
    """Make every kind of call."""
    tokens = array("q", [1, 2])
    key = SimpleNamespace(
        token_ids=tokens, extra_key=None, limit=None, is_bigram=False, cache_salt=None
    )
    slots = cache.token_to_kv_pool_allocator.alloc(2)
    found = cache.match_prefix(SimpleNamespace(key=key))
    cache.inc_lock_ref(found.last_device_node)
    cache.insert(SimpleNamespace(key=key, value=slots, priority=0, prev_prefix_len=0))
    cache.dec_lock_ref(found.last_device_node)
    cache.evict(SimpleNamespace(num_tokens=2))
    cache.token_to_kv_pool_allocator.free(slots)


@pytest.fixture
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every method that waits raise, on whatever device."""
    for name in WAITING:

        def waits(*_: Any, name: str = name) -> Any:
            raise AssertionError(f"{name} makes the host wait")

        monkeypatch.setattr(torch.Tensor, name, waits, raising=False)


@pytest.mark.parametrize("device", ["meta", "cpu"])
@pytest.mark.usefixtures("no_waiting")
def test_a_recording_never_waits_for_a_device(device: str) -> None:
    cache = Served(device)
    with radixcheck.record(cache, last=100) as recording:
        for _ in range(100):
            serve(cache)
        trace = recording.trace()
    assert recording.taps.trouble is None
    assert len(trace.operations) > 100


@pytest.mark.parametrize("device", ["meta", "cpu"])
@pytest.mark.usefixtures("no_waiting")
def test_a_recording_to_a_file_never_waits_for_a_device(device: str, tmp_path: Any) -> None:
    cache = Served(device)
    with radixcheck.record(cache, to=tmp_path / "all.jsonl") as recording:
        for _ in range(100):
            serve(cache)
    assert recording.taps.trouble is None


@pytest.mark.parametrize("device", ["meta", "cpu"])
@pytest.mark.usefixtures("no_waiting")
def test_a_watch_waits_for_a_device_only_when_a_batch_is_judged(device: str) -> None:
    cache = RadixCache(device)
    watched = radixcheck.watch(cache, every=1_000_000, to=None)
    for _ in range(100):
        serve(cache)
    watched.stop()
    assert watched.trouble is None
    assert watched.waiting == 700


class TreeNode:
    """What a promise is made of."""

    def __init__(self) -> None:
        self.key = None


class InsertParams:
    """So is this."""

    def __init__(self, key: Any = None, value: Any = None, priority: int = 0) -> None:
        self.key = key


class RadixCache(Served):
    """One that radixcheck takes for SGLang's own, by its name."""

    def match_prefix(self, params: Any) -> Any:
        """Match as ever."""
        return super().match_prefix(params)
