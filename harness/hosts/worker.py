"""What runs in a worker: a process that imports the target once, and forks one that judges.

::

    parent ──question──► worker ──question──► child     judges until it dies
           ◄──answer──── (imports) ◄──answer──          tells the journal what it is at

The child does everything that could end it: it opens targets, calls them, and compares. The worker
watches. When the child dies it says how, and forks the next, which costs milliseconds: so a crash
can be shrunk by hundreds of probes.
"""

from __future__ import annotations

import faulthandler
import gc
import os
import select
import signal
import sys
import threading
import time
from collections import deque
from typing import Literal, NamedTuple, NoReturn, TypeAlias

from msgspec import structs

from radixcheck.buffers import BadAnswer, legible
from radixcheck.checker.calls import said
from radixcheck.collecting import rare_collections
from radixcheck.hosts.channel import Channel
from radixcheck.hosts.deaths import last_words
from radixcheck.hosts.here import Here
from radixcheck.hosts.life import (
    alone,
    die_with,
    has_ended,
    is_sanitized,
    outlive_parent,
    resident_bytes,
)
from radixcheck.hosts.wire import (
    METHODS,
    READY,
    Died,
    Failed,
    answered,
    encode,
    read,
    read_question,
)
from radixcheck.journal import CALLS, JOURNAL, OUTSIDE, PLACE
from radixcheck.registry import Source, TargetError, resolve
from radixcheck.sanitizers import NotPreloaded

LOOK_EVERY_S = 0.02
"""So often the worker looks at a child that has not answered yet."""

WEIGH_EVERY = 16
"""After so many answers a child is looked at that has never been slow enough to be."""

OPENING_S = 120.0
"""The patience while no operation runs: a target may be compiled before it opens."""

SMALL = 1 << 15
"""A question of fewer bytes fits into a channel, whether or not the other end reads."""

MOST_SAID = 4_000_000
"""Bytes of output after which a target's words are forgotten, for it to begin anew."""

TOLD_S = 0.02
"""A child that hangs has so long to say where."""

Limit: TypeAlias = Literal["", "time", "memory"]


class Orders(NamedTuple):
    """What a worker is told when it starts, on its command line."""

    spec: str
    channel: int
    """Descriptor of the socket to the parent."""
    journal: int
    """Descriptor of the file to map."""
    memory_bytes: int
    parent: int
    """The process without which there is no reason to live."""


def main(arguments: list[str]) -> None:
    """Serve the parent until it is gone."""
    orders = Orders(arguments[0], *map(int, arguments[1:]))
    die_with(orders.parent)
    above = Channel.of(orders.channel)
    JOURNAL.share(orders.journal)
    output = os.dup(2)  # a target may put a file of its own in the place of stderr
    _tell_where()
    try:
        with alone():
            source = resolve(orders.spec)
        _check_threads(source)
    except Exception as error:
        above.send(READY)
        while above.receive() is not None:
            above.send(encode(_failed(error)))
        return
    gc.collect()
    gc.freeze()  # what is imported is shared with every child, as long as nobody touches it
    above.send(READY)
    outlive_parent()  # from now on the end of the channel says so, in time to clean up
    _Worker(source, above, orders.memory_bytes, output).serve()
    os.killpg(0, signal.SIGKILL)  # whatever the target has started


def _check_threads(source: Source) -> None:
    """See that a fork takes along all that the import has made.

    Raises:
        TargetError: threads run already, and a fork would leave them behind.
    """
    if threading.active_count() > 1:
        raise TargetError(
            f"{source.name}: its import starts threads, and they would not survive the fork that "
            "isolates it",
            "start them in the factory, or use --no-isolate",
            "adapter",
        )


# ---- the worker --------------------------------------------------------------------------


