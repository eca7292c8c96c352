"""What a pool or a cache of requests must get right before it is worth fuzzing: short traces, each
with a claim, judged as a run judges its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from radixcheck.buffers import BadAnswer
from radixcheck.claims.bench import Trouble, Unneeded
from radixcheck.operations import (
    Admit,
    Alloc,
    AnyOperation,
    Arrive,
    Audit,
    Decode,
    Finish,
    Free,
    Idle,
    Prefill,
    Retract,
    Tokens,
)
from radixcheck.registry import Source
from radixcheck.trace import Config, Trace
from radixcheck.verdict import check

MORE_THAN_THERE_IS = 2**40
PROMPT: Tokens = tuple(range(101, 141))


class Stand:
    """One target under one configuration, opened anew for every trace."""

    def __init__(self, source: Source, config: Config) -> None:
        self.source = source
        self.config = config
        self.target: Any = source.open(config, lambda: 0)


def script(*operations: AnyOperation) -> Callable[[Stand], None]:
    """Return the check that these operations break no rule, and that one of them was tried."""

    def see(stand: Stand) -> None:
        try:
            verdict = check(stand.source.open, Trace(operations, stand.config))
        except BadAnswer as error:
            seen = str(error).partition("; expected")[0]
            raise Trouble(seen, "adapter", "radixcheck.protocol says what to answer") from error
        if (violation := verdict.violation) is not None:
            seen = f"{violation.operation}: expected {violation.expected}, got {violation.actual}"
            raise Trouble(f"{violation.rule} at {seen}", "cache", violation.detail)
        if verdict.skipped.total() == len(operations):
            raise Unneeded(next(iter(verdict.skipped)))

    return see


OF_POOLS = {
    "hands out slots": script(Alloc(1, "h1")),
    "hands out other slots while these are held": script(Alloc(1), Alloc(1), Alloc(1)),
    "takes them back": script(Alloc(1, "h1"), Free("h1")),
    "answers no slots if none are wanted": script(Alloc(0)),
    "refuses when too few are free, without effect": script(Alloc(MORE_THAN_THERE_IS), Alloc(1)),
    "takes a part back": script(Alloc(64, "h1"), Free("h1", 16, 32), Free("h1")),
    "hands out every slot once": script(Audit()),
}
"""The claims about a pool."""

_ONE = (Arrive("r1", PROMPT, 4), Admit("r1"), Prefill("r1"))
_TWO = (Arrive("r2", (*PROMPT, 7, 8), 4), Admit("r2"), Prefill("r2"))

OF_REQUESTS = {
    "computes a prompt": script(*_ONE),
    "generates tokens": script(*_ONE, Decode("r1", 1), Decode("r1", 2)),
    "stores what a request computed": script(*_ONE, Decode("r1", 1), Finish("r1"), Idle()),
    "gives it to the next request": script(*_ONE, Finish("r1"), *_TWO, Finish("r2"), Idle()),
    "serves two at a time": script(*_ONE, *_TWO, Finish("r1"), Finish("r2"), Idle()),
    "takes a prompt in chunks": script(
        *_ONE[:2], Prefill("r1", 13), Prefill("r1"), Finish("r1"), Idle()
    ),
    "lets go of a retracted request": script(*_ONE, Decode("r1", 1), Retract("r1"), Idle()),
    "ends with every slot free": script(*_ONE, *_TWO, Audit()),
}
"""The claims about a cache of requests."""
