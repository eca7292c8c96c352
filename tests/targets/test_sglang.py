"""The adapter `sglang` against miniatures of each shape that SGLang has had, and against releases.

A miniature is a folder like an unpacked wheel whose `RadixCache` is written here: the same calls as
a release of that shape, around a table of prefixes. So no SGLang is needed, and torch only for the
tree in C++. Releases are driven where the environment variable ``RADIXCHECK_SGLANG_RELEASES`` names
a folder that holds one unpacked wheel per subfolder, named by its version.
"""

from __future__ import annotations

import os
import shutil
import sys
from array import array
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import pytest

from radixcheck.protocol import Refused
from radixcheck.targets.sglang import eras, sglang
from radixcheck.targets.sglang.compiled import load_once
from radixcheck.targets.sglang.release import open_release

STORE = '''
import time

class TreeNode:
    """One stored prefix."""

    def __init__(self, parent=None, slot=None):
        self.parent, self.slot = parent, slot
        self.locks, self.stamp = 0, time.CLOCK()

def nodes_below(node):
    while node.parent is not None:
        yield node
        node = node.parent

class Store:
    """A table from prefixes to nodes: one token, one slot, one node."""

    def __init__(self):
        self.clear()

    def clear(self):
        self.root, self.nodes = TreeNode(), {}

    def walk(self, name, tokens):
        path, node = [], self.root
        for end in range(1, len(tokens) + 1):
            node = self.nodes.get((name, tuple(tokens[:end])))
            if node is None:
                break
            node.stamp = time.CLOCK()
            path.append(node)
        return path

    def add(self, name, tokens, slots):
        path = self.walk(name, tokens)
        node = path[-1] if path else self.root
        for place in range(len(path), len(tokens)):
            node = TreeNode(node, slots[place])
            self.nodes[name, tuple(tokens[: place + 1])] = node
        return len(path)

    def drop(self, wanted, give_back):
        while wanted > 0:
            parents = {id(node.parent) for node in self.nodes.values()}
            leaves = [
                (node.stamp, key)
                for key, node in self.nodes.items()
                if id(node) not in parents and not node.locks
            ]
            if not leaves:
                return
            give_back([self.nodes.pop(min(leaves)[1]).slot])
            wanted -= 1

    def lock(self, node, step):
        before = self.free_tokens()
        for held in nodes_below(node):
            held.locks += step
        return self.free_tokens() - before

    def free_tokens(self):
        return sum(not node.locks for node in self.nodes.values())
'''

OLDEST = """
class RadixCache:
    def __init__(self, disable=False):
        self.disable, self.store = disable, Store()

    def match_prefix(self, key):
        hash(key)
        path = [] if self.disable else self.store.walk(None, key)
        return [node.slot for node in path], path[-1] if path else self.store.root

    def insert(self, key, value=None):
        hash(key)
        return len(key) if self.disable else self.store.add(None, key, value)

    def evict(self, num_tokens, evict_callback):
        if self.disable:
            raise RuntimeError()
        counted = []
        self.store.drop(num_tokens, lambda slots: counted.append(evict_callback(slots)))
        sum(counted)

    def inc_ref_counter(self, node):
        return self.store.lock(node, 1)

    def dec_ref_counter(self, node):
        return self.store.lock(node, -1)

    def evictable_size(self):
        return self.store.free_tokens()

    def total_size(self):
        return len(self.store.nodes)
"""

SHARED = """
class Shared:
    def __init__(self, req_to_token_pool, token_to_kv_pool, disable=False):
        self.pool, self.disable, self.store = token_to_kv_pool, disable, Store()

    def reset(self):
        self.store.clear()

    def lookup(self, name, tokens):
        path = [] if self.disable else self.store.walk(name, tokens)
        return [node.slot for node in path], path[-1] if path else self.store.root

    def inc_lock_ref(self, node):
        return self.store.lock(node, 1)

    def dec_lock_ref(self, node):
        return self.store.lock(node, -1)

    def evictable_size(self):
        return self.store.free_tokens()

    def total_size(self):
        return len(self.store.nodes)

    def protected_size(self):
        return self.total_size() - self.evictable_size()
"""

MIDDLE = (
    SHARED
    + """
class RadixCache(Shared):
    def match_prefix(self, key, **kwargs):
        return self.lookup(None, key)

    def insert(self, key, value=None):
        return 0 if self.disable else self.store.add(None, key, value)

    def evict(self, num_tokens, evict_callback):
        self.store.drop(num_tokens, evict_callback)

TreeNode.key = None
"""
)

KEYED = (
    SHARED
    + """
from collections import namedtuple
from sglang.srt.mem_cache.evict_policy import BY_NAME

MatchResult = namedtuple("MatchResult", "device_indices last_device_node last_host_node")

class RadixKey:
    def __init__(self, token_ids, extra_key=None):
        self.token_ids, self.extra_key = token_ids, extra_key

class RadixCache(Shared):
    def __init__(
        self, req_to_token_pool, token_to_kv_pool_allocator, page_size,
        disable=False, eviction_policy="lru",
    ):
        super().__init__(None, token_to_kv_pool_allocator, disable)
        self.eviction_strategy = BY_NAME[eviction_policy]()

    def match_prefix(self, key, **kwargs):
        slots, node = self.lookup(key.extra_key, key.token_ids)
        return MatchResult(slots, node, node)

    def insert(self, key, value=None, chunked=False):
        return 0 if self.disable else self.store.add(key.extra_key, key.token_ids, value)

    def evict(self, num_tokens):
        self.store.drop(num_tokens, self.pool.free)
"""
)