class _Child(NamedTuple):
    pid: int
    channel: Channel

    def end(self) -> int:
        """Kill it, if it lives, and return its wait status."""
        os.kill(self.pid, signal.SIGKILL)
        return self.buried()

    def buried(self) -> int:
        """Wait for its end, and return its wait status."""
        self.channel.close()
        return os.waitpid(self.pid, 0)[1]


class _Worker:
    def __init__(self, source: Source, above: Channel, memory_bytes: int, output: int) -> None:
        self._source = source
        self._above = above
        self._memory_bytes = memory_bytes
        self._output = output
        # Ignored, it would hide how a child ends. The target shall have what it has chosen.
        self._on_child = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._child: _Child | None = None
        self._questions: deque[bytes] = deque()
        """Those without an answer; the child has the first `_passed` of them."""
        self._passed = 0
        self._answers = 0

    def serve(self) -> None:
        """Pass questions down and answers up."""
        while self._questions or self._hear():
            if (answer := self._answer(self._questions[0])) is None:
                break
            self._questions.popleft()
            self._passed = max(0, self._passed - 1)
            self._above.send(answer)
        if self._child is not None:
            self._child.end()

    def _hear(self) -> bool:
        """Take in one more question; False where nobody wants to know anything any more."""
        if (question := self._above.receive()) is None:
            return False
        self._questions.append(question)
        return True

    def _answer(self, question: bytes) -> bytes | None:
        """Return the child's answer, or how it died; None where nobody wants to know any more."""
        patience_s, fresh, *_ = read_question(question)
        if fresh and self._child is not None:
            self._lose(self._child).end()
        child = self._child = self._child or self._fork()
        if not self._passed:
            self._pass_on(child, question)
        watch = _Watch(child.pid, patience_s, self._memory_bytes, self._output)
        while child.channel not in (ready := _ready(child.channel, self._above)):
            if ready:
                if not self._hear():
                    return None
                self._prepare(child)
            if not ready and has_ended(child.pid) and not _ready(child.channel):
                return self._died(child)  # what it has forked still holds its end of the channel
            if not ready and (limit := watch.exceeded()):
                return self._ended(child, limit, patience_s)
        if (answer := child.channel.receive()) is None:
            return self._died(child)
        self._answers += 1
        if self._answers % WEIGH_EVERY == 0 and watch.is_too_big():
            self._lose(child).end()  # grown over many traces, which is the fault of none
        return answer

    def _prepare(self, child: _Child) -> None:
        """Pass on what comes after the question that is answered now, if the child need not take it
        out of the way, nor be another one: then it has no reason to wait."""
        further = self._questions[self._passed]
        _, fresh, *_ = read_question(further)
        if not fresh and self._passed == 1 and len(further) < SMALL:
            self._pass_on(child, further)

    def _pass_on(self, child: _Child, question: bytes) -> None:
        child.channel.send(question)
        self._passed += 1

    def _lose(self, child: _Child) -> _Child:
        """Have no child any more; the next one knows no question."""
        self._child, self._passed = None, 0
        return child

    def _died(self, child: _Child) -> bytes:
        status = self._lose(child).buried()
        if os.WIFSIGNALED(status):
            return self._told(Died(signal=os.WTERMSIG(status)))
        return self._told(Died(status=os.WEXITSTATUS(status)))

    def _ended(self, child: _Child, limit: Limit, patience_s: float) -> bytes:
        if limit == "time":
            os.kill(child.pid, signal.SIGUSR1)
            select.select([child.channel], [], [], TOLD_S)
        self._lose(child).end()
        allowed = patience_s if limit == "time" else self._memory_bytes
        return self._told(Died(limit=limit, allowed=allowed))

    def _told(self, death: Died) -> bytes:
        """Encode a death, with what is known of the moment."""
        place, calls = JOURNAL.cells
        said = last_words(self._output)
        return encode(structs.replace(death, place=place, calls=calls, said=said))

    def _fork(self) -> _Child:
        ours, theirs = Channel.pair()
        worker = os.getpid()
        if pid := os.fork():
            theirs.close()
            return _Child(pid, ours)
        die_with(worker)
        signal.signal(signal.SIGCHLD, self._on_child)
        self._above.close()
        ours.close()
        _judge(Here(self._source), theirs, self._output)


