"""The driver that coverage guides: libFuzzer proposes bytes, Atheris counts the branches they take.

Instrumented are the target's own modules, and our `Witness`: so that an input is kept if it reaches
a new place in the cache, and as well if it reaches a new situation.

This is the process of `radixcheck.fuzzing`. It judges and counts, and nothing else: what breaks a
rule is put down as bytes, for the other side to shrink and to show.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from hashlib import sha256
from importlib import import_module
from inspect import getmodule
from pathlib import Path
from random import Random
from types import FunctionType, ModuleType
from typing import Any, NoReturn

import msgspec

from radixcheck.arena import arenas
from radixcheck.bytecode import Dialect
from radixcheck.checker import witness
from radixcheck.collecting import rare_collections
from radixcheck.fuzzing import Orders, Seen, dialect_of, told, trace_of
from radixcheck.hosts.life import die_with
from radixcheck.mutation import mutate
from radixcheck.registry import TargetError, resolve
from radixcheck.rules import Violation
from radixcheck.verdict import Open, check

atheris: Any = import_module("atheris")
"""By name, since type checkers take this file for it where it is not installed."""

TELL_EVERY_S = 0.5

DEPTH = 3
"""So deep a target is looked into for the classes that it is made of."""

FOREIGN = sys.stdlib_module_names | {"msgspec", "numpy", "torch"}
"""What nobody wants to see instrumented."""


def main(orders: Orders) -> None:
    """Fuzz until time or operations are up. libFuzzer's flags are those of the process.

    Raises:
        TargetError: the target cannot be opened, or is no tree.
    """
    if orders.parent == os.getppid():  # no child of ours, which -jobs may have
        die_with(orders.parent)
    source = resolve(orders.spec)
    found = arenas(source)
    dialect = dialect_of(found, orders.key_length)
    target = source.open(found[0].config, lambda: 0)
    functions = instrument([*modules_of(target), *map(_module, orders.cover), witness])
    judge = _Judge(orders, source.open, dialect, functions)
    atheris.Setup(sys.argv, judge, custom_mutator=_mutated)
    with rare_collections():
        atheris.Fuzz()


def _mutated(data: bytes, most_bytes: int, seed: int) -> bytes:
    """Take turns with libFuzzer, which changes single bytes."""
    if seed % 2:
        changed: bytes = atheris.Mutate(data, most_bytes)
        return changed
    return mutate(data, Random(seed))[:most_bytes]


class _Judge:
    """Called by libFuzzer with bytes, again and again."""

    def __init__(self, orders: Orders, open_target: Open, dialect: Dialect, functions: int) -> None:
        self.orders = orders
        self.open_target = open_target
        self.dialect = dialect
        self.reached, self.skipped, self.repeats = Counter[str](), Counter[str](), Counter[str]()
        self.seen = Seen(
            reached=self.reached,
            skipped=self.skipped,
            repeats=self.repeats,
            functions=functions,
        )
        self.branches = Branches()
        self.folder = Path(orders.folder)
        self.began_s, self.told_s = time.monotonic(), 0.0
        self.busy_s = time.process_time()

    def __call__(self, data: bytes) -> None:
        trace = trace_of(data, self.dialect, misuse=self.orders.misuse)
        verdict = check(self.open_target, trace, thorough=False)
        self.branches.tell()
        seen = self.seen
        seen.traces += 1
        seen.operations += verdict.operations
        self.reached.update(verdict.reached)
        self.skipped.update(verdict.skipped)
        if verdict.violation is not None:
            self._found(verdict.violation, data)
        self._go_on()

    def _found(self, violation: Violation, data: bytes) -> None:
        """Put down the first of its signature."""
        signature = told(violation.signature)
        self.repeats[signature] += 1
        if self.repeats[signature] == 1:
            name = f"violation-{sha256(data).hexdigest()[:12]}"
            (self.folder / "told" / name).write_bytes(msgspec.json.encode(violation))
            (self.folder / "found" / name).write_bytes(data)
        if self.orders.first_only:
            self._end()

    def _go_on(self) -> None:
        now_s, orders = time.monotonic(), self.orders
        spent_s = now_s - self.began_s
        if orders.max_time_s is not None and spent_s >= orders.max_time_s:
            self._end()
        if orders.max_operations is not None and self.seen.operations >= orders.max_operations:
            self._end()
        if now_s - self.told_s >= TELL_EVERY_S:
            self._tell()
            self.told_s = now_s

    def _tell(self) -> None:
        self.seen.elapsed_s = time.monotonic() - self.began_s
        self.seen.busy_s = time.process_time() - self.busy_s
        temporary = self.folder / f"seen.{os.getpid()}"
        temporary.write_bytes(msgspec.json.encode(self.seen))
        temporary.replace(self.folder / "seen")

    def _end(self) -> NoReturn:
        """libFuzzer has no other way to be ended from inside that leaves no crash behind."""
        self._tell()
        os._exit(0)


# ------------------------------------------------------------------------ instrumentation


def instrument(modules: list[ModuleType]) -> int:
    """Let every function of `modules` tell libFuzzer its branches; answer how many there are.

    An import hook would come too late, or not at all: targets are imported before they are known
    to be targets, and some of them from a file.
    """
    functions = {id(each): each for module in modules for each in functions_of(module)}
    for function in functions.values():
        # What is compared says nothing here: no operand is a number that the target compares.
        function.__code__ = atheris.patch_code(function.__code__, trace_dataflow=False)
    return len(functions)


class Branches:
    """Collects the branches of one trace, and tells libFuzzer of each of them once.

    To tell one takes as long as a dozen bytecodes, and an operation takes fifty branches, most of
    them again and again. To note one costs next to nothing.
    """

    def __init__(self) -> None:
        self._tell = atheris._trace_branch
        self._taken: set[int] = set()
        atheris._trace_branch = self._taken.add  # instrumented code looks it up there

    def tell(self) -> None:
        """Tell of all that were taken since the last time."""
        for branch in self._taken:
            self._tell(branch)
        self._taken.clear()


def functions_of(scope: Any) -> Iterator[FunctionType]:
    """Yield the functions that a module or a class defines, methods and properties included."""
    name = scope.__name__ if isinstance(scope, ModuleType) else scope.__module__
    for value in list(vars(scope).values()):
        match value:
            case FunctionType(__module__=module) if module == name:
                yield value
            case staticmethod(__func__=FunctionType() as function):
                yield function
            case classmethod(__func__=FunctionType() as function):
                yield function
            case property():
                accessors = (value.fget, value.fset, value.fdel)
                yield from (each for each in accessors if isinstance(each, FunctionType))
            case cached_property(func=FunctionType() as function):
                yield function
            case type(__module__=module) if module == name and value is not scope:
                yield from functions_of(value)


def modules_of(target: object) -> list[ModuleType]:
    """Return the modules of the classes that `target` is made of, and of their bases."""
    found: dict[str, ModuleType] = {}
    for thing in _parts(target, DEPTH):
        for kind in type(thing).__mro__:
            module = getmodule(kind)
            if module is not None and _worth_covering(module.__name__):
                found[module.__name__] = module
    return list(found.values())


def _parts(thing: object, depth: int) -> Iterator[object]:
    yield thing
    if depth:
        for value in list(getattr(thing, "__dict__", {}).values()):
            yield from _parts(value, depth - 1)


def _worth_covering(name: str) -> bool:
    ours = name.startswith("radixcheck.") and not name.startswith("radixcheck.targets.")
    return not ours and name.partition(".")[0] not in FOREIGN


def _module(name: str) -> ModuleType:
    if name not in sys.modules:
        raise TargetError(f"no module {name!r} was imported by the target", "name one that was")
    return sys.modules[name]
