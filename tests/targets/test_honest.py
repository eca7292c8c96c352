"""The honest near-misses are honest: each is played against a table, and walked through.

The table knows nothing of trees: it maps each stored prefix to the slots of its last page. It
shares no code with the model of radixcheck, so that the two can be wrong only independently.
"""

from __future__ import annotations

import random
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from radixcheck.buffers import make_slots
from radixcheck.protocol import Evicted, Factory, Match, Refused
from radixcheck.targets import honest
from radixcheck.targets.honest import HONEST
from radixcheck.targets.radix import Radix
from radixcheck.targets.radix_paged import POLICIES, RadixPaged

TARGETS: dict[str, Factory] = {"radix": Radix, "radix-paged": RadixPaged, **HONEST}

POOL = 4000
"""Slots that the table hands out and wants back."""

Prefix = tuple[tuple[str, ...], tuple[int, ...]]


def ints(slots: Any) -> list[int]:
    """Read an answer of any type."""
    return [int(slot) for slot in slots]


@dataclass
class Held:
    """A handle, the prefix that it means, and its locks."""

    handle: Any
    prefix: Prefix
    locks: int = 0


@dataclass
class Table:
    """A target, and beside it a dictionary of what it should store; each answer is compared."""

    target: Any
    stored: dict[Prefix, list[tuple[int, ...]]] = field(default_factory=dict)
    touched: dict[Prefix, int] = field(default_factory=dict)
    handles: list[Held] = field(default_factory=list)
    free: list[int] = field(default_factory=lambda: list(range(POOL, 0, -1)))
    step: int = 0

    def __post_init__(self) -> None:
        self.can = self.target.capabilities
        self.page = self.can.page_size

    def longest(self, key: Sequence[int], namespace: tuple[str, ...]) -> int:
        """Return the length of the longest stored prefix."""
        length = 0
        while (
            length + self.page <= len(key)
            and (namespace, tuple(key[: length + self.page])) in self.stored
        ):
            length += self.page
        return length

    def pages(self, prefix: Prefix) -> list[Prefix]:
        """Return `prefix` and all that it is an extension of."""
        namespace, tokens = prefix
        ends = range(self.page, len(tokens) + 1, self.page)
        return [(namespace, tokens[:end]) for end in ends]

    def touch(self, prefix: Prefix) -> None:
        """Refresh a path."""
        self.touched |= dict.fromkeys(self.pages(prefix), self.step)

    def match(self, key: Sequence[int], namespace: tuple[str, ...] = ()) -> Held:
        """Match, and compare length and slots."""
        asked = key[:-1] if self.can.longest_match == "n-1" else key
        answer: Match = self.target.match_prefix(array("q", key), namespace)
        prefix = (namespace, tuple(asked[: self.longest(asked, namespace)]))
        slots = ints(answer.slots)
        assert (answer.length, len(slots)) == (len(prefix[1]), len(prefix[1]))
        for place, page in enumerate(self.pages(prefix)):
            assert tuple(slots[place * self.page : (place + 1) * self.page]) in self.stored[page]
        self.touch(prefix)
        self.handles.append(Held(answer.handle, prefix))
        return self.handles[-1]

    def insert(
        self,
        key: Sequence[int],
        namespace: tuple[str, ...],
        lent: Sequence[int] = (),
        priority: int = 0,
    ) -> None:
        """Insert with slots from the pool behind those lent, and compare the existing length."""
        fresh = [self.free.pop() for _ in key[len(lent) :]]
        slots = [*lent, *fresh]
        try:
            existing = self.target.insert(
                array("q", key),
                make_slots(self.can.slots_as, slots),
                namespace,
                priority,
                len(lent),
            )
        except Refused:
            assert isinstance(self.target, honest.RefusesWhenFull)
            self.free += fresh
            return
        aligned = len(key) - len(key) % self.page
        assert existing == self.longest(key, namespace)
        spare_from = existing if self.can.duplicates == "both-kept" else len(lent)
        self.free += slots[spare_from:existing] + slots[aligned:]
        for end in range(self.page, aligned + 1, self.page):
            adopted = end > existing or (self.can.duplicates == "both-kept" and end > len(lent))
            if adopted:
                copies = self.stored.setdefault((namespace, tuple(key[:end])), [])
                copies.append(tuple(slots[end - self.page : end]))
        if existing < aligned:
            self.forget_idle_handles()
        self.touch((namespace, tuple(key[:aligned])))

    def locked(self) -> set[Prefix]:
        """Return what the locks surely cover."""
        return {page for held in self.handles if held.locks for page in self.pages(held.prefix)}

    def weight(self, prefixes: Iterable[Prefix]) -> int:
        """Count the slots of `prefixes`."""
        return sum(self.page * len(self.stored[prefix]) for prefix in prefixes)

    def perhaps_locked(self) -> set[Prefix]:
        """Return what locks may cover where an edge is locked whole: down to the next branch."""
        covered = self.locked()
        if self.can.match_splits:
            return covered
        below: dict[Prefix, list[Prefix]] = {}
        for namespace, tokens in self.stored:
            below.setdefault((namespace, tokens[: -self.page]), []).append((namespace, tokens))
        for held in self.handles:
            last = held.prefix
            while held.locks and last[1] and len(below.get(last, [])) == 1:
                (last,) = below[last]
                covered.add(last)
        return covered

    def evict(self, num_tokens: int) -> None:
        """Evict, and compare who is freed, how many, and in which order."""
        surely = self.weight(self.stored.keys() - self.perhaps_locked())
        try:
            answer = self.target.evict(num_tokens)
        except Refused:
            assert self.can.short_evict == "refuses"
            assert num_tokens > surely
            return
        groups = answer.groups if isinstance(answer, Evicted) else [answer]
        victims = [ints(group) for group in groups]
        for victim in victims:
            self.take_off(victim)
        total = sum(map(len, victims))
        assert total >= min(num_tokens, surely)
        if isinstance(answer, Evicted) and victims:
            assert total - len(victims[-1]) < num_tokens + self.can.evict_batch
        self.free += [slot for victim in victims for slot in victim]
        if victims:
            self.forget_idle_handles()

    def take_off(self, victim: list[int]) -> None:
        """Forget what a victim stored, and hold the exact order where the target promises it."""
        wanted, gone, locked = set(victim), set[Prefix](), self.locked()
        assert len(wanted) == len(victim)
        before = set(self.stored)
        for prefix, copies in list(self.stored.items()):
            if slots := {slot for copy in copies for slot in copy} & wanted:
                wanted -= slots
                assert len(slots) == self.page * len(copies)
                assert prefix not in locked
                gone.add(prefix)
                del self.stored[prefix]
        assert wanted == set()
        parents = {(namespace, tokens[: -self.page]) for namespace, tokens in self.stored}
        assert not parents & gone
        if (self.can.eviction, self.can.stamps) == ("lru", "matched"):
            oldest = min(self.touched[leaf] for leaf in before - self.parents(before) - locked)
            assert {self.touched[prefix] for prefix in gone} == {oldest}

    def parents(self, prefixes: Iterable[Prefix]) -> set[Prefix]:
        """Return the prefixes that something hangs on."""
        return {(namespace, tokens[: -self.page]) for namespace, tokens in prefixes}

    def forget_idle_handles(self) -> None:
        """Drop the handles that may be dead."""
        strict = self.can.idle_handles == "until-next-mutation"
        self.handles = [
            held
            for held in self.handles
            if held.locks or (not strict and set(self.pages(held.prefix)) <= self.stored.keys())
        ]

    def lock(self, held: Held, change: int) -> None:
        """Lock or unlock, and compare the delta with what the size does."""
        before = self.evictable_now()
        call = self.target.inc_ref if change > 0 else self.target.dec_ref
        delta = call(held.handle)
        held.locks += change
        if self.can.deltas == "present" and self.can.evictable_size != "absent":
            assert delta == self.evictable_now() - before

    def evictable_now(self) -> int:
        """Return the evictable size where there is one."""
        return 0 if self.can.evictable_size == "absent" else self.target.evictable_size()

    def compare_sizes(self) -> None:
        """Compare what the target shows with the sum over the table."""
        total, surely, perhaps = map(
            self.weight, (self.stored, self.locked(), self.perhaps_locked())
        )
        if self.can.evictable_size != "absent":
            assert total - perhaps <= self.target.evictable_size() <= total - surely
        if self.can.protected_size != "absent":
            assert surely <= self.target.protected_size() <= perhaps
        if self.can.total_size != "absent":
            assert self.target.total_size() == total
        assert len(self.free) + total == POOL

    def compare_dump(self) -> None:
        """Compare the nodes with the table."""
        if self.can.dump == "absent":
            return
        nodes = list(self.target.dump())
        kept = Counter(slot for node in nodes for slot in ints(node.slots))
        assert kept == Counter(slot for copies in self.stored.values() for slot in copies[0])
        for node in nodes:
            assert len(node.tokens) == len(node.slots) > 0
            assert node.parent is None or nodes[node.parent].locks >= node.locks

    def audit(self) -> None:
        """Find every key again, give back every lock, evict everything."""
        for namespace, tokens in sorted(self.stored):
            self.match([*tokens, 0] if self.can.longest_match == "n-1" else tokens, namespace)
        for held in self.handles:
            while held.locks:
                self.lock(held, -1)
        self.compare_sizes()
        if total := self.weight(self.stored):
            self.evict(total)
        assert (self.stored, len(self.free)) == ({}, POOL)


