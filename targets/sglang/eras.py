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

Slots are handed on as they come, and so are tokens wherever a release takes them: a copy would
hide that a tree keeps them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from inspect import signature
from types import ModuleType
from typing import Any, Literal, Protocol, TypeAlias

from radixcheck.capabilities import CHOICES, Capabilities
from radixcheck.protocol import Handle, Match, Refused, Slots

Cache: TypeAlias = Any
"""SGLang's `RadixCache`."""

Key: TypeAlias = Any
"""What a release takes for a key."""

Locker: TypeAlias = Callable[[Handle], int | None]

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


def build(tree: ModuleType, settings: Mapping[str, Any], allocator: TakesBack) -> Cache:
    """Build a cache; of the pools and `settings` its constructor gets what it knows."""
    pools = {
        "req_to_token_pool": None,
        "token_to_kv_pool": allocator,
        "token_to_kv_pool_allocator": allocator,
    }
    known = constructor_arguments(tree)
    chosen = {name: value for name, value in {**pools, **settings}.items() if name in known}
    if hasattr(tree, "CacheInitParams"):
        return tree.RadixCache(tree.CacheInitParams(**chosen))
    return tree.RadixCache(**chosen)


def constructor_arguments(tree: ModuleType) -> frozenset[str]:
    """Name all that can be said about a new cache."""
    return frozenset(signature(getattr(tree, "CacheInitParams", tree.RadixCache)).parameters)


def policies(constructor_arguments: Collection[str], strategies: Iterable[str]) -> tuple[str, ...]:
    """Name the policies of a release whose strategies have these class names (`MRUStrategy`)."""
    if "eviction_policy" not in constructor_arguments:
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


def inserter(tree: ModuleType, cache: Cache) -> Callable[[Key, Slots, int], int]:
    """Return the function from a key, its slots and its priority to the length stored before."""
    store = cache.insert
    if hasattr(tree, "InsertParams"):
        ask = tree.InsertParams
        return lambda key, slots, priority: (
            store(ask(key=key, value=slots, priority=priority)).prefix_len
        )
    if takes_priorities(tree, cache):
        return lambda key, slots, priority: store(key, slots, priority=priority)
    return lambda key, slots, _priority: store(key, slots)


def takes_priorities(tree: ModuleType, cache: Cache) -> bool:
    """Whether an insert can carry a priority."""
    return "priority" in signature(getattr(tree, "InsertParams", cache.insert)).parameters


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
    if not hasattr(tree, "IncLockRefResult"):
        return lock, unlock
    return (lambda node: lock(node).delta), (lambda node: unlock(node).delta)


def promises(
    tree: ModuleType, cache: Cache, page_size: int, eviction: str, own_clock: bool
) -> Capabilities:
    """Declare what a cache does, or says that it does: a policy that counts hits counts inserts."""
    strategy = getattr(cache, "eviction_strategy", None)
    return Capabilities(
        page_size=page_size,
        eviction=eviction,  # type: ignore[arg-type]  # one of `policies`
        tie_break="lru" if eviction in _POLICIES_WITH_A_SECOND_KEY else "any",
        hits="inserts" if eviction in _COUNTING_POLICIES else "any",
        slru_threshold=getattr(strategy, "protected_threshold", 2),
        unaligned_insert="cut" if _aligns_keys(tree) else "caller-aligns",
        clock="own" if own_clock else "injected",
        resolution_s=_resolution_s(tree) if own_clock else None,
        slots_as="torch",
        namespaces="one" if hasattr(tree, "RadixKey") else "absent",
        priorities=_presence(takes_priorities(tree, cache)),
        deltas="present",
        protected_size=_presence(hasattr(cache, "protected_size")),
        total_size="walked",
        reset=_presence(hasattr(cache, "reset")),
        disable="present",
    )


def _presence(is_there: bool) -> Literal["present", "absent"]:
    return "present" if is_there else "absent"


def _aligns_keys(tree: ModuleType) -> bool:
    return hasattr(getattr(tree, "RadixKey", None), "page_aligned")


def _resolution_s(tree: ModuleType) -> float | None:
    """Resolution of the clock that stamps nodes, in seconds; None for one that may be set back."""
    if "monotonic" not in tree.TreeNode.__init__.__code__.co_names:
        return None
    return max(time.get_clock_info("monotonic").resolution, math.ulp(time.monotonic()))


def _as_it_is(value: Any) -> Any:
    return value