PARAMS = (
    KEYED
    + """
from dataclasses import dataclass
from typing import Any

from sglang.srt.mem_cache.cache_init_params import CacheInitParams

@dataclass
class MatchPrefixParams:
    key: RadixKey

@dataclass
class InsertParams:
    key: RadixKey
    value: Any = None
    priority: int = 0

@dataclass
class EvictParams:
    num_tokens: int

InsertResult = namedtuple("InsertResult", "prefix_len")
EvictResult = namedtuple("EvictResult", "num_tokens_evicted")
IncLockRefResult = DecLockRefResult = namedtuple("LockResult", "delta")

class RadixCache(RadixCache):
    def __init__(self, params: CacheInitParams):
        super().__init__(
            None, params.token_to_kv_pool_allocator, params.page_size, params.disable,
            params.eviction_policy,
        )

    def match_prefix(self, params: MatchPrefixParams):
        return super().match_prefix(params.key)

    def insert(self, params: InsertParams):
        if params.value is None:
            raise TypeError("no slots")
        return InsertResult(super().insert(params.key, params.value))

    def evict(self, params: EvictParams):
        super().evict(params.num_tokens)
        return EvictResult(params.num_tokens)

    def inc_lock_ref(self, node):
        return IncLockRefResult(super().inc_lock_ref(node))

    def dec_lock_ref(self, node, params=None):
        return DecLockRefResult(super().dec_lock_ref(node))
"""
)

NEWEST = (
    PARAMS
    + """
from array import array

Answer = namedtuple("Answer", "device_prefix_len last_device_node")
RadixKey.page_aligned = lambda self, page_size: self

class OnlySegments:
    def __init__(self, allocator):
        self.allocator = allocator

    def free(self, slots):
        self.allocator.free_segment(slots, start_pos=0)

class RadixCache(RadixCache):
    def __init__(self, params):
        super().__init__(params)
        self.pool = OnlySegments(self.pool)

    def match_prefix(self, params):
        if type(params.key.token_ids) is not array:
            raise TypeError(params.key.token_ids)
        found = super().match_prefix(params)
        return Answer(len(found.device_indices), found.last_device_node)

    def path_device_indices(self, node):
        return [held.slot for held in nodes_below(node)][::-1]
"""
)

POLICIES = """
class EvictionStrategy: ...
class LRUStrategy(EvictionStrategy): ...
class LFUStrategy(EvictionStrategy): ...
class UnheardOfStrategy(EvictionStrategy): ...

BY_NAME = {"lru": LRUStrategy, "lfu": LFUStrategy}
"""

SLRU = """
class SLRUStrategy(EvictionStrategy):
    protected_threshold = 3

BY_NAME["slru"] = SLRUStrategy
"""

INIT_PARAMS = """
from __future__ import annotations
import dataclasses

@dataclasses.dataclass
class CacheInitParams:
    disable: bool
    req_to_token_pool: ReqToTokenPool
    token_to_kv_pool_allocator: Allocator
    page_size: int
    eviction_policy: str = "lru"
    enable_metrics: bool = False
"""

HEAVY = """
import triton
import triton.language as tl
from sglang.srt.layers.attention import Backend, is_fast
from sglang.srt.managers.schedule_batch import Req

if is_fast() or Req.has_cuda:
    raise RuntimeError("a stand-in said yes")

class Heavy(Backend): ...

@triton.jit(num_warps=4)
def kernel(size: tl.constexpr): ...
"""


class Shape(NamedTuple):
    """What distinguishes one miniature: its files, and what the adapter must make of them."""

    tree: str
    place: str
    clock: str
    beside: dict[str, str]
    capabilities: dict[str, str]


MEM_CACHE = "sglang/srt/mem_cache"
COMMON = {"slots_as": "torch", "deltas": "present", "total_size": "walked", "disable": "present"}
WITH_RESET = {**COMMON, "reset": "present", "protected_size": "present"}
WITH_NAMES = {**WITH_RESET, "namespaces": "one", "unaligned_insert": "caller-aligns"}
WITH_RANKS = {**WITH_NAMES, "priorities": "present"}
KEYED_FILES = {"evict_policy": POLICIES}
PARAMS_FILES = {"evict_policy": POLICIES + SLRU, "cache_init_params": INIT_PARAMS}

SHAPES = {
    "oldest": Shape(
        OLDEST,
        "sglang/srt/managers/router",
        "time",
        {},
        {**COMMON, "reset": "absent", "protected_size": "absent", "namespaces": "absent"},
    ),
    "middle": Shape(MIDDLE, MEM_CACHE, "time", {}, {**WITH_RESET, "namespaces": "absent"}),
    "keyed": Shape(KEYED, MEM_CACHE, "monotonic", KEYED_FILES, WITH_NAMES),
    "params": Shape(PARAMS, MEM_CACHE, "monotonic", PARAMS_FILES, WITH_RANKS),
    "newest": Shape(
        NEWEST, MEM_CACHE, "monotonic", PARAMS_FILES, {**WITH_RANKS, "unaligned_insert": "cut"}
    ),
}
every_shape = pytest.mark.parametrize("shape", SHAPES)