def random_key(rng: random.Random, page: int) -> list[int]:
    """Return a few pages, each of which differs from its only sibling in the last token."""
    key = [bit for _ in range(rng.randrange(6)) for bit in [0] * (page - 1) + [rng.randrange(2)]]
    return key + [0] * rng.randrange(page)


def play(table: Table, seed: int, operations: int = 150) -> None:
    """Throw random operations at `table`."""
    rng = random.Random(seed)
    namespaces: dict[str, list[tuple[str, ...]]] = {
        "absent": [()],
        "one": [(), ("",), ("a",)],
        "structured": [(), ("",), ("a", "bc"), ("ab", "c")],
    }
    for table.step in range(1, operations + 1):
        key = random_key(rng, table.page)
        namespace = rng.choice(namespaces[table.can.namespaces])
        if table.can.unaligned_insert == "caller-aligns":
            key = key[: len(key) - len(key) % table.page]
        _one_operation(table, rng, key, namespace)
        table.compare_sizes()
    table.compare_dump()
    table.audit()


def _one_operation(
    table: Table, rng: random.Random, key: list[int], namespace: tuple[str, ...]
) -> None:
    idle = [held for held in table.handles if not held.locks]
    locked = [held for held in table.handles if held.locks]
    match rng.choice(["match", "insert", "insert", "lent", "evict", "lock", "lock", "unlock"]):
        case "match":
            table.match(key, namespace)
        case "insert":
            table.insert(key, namespace, priority=rng.randrange(3) if _ranks(table) else 0)
        case "lent":
            held = table.match(key, namespace)
            lent = ints(table.target.match_prefix(array("q", key), namespace).slots)
            table.insert(key, namespace, lent[: len(held.prefix[1])])
        case "evict":
            table.evict(rng.randrange(1, 6 * table.page))
        case "lock" if idle:
            table.lock(rng.choice([*idle[-3:], *locked]), 1)
        case "unlock" if locked:
            table.lock(rng.choice(locked), -1)


