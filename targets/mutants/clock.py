"""Bugs of time, and of what decides where times are equal."""

from __future__ import annotations

from random import SystemRandom
from typing import Any

from radixcheck.targets.mutants.catalogue import mutant
from radixcheck.targets.radix_paged import Node, RadixPaged, Rank

ADDRESS = SystemRandom().random
"""Where a node comes to lie: in no two processes, and in no two replicas, the same."""


@mutant("sglang-6177-wall-clock", "SGLang #6177", "eviction-order")
class TrustsTheClock(RadixPaged):
    """Takes the clock's reading for the time, so that a step back turns the order round."""

    def _now(self) -> None:
        reading: Any = self._clock()
        self._time = reading


@mutant("tokenspeed-248-pointer-ties", "TokenSpeed #248", "divergence", "nondeterminism")
class OrdersByAddress(RadixPaged):
    """Orders leaves of the same time by their addresses, so that two replicas part."""

    def reset(self) -> None:
        """Forget everything, addresses included."""
        self._addresses: dict[Node, float] = {}
        super().reset()

    def _rank(self, leaf: Node) -> Rank:
        return *super()._rank(leaf), self._addresses.setdefault(leaf, ADDRESS())
