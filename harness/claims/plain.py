"""Plain checks of a cache, each a claim about a fresh target that it makes by a few calls.

A check raises `Trouble` where its claim is false, and `Unneeded` where the target does not promise
it. The first thing to see is always whether the adapter or the cache is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable

from radixcheck.capabilities import SILENT
from radixcheck.claims.bench import Bench, Trouble, Unneeded

SIZES = ("evictable_size", "protected_size", "total_size")


# ---- match and insert --------------------------------------------------------------------


def empty_match(bench: Bench) -> None:
    """An empty cache answers length 0, no slots and a handle."""
    length, slots, _ = bench.match(bench.key(2))
    if length or slots:
        seen = f"an empty cache matched {length} tokens with {len(slots)} slots"
        raise Trouble(seen, "adapter", "is a fresh cache built each time the factory is called?")


def empty_handle(bench: Bench) -> None:
    """The handle of an empty match can be locked and unlocked."""
    _need_methods(bench, "inc_ref", "dec_ref")
    handle = bench.match(bench.key(1)).handle
    try:
        bench.lock(handle)
        bench.unlock(handle)
    except Trouble as trouble:
        is_none = " is None, and that" if handle is None else ""
        seen = f"the handle of an empty match{is_none} cannot be locked: {trouble.seen}"
        hint = "answer the root, or let inc_ref and dec_ref do nothing for it"
        raise Trouble(seen, "adapter", hint) from trouble


def insert_counts(bench: Bench) -> None:
    """Insert answers how much was stored before: first nothing, then the whole key."""
    key = bench.key(2)
    slots = bench.pool.take(len(key))
    first, second = bench.insert(key, slots), bench.insert(key, bench.pool.take(len(key)))
    if (first, second) == (len(key), 0):
        seen = f"insert answered {first} for a new key and 0 for a stored one"
        raise Trouble(seen, "adapter", "answer the tokens stored before, not those that are new")
    if first:
        raise Trouble(f"insert of a new key answered {first}, not 0", "cache")
    if second != len(key):
        seen = f"insert of a stored key of {len(key)} tokens answered {second}"
        raise Trouble(seen, "cache", "answer the tokens stored before: all of them")


def match_finds(bench: Bench) -> None:
    """A match finds what was inserted, with the same slots."""
    key = bench.key(3)
    given = bench.store(key)
    length, slots, _ = bench.find(key)
    _same_match(length, slots, given, bench.can.page_size, key)


def _same_match(length: int, slots: list[int], given: list[int], size: int, key: list[int]) -> None:
    seen = f"of {len(given)} stored tokens, a match found {length} with {len(slots)} slots"
    if size > 1 and len(slots) * size == length:
        hint = f"one slot per token: page p is the slots p * {size} to p * {size} + {size - 1}"
        raise Trouble(seen, "adapter", hint)
    if length != len(slots):
        raise Trouble(seen, "adapter", "answer one slot per matched token")
    if length != len(given):
        raise Trouble(seen, "cache", "unless longest_match or page_size is declared wrongly")
    if slots == key:
        seen = "a match answered the tokens as slots"
        raise Trouble(seen, "adapter", "store the slots that insert is given")
    if slots != given:
        seen = f"stored with slots {given}, matched with slots {slots}"
        raise Trouble(seen, "cache", "unless the adapter changes slots on their way in or out")


def match_parts(bench: Bench) -> None:
    """A match ends where the key parts from what is stored."""
    key, other = bench.key(3), bench.key(3, first=1000)
    given = bench.store(key)
    shared = 2 * bench.can.page_size
    length, slots, _ = bench.match(key[:shared] + other)
    if (length, slots) != (shared, given[:shared]):
        seen = f"a key that shares {shared} tokens matched {length}, slots {slots}"
        raise Trouble(seen, "cache", f"right are the slots {given[:shared]}")


def own_state(bench: Bench) -> None:
    """Two caches from the same factory share nothing."""
    key = bench.key(2)
    bench.store(key)
    if length := bench.another().find(key).length:
        seen = f"a second cache matched {length} tokens that only the first one stores"
        raise Trouble(seen, "adapter", "build a new cache in the factory, share no class attribute")


def keeps_copies(bench: Bench) -> None:
    """What was stored stays, although the caller reuses its buffers."""
    if bench.can.arguments != "borrowed":
        raise Unneeded('arguments="given": the caller gives its buffers away')
    key = bench.key(2)
    given = bench.store(key)
    length, slots, _ = bench.find(key)
    if (length, slots) != (len(key), given):
        seen = "what was stored changed when the caller reused its buffers"
        raise Trouble(seen, "adapter", 'copy tokens and slots, or promise arguments="given"')


def whole_pages(bench: Bench) -> None:
    """Only whole pages are stored."""
    size = bench.can.page_size
    if size == 1 or bench.can.unaligned_insert != "cut":
        raise Unneeded("every key fills its pages")
    key = [*bench.key(3)][: 3 * size - 1]
    bench.store(key)
    again, length = bench.insert(key, bench.pool.take(len(key))), bench.find(key).length
    if (again, length) != (2 * size, 2 * size):
        seen = f"of {len(key)} tokens, insert found {again} stored and match {length}"
        hint = f'whole pages of {size} are {2 * size}; or unaligned_insert="caller-aligns"'
        raise Trouble(seen, "capability", hint)


# ---- locks, sizes, evictions -------------------------------------------------------------


def sizes_follow(bench: Bench) -> None:
    """The sizes follow inserts and locks."""
    names = [name for name in SIZES if getattr(bench.can, name) != "absent" and bench.has(name)]
    if not names:
        raise Unneeded("it tells no size: write evictable_size()")
    key = bench.key(2)
    _expect_sizes(bench, names, "in an empty cache", 0, 0)
    bench.store(key)
    _expect_sizes(bench, names, f"after an insert of {len(key)} tokens", len(key), 0)
    if not bench.has("inc_ref", "dec_ref"):
        return
    handle = bench.find(key).handle
    _expect_delta(bench, "inc_ref", bench.lock(handle), -len(key))
    _expect_sizes(bench, names, "when all is locked", 0, len(key))
    _expect_delta(bench, "dec_ref", bench.unlock(handle), len(key))
    _expect_sizes(bench, names, "when all is unlocked again", len(key), 0)


def _expect_sizes(
    bench: Bench, names: Iterable[str], when: str, evictable: int, protected: int
) -> None:
    wanted: dict[str, int] = dict(
        zip(SIZES, (evictable, protected, evictable + protected), strict=True)
    )
    for name in names:
        if (actual := bench.size(name)) != wanted[name]:
            seen = f"{name}() is {actual} {when}, not {wanted[name]}"
            raise Trouble(seen, "cache", "sizes count tokens, not pages or nodes")


def _expect_delta(bench: Bench, name: str, actual: int | None, wanted: int) -> None:
    if name in SILENT[bench.can.deltas] or actual == wanted:
        return
    hint = "the change of the evictable size: below 0 for inc_ref, above for dec_ref"
    raise Trouble(f"{name} answered {actual}, not {wanted}", "adapter", hint)


def locks_protect(bench: Bench) -> None:
    """What is locked is not evicted."""
    _need_methods(bench, "inc_ref", "dec_ref", "evict")
    key = bench.key(2)
    given = bench.store(key)
    handle = bench.find(key).handle
    bench.lock(handle)
    try:
        freed = bench.evict(len(key))
    except Trouble:
        if bench.can.short_evict == "refuses":
            return
        raise
    if freed or bench.find(key).slots != given:
        seen = f"an eviction took {freed or 'something'} although the whole cache was locked"
        raise Trouble(seen, "cache", "unless inc_ref does not reach the handle's node")


def evict_frees(bench: Bench) -> None:
    """An eviction frees exactly the slots that were stored."""
    _need_methods(bench, "evict")
    key = bench.key(2)
    given = bench.store(key)
    freed = bench.evict(len(key))
    if sorted(freed) != sorted(given):
        seen = f"stored were the slots {given}, freed {sorted(freed)}"
        raise Trouble(seen, "cache" if freed else "adapter", "answer every freed slot, each once")
    if length := bench.find(key).length:
        seen = f"{length} evicted tokens still match"
        raise Trouble(seen, "cache", "a hit on them serves the KV of another context")


# ---- the rest ----------------------------------------------------------------------------


def namespaces_part(bench: Bench) -> None:
    """What one namespace stores, another does not match."""
    if bench.can.namespaces == "absent":
        raise Unneeded("it has no namespaces")
    key, ours = bench.key(2), ("one",)
    bench.another().store(key)  # what is refused here too, is not refused for its namespace
    try:
        bench.store(key, ours)
    except (Trouble, Unneeded) as trouble:
        hint = "take namespaces, or do not promise them"
        raise Trouble(str(trouble), "capability", hint) from trouble
    for other in (("two",), ()):
        if length := bench.find(key, other).length:
            seen = f"{length} tokens stored under {ours} matched under {other}"
            raise Trouble(seen, "adapter", "make the namespace a part of the key")
    if (length := bench.find(key, ours).length) != len(key):
        raise Trouble(f"under {ours}, {length} of {len(key)} tokens were found again", "cache")


def reset_forgets(bench: Bench) -> None:
    """A reset forgets everything."""
    if bench.can.reset == "absent":
        raise Unneeded("it has no reset")
    key = bench.key(2)
    bench.store(key)
    bench.reset()
    if length := bench.find(key).length:
        raise Trouble(f"{length} tokens still match after a reset", "cache")


def disabled_stores_nothing(bench: Bench) -> None:
    """A disabled cache stores nothing."""
    if bench.can.disable == "absent":
        raise Unneeded("it cannot be disabled")
    off = Bench(bench.source, {**bench.config, "disable": True})
    key = off.key(2)
    off.store(key)
    if length := off.find(key).length:
        seen = f"opened with disable=True, it matched {length} tokens"
        raise Trouble(seen, "adapter", "pass disable on to the cache")


def _need_methods(bench: Bench, *methods: str) -> None:
    if missing := [name for name in methods if not bench.has(name)]:
        raise Unneeded(f"there is no {' and no '.join(missing)}")