def _ranks(table: Table) -> bool:
    return bool(table.can.priorities == "present")


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("page_size", [1, 2, 3])
def test_it_agrees_with_a_table_of_prefixes(name: str, page_size: int) -> None:
    factory = TARGETS[name]
    supported = getattr(factory, "supports", {}).get("page_size", [1])
    if page_size not in supported:
        page_size = 1
    table = Table(factory(page_size=page_size) if len(supported) > 1 else factory())
    for seed in range(4):
        play(table, seed)


@pytest.mark.parametrize("page_size", RadixPaged.supports["page_size"])
@pytest.mark.parametrize("eviction", POLICIES)
def test_every_policy_agrees_with_a_table_of_prefixes(eviction: str, page_size: int) -> None:
    table = Table(RadixPaged(page_size, eviction))
    for seed in range(2):
        play(table, seed)
    assert table.can.eviction == eviction


def stored(factory: Callable[..., Any], *keys: Sequence[int], **config: Any) -> Any:
    """Return a target that stores `keys`; the slots of the first are 10, 11, ..., then 20, ..."""
    target = factory(**config)
    kind = target.capabilities.slots_as
    for number, key in enumerate(keys, start=1):
        slots = [10 * number + place for place in range(len(key))]
        target.insert(array("q", key), make_slots(kind, slots))
    return target


