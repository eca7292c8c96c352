"""Bugs of time."""

from __future__ import annotations

from typing import Any

from radixcheck.targets.mutants.catalogue import mutant
from radixcheck.targets.radix_paged import RadixPaged


@mutant("sglang-6177-wall-clock", "SGLang #6177", "eviction-order")
class TrustsTheClock(RadixPaged):
    """Takes the clock's reading for the time, so that a step back turns the order round."""

    def _now(self) -> None:
        reading: Any = self._clock()
        self._time = reading
