"""A process that is asked by lines and answers by lines: its pipes, its time, and its death.

It knows nothing of caches. `lend` hands out a server of a command, one that is idle if there is
one, since to start an interpreter costs more than many a trace; `take_back` keeps it for the next.

No server outlives the harness: its stdin ends, whatever ends the harness; on Linux the kernel kills
it too; and it is ended with its whole process group when it is closed.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import os
import select
import shlex
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from functools import cache

from radixcheck.buffers import BadAnswer
from radixcheck.protocol import Crashed, Hung

LONGEST_LINE_BYTES = 16_000_000
KEPT_STDERR_BYTES = 4_000
CHUNK_BYTES = 1 << 16
LAST_BREATH_S = 1.0
"""So long a server that has closed its stdout may take to exit."""

PR_SET_PDEATHSIG = 1


class Server:
    """One process. Once it has died, each further question is answered by its death.

    Raises:
        ValueError: `command` cannot be started.
    """

    def __init__(self, command: str) -> None:
        self._process = _start(command)
        self._owner = os.getpid()
        self._unread = bytearray()
        self._stderr = bytearray()
        self._death: tuple[type[Crashed], str] | None = None
        self.waiting = False
        """Whether an answer is still owed: it may come at any time, as the answer to nothing."""
        self._poll = select.poll()
        self._pipes: dict[int, Callable[[bytes], None]] = {}
        for pipe, take in (("stdout", self._hear), ("stderr", self._keep)):
            number = getattr(self._process, pipe).fileno()
            self._pipes[number] = take
            self._poll.register(number, select.POLLIN)
        os.set_blocking(self._stdin, False)

    @property
    def pid(self) -> int:
        """The number of the process, and of its group."""
        return self._process.pid

    def ask(self, line: bytes, timeout_s: float) -> bytes:
        """Send `line`, and return the line that comes back.

        Raises:
            Crashed: the process has ended, or closed its stdout.
            Hung: there was no answer within `timeout_s`.
            BadAnswer: what came back is longer than a line may be, or more than one line.
        """
        if self._death is not None:
            self._tell_death()
        deadline = time.monotonic() + timeout_s
        self.waiting = True
        self._send(line + b"\n", deadline, timeout_s)
        while (end := self._unread.find(b"\n")) < 0:
            self._pass_time(deadline, timeout_s)
        answer = bytes(self._unread[:end])
        if len(self._unread) > end + 1:
            raise self.bad("the server answered one line with more", bytes(self._unread))
        self._unread.clear()
        self.waiting = False
        return answer

    def bad(self, trouble: str, line: bytes, hint: str = "docs/protocol.md says how") -> BadAnswer:
        """Describe an answer that cannot be read, with the end of stderr as a note."""
        error = BadAnswer(trouble, line.decode(errors="replace"), hint)
        if said := self.said():
            error.add_note(f"stderr: {said}")
        return error

    def said(self) -> str:
        """Return the end of what the process has written to stderr."""
        return self._stderr.decode(errors="replace").strip()

    def is_idle(self) -> bool:
        """Tell whether it lives, owes nothing, and is ours to ask."""
        usable = self._death is None and not self.waiting and self._owner == os.getpid()
        return usable and _exit_of(self._process) is None

    def close(self) -> None:
        """End the process and all that it has started. A forked copy of us only lets go of it."""
        if self._owner == os.getpid() and self._process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
            self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        self._death = self._death or (Crashed, "was ended")
        _running.discard(self)

    # ---- inside --------------------------------------------------------------------------

    @property
    def _stdin(self) -> int:
        assert self._process.stdin is not None
        return self._process.stdin.fileno()

    def _send(self, line: bytes, deadline: float, timeout_s: float) -> None:
        """Write all of `line`; a server that writes before it has read all must not block us."""
        rest = memoryview(line)
        with suppress(BrokenPipeError):  # what has become of it, its stdout will tell
            while rest:
                try:
                    rest = rest[os.write(self._stdin, rest) :]
                except BlockingIOError:
                    self._poll.register(self._stdin, select.POLLOUT)
                    try:
                        self._pass_time(deadline, timeout_s)
                    finally:
                        self._poll.unregister(self._stdin)

    def _pass_time(self, deadline: float, timeout_s: float) -> None:
        """Wait until something happens, and take what has come."""
        left_s = deadline - time.monotonic()
        ready = self._poll.poll(max(0.0, left_s) * 1000)
        if not ready:
            self._die(Hung, f"gave no answer within {timeout_s:g} s")
        for number, _ in ready:
            if number in self._pipes:
                self._pipes[number](os.read(number, CHUNK_BYTES))

    def _hear(self, data: bytes) -> None:
        if not data:
            self._die(Crashed, _end_of(self._process))
        self._unread += data
        if len(self._unread) > LONGEST_LINE_BYTES:
            trouble = f"the server answered a line of more than {LONGEST_LINE_BYTES:,} bytes"
            raise self.bad(trouble, bytes(self._unread[:200]))

    def _keep(self, data: bytes) -> None:
        assert self._process.stderr is not None
        if not data:
            number = self._process.stderr.fileno()
            del self._pipes[number]
            self._poll.unregister(number)
        self._stderr += data
        del self._stderr[:-KEPT_STDERR_BYTES]

    def _die(self, kind: type[Crashed], what: str) -> None:
        """End what is left of the process, and raise what has become of it."""
        assert self._process.stderr is not None
        number = self._process.stderr.fileno()
        os.set_blocking(number, False)
        with suppress(BlockingIOError):
            while number in self._pipes:
                self._keep(os.read(number, CHUNK_BYTES))
        self._death = kind, what
        self.close()
        self._tell_death()

    def _tell_death(self) -> None:
        assert self._death is not None
        kind, what = self._death
        raise kind(what, self.said())


def _start(command: str) -> subprocess.Popen[bytes]:
    words = _words(command)
    try:
        return subprocess.Popen(
            words,
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            # PLW1509: one system call, ready before the fork: no lock of a thread can stop it.
            preexec_fn=_die_with_parent() if sys.platform == "linux" else None,  # noqa: PLW1509
        )
    except OSError as error:
        raise ValueError(f"{words[0]!r} cannot be started: {error.strerror}") from None


def _words(command: str) -> list[str]:
    if os.name != "posix":
        raise ValueError("cmd: targets need a POSIX system, with pipes that can be waited for")
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ValueError(f"{command!r} is no command line: {error}") from None
    if not words:
        raise ValueError("there is no command: write cmd:./server --flag")
    return words


@cache
def _die_with_parent() -> Callable[[], None]:
    """Return what a process calls before it becomes the server, so that it dies with us. It makes
    one system call and takes no lock, so it may run in a fork of a program with threads."""
    prctl = ctypes.CDLL(None).prctl

    def die_with_parent() -> None:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)

    return die_with_parent


def _exit_of(process: subprocess.Popen[bytes]) -> os.waitid_result | None:
    """Look whether a process has ended, and how; but leave it to be waited for.

    As long as nobody has, its number names its process group and no other.
    """
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)


def _end_of(process: subprocess.Popen[bytes]) -> str:
    """Say how a process ended that has closed its stdout."""
    deadline = time.monotonic() + LAST_BREATH_S
    while (ended := _exit_of(process)) is None:
        if time.monotonic() > deadline:
            return "closed its stdout"
        time.sleep(0.002)
    if ended.si_code == os.CLD_EXITED:
        return f"exited with status {ended.si_status}"
    return f"died of {signal.Signals(ended.si_status).name}"


# ------------------------------------------------------------------------------- who has one

_idle: defaultdict[tuple[str, str], list[Server]] = defaultdict(list)
"""Servers that nobody uses, by command and folder."""
_running: set[Server] = set()

MANY = 4
"""Whoever uses so many servers may have lost some, and only not have collected the garbage."""


def lend(command: str) -> Server:
    """Return a server of `command` that nobody else uses.

    Raises:
        ValueError: it cannot be started.
    """
    idle = _idle[command, os.getcwd()]
    if not idle and len(_running) >= MANY:
        gc.collect()
    while idle:
        if (server := idle.pop()).is_idle():
            return server
        server.close()
    server = Server(command)
    _running.add(server)
    return server


def take_back(command: str, folder: str, server: Server) -> None:
    """Keep `server` for the next who wants one, unless it can no longer be used."""
    if server.is_idle():
        _idle[command, folder].append(server)
    else:
        server.close()


@atexit.register
def close_all() -> None:
    """End every server."""
    _idle.clear()
    for server in list(_running):
        server.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=close_all)
