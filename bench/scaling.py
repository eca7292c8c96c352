"""Whether checking gets slower as the tree grows: the same 1,000 hot keys among 10^3 to 10^6
tokens.

    python bench/scaling.py

The target plays recorded answers back, so that only the checker's own cost is seen. The bar is the
cost with 10^6 tokens stored over the cost with 10^3. Uniform access to all keys, which no cache
of the processor can hold, is shown beside it.
"""

from __future__ import annotations

import gc
import random
import sys
import time

from workload import Tape

from radixcheck.checker.judge import Checker
from radixcheck.clock import Clock
from radixcheck.operations import AnyOperation, DecRef, IncRef, Insert, MatchPrefix, Tokens
from radixcheck.registry import Source, resolve

SIZES = (1_000, 10_000, 100_000, 1_000_000)
HOT_KEYS = 1_000
KEY_TOKENS = 32
SHARED_TOKENS = 31
OPERATIONS = 20_000
BAR = 1.3


def main() -> int:
    """Measure every size, and tell whether the largest is within the bar."""
    source = resolve("radix-paged")
    hot = {size: measure(source, size, uniform=False) for size in SIZES}
    cold = {size: measure(source, size, uniform=True) for size in SIZES}
    for size in SIZES:
        print(f"checker with {size:,} tokens, hot keys: {hot[size]:.2f} us/operation")
        print(f"checker with {size:,} tokens, uniform: {cold[size]:.2f} us/operation")
    growth = hot[SIZES[-1]] / hot[SIZES[0]]
    print(f"growth from 10^3 to 10^6 tokens: {growth:.2f} (bar {BAR}, below is better)")
    return 0 if growth <= BAR else 1


def measure(source: Source, size: int, *, uniform: bool) -> float:
    """Return the checker's microseconds per operation with `size` tokens stored."""
    filler, hot = _keys(size)
    clock = Clock()
    tape = Tape(source.open({}, clock))
    fill = [Insert(key) for key in (*hot, *filler)]
    mix = list(_mix(hot + filler if uniform else hot))
    checker = Checker(tape, clock)
    for operation in (*fill, *mix):
        assert checker.apply(operation) is None
    times = []
    for _ in range(3):
        tape.rewind()
        checker = Checker(tape, Clock())
        for operation in fill:
            checker.apply(operation)
        gc.collect()
        gc.freeze()
        began = time.process_time()
        for operation in mix:
            checker.apply(operation)
        times.append(time.process_time() - began)
        gc.unfreeze()
    return min(times) / len(mix) * 1e6


def _keys(size: int) -> tuple[list[Tokens], list[Tokens]]:
    """Return keys that fill the tree up to `size` tokens, and the hot ones: siblings of one
    prefix."""
    rng = random.Random(1)
    prefix = tuple(rng.randrange(32_000) for _ in range(SHARED_TOKENS))
    hot = [(*prefix, 40_000 + place) for place in range(min(HOT_KEYS, size - SHARED_TOKENS))]
    missing = (size - HOT_KEYS - SHARED_TOKENS) // KEY_TOKENS
    filler = [tuple(rng.randrange(32_000) for _ in range(KEY_TOKENS)) for _ in range(missing)]
    return filler, hot


def _mix(keys: list[Tokens]) -> list[AnyOperation]:
    rng = random.Random(2)
    operations: list[AnyOperation] = []
    while len(operations) < OPERATIONS:
        key, handle = rng.choice(keys), f"h{len(operations)}"
        operations += (
            MatchPrefix(key, handle=handle),
            IncRef(handle),
            Insert(key, lent=handle),
            DecRef(handle),
        )
    return operations


if __name__ == "__main__":
    sys.exit(main())
