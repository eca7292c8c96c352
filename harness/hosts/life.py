"""What only the operating system can do about a process: end it with its parent, tell its size, and
tell it from a copy of itself."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from radixcheck.journal import JOURNAL
from radixcheck.sanitizers import RUNTIME

_SET_DEATH_SIGNAL = 1
"""``PR_SET_PDEATHSIG`` of Linux."""


def die_with(parent: int) -> None:
    """End this process as soon as `parent`, which started it, is gone, however that ends.

    Linux does that. Elsewhere the end of the channel between the two must do.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:  # it was gone before
        os._exit(0)


def outlive_parent() -> None:
    """Take `die_with` back."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, 0)


_ALONE: list[int] = []
"""The process that is in a block of `alone`, once for each block."""


@contextmanager
def alone() -> Iterator[None]:
    """Let nobody but this process leave the block. A target may fork and forget to end the child:
    that child would go on judging, and give each answer a second time. It ends with the operation
    during which it was made, or at the end of the block."""
    ours = os.getpid()
    _ALONE.append(ours)
    try:
        yield
    finally:
        _ALONE.pop()
        if os.getpid() != ours:
            os._exit(0)


def _take_journal() -> None:
    """In a child that was forked within `alone`: let it fail where the next operation is noted."""
    if _ALONE:
        cells = JOURNAL.cells
        cells.clear() if isinstance(cells, list) else cells.release()


os.register_at_fork(after_in_child=_take_journal)


def has_ended(child: int) -> bool:
    """Tell whether a child of this process has ended, and leave it to be waited for."""
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def is_sanitized() -> bool:
    """Tell whether the runtime of a sanitizer was put into this process before anything else."""
    try:
        maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return RUNTIME.search(maps) is not None


def resident_bytes(pid: int) -> int:
    """Count the memory that a process has in use for itself, as far as the system tells; else 0.

    Pages of files that are mapped do not count: they may be dropped at any time.
    """
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as told:
            _, resident, shared, *_ = map(int, told.read().split())
            return (resident - shared) * _PAGE_BYTES
    except OSError:
        return 0


_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