def write(folder: Path, shape: str, *, version: str = "", before: str = "", after: str = "") -> str:
    """Write the miniature of `shape`, with more at the two ends of its tree, into `folder`."""
    made = SHAPES[shape]
    beside = folder / made.place
    beside.mkdir(parents=True)
    (folder / "sglang/__init__.py").write_text("raise RuntimeError('nobody runs this')")
    tree = STORE.replace("CLOCK", made.clock) + made.tree
    (beside / "radix_cache.py").write_text(before + tree + after)
    for name, text in made.beside.items():
        (beside / f"{name}.py").write_text(text)
    if version:
        described = folder / f"sglang-{version}.dist-info"
        described.mkdir()
        (described / "METADATA").write_text(f"Name: sglang\nVersion: {version}\n")
    return str(folder)


def tokens(*numbers: int) -> array[int]:
    return array("q", numbers)


def groups(target: Any, num_tokens: int) -> list[list[int]]:
    return [list(map(int, group)) for group in target.evict(num_tokens).groups]


# ------------------------------------------------------------------------ every shape of SGLang


@every_shape
def test_a_stored_prefix_is_found_with_its_slots(shape: str, tmp_path: Path) -> None:
    target = sglang(path=write(tmp_path, shape))
    existing = [
        target.insert(tokens(1, 2, 3), [10, 11, 12]),
        target.insert(tokens(1, 2, 9), [20, 21, 22]),
    ]
    found = target.match_prefix(tokens(1, 2, 9, 7))
    assert ([0, 2], 3, [10, 11, 22]) == (existing, found.length, found.slots)


@every_shape
def test_evicted_slots_come_back_victim_by_victim(shape: str, tmp_path: Path) -> None:
    target = sglang(path=write(tmp_path, shape))
    target.insert(tokens(1, 2, 3), [10, 11, 12])
    assert [[[12], [11]], [[10]], []] == [groups(target, wanted) for wanted in (2, 5, 1)]


@every_shape
def test_locks_answer_the_change_of_the_evictable_size(shape: str, tmp_path: Path) -> None:
    target = sglang(path=write(tmp_path, shape))
    target.insert(tokens(1, 2, 3), [10, 11, 12])
    node = target.match_prefix(tokens(1, 2)).handle
    actual = [
        target.inc_ref(node),
        target.evictable_size(),
        groups(target, 9),
        target.dec_ref(node),
    ]
    assert [-2, 1, [[12]], 2] == actual


@every_shape
def test_capabilities_are_read_off_the_release(shape: str, tmp_path: Path) -> None:
    declared = sglang(path=write(tmp_path, shape), clock=lambda: 0).capabilities
    expected = {**SHAPES[shape].capabilities, "clock": "injected", "eviction": "lru"}
    assert expected == {name: getattr(declared, name) for name in expected}


@every_shape
def test_a_disabled_cache_stores_nothing(shape: str, tmp_path: Path) -> None:
    target = sglang(path=write(tmp_path, shape), disable=True)
    existing = target.insert(tokens(1, 2), [10, 11])
    sizes = target.match_prefix(tokens(1, 2)).length, target.total_size()
    assert (3 * [0] if existing == 0 else [2, 0, 0]) == [existing, *sizes]


@every_shape
def test_the_injected_clock_orders_evictions(shape: str, tmp_path: Path) -> None:
    now = [9]
    target = sglang(path=write(tmp_path, shape), clock=lambda: now[0])
    target.insert(tokens(1), [10])
    now[0] = 5
    target.insert(tokens(2), [20])
    assert [[20], [10]] == groups(target, 2)


@every_shape
def test_a_clock_of_its_own_has_a_resolution_unless_it_may_be_set(
    shape: str, tmp_path: Path
) -> None:
    declared = sglang(path=write(tmp_path, shape)).capabilities
    may_be_set = SHAPES[shape].clock == "time"
    assert ("own", may_be_set) == (declared.clock, declared.resolution_s is None)


def test_slots_given_back_between_evictions_are_not_lost(tmp_path: Path) -> None:
    gives = "\nRadixCache.reset = lambda self: self.pool.free([7])\n"
    target = sglang(path=write(tmp_path, "keyed", after=gives))
    target.reset()
    assert [[7]] == groups(target, 1)


@pytest.mark.parametrize(
    ("shape", "insert"),
    [
        ("keyed", "lambda self, key, value=None, priority=0: priority"),
        ("params", "lambda self, params: InsertResult(params.priority)"),
    ],
)
def test_priorities_reach_the_tree(shape: str, insert: str, tmp_path: Path) -> None:
    target = sglang(path=write(tmp_path, shape, after=f"\nRadixCache.insert = {insert}\n"))
    assert ("present", 7) == (
        target.capabilities.priorities,
        target.insert(tokens(1), [10], (), 7),
    )


# ------------------------------------------------------------------------------- keys and names


def test_tokens_are_handed_on_uncopied_wherever_a_tree_takes_them() -> None:
    plain = SimpleNamespace(TreeNode=lambda: SimpleNamespace(key=None))
    keyed = SimpleNamespace(RadixKey=lambda token_ids, _extra_key: token_ids)
    given = tokens(1, 2)
    trees: list[Any] = [plain, keyed]  # stand-ins for modules
    made = [eras.key_maker(tree)(given, ()) for tree in trees]
    assert [True, True] == [key is given for key in made]


@pytest.mark.parametrize("shape", ["keyed", "params", "newest"])
def test_no_namespace_is_not_the_empty_one(shape: str, tmp_path: Path) -> None:
    target = sglang(path=write(tmp_path, shape))
    target.insert(tokens(1, 2), [10, 11], ("",))
    lengths = [target.match_prefix(tokens(1, 2), name).length for name in ((), ("",), ("a",))]
    assert [0, 2, 0] == lengths


