"""Workers on this machine: processes, each with one task at a time, looked after from outside.

A worker may die of its task, hang in it, or eat memory. Then it is ended, another takes its place,
and whoever gave the task learns what became of it.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from typing import Any

from radixcheck.campaign.pool import Done, PoolError
from radixcheck.campaign.unit import Task, encode, read_harvest
from radixcheck.hosts.channel import Channel
from radixcheck.hosts.deaths import how
from radixcheck.hosts.life import resident_bytes
from radixcheck.hosts.wire import Died
from radixcheck.hosts.worker import MOST_SAID, OPENING_S
from radixcheck.journal import BYTES, CALLS, PLACE, Cells, mapped

LOOK_EVERY_S = 0.05
"""So often workers are looked at that have not answered."""

GROWN = 0.5
"""A worker that has more than this part of its memory limit is replaced after its task."""

GRACE_S = 60.0
"""An isolated target has limits of its own: so much longer than its task says may one take."""


class Workers:
    """Runs tasks in processes of this machine.

    Args:
        size: how many at a time.
        memory_bytes: what each process may take.
    """

    stuck = False

    def __init__(self, size: int, memory_bytes: int) -> None:
        self.size = size
        self.replaced = 0
        """How often a worker had grown too big over its tasks."""
        self._memory_bytes = memory_bytes
        self._idle: list[_Worker] = []
        self._busy: list[_Worker] = []

    @property
    def running(self) -> int:
        """How many tasks are running."""
        return len(self._busy)

    @property
    def notes(self) -> list[str]:
        """What is to be said of the workers."""
        if not self.replaced:
            return []
        limit = f"{self._memory_bytes * GROWN / 2**20:,.0f} MiB"
        return [f"a worker was replaced {self.replaced} times, since it had grown beyond {limit}"]

    def pids(self) -> list[int]:
        """Return the processes that run now."""
        return [worker.process.pid for worker in (*self._idle, *self._busy)]

    def submit(self, task: Task) -> None:
        """Let a worker do a task.

        Raises:
            PoolError: the system lets no process be started.
        """
        worker = self._idle.pop() if self._idle else self._started()
        worker.begin(task)
        self._busy.append(worker)

    def done(self, wait_s: float) -> list[Done]:
        """Wait at most so long for a task to be done, and return those that are."""
        until_s = time.monotonic() + wait_s
        while self._busy:
            left_s = max(0.0, min(LOOK_EVERY_S, until_s - time.monotonic()))
            ready = select.select([each.channel for each in self._busy], [], [], left_s)[0]
            done = [self._heard(each) for each in list(self._busy) if each.channel in ready]
            exceeded = [(each, why) for each in self._busy if (why := self._why(each))]
            done += [self._ended(each, why) for each, why in exceeded]
            if done or time.monotonic() >= until_s:
                return done
        time.sleep(max(0.0, until_s - time.monotonic()))
        return []

    def close(self) -> None:
        """End every worker and whatever its target has started."""
        for worker in (*self._idle, *self._busy):
            worker.end()
        self._idle, self._busy = [], []

    def _started(self) -> _Worker:
        try:
            return _Worker()
        except OSError as error:
            hint = "fewer of them, with -j, or a machine with more room"
            raise PoolError(f"a worker cannot be started: {error.strerror}", hint) from error

    def _heard(self, worker: _Worker) -> Done:
        told = worker.channel.receive()
        if told is None:
            return self._ended(worker, "")
        self._busy.remove(worker)
        task, worker.task = worker.task, None
        assert task is not None
        if resident_bytes(worker.process.pid) > self._memory_bytes * GROWN:
            self.replaced += 1
            worker.end()
        else:
            self._idle.append(worker)
        return Done(task, read_harvest(told))

    def _why(self, worker: _Worker) -> str:
        """Say why a worker that is busy must be ended; nothing if it need not."""
        worker.forget_output()
        if resident_bytes(worker.process.pid) > self._memory_bytes:
            return how(Died(limit="memory", allowed=self._memory_bytes))
        return worker.stuck()

    def _ended(self, worker: _Worker, why: str) -> Done:
        self._busy.remove(worker)
        task = worker.task
        assert task is not None
        end = worker.end()
        return Done(task, None, why or end)


class _Worker:
    """One process, its channel, and its journal."""

    def __init__(self) -> None:
        self.channel, theirs = Channel.pair()
        self._journal = tempfile.TemporaryFile()  # noqa: SIM115 - as long as this object
        self._journal.truncate(BYTES)
        self._output = tempfile.TemporaryFile("a+b")  # noqa: SIM115 - as that one
        self._cells: Cells = mapped(self._journal.fileno())
        self.task: Task | None = None
        self._since_s = self._begun_s = 0.0
        self._seen: Any = None
        descriptors = theirs.fileno(), self._journal.fileno()
        self.process = subprocess.Popen(
            [sys.executable, "-uP", "-m", "radixcheck.campaign.worker", *map(str, descriptors)],
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=self._output,
            pass_fds=descriptors,
            start_new_session=True,  # Ctrl-C is for the parent, which decides what becomes of it
        )
        theirs.close()

    def begin(self, task: Task) -> None:
        """Give it a task."""
        self.task = task
        self._seen, self._begun_s = None, time.monotonic()
        self.channel.send(encode(task))

    def stuck(self) -> str:
        """Say that a call does not come back; nothing as long as there are signs of life."""
        assert self.task is not None
        now_s, limits = time.monotonic(), self.task.limits
        if self.task.isolate:
            allowed_s = self.task.max_time_s + OPENING_S + GRACE_S + limits.op_timeout_s
            return _no_answer(allowed_s) if now_s - self._begun_s > allowed_s else ""
        seen = self._cells[PLACE], self._cells[CALLS]
        if seen != self._seen:
            self._seen, self._since_s = seen, now_s
        allowed_s = limits.op_timeout_s if seen[0] >= 0 else max(OPENING_S, limits.op_timeout_s)
        return _no_answer(allowed_s) if now_s - self._since_s > allowed_s else ""

    def forget_output(self) -> None:
        """Cut off what the target has printed, before it fills the disk."""
        if os.fstat(self._output.fileno()).st_size > MOST_SAID:
            os.ftruncate(self._output.fileno(), 0)

    def end(self) -> str:
        """End it and all that it has started; say how it had ended, if it had."""
        self.channel.close()
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        status = self.process.wait()
        self._journal.close()
        self._output.close()
        return how(Died(signal=-status) if status < 0 else Died(status=status))


def _no_answer(allowed_s: float) -> str:
    return how(Died(limit="time", allowed=allowed_s))
