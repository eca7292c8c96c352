"""`watch` and `record` beside callers and caches that do what they may: nobody is accused who is
right, where nobody can tell the watch says so, and the cache does what it does alone."""

from __future__ import annotations

import copy
import gc
import pickle
import signal
import threading
import time
from array import array
from collections.abc import Callable, Iterator
from itertools import takewhile
from typing import Any

import pytest

import radixcheck
from radixcheck.capabilities import Capabilities
from radixcheck.live import Node
from radixcheck.live.watching import Watch
from radixcheck.protocol import Evicted, Match

pytestmark = pytest.mark.filterwarnings("ignore:radixcheck:RuntimeWarning")


class Toy:
    """A correct cache, as engines write them: a dictionary from prefixes to slots."""

    capabilities = Capabilities(resolution_s=0.0)

    def __init__(self) -> None:
        self.slots: dict[Any, int] = {}
        self.used: dict[Any, float] = {}
        self.locks: dict[Any, int] = {}
        self.now = 0

    def _find(self, key: Any) -> list[Any]:
        self.now += 1
        prefixes = (key[:end] for end in range(1, len(key) + 1))
        found = list(takewhile(self.slots.__contains__, prefixes))
        self.used.update(dict.fromkeys(found, self.now))
        return found

    def match_prefix(self, tokens: Any) -> Match:
        """Answer the longest stored prefix."""
        found = self._find(tuple(map(int, tokens)))
        return Match(len(found), [self.slots[prefix] for prefix in found], self.handle_of(found))

    def handle_of(self, found: list[Any]) -> Any:
        """Make a handle of what was found."""
        return found

    def insert(self, tokens: Any, slots: Any) -> int:
        """Store what is not stored yet."""
        key = tuple(map(int, tokens))
        existing = len(self._find(key))
        for end in range(existing + 1, len(key) + 1):
            self.slots[key[:end]] = int(slots[end - 1])
            self.used[key[:end]], self.locks[key[:end]] = self.now, 0
        return existing

    def evict(self, num_tokens: int) -> Any:
        """Free what was used longest ago."""
        free = [prefix for prefix in self.slots if not self.locks[prefix]]
        free.sort(key=lambda prefix: (self.used[prefix], -len(prefix)))
        return [self.slots.pop(prefix) for prefix in free[:num_tokens]]

    def inc_ref(self, handle: Any) -> None:
        """Lock."""
        for prefix in handle:
            self.locks[prefix] += 1

    def dec_ref(self, handle: Any) -> None:
        """Unlock."""
        for prefix in handle:
            self.locks[prefix] -= 1

    def evictable_size(self) -> int:
        """Count what is stored and not locked."""
        return sum(not self.locks[prefix] for prefix in self.slots)

    def reset(self) -> None:
        """Forget all."""
        self.slots.clear()


def watching(cache: Any, **how: Any) -> Watch:
    """Watch, and only remember."""
    return radixcheck.watch(cache, **{"to": None, "then": lambda *_: None, **how})


def outcome(watched: Watch) -> tuple[str, str, BaseException | None]:
    """Judge what is left; answer the rule that is broken, why the watch is lost, and its fault."""
    found = watched.check()
    return found.rule if found else "", watched.lost, watched.trouble


SPARED = ("", "", None)


def lost(watched: Watch) -> str:
    """Say why a watch is lost that accuses nobody."""
    rule, why, trouble = outcome(watched)
    assert (rule, trouble) == ("", None)
    return why


# ------------------------------------------------------------------ what the caller may change


def test_who_empties_the_list_of_victims_is_spared() -> None:
    cache = Toy()
    watched = watching(cache)
    cache.insert([1, 2, 3], [1, 2, 3])
    freed = cache.evict(2)
    while freed:
        freed.pop()
    assert outcome(watched) == SPARED