@pytest.mark.parametrize(
    ("policy", "expected"),
    [("lru", ("any", "any", 2)), ("lfu", ("inserts", "lru", 2)), ("slru", ("inserts", "lru", 3))],
)
def test_a_policy_that_counts_is_held_to_counting_inserts(
    policy: str, expected: tuple[str, str, int], tmp_path: Path
) -> None:
    declared = sglang(path=write(tmp_path, "newest"), eviction=policy).capabilities
    assert expected == (declared.hits, declared.tie_break, declared.slru_threshold)


@pytest.mark.parametrize("shape", ["keyed", "params", "newest"])
def test_a_release_with_pages_takes_any_page_size(shape: str, tmp_path: Path) -> None:
    assert 4 == sglang(path=write(tmp_path, shape), page_size=4).capabilities.page_size


# -------------------------------------------------------------------------------------- imports


def test_heavy_imports_are_stood_in_for(tmp_path: Path) -> None:
    target = sglang(path=write(tmp_path, "newest", before=HEAVY))
    assert target.insert(tokens(1), [10]) == 0


def test_a_stand_in_takes_no_part_in_a_verdict(tmp_path: Path) -> None:
    late = "\nRadixCache.total_size = lambda self: kernel()\n"
    target = sglang(path=write(tmp_path, "newest", before=HEAVY, after=late))
    with pytest.raises(RuntimeError, match=r"called triton\.jit, .* a fault of the adapter"):
        target.total_size()


def test_opening_leaves_no_module_behind(tmp_path: Path) -> None:
    before = {name for name in sys.modules if name.startswith(("sglang", "triton"))}
    sglang(path=write(tmp_path, "newest", before=HEAVY))
    after = {name for name in sys.modules if name.startswith(("sglang", "triton"))}
    assert before == after


def test_an_sglang_that_was_imported_before_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = ModuleType("sglang")
    monkeypatch.setitem(sys.modules, "sglang", theirs)
    sglang(path=write(tmp_path, "newest"))
    assert sys.modules["sglang"] is theirs


def test_releases_live_side_by_side(tmp_path: Path) -> None:
    targets = [sglang(path=write(tmp_path / shape, shape)) for shape in SHAPES]
    for place, target in enumerate(targets):
        target.insert(tokens(1, 2, 3)[:place], list(range(place)))
    lengths = [target.match_prefix(tokens(1, 2, 3)).length for target in targets]
    assert [0, 1, 2, 3, 3] == lengths


def test_caches_of_one_release_have_their_own_clocks(tmp_path: Path) -> None:
    path = write(tmp_path, "newest")
    early, late = sglang(path=path, clock=lambda: 1), sglang(path=path, clock=lambda: 2)
    early.insert(tokens(1), [10])
    late.insert(tokens(1), [10])
    stamps = [target.match_prefix(tokens(1)).handle.stamp for target in (early, late)]
    assert [1, 2] == stamps


def test_a_release_is_read_once(tmp_path: Path) -> None:
    path = write(tmp_path, "newest")
    assert open_release(path, False) is open_release(path, False)


def test_without_a_path_the_installed_one_is_driven(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(write(tmp_path, "middle"))
    target = sglang()
    target.insert(tokens(1), [10])
    assert groups(target, 1) == [[10]]


# --------------------------------------------------------------------------------------- errors


def test_the_first_releases_refuse_to_evict_when_disabled(tmp_path: Path) -> None:
    with pytest.raises(Refused):
        sglang(path=write(tmp_path, "oldest"), disable=True).evict(1)


@pytest.mark.parametrize(
    ("shape", "wish", "message"),
    [
        ("middle", {"page_size": 4}, "page_size=4: SGLang 0.4.3 .* has no pages"),
        ("middle", {"eviction": "lfu"}, "eviction='lfu': SGLang 0.4.3 .* has only lru"),
        ("keyed", {"eviction": "mru"}, "eviction='mru': SGLang 0.4.3 .* has only lru, lfu"),
    ],
)
def test_what_a_release_lacks_is_refused_with_its_choices(
    shape: str, wish: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message):
        sglang(path=write(tmp_path, shape, version="0.4.3"), **wish)


def test_a_path_that_is_no_folder_says_so(tmp_path: Path) -> None:
    with pytest.raises(ImportError, match="nowhere is no folder; install one"):
        sglang(path=str(tmp_path / "nowhere"))


def test_a_folder_without_sglang_says_so(tmp_path: Path) -> None:
    with pytest.raises(ImportError, match="holds no sglang/; install one"):
        sglang(path=str(tmp_path))


def test_a_folder_without_a_tree_says_where_it_looked(tmp_path: Path) -> None:
    (tmp_path / "sglang").mkdir()
    with pytest.raises(ImportError, match=r"has none of sglang\.srt\.mem_cache\.radix_cache, "):
        sglang(path=str(tmp_path))


@pytest.mark.parametrize(
    ("version", "is_driven"),
    [
        ("0.1.2", False),
        ("0.1.3", True),
        ("0.5.10.post1", True),
        ("0.5.11", False),
        ("0.5.22", False),
        ("0.5.23", True),
        ("0.5.24", False),
    ],
)
def test_versions_that_were_never_tried_are_known(
    version: str, is_driven: bool, tmp_path: Path
) -> None:
    path = write(tmp_path, "newest", version=version)
    assert is_driven == open_release(path, True).is_driven


def test_an_untested_release_is_driven_only_on_demand(tmp_path: Path) -> None:
    path = write(tmp_path, "newest", version="0.5.12")
    with pytest.raises(ImportError, match=r"untested release: SGLang 0\.5\.12 .* untested=true"):
        sglang(path=path)
    assert sglang(path=path, untested=True).insert(tokens(1), [10]) == 0


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("import no_such_package.part\n", "", "needs 'no_such_package': install it"),
        ("1 / 0\n", "", "ZeroDivisionError: .* a fault of the adapter"),
        ("", "\ndel RadixCache.total_size\n", "cannot be driven: .*total_size.* of the adapter"),
    ],
)
def test_a_failed_import_names_what_failed_and_whose_fault_it_is(
    before: str, after: str, message: str, tmp_path: Path
) -> None:
    path = write(tmp_path, "oldest", before=before, after=after)
    with pytest.raises(ImportError, match=message):
        sglang(path=path)


