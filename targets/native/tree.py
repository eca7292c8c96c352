"""A tree behind the C interface, as a target: addresses go in, answers come out of reused buffers.

What is passed stays where the caller has it. Answers are written into buffers that belong to the
target, and are read in one go.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from ctypes import byref, c_int64, c_uint64
from functools import cache
from itertools import accumulate, pairwise
from typing import Any, NoReturn
from urllib.parse import parse_qsl

from radixcheck.buffers import BadAnswer
from radixcheck.capabilities import SILENT, Capabilities, override
from radixcheck.protocol import DumpedNode, Evicted, Match, Refused, Slots
from radixcheck.targets.native.abi import (
    EVICTABLE,
    PROTECTED,
    REFUSED,
    TOTAL,
    Config,
    Freed,
    Given,
    Key,
    Library,
    Matched,
    Node,
    Show,
    there,
)

FIRST_CAPACITY = 256
"""Slots that the answer buffers hold at first."""

PROMISED_BY_A_FUNCTION = {
    "sizes": ("evictable_size", "protected_size", "total_size"),
    "reset": ("reset",),
    "dump": ("dump",),
}
"""Capabilities that are present because a function is, unless the library says otherwise."""

MADE_BY_US = {"arguments": "borrowed", "slots_as": "array", "device": "cpu"}
"""Capabilities that follow from how we call. No library can promise otherwise."""

ONE_WORD = "q"
"""The typecode of tokens and slots: an ``int64_t``."""


class NativeError(RuntimeError):
    """A function of a library failed, and said so."""

    where = ""
    """No line of ours is the place; one of its own, the library may tell in its message."""


class NativeTree:
    """What every library can do: match and insert. `target_class` adds what else one can.

    Args:
        library: where the functions are.
        config: what the tree is made with.

    Raises:
        ValueError: the library makes no such tree, or promises what is no capability.
    """

    cannot_promise = frozenset(("storage",))
    """What lies in the memory of a library is out of sight."""

    def __init__(self, library: Library, config: Config) -> None:
        self._library = library
        self._tree = library.create(config)
        self.capabilities = promised(library.capabilities(self._tree), library.has)
        self._page_size = self.capabilities.page_size
        self._silent = SILENT[self.capabilities.deltas]
        self._stored_tokens = 0
        """What the tree may hold at most: all that it was given and did not give back."""
        self._capacity = 0
        self._namespace: tuple[str, ...] = ()
        self._counted = False
        """Whether `_counts` is up to date."""

        self._key, self._matched, self._given = Key(), Matched(), Given()
        self._freed, self._counts = Freed(), array(ONE_WORD, [0, 0, 0])
        self._num_tokens, self._handle, self._delta = c_int64(), c_uint64(), c_int64()
        self._make_room(FIRST_CAPACITY)

        assert self._tree.value is not None
        tree, counts = there(self._tree.value), there(address(self._counts))
        key, delta = byref(self._key), byref(self._delta)
        self._match = library.bind("match", tree, key, byref(self._matched))
        self._insert = library.bind("insert", tree, key, byref(self._given))
        self._evict = library.bind("evict", tree, self._num_tokens, byref(self._freed))
        self._inc = library.bind("inc", tree, self._handle, delta)
        self._dec = library.bind("dec", tree, self._handle, delta)
        self._sizes = library.bind("sizes", tree, counts)
        self._reset = library.bind("reset", tree)

    def __del__(self) -> None:
        if hasattr(self, "_tree"):
            self._library.bind("destroy", self._tree)()

    def match_prefix(self, tokens: Sequence[int], namespace: tuple[str, ...] = ()) -> Match:
        """Find the longest stored prefix of `tokens`. A handle is a number.

        Raises:
            NativeError, Refused: the library says so.
        """
        lasting = words(tokens)  # a buffer of our own must outlive the call
        self._point_at(lasting, namespace)
        length = self._match()
        if length < 0:
            self._fail(length)
        return Match(length, self._slots[:length].tolist(), self._matched.handle)

    def insert(
        self,
        tokens: Sequence[int],
        slots: Slots,
        namespace: tuple[str, ...] = (),
        priority: int = 0,
        owned_from: int = 0,
    ) -> int:
        """Store `tokens`, and return how many leading tokens were stored before.

        Raises:
            NativeError, Refused: the library says so.
            ValueError: there is not one slot per token.
        """
        lasting, buffer, given = words(tokens), words(slots), self._given
        if len(buffer) != len(lasting):
            raise ValueError(
                f"{len(tokens)} tokens came with {len(buffer)} slots: one each, please"
            )
        self._point_at(lasting, namespace)
        given.slots, given.owned_from, given.priority = address(buffer), owned_from, priority
        existing: int = self._insert()
        if existing < 0:
            self._fail(existing)
        aligned = len(buffer) - len(buffer) % self._page_size
        self._stored_tokens += max(0, aligned - existing)
        return existing

    def _point_at(self, tokens: array[int], namespace: tuple[str, ...]) -> None:
        """Let the key of the next call be where the caller has it, with room for an answer."""
        key = self._key
        key.tokens, count = tokens.buffer_info()
        key.num_tokens = count
        if namespace != self._namespace:
            self._namespace, name = namespace, namespace_bytes(namespace)
            key.namespace_bytes, key.num_namespace_bytes = name, len(name)
        if count > self._capacity:
            self._make_room(count)
        self._counted = False

    def _make_room(self, num_slots: int) -> None:
        """Let the answer buffers hold `num_slots` slots, and one more, so that an answer which is
        too long shows."""
        self._capacity = max(num_slots, 2 * self._capacity) + 1
        self._slots = array(ONE_WORD, [0]) * self._capacity
        self._victims = self._slots[:]
        self._matched.slots = self._freed.slots = address(self._slots)
        self._freed.victims = address(self._victims)
        self._matched.capacity = self._freed.capacity = self._capacity

    def _fail(self, result: int) -> NoReturn:
        said = self._library.error(self._tree)
        if result == REFUSED:
            refusal = Refused(said)
            refusal.where = NativeError.where  # type: ignore[attr-defined]  # read by checker.calls
            raise refusal
        raise NativeError(said or f"the library answered {result}")


class _Optional(NativeTree):
    """What a library may do besides. Each method is there only where its function is."""

    def evict(self, num_tokens: int) -> Slots | Evicted:
        """Free at least `num_tokens` tokens, victim by victim if the library tells them apart.

        Raises:
            BadAnswer: the lengths of the victims are not those of the slots.
            NativeError, Refused: the library says so.
        """
        if self._stored_tokens >= self._capacity:
            self._make_room(self._stored_tokens)
        self._counted, self._num_tokens.value, freed = False, num_tokens, self._freed
        freed.num_victims = -1
        count = self._evict()
        if count < 0:
            self._fail(count)
        self._stored_tokens = max(0, self._stored_tokens - count)
        slots = self._slots[:count].tolist()
        if freed.num_victims < 0:
            return slots
        lengths = self._victims[: freed.num_victims].tolist()
        if sum(lengths) != count:
            raise BadAnswer(
                f"evict freed {count} slots, and its victims had", lengths, "check them"
            )
        return Evicted([slots[a:b] for a, b in pairwise(accumulate(lengths, initial=0))])

    def inc_ref(self, handle: int) -> int | None:
        """Lock the prefix behind `handle`; return the change of the evictable size if it is told.

        Raises:
            NativeError, Refused: the library says so.
        """
        self._handle.value, self._counted = handle, False
        if result := self._inc():
            self._fail(result)
        return None if "inc_ref" in self._silent else self._delta.value

    def dec_ref(self, handle: int) -> int | None:
        """Give one lock back; otherwise as `inc_ref`."""
        self._handle.value, self._counted = handle, False
        if result := self._dec():
            self._fail(result)
        return None if "dec_ref" in self._silent else self._delta.value

    def evictable_size(self) -> int:
        """Count the stored tokens that no lock covers."""
        return (self._counts if self._counted else self._count())[EVICTABLE]

    def protected_size(self) -> int:
        """Count the stored tokens that a lock covers."""
        return (self._counts if self._counted else self._count())[PROTECTED]

    def total_size(self) -> int:
        """Count all stored tokens."""
        return (self._counts if self._counted else self._count())[TOTAL]

    def _count(self) -> array[int]:
        """Ask for all three counts: once after each call that may change them."""
        if result := self._sizes():
            self._fail(result)
        self._counted = True
        return self._counts

    def reset(self) -> None:
        """Forget everything.

        Raises:
            NativeError: the library says so.
        """
        self._counted, self._stored_tokens = False, 0
        if result := self._reset():
            self._fail(result)

    def dump(self) -> list[DumpedNode]:
        """List every node that the library shows.

        Raises:
            NativeError: the library says so.
        """
        nodes: list[DumpedNode] = []
        show = Show(lambda _, node: nodes.append(_read_node(node.contents)))
        if result := self._library.bind("dump", self._tree, show, None)():
            self._fail(result)
        return nodes


METHODS = {
    "evict": ("evict",),
    "inc": ("inc_ref",),
    "dec": ("dec_ref",),
    "sizes": ("evictable_size", "protected_size", "total_size"),
    "reset": ("reset",),
    "dump": ("dump",),
}
"""What a target can do because its library has a function."""


@cache
def target_class(has: frozenset[str]) -> type[NativeTree]:
    """Return the class of a target whose library has these functions: what a target cannot do, it
    has no method for."""
    helpers = ("_count",)
    names = [name for function in METHODS.keys() & has for name in METHODS[function]]
    return type(
        "NativeTree", (NativeTree,), {name: vars(_Optional)[name] for name in (*names, *helpers)}
    )


def promised(text: str, has: frozenset[str]) -> Capabilities:
    """Read the capabilities of a tree whose library has these functions.

    Raises:
        ValueError: they name what is no capability, or a value that it does not have.
    """
    told = dict(parse_qsl(text, keep_blank_values=True, strict_parsing=bool(text)))
    known: dict[str, Any] = {"evictable_size": "absent"}
    for function in PROMISED_BY_A_FUNCTION.keys() & has:
        known |= dict.fromkeys(PROMISED_BY_A_FUNCTION[function], "present")
    return override(Capabilities(), known | told | MADE_BY_US)


@cache
def namespace_bytes(namespace: tuple[str, ...]) -> bytes:
    """Spell a namespace so that two are equal only if they are: ``("ab", "")`` is ``2:ab,0:,``."""
    parts = [part.encode("utf-8", "surrogatepass") for part in namespace]
    return b"".join(b"%d:%s," % (len(part), part) for part in parts)


def words(numbers: Any) -> array[int]:
    """Return `numbers` as a buffer of ``int64_t``: itself, if it is one."""
    if type(numbers) is array and numbers.typecode == ONE_WORD:
        return numbers
    return array(ONE_WORD, numbers)


def address(buffer: array[int]) -> int:
    """Return where `buffer` lies."""
    return buffer.buffer_info()[0]


def _read_node(node: Node) -> DumpedNode:
    tokens, slots = node.tokens[: node.num_tokens], node.slots[: node.num_slots]
    return DumpedNode(tokens, slots, node.locks, node.parent if node.parent >= 0 else None)
