"""How releases differ in what their tree is told and what it answers, seen by what a release has.

No version number is looked at. What is new, and the first release tried that has it::

    0.1.3    keys are tuples, under which the tree files its children; locks are `inc_ref_counter`;
             a match is (slots, node); evict calls back with each victim's slots and adds up the
             answers
    0.1.10   `reset`
    0.1.16   keys are any sequence; locks are `inc_lock_ref`; the constructor takes pools
    0.4.3    `protected_size`
    0.4.6    `page_size`; a victim's slots go to the allocator
    0.5.3    `RadixKey`, which is tokens and one string or None; `eviction_policy`
    0.5.6    `CacheInitParams`; priorities
    0.5.8    `MatchPrefixParams`; from 0.5.9 also `InsertParams`, `InsertResult`, `EvictParams`
    0.5.10   `IncLockRefResult`; lfu and slru count inserts (their counts stood still before)
    0.5.23   a match is a length and a node, whose slots are asked for; slots go back as segments;
             insert drops the tail that fills no page

The trees beside the classic one (`trees`) differ in more::

    cpp        its insert has an underscore; tokens have 32 bits; locks answer nothing; whatever
               policy it is told, it is lru; nodes are stamped by C++
    unified    it frees duplicates itself; a lock answers a receipt, which the unlock must bring,
               and counts what it protects instead; the total size is a pair; nodes are stamped by a
               counter

Slots are handed on as they come, and so are tokens wherever a release takes them: a copy would
hide that a tree keeps them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from inspect import signature
from types import ModuleType, SimpleNamespace
from typing import Any, Literal, Protocol, TypeAlias

from radixcheck.capabilities import CHOICES, Capabilities, Deltas
from radixcheck.protocol import Handle, Match, Refused, Slots

Cache: TypeAlias = Any
"""One of SGLang's caches, called as `CACHES`."""

Key: TypeAlias = Any
"""What a release takes for a key."""

Locker: TypeAlias = Callable[[Handle], int | None]

CACHES = ("RadixCache", "UnifiedRadixCache", "RadixCacheCpp")
"""What trees are called in their modules."""

_ENGINE = SimpleNamespace(hicache_write_policy="write_back", enable_hierarchical_cache=False)
"""What a tree in C++ wants to know of its engine: there is no second tier."""

_INT32 = range(-(2**31), 2**31)
_LOCKS = (("inc_lock_ref", "dec_lock_ref"), ("inc_ref_counter", "dec_ref_counter"))
_COUNTING_POLICIES = ("lfu", "slru")
_POLICIES_WITH_A_SECOND_KEY = ("lfu", "slru", "priority")


class TakesBack(Protocol):
    """What a tree wants of the owner of all slots."""

    device: str

    def free(self, slots: Slots) -> int:
        """Take the slots of one victim; answer how many, which the first releases add up."""
        ...

    def free_segment(self, slots: Slots, start_pos: int = 0) -> None:
        """Take the slots of one victim, whose first is at `start_pos` of some key."""
        ...


class Allocator:
    """Stands in for the pool of slots, and only remembers what it gets back: a victim a call."""

    device = "cpu"

    def __init__(self) -> None:
        self._groups: list[Slots] = []

    def free(self, slots: Slots) -> int:
        """Take the slots of one victim; answer how many."""
        self._groups.append(slots)
        return len(slots)

    def free_segment(self, slots: Slots, start_pos: int = 0) -> None:
        """Take the slots of one victim."""
        self._groups.append(slots)

    def take(self) -> list[Slots]:
        """Hand over the groups that came since the last call."""
        groups, self._groups = self._groups, []
        return groups

    def get_kvcache(self) -> None:
        """Answer the buffer that the slots belong to: there is none."""


def build(tree: ModuleType, settings: Mapping[str, Any], allocator: TakesBack) -> Cache:
    """Build a cache; of the pools and `settings` its constructor gets what it knows."""
    pools: dict[str, Any] = {
        "req_to_token_pool": None,
        "token_to_kv_pool": allocator,
        "token_to_kv_pool_allocator": allocator,
    }
    if hasattr(tree, "ComponentType"):
        pools["tree_components"] = (tree.ComponentType.FULL,)
    known, kind = constructor_arguments(tree), cache_class(tree)
    chosen = {name: value for name, value in {**pools, **settings}.items() if name in known}
    if not hasattr(tree, "CacheInitParams"):
        return kind(**chosen)
    engine = [_ENGINE] if "server_args" in signature(kind).parameters else []
    return kind(tree.CacheInitParams(**chosen), *engine)


def cache_class(tree: ModuleType) -> Callable[..., Cache]:
    """Find the class of the caches in the module of a tree."""
    found: Callable[..., Cache] = next(vars(tree)[name] for name in CACHES if name in vars(tree))
    return found


def core_of(cache: Cache) -> str:
    """Name the module of a cache's core; empty if it has no choice of cores."""
    core = getattr(cache, "tree_core", None)
    return "" if core is None else type(core).__module__


