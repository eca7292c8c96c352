"""How SGLang's scheduler calls its caches: the classic tree of 0.4.6 to 0.5.23 by all that it does,
other trees and releases as far as calls go.

What differs between releases is told by what arguments and answers have::

    match_prefix   a key, or parameters with a key; answers slots and a node, or a length and a node
    insert         a key and slots, or parameters with both; answers a length, or a result with one
    evict          a number, or parameters with one; the slots go to the allocator
    inc_lock_ref   a node; answers a change, or a result with one (a unified tree: no change)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

from msgspec.structs import replace

from radixcheck.capabilities import CHOICES, Capabilities
from radixcheck.live.calls import Call, Given, Keep, Manner, noting
from radixcheck.live.nodes import Node
from radixcheck.live.requests import Heard
from radixcheck.targets.sglang import eras
from radixcheck.trace import Config

CLASSIC, UNIFIED = "RadixCache", "UnifiedRadixCache"
"""Classes whose every answer is known well enough to be judged."""

LOCKS = ("inc_lock_ref", "dec_lock_ref")


def is_sglang(cache: Any) -> bool:
    """Tell whether `cache` is of SGLang's family, by its methods."""
    return all(hasattr(cache, name) for name in ("match_prefix", *LOCKS))


def manner_of_sglang(cache: Any) -> Manner:
    """Describe one of SGLang's caches."""
    classic = type(cache).__name__ == CLASSIC and hasattr(cache, "root_node")
    known = classic or _is_plain_unified(cache)
    allocator = getattr(cache, "token_to_kv_pool_allocator", None)
    return Manner(
        calls=partial(_calls, cache),
        capabilities=_promises(cache) if known else Capabilities(page_size=_page_size(cache)),
        config=_config(cache),
        walk=(lambda: walked(cache)) if classic else None,
        key_of=_key_of if classic else None,
        pool=allocator,
        frees={name: runs for name, runs in FREES.items() if hasattr(allocator, name)},
        allocs=tuple(name for name in ALLOCS if hasattr(allocator, name)),
        unwatched=_unwatched(cache, known, allocator),
        requests=_requests(cache) if known else (),
    )


def _calls(cache: Any, keep: Keep) -> dict[str, Call]:
    """Say how each method is noted."""
    names = {"inc_ref": LOCKS[0], "dec_ref": LOCKS[1]}
    if not hasattr(cache, "insert"):
        names["insert"] = "_insert"  # the tree in C++
    calls = {kind: Call(names.get(kind, kind), *pair) for kind, pair in READERS.items()}
    slots_of = getattr(cache, "path_device_indices", None)
    noted = noting(calls, keep) if slots_of is None else calls | _quick_calls(slots_of, keep)
    return {kind: call for kind, call in noted.items() if hasattr(cache, call.method)}


def _quick_calls(slots_of: Callable[[Any], Any], keep: Keep) -> dict[str, Call]:
    """Say how 0.5.23 is noted, whose match answers a node, and no slots: they are asked for if
    somebody wants them."""
    last = b""

    def asked(params: Any) -> tuple[Any, ...]:
        nonlocal last
        key = params.key
        if key.limit is None and not key.is_bigram and key.cache_salt is None:
            tokens = key.token_ids.tobytes()
            if tokens == last:  # what is inserted is matched next: keep one copy
                return last, key.extra_key
            last = tokens
            return tokens, key.extra_key
        some, namespace = _key(key)
        return some[:], namespace

    def matched(found: Any) -> tuple[Any, ...]:
        node = found.last_device_node
        return found.device_prefix_len, slots_of(node), node

    def inserted(params: Any) -> tuple[Any, ...]:
        tokens, namespace = asked(params)
        return tokens, keep(params.value), namespace, params.priority, params.prev_prefix_len

    def seen(kind: str, params: Any, answer: Any) -> tuple[Any, ...]:
        """Make the whole note at once: every call of a function is felt here."""
        nonlocal last
        if kind == "evict":
            return kind, params.num_tokens
        key = params.key
        if key.limit is None and not key.is_bigram and key.cache_salt is None:
            tokens, namespace = key.token_ids.tobytes(), key.extra_key
            if tokens == last:
                tokens = last
            else:
                last = tokens
        else:
            tokens, namespace = asked(params)
        if kind == "insert":
            priority, owned_from = params.priority, params.prev_prefix_len
            return kind, tokens, namespace, priority, owned_from, answer.prefix_len
        return kind, tokens, namespace, answer.device_prefix_len, answer.last_device_node

    return {
        "match_prefix": Call("match_prefix", asked, matched, seen),
        "insert": Call("insert", inserted, _existing, seen),
        "evict": Call("evict", _evicted, None, seen),
    }


