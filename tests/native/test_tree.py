"""Trees behind the C interface: what is passed, what is read, and what is told of a bad library."""

from __future__ import annotations

import random
import re
from array import array
from typing import Any

import pytest

from radixcheck.buffers import BadAnswer
from radixcheck.checker.calls import failure
from radixcheck.operations import Failure
from radixcheck.protocol import Evicted, Refused
from radixcheck.registry import TargetError, resolve
from radixcheck.targets.native import native, read_supports
from radixcheck.targets.native.abi import HEADER, OPTIONAL, REQUIRED
from radixcheck.targets.native.radix_cpp import library, radix_cpp, supports
from radixcheck.targets.native.tree import (
    FIRST_CAPACITY,
    METHODS,
    NativeError,
    namespace_bytes,
    promised,
)
from radixcheck.targets.radix_paged import RadixPaged

PAGE_SIZES = supports["page_size"]
LRU = '"eviction=lru"'


def words(*numbers: int) -> array[int]:
    """Return tokens or slots as the harness passes them."""
    return array("q", numbers)


def error_of(spec: str) -> TargetError:
    """Return what is raised by opening `spec`."""
    with pytest.raises(TargetError) as caught:
        resolve(spec).open()
    return caught.value


# --------------------------------------------------------------------------------- our tree


@pytest.mark.parametrize("eviction", supports["eviction"])
@pytest.mark.parametrize("page", PAGE_SIZES)
def test_it_answers_what_the_python_tree_answers(page: int, eviction: str) -> None:
    """Two trees that cut, stamp and count alike give the same answers, victim by victim."""
    ours: Any = RadixPaged(page, eviction)
    theirs: Any = radix_cpp(page, eviction)
    rng, next_slot = random.Random(page), 0
    handles: list[tuple[Any, Any]] = []
    for _ in range(600):
        key = words(*(rng.choice((1, 1, 1, 2)) for _ in range(rng.randrange(5 * page))))
        space = rng.choice(((), ("",), ("a", "b"), ("ab",)))
        slots = words(*range(next_slot, next_slot + len(key)))
        next_slot += len(key)
        assert ours.insert(key, slots, space) == theirs.insert(key, slots, space)
        mine, other = ours.match_prefix(key, space), theirs.match_prefix(key, space)
        assert (mine.length, list(mine.slots)) == (other.length, other.slots)
        handles.append((mine.handle, other.handle))
        for name in rng.choice(((), ("inc_ref", "dec_ref"), ("inc_ref",))):
            assert getattr(ours, name)(mine.handle) == getattr(theirs, name)(other.handle)
        assert told(ours) == told(theirs)
        wanted = rng.choice((0, 0, page, 9 * page))
        assert [list(group) for group in ours.evict(wanted).groups] == theirs.evict(wanted).groups


def told(tree: Any) -> tuple[int, int, int]:
    """Return the three sizes."""
    return tree.evictable_size(), tree.protected_size(), tree.total_size()


def test_a_dump_shows_edges_slots_locks_and_parents() -> None:
    tree: Any = radix_cpp()
    tree.insert(words(1, 2, 3), words(10, 20, 30))
    tree.insert(words(1, 2, 4), words(10, 20, 40))
    tree.inc_ref(tree.match_prefix(words(1, 2, 4)).handle)
    front, *rest = tree.dump()
    assert ([1, 2], [10, 20], 1, None) == front
    assert [([3], [30], 0, 0), ([4], [40], 1, 0)] == sorted(rest)


def test_a_dead_handle_and_an_unlock_too_many_are_refused() -> None:
    tree: Any = radix_cpp()
    handle = tree.match_prefix(words()).handle
    with pytest.raises(Refused, match="no lock is held on this handle"):
        tree.dec_ref(handle)
    tree.reset()
    with pytest.raises(Refused, match="was evicted, or the tree was reset"):
        tree.inc_ref(handle)


def test_an_unknown_policy_or_mutant_is_told_with_the_known_ones() -> None:
    assert "eviction=lfu: choose lru or fifo" in error_of("radix-cpp?eviction=lfu").message
    assert "choose of split-keeps-slots, " in error_of("radix-cpp?mutant=none").message
    assert "takes no color=blue" in error_of(f"native:{library()}?color=blue").message