def runs(target: Any) -> list[list[int]]:
    """Return the runs of all nodes, sorted."""
    return sorted(list(node.tokens) for node in target.dump())


def victims(target: Any, num_tokens: int) -> list[list[int]]:
    """Evict, and return the groups as lists."""
    return [ints(group) for group in target.evict(num_tokens).groups]


def handle_of(target: Any, *key: int) -> Any:
    """Match and return the handle."""
    return target.match_prefix(array("q", key)).handle


def test_every_near_miss_says_what_its_freedom_is() -> None:
    assert [name for name, factory in HONEST.items() if not factory.__doc__] == []


def test_one_node_per_page_never_cuts() -> None:
    target = stored(honest.OneNodePerPage, [1, 1, 2, 2], page_size=2)
    assert (runs(target), victims(target, 1)) == ([[1, 1], [2, 2]], [[12, 13]])


def test_a_lone_child_is_merged_with_its_parent() -> None:
    target = stored(honest.MergesLoneChildren, [1, 2, 3], [1, 2, 4])
    assert (victims(target, 1), runs(target)) == ([[12]], [[1, 2, 4]])
    assert victims(target, 1) == [[10, 11, 22]]


def test_a_locked_parent_is_not_merged() -> None:
    target = stored(honest.MergesLoneChildren, [1, 2, 3], [1, 2, 4])
    target.inc_ref(handle_of(target, 1, 2))
    assert (victims(target, 1), runs(target)) == ([[12]], [[1, 2], [4]])
    assert victims(target, 9) == [[22]]


def test_an_unlocked_leaf_grows_in_place_and_a_locked_one_does_not() -> None:
    target = stored(honest.GrowsLeaves, [1, 2], [1, 2, 3])
    target.inc_ref(handle_of(target, 1, 2, 3))
    target.insert([1, 2, 3, 4], [0, 0, 0, 40])
    assert (runs(target), victims(target, 9)) == ([[1, 2, 3], [4]], [[40]])


def test_a_cut_may_make_the_front_look_new() -> None:
    order = {}
    for factory in (RadixPaged, honest.CutsRecreateTheFront):
        target = stored(factory, [1, 2, 3, 4], [7, 8], eviction="fifo")
        handle_of(target, 1, 2)
        order[factory] = victims(target, 4)[1]
    assert order == {RadixPaged: [10, 11], honest.CutsRecreateTheFront: [20, 21]}


def test_a_handle_may_name_a_prefix_below_which_nodes_are_merged() -> None:
    target = stored(honest.MergesBelowHandles, [1, 2, 3], [1, 2, 4])
    handle = handle_of(target, 1)
    assert (victims(target, 1), runs(target)) == ([[12]], [[1, 2, 4]])
    assert (target.inc_ref(handle), runs(target)) == (-1, [[1], [2, 4]])
    assert (victims(target, 9), target.dec_ref(handle)) == ([[11, 22]], 1)


def test_an_edge_may_be_cut_when_it_is_locked() -> None:
    target = stored(honest.CutsWhenLocked, [1, 2, 3])
    handle = handle_of(target, 1, 2)
    whole = runs(target)
    assert (whole, target.inc_ref(handle), runs(target)) == ([[1, 2, 3]], -2, [[1, 2], [3]])


