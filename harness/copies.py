"""Going back: the state of live objects, saved as bytes and put back any number of times.

What is there when `Copies` is made stays for ever, and only its attributes are put back; what comes
later (nodes, handles) is made anew each time. So a bound method or a closure that somebody keeps is
still the right one, and does not have to be copied::

    judge ---> trial ---> target ---> root ---> node
    '------- stays ------------------'    '- made anew -'

A state is copied only if that is sure to be all of it. What lies outside Python (a tensor, a
library, a file), and a class that says itself how it is copied, is refused by `Unfaithful`. Nor
does this see what a module keeps beside its objects: try a copy against a fresh run.
"""

from __future__ import annotations

import io
import pickle
from array import array
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from functools import partial
from itertools import chain, count
from types import (
    BuiltinFunctionType,
    CellType,
    FunctionType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    SimpleNamespace,
)
from typing import Any

from msgspec import Struct

PLAIN = (int, float, complex, str, bytes, bool, type(None))
"""What has no parts, and cannot change."""

ATOMS = (type, FunctionType, ModuleType, Enum)
"""What stands for itself: a copy of it would be another one."""

KNOWN = frozenset(
    (Counter, OrderedDict, SimpleNamespace, array, count, defaultdict, deque, partial, range, slice)
) | {BuiltinFunctionType, MethodType, MethodWrapperType}
"""Types of Python's own whose copies are known to be whole."""

OWN_COPIES = ("__reduce__", "__reduce_ex__", "__getstate__")
MORE_COPIES = ("__setstate__", "__del__", "__getnewargs__", "__getnewargs_ex__")
"""A class that defines one of these may leave something out, or notice that it is copied."""


class Unfaithful(Exception):
    """Something cannot be copied for sure; the message names it."""


