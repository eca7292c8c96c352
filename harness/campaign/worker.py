"""What runs in a worker of this machine: one task after the other, until its parent is gone.

A thread waits for the next task. So it also sees when the parent ends, however that comes about,
and then takes the whole process group along: whatever the target has started does not stay behind.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from threading import Thread
from typing import NoReturn

from radixcheck.arena import Arena
from radixcheck.campaign.unit import Harvest, Task, encode, read_task, work
from radixcheck.hosts import Here, Host, Isolated
from radixcheck.hosts.channel import Channel
from radixcheck.hosts.life import alone
from radixcheck.hosts.wire import untold
from radixcheck.journal import JOURNAL, OUTSIDE, PLACE
from radixcheck.registry import Clash, resolve


def main(channel: int, journal: int) -> NoReturn:
    """Serve the parent until it is gone.

    Args:
        channel: descriptor of the socket to the parent.
        journal: descriptor of the file that says what this process is at.
    """
    JOURNAL.share(journal)
    above, hosts = Channel.of(channel), Hosts()
    tasks: SimpleQueue[bytes] = SimpleQueue()
    Thread(target=_listen, args=(above, tasks), daemon=True).start()
    while True:
        JOURNAL.cells[PLACE] = OUTSIDE
        task = read_task(tasks.get())
        above.send(told(work(task, hosts.of), task.spec))


def told(harvest: Harvest, spec: str) -> bytes:
    """Encode a harvest; of one that cannot travel, why."""
    try:
        return encode(harvest)
    except Exception as error:
        return encode(Harvest(elapsed_s=harvest.elapsed_s, failed=untold(error, spec)))


def _listen(above: Channel, tasks: SimpleQueue[bytes]) -> None:
    while (task := above.receive()) is not None:
        tasks.put(task)
    os.killpg(0, signal.SIGKILL)


class Hosts:
    """Keeps what it takes time to open: targets of this process, and the last isolated one."""

    def __init__(self) -> None:
        self._here: dict[str, Host] = {}
        self._isolated: tuple[Task, Isolated] | None = None

    @contextmanager
    def of(self, task: Task) -> Iterator[Host]:
        """Give the host of a task's target: a process of its own where it needs a module whose name
        another target has taken here.

        Raises:
            TargetError: the spec cannot be resolved.
        """
        yield self._isolate(task) if task.isolate else self._open(task)

    def _open(self, task: Task) -> Host:
        if task.spec not in self._here:
            try:
                with alone():
                    self._here[task.spec] = _Known(resolve(task.spec))
            except Clash:
                return self._isolate(task)
        return self._here[task.spec]

    def _isolate(self, task: Task) -> Isolated:
        if self._isolated is not None:
            before, host = self._isolated
            if (before.spec, before.limits) == (task.spec, task.limits):
                return host
            host.close()
            self._isolated = None
        host = Isolated(task.spec, task.limits)
        self._isolated = task, host
        return host


class _Known(Here):
    """Opens a target in every configuration once, and not for each task."""

    _arenas: list[Arena] | None = None

    def arenas(self) -> list[Arena]:
        if self._arenas is None:
            self._arenas = super().arenas()
        return self._arenas


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