def test_a_lock_may_cover_the_whole_edge_until_an_insert_cuts_it() -> None:
    target = stored(honest.LocksWholeEdges, [1, 2, 3, 4])
    handle = handle_of(target, 1, 2)
    assert (target.inc_ref(handle), victims(target, 9), target.protected_size()) == (-4, [], 4)
    target.insert([1, 2, 3, 9], [0, 0, 0, 93])
    assert (target.protected_size(), victims(target, 9)) == (3, [[13], [93]])
    assert (target.dec_ref(handle), victims(target, 9)) == (3, [[10, 11, 12]])


def test_a_cut_leaves_the_rest_of_an_edge_the_locks_that_reach_it() -> None:
    target = stored(honest.LocksWholeEdges, [1, 2, 3, 4])
    short, long = handle_of(target, 1), handle_of(target, 1, 2, 3)
    deltas = [target.inc_ref(short), target.inc_ref(long)]
    target.insert([1, 9], [0, 91])
    deltas += [target.dec_ref(long), target.dec_ref(short)]
    assert deltas == [-4, 0, 3, 1]


def test_an_idle_handle_may_die_at_the_next_change() -> None:
    target = stored(honest.ForgetsIdleHandles, [1, 2])
    idle, locked = handle_of(target, 1), handle_of(target, 1)
    target.inc_ref(locked)
    target.insert([5], [50])
    deltas = target.inc_ref(locked), target.dec_ref(locked), target.dec_ref(locked)
    assert (*deltas, target.inc_ref(locked)) == (0, 0, 1, -1)
    with pytest.raises(Refused):
        target.inc_ref(idle)


def test_misuse_may_be_ignored() -> None:
    target = stored(honest.IgnoresMisuse, [1, 2])
    handle = handle_of(target, 1, 2)
    answers = [target.dec_ref(handle), target.inc_ref(handle)]
    locked = victims(target, 2)
    answers += [target.dec_ref(handle)]
    assert (answers, locked, victims(target, 2)) == ([0, -2, 2], [], [[10, 11]])
    assert (target.inc_ref(handle), target.protected_size()) == (0, 0)


def test_only_the_matched_part_may_look_fresh() -> None:
    order = {}
    for factory in (RadixPaged, honest.StampsOnlyTheMatched):
        target = stored(factory, [1, 2, 3, 4], [7, 8])
        handle_of(target, 1, 2)
        order[factory] = victims(target, 1)
    assert order == {RadixPaged: [[20, 21]], honest.StampsOnlyTheMatched: [[12, 13]]}


def test_a_lock_may_refresh() -> None:
    order = {}
    for factory in (RadixPaged, honest.StampsOnLocks):
        target = stored(factory, [1], [2])
        handle, _ = handle_of(target, 1), handle_of(target, 2)
        target.inc_ref(handle)
        target.dec_ref(handle)
        order[factory] = victims(target, 1)
    assert order == {RadixPaged: [[10]], honest.StampsOnLocks: [[20]]}


@pytest.mark.parametrize(
    ("name", "hits"),
    [("counts-matches", [0, 2]), ("counts-inserts", [3, 1]), ("counts-whole-edges", [3, 3])],
)
def test_a_hit_may_be_a_match_an_insert_or_both(name: str, hits: list[int]) -> None:
    target = stored(HONEST[name], [1], [2], [1], [1])
    handles = handle_of(target, 2), handle_of(target, 2)
    by_token = {run[0]: node.hits for run, node in target._roots[()].children.items()}
    assert [by_token[1], by_token[2]] == hits
    assert (target.capabilities.eviction, len(handles)) == ("lfu", 2)


def test_the_rest_of_a_cut_edge_may_share_the_hit() -> None:
    hits = {}
    for factory in (RadixPaged, honest.CountsWholeEdges):
        target = stored(factory, [1, 2])
        handle_of(target, 1)
        hits[factory] = [node.hits for node in target._nodes()]
    assert hits == {RadixPaged: [2, 1], honest.CountsWholeEdges: [2, 2]}


