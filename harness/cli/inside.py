"""Inside a target: which call Ctrl-C came into."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from traceback import walk_stack, walk_tb
from types import FrameType

from radixcheck.hosts.frames import Place, is_ours
from radixcheck.hosts.process import Worker
from radixcheck.report.steps import show_operation
from radixcheck.trace import Trace


@contextmanager
def interrupts() -> Iterator[list[str]]:
    """Note of each Ctrl-C which call it came into, in the words of `running`.

    A loop may take an interrupt for the end of its time, and then nobody else sees its traceback.
    """
    seen: list[str] = []

    def note(number: int, frame: FrameType | None) -> None:
        seen.append(running(walk_stack(frame)))
        signal.default_int_handler(number, frame)

    before = signal.getsignal(signal.SIGINT)
    usual = before is signal.default_int_handler
    if usual and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, note)
    try:
        yield seen
    finally:
        if signal.getsignal(signal.SIGINT) is note:
            signal.signal(signal.SIGINT, before)


def stopped(stop: KeyboardInterrupt) -> str:
    """Say of a Ctrl-C that nobody took yet which call it came into."""
    return running(reversed(list(walk_tb(stop.__traceback__))))


def running(places: Iterable[Place]) -> str:
    """Say which call of a target is running, and where it is; nothing if none is.

    Args:
        places: the frames, innermost first.
    """
    frames = list(places)
    if told := next(filter(None, map(_in_worker, (frame for frame, _ in frames))), ""):
        return told
    inside = list(takewhile(lambda place: not is_ours(place), frames))
    if not inside or _module(inside[-1][0]).partition(".")[0] in sys.stdlib_module_names:
        return ""
    call = next(filter(None, map(_call, (frame for frame, _ in frames))), "a call")
    (innermost, line), *_ = inside
    code = innermost.f_code
    return f"{call} was running: {code.co_qualname}, {Path(code.co_filename).name}:{line}"


def _in_worker(frame: FrameType) -> str:
    """Name the operation that is running in a worker, if `frame` waits for one."""
    worker = frame.f_locals.get("self")
    if not isinstance(worker, Worker) or (at := worker.at()) is None:
        return ""
    place, trace = at
    return f"{_counted(place, trace)} was running in its worker"


def _counted(place: int, trace: Trace) -> str:
    shown = show_operation(trace.operations[place])
    return f"operation {place + 1} of {len(trace.operations)}, {shown},"


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _call(frame: FrameType) -> str:
    """Name the call that `frame` makes, if it is one that makes calls."""
    known = frame.f_locals
    match _module(frame), frame.f_code.co_name:
        case "radixcheck.verdict", "run":
            return _counted(known["place"], known["self"].trace)
        case "radixcheck.claims.bench", "_call":
            return f"a plain {known['name']}"
        case "radixcheck.registry", "open":
            return "the factory"
    return ""
