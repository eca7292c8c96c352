"""Which host a target gets, by the options of a command; each is ended when the command is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from radixcheck.hosts import Here, Host, Isolated, Limits
from radixcheck.hosts.isolated import LIMITS
from radixcheck.registry import Clash, module_of, resolve

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

    A target whose modules have the names of another's lives apart, if nobody forbids that.

    Raises:
        TargetError: the spec cannot be resolved.
    """
    spec, isolate = as_judged(spec, isolation)
    if not isolate:
        try:
            return Here(resolve(spec))
        except Clash:
            if isolation.isolate is False:
                raise
    return Isolated(spec, isolation.limits)


def as_judged(spec: str, isolation: Isolation) -> tuple[str, bool]:
    """Complete a spec, and tell whether its target is isolated.

    Raises:
        TargetError: the spec names nothing.
    """
    isolate, limits = isolation
    if isolate is None:
        isolate = f"{module_of(spec)}.".startswith(f"{NATIVE}.")
    return _with_patience(spec, limits.op_timeout_s), isolate


def _with_patience(spec: str, op_timeout_s: float) -> str:
    """Tell a target that is a process of its own how long a call may take, if it is not the usual
    time and the spec says nothing."""
    said = op_timeout_s == Limits().op_timeout_s or "op_timeout=" in spec
    if said or not spec.startswith("cmd:"):
        return spec
    return f"{spec}{'&' if '?' in spec else '?'}op_timeout={op_timeout_s:g}"


def isolation(isolate: bool | None, op_timeout_s: float, memory_bytes: int) -> Isolation:
    """Fold three options into one."""
    return Isolation(isolate, Limits(op_timeout_s, memory_bytes))


@contextmanager
def hosts(isolation: Isolation) -> Iterator[Hosts]:
    """Hand out hosts, and end them all at the end."""
    with ExitStack() as ends:
        yield Hosts(isolation, ends)
