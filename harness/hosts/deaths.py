"""What is said of a process that died: in a word, in a clause, and what it said itself."""

from __future__ import annotations

import os
import re
from signal import Signals

from radixcheck.hosts.wire import Died
from radixcheck.sanitizers import report

_FRAME = re.compile(r'^  File "(.+)", line (\d+) in (.+)$', re.MULTILINE)
"""A line of what Python writes when a fatal signal comes; the innermost frame is the first."""

_FATAL = "Fatal Python error: "
"""What comes before the frames."""

MOST_READ = 64_000
"""Bytes of a target's last output that are looked at."""

LAST_WORDS = 400
"""Characters of output that are shown."""


def last_words(output: int) -> str:
    """Read the end of the file to which a process wrote its output."""
    start = max(0, os.fstat(output).st_size - MOST_READ)
    return os.pread(output, MOST_READ, start).decode(errors="replace")


def how(death: Died) -> str:
    """Say how a process ended: ``died of SIGSEGV``, ``exited with status 3``."""
    if death.limit == "memory":
        return f"took more than {death.allowed / 2**30:.3g} GiB of memory"
    if death.limit == "time":
        return f"gave no answer within {death.allowed:g} s"
    if told := report(death.said):
        return f"was ended by a sanitizer: {told[0]}"
    return f"died of {_name(death)}" if death.signal else f"exited with status {death.status}"


def cause(death: Died) -> str:
    """Name a death, so that two of one kind have one name."""
    if death.limit:
        return "" if death.limit == "time" else "memory limit"
    if told := report(death.said):
        return told[0]
    return _name(death) if death.signal else f"exit {death.status}"


def detail(said: str) -> str:
    """Return what is worth showing of a dead process's last words."""
    if told := report(said):
        return "\n".join(told[1])
    own, fatal, frames = said.partition(_FATAL)
    words = " ".join(own[-LAST_WORDS:].split())
    if frame := _FRAME.search(frames if fatal else said):
        path, line, function = frame.groups()
        place = f"in {function}, {path}:{line}"
        return f"{words} ({place})" if words and fatal else place
    return words


def _name(death: Died) -> str:
    try:
        return Signals(death.signal).name
    except ValueError:  # a real-time signal has a number only
        return f"signal {death.signal}"