def constructor_arguments(tree: ModuleType) -> frozenset[str]:
    """Name all that can be said about a new cache."""
    described = getattr(tree, "CacheInitParams", None) or cache_class(tree)
    return frozenset(signature(described).parameters)


def policies(tree: ModuleType, strategies: Collection[str]) -> tuple[str, ...]:
    """Name the policies of a release whose strategies have these class names (`MRUStrategy`)."""
    if _is_cpp(tree) or "eviction_policy" not in constructor_arguments(tree):
        return ("lru",)
    offered = {name.removesuffix("Strategy").lower() for name in strategies}
    return tuple(policy for policy in CHOICES["eviction"] if policy in offered)


def key_maker(tree: ModuleType) -> Callable[[Sequence[int], tuple[str, ...]], Key]:
    """Return the function from tokens and a namespace to a key.

    The namespace ``()`` is None and ``("",)`` is the empty string, which all trees tell apart.
    """
    if hasattr(tree, "RadixKey"):
        radix_key = tree.RadixKey
        return lambda tokens, namespace: radix_key(tokens, namespace[0] if namespace else None)
    if hasattr(tree.TreeNode(), "key"):
        return lambda tokens, _namespace: tokens
    return lambda tokens, _namespace: tuple(tokens)


def matcher(tree: ModuleType, cache: Cache) -> Callable[[Key], Match]:
    """Return the function from a key to its match."""
    find, ask = cache.match_prefix, getattr(tree, "MatchPrefixParams", _as_it_is)
    if _is_cpp(tree):
        find = _narrow_finder(find)
    if not hasattr(cache, "path_device_indices"):

        def match_with_slots(key: Key) -> Match:
            found = find(ask(key))
            slots = found[0]
            return Match(len(slots), slots, found[1])

        return match_with_slots

    slots_of = cache.path_device_indices

    def match_with_length(key: Key) -> Match:
        found = find(ask(key))
        node = found.last_device_node
        return Match(found.device_prefix_len, slots_of(node), node)

    return match_with_length


