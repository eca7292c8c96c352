"""The KV buffer of a pool, and the tags in it: see `radixcheck.reference.content`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from radixcheck.buffers import slots_maker
from radixcheck.protocol import Pool
from radixcheck.reference import content


class Content:
    """What the slots of a pool hold.

    A pool may bring its own buffer as `kv`: one 64-bit integer per slot, in a list, a numpy array,
    or a torch tensor on the pool's device. One that brings none gets a list.
    """

    def __init__(self, pool: Pool) -> None:
        promises = pool.capabilities
        self._kv: Any = getattr(pool, "kv", None)
        self.is_ours = self._kv is None
        """Whether nobody else can write to the buffer."""
        if self._kv is None:
            self._kv = [content.UNWRITTEN] * promises.end
        library = type(self._kv).__module__.partition(".")[0]
        self._fit: Callable[[Sequence[int]], Any] | None = None
        """Makes slots and tags of the buffer's own kind, where that is no list."""
        if library in ("numpy", "torch"):
            self._fit = slots_maker(library, promises.device)

    def write(self, slots: Sequence[int], tags: Sequence[int]) -> None:
        """Write tags into slots, as prefill and decode write KV."""
        if (fit := self._fit) is not None:
            slots, tags = fit(slots), fit(tags)
        content.write(self._kv, slots, tags)

    def first_wrong(self, slots: Sequence[int], tags: Sequence[int]) -> int | None:
        """Return the first place at which a slot does not hold its tag."""
        if (fit := self._fit) is not None:
            slots, tags = fit(slots), fit(tags)
        return content.compare(self._kv, slots, tags)

    def held(self, slot: int) -> int:
        """Return the tag in a slot."""
        return int(self._kv[slot])