# ------------------------------------------------------------------------------- the other trees

PLAIN_KEY = """
class RadixKey:
    def __init__(self, token_ids, extra_key=None):
        self.token_ids, self.extra_key = token_ids, extra_key

    def page_aligned(self, page_size):
        return self
"""

UNIFIED = """
from collections import namedtuple
from dataclasses import dataclass
from typing import Any

from sglang.srt.mem_cache import evict_policy
from sglang.srt.mem_cache.radix_cache import RadixKey
from sglang.srt.mem_cache.unified_cache.component_type import ComponentType

MatchPrefixParams = namedtuple("MatchPrefixParams", "key")
InsertParams = namedtuple("InsertParams", "key value priority prev_prefix_len")
InsertResult = namedtuple("InsertResult", "prefix_len")
EvictParams = namedtuple("EvictParams", "num_tokens")
Answer = namedtuple("Answer", "device_prefix_len last_device_node")
Receipt = namedtuple("Receipt", "node_id")
@dataclass
class IncLockRefResult:
    delta: Any = None
    node_id: Any = None

    def to_dec_params(self):
        return Receipt(self.node_id)

class UnifiedRadixCache(Shared):
    def __init__(self, params):
        super().__init__(None, params.token_to_kv_pool_allocator, params.disable)
        assert params.tree_components == (ComponentType.FULL,)
        self.tree_core, self.surplus = self.core(params.tree_core_backend), 0

    def core(self, backend):
        from sglang.srt.mem_cache.unified_cache.unified_tree_core import UnifiedTreeCore

        return UnifiedTreeCore()

    def match_prefix(self, params):
        slots, node = self.lookup(params.key.extra_key, params.key.token_ids)
        return Answer(len(slots), node)

    def path_device_indices(self, node):
        return [held.slot for held in nodes_below(node)][::-1]

    def insert(self, params):
        existing = self.store.add(params.key.extra_key, params.key.token_ids, params.value)
        self.pool.free_segment(params.value[params.prev_prefix_len : existing + self.surplus])
        return InsertResult(existing)

    def evict(self, params):
        self.store.drop(params.num_tokens, self.pool.free_segment)

    def inc_lock_ref(self, node):
        return IncLockRefResult(-super().inc_lock_ref(node), id(node))

    def dec_lock_ref(self, node, params):
        assert params == Receipt(id(node)), params
        super().dec_lock_ref(node)
        return IncLockRefResult()

    def total_size(self):
        return super().total_size(), 0

    def evictable_size(self):
        return self.store.free_tokens()

    def protected_size(self):
        return len(self.store.nodes) - self.evictable_size()
"""

UNIFIED_PARAMS = """
import dataclasses

@dataclasses.dataclass
class CacheInitParams:
    disable: bool
    req_to_token_pool: object
    token_to_kv_pool_allocator: object
    page_size: int
    eviction_policy: str = "lru"
    tree_components: object = None
    tree_core_backend: object = None
"""

RUST_CORE = """
class RustUnifiedTreeCore: ...

def new_core(self, backend):
    return RustUnifiedTreeCore()
"""

COMPONENT_TYPE = """
import enum

class ComponentType(enum.IntEnum):
    FULL = 0
"""

CPP = """
from collections import namedtuple
from sglang.srt.mem_cache.cpp_radix_tree.radix_tree import RadixTreeCpp, TreeNodeCpp
from sglang.srt.mem_cache.evict_policy import BY_NAME
from sglang.srt.mem_cache.radix_cache import RadixKey

Answer = namedtuple("Answer", "device_indices last_device_node")

class RadixCacheCpp(Shared):
    def __init__(self, params, server_args):
        super().__init__(None, params.token_to_kv_pool_allocator, params.disable)
        assert not server_args.enable_hierarchical_cache
        self.buffer, self.bits = self.pool.get_kvcache(), RadixTreeCpp()

    def match_prefix(self, key):
        return Answer(*self.lookup(None, self.bits.checked(key.token_ids)))

    def _insert(self, key, value):
        return self.store.add(None, self.bits.checked(key.token_ids), value)

    def evict(self, num_tokens):
        self.store.drop(num_tokens, self.pool.free)

    def inc_lock_ref(self, node):
        super().inc_lock_ref(node)

    def dec_lock_ref(self, node):
        super().dec_lock_ref(node)
"""

CPP_LOADER = """
TreeNodeCpp = object

class RadixTreeCpp:
    def checked(self, tokens):
        if any(token.bit_length() > 31 for token in tokens):
            raise TypeError(tokens)
        return tokens
"""

