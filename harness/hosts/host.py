"""What is asked of a host, whether the target lives in this process or in another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from radixcheck.arena import Arena
from radixcheck.claims import Tried
from radixcheck.registry import Source
from radixcheck.rules import Violation
from radixcheck.trace import Config, Trace
from radixcheck.verdict import Replay, Verdict


class Host(Protocol):
    """Where a target lives. Everything is judged on a fresh target, beside a fresh model.

    Each method may raise what `radixcheck.verdict.check` raises: `TargetError` where the target
    cannot be opened, `BadAnswer` where its adapter answered what cannot be read.
    """

    @property
    def source(self) -> Source:
        """The target's spec as it was understood. Its factory may be out of reach."""
        ...

    @property
    def kills(self) -> int:
        """How often something else ended the process that judged, and a trace was judged again."""
        ...

    def command(self, path: str) -> list[str]:
        """Return the command, without its program, that replays a trace file in such a host."""
        ...

    def teller(self, violation: Violation) -> Host:
        """Return the host of the one target that a violation is told about."""
        ...

    def arenas(self) -> list[Arena]:
        """Open the target once in every configuration that it supports."""
        ...

    def look(self, config: Config) -> Arena:
        """Open the target once under any configuration."""
        ...

    def begin(self, trace: Trace) -> None:
        """Begin to judge a trace that will be checked soon, and not thoroughly."""
        ...

    def check(self, trace: Trace, thorough: bool = True) -> Verdict:
        """Judge as `radixcheck.verdict.check`."""
        ...

    def record(self, trace: Trace) -> Replay:
        """Judge, and keep every step."""
        ...

    def replay(self, trace: Trace) -> Replay:
        """Judge, and keep every step and the last pictures, for people to look at."""
        ...

    def again(self, rule: str, trace: Trace) -> Violation | None:
        """Run a trace several times, for a rule of `radixcheck.hosts.here.AGAIN`."""
        ...

    def raised(self, trace: Trace, what: str) -> list[str]:
        """Run a trace for the traceback of an exception that a violation tells as `what`."""
        ...

    def claims(self) -> Iterator[Tried]:
        """Check the plain claims in turn."""
        ...

    def hurried(self) -> Host:
        """Return the same host with less patience: what hangs is given up soon, and what is only
        slow may be too."""
        ...

    def close(self) -> None:
        """End whatever was started. Nothing may be asked any more."""
        ...