def test_ties_may_be_broken_at_random() -> None:
    firsts = {
        victims(stored(honest.BreaksTiesAtRandom, *([token] for token in range(4))), 1)[0][0]
        for _ in range(100)
    }
    assert firsts == {10, 20, 30, 40}


def test_a_segmented_order_may_protect_from_the_third_hit() -> None:
    target = stored(honest.ProtectsFromThreeHits, [1], [2])
    handles = [handle_of(target, key) for key in (1, 1, 2)]
    assert (victims(target, 1), len(handles)) == ([[20]], 3)


def test_an_unnamed_policy_may_evict_the_longest() -> None:
    target = stored(honest.EvictsLongestFirst, [1, 2, 3], [7], [8, 9])
    assert [len(victim) for victim in victims(target, 6)] == [3, 2, 1]


@pytest.mark.parametrize(
    "name", ["counts-its-own-time", "reads-monotonic-time", "reads-coarse-time"]
)
def test_a_clock_of_its_own_orders_evictions(name: str) -> None:
    target = stored(HONEST[name], [1], [2])
    assert target.capabilities.clock == "own"
    assert sorted(victims(target, 2)) == [[10], [20]]


def test_a_leaf_may_be_trimmed_page_by_page() -> None:
    target = stored(honest.TrimsPageByPage, [1, 1, 2, 2, 3, 3], page_size=2)
    assert (victims(target, 3), runs(target)) == ([[14, 15], [12, 13]], [[1, 1]])


def test_an_eviction_may_overshoot_by_a_batch() -> None:
    target = stored(honest.OvershootsByBatch, *([token] for token in range(20)))
    assert (victims(target, 0), len(victims(target, 2))) == ([], 10)


def test_an_eviction_of_more_than_there_is_may_be_refused() -> None:
    target = stored(honest.RefusesShortEvict, [1, 2])
    with pytest.raises(Refused):
        target.evict(3)
    assert victims(target, 2) == [[10, 11]]


def test_an_eviction_may_answer_one_list_in_any_order() -> None:
    keys = [[1], [2, 3], [4]]
    answers = []
    for name in ("answers-flat", "answers-sorted"):
        target = stored(HONEST[name], *keys)
        handle_of(target, 1)
        answers.append(target.evict(4))
    assert answers == [[20, 21, 30, 10], [10, 20, 21, 30]]


@pytest.mark.parametrize(("page_size", "lengths"), [(1, [3, 4, 0]), (2, [2, 4, 0])])
def test_a_match_may_leave_the_last_token(page_size: int, lengths: list[int]) -> None:
    target = stored(honest.LeavesLastToken, [1, 2, 3, 4], page_size=page_size)
    keys = [1, 2, 3, 4], [1, 2, 3, 4, 5], [1]
    assert [target.match_prefix(array("q", key)).length for key in keys] == lengths
    assert target.insert([1, 2, 3, 4], [0] * 4) == 4


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("answers-tuples", "tuple"),
        ("answers-arrays", "array"),
        ("answers-numpy", "ndarray"),
        ("answers-tensors", "Tensor"),
    ],
)
def test_slots_may_be_answered_in_any_type(name: str, kind: str) -> None:
    target = stored(installed(name), [1, 2], [1, 3])
    slots, nothing = (target.match_prefix(array("q", key)).slots for key in ([1, 3], [9]))
    answered = type(slots).__name__, ints(slots), type(nothing).__name__, len(nothing)
    assert answered == (kind, [10, 21], kind, 0)
    assert [type(group).__name__ for group in target.evict(1).groups] == [kind]


def installed(name: str) -> Factory:
    """Return a near-miss whose library may be missing here: then the test is skipped."""
    if name not in HONEST:
        pytest.skip(f"the library of {name} is not installed")
    return HONEST[name]


