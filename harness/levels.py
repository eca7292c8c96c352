"""The levels at which targets are judged: trees of prefixes, pools of slots, whole requests.

One loop serves all of them: it proposes a trace, judges it, shrinks it and shows it. What differs
stands in one record per level, and what an opened target can do decides which record is used.
Nothing above this module asks for a level by its name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol, TypeAlias

from radixcheck import checker, generate, pools, program, promises, requests
from radixcheck.capabilities import AnyCapabilities
from radixcheck.finding import Snapshot, Step
from radixcheck.operations import AnyOperation
from radixcheck.promises import Unkept
from radixcheck.protocol import level_name
from radixcheck.rules import Violation
from radixcheck.situations import SITUATIONS, Situation


class Judge(Protocol):
    """Applies operations to one fresh target, and knows better than it."""

    steps: list[Step]
    """What happened, call by call, once `record` was called."""
    reached: Counter[str]
    """How often each situation was reached."""
    skipped: Counter[str]
    """How many operations were not tried, by the reason."""

    @property
    def capabilities(self) -> AnyCapabilities:
        """What the target promises."""
        ...

    def apply(self, operation: AnyOperation) -> Violation | None:
        """Apply one operation of a trace; answer the rule that it broke.

        Raises:
            BadAnswer: the target's answer cannot be read; its adapter is at fault.
        """
        ...

    def record(self) -> None:
        """From now on keep every step."""
        ...

    def draw(self) -> Snapshot:
        """Return what is stored now, and who holds what."""
        ...


Generate: TypeAlias = Callable[..., tuple[AnyOperation, ...]]
"""Called with (seed, capabilities, num_operations, swarm=, misuse=, capacity=)."""

MakeJudge: TypeAlias = Callable[..., Judge]
"""Called with (target, clock, misuse=, disabled=, overwrites=, thorough=)."""


class Level(NamedTuple):
    """All that the loop must know of one kind of target."""

    name: str
    kinds: frozenset[str]
    """The operations that a trace for such a target is made of."""
    methods: tuple[str, ...]
    """The methods that decide which situations can be reached."""
    generate: Generate
    judge: MakeJudge
    situations: Mapping[str, Situation]
    unkept: Callable[[Any, Mapping[str, Any]], Iterator[Unkept]]
    """Yields what does not fit together about a target that was opened with a configuration."""
    render: Callable[..., str] = program.render
    """Writes a finding as Python; called as `radixcheck.program.render`."""


TREE = Level(
    "tree",
    frozenset("match_prefix insert evict inc_ref dec_ref reset tick weigh audit".split()),
    ("match_prefix", "insert", "evict", "inc_ref", "dec_ref", "reset"),
    generate.generate,
    checker.Checker,
    SITUATIONS,
    promises.unkept,
)

POOL = Level(
    "pool",
    frozenset("alloc free add_refs reset weigh audit".split()),
    ("alloc", "free", "available_size", "add_refs", "reset"),
    pools.generate,
    pools.Checker,
    pools.SITUATIONS,
    pools.unkept,
)

REQUESTS = Level(
    "requests",
    frozenset(
        """arrive schedule match admit prefill decode finish abort retract evict starve interrupt
        reset idle audit""".split()
    ),
    ("begin", "append", "publish", "table", "end", "abort", "match", "retract", "evict", "reset"),
    requests.generate,
    requests.Checker,
    requests.SITUATIONS,
    requests.unkept,
    requests.render,
)

LEVELS: dict[str, Level] = {level.name: level for level in (TREE, POOL, REQUESTS)}


def level_of(target: object) -> Level:
    """Return the level at which `target` is judged.

    Raises:
        KeyError: it is no target; `radixcheck.registry` opens none of these.
    """
    return LEVELS[level_name(target) or ""]
