"""Operations as bytes, for a fuzzer that knows only bytes. Version 1; trees only.

::

     header      match, keep the handle       insert, lent             evict
    .------.    .----------------------.     .--------------------.    .----.
     04 01       82  00  00  07 07 03         A2  00   01  00   08     C0  05
                     of  take  tokens         handle   of  take  token     amount

A byte from 80 to FE is an opcode. The operands behind it are below 80, and run up to the next
opcode. So every string of bytes is a trace: a missing operand is 0, one too many is ignored. And
whatever is inserted, erased or changed, the next opcode is where reading is in step again: at most
two operations are others than before, and those that refer to them.

``opcode``    ``1kkkkmmm``: k is an index into `KINDS`, m are modifiers
``number``    up to 70 itself; 71 to 79: so many more bytes, seven bits of it each, the highest
              first; from 7A one of `SPECIAL`
``key``       of, take, tokens: the first ``take - 1`` tokens (0: all) of the key that is ``of``
              keys back (0: of none), then the tokens
``handle``    how many handles back; a lock likewise, among the locks that are held
``header``    what stands before the first opcode: page size, policy, flags, choice

docs/coverage.md has all of it. The format is stable: a change gets a new `VERSION`, and a corpus
names the version that it is in.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from radixcheck.operations import (
    AnyOperation,
    Audit,
    DecRef,
    Evict,
    IncRef,
    Insert,
    MatchPrefix,
    Namespace,
    Reset,
    Tick,
    Tokens,
    Weigh,
)
from radixcheck.trace import Config, Trace

VERSION = 1

NAMED, HANDLED, RANKED = 1, 2, 4
"""Modifiers: a namespace is said; a match keeps its handle and an insert has lent slots; an insert
has a priority."""
LOOSE = 7
"""The modifiers of an unlock that may name any handle, and not only one that is locked."""

KINDS = (
    *("match", "match", "match", "match", "insert", "insert", "insert", "insert"),
    *("evict", "evict", "inc_ref", "inc_ref", "dec_ref", "dec_ref", "tick", "rare"),
)
"""What is common has more codes, so that a random opcode is a useful one."""

LARGEST_SHORT = 0x70
SPECIAL_FROM = 0x7A
SPECIAL = (1 + 2**8, 1 + 2**16, 2 + 2**16, 2**31 - 1, 1 + 2**32, 2**63 - 1)
"""Numbers that are equal to smaller ones, or negative, to whom keeps too few bits of them."""
LARGEST = 2**63 - 1
LARGEST_AMOUNT = 2**62

POLICIES = ("lru", "mru", "fifo", "filo", "lfu", "slru", "priority", "unspecified")
DISABLED, MISUSED = 1, 2
"""Flags of the header."""
HEADER_BYTES = 40
"""Four numbers have no more."""

NAMESPACES: tuple[Namespace, ...] = (
    *((), ("a",), ("b",), ("a", "b"), ("b", "a"), ("ab",), ("",), ("a", ""), ("", "a")),
    *(("a", "bc"), ("ab", "c"), ("a:b", "c"), ("a", "b:c"), ("a", "b", "c"), ("a", "b", "d")),
)
"""What can be said without a ``name``."""

FAR = 100
"""A key is written by one of so many that came before it."""

OPCODE = 0x80
"""The lowest."""
RECORDS = re.compile(rb"([\x80-\xfe])([\x00-\x7f]*)").findall
"""FF, which fuzzers like to repeat, says nothing."""

Numbers: TypeAlias = Sequence[int]


class Dialect(NamedTuple):
    """What the bytes are read as, so that nothing is said in vain."""

    configs: tuple[Config, ...] = ()
    """The configurations of the target, for the header to choose from; none: as it says."""
    most_names: int | None = None
    """How many strings a namespace may have; the rest of them is dropped."""
    most_tokens: int | None = None
    """How long a key may be; the rest of it is dropped."""


class NotExpressible(ValueError):
    """A trace says what the bytes cannot say."""


ANY = Dialect()


def decode(data: bytes, dialect: Dialect = ANY) -> Trace:
    """Read a trace. There are no bytes that cannot be read."""
    start = _first_opcode(data)
    config, misuse = _config(data[:start], dialect)
    said = _Said(dialect)
    operations = []
    for opcode, operands in RECORDS(data, start):
        read, modifiers = READ[ord(opcode) - OPCODE]
        operation = read(said, modifiers, _numbers(operands))
        if operation is not None:
            operations.append(operation)
    return Trace(tuple(operations), config, misuse)


def records(data: bytes) -> list[bytes]:
    """Cut `data` into its header, which may be empty, and one record per opcode."""
    start = _first_opcode(data)
    return [data[:start], *map(b"".join, RECORDS(data, start))]


def encode(trace: Trace) -> bytes:
    """Write `trace`, so that `decode` answers it again: all but what it has found. Its handles are
    called ``h1``, ``h2`` and so on then, in their order.

    Raises:
        NotExpressible: it says what the bytes cannot; the message names it.
    """
    said, names = _Said(), dict[str, str]()
    written = [_header(trace)]
    for operation in trace.operations:
        written.append(_written(said, names, operation))
    return b"".join(written)


def _first_opcode(data: bytes) -> int:
    return next((place for place, byte in enumerate(data) if byte >= OPCODE), len(data))


# -------------------------------------------------------------------------------- numbers


def _numbers(operands: bytes) -> Numbers:
    """Read numbers; where all are short, the bytes are the numbers."""
    if not operands or max(operands) <= LARGEST_SHORT:
        return operands
    return list(_long_numbers(operands))


def _long_numbers(operands: bytes) -> Iterator[int]:
    place = 0
    while place < len(operands):
        first = operands[place]
        place += 1
        if LARGEST_SHORT < first < SPECIAL_FROM:
            digits = operands[place : place + first - LARGEST_SHORT]
            place += len(digits)
            number = 0
            for digit in digits:
                number = number << 7 | digit
            yield number
        else:
            yield first if first <= LARGEST_SHORT else SPECIAL[first - SPECIAL_FROM]


@lru_cache(maxsize=4096)
def _number(number: int) -> bytes:
    """Write a number in the shortest way."""
    if 0 <= number <= LARGEST_SHORT:
        return bytes((number,))
    if not 0 <= number <= LARGEST:
        raise NotExpressible(f"the number {number} is outside 0 to 2**63-1")
    if number in SPECIAL:
        return bytes((SPECIAL_FROM + SPECIAL.index(number),))
    count = -(-number.bit_length() // 7)
    digits = (number >> 7 * place & 0x7F for place in reversed(range(count)))
    return bytes((LARGEST_SHORT + count, *digits))


def _folded(number: int) -> int:
    """Number the whole numbers: 0, -1, 1, -2, 2 and so on."""
    return 2 * number if number >= 0 else -2 * number - 1


def _unfolded(number: int) -> int:
    return -(number + 1 >> 1) if number & 1 else number >> 1


# --------------------------------------------------------------------------------- header


def _config(header: bytes, dialect: Dialect) -> tuple[Config, bool]:
    """Read the configuration; of a dialect, the one that says the same as far as there is one."""
    page_size, policy, flags, choice, *_ = (*_numbers(header[:HEADER_BYTES]), 0, 0, 0, 0)
    stated: Config = {}
    if page_size:
        stated["page_size"] = page_size
    if policy:
        stated["eviction"] = POLICIES[(policy - 1) % len(POLICIES)]
    if flags & DISABLED:
        stated["disable"] = True
    if dialect.configs:
        left = _agreeing(stated, dialect.configs)
        stated = left[choice % len(left)]
    return stated, bool(flags & MISUSED)


def _agreeing(stated: Config, configs: Sequence[Config]) -> Sequence[Config]:
    for key in ("disable", "page_size", "eviction"):
        if key in stated or key == "disable":
            wanted = stated.get(key)
            configs = [config for config in configs if config.get(key) == wanted] or configs
    return configs


def _header(trace: Trace) -> bytes:
    config = dict(trace.config)
    page_size, policy = config.pop("page_size", 0), config.pop("eviction", "")
    flags = DISABLED * (config.pop("disable", None) is True) | MISUSED * trace.misuse
    if config or (policy and policy not in POLICIES):
        raise NotExpressible(f"the configuration {trace.config}")
    numbers = [int(page_size), POLICIES.index(str(policy)) + 1 if policy else 0, flags]
    while numbers and not numbers[-1]:
        numbers.pop()
    return b"".join(map(_number, numbers))


# ------------------------------------------------------------- what operations may refer to


class _Said:
    """What was said so far, for later operations to refer to."""

    def __init__(self, dialect: Dialect = ANY) -> None:
        self.keys: list[Tokens] = []
        self.handles: list[str] = []
        """Since the last reset, in the order in which they were made."""
        self.locked: list[str] = []
        """Once per lock."""
        self.namespaces = [name[: dialect.most_names] for name in NAMESPACES]
        self.most_names, self.most_tokens = dialect.most_names, dialect.most_tokens
        self.made = 0
        """How many handles were made."""

    def new_handle(self) -> str:
        """Make the next handle."""
        self.made += 1
        self.handles.append(f"h{self.made}")
        return self.handles[-1]

    def unlock(self, handle: str) -> None:
        """Give back the latest lock on `handle`, if there is one."""
        if handle in self.locked:
            del self.locked[-1 - self.locked[::-1].index(handle)]

    def forget(self) -> None:
        """No handle survives a reset."""
        self.handles.clear()
        self.locked.clear()

    def namespace(self, number: int) -> Namespace:
        """Return a namespace by its number."""
        return self.namespaces[number % len(self.namespaces)]

    def add(self, namespace: Namespace) -> None:
        """Let a namespace be said from now on."""
        self.namespaces.append(namespace[: self.most_names])


def _at(numbers: Numbers, place: int) -> int:
    return numbers[place] if place < len(numbers) else 0


def _back(things: Sequence[str], distance: int) -> str | None:
    return things[-1 - distance % len(things)] if things else None


def _distance(things: Sequence[str], thing: str) -> bytes:
    """Write how far back `thing` was last."""
    for distance, known in enumerate(reversed(things)):
        if known == thing:
            return _number(distance)
    raise NotExpressible(f"{thing}, which no earlier operation keeps")


# ------------------------------------------------------------------------------ from bytes


def _key(said: _Said, numbers: Numbers, place: int) -> Tokens:
    """Read a key, which takes all that is left of the operands."""
    tokens, keys = tuple(numbers[place + 2 :]), said.keys
    of = _at(numbers, place) % (len(keys) + 1)
    if of:
        base, take = keys[-of], _at(numbers, place + 1)
        tokens = (base[: (take - 1) % (len(base) + 1)] if take else base) + tokens
    tokens = tokens[: said.most_tokens]
    keys.append(tokens)
    return tokens


def _match(said: _Said, modifiers: int, numbers: Numbers) -> AnyOperation:
    named = modifiers & NAMED
    namespace = said.namespace(_at(numbers, 0)) if named else ()
    tokens = _key(said, numbers, named)
    return MatchPrefix(tokens, namespace, said.new_handle() if modifiers & HANDLED else None)


def _insert(said: _Said, modifiers: int, numbers: Numbers) -> AnyOperation:
    priority, lent, namespace, place = 0, None, Namespace(), 0
    if modifiers & RANKED:
        priority, place = _unfolded(_at(numbers, place)), place + 1
    if modifiers & HANDLED:
        lent, place = _back(said.handles, _at(numbers, place)), place + 1
    if modifiers & NAMED:
        namespace, place = said.namespace(_at(numbers, place)), place + 1
    return Insert(_key(said, numbers, place), namespace, priority, lent)


def _evict(said: _Said, modifiers: int, numbers: Numbers) -> AnyOperation:
    return Evict(min(_at(numbers, 0), LARGEST_AMOUNT))


def _inc_ref(said: _Said, modifiers: int, numbers: Numbers) -> AnyOperation | None:
    handle = _back(said.handles, _at(numbers, 0))
    if handle is None:
        return None
    said.locked.append(handle)
    return IncRef(handle)


def _dec_ref(said: _Said, modifiers: int, numbers: Numbers) -> AnyOperation | None:
    handle = _back(said.handles if modifiers == LOOSE else said.locked, _at(numbers, 0))
    if handle is None:
        return None
    said.unlock(handle)
    return DecRef(handle)


def _tick(said: _Said, modifiers: int, numbers: Numbers) -> AnyOperation:
    return Tick(_unfolded(_at(numbers, 0)))


def _reset(said: _Said, modifiers: int, numbers: Numbers) -> AnyOperation:
    said.forget()
    return Reset()


def _audit(said: _Said, modifiers: int, numbers: Numbers) -> AnyOperation:
    return Audit(_at(numbers, 0))


def _weigh(said: _Said, modifiers: int, numbers: Numbers) -> AnyOperation:
    return Weigh()


def _name(said: _Said, modifiers: int, numbers: Numbers) -> None:
    """Read the strings of a namespace: of each its length, then its characters."""
    strings, place = [], 0
    while place < len(numbers):
        end = place + 1 + numbers[place]
        strings.append("".join(map(_character, numbers[place + 1 : end])))
        place = end
    said.add(tuple(strings))


def _character(number: int) -> str:
    """No half of a pair: it could not be written to a file."""
    return chr(number) if number < 0xD800 or 0xE000 <= number < 0x110000 else "?"


Read: TypeAlias = Callable[[_Said, int, Numbers], AnyOperation | None]

COMMON: dict[str, Read] = {
    "match": _match,
    "insert": _insert,
    "evict": _evict,
    "inc_ref": _inc_ref,
    "dec_ref": _dec_ref,
    "tick": _tick,
}
RARE: tuple[Read, ...] = (_reset, _audit, _weigh, _name, _reset, _name, _reset)
"""By the modifiers of the kind ``rare``. A ``name`` adds to the namespaces that can be said."""

READ: tuple[tuple[Read, int], ...] = tuple(
    (COMMON[kind] if kind in COMMON else RARE[modifiers], modifiers)
    for kind in KINDS
    for modifiers in range(8)
    if kind in COMMON or modifiers < len(RARE)
)
"""By opcode, less `OPCODE`: what reads the operands, and the modifiers."""

# -------------------------------------------------------------------------------- to bytes


def _opcode(kind: str, modifiers: int = 0) -> bytes:
    return bytes((OPCODE | KINDS.index(kind) << 3 | modifiers,))


def _rare(read: Read) -> bytes:
    return _opcode("rare", RARE.index(read))


def _written(said: _Said, names: dict[str, str], operation: AnyOperation) -> bytes:
    """Write one operation. `names` maps its handles to ours."""
    match operation:
        case MatchPrefix():
            return _written_match(said, names, operation)
        case Insert():
            return _written_insert(said, names, operation)
        case IncRef(handle):
            handle = names.get(handle, handle)
            distance = _distance(said.handles, handle)
            said.locked.append(handle)
            return _opcode("inc_ref") + distance
        case DecRef(handle):
            return _written_unlock(said, names.get(handle, handle))
        case Evict(num_tokens):
            return _opcode("evict") + _number(num_tokens)
        case Tick(delta):
            return _opcode("tick") + _number(_folded(delta))
        case Audit(order):
            return _rare(_audit) + _number(order)
        case Reset():
            said.forget()
            return _rare(_reset)
        case Weigh():
            return _rare(_weigh)
        case _:
            raise NotExpressible(f"{operation.kind}, which is no operation of a tree")


def _written_match(said: _Said, names: dict[str, str], operation: MatchPrefix) -> bytes:
    name, named, namespace = _written_namespace(said, operation.namespace)
    key, handle = _written_key(said, operation.tokens), operation.handle
    if handle is None:
        return name + _opcode("match", named) + namespace + key
    if handle in names:
        raise NotExpressible(f"two handles that are called {handle}")
    names[handle] = said.new_handle()
    return name + _opcode("match", named | HANDLED) + namespace + key


def _written_insert(said: _Said, names: dict[str, str], operation: Insert) -> bytes:
    name, modifiers, namespace = _written_namespace(said, operation.namespace)
    priority = lent = b""
    if operation.priority:
        modifiers, priority = modifiers | RANKED, _number(_folded(operation.priority))
    if operation.lent is not None:
        handle = names.get(operation.lent, operation.lent)
        modifiers, lent = modifiers | HANDLED, _distance(said.handles, handle)
    key = _written_key(said, operation.tokens)
    return name + _opcode("insert", modifiers) + priority + lent + namespace + key


def _written_unlock(said: _Said, handle: str) -> bytes:
    held = handle in said.locked
    distance = _distance(said.locked if held else said.handles, handle)
    said.unlock(handle)
    return _opcode("dec_ref", 0 if held else LOOSE) + distance


def _written_key(said: _Said, tokens: Tokens) -> bytes:
    """Write a key by the one that shares most with it; of several, the latest."""
    of, shared, length = 0, 0, 0
    for distance, known in enumerate(reversed(said.keys[-FAR:]), start=1):
        common = len(os.path.commonprefix([known, tokens]))
        if common > shared:
            of, shared, length = distance, common, len(known)
    said.keys.append(tokens)
    take = 0 if shared == length else shared + 1
    return b"".join(map(_number, (of, take, *tokens[shared:])))


def _written_namespace(said: _Said, namespace: Namespace) -> tuple[bytes, int, bytes]:
    """Write a namespace: the record that adds it, where it is new; the modifier; the operand."""
    if not namespace:
        return b"", 0, b""
    added = b""
    if namespace not in said.namespaces:
        said.add(namespace)
        strings = (number for part in namespace for number in (len(part), *map(ord, part)))
        added = _rare(_name) + b"".join(map(_number, strings))
    return added, NAMED, _number(said.namespaces.index(namespace))