def _ready(*channels: Channel) -> list[Channel]:
    return select.select(channels, [], [], LOOK_EVERY_S)[0]


def _forget(output: int) -> None:
    """Both streams are one file, and share their place in it."""
    if os.fstat(output).st_size:
        os.ftruncate(output, 0)
        os.lseek(output, 0, os.SEEK_SET)


class _Watch:
    """Looks from outside whether a child gets on, and how big it is."""

    def __init__(self, pid: int, patience_s: float, memory_bytes: int, output: int) -> None:
        self._pid = pid
        self._output = output
        self._patience_s = patience_s
        self._memory_bytes = memory_bytes
        self._seen = (OUTSIDE, -1)
        self._since_s = time.monotonic()

    def exceeded(self) -> Limit:
        """Name the limit that the child exceeds."""
        if os.fstat(self._output).st_size > MOST_SAID:
            _forget(self._output)
        if self.is_too_big():
            return "memory"
        seen = JOURNAL.cells[PLACE], JOURNAL.cells[CALLS]
        now_s = time.monotonic()
        if seen != self._seen:
            self._seen, self._since_s = seen, now_s
        patience_s = max(OPENING_S, self._patience_s) if seen[0] < 0 else self._patience_s
        return "time" if now_s - self._since_s > patience_s else ""

    def is_too_big(self) -> bool:
        """Tell whether the child has more memory than it may."""
        return resident_bytes(self._pid) > self._memory_bytes


# ---- the child ---------------------------------------------------------------------------


@rare_collections()
def _judge(host: Here, above: Channel, output: int) -> NoReturn:
    """Answer one question after the other, until this process dies of one."""
    while (question := above.receive()) is not None:
        JOURNAL.cells[PLACE], JOURNAL.cells[CALLS] = OUTSIDE, 0
        _forget(output)
        above.send(_tried(host, question))
    os._exit(0)


def _tell_where() -> None:
    """Write the frames to stderr when a fatal signal comes, or the one for a child that hangs.

    Where a sanitizer is loaded, it says more about a fatal signal, if it is the one to be told.
    """
    faulthandler.register(signal.SIGUSR1)
    if not is_sanitized():
        faulthandler.enable()


def _tried(host: Here, question: bytes) -> bytes:
    _, _, name, arguments = read_question(question)
    method = METHODS[name]
    try:
        answer = getattr(host, name)(*read(method.takes, arguments))
    except BaseException as error:
        return encode(_failed(error))
    return answered(method.tell(answer), host.source.spec)


def _failed(error: BaseException) -> Failed:
    notes = tuple(map(legible, getattr(error, "__notes__", ())))
    if isinstance(error, TargetError):
        library = _library(error)
        return Failed("target", error.message, error.hint, error.fault, notes, library)
    if isinstance(error, BadAnswer):
        return Failed("adapter", str(error), notes=notes)
    if not isinstance(error, Exception):
        raised = f"it raised {type(error).__name__}, which is no Exception: {said(error)}"
        return Failed("target", raised, "raise Refused, or any Exception, instead", "target", notes)
    told = f"in the worker: {type(error).__name__}: {said(error)}"
    return Failed("harness", told, notes=(*notes, *_frames(error)))


def _library(error: BaseException) -> str:
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, NotPreloaded):
        cause = cause.__cause__
    return str(cause.library) if cause else ""


def _frames(error: BaseException) -> list[str]:
    import traceback

    frames = traceback.extract_tb(error.__traceback__)
    return [f"{frame.filename}:{frame.lineno}, in {frame.name}" for frame in frames]


if __name__ == "__main__":
    main(sys.argv[1:])