# ------------------------------------------------------------------------------ the interface


def test_python_and_the_header_know_the_same_functions() -> None:
    declared = re.findall(r"^RADIXCHECK_API.*?radixcheck_(\w+)\(", HEADER.read_text(), re.MULTILINE)
    assert {*REQUIRED, *OPTIONAL} == set(declared)


def test_answers_of_any_length_are_read_whole() -> None:
    tree: Any = radix_cpp()
    key = words(*range(5 * FIRST_CAPACITY))
    tree.insert(key, key)
    assert key.tolist() == tree.match_prefix(key).slots
    tree.reset()
    for token in range(3 * FIRST_CAPACITY):
        tree.insert(words(token), words(token))
    assert list(range(3 * FIRST_CAPACITY)) == sorted(
        slot for group in tree.evict(5 * FIRST_CAPACITY).groups for slot in group
    )


def test_lists_are_taken_where_the_harness_passes_arrays() -> None:
    tree: Any = radix_cpp()
    assert (0, [7, 8]) == (tree.insert([1, 2], [7, 8]), tree.match_prefix([1, 2]).slots)


def test_a_key_wants_one_slot_per_token() -> None:
    with pytest.raises(ValueError, match="2 tokens came with 1 slots"):
        radix_cpp().insert(words(1, 2), words(1))


def test_namespaces_have_the_same_bytes_only_if_they_are_equal() -> None:
    spaces = [(), ("",), ("", ""), ("a", "bc"), ("ab", "c"), ("abc",), ("1:a,",), ("a", ""), ("é",)]
    assert len(spaces) == len(set(map(namespace_bytes, spaces)))
    assert b"" == namespace_bytes(())


def test_what_a_library_lacks_its_target_has_no_method_for(built: Any) -> None:
    tree = native(str(built()))
    methods = [name for names in METHODS.values() for name in names]
    assert [] == [name for name in methods if hasattr(tree, name)]
    can = tree.capabilities
    assert ("absent", "absent", "absent") == (can.evictable_size, can.reset, can.dump)


def test_a_function_is_promised_by_being_there() -> None:
    can = promised("protected_size=absent", frozenset({"sizes", "dump"}))
    assert ("present", "absent", "present", "absent") == (
        can.evictable_size,
        can.protected_size,
        can.dump,
        can.reset,
    )


def test_nobody_may_promise_how_we_call() -> None:
    can = promised("arguments=given&slots_as=list", frozenset())
    assert ("borrowed", "array") == (can.arguments, can.slots_as)


def test_a_run_sweeps_what_the_library_supports() -> None:
    assert supports == read_supports("page_size=1,2,4,16&eviction=lru,fifo")
    assert supports == resolve(f"native:{library()}").supports
    assert [{"page_size": 4, "eviction": "lru"}, {"page_size": 4, "eviction": "fifo"}] == resolve(
        f"native:{library()}?page_size=4"
    ).configurations()


def test_what_a_library_does_not_know_goes_to_the_capabilities_or_to_it() -> None:
    source = resolve(f"native:{library()}?stamps=matched&color=deep blue&wet=true")
    assert {"stamps": "matched"} == source.overrides
    assert {"path": str(library()), "color": "deep blue", "wet": True} == source.arguments


def test_a_tree_of_another_kind_than_it_supports_is_not_asked_for(built: Any) -> None:
    error = error_of(f"native:{built(PROMISES=LRU)}?eviction=fifo")
    told = "ValueError: libsmall.so supports only eviction=lru, not eviction=fifo"
    assert ("user", True) == (error.fault, error.message.endswith(told))


def test_a_tree_of_another_kind_than_it_says_is_the_adapters_fault(built: Any) -> None:
    supports = 'const char *radixcheck_supports(void) { return "page_size=1,4"; }'
    error = error_of(f"native:{built(more=supports)}?page_size=4")
    told = "libsmall.so supports page_size=4, and made with it, promises page_size=1: "
    assert ("adapter", True) == (error.fault, told in error.message)