def _is_plain_unified(cache: Any) -> bool:
    """Tell whether a cache is a unified tree for full attention alone, on one tier."""
    components = [getattr(each, "name", "") for each in getattr(cache, "tree_components", ())]
    return type(cache).__name__ == UNIFIED and components == ["FULL"]


def _unwatched(cache: Any, known: bool, allocator: Any) -> str:
    if not known:
        return f"what a {type(cache).__name__} answers is not known well enough to be judged"
    if allocator is None or not hasattr(allocator, "free") or not hasattr(cache, "page_size"):
        return "it gives what it evicts to its caller alone, or to nobody"
    if getattr(cache, "is_eagle", False) or getattr(cache, "disable", False):
        return "its keys are pairs of tokens, or it stores nothing"
    return ""


# ---------------------------------------------------------------------------- what calls say


def _key(key: Any) -> tuple[Any, Any]:
    """Read the tokens of a key and its namespace, whatever the release makes keys of."""
    tokens = getattr(key, "token_ids", key)
    if (limit := getattr(key, "limit", None)) is not None:
        tokens = tokens[:limit]
    if getattr(key, "is_bigram", False) and not (len(tokens) and isinstance(tokens[0], tuple)):
        tokens = list(pairwise(tokens))
    return tokens, _namespace(key)


def _namespace(key: Any) -> Any:
    """Read the namespace of a key: a release has none, or one name, or a salt beside it."""
    name, salt = getattr(key, "extra_key", None), getattr(key, "cache_salt", None)
    return name if salt is None else f"{name!r} {salt!r}"


def _asked(params: Any = None, *, key: Any = None, **_: Any) -> tuple[Any, ...]:
    """Read what is matched: parameters with a key, or the key alone."""
    given = key if params is None else params
    return _key(getattr(given, "key", given))


def _inserted(
    params: Any = None,
    value: Any = None,
    chunked: Any = False,
    priority: Any = 0,
    *,
    key: Any = None,
    **_: Any,
) -> tuple[Any, ...]:
    """Read what is inserted: parameters, or a key and its slots; without slots, tokens are."""
    given = key if params is None else params
    tokens, namespace = _key(getattr(given, "key", given))
    slots = getattr(given, "value", value)
    slots = tokens if slots is None else slots
    priority = getattr(given, "priority", priority) or 0
    return tokens, slots, namespace, priority, getattr(given, "prev_prefix_len", 0)


def _evicted(params: Any = None, *_: Any, num_tokens: int = 0, **__: Any) -> tuple[Any, ...]:
    return (num_tokens if params is None else getattr(params, "num_tokens", params),)


def _nothing(*_: Any, **__: Any) -> tuple[Any, ...]:
    return ()


def _matched(found: Any) -> tuple[Any, ...]:
    if hasattr(found, "device_prefix_len"):
        return found.device_prefix_len, None, found.last_device_node
    return len(found[0]), found[0], found[1]


def _existing(answer: Any) -> Any:
    return getattr(answer, "prefix_len", answer)


def _change(answer: Any) -> Any:
    return getattr(answer, "delta", answer)


READERS: dict[str, tuple[Any, Any]] = {
    "match_prefix": (_asked, _matched),
    "insert": (_inserted, _existing),
    "evict": (_evicted, None),
    "inc_ref": (None, _change),
    "dec_ref": (None, _change),
    "reset": (_nothing, None),
}
"""What is read of the arguments and of the answer, by the method of the protocol."""

FREES: dict[str, Any] = {
    "free": lambda free_index, *_, **__: (free_index,),
    "free_segment": lambda free_index, *_, **__: (free_index,),
    "free_segments": lambda segments, *_, **__: tuple(run for run, _start in segments),
}
ALLOCS = ("alloc", "alloc_extend", "alloc_decode")


# ---------------------------------------------------------------------------------- requests


