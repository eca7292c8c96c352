"""Which host a target gets, by the options of a command; each is ended when the command is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from radixcheck.hosts import Here, Host, Isolated, Limits
from radixcheck.hosts.isolated import LIMITS
from radixcheck.registry import module_of, resolve

NATIVE = "radixcheck.targets.native"
"""The module of targets that can take the process with them that calls them."""


class Isolation(NamedTuple):
    """What a person says of it. None is for the target to decide: only a native one may die."""

    isolate: bool | None = None
    limits: Limits = LIMITS


class Hosts:
    """Hands out hosts, one per spec."""

    def __init__(self, isolation: Isolation, ends: ExitStack) -> None:
        self._isolation = isolation
        self._ends = ends
        self._known: dict[str, Host] = {}

    def of(self, spec: str) -> Host:
        """Return the host in which the target of `spec` lives.

        Raises:
            TargetError: the spec cannot be resolved.
        """
        if spec not in self._known:
            self._known[spec] = host = make_host(spec, self._isolation)
            self._ends.callback(host.close)
        return self._known[spec]


def make_host(spec: str, isolation: Isolation) -> Host:
    """Make the host in which the target of `spec` lives; whoever asks must close it.

    Raises:
        TargetError: the spec cannot be resolved.
    """
    isolate, limits = isolation
    if isolate is None:
        isolate = f"{module_of(spec)}.".startswith(f"{NATIVE}.")
    return Isolated(spec, limits) if isolate else Here(resolve(spec))


def isolation(isolate: bool | None, op_timeout_s: float, memory_bytes: int) -> Isolation:
    """Fold three options into one."""
    return Isolation(isolate, Limits(op_timeout_s, memory_bytes))


@contextmanager
def hosts(isolation: Isolation) -> Iterator[Hosts]:
    """Hand out hosts, and end them all at the end."""
    with ExitStack() as ends:
        yield Hosts(isolation, ends)
