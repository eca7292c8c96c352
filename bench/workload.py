"""What the benchmarks share: a recorded workload, a caller without checks, a target that plays
answers back."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from radixcheck.buffers import make_slots, make_tokens, read_slots
from radixcheck.checker.judge import Checker
from radixcheck.clock import Clock
from radixcheck.operations import AnyOperation, DecRef, Evict, IncRef, Insert, MatchPrefix, Tokens
from radixcheck.protocol import Evicted, Target
from radixcheck.registry import Source
from radixcheck.slots import SlotPool
from radixcheck.trace import Config

KEY_TOKENS = (16, 64)
SLICE = 500


def workload(num_operations: int, seed: int = 0, prompts: int = 60) -> list[AnyOperation]:
    """Return a serving mix on keys of 16 to 64 tokens: matches, locks, inserts that share prefixes,
    evictions."""
    rng = random.Random(seed)
    bases = [tuple(rng.randrange(32_000) for _ in range(KEY_TOKENS[1])) for _ in range(prompts)]
    operations: list[AnyOperation] = []
    while len(operations) < num_operations:
        operations += _request(rng, bases, f"h{len(operations)}")
    return operations


def _request(rng: random.Random, bases: list[Tokens], handle: str) -> Iterator[AnyOperation]:
    key = rng.choice(bases)[: rng.randint(*KEY_TOKENS)]
    if rng.random() < 0.5:
        part = rng.randrange(len(key))
        key = key[:part] + tuple(
            rng.randrange(32_000) for _ in range(max(KEY_TOKENS[0], len(key)) - part)
        )
    yield MatchPrefix(key, handle=handle)
    yield IncRef(handle)
    yield Insert(key, lent=handle)
    yield DecRef(handle)
    if rng.random() < 0.3:
        yield Evict(rng.choice((16, 32, 64)))


class Rates(NamedTuple):
    """Seconds per operation, and the median shares of two rates that are left when checked."""

    bare_s: float
    model_s: float
    checked_s: float
    share: float
    """Of the bare rate."""
    model_share: float
    """Of the rate of the model alone."""


def measure(source: Source, config: Config, operations: list[AnyOperation]) -> Rates:
    """Time a target alone, the checker alone on recorded answers, and both together.

    They take turns, a slice of the operations each: a machine that is busy now and then is busy
    for neighbours alike, so their ratio holds.
    """
    callers = [caller.apply for caller in _callers(source, config, operations)]
    turns = []
    for start in range(0, len(operations), SLICE):
        turns.append([_time(apply, operations[start : start + SLICE]) for apply in callers])
    bare, model, checked = (sum(column) / len(operations) for column in zip(*turns, strict=True))
    shares = (statistics.median(turn[place] / turn[2] for turn in turns) for place in (0, 1))
    return Rates(bare, model, checked, *shares)


def _callers(
    source: Source, config: Config, operations: list[AnyOperation]
) -> tuple[BareCaller, Checker, Checker]:
    clock = Clock()
    recorder = Tape(source.open(config, clock))
    checker = Checker(recorder, clock)
    for operation in operations:
        assert checker.apply(operation) is None
    recorder.rewind()
    clocks = Clock(), Clock()
    bare, checked = (source.open(config, clock) for clock in clocks)
    return BareCaller(bare, clocks[0]), Checker(recorder, Clock()), Checker(checked, clocks[1])


class BareCaller:
    """Applies operations as an engine would: fresh buffers in, slots to and fro, nothing
    compared."""

    def __init__(self, target: Target, clock: Clock) -> None:
        can = target.capabilities
        self.target, self.clock, self.kind, self.page_size = (
            target,
            clock,
            can.slots_as,
            can.page_size,
        )
        self.aligns = can.unaligned_insert == "caller-aligns"
        self.pool = SlotPool(can.page_size)
        self.handles: dict[str, Any] = {}
        self.lent: dict[str, list[int]] = {}

    def apply(self, operation: AnyOperation) -> None:
        """Apply one operation."""
        self.clock.advance()
        target = self.target
        match operation:
            case MatchPrefix(tokens=tokens, handle=handle):
                _, slots, self.handles[str(handle)] = target.match_prefix(make_tokens(tokens))
                self.lent[str(handle)] = read_slots(slots)
            case Insert(tokens=tokens, lent=lent):
                self._insert(tokens, self.lent[str(lent)])
            case IncRef(handle=handle):
                target.inc_ref(self.handles[handle])
            case DecRef(handle=handle):
                target.dec_ref(self.handles[handle])
            case Evict(num_tokens=num_tokens):
                answer = target.evict(num_tokens)
                groups = answer.groups if isinstance(answer, Evicted) else (answer,)
                for group in groups:
                    self.pool.give_in_any_order(read_slots(group))

    def _insert(self, tokens: Tokens, lent: list[int]) -> None:
        aligned = len(tokens) // self.page_size * self.page_size
        slots = lent + self.pool.take(len(tokens) - len(lent))
        given = aligned if self.aligns else len(slots)
        buffer = make_slots(self.kind, slots[:given])
        existing = self.target.insert(make_tokens(tokens[:given]), buffer, owned_from=len(lent))
        self.pool.give(slots[len(lent) : existing])
        self.pool.give(slots[aligned:])


class Tape:
    """A target that remembers every answer, and after `rewind` gives them again without
    thinking."""

    def __init__(self, target: Target) -> None:
        self.capabilities = target.capabilities
        self._answers: list[Any] = []
        for name in ("match_prefix", "insert", "evict", "inc_ref", "dec_ref"):
            setattr(self, name, self._recording(getattr(target, name)))
        for name in ("evictable_size", "protected_size", "total_size", "dump"):
            if hasattr(target, name):
                setattr(self, name, self._recording(getattr(target, name)))

    def _recording(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            answer = method(*arguments, **named)
            self._answers.append(answer)
            return answer

        return call

    def rewind(self) -> None:
        """Play the answers back from now on."""
        play = iter(self._answers).__next__
        for name in [name for name in vars(self) if name not in ("capabilities", "_answers")]:
            setattr(self, name, lambda *arguments, **named: play())


def _time(apply: Callable[[AnyOperation], Any], operations: list[AnyOperation]) -> float:
    began = time.process_time()
    for operation in operations:
        apply(operation)
    return time.process_time() - began