class Copies:
    """Saves and restores all that can be reached from `root`, the root included.

    Args:
        root: what was just made. Do not save it before it is complete.
        shared: what is left as it is: parts of `root` that only count, but no plain containers.

    Raises:
        Unfaithful: there is something among it that cannot be copied.
    """

    def __init__(self, root: object, shared: Iterable[object] = ()) -> None:
        self._objects: list[Any] = []
        """What stays, and every class and function: a copy knows them by their number."""
        self._numbers: dict[int, int] = {}
        """The number of each, by `id`: which nobody else can get, for they are kept."""
        self._copied: set[type] = set()
        """What kinds of things have turned out to be copied."""
        self._blanks: dict[int, FunctionType] = {}
        """A function per piece of code, by its `id`."""
        for each in shared:
            self._keep(each)
        stays = self._stays(root)
        self._open = [each for each in stays if hasattr(each, "__dict__")]
        self._slotted = [(each, names) for each in stays if (names := _slots(each))]
        self._shapes: list[tuple[str, ...]] = []
        """The names in the ``__dict__`` of what is open, each set of them written down once."""
        self.save()

    def save(self) -> bytes:
        """Write the present state down. Two states with the same bytes are the same.

        Raises:
            Unfaithful: something was added that cannot be copied.
        """
        file, kept = io.BytesIO(), self._slotted
        inside = [(self._shape(vars(each)), [*vars(each).values()]) for each in self._open]
        try:
            slots = [[getattr(each, name, Unset) for name in names] for each, names in kept]
            _Writer(file, self).dump((inside, slots))
        except (pickle.PicklingError, TypeError, ValueError, RecursionError) as error:
            raise Unfaithful(str(error)) from error
        return file.getvalue()

    def restore(self, saved: bytes) -> None:
        """Put a state back that `save` wrote down.

        Raises:
            Unfaithful: something cannot be made anew, such as a key that hashes its own attributes.
        """
        try:
            inside, slots = _Reader(io.BytesIO(saved), self._objects).load()
        except Exception as error:
            raise Unfaithful(f"{type(error).__name__}: {error}") from error
        for each, (shape, values) in zip(self._open, inside, strict=True):
            attributes = vars(each)
            attributes.clear()
            attributes.update(zip(self._shapes[shape], values, strict=True))
        for (each, names), values in zip(self._slotted, slots, strict=True):
            for name, value in zip(names, values, strict=True):
                if value is not Unset:
                    object.__setattr__(each, name, value)
                elif hasattr(each, name):
                    object.__delattr__(each, name)

    def number(self, thing: object) -> int | None:
        """Return the number by which a copy knows `thing`; None if it must be copied itself.

        Raises:
            Unfaithful: it can be neither.
        """
        number = self._numbers.get(id(thing))
        if number is not None or type(thing) in self._copied:
            return number
        if isinstance(thing, CellType):
            return None
        if _is_local(thing):
            _check_function(thing)
            return None
        if isinstance(thing, ATOMS) or _is_plain_function(thing) or _is_frozen(thing):
            return self._keep(thing)
        _check(type(thing))
        if not isinstance(thing, BuiltinFunctionType):
            self._copied.add(type(thing))
        return None

    def blank(self, function: FunctionType) -> FunctionType:
        """Return a function of the same code that has no variables yet."""
        code = function.__code__
        if id(code) not in self._blanks:
            cells = tuple(CellType() for _ in code.co_freevars)
            made = FunctionType(code, function.__globals__, function.__name__, None, cells)
            self._keep(made)
            self._blanks[id(code)] = made
        return self._blanks[id(code)]

    def _keep(self, thing: object) -> int:
        self._numbers[id(thing)] = len(self._objects)
        self._objects.append(thing)
        return len(self._objects) - 1

    def _shape(self, attributes: Mapping[str, object]) -> int:
        names = tuple(attributes)
        if names not in self._shapes:
            self._shapes.append(names)
        return self._shapes.index(names)

    def _stays(self, root: object) -> list[object]:
        """Keep every function, and return what has attributes, whose identity stays."""
        waiting, methods, seen = [root], [], dict[int, object]()
        stays: list[object] = []
        while waiting:
            thing = waiting.pop()
            if isinstance(thing, PLAIN) or id(thing) in seen or id(thing) in self._numbers:
                continue
            seen[id(thing)] = thing
            waiting += _parts(thing)
            if isinstance(thing, MethodType):
                methods.append(thing)
            elif isinstance(thing, ATOMS) or _is_frozen(thing):
                self._keep(thing)
            elif _has_attributes(thing):
                _check_inside(thing)
                stays.append(thing)
                self._keep(thing)
        for method in methods:  # of a list, say, that will be copied, it must be copied too
            if id(method.__self__) in self._numbers:
                self._keep(method)
        return stays


class _Writer(pickle.Pickler):
    def __init__(self, file: io.BytesIO, copies: Copies) -> None:
        super().__init__(file, protocol=5)
        self._number = copies.number
        self._blank = copies.blank

    def reducer_override(self, thing: Any) -> Any:
        """Write a number for what stays. Plain values and containers never come here."""
        number = None if thing is numbered else self._number(thing)
        if number is not None:
            return numbered, (number,)
        if _is_local(thing):
            return _made, (self._blank(thing), thing.__closure__, thing.__defaults__)
        if isinstance(thing, CellType):
            return CellType, (), _contents(thing), None, None, _fill
        return NotImplemented


class _Reader(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, objects: list[Any]) -> None:
        super().__init__(file)
        self._objects = objects

    def find_class(self, module: str, name: str) -> Any:
        """Answer for `numbered`: nothing else is ever asked for by its name."""
        return self._objects.__getitem__


class Unset:
    """Stands in a copy where an attribute has no value."""


def numbered(number: int) -> Any:
    """Stand in a copy before the number of what stays."""
    raise LookupError(f"{number}: only a reader has what stays")


# ---- a function that was made on the way, and the variables that it keeps ----------------


def _made(
    blank: FunctionType, closure: tuple[CellType, ...], defaults: tuple[Any, ...] | None
) -> FunctionType:
    return FunctionType(blank.__code__, blank.__globals__, blank.__name__, defaults, closure)


def _contents(cell: CellType) -> tuple[Any, ...]:
    try:
        return (cell.cell_contents,)
    except ValueError:  # nothing was assigned yet
        return ()