def test_a_tree_may_have_pages_that_nobody_asked_for(built: Any) -> None:
    path = str(built(PROMISES='"page_size=16"'))
    assert 16 == native(path).capabilities.page_size


LOCKS = """
int64_t radixcheck_inc(radixcheck_tree *tree, uint64_t handle, int64_t *delta) {
    *delta = -3;
    return 0;
}
int64_t radixcheck_dec(radixcheck_tree *tree, uint64_t handle, int64_t *delta) { return 0; }
"""


@pytest.mark.parametrize(
    ("deltas", "told"), [("absent", (None, None)), ("inc-only", (-3, None)), ("present", (-3, -3))]
)
def test_a_change_is_told_where_it_is_promised(
    built: Any, deltas: str, told: tuple[int | None, int | None]
) -> None:
    tree: Any = native(str(built(PROMISES=f'"deltas={deltas}"', more=LOCKS)))
    assert told == (tree.inc_ref(0), tree.dec_ref(0))


# -------------------------------------------------------------------------- what goes wrong


@pytest.mark.parametrize(
    ("result", "error", "told"),
    [
        ("RADIXCHECK_REFUSED", Refused, ""),
        ("RADIXCHECK_ERROR", NativeError, "the library answered -2"),
        ("-7", NativeError, "the library answered -7"),
    ],
)
def test_a_negative_result_is_an_error(
    built: Any, result: str, error: type[Exception], told: str
) -> None:
    with pytest.raises(error, match=f"^{told}$"):
        native(str(built(RESULT=result))).insert(words(), words())


@pytest.mark.parametrize(
    ("result", "told"),
    [
        ("RADIXCHECK_ERROR", Failure("NativeError", "the library answered -2")),
        ("RADIXCHECK_REFUSED", Failure("Refused", "")),
    ],
)
def test_no_line_of_ours_is_the_place_of_an_error(built: Any, result: str, told: Failure) -> None:
    with pytest.raises((NativeError, Refused)) as caught:
        native(str(built(RESULT=result))).insert(words(), words())
    assert told == failure(caught.value)


@pytest.mark.parametrize(
    ("macros", "told"),
    [
        (
            {"VERSION": "99"},
            "speaks version 99 of radixcheck_target.h, and this radixcheck version 1",
        ),
        ({"PROMISES": '"page_size=0"'}, "capability page_size=0"),
        ({"PROMISES": '"evicton=lru"'}, "evicton"),
        ({"PROMISES": '"lru"'}, "bad query field: 'lru'"),
    ],
)
def test_a_library_that_cannot_be_used_says_why(
    built: Any, macros: dict[str, str], told: str
) -> None:
    error = error_of(f"native:{built(**macros)}")
    assert told in error.message


def test_a_missing_function_is_named(built: Any) -> None:
    body = "#include <stdint.h>\nint64_t radixcheck_abi_version(void) { return 1; }\n"
    told = "exports no radixcheck_create, no radixcheck_destroy, no radixcheck_capabilities"
    assert told in error_of(f"native:{built(body)}").message


def test_what_is_no_library_is_the_users_fault(tmp_path: Any) -> None:
    (tmp_path / "text.so").write_text("no library")
    error = error_of(f"native:{tmp_path / 'text.so'}")
    assert ("user", True) == (error.fault, "cannot be loaded" in error.message)


EVICT = """
int64_t radixcheck_evict(radixcheck_tree *tree, int64_t num_tokens, radixcheck_freed *freed)
{
    (void)tree;
    freed->num_victims = num_tokens;
    for (int64_t at = 0; at < num_tokens; ++at) freed->slots[at] = freed->victims[at] = 1;
    return 3;
}
"""


def test_victims_that_do_not_add_up_are_the_adapters_fault(built: Any) -> None:
    tree: Any = native(str(built(more=EVICT)))
    assert Evicted([[1], [1], [1]]) == tree.evict(3)
    with pytest.raises(BadAnswer, match="evict freed 3 slots, and its victims had"):
        tree.evict(2)
