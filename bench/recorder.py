"""What it costs to leave a recorder on: SGLang's tree as its engine calls it, bare, recorded, and
watched. They take turns, a slice of the calls each.

    python bench/recorder.py [DIR]      an unpacked wheel of SGLang; by default 0.5.23 in the folder
                                        that RADIXCHECK_SGLANG_RELEASES names

Ends with one line per figure, and exits 1 if one is below its bar.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

from msgspec import structs
from workload import BareCaller, workload

import radixcheck
from radixcheck.buffers import make_tokens
from radixcheck.clock import Clock
from radixcheck.collecting import rare_collections
from radixcheck.operations import AnyOperation, DecRef, Evict, IncRef, Insert, MatchPrefix
from radixcheck.targets.sglang import SGLang

OPERATIONS = 10_000
ROUNDS = 6
SLICE = 25
"""Calls in a row of one engine: so few that in some round nothing else comes between."""
LONGER = 8
"""Tokens for each token of the shared workload: keys of 128 to 512 instead of 16 to 64."""

BAR = 0.9
"""The least share of the bare rate that is left when the last calls are kept."""

Listen: TypeAlias = Callable[[Any], Any]
Step: TypeAlias = tuple[str, Any, tuple[Any, ...]]


class Living(SGLang):
    """A tree that somebody listens to from its beginning."""

    listen: Listen = staticmethod(lambda cache: None)

    def _bind(self, tree: ModuleType, cache: Any) -> None:
        self.listener = self.listen(cache)
        super()._bind(tree, cache)


def living(directory: str, page_size: int, listen: Listen) -> Living:
    """Build a tree, and let `listen` begin."""
    kind = type("Living", (Living,), {"listen": staticmethod(listen)})
    tree: Living = kind(directory, page_size=page_size)
    return tree


class Engine:
    """Makes the calls of a workload, with everything prepared that is not a part of them."""

    def __init__(self, target: Living) -> None:
        self.target = target
        self.handles: dict[str, Any] = {}

    def run(self, steps: list[Step]) -> float:
        """Return the seconds that `steps` took."""
        target, handles = self.target, self.handles
        began = time.process_time()
        for method, handle, arguments in steps:
            if method == "match_prefix":
                handles[handle] = target.match_prefix(*arguments).handle
            elif method == "insert":
                target.insert(*arguments)
            elif method == "evict":
                target.evict(*arguments)
            elif method == "inc_ref":
                target.inc_ref(handles[handle])
            else:
                target.dec_ref(handles[handle])
        return time.process_time() - began


class Dictation(BareCaller):
    """Applies operations to a tree, and writes down with what it was called."""

    def __init__(self, target: Living) -> None:
        super().__init__(target, Clock())
        self.steps: list[Step] = []
        insert, match = target.insert, target.match_prefix

        def noted_insert(tokens: Any, slots: Any, owned_from: int = 0) -> int:
            self.steps.append(("insert", None, (tokens, slots.clone())))
            return insert(tokens, slots)

        target.insert = noted_insert  # type: ignore[method-assign, assignment]  # as a tap
        target.match_prefix = match  # type: ignore[method-assign]  # as a tap

    def note(self, operation: AnyOperation) -> None:
        """Apply an operation; an insert notes itself, since only then its slots are known."""
        match operation:
            case MatchPrefix(tokens=tokens, handle=handle):
                self.steps.append(("match_prefix", handle, (make_tokens(tokens),)))
            case Evict(num_tokens=num_tokens):
                self.steps.append(("evict", None, (num_tokens,)))
            case IncRef(handle=handle):
                self.steps.append(("inc_ref", handle, ()))
            case DecRef(handle=handle):
                self.steps.append(("dec_ref", handle, ()))
            case Insert():
                pass
        self.apply(operation)


def listeners(folder: Path) -> dict[str, Listen]:
    """Return who is compared with nobody."""
    return {
        "recorded": radixcheck.record,
        "recorded to a file": lambda cache: radixcheck.record(cache, to=folder / "all.jsonl"),
        "watched": lambda cache: radixcheck.watch(cache, to=None, then="raise"),
    }


@rare_collections()
def times(directory: str, page_size: int, steps: list[Step], folder: Path) -> list[list[float]]:
    """Return the seconds of every slice, for nobody and for each listener."""
    names = listeners(folder)
    engines = [Engine(living(directory, page_size, lambda cache: None))]
    engines += [Engine(living(directory, page_size, listen)) for listen in names.values()]
    turns = []
    for number, start in enumerate(range(0, len(steps), SLICE)):
        part, order = steps[start : start + SLICE], list(range(len(engines)))
        order = order[number % len(order) :] + order[: number % len(order)]
        took = {place: engines[place].run(part) for place in order}
        turns.append([took[place] for place in range(len(engines))])
    for engine in engines[1:]:
        engine.target.listener.stop()
    return turns


def shares(rounds: list[list[list[float]]]) -> list[float]:
    """Return the share of the bare rate that each listener leaves. Of each slice the quickest round
    counts: what else the machine does only adds to it."""
    quickest = [
        [min(times) for times in zip(*turns, strict=True)] for turns in zip(*rounds, strict=True)
    ]
    bare, *heard = (sum(column) for column in zip(*quickest, strict=True))
    return [bare / each for each in heard]


def longer(operations: list[AnyOperation]) -> list[AnyOperation]:
    """Write each token as so many that keys are as long as short prompts: the tree has the same
    shape."""
    return [_longer(operation) for operation in operations]


def _longer(operation: AnyOperation) -> AnyOperation:
    if isinstance(operation, MatchPrefix | Insert):
        tokens = tuple(
            LONGER * token + more for token in operation.tokens for more in range(LONGER)
        )
        return structs.replace(operation, tokens=tokens)
    if isinstance(operation, Evict):
        return Evict(LONGER * operation.num_tokens)
    return operation


def main(arguments: list[str]) -> int:
    """Measure short keys and those of short prompts, and tell whether recording stays above its
    bar."""
    releases = os.environ.get("RADIXCHECK_SGLANG_RELEASES", ".")
    directory, good = (arguments or [f"{releases}/0.5.23"])[0], True
    short, prompts = workload(OPERATIONS), longer(workload(OPERATIONS))
    for page_size, keys, operations in ((1, "short", short), (1, "", prompts), (16, "", prompts)):
        dictation = Dictation(living(directory, page_size, lambda cache: None))
        for operation in operations:
            dictation.note(operation)
        with tempfile.TemporaryDirectory() as folder:
            home = Path(folder)
            rounds = [times(directory, page_size, dictation.steps, home) for _ in range(ROUNDS)]
            names = list(listeners(home))
        for name, share in zip(names, shares(rounds), strict=True):
            bar = f" (bar {BAR})" if name == "recorded" else ""
            what = " ".join(filter(None, (f"sglang page {page_size}", keys, name)))
            print(f"{what} over bare: {share:.3f}{bar}")
            good &= not bar or share >= BAR
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
