"""What runs tasks, on this machine or on many: tasks go in, and all of them come out again."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from radixcheck.campaign.unit import Harvest, Task


class Done(NamedTuple):
    """A task that is no longer running."""

    task: Task
    harvest: Harvest | None
    """What it has brought; None where its worker was lost."""
    lost: str = ""
    """How the worker was lost: ``died of SIGSEGV``."""


class PoolError(Exception):
    """There is nobody left to run tasks; the message says why."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class Pool(Protocol):
    """Runs as many tasks at a time as it has workers."""

    @property
    def size(self) -> int:
        """How many workers there are, now."""
        ...

    @property
    def running(self) -> int:
        """How many tasks are running."""
        ...

    @property
    def notes(self) -> list[str]:
        """What is to be said of the workers."""
        ...

    @property
    def stuck(self) -> bool:
        """Whether it could not be closed, so that this process cannot end in order."""
        ...

    def submit(self, task: Task) -> None:
        """Let a worker do a task. There must be a worker that does nothing.

        Raises:
            PoolError: no worker can be started.
        """
        ...

    def done(self, wait_s: float) -> list[Done]:
        """Wait at most so long for a task to be done, and return those that are.

        Raises:
            PoolError: nobody will ever be done.
        """
        ...

    def close(self) -> None:
        """End every worker and whatever its target has started, whatever they are at."""
        ...