def _requests(cache: Any) -> tuple[tuple[str, str, Given], ...]:
    """Say by which methods a cache does the bookkeeping of requests.

    ::

        0.2.15 to 0.5.10   cache_unfinished_req, cache_finished_req
        0.5.23             checkpoint, on_release
    """

    def own_row(req: Any, computed: int) -> Callable[[], Any]:
        """What lies before is the tree's, and locked."""
        table, start = cache.req_to_token_pool.req_to_token, _protected(req)
        return lambda: table[getattr(req, "kv", req).req_pool_idx, start:computed]

    def unfinished(req: Any, *_: Any, **__: Any) -> tuple[Any, ...]:
        tokens = req.fill_ids
        return _heard(req, tokens, len(tokens)), own_row(req, len(tokens))

    def finished(req: Any, is_insert: Any = True, **_: Any) -> tuple[Any, ...]:
        tokens = [*req.origin_input_ids, *req.output_ids]
        computed = getattr(req, "kv_committed_len", len(tokens) - 1)
        stored = is_insert is not False
        return _heard(req, tokens, computed, stored), own_row(req, computed)

    def checkpointed(req: Any, *_: Any, up_to: int, **__: Any) -> tuple[Any, ...]:
        return _heard(req, req.full_untruncated_fill_ids[:up_to], up_to), own_row(req, up_to)

    def released(req: Any, *_: Any, checkpointed: bool = True, **__: Any) -> tuple[Any, ...]:
        computed = req.kv.kv_committed_len
        tokens = req.full_untruncated_fill_ids[:computed]
        return _heard(req, tokens, computed, checkpointed), own_row(req, computed)

    known = (
        ("publish", "cache_unfinished_req", unfinished),
        ("end", "cache_finished_req", finished),
        ("publish", "checkpoint", checkpointed),
        ("end", "on_release", released),
    )
    return tuple(each for each in known if hasattr(cache, each[1]))


def _protected(req: Any) -> int:
    """Count the tokens whose slots are the tree's. Before 0.5.6 no number says so; the row may be
    longer than that by a part of a page."""
    told = getattr(getattr(req, "kv", req), "cache_protected_len", None)
    return len(getattr(req, "prefix_indices", ())) if told is None else int(told)


def _heard(req: Any, tokens: Any, computed: int, stored: bool = True) -> Heard:
    lock = getattr(req, "lock", None)
    node = getattr(lock, "node", None) or getattr(req, "last_node", None)
    prompt = len(req.origin_input_ids)
    named = _namespace(req)
    return Heard(req, tokens[:], prompt, int(computed), _protected(req), named, node, stored)


# ------------------------------------------------------------------------------ what is stored


def walked(cache: Any) -> Iterator[Node]:
    """List the nodes of a classic tree, parents first. Nothing is asked of a device."""
    stack: list[tuple[Any, int | None]] = [(node, None) for node in _below(cache.root_node)]
    place = 0
    while stack:
        node, parent = stack.pop()
        below = _below(node)
        locks = node.lock_ref - sum(child.lock_ref for child in below)
        key = node.key
        yield Node(
            getattr(key, "token_ids", key),
            parent,
            ((node, locks),) if locks > 0 else (),
            node.last_access_time,
            _namespace(key),
            node.value,
            getattr(node, "priority", 0),
        )
        stack.extend((child, place) for child in below)
        place += 1


def _below(node: Any) -> list[Any]:
    return [child for child in node.children.values() if child.value is not None]


def _key_of(node: Any) -> tuple[Any, Any] | None:
    """Read the whole key of a node off the way up; the root's is empty."""
    runs, namespace = [], None
    while getattr(node, "parent", None) is not None:
        runs.append(list(getattr(node.key, "token_ids", node.key)))
        namespace, node = _namespace(node.key), node.parent
    return [token for run in reversed(runs) for token in run], namespace


# ------------------------------------------------------------------------------ what it promises


def _page_size(cache: Any) -> int:
    return int(getattr(cache, "page_size", 1))


def _config(cache: Any) -> Config:
    config: Config = {"page_size": _page_size(cache)}
    if policy := _policy(cache):
        config["eviction"] = policy
    if getattr(cache, "disable", False) is True:
        config["disable"] = True
    return config


def _policy(cache: Any) -> str:
    """Name the order of evictions; empty where nobody says."""
    told = getattr(cache, "eviction_policy", None)
    if isinstance(told, str):
        return told.lower()
    strategy = getattr(getattr(cache, "tree_core", cache), "eviction_strategy", None)
    name = type(strategy).__name__.removesuffix("Strategy").lower()
    return name if name in CHOICES["eviction"] else ""


def _promises(cache: Any) -> Capabilities:
    """Declare what the tree of this release does, as the target `sglang` declares it."""
    tree: Any = SimpleNamespace(**type(cache).match_prefix.__globals__)
    policy = _policy(cache) or "unspecified"
    can = eras.promises(tree, cache, _page_size(cache), policy, own_clock=True)
    told = "present" if type(cache).__name__ == CLASSIC else "absent"  # others count differently
    return replace(can, total_size="absent", disable="absent", slots_as="list", deltas=told)
