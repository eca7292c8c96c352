"""Workers of a Ray cluster: the same function on many machines, as remote tasks.

Ray sends a task again whose machine or process was lost. On every machine the same Python, the same
radixcheck and the targets must be installed. A target that asks for CUDA gets a GPU.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from socket import create_connection
from typing import Any
from urllib.parse import parse_qsl

from radixcheck.campaign.pool import Done, PoolError
from radixcheck.campaign.unit import Harvest, Task, encode, read_harvest, read_task, work
from radixcheck.campaign.worker import Hosts
from radixcheck.hosts.wire import Failed
from radixcheck.hosts.worker import OPENING_S

AGAIN = 3
"""So often Ray sends a task again before it is lost."""

GRACE_S = 60.0
"""A task may take so much longer than it says, beside the time to open its target."""

COUNT_EVERY_S = 2.0
"""So often the cluster is asked how many cores it has."""

SILENT_S = 5.0
"""A head that accepts no connection within this time is gone."""

PLAIN = re.compile(r"[\w.-]+:\d+")
"""An address that one can knock at, and not the name of one."""

_hosts = Hosts()
"""What a process of the cluster keeps open between its tasks."""


def run_task(task: bytes) -> bytes:
    """Do a task in a process of the cluster."""
    return encode(work(read_task(task), _hosts.of))


class Cluster:
    """Runs tasks on Ray.

    Args:
        address: of the cluster, such as ``10.0.0.1:6379`` or ``auto``; None to start one here.
        most: how many tasks at a time; None for one on each core of the cluster.

    Raises:
        PoolError: Ray is not installed, or no cluster answers.
    """

    def __init__(self, address: str | None, most: int | None = None) -> None:
        self._ray = _ray()
        self.stuck = False
        self._most = most
        self._running: dict[Any, tuple[Task, float]] = {}
        self._refused: list[Done] = []
        self._cores, self._gpus = 0, 0
        self._counted_s = float("-inf")
        self._nodes = self._lost_nodes = 0
        _connect(self._ray, address, most)
        self._head: str = self._ray.get_runtime_context().gcs_address
        self._remote = self._ray.remote(max_retries=AGAIN)(run_task)
        self._count()

    @property
    def size(self) -> int:
        """How many tasks the cluster runs at a time, now: machines come and go."""
        self._count()
        return self._cores if self._most is None else min(self._most, self._cores)

    @property
    def running(self) -> int:
        """How many tasks are running."""
        return len(self._running)

    @property
    def notes(self) -> list[str]:
        """What is to be said of the cluster."""
        return [f"Ray: {self._nodes} machines, {self._lost_nodes} lost, {self._cores} cores"]

    def submit(self, task: Task) -> None:
        """Send a task to the cluster."""
        gpus = int(wants_gpu(task.spec))
        if gpus > self._gpus:
            told = f"{task.spec} asks for a GPU, and no machine of this cluster has one"
            self._refused.append(Done(task, Harvest(failed=Failed("target", told))))
            return
        with _gone_otherwise():
            sent = self._remote.options(num_gpus=gpus).remote(encode(task))
        self._running[sent] = task, time.monotonic()

    def done(self, wait_s: float) -> list[Done]:
        """Wait at most so long for a task to be done, and return those that are.

        Raises:
            PoolError: the cluster is gone.
        """
        refused, self._refused = self._refused, []
        if refused or not self._running:
            time.sleep(0 if refused else wait_s)
            return refused
        self._count()
        with _gone_otherwise():
            ready, _ = self._ray.wait(list(self._running), num_returns=1, timeout=wait_s)
        return [self._got(each) for each in ready] + [self._late(each) for each in self._overdue()]

    def close(self) -> None:
        """Let go of the cluster; what runs there is called off."""
        try:
            _knock(self._head)
        except OSError:
            self.stuck = True  # Ray would wait for its head, and then end this process its own way
            return
        for sent in self._running:
            with suppress(Exception):
                self._ray.cancel(sent, force=True)
        self._running = {}
        self._ray.shutdown()

    def _got(self, sent: Any) -> Done:
        task, _ = self._running.pop(sent)
        try:
            return Done(task, read_harvest(self._ray.get(sent)))
        except self._ray.exceptions.RayError as error:
            return Done(task, None, f"was lost ({type(error).__name__})")

    def _overdue(self) -> list[Any]:
        now_s = time.monotonic()
        return [
            sent
            for sent, (task, since_s) in self._running.items()
            if now_s - since_s > task.max_time_s + task.limits.op_timeout_s + OPENING_S + GRACE_S
        ]

    def _late(self, sent: Any) -> Done:
        task, since_s = self._running.pop(sent)
        with suppress(Exception):
            self._ray.cancel(sent, force=True)
        return Done(task, None, f"gave no answer within {time.monotonic() - since_s:.0f} s")

    def _count(self) -> None:
        """Count cores, GPUs and machines, now and then.

        Raises:
            PoolError: nobody answers.
        """
        if time.monotonic() - self._counted_s < COUNT_EVERY_S:
            return
        with _gone_otherwise():
            _knock(self._head)
            alive = [node["Alive"] for node in self._ray.nodes()]
            has = self._ray.cluster_resources()
        self._nodes, self._lost_nodes = sum(alive), alive.count(False)
        self._cores, self._gpus = int(has.get("CPU", 0)), int(has.get("GPU", 0))
        self._counted_s = time.monotonic()


def _knock(head: str) -> None:
    """See that somebody is at the head of the cluster. Ray itself would wait for a minute, and then
    end this process.

    Raises:
        OSError: nobody is.
    """
    host, _, port = head.rpartition(":")
    create_connection((host, int(port)), SILENT_S).close()


_GONE = "nothing that was found is lost: start the cluster, and the same command goes on"


@contextmanager
def _gone_otherwise() -> Iterator[None]:
    """Say of whatever goes wrong between here and the cluster that nobody is there."""
    try:
        yield
    except Exception as error:
        raise PoolError(f"the Ray cluster is gone: {type(error).__name__}", _GONE) from error


def _ray() -> Any:
    try:
        return import_module("ray")
    except ImportError as error:
        hint = "pip install 'radixcheck[ray]', or leave --ray out"
        raise PoolError("Ray is not installed", hint) from error


def _connect(ray: Any, address: str | None, most: int | None) -> None:
    cores = most if address is None else None
    try:
        if address is not None and PLAIN.fullmatch(address):
            _knock(address)  # Ray itself would try for minutes
        ray.init(
            address=address or "local",
            num_cpus=cores,
            include_dashboard=False if address is None else None,
            log_to_driver=False,
            logging_level="error",
        )
    except Exception as error:
        raise PoolError(f"no Ray at {address or 'local'}: {error}", "ray status tells") from error


def wants_gpu(spec: str) -> bool:
    """Tell whether a target keeps its tensors on a GPU."""
    return ("device", "cuda") in parse_qsl(spec.partition("?")[2])
