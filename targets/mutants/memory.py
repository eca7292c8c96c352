"""Bugs of memory: what a view keeps alive."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import Any, ClassVar

from radixcheck.protocol import Refused
from radixcheck.targets.memory_liars import CutsIntoViews
from radixcheck.targets.mutants.catalogue import mutant
from radixcheck.targets.pools.plain import PoolExclusive


@mutant("sglang-17191-split-keeps-buffer", "SGLang #17191", "retained-storage")
class KeepsTheWholeBuffer(CutsIntoViews):
    """Cuts an edge into two views of one buffer: evicting one half frees no memory."""


class PoolArrays(PoolExclusive):
    """A correct pool whose free slots are one array, and each answer another."""

    promises: ClassVar = {"slots_as": "array", "storage": "present"}
    supports: ClassVar = {"capacity": [64, 512]}

    def reset(self) -> None:
        """Take everything back."""
        super().reset()
        self._free: Any = array("q", self._free)

    def alloc(self, num_tokens: int) -> Any:
        """Hand out the first free slots."""
        if num_tokens > len(self._free):
            raise Refused(f"{num_tokens} slots: {len(self._free)} are free")
        row = self._row()
        taken, self._free = row[:num_tokens], row[num_tokens:]
        self._held.update(taken)
        return taken

    def _row(self) -> Any:
        return self._free

    def _put(self, pages: Iterable[int]) -> None:
        self._free = array("q", [*self._free, *pages])


@mutant("sglang-19332-alloc-is-view", "SGLang #19332", "retained-storage", capacity=512)
class HandsOutViews(PoolArrays):
    """Hands out views of its free list, each of which keeps the whole list alive."""

    def _row(self) -> Any:
        return memoryview(self._free)