class OneBuffer(Toy):
    """Answers every eviction in the same buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.buffer = pytest.importorskip("numpy").zeros(8, dtype="int64")

    def evict(self, num_tokens: int) -> Any:
        """Evict, and write over what was answered before."""
        freed = super().evict(num_tokens)
        self.buffer[: len(freed)] = freed
        return self.buffer[: len(freed)]


class OneGroup(Toy):
    """Answers its victims one by one, in lists that it uses again."""

    def __init__(self) -> None:
        super().__init__()
        self.group: list[int] = []

    def evict(self, num_tokens: int) -> Any:
        """Evict, and write over what was answered before."""
        self.group[:] = super().evict(num_tokens)
        return Evicted([self.group])


@pytest.mark.parametrize("kind", [OneBuffer, OneGroup])
def test_a_cache_that_answers_its_victims_in_one_buffer_is_spared(kind: type[Toy]) -> None:
    cache = kind()
    watched = watching(cache)
    cache.insert([1, 2, 3], [1, 2, 3])
    cache.evict(1)
    cache.evict(1)
    assert outcome(watched) == SPARED


def _numpy(tokens: list[int]) -> Any:
    return pytest.importorskip("numpy").array(tokens)


KEYS: dict[str, Callable[[list[int]], Any]] = {
    "bytes": bytes,
    "memoryview": lambda tokens: memoryview(array("q", tokens)),
    "bytearray": bytearray,
    "numpy": _numpy,
}


@pytest.mark.parametrize("kind", KEYS)
def test_a_key_is_read_token_by_token_whatever_holds_it(kind: str) -> None:
    cache, make = Toy(), KEYS[kind]
    with radixcheck.record(cache, keep_tokens=True) as recording:
        watched = cache.insert(make([3, 4, 5]), [1, 2, 3])
        watched += cache.match_prefix(make([3, 4, 6])).length
    keys = [each.tokens for each in recording.trace().operations]  # type: ignore[union-attr]  # key
    assert (watched, keys) == (2, [(3, 4, 5), (3, 4, 6)])


@pytest.mark.parametrize("kind", ["memoryview", "bytearray", "numpy"])
def test_a_key_that_is_used_again_is_judged_as_it_was(kind: str) -> None:
    cache, key = Toy(), KEYS[kind]([3, 4, 5])
    watched = watching(cache)
    cache.insert(key, [1, 2, 3])
    key[0] = 9
    cache.match_prefix([3, 4, 5])
    cache.match_prefix(key)
    assert outcome(watched) == SPARED


class Named(Toy):
    """Takes whatever namespace there is for what it is."""

    capabilities = Capabilities(resolution_s=0.0, namespaces="structured")

    def match_prefix(self, tokens: Any, namespace: Any = ()) -> Match:
        """Match below a namespace."""
        found = self._find(tuple((namespace, token) for token in tokens))
        return Match(len(found), [self.slots[prefix] for prefix in found], found)

    def insert(self, tokens: Any, slots: Any, namespace: Any = ()) -> int:
        """Store below a namespace."""
        key = tuple((namespace, token) for token in tokens)
        existing = len(self._find(key))
        for end in range(existing + 1, len(key) + 1):
            self.slots[key[:end]] = slots[end - 1]
            self.locks[key[:end]] = 0
        return existing


class NamedByTuple(Named):
    """Takes a name for the tuple of it."""

    def match_prefix(self, tokens: Any, namespace: Any = ()) -> Match:
        """Match below a namespace."""
        return super().match_prefix(tokens, _in_tuple(namespace))

    def insert(self, tokens: Any, slots: Any, namespace: Any = ()) -> int:
        """Store below a namespace."""
        return super().insert(tokens, slots, _in_tuple(namespace))


def _in_tuple(namespace: Any) -> tuple[Any, ...]:
    return namespace if isinstance(namespace, tuple) else (namespace,)


def _named_alike(cache: Named, keep_tokens: bool) -> Watch:
    watched = watching(cache, keep_tokens=keep_tokens)
    cache.insert([1, 2], [1, 2], "a")
    cache.match_prefix([1, 2], ("a",))
    return watched


@pytest.mark.parametrize("keep_tokens", [False, True])
def test_a_name_and_the_tuple_of_it_are_two_namespaces(keep_tokens: bool) -> None:
    watched = _named_alike(Named(), keep_tokens)
    assert outcome(watched) == SPARED
    insert, match = watched.trace().operations
    assert insert.namespace != match.namespace  # type: ignore[union-attr]  # both are keyed


def test_a_cache_that_takes_them_for_one_is_not_accused() -> None:
    assert "namespace" in lost(_named_alike(NamedByTuple(), False))


# ------------------------------------------------------------------------- calls within calls


class Capped(Toy):
    """Makes room for itself."""

    def insert(self, tokens: Any, slots: Any) -> int:
        """Store, and evict what is too much."""
        existing = super().insert(tokens, slots)
        if (over := len(self.slots) - 4) > 0:
            self.evict(over)
        return existing


def test_an_insert_that_evicts_ends_a_watch() -> None:
    cache = Capped()
    watched = watching(cache)
    cache.insert([1, 2, 3], [1, 2, 3])
    cache.insert([4, 5, 6], [4, 5, 6])
    assert "insert made a call of evict" in lost(watched)


class Telling(Toy):
    """Tells somebody of its victims."""

    def __init__(self) -> None:
        super().__init__()
        self.tell: Callable[[Any], Any] = lambda freed: None

    def evict(self, num_tokens: int) -> Any:
        """Evict, and tell."""
        freed = super().evict(num_tokens)
        self.tell(freed)
        return freed


@pytest.mark.parametrize("inner", ["insert", "inc_ref"])
def test_a_caller_that_calls_out_of_an_eviction_ends_a_watch(inner: str) -> None:
    cache = Telling()
    watched = watching(cache)
    cache.insert([1, 2, 3], [1, 2, 3])
    handle = cache.match_prefix([1]).handle
    calls = {
        "insert": lambda freed: cache.insert([9], freed),
        "inc_ref": lambda freed: cache.inc_ref(handle),
    }
    cache.tell = calls[inner]
    cache.evict(1)
    assert f"evict made a call of {inner}" in lost(watched)


class Looks(Toy):
    """Looks something up while it stores something else."""

    def insert(self, tokens: Any, slots: Any) -> int:
        """Store, and look up."""
        existing = super().insert(tokens, slots)
        self.match_prefix([1])
        return existing


def _stores_three(cache: Toy) -> Watch:
    watched = watching(cache)
    for token in (1, 2, 3):
        cache.insert([token], [token])
    cache.evict(1)
    return watched


def test_an_insert_that_matches_ends_a_watch_where_evictions_have_an_order() -> None:
    assert "insert made a call of match_prefix" in lost(_stores_three(Looks()))


def test_an_insert_that_matches_is_a_part_where_they_have_none() -> None:
    cache = Looks()
    cache.capabilities = Capabilities(eviction="unspecified")
    assert outcome(_stores_three(cache)) == SPARED


def test_a_recording_notes_calls_within_calls() -> None:
    cache = Capped()
    with radixcheck.record(cache) as recording:
        cache.insert([1, 2, 3, 4, 5], [1, 2, 3, 4, 5])
    assert "evict in insert" in recording.trace().note


class Matching(Toy):
    """Matches to know its size."""

    def evictable_size(self) -> int:
        """Count what is stored, after a match."""
        self.match_prefix([])
        return super().evictable_size()


def test_a_size_that_matches_does_not_ask_for_sizes_again() -> None:
    cache = Matching()
    watched = watching(cache, every=1)
    cache.insert([1, 2], [1, 2])
    before = cache.now
    assert "made a call of match_prefix" in lost(watched)
    assert cache.now == before


# ------------------------------------------------------------------------ what was there before


def _filled(capabilities: Capabilities) -> Toy:
    cache = Toy()
    cache.capabilities = capabilities
    cache.insert([1, 2, 3], [1, 2, 3])
    cache.inc_ref(cache.match_prefix([1, 2, 3]).handle)
    return cache


UNSEEN = {
    "all of it locked": Capabilities(resolution_s=0.0),
    "no sizes": Capabilities(evictable_size="absent"),
}


@pytest.mark.parametrize("why", UNSEEN)
def test_what_may_have_been_stored_before_ends_a_watch(why: str) -> None:
    cache = _filled(UNSEEN[why])
    watched = watching(cache)
    cache.match_prefix([1, 2, 3])
    assert "whether the cache was empty" in lost(watched)


def test_a_reset_tells_that_a_cache_is_empty() -> None:
    class Phantom(Toy):
        def match_prefix(self, tokens: Any) -> Match:
            return Match(1, [7], None)

    cache = Phantom()
    watched = watching(cache)
    cache.reset()
    cache.match_prefix([1])
    assert outcome(watched)[0] == "phantom-prefix"


@pytest.mark.parametrize("why", UNSEEN)
def test_a_recording_notes_that_nobody_knows_what_was_before(why: str) -> None:
    with radixcheck.record(_filled(UNSEEN[why])) as recording:
        pass
    assert "stored before is not known" in recording.trace().note


def test_a_recording_notes_that_something_was_stored_before() -> None:
    cache = Toy()
    cache.insert([1], [1])
    with radixcheck.record(cache) as recording:
        pass
    assert "something was stored before" in recording.trace().note


# --------------------------------------------------------------------------- the caller's errors


class Breaks(Toy):
    """Does something else first, if it is told to."""

    first: Callable[[], Any] = staticmethod(lambda: None)

    def match_prefix(self, tokens: Any) -> Match:
        """Do that, and match."""
        self.first()
        return super().match_prefix(tokens)


def _interrupted() -> Any:
    raise KeyboardInterrupt


def _too_late(*_: Any) -> Any:
    raise TimeoutError("the request took too long")


def _timed_out() -> None:
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    time.sleep(5)


FROM_WITHOUT = {"KeyboardInterrupt": _interrupted, "TimeoutError": _timed_out}


@pytest.fixture
def alarm() -> Iterator[None]:
    """Let SIGALRM raise a TimeoutError."""
    before = signal.signal(signal.SIGALRM, _too_late)
    yield
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("alarm")
@pytest.mark.parametrize("name", FROM_WITHOUT)
def test_an_error_from_without_ends_a_watch_and_reaches_the_caller(name: str) -> None:
    cache = Breaks()
    watched = watching(cache)
    cache.first = FROM_WITHOUT[name]
    with pytest.raises((KeyboardInterrupt, TimeoutError)):
        cache.match_prefix([1])
    assert lost(watched).startswith(f"{name} came from without")


@pytest.mark.usefixtures("alarm")
@pytest.mark.parametrize("name", FROM_WITHOUT)
def test_an_error_from_without_that_meets_radixcheck_itself_reaches_the_caller_too(
    name: str,
) -> None:
    cache = Toy()
    watched = watching(cache, walk=lambda: _walked(name))
    cache.insert([1], [1])
    WALKS.append(name)
    with pytest.raises((KeyboardInterrupt, TimeoutError)):
        watched.check()
    assert lost(watched).startswith(f"{name} came while")


WALKS: list[str] = []
"""What meets the next walk."""


def _walked(name: str) -> list[Node]:
    if WALKS:
        FROM_WITHOUT[WALKS.pop()]()
    return []


class Strict(Toy):
    """Refuses what makes no sense."""

    def match_prefix(self, tokens: Any) -> Match:
        """Match whole numbers."""
        if not all(isinstance(token, int) for token in tokens):
            raise TypeError("tokens are whole numbers")
        return super().match_prefix(tokens)

    def insert(self, tokens: Any, slots: Any) -> int:
        """Store a slot for each token."""
        if len(tokens) != len(slots):
            raise ValueError("as many slots as tokens, please")
        return super().insert(tokens, slots)

    def evict(self, num_tokens: int) -> Any:
        """Evict, or refuse."""
        if num_tokens < 0:
            raise ValueError("how many?")
        return super().evict(num_tokens)


NONSENSE: dict[str, Callable[[Toy], Any]] = {
    "insert was given 3 tokens": lambda cache: cache.insert([1, 2, 3], [1]),
    "tokens that are no whole numbers": lambda cache: cache.match_prefix(["one"]),
    "nobody can read": lambda cache: cache.match_prefix(None),
    "no number of tokens": lambda cache: cache.evict(-1),
}


@pytest.mark.parametrize("why", NONSENSE)
def test_an_error_that_the_caller_has_provoked_ends_a_watch(why: str) -> None:
    cache = Strict()
    watched = watching(cache)
    with pytest.raises((ValueError, TypeError)):
        NONSENSE[why](cache)
    assert why in lost(watched)


def test_an_error_at_good_arguments_is_the_caches_own() -> None:
    cache = Breaks()
    watched = watching(cache)
    cache.first = lambda: 1 // 0
    with pytest.raises(ZeroDivisionError):
        cache.match_prefix([1])
    assert outcome(watched)[0] == "unexpected-error"


def test_slots_for_more_tokens_than_were_given_end_a_watch() -> None:
    cache = Toy()
    watched = watching(cache)
    cache.insert([1, 2], [10, 11, 12, 13])
    cache.match_prefix([1, 2])
    assert "slots for 4" in lost(watched)


class Rated(Toy):
    """Frees what is worth least."""

    capabilities = Capabilities(resolution_s=0.0, eviction="priority", priorities="present")

    def insert(
        self, tokens: Any, slots: Any, namespace: Any = (), priority: float | None = None
    ) -> int:
        """Store a single token."""
        existing = super().insert(tokens, slots)
        self.used[tuple(tokens)] = priority or 0
        return existing


def test_a_priority_that_is_no_whole_number_ends_a_watch() -> None:
    cache = Rated()
    watched = watching(cache)
    cache.insert([1], [1], (), 0.9)
    cache.insert([2], [2], (), 0.2)
    assert cache.evict(1) == [2]
    assert "a priority of 0.9" in lost(watched)


# ------------------------------------------------------------------ nothing that was seen is lost


class Wrong(Toy):
    """Answers the slots next to those that it stores."""

    def match_prefix(self, tokens: Any) -> Match:
        """Match, and answer wrong slots."""
        match = super().match_prefix(tokens)
        return match._replace(slots=[slot + 1 for slot in match.slots])

    def evict(self, num_tokens: int = 1) -> Any:
        """Evict one, if nothing else is said."""
        return super().evict(num_tokens)


def _wrong(watched_how: dict[str, Any]) -> tuple[Wrong, Watch]:
    cache = Wrong()
    watched = watching(cache, **watched_how)
    cache.insert([1, 2], [1, 2])
    cache.match_prefix([1, 2])
    return cache, watched


def test_what_came_before_a_second_thread_is_judged() -> None:
    cache, watched = _wrong({})
    other = threading.Thread(target=cache.match_prefix, args=([9],))
    other.start()
    other.join()
    assert outcome(watched)[0] == "foreign-slot"


def test_what_came_before_the_callers_bad_call_is_judged() -> None:
    cache, watched = _wrong({})
    with pytest.raises(TypeError):
        cache.match_prefix(None)
    assert outcome(watched)[0] == "foreign-slot"


def test_what_came_before_a_fault_in_radixcheck_is_judged() -> None:
    cache, watched = _wrong({})
    assert cache.evict() == [2]  # what is evicted then is said nowhere: nobody can write it down
    assert watched.violation is not None
    assert watched.violation.rule == "foreign-slot"


@pytest.mark.parametrize("then", ["warn", "raise"])
def test_what_came_before_an_error_in_the_block_is_judged(then: Any) -> None:
    cache, watched = _wrong({"then": then})
    with pytest.raises(KeyError, match="mine"), watched:
        raise KeyError("mine")
    assert watched.violation is not None
    assert watched.violation.rule == "foreign-slot"
    assert "insert" not in vars(cache)


# --------------------------------------------------------------------------- copies and wrappers


@pytest.mark.parametrize("stopped", [False, True])
def test_a_deep_copy_of_a_watched_cache_is_a_cache_of_its_own(stopped: bool) -> None:
    cache = Toy()
    watched = watching(cache)
    other = copy.deepcopy(copy.deepcopy(cache))
    if stopped:
        watched.stop()
    other.insert([1, 2], [1, 2])
    assert (len(cache.slots), len(other.slots)) == (0, 2)
    assert lost(watched) == ""


def test_a_watched_cache_can_be_pickled() -> None:
    cache = Toy()
    cache.insert([1, 2], [1, 2])
    with radixcheck.record(cache):
        other = pickle.loads(pickle.dumps(cache))
    other.insert([3], [3])
    assert (len(cache.slots), len(other.slots)) == (2, 3)


def test_stop_leaves_what_somebody_else_has_put_on_later() -> None:
    cache, seen = Toy(), []
    watched = watching(cache)
    inner = cache.insert

    def counted(tokens: Any, slots: Any) -> int:
        seen.append(tokens)
        return inner(tokens, slots)

    cache.insert = counted  # type: ignore[method-assign]  # somebody's wrapper
    watched.stop()
    cache.insert([1], [1])
    assert (seen, len(cache.slots), "evict" in vars(cache)) == ([[1]], 1, False)


class Proxy:
    """Passes on what is read and set."""

    def __init__(self, inner: Any) -> None:
        object.__setattr__(self, "inner", inner)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.inner, name, value)


def test_a_proxy_has_its_methods_back_too() -> None:
    cache = Proxy(Toy())
    watched = watching(cache)
    watched.stop()
    cache.insert([1], [1])
    assert watched.calls == 0
    radixcheck.record(cache).stop()


# --------------------------------------------------------------------------------------- handles


class Lease(list[Any]):
    """A handle that unlocks when it goes."""

    cache: Any = None

    def __del__(self) -> None:
        if self.cache is not None:
            cache, self.cache = self.cache, None
            cache.dec_ref(self)


class Leasing(Toy):
    """Locks with leases."""

    def handle_of(self, found: list[Any]) -> Any:
        """Make a lease of what was found."""
        return Lease(found)

    def inc_ref(self, handle: Any) -> None:
        """Lock, until the lease goes."""
        super().inc_ref(handle)
        handle.cache = self


def _leased(cache: Leasing, *, in_a_ring: bool = False) -> list[int]:
    cache.insert([1, 2, 3], [1, 2, 3])
    lease = cache.match_prefix([1, 2, 3]).handle
    cache.inc_ref(lease)
    if in_a_ring:
        lease.itself = lease
    del lease
    gc.collect()
    freed: list[int] = cache.evict(3)
    return freed


@pytest.mark.parametrize("in_a_ring", [False, True])
@pytest.mark.parametrize("every", [1, 64])
def test_a_watch_keeps_no_handle_alive(every: int, in_a_ring: bool) -> None:
    cache = Leasing()
    watched = watching(cache, every=every)
    assert _leased(cache, in_a_ring=in_a_ring) == [3, 2, 1]
    assert outcome(watched) == SPARED


def test_a_recording_keeps_no_handle_alive() -> None:
    cache = Leasing()
    with radixcheck.record(cache) as recording:
        assert _leased(cache) == [3, 2, 1]
    kinds = [each.kind for each in recording.trace().operations]
    assert kinds == ["insert", "match_prefix", "inc_ref", "dec_ref", "evict"]


def test_a_handle_at_the_address_of_one_that_is_gone_is_another_one() -> None:
    cache = Leasing()
    watched = watching(cache, every=1)
    cache.insert([1, 2, 3], [1, 2, 3])
    for length in range(1, 4):
        cache.inc_ref(cache.match_prefix([1, 2, 3][:length]).handle)
    assert cache.evict(9) == [3, 2, 1]
    assert outcome(watched) == SPARED


# ---------------------------------------------------------------------------------- past a watch


def test_a_method_that_was_taken_before_shows_by_the_sizes() -> None:
    cache = Toy()
    evict = cache.evict
    watched = watching(cache)
    cache.insert([1, 2], [1, 2])
    evict(1)
    cache.match_prefix([1, 2])
    assert lost(watched) == "sizes went from [2] to [1] by a call past the watch"


def test_it_shows_too_where_nothing_is_called_after_it() -> None:
    cache = Toy()
    evict = cache.evict
    watched = watching(cache)
    cache.insert([1, 2], [1, 2])
    evict(1)
    assert lost(watched) == "sizes went from [2] to [1] by a call past the watch"
