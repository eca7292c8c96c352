"""Weigh: whether memory grows from round to round, although what is stored does not explain it.

What lies between two weighings is a round. Rounds are equal if the same kinds of operations with
the same amounts were tried, and the same number of tokens came to be stored::

    weigh  insert match inc_ref evict  weigh  insert match inc_ref evict  weigh  ...
           '------- a round ---------'        '------- an equal one ----'

The first equal rounds are the warm-up, in which a target may fill whatever it keeps on purpose:
blocks for later, a buffer that is doubled. Then memory may grow by twice what all stored tokens
need, or stop growing for a single round; else something is retained.
"""

from __future__ import annotations

from typing import TypeAlias

from radixcheck.checker.broken import Broken, counted
from radixcheck.operations import Operation
from radixcheck.storage import num_bytes

WARM_UP = 16
"""Equal rounds that are not judged."""

ROUNDS = 5
"""Equal rounds, one after the other, in each of which memory must have grown."""

TOKEN_BYTES = 32
"""What one stored token may need: its slot, its key, a hash and a stamp, of 8 bytes each."""

SMALL_BYTES = 8192
"""So much more is nobody's leak: counters, and a ring of the latest times."""

Shape: TypeAlias = tuple[tuple[str, int, int], ...]


class Scales:
    """The weighings of one trace.

    Args:
        target: whose memory it is; of a pool, also what it has handed out.
    """

    def __init__(self, target: object) -> None:
        self._target = target
        self._shape: list[tuple[str, int, int]] = []
        """The operations since the last weighing."""
        self._round: tuple[Shape, int] | None = None
        """The last round: its operations, and by how much the stored tokens grew."""
        self._stored = 0
        self._weights: list[int] = []
        """Bytes before the first of the equal rounds, and after each."""

    def note(self, operation: Operation) -> None:
        """An operation belongs to the round that has begun."""
        tokens, amount = getattr(operation, "tokens", ()), getattr(operation, "num_tokens", 0)
        self._shape.append((operation.kind, len(tokens), amount))

    def weigh(self, stored: int) -> tuple[int, Broken | None]:
        """End a round with `stored` tokens; return the bytes, and the rule if it is broken."""
        weight, this = num_bytes(self._target), (tuple(self._shape), stored - self._stored)
        if this != self._round:
            self._weights = self._weights[-1:]
        self._weights.append(weight)
        self._shape, self._round, self._stored = [], this, stored
        return weight, self._judge(stored)

    def _judge(self, stored: int) -> Broken | None:
        after = self._weights[WARM_UP:]
        rounds = 0
        while rounds + 1 < len(after) and after[-rounds - 2] < after[-rounds - 1]:
            rounds += 1
        if rounds < ROUNDS:
            return None
        first, last = after[-rounds - 1], after[-1]
        allowed = 2 * TOKEN_BYTES * stored + SMALL_BYTES
        if last - first <= allowed:
            return None
        return Broken(
            "retained-storage",
            f"at most {allowed} bytes more in {rounds} equal rounds",
            f"{last - first} bytes more: {first} grew to {last}",
            f"{counted(stored)} are stored, which need {stored * TOKEN_BYTES} bytes or less",
        )
