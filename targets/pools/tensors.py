"""A correct pool in torch, on any device: free pages, holders and the KV buffer are tensors."""

from __future__ import annotations

from types import ModuleType
from typing import Any, ClassVar, Literal

from radixcheck.capabilities import PoolCapabilities
from radixcheck.protocol import Refused, Supports


class PoolTorch:
    """A pool whose slots never visit the host one by one.

    Args:
        page_size: slots of a page; page 0 is reserved.
        capacity: slots that can be held at once; what fills no page is never used.
        ownership: one holder per slot, or as many as `add_refs` counts.
        device: where everything lives: ``cpu``, ``cuda``, ``cuda:1``; ``auto`` is a GPU if one is
            there.

    Raises:
        ImportError: torch is not installed.
        ValueError: the device is not there, or the capacity is below a page.
    """

    supports: ClassVar[Supports] = {
        "page_size": [1, 4, 16],
        "capacity": [64, 512],
        "ownership": ["exclusive", "counted"],
    }

    def __init__(
        self,
        page_size: int = 1,
        capacity: int = 64,
        ownership: Literal["exclusive", "counted"] = "exclusive",
        device: str = "cpu",
    ) -> None:
        if capacity < page_size:
            raise ValueError(f"capacity={capacity}: a page has {page_size} slots")
        self._torch, device = torch_on(device)
        self._pages = capacity // page_size
        self.capabilities = PoolCapabilities(
            page_size=page_size,
            capacity=self._pages * page_size,
            reserved=page_size,
            ownership=ownership,
            partial_pages="counted",
            misuse="raises",
            deterministic=True,
            slots_as="torch",
            device=device,
            storage="present",
        )
        self.kv = self._zeros(self.capabilities.end)
        """One int64 tag per slot: what stands for its KV."""
        self.reset()

    def reset(self) -> None:
        """Take everything back."""
        self._free = self._torch.arange(1, self._pages + 1, device=self.kv.device)
        self._holders = self._zeros(self.capabilities.end)

    def alloc(self, num_tokens: int) -> Any:
        """Hand out an int64 tensor of `num_tokens` slots."""
        size = self.capabilities.page_size
        count = num_tokens // size
        if count > len(self._free):
            raise Refused(f"{count} pages: {len(self._free)} are free")
        pages, self._free = self._free[:count], self._free[count:]
        places = self._torch.arange(size, device=pages.device)
        slots = (pages[:, None] * size + places).flatten()
        self._holders[slots] = 1
        return slots

    def free(self, slots: Any) -> None:
        """Take one holder off each slot; a page of which nothing is held is free."""
        holders = self._holders.index_add(0, self._inside(slots), -self._torch.ones_like(slots))
        if (holders < 0).any():
            raise Refused("a slot is freed that nobody holds")
        size = self.capabilities.page_size
        pages = self._torch.unique(slots // size)
        idle = (holders.view(-1, size)[pages] == 0).all(dim=1)
        self._holders, self._free = holders, self._torch.cat((self._free, pages[idle]))

    def add_refs(self, slots: Any) -> None:
        """Count one holder more for slots that are held."""
        if (self._holders[self._inside(slots)] == 0).any():
            raise Refused("a slot is shared that nobody holds")
        self._holders.index_add_(0, slots, self._torch.ones_like(slots))

    def available_size(self) -> int:
        """Count the free slots; the host knows it without asking the device."""
        return len(self._free) * self.capabilities.page_size

    def _zeros(self, count: int) -> Any:
        return self._torch.zeros(count, dtype=self._torch.int64, device=self.capabilities.device)

    def _inside(self, slots: Any) -> Any:
        can = self.capabilities
        if ((slots < can.reserved) | (slots >= can.end)).any():
            raise Refused("a slot is not of this pool")
        return slots


def torch_on(device: str) -> tuple[ModuleType, str]:
    """Return torch, and the name of a device that is there: `device` itself, or what ``auto`` is.

    Raises:
        ImportError: torch is not installed.
        ValueError: the device is not there.
    """
    import torch

    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).partition("\n")[0]
        raise ValueError(f"device={device!r} is not there: {reason}") from error
    return torch, device
