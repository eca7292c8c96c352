"""A worker as its parent sees it: started when it is first asked, and again whenever it is gone."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import tempfile
import weakref
from collections import Counter, deque
from contextlib import suppress
from pathlib import Path
from typing import Any

from radixcheck.hosts.channel import Channel
from radixcheck.hosts.deaths import detail, how, last_words
from radixcheck.hosts.wire import METHODS, Answer, Answered, Died, Failed, encode, read, read_answer
from radixcheck.journal import BYTES, PLACE, mapped
from radixcheck.registry import TargetError
from radixcheck.sanitizers import environment
from radixcheck.trace import Trace

KILLS_BORNE = 30
"""So often a process may be killed by who knows whom before that is taken for an answer."""

SAME_BORNE = 3
"""So often at one and the same operation."""

GRACE_S = 2.0

IMPORT_S = 120.0
"""A target may be compiled when it is imported."""


class Ended(Exception):
    """The process that judged is dead, and the reason lies in what it was asked."""

    def __init__(self, death: Died) -> None:
        super().__init__(how(death))
        self.death = death


class Worker:
    """Asks a worker, and survives it.

    Args:
        spec: the target, which only the worker resolves.
        memory_bytes: what its process may take.
    """

    def __init__(self, spec: str, memory_bytes: int) -> None:
        self.kills = 0
        """How often something else ended the process, and the question was asked again."""
        self._spec = spec
        self._memory_bytes = memory_bytes
        self._output = tempfile.TemporaryFile("a+b")  # noqa: SIM115 - as long as this object
        self._journal = tempfile.TemporaryFile()  # noqa: SIM115 - as that one
        self._journal.truncate(BYTES)
        self._cells = mapped(self._journal.fileno())
        self._variables: dict[str, str] = {}
        self._trace: Trace | None = None
        self._asked: deque[bytes] = deque()
        """Questions that were sent and are not answered yet, the first of them first."""
        self._early: dict[bytes, Answer] = {}
        """Answers that came before anybody waited for them, by their question."""
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: Channel | None = None
        self._end: weakref.finalize[..., Any] | None = None

    def begin(self, patience_s: float, name: str, *arguments: Any) -> None:
        """Ask, and do something else before the same question is asked again for its answer. A
        worker turns to the next question as soon as it has answered one."""
        self._send(encode((patience_s, False, name, arguments)))

    def ask(self, patience_s: float, name: str, *arguments: Any, fresh: bool = False) -> Any:
        """Ask for a method of `METHODS`, and return its answer.

        Args:
            fresh: ask a process that has judged nothing yet, so that nothing can have damaged it.

        Raises:
            Ended: the process died of it, or hangs, or grew too big.
            TargetError, BadAnswer: the method raised it, or the target cannot be imported.
        """
        question = encode((patience_s, fresh, name, arguments))
        self._trace = next((each for each in arguments if isinstance(each, Trace)), None)
        killed: Counter[int] = Counter()
        while True:
            answer = self._exchange(question)
            if isinstance(answer, Failed) and answer.library and not self._variables:
                self.close()
                self._variables = environment(Path(answer.library))
                answer = self._exchange(question)
            if not isinstance(answer, Died):
                break
            killed[answer.place] += 1
            if answer.signal != signal.SIGKILL or _is_enough(killed):
                raise Ended(answer)
            self.kills += 1
        if isinstance(answer, Answered):
            return METHODS[name].heard(read(METHODS[name].told, answer.value))
        raise answer.error()

    def at(self) -> tuple[int, Trace] | None:
        """Return the operation that is running, by its place, and its trace."""
        place = self._cells[PLACE]
        return None if self._trace is None or place < 0 else (place, self._trace)

    def close(self) -> None:
        """End the worker and all that it has started."""
        if self._end is not None:
            self._end()
        self._process = self._channel = self._end = None
        self._asked.clear()
        self._early.clear()

    def _exchange(self, question: bytes) -> Answer:
        """Wait for the answer to a question, or for the end of whoever should give it."""
        if question in self._early:
            return self._early.pop(question)
        if question not in self._asked:
            self._send(question)
        while (answered := self._asked.popleft()) != question:
            self._early[answered] = self._receive()
            if not self._asked:  # they went with the worker
                self._send(question)
        return self._receive()

    def _receive(self) -> Answer:
        assert self._process is not None and self._channel is not None
        try:
            told = self._channel.receive()
        except BaseException:  # Ctrl-C: nobody waits for that answer any more
            self.close()
            raise
        if told is not None:
            return read_answer(told)
        status, said = self._process.wait(), last_words(self._output.fileno())
        place, calls = self._cells
        self.close()
        if -status != signal.SIGKILL:
            died = Died(signal=-status) if status < 0 else Died(status=status)
            message = f"{self._spec}: its process {how(died)} while it was imported"
            raise TargetError(message, detail(said), "target")
        return Died(signal=signal.SIGKILL, place=place, calls=calls, said=said)

    def _send(self, question: bytes) -> None:
        if self._process is None:
            self._start()
        assert self._channel is not None
        self._channel.send(question)
        self._asked.append(question)

    def _start(self) -> None:
        ours, theirs = Channel.pair()
        descriptors = theirs.fileno(), self._journal.fileno()
        orders = [self._spec, *descriptors, self._memory_bytes, os.getpid()]
        python = [sys.executable, "-uP", "-m", "radixcheck.hosts.worker", *map(str, orders)]
        settings = [f"{name}={value}" for name, value in self._variables.items()]
        self._process = subprocess.Popen(
            ["env", *settings, *python] if settings else python,
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=self._output,
            pass_fds=descriptors,
            start_new_session=True,  # Ctrl-C is for the parent, which decides what becomes of it
        )
        theirs.close()
        self._channel = ours
        self._end = weakref.finalize(self, _end, self._process, ours)
        try:
            self._await_import()
        except BaseException:
            self.close()
            raise

    def _await_import(self) -> None:
        assert self._channel is not None
        if not select.select([self._channel], [], [], IMPORT_S)[0]:
            message = f"{self._spec}: it was not imported within {IMPORT_S:.0f} s"
            raise TargetError(message, detail(last_words(self._output.fileno())), "target")
        self._channel.receive()  # that it is ready; if it has died, the next answer will tell


def _is_enough(killed: Counter[int]) -> bool:
    """Tell whether kills are no accident, by the places of the operations that they came into."""
    there = max((times for place, times in killed.items() if place >= 0), default=0)
    return there >= SAME_BORNE or killed.total() >= KILLS_BORNE


def _end(process: subprocess.Popen[bytes], channel: Channel) -> None:
    """Let a worker end, or make it; and then whatever is left of its session."""
    channel.close()
    with suppress(subprocess.TimeoutExpired):
        process.wait(GRACE_S)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
