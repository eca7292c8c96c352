"""The KV buffer of a pool, and the tags in it: see `radixcheck.reference.content`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

from radixcheck.buffers import slots_maker
from radixcheck.protocol import Pool
from radixcheck.reference import content

_Write: TypeAlias = Callable[[Sequence[int], Sequence[int]], None]
_Compare: TypeAlias = Callable[[Sequence[int], Sequence[int]], int | None]


class Content:
    """What the slots of a pool hold.

    A pool may bring its own buffer as `kv`: one 64-bit integer per slot, in a list, a numpy array,
    or a torch tensor on the pool's device. One that brings none gets a list.
    """

    def __init__(self, pool: Pool) -> None:
        promises = pool.capabilities
        self._kv: Any = getattr(pool, "kv", None)
        if self._kv is None:
            self._kv = [content.UNWRITTEN] * promises.end
        library = type(self._kv).__module__.partition(".")[0]
        kind = library if library in ("numpy", "torch") else "list"
        self.write: _Write = partial(content.write, self._kv)
        """Write tags into slots, as prefill and decode write KV."""
        self.first_wrong: _Compare = partial(content.compare, self._kv)
        """Return the first place at which a slot does not hold its tag."""
        if kind != "list":
            fitted = slots_maker(kind, promises.device)
            write, compare = self.write, self.first_wrong
            self.write = lambda slots, tags: write(fitted(slots), fitted(tags))
            self.first_wrong = lambda slots, tags: compare(fitted(slots), fitted(tags))

    def held(self, slot: int) -> int:
        """Return the tag in a slot."""
        return int(self._kv[slot])
