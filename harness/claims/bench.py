"""A target on the bench: one plain call at a time, and a word on what is wrong with an answer."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

from radixcheck.buffers import (
    BadAnswer,
    make_slots,
    make_tokens,
    overwrite,
    read_slots,
    unchanged,
)
from radixcheck.checker import calls
from radixcheck.checker.calls import Calls, read_length, read_match
from radixcheck.journal import JOURNAL, OUTSIDE, PLACE
from radixcheck.operations import Namespace
from radixcheck.protocol import Evicted, Handle, Match, Refused, Target
from radixcheck.registry import Source
from radixcheck.slots import SlotPool
from radixcheck.trace import Config

Fault: TypeAlias = Literal["adapter", "capability", "cache"]

LIKELY: dict[Fault, str] = {
    "adapter": "most likely the adapter",
    "capability": "most likely a declared capability",
    "cache": "most likely the cache",
}


class Trouble(Exception):
    """A plain check failed: what was seen, whose fault that most likely is, what to do."""

    def __init__(self, seen: str, fault: Fault, hint: str = "") -> None:
        super().__init__(seen)
        self.seen = seen
        self.fault: Fault = fault
        self.hint = hint


class Unneeded(Exception):
    """A plain check does not apply to the target; the message says why."""


class Bench:
    """One fresh target under one configuration, with a pool of slots and a clock of its own.

    Every method reads the answer as the checker does, and raises `Trouble` where it cannot.
    """

    def __init__(self, source: Source, config: Config) -> None:
        self.source = source
        self.config = config
        self.clock = JOURNAL.clock()
        self.target: Target = source.open(config, self.clock)
        self.can = self.target.capabilities
        self.pool = SlotPool(self.can.page_size)
        self._calls = Calls(self.target)

    def has(self, *methods: str) -> bool:
        """Tell whether the target has all of `methods`."""
        return all(hasattr(self.target, method) for method in methods)

    def another(self) -> Bench:
        """Open a second target of the same configuration."""
        return Bench(self.source, self.config)

    def key(self, pages: int, first: int = 101) -> list[int]:
        """Make a key of `pages` whole pages: `first` and the numbers after it."""
        return list(range(first, first + pages * self.can.page_size))

    def store(self, tokens: Sequence[int], namespace: Namespace = ()) -> list[int]:
        """Insert `tokens` that are new, and answer the slots that they were given."""
        slots = self.pool.take(len(tokens))
        self.insert(tokens, slots, namespace)
        return slots

    # ---- calls ---------------------------------------------------------------------------

    def insert(self, tokens: Sequence[int], slots: Sequence[int], namespace: Namespace = ()) -> int:
        """Insert, and read how many tokens were stored before. What was borrowed is reused."""
        buffers = make_tokens(tokens), make_slots(self.can.slots_as, list(slots))
        answer = self._call("insert", self._calls.insert, *buffers, namespace, 0, 0)
        existing: int = self._read(lambda: read_length(answer, "insert"), _INSERT)
        if not unchanged(buffers[0], tokens) or not unchanged(buffers[1], slots):
            raise Trouble("insert changed the tokens or slots that it was given", "cache", _BUFFERS)
        if self.can.arguments == "borrowed":
            for buffer in buffers:
                overwrite(buffer)
        return existing

    def match(self, tokens: Sequence[int], namespace: Namespace = ()) -> Match:
        """Match, and read the answer: a length, a list of slots, a handle."""
        answer = self._call("match_prefix", self._calls.match, make_tokens(tokens), namespace)
        length, slots, handle = self._read(lambda: read_match(answer), _match_hint(answer))
        return Match(length, self._slots(slots, f"match_prefix, length {length}"), handle)

    def find(self, tokens: Sequence[int], namespace: Namespace = ()) -> Match:
        """Match a stored key as a whole, with a token more if the target leaves the last one."""
        more = [0] if self.can.longest_match == "n-1" else []
        return self.match([*tokens, *more], namespace)

    def evict(self, num_tokens: int) -> list[int]:
        """Evict, and read the freed slots, whether they come in groups or not."""
        answer = self._call("evict", self._calls.evict, num_tokens)
        groups = answer.groups if isinstance(answer, Evicted) else [answer]
        return [slot for group in groups for slot in self._slots(group, "evict")]

    def lock(self, handle: Handle) -> int | None:
        """Lock, and read the change of the evictable size, if the target tells it."""
        return self._delta("inc_ref", self._calls.inc_ref, handle)

    def unlock(self, handle: Handle) -> int | None:
        """Give one lock back, and read as `lock` does."""
        return self._delta("dec_ref", self._calls.dec_ref, handle)

    def size(self, name: str) -> int:
        """Ask for one of the three sizes."""
        answer = self._call(name, getattr(self.target, name))
        return int(self._read(lambda: read_length(answer, name), "answer a number of tokens"))

    def reset(self) -> None:
        """Let the target forget everything."""
        self._call("reset", self.target.reset)

    def _delta(self, name: str, method: Callable[..., Any] | None, handle: Handle) -> int | None:
        answer = self._call(name, method, handle)
        return None if answer is None else self._read(lambda: read_length(answer, name), _LOCK)

    def _slots(self, answer: Any, whose: str) -> list[int]:
        hint = _slots_hint(answer, whose)
        return list(self._read(lambda: read_slots(answer), hint, f"the slots of {whose}: "))

    # ---- what may go wrong ---------------------------------------------------------------

    def _call(self, name: str, method: Callable[..., Any] | None, *arguments: Any) -> Any:
        assert method is not None, name
        self.clock.advance()
        JOURNAL.cells[PLACE] = 0  # an operation is running, if of no trace
        try:
            return method(*arguments)
        except calls.TARGET_ERRORS as error:
            raise self._raised(name, error) from error
        finally:
            JOURNAL.cells[PLACE] = OUTSIDE

    def _raised(self, name: str, error: BaseException) -> Trouble | Unneeded:
        if isinstance(error, Refused) and name == "insert":
            why = f": {error}" if str(error) else ""
            return Unneeded(f"it refused an insert{why}")
        if isinstance(error, Refused):
            return Trouble(f"{name} refused: {error}", "adapter", _REFUSED)
        frames = traceback.extract_tb(error.__traceback__)
        seen = f"{name} raised {type(error).__name__}: {error}"
        if isinstance(error, TypeError) and Path(frames[-1].filename).parent in _OUR_FOLDERS:
            return Trouble(seen, "adapter", f"the protocol has {_SIGNATURES.get(name, name)}")
        where = f"{frames[-1].filename}:{frames[-1].lineno}: {frames[-1].line}"
        module = sys.modules.get(self.source.place.module)
        home = self.source.place.path or getattr(module, "__file__", None) or ""
        ours = Path(frames[-1].filename).resolve() == Path(home).resolve()
        ends = isinstance(error, SystemExit)  # no adapter means to end the process: see `run`
        return Trouble(seen, "adapter" if ours and not ends else "cache", f"look at {where}")

    def _read(self, read: Callable[[], Any], hint: str, front: str = "") -> Any:
        try:
            return read()
        except BadAnswer as error:
            seen = str(error).partition("; expected")[0]
            raise Trouble(f"{front}{seen}", "adapter", hint) from error


# ---- what to do about it -----------------------------------------------------------------

_OUR_FOLDERS = {Path(__file__).parent, Path(calls.__file__).parent}
_INSERT = "return how many leading tokens were stored before: 0 for a new key"
_LOCK = "return the change of the evictable size as an int, or None"
_BUFFERS = "copy before changing: the caller may still need them"
_REFUSED = "Refused is for what a target may not do; a plain call into an empty cache is not that"
_FLAT = "answer one dimension, such as slots.flatten() or slots[0]"

_SIGNATURES = {
    "match_prefix": "match_prefix(tokens, namespace=())",
    "insert": "insert(tokens, slots, namespace=(), priority=0, owned_from=0)",
    "evict": "evict(num_tokens)",
    "inc_ref": "inc_ref(handle)",
    "dec_ref": "dec_ref(handle)",
    "reset": "reset()",
}


def _match_hint(answer: Any) -> str:
    if answer is None:
        return "where nothing matches, answer Match(0, [], handle of the root)"
    if isinstance(answer, tuple) and len(answer) == 2:
        return "for (slots, node) answer Match(len(slots), slots, node)"
    if isinstance(answer, tuple) and answer and answer[0] is None:
        return "the length is a number also where nothing matches: 0"
    return "answer Match(length, slots, handle)"


def _slots_hint(answer: Any, whose: str) -> str:
    if whose == "evict" and (answer is None or isinstance(answer, int)):
        return "answer the freed slots, not their number: collect them where the cache frees them"
    if answer is None:
        return "where nothing matches, the slots are empty, not None: Match(0, [], handle)"
    nested = isinstance(answer, list | tuple) and bool(answer) and hasattr(answer[0], "__len__")
    if nested or getattr(answer, "ndim", 1) != 1:
        return _FLAT
    return "one whole number per token, in a list, tuple, array or 1-D tensor"