OTHER_TREES: dict[str, dict[str, str]] = {
    "unified": {
        "unified_radix_cache.py": SHARED + UNIFIED,
        "unified_cache/component_type.py": COMPONENT_TYPE,
        "unified_cache/unified_tree_core.py": "class UnifiedTreeCore: ...",
    },
    "cpp": {
        "radix_cache_cpp.py": SHARED + CPP,
        "cpp_radix_tree/radix_tree.py": CPP_LOADER,
        "cpp_radix_tree/tree_v2.cpp": "",
    },
}
OTHER_TREES["unified-rust"] = OTHER_TREES["unified"] | {
    "rust_tree_core/mem_cache.py": "",
    "rust_tree_core/adapter.py": RUST_CORE,
}


def write_other(folder: Path, tree: str, *, without: str = "", after: str = "") -> str:
    """Write the miniature of another tree, with more at its end, into `folder`."""
    if tree == "cpp":
        pytest.importorskip("torch.utils.cpp_extension")
    files = {
        "cache_init_params.py": UNIFIED_PARAMS,
        "evict_policy.py": POLICIES,
        "radix_cache.py": PLAIN_KEY,
        **OTHER_TREES[tree],
    }
    home = next(iter(OTHER_TREES[tree]))
    node = "Node" if tree == "cpp" else "UnifiedTreeNode"
    store = STORE.replace("CLOCK", "monotonic").replace("TreeNode", node)
    files[home] = store + files[home] + after
    for name, text in files.items():
        if name != without:
            path = folder / MEM_CACHE / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    return str(folder)


TAKES_THE_RUST_CORE = """
from sglang.srt.mem_cache.rust_tree_core.adapter import new_core

UnifiedRadixCache.core = new_core
"""
every_other_tree = pytest.mark.parametrize(
    ("tree", "after"), [("unified", ""), ("unified-rust", TAKES_THE_RUST_CORE), ("cpp", "")]
)


@every_other_tree
def test_another_tree_stores_and_evicts(tree: str, after: str, tmp_path: Path) -> None:
    target = sglang(path=write_other(tmp_path, tree, after=after), tree=tree)
    existing = [
        target.insert(tokens(1, 2, 3), tokens(10, 11, 12)),
        target.insert(tokens(1, 2, 9), tokens(20, 21, 22)),
    ]
    found = target.match_prefix(tokens(1, 2, 9, 7))
    assert ([0, 2], 3, [10, 11, 22]) == (existing, found.length, found.slots)
    assert [[12], [22], [11], [10]] == groups(target, 4)


@every_other_tree
def test_another_tree_locks(tree: str, after: str, tmp_path: Path) -> None:
    target = sglang(path=write_other(tmp_path, tree, after=after), tree=tree)
    target.insert(tokens(1, 2, 3), tokens(10, 11, 12))
    node = target.match_prefix(tokens(1, 2)).handle
    deltas = [target.inc_ref(node), target.dec_ref(node)]
    assert ([None, None] if tree == "cpp" else [-2, None]) == deltas
    assert (3, 3, 0) == (target.evictable_size(), target.total_size(), target.protected_size())


@every_other_tree
def test_the_promises_of_another_tree(tree: str, after: str, tmp_path: Path) -> None:
    path = write_other(tmp_path, tree, after=after)
    declared = sglang(path=path, tree=tree, clock=lambda: 0).capabilities
    expected = {
        "clock": "own",
        "resolution_s": declared.resolution_s if tree == "cpp" else 0,
        "deltas": "absent" if tree == "cpp" else "inc-only",
        "duplicates": "caller-frees" if tree == "cpp" else "target-frees",
        "unaligned_insert": "cut",
        "namespaces": "one",
    }
    assert expected == {name: getattr(declared, name) for name in expected}


@every_other_tree
def test_another_tree_has_its_policies(tree: str, after: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"has only lru$" if tree == "cpp" else "only lru, lfu$"):
        sglang(path=write_other(tmp_path, tree, after=after), tree=tree, eviction="mru")


def test_a_unified_tree_keeps_what_is_lent(tmp_path: Path) -> None:
    target = sglang(path=write_other(tmp_path, "unified"), tree="unified")
    target.insert(tokens(1, 2), tokens(10, 11))
    existing = target.insert(tokens(1, 2, 3), tokens(10, 21, 22), owned_from=1)
    assert (2, [[22], [11], [10]]) == (existing, groups(target, 3))


def test_a_unified_tree_that_frees_more_than_duplicates_is_found_out(tmp_path: Path) -> None:
    greedy = "\nUnifiedRadixCache.lookup = property(lambda self: setattr(self, 'surplus', 1))\n"
    target = sglang(path=write_other(tmp_path, "unified", after=greedy), tree="unified")
    with pytest.raises(TypeError):
        target.match_prefix(tokens(1))
    with pytest.raises(RuntimeError, match=r"freed \[10\]; its duplicates are \[\]"):
        target.insert(tokens(1), tokens(10))


def test_an_unlock_too_many_brings_a_receipt_all_the_same(tmp_path: Path) -> None:
    target = sglang(path=write_other(tmp_path, "unified"), tree="unified")
    target.insert(tokens(1), tokens(10))
    node = target.match_prefix(tokens(1)).handle
    with pytest.raises(AssertionError, match="Receipt"):
        target.dec_ref(node)


def test_a_core_that_was_not_asked_for_is_refused(tmp_path: Path) -> None:
    path = write_other(tmp_path, "unified-rust")
    with pytest.raises(ImportError, match=r"falls back on .*unified_tree_core: it wants Linux"):
        sglang(path=path, tree="unified-rust")


