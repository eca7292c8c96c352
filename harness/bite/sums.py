"""The self-check that servers do: do sizes add up, is everything free once nothing runs?

It calls a target as the trace says, counts how many slots went in and came out, and asks the
target's own sizes. It knows no content, no order and no owner. An exception that is not a refusal
counts too, since nobody could overlook it::

    tree       evictable + protected == total == slots given - slots evicted
    pool       available + slots in use == capacity
    requests   when nothing runs: available + total == capacity; all evicted, all is available
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable
from itertools import count
from typing import Any

from radixcheck.buffers import make_slots, read_slots
from radixcheck.clock import Clock
from radixcheck.operations import (
    AddRefs,
    Admit,
    Alloc,
    AnyOperation,
    Arrive,
    Audit,
    Decode,
    DecRef,
    Evict,
    Free,
    IncRef,
    Insert,
    MatchPrefix,
    Prefill,
    Reset,
    Tick,
)
from radixcheck.protocol import Evicted, Refused, level_name
from radixcheck.rules import Violation
from radixcheck.trace import Trace
from radixcheck.verdict import Open

SUM = "size-drift"
"""What a sum that does not add up is called here."""


class Left(Exception):
    """Something is left where nothing should be."""


def check(open_target: Open, trace: Trace) -> Violation | None:
    """Run a trace on a fresh target; return the first operation after which a sum is wrong."""
    clock = Clock()
    target = open_target(trace.config, clock)
    if trace.config.get("disable"):
        return None
    counter = COUNTERS[level_name(target) or "tree"](target, clock)
    for step, operation in enumerate(trace.operations):
        clock.advance()
        try:
            counter.apply(operation)
            wrong = counter.wrong()
        except Refused:
            continue
        except Left as left:
            wrong = str(left)
        except Exception as error:
            told = f"{type(error).__name__}: {error}"
            return Violation("unexpected-error", operation.kind, step, "an answer", told)
        if wrong:
            return Violation(SUM, operation.kind, step, "sums that add up", wrong)
    return None


def _size(target: Any, name: str) -> int | None:
    there = hasattr(target, name) and getattr(target.capabilities, name, "present") == "present"
    return int(getattr(target, name)()) if there else None


class Tree:
    """Counts what a tree was given, and what it gave back."""

    def __init__(self, target: Any, clock: Clock) -> None:
        self.target, self.clock = target, clock
        self.stored = 0
        self.handles: dict[str, Any] = {}
        self.locks: Counter[str] = Counter()
        self._slots = count(1)

    def apply(self, operation: AnyOperation) -> None:
        """Do what an operation says. What the target refuses has no effect here either."""
        target = self.target
        match operation:
            case MatchPrefix(tokens, namespace, name):
                answer = target.match_prefix(array("q", tokens), namespace=namespace)
                self.handles[name or ""] = answer[2]
            case Insert():
                self._insert(operation)
            case Evict(num_tokens):
                self._evict(num_tokens)
            case IncRef(name) if name in self.handles:
                target.inc_ref(self.handles[name])
                self.locks[name] += 1
            case DecRef(name) if name in self.handles:
                target.dec_ref(self.handles[name])
                self.locks[name] -= 1
            case Tick(delta):
                self.clock.tick(delta)
            case Reset():
                self._reset()
            case Audit():
                self._audit()

    def wrong(self) -> str:
        """Return the sums if they do not add up."""
        names = ("evictable_size", "protected_size", "total_size")
        evictable, protected, total = (_size(self.target, name) for name in names)
        told = f"evictable {evictable}, protected {protected}, total {total}: {self.stored} stored"
        if min(evictable or 0, protected or 0) < 0 or total not in (None, self.stored):
            return told
        if evictable is not None and protected is not None:
            return told if evictable + protected != self.stored else ""
        return told if evictable is not None and evictable > self.stored else ""

    def _insert(self, operation: Insert) -> None:
        can, tokens = self.target.capabilities, array("q", operation.tokens)
        slots = make_slots(can.slots_as, [next(self._slots) for _ in tokens], can.device)
        keywords = {"namespace": operation.namespace, "priority": operation.priority}
        existing = self.target.insert(tokens, slots, **keywords)
        self.stored += len(tokens) // can.page_size * can.page_size - existing

    def _evict(self, num_tokens: int) -> None:
        freed = self.target.evict(num_tokens)
        groups = freed.groups if isinstance(freed, Evicted) else [freed]
        self.stored -= sum(map(len, groups))

    def _reset(self) -> None:
        self.target.reset()
        self.stored = 0
        self.handles.clear()
        self.locks.clear()

    def _audit(self) -> None:
        """Give all locks back, and evict everything."""
        for name, locks in self.locks.items():
            for _ in range(locks):
                self.target.dec_ref(self.handles[name])
        self.locks.clear()
        self._evict(self.stored)
        if self.stored:
            raise Left(f"{self.stored} tokens are left")


class Pool:
    """Counts the holders of each slot."""

    def __init__(self, target: Any, clock: Clock) -> None:
        self.target = target
        self.held: Counter[int] = Counter()
        self.handles: dict[str, list[int]] = {}

    def apply(self, operation: AnyOperation) -> None:
        """Do what an operation says."""
        match operation:
            case Alloc(num_tokens, name):
                size = self.target.capabilities.page_size
                answer = self.target.alloc(-(-num_tokens // size) * size)
                slots = [] if answer is None else read_slots(answer)
                self.handles[name or ""] = slots
                self.held.update(slots)
            case Free(name, start, stop, times) if name in self.handles:
                slots = self.handles[name][start:stop] * times
                self.target.free(self._made(slots))
                self.held.subtract(slots)
            case AddRefs(name, start, stop) if name in self.handles:
                slots = self.handles[name][start:stop]
                self.target.add_refs(self._made(slots))
                self.held.update(slots)
            case Reset():
                self.target.reset()
                self.held.clear()
                self.handles.clear()

    def wrong(self) -> str:
        """Return the sum if it does not add up."""
        can, size = self.target.capabilities, self.target.capabilities.page_size
        used = size * len({slot // size for slot, holders in self.held.items() if holders > 0})
        free = self.target.available_size()
        adds_up = free + used == can.capacity
        return "" if adds_up else f"{free} free and {used} in use of {can.capacity}"

    def _made(self, slots: list[int]) -> Any:
        can = self.target.capabilities
        return make_slots(can.slots_as, slots, can.device)


class Requests:
    """Counts who runs, and looks at the pool when nobody does."""

    def __init__(self, target: Any, clock: Clock) -> None:
        self.target = target
        self.waiting: dict[str, Arrive] = {}
        self.running: dict[str, list[int]] = {}
        self.computed: dict[str, int] = {}

    def apply(self, operation: AnyOperation) -> None:
        """Do what an operation says."""
        name = getattr(operation, "request", "")
        match operation:
            case Arrive():
                if operation.tokens:
                    self.waiting[name] = operation
            case Admit() if self.waiting:
                self._admit(name or next(iter(self.waiting)))
            case Prefill(_, num_tokens) if name in self.running:
                self._compute(name, min(num_tokens, self._left(name)))
            case Decode(_, token) if name in self.running and not self._left(name):
                self.running[name].append(token)
                self._compute(name, 1)
            case Evict(num_tokens):
                self.target.evict(num_tokens)
            case Audit():
                self._audit()
            case _ if operation.kind in ("finish", "abort", "retract") and name in self.running:
                self._leave(name, operation.kind)

    def wrong(self) -> str:
        """Return the sum if nothing runs and it does not add up."""
        if self.running:
            return ""
        pool, rows = self.target.pool, getattr(self.target, "row_pool", None)
        free, stored = pool.available_size(), self.target.total_size()
        if free + stored != pool.capabilities.capacity:
            return f"{free} free and {stored} stored of {pool.capabilities.capacity}"
        if rows is not None and rows.available_size() != rows.capabilities.capacity:
            return f"{rows.available_size()} rows of {rows.capabilities.capacity}"
        return ""

    def _left(self, name: str) -> int:
        return len(self.running[name]) - self.computed[name]

    def _admit(self, name: str) -> None:
        if (request := self.waiting.get(name)) is None:
            return
        tokens = array("q", request.tokens)
        self.computed[name] = self.target.begin(name, tokens, request.namespace)
        self.running[name] = list(request.tokens)
        del self.waiting[name]

    def _compute(self, name: str, num_tokens: int) -> None:
        if num_tokens > 0:
            stop = self.computed[name] + num_tokens
            self.target.append(name, array("q", self.running[name][:stop]), num_tokens)
            self.computed[name] = stop
            self.target.publish(name)

    def _leave(self, name: str, how: str) -> None:
        if how == "finish" and self._left(name):
            return
        tokens = array("q", self.running.pop(name))
        leave: Callable[..., Any] = getattr(self.target, how, self.target.abort)
        self.target.end(name, tokens) if how == "finish" else leave(name)

    def _audit(self) -> None:
        """End everything, and evict everything."""
        for name in list(self.running):
            self._leave(name, "abort")
        self.target.evict(self.target.total_size())
        if left := self.target.total_size():
            raise Left(f"{left} tokens are left")


COUNTERS: dict[str, Callable[[Any, Clock], Tree | Pool | Requests]] = {
    "tree": Tree,
    "pool": Pool,
    "requests": Requests,
}
"""What counts, at each level."""
