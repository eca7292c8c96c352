"""The host that is this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from radixcheck.arena import Arena, arenas, look
from radixcheck.claims import Tried, try_claim, try_claims
from radixcheck.hosts.frames import raised
from radixcheck.hosts.life import alone
from radixcheck.leaks import leak
from radixcheck.registry import Source
from radixcheck.rules import Violation
from radixcheck.trace import Config, Trace
from radixcheck.verdict import (
    Open,
    Replay,
    Verdict,
    check,
    record,
    replay,
    replay_until,
    same_answers,
)

AGAIN: dict[str, Callable[[Open, Trace], Violation | None]] = {
    "nondeterminism": same_answers,
    "device-leak": leak,
}
"""What runs a trace again, by the rule that it judges. No single run can break one of these."""


class Here:
    """Judges a target in this process, at full speed: if the target dies, so does everything."""

    kills = 0

    def __init__(self, source: Source) -> None:
        self.source = source

    def command(self, path: str) -> list[str]:
        """Return the command that replays a trace file here."""
        return ["replay", path, "--target", self.source.spec]

    def teller(self, violation: Violation) -> Here:
        """There is only one target."""
        return self

    @alone()
    def arenas(self) -> list[Arena]:
        """Open the target once in every configuration that it supports."""
        return arenas(self.source)

    @alone()
    def look(self, config: Config) -> Arena:
        """Open the target once under any configuration."""
        return look(self.source, config)

    def begin(self, trace: Trace) -> None:
        """Nobody here could do two things at a time."""

    @alone()
    def check(self, trace: Trace, thorough: bool = True) -> Verdict:
        """Judge a trace."""
        return check(self.source.open, trace, thorough=thorough)

    @alone()
    def record(self, trace: Trace) -> Replay:
        """Judge, and keep every step."""
        return record(self.source.open, trace)

    @alone()
    def replay(self, trace: Trace) -> Replay:
        """Judge, and keep every step and the last pictures."""
        return replay(self.source.open, trace)

    @alone()
    def until(self, trace: Trace, calls: int) -> Replay:
        """Replay up to a call that would end a worker."""
        return replay_until(self.source.open, trace, calls)

    @alone()
    def again(self, rule: str, trace: Trace) -> Violation | None:
        """Run a trace several times, for a rule of `AGAIN`."""
        return AGAIN[rule](self.source.open, trace)

    @alone()
    def raised(self, trace: Trace, what: str) -> list[str]:
        """Run a trace for the traceback of an exception."""
        return raised(self.source, trace, what)

    def claims(self) -> Iterator[Tried]:
        """Check the plain claims in turn."""
        return try_claims(self.claim)

    @alone()
    def claim(self, number: int) -> Tried | None:
        """Check one plain claim."""
        return try_claim(self.source, number)

    def describe(self) -> Source:
        """Return the source, for whoever has it not."""
        return self.source

    def hurried(self) -> Here:
        """Nobody here could end what hangs."""
        return self

    def close(self) -> None:
        """There is nothing to end."""