@pytest.mark.parametrize(
    ("tree", "without", "message"),
    [
        ("unified-rust", "rust_tree_core/mem_cache.py", "no Rust core for this version of Python"),
        ("cpp", "cpp_radix_tree/tree_v2.cpp", r"leaves out the C\+\+ of this tree"),
        ("unified", "unified_radix_cache.py", "has none of .*unified_radix_cache"),
    ],
)
def test_a_tree_that_lacks_a_part_says_so(
    tree: str, without: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(ImportError, match=message):
        sglang(path=write_other(tmp_path, tree, without=without), tree=tree)


def test_what_is_compiled_is_kept_by_the_content_of_its_folder(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    kept, source = tmp_path / "kept", tmp_path / "source"
    source.mkdir()
    made = []

    def fail(name: str, _sources: object, build_directory: str, **_options: object) -> None:
        made.append(name)
        Path(build_directory, f"{name}.so").write_text("no library")

    for header in ("one", "two", "one"):
        (source / "tree.h").write_text(header)
        with pytest.raises(ImportError):
            load_once(fail, kept, "tree", [str(source / "tree.cpp")], flags=["-O3"])
    assert (2, 2) == (len(made), len(list(kept.iterdir())))


def test_a_compilation_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    pytest.importorskip("torch")

    def fail(_name: str, _sources: object, **_options: object) -> None:
        raise RuntimeError("no compiler")

    with pytest.raises(RuntimeError, match="no compiler"):
        load_once(fail, tmp_path / "kept", "tree", [str(tmp_path / "tree.cpp")])
    assert list((tmp_path / "kept").iterdir()) == []


def test_a_tree_that_cannot_be_compiled_shows_the_telling_line(tmp_path: Path) -> None:
    path = write_other(tmp_path, "cpp")
    loader = tmp_path / MEM_CACHE / "cpp_radix_tree/radix_tree.py"
    loader.write_text("raise RuntimeError('Error building\\nx.cpp:1: error: no\\nninja: stopped')")
    with pytest.raises(ImportError, match=r"takes ninja and g\+\+\): x.cpp:1: error: no$"):
        sglang(path=path, tree="cpp")


def test_a_token_that_cpp_cannot_hold_is_refused_and_never_found(tmp_path: Path) -> None:
    target = sglang(path=write_other(tmp_path, "cpp"), tree="cpp")
    target.insert(tokens(1, 2), tokens(10, 11))
    with pytest.raises(Refused, match="32 bits"):
        target.insert(tokens(1, 2, 2**31), tokens(10, 11, 12))
    assert 2 == target.match_prefix(tokens(1, 2, 2**31, 3)).length


def test_a_type_error_of_cpp_over_something_else_is_its_own(tmp_path: Path) -> None:
    fails = "\ndef fail(*_): raise TypeError('else')\nRadixCacheCpp.lookup = fail\n"
    fails += "Store.add = fail\n"
    target = sglang(path=write_other(tmp_path, "cpp", after=fails), tree="cpp")
    for call in (target.match_prefix, lambda key: target.insert(key, tokens(10))):
        with pytest.raises(TypeError, match="else"):
            call(tokens(1))


def test_an_unknown_tree_is_refused_with_its_choices(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'b-tree': choose one of classic, cpp, unified, unified"):
        sglang(path=write(tmp_path, "newest"), tree="b-tree")


# ------------------------------------------------------------------------------------- releases

FOLDER = os.environ.get("RADIXCHECK_SGLANG_RELEASES", "")


def numbers(release: Path) -> tuple[int, ...]:
    return tuple(map(int, release.name.split(".")[:3]))


def every_release_since(*first: int) -> pytest.MarkDecorator:
    """Run a test once per release from `first` on, or skip it where there is none."""
    found = Path(FOLDER).glob("*/sglang") if FOLDER else ()
    releases = sorted((path.parent for path in found), key=numbers)
    missing = pytest.mark.skip(reason="RADIXCHECK_SGLANG_RELEASES names no folder of releases")
    return pytest.mark.parametrize(
        "release",
        [pytest.param(path, id=path.name) for path in releases if numbers(path) >= first]
        or [pytest.param(None, id="none", marks=missing)],
    )


every_release = every_release_since(0)


class Driven:
    """A release under a clock that moves on before every call, with slots named by the test."""

    def __init__(self, release: Path, **config: Any) -> None:
        self.torch = pytest.importorskip("torch")
        self.now = 0
        self.target = sglang(path=str(release), clock=lambda: self.now, **config)

    def insert(self, key: list[int], slots: list[int]) -> int:
        self.now += 1
        return self.target.insert(tokens(*key), self.torch.tensor(slots, dtype=self.torch.int64))

    def match(self, key: list[int]) -> tuple[list[int], Any]:
        self.now += 1
        found = self.target.match_prefix(tokens(*key))
        slots = list(map(int, found.slots))
        assert found.length == len(slots)
        return slots, found.handle

    def evict(self, num_tokens: int) -> list[list[int]]:
        self.now += 1
        return groups(self.target, num_tokens)


@every_release
def test_a_release_stores_splits_locks_and_evicts(release: Path) -> None:
    cache = Driven(release)
    existing = [cache.insert([1, 2, 3, 4], [1, 2, 3, 4]), cache.insert([1, 2, 5], [8, 8, 5])]
    slots, node = cache.match([1, 2, 5, 6])
    deltas = [cache.target.inc_ref(node), cache.target.evictable_size()]
    victims = [cache.evict(9), cache.target.dec_ref(node), cache.evict(9), cache.match([1])[0]]
    assert [0, 2] == existing
    assert ([1, 2, 5], [-3, 2]) == (slots, deltas)
    assert [[[3, 4]], 3, [[5], [1, 2]], []] == victims


@every_release
def test_a_release_answers_an_empty_key(release: Path) -> None:
    cache = Driven(release)
    assert (0, [], []) == (cache.insert([], []), cache.match([])[0], cache.evict(1))


@every_release
def test_a_full_reinsert_refreshes_from_0_4_6_on(release: Path) -> None:
    """Public bug `sglang-043-reinsert-looks-old`."""
    cache = Driven(release)
    for key in ([1, 2], [7, 8], [1, 2]):
        cache.insert(key, key)
    assert ([[1, 2]] if numbers(release) <= (0, 4, 3) else [[7, 8]]) == cache.evict(1)


@every_release
def test_a_release_takes_an_unlock_too_many(release: Path) -> None:
    """Public bug `sglang-0523-lock-below-zero`: the lock after it protects nothing."""
    cache = Driven(release)
    cache.insert([1, 2, 3], [1, 2, 3])
    _, node = cache.match([1, 2, 3])
    cache.target.dec_ref(node)
    cache.target.inc_ref(node)
    assert [[1, 2, 3]] == cache.evict(3)


@every_release_since(0, 5, 3)
def test_lfu_counts_from_0_5_10_on(release: Path) -> None:
    """Public bug `sglang-18843-hits-frozen`."""
    cache = Driven(release, eviction="lfu")
    for key in [[1, 2]] * 6 + [[7, 8]]:
        cache.insert(key, key)
    assert ([[1, 2]] if numbers(release) < (0, 5, 10) else [[7, 8]]) == cache.evict(1)


@every_release_since(0, 4, 6)
def test_a_release_with_pages_matches_whole_pages(release: Path) -> None:
    cache = Driven(release, page_size=4)
    cache.insert([1, 2, 3, 4, 5, 6, 7, 8], [4, 5, 6, 7, 8, 9, 10, 11])
    lengths = [len(cache.match([1, 2, 3, 4, 5, 6, 7, 8][:end])[0]) for end in (3, 4, 7, 8)]
    assert [0, 4, 4, 8] == lengths


def released(version: str, tree: str) -> Any:
    """One parameter: a release and one of its trees, skipped where it is not there."""
    path = Path(FOLDER) / version
    is_there = bool(FOLDER) and path.is_dir()
    missing = pytest.mark.skipif(not is_there, reason=f"no {version} in RADIXCHECK_SGLANG_RELEASES")
    return pytest.param(path, tree, id=f"{version}-{tree}", marks=missing)


UNIFIED_TREES = [released("0.5.23", "unified"), released("0.5.23", "unified-rust")]
every_other_release = pytest.mark.parametrize(
    ("release", "tree"), [*UNIFIED_TREES, released("0.5.10", "cpp")]
)
every_unified_release = pytest.mark.parametrize(("release", "tree"), UNIFIED_TREES)


@every_other_release
def test_another_tree_of_a_release_stores_splits_locks_and_evicts(release: Path, tree: str) -> None:
    _skip_without_compiler(tree)
    cache = Driven(release, tree=tree)
    existing = [cache.insert([1, 2, 3, 4], [1, 2, 3, 4]), cache.insert([1, 2, 5], [8, 8, 5])]
    slots, node = cache.match([1, 2, 5, 6])
    delta, evictable = cache.target.inc_ref(node), cache.target.evictable_size()
    victims = [cache.evict(9), cache.target.dec_ref(node), cache.evict(9), cache.match([1])[0]]
    assert ([0, 2], [1, 2, 5], 2) == (existing, slots, evictable)
    assert [[[3, 4]], None, [[5], [1, 2]], []] == victims
    assert (None if tree == "cpp" else -3) == delta


def _skip_without_compiler(tree: str) -> None:
    if tree == "cpp" and not (shutil.which("ninja") and shutil.which("g++")):
        pytest.skip("no ninja, or no g++")


@every_unified_release
@pytest.mark.parametrize("policy", ["lru", "mru", "fifo", "filo", "lfu", "slru", "priority"])
def test_a_unified_tree_has_every_policy(release: Path, tree: str, policy: str) -> None:
    cache = Driven(release, tree=tree, eviction=policy)
    for key in ([1, 2], [7, 8], [7, 8]):
        cache.insert(key, key)
    assert ([[7, 8]] if policy in ("mru", "filo") else [[1, 2]]) == cache.evict(1)


@every_unified_release
def test_a_unified_tree_refuses_an_unlock_too_many(release: Path, tree: str) -> None:
    cache = Driven(release, tree=tree)
    cache.insert([1], [1])
    _, node = cache.match([1])
    with pytest.raises((AssertionError, RuntimeError), match="lock_ref=0"):
        cache.target.dec_ref(node)


@pytest.mark.parametrize(("release", "tree"), [released("0.5.10", "cpp")])
def test_the_tree_in_cpp_drops_the_namespace(release: Path, tree: str) -> None:
    """Public bug `sglang-10317-native-no-namespace`."""
    _skip_without_compiler(tree)
    cache = Driven(release, tree=tree)
    cache.insert([1], [1])
    assert 1 == cache.target.match_prefix(tokens(1), ("other",)).length