def _narrow_finder(find: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Look for a key only up to a token that no key in C++ can hold: nothing is stored beyond."""

    def find_what_fits(asked: Any) -> Any:
        try:
            return find(asked)
        except TypeError:
            key = getattr(asked, "key", asked)
            key.token_ids = key.token_ids[: _fitting(key.token_ids)]
            return find(asked)

    return find_what_fits


def _fitting(tokens: Sequence[int]) -> int:
    """Count the tokens before the first that 32 bits cannot hold."""
    return next((at for at, token in enumerate(tokens) if token not in _INT32), len(tokens))


Inserter: TypeAlias = Callable[[Key, Slots, int, int], int]


def inserter(tree: ModuleType, cache: Cache, allocator: Allocator) -> Inserter:
    """Return the function from a key, its slots, its priority and the number of slots that are lent
    to the length stored before."""
    if _is_cpp(tree):
        return _narrow_inserter(cache._insert)
    store = cache.insert
    if _is_unified(cache):
        return _freeing_inserter(tree.InsertParams, store, allocator)
    if hasattr(tree, "InsertParams"):
        ask = tree.InsertParams
        return lambda key, slots, priority, _lent: (
            store(ask(key=key, value=slots, priority=priority)).prefix_len
        )
    if takes_priorities(tree, cache):
        return lambda key, slots, priority, _lent: store(key, slots, priority=priority)
    return lambda key, slots, _priority, _lent: store(key, slots)


def _freeing_inserter(
    ask: Callable[..., Any], store: Callable[..., Any], allocator: Allocator
) -> Inserter:
    """Insert into a tree that frees duplicates, and hold it to freeing exactly those: radixcheck
    does not see what comes back in an insert."""

    def insert(key: Key, slots: Slots, priority: int, lent: int) -> int:
        known = ask(key=key, value=slots, priority=priority, prev_prefix_len=lent)
        existing: int = store(known).prefix_len
        freed = [slot for group in allocator.take() for slot in group.tolist()]
        duplicates = slots[lent:existing].tolist()
        if freed != duplicates:
            raise RuntimeError(f"the insert freed {freed}; its duplicates are {duplicates}")
        return existing

    return insert


def _narrow_inserter(store: Callable[[Key, Slots], int]) -> Inserter:
    """Call it a refusal that no token of more than 32 bits can be stored."""

    def insert(key: Key, slots: Slots, _priority: int, _lent: int) -> int:
        try:
            return store(key, slots)
        except TypeError:
            if _fitting(key.token_ids) == len(key.token_ids):
                raise
            raise Refused("a token has more than 32 bits") from None

    return insert


def _is_unified(cache: Cache) -> bool:
    return bool(core_of(cache))


def takes_priorities(tree: ModuleType, cache: Cache) -> bool:
    """Whether an insert can carry a priority."""
    described = getattr(tree, "InsertParams", None) or getattr(cache, "insert", None)
    return described is not None and "priority" in signature(described).parameters


def evicter(tree: ModuleType, cache: Cache, allocator: TakesBack) -> Callable[[int], object]:
    """Return the function that evicts a number of tokens; their slots are in `allocator` then."""
    evict, ask = cache.evict, getattr(tree, "EvictParams", _as_it_is)
    if "evict_callback" in signature(evict).parameters:
        return _refusing_if_disabled(cache, lambda tokens: evict(tokens, allocator.free))
    return lambda tokens: evict(ask(tokens))


def _refusing_if_disabled(cache: Cache, evict: Callable[[int], object]) -> Callable[[int], object]:
    """Call it a refusal that the first releases raise an error where nothing is ever stored."""
    if not cache.disable:
        return evict

    def evict_or_refuse(tokens: int) -> object:
        try:
            return evict(tokens)
        except RuntimeError:
            raise Refused("the cache is disabled") from None

    return evict_or_refuse


def lockers(tree: ModuleType, cache: Cache) -> tuple[Locker, Locker]:
    """Return the functions that lock and unlock a node, and answer the change in tokens."""
    names = next((names for names in _LOCKS if hasattr(cache, names[0])), _LOCKS[0])
    lock, unlock = (getattr(cache, name) for name in names)
    if _is_unified(cache):
        return _lockers_with_receipts(tree.IncLockRefResult, lock, unlock)
    if not hasattr(tree, "IncLockRefResult"):
        return lock, unlock
    return (lambda node: lock(node).delta), (lambda node: unlock(node).delta)


def _lockers_with_receipts(
    result: Callable[..., Any], lock: Callable[..., Any], unlock: Callable[..., Any]
) -> tuple[Locker, Locker]:
    """Keep the receipt of each node: with one component, all that a node ever gets are equal.

    An unlock that no lock came before brings the receipt that the lock would have got.
    """
    receipts: dict[Handle, Any] = {}

    def lock_node(node: Handle) -> int | None:
        taken = lock(node)
        receipts[node] = taken.to_dec_params()
        return None if taken.delta is None else -taken.delta

    def unlock_node(node: Handle) -> int | None:
        receipt = receipts.get(node) or result(node_id=node).to_dec_params()
        delta: int | None = unlock(node, receipt).delta
        return delta

    return lock_node, unlock_node


def total_size(cache: Cache) -> Callable[[], int]:
    """Return the function that counts what is stored; a unified tree counts each tier apart."""
    if _is_unified(cache):
        return lambda: cache.total_size()[0]
    return cache.total_size  # type: ignore[no-any-return]  # SGLang's


def promises(
    tree: ModuleType, cache: Cache, page_size: int, eviction: str, own_clock: bool
) -> Capabilities:
    """Declare what a cache does, or says that it does: a policy that counts hits counts inserts."""
    own_clock = own_clock or not hasattr(tree, "TreeNode")
    strategy = getattr(getattr(cache, "tree_core", cache), "eviction_strategy", None)
    return Capabilities(
        page_size=page_size,
        eviction=eviction,  # type: ignore[arg-type]  # one of `policies`
        tie_break="lru" if eviction in _POLICIES_WITH_A_SECOND_KEY else "any",
        hits="inserts" if eviction in _COUNTING_POLICIES else "any",
        slru_threshold=getattr(strategy, "protected_threshold", 2),
        unaligned_insert="cut" if _aligns_keys(tree) else "caller-aligns",
        duplicates="target-frees" if _is_unified(cache) else "caller-frees",
        clock="own" if own_clock else "injected",
        resolution_s=_resolution_s(tree) if own_clock else None,
        slots_as="torch",
        namespaces="one" if hasattr(tree, "RadixKey") else "absent",
        priorities=_presence(takes_priorities(tree, cache)),
        deltas=_deltas(tree, cache),
        protected_size=_presence(hasattr(cache, "protected_size")),
        total_size="walked",
        reset=_presence(hasattr(cache, "reset")),
        disable="present",
    )


def _presence(is_there: bool) -> Literal["present", "absent"]:
    return "present" if is_there else "absent"


def _deltas(tree: ModuleType, cache: Cache) -> Deltas:
    if _is_cpp(tree):
        return "absent"
    return "inc-only" if _is_unified(cache) else "present"


def _is_cpp(tree: ModuleType) -> bool:
    return hasattr(tree, "TreeNodeCpp")


def _aligns_keys(tree: ModuleType) -> bool:
    return _is_cpp(tree) or hasattr(getattr(tree, "RadixKey", None), "page_aligned")


def _resolution_s(tree: ModuleType) -> float | None:
    """Resolution of the clock that stamps nodes, in seconds: 0 for a counter, and None for a clock
    that may be set back."""
    if hasattr(tree, "UnifiedTreeNode"):
        return 0
    if not _is_cpp(tree) and "monotonic" not in tree.TreeNode.__init__.__code__.co_names:
        return None
    return max(time.get_clock_info("monotonic").resolution, math.ulp(time.monotonic()))


def _as_it_is(value: Any) -> Any:
    return value
