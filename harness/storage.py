"""How many bytes of tensors and arrays hang on an object.

A view keeps the whole storage that it looks into alive, however little it shows. So what counts is
each distinct storage once, in full, whether one view of it is left or a hundred.

No library is imported here: an object can hold a tensor only if somebody has imported torch.
"""

from __future__ import annotations

import gc
import sys
from array import array
from types import CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

ENDS = (ModuleType, type, CodeType, FrameType)
"""What leads from one object to the whole program."""

ATOMS = frozenset((int, float, bool, str, bytes, complex, type(None)))
"""What holds nothing."""


class Storage(NamedTuple):
    """A run of memory behind one or more views."""

    address: int
    num_bytes: int


def storages(root: object) -> set[Storage]:
    """Return the distinct storages that can be reached from `root`.

    Attributes, containers, closures and bound methods are followed; modules, classes and the
    globals of functions are not. It takes time in proportion to all that is reached.
    """
    found: set[Storage] = set()
    seen, waiting = {id(root)}, [root]
    while waiting:
        each = waiting.pop()
        if (storage := _storage(each)) is not None:
            found.add(storage)
            continue
        for held in _held(each):
            if type(held) not in ATOMS and id(held) not in seen:
                seen.add(id(held))
                waiting.append(held)
    return found


def num_bytes(root: object) -> int:
    """Count the bytes of all storages that can be reached from `root`."""
    return sum(storage.num_bytes for storage in storages(root))


def _held(each: Any) -> list[Any]:
    if isinstance(each, ENDS):
        return []
    if isinstance(each, FunctionType):
        return list(each.__closure__ or ())
    if isinstance(each, MethodType):
        return [each.__self__, each.__func__]
    return gc.get_referents(each)


def _storage(each: Any) -> Storage | None:
    """Return what lies behind a tensor, an array or a view of one; None for anything else."""
    if isinstance(each, array):
        return Storage(*_buffer(each))
    if isinstance(each, memoryview):
        return _storage(each.obj) or Storage(id(each.obj), memoryview(each.obj).nbytes)
    if _is_a(each, "torch", "Tensor"):
        memory = each.untyped_storage()
        return Storage(memory.data_ptr(), memory.nbytes())
    return _behind_numpy(each) if _is_a(each, "numpy", "ndarray") else None


def _buffer(each: array[Any]) -> tuple[int, int]:
    address, length = each.buffer_info()
    return address, length * each.itemsize


def _is_a(each: object, library: str, name: str) -> bool:
    loaded = sys.modules.get(library)
    kind = getattr(loaded, name, None)
    return kind is not None and isinstance(each, kind)


def _behind_numpy(view: Any) -> Storage:
    """Go down from a numpy view to the array, or the other thing, that owns the memory."""
    while view.base is not None:
        if not _is_a(view.base, "numpy", "ndarray"):
            return _storage(view.base) or Storage(id(view.base), view.nbytes)
        view = view.base
    return Storage(view.ctypes.data, view.nbytes)