def test_a_given_buffer_may_be_kept() -> None:
    target, slots = honest.KeepsGivenBuffers(), array("q", [10, 11])
    target.insert(array("q", [1, 2]), slots)
    slots[0] = 77
    assert target.match_prefix(array("q", [1, 2])).slots == [77, 11]
    assert target.capabilities.arguments == "given"


@pytest.mark.parametrize("name", ["answers-numpy", "answers-tensors", "answers-arrays"])
def test_a_borrowed_buffer_is_not_kept(name: str) -> None:
    target = installed(name)()
    slots = make_slots(target.capabilities.slots_as, [10, 11, 12])
    target.insert(array("q", [1, 2, 3]), slots)
    handle_of(target, 1)
    slots[0] = slots[2] = 77
    assert ints(target.match_prefix(array("q", [1, 2, 3])).slots) == [10, 11, 12]


def test_duplicates_may_be_freed_by_the_target() -> None:
    target = stored(honest.FreesDuplicates, [1, 2, 3])
    target.insert([1, 2, 3, 4], [10, 91, 92, 93], owned_from=1)
    assert (target.freed, ints(target.match_prefix([1, 2, 3, 4]).slots)) == (
        [91, 92],
        [10, 11, 12, 93],
    )


def test_both_copies_may_be_kept_and_are_evicted_together() -> None:
    target = stored(honest.KeepsBothCopies, [1, 2])
    handle = handle_of(target, 1)
    target.inc_ref(handle)
    target.insert([1, 2, 3], [10, 91, 92], owned_from=1)
    sizes = target.protected_size(), target.evictable_size(), target.total_size()
    assert (sizes, target.match_prefix([1, 2, 3]).slots) == ((1, 3, 4), [10, 91, 92])
    assert (victims(target, 2), target.evictable_size()) == ([[92], [11, 91]], 0)


def test_sizes_may_be_walked_for_or_hidden() -> None:
    walked, hidden = (
        stored(HONEST[name], [1, 2]) for name in ("walks-for-sizes", "reports-no-sizes")
    )
    walked.inc_ref(handle_of(walked, 1))
    sizes = walked.evictable_size(), walked.protected_size(), walked.total_size()
    assert (sizes, hidden.inc_ref(handle_of(hidden, 1))) == ((1, 1, 2), None)


def test_a_dump_may_list_leaves_first() -> None:
    target = stored(honest.DumpsLeavesFirst, [1], [1, 2], [1, 2, 3])
    assert [(list(node.tokens), node.parent) for node in target.dump()] == [
        ([3], 1),
        ([2], 2),
        ([1], None),
    ]


@pytest.mark.parametrize(
    ("name", "namespace"), [("one-namespace", ("a", "b")), ("no-namespaces", ("",))]
)
def test_namespaces_may_be_refused(name: str, namespace: tuple[str, ...]) -> None:
    with pytest.raises(Refused):
        HONEST[name]().insert([1], [10], namespace)


def test_unaligned_keys_may_be_the_callers_fault() -> None:
    with pytest.raises(ValueError, match="3 tokens are no whole pages"):
        honest.WantsAlignedKeys(page_size=2).insert([1, 2, 3], [1, 2, 3])


def test_an_insert_may_be_refused_without_effect() -> None:
    target = stored(honest.RefusesWhenFull, range(90))
    before = target.dump()
    with pytest.raises(Refused):
        target.insert([0, *range(500, 510)], [0] * 11)
    assert (target.dump(), target.insert(range(96), [0] * 96)) == (before, 90)


def test_a_disabled_cache_may_refuse_to_evict_or_answer_the_whole_length() -> None:
    with pytest.raises(Refused):
        honest.RefusesEvictWhenDisabled(disable=True).evict(1)
    target = honest.AnswersLengthWhenDisabled(page_size=2, disable=True)
    assert (target.insert([1, 2, 3], [1, 2, 3]), target.total_size()) == (2, 0)


def test_six_methods_are_enough() -> None:
    target = stored(honest.BareMinimum, [1, 2], [1, 3])
    target.inc_ref(handle_of(target, 1, 2))
    assert (target.evict(9), target.evictable_size()) == ([21], 0)