def _fill(cell: CellType, contents: tuple[Any, ...]) -> None:
    if contents:
        cell.cell_contents = contents[0]


# ---- what a thing is ---------------------------------------------------------------------


def _check(kind: type) -> None:
    """See that things of a kind can be copied whole."""
    if kind in KNOWN:
        return
    if kind is object:
        raise Unfaithful("a bare object() is known by its identity, which no copy has")
    if issubclass(kind, tuple) and kind.__getstate__ is object.__getstate__:  # a named one
        return
    own = [name for name in OWN_COPIES if getattr(kind, name) is not getattr(object, name)]
    own += [name for name in MORE_COPIES if hasattr(kind, name)]
    if own:
        raise Unfaithful(f"{_named(kind)} has its own {own[0]}")


def _named(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _check_inside(thing: object) -> None:
    """See that a thing keeps nothing but its attributes, as a generator does, or a class in C."""
    try:
        object.__reduce_ex__(thing, 4)
    except Exception as error:
        if not isinstance(thing, CellType):
            raise Unfaithful(f"{_named(type(thing))} cannot be copied") from error


def _check_function(function: Any) -> None:
    """See that `_made` can make it."""
    if function.__kwdefaults__ or vars(function):
        raise Unfaithful(f"{function.__qualname__} keeps more than variables")


def _is_plain_function(thing: object) -> bool:
    """Tell a function in C, such as `len`, from a method in C, such as `[].append`."""
    if not isinstance(thing, BuiltinFunctionType):
        return False
    return thing.__self__ is None or isinstance(thing.__self__, ModuleType | type)


def _is_local(thing: object) -> bool:
    """Tell whether a thing is a function that another one makes, each time a new one."""
    return isinstance(thing, FunctionType) and "<locals>" in thing.__qualname__


def _is_frozen(thing: object) -> bool:
    """Tell whether a struct never changes, nor anything in it."""
    if not isinstance(thing, Struct) or not thing.__struct_config__.frozen:
        return False
    return all(_is_constant(getattr(thing, name)) for name in thing.__struct_fields__)


def _is_constant(thing: object) -> bool:
    if isinstance(thing, tuple | frozenset):
        return all(map(_is_constant, thing))
    return isinstance(thing, PLAIN + ATOMS) or _is_frozen(thing)


def _has_attributes(thing: object) -> bool:
    """Tell whether a thing keeps all its state in attributes."""
    kind = type(thing)
    if kind in KNOWN or isinstance(thing, tuple | list | dict | set | frozenset):
        return kind is SimpleNamespace
    return kind is CellType or kind.__reduce__ is object.__reduce__


def _slots(thing: object) -> tuple[str, ...]:
    """Name the attributes of a thing that do not lie in its ``__dict__``."""
    if isinstance(thing, CellType):
        return ("cell_contents",)
    return tuple(name for kind in type(thing).__mro__ for name in _own_slots(kind))


def _own_slots(kind: type) -> Iterator[str]:
    slots = vars(kind).get("__slots__", ())
    for name in [slots] if isinstance(slots, str) else slots:
        if name.startswith("__") and not name.endswith("__"):
            yield f"_{kind.__name__.lstrip('_')}{name}"  # as the compiler calls a private name
        elif name not in ("__dict__", "__weakref__"):
            yield name


def _parts(thing: Any) -> Iterator[object]:
    """Yield what a thing refers to."""
    if isinstance(thing, type | ModuleType | Enum) or _is_frozen(thing):
        return
    if isinstance(thing, FunctionType):
        yield from thing.__closure__ or ()
    elif isinstance(thing, MethodType):
        yield from (thing.__self__, thing.__func__)
    elif isinstance(thing, CellType):
        yield from _contents(thing)
    elif isinstance(thing, partial):
        yield from (thing.func, thing.args, thing.keywords)
    else:
        if isinstance(thing, dict):
            yield from chain(thing.keys(), thing.values())
        elif isinstance(thing, list | tuple | set | frozenset | deque):
            yield from thing
        yield from getattr(thing, "__dict__", {}).values()
        yield from (getattr(thing, name) for name in _slots(thing) if hasattr(thing, name))
