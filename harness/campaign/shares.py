"""Who gets the next task: each target and driver by what it still discovers, and nobody nothing.

Every share has a date. The one that is due first gets the next task, and is due again later: by
the time that the task takes, divided by its weight. So weights may change at any moment, and what
was before is neither punished nor paid back::

    weight 1      |--x-----|--x-----|--x-----|        2 s of work each, due 2 s later
    weight 1/2    |--x--------------|--x-----                      due 4 s later
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from radixcheck.campaign.unit import Harvest, Judged

FLOOR = 0.1
"""Nobody weighs less than so much of the heaviest."""

CANARY = 0.05
"""What canaries get of all time, together, while one of them is not found."""

MEMORY = 0.7
"""So much of what was discovered before counts after one more task."""

SPARED = 0.5
"""A configuration in which more of the traces than this were cut short is seldom asked for."""

SELDOM = 4
"""One task in so many judges all configurations."""


class Share(Struct):
    """A driver of one target: what it has had, and what came of it."""

    spec: str
    driver: str
    canary: bool = False
    due_s: float = 0
    given: int = 0
    """How many tasks it was given in this run."""
    turns: int = 0
    """The same in all runs of the campaign: no two of its tasks have the same seed."""
    operations: int = 0
    traces: int = 0
    elapsed_s: float = 0
    discovered: int = 0
    """Features first reached and signatures first found."""
    cut: int = 0
    """Traces that what is no news has cut short."""
    lately_s: float = 0
    lately: float = 0
    benched: str = ""
    """Why it gets no more tasks."""

    @property
    def promise(self) -> float:
        """Discoveries in a second, to be hoped for; much where little was tried."""
        whole = 1 - self.cut / self.traces if self.traces else 1.0
        return (self.lately + 1) / (self.lately_s + 1) * max(whole, FLOOR)

    def note(self, harvest: Harvest, discovered: int) -> None:
        """Take in what a task has brought."""
        self.operations += harvest.operations
        self.traces += harvest.traces
        self.cut += sum(each.cut for each in harvest.judged.values())
        self.elapsed_s += harvest.elapsed_s
        self.discovered += discovered
        self.lately = self.lately * MEMORY + discovered
        self.lately_s = self.lately_s * MEMORY + harvest.elapsed_s


def weights(shares: Sequence[Share]) -> list[float]:
    """Weigh each share, the heaviest with 1; and canaries by what all of them may have."""
    most = max((each.promise for each in shares if not each.canary), default=1.0)
    found = [max(FLOOR, each.promise / most) for each in shares if not each.canary]
    for_canaries = sum(found) * CANARY / (1 - CANARY) if found else 1.0
    canaries = len(shares) - len(found)
    others = iter(found)
    return [for_canaries / canaries if each.canary else next(others) for each in shares]


def first_due(shares: Iterable[Share]) -> Share | None:
    """Return the share that is to get the next task. Canaries win a tie, and then who has had the
    fewest: a campaign that is stopped again and again begins with others each time."""
    able = [each for each in shares if not each.benched]
    return min(able, key=lambda each: (each.due_s, not each.canary, each.turns), default=None)


def give(share: Share, shares: Sequence[Share], seconds: float) -> None:
    """Note that a share is given a task that is to take so long. Who comes late begins where the
    others are."""
    if not share.given:
        share.due_s = min((each.due_s for each in shares if each.given), default=0.0)
    share.given += 1
    share.turns += 1
    charge(share, shares, seconds)


def charge(share: Share, shares: Sequence[Share], seconds: float) -> None:
    """Put off the date of a share by the time of a task."""
    place = next(place for place, each in enumerate(shares) if each is share)
    share.due_s += seconds / weights(shares)[place]


def worth_judging(configs: Sequence[str], judged: Mapping[str, Judged], turn: int) -> list[int]:
    """Choose the configurations of a task, by place: mostly those whose traces run to their end.

    Where what is no news cuts short all of them, none is spared.
    """
    places = range(len(configs))
    if turn % SELDOM == SELDOM - 1:
        return list(places)
    seen = [judged.get(config, Judged()) for config in configs]
    whole = [place for place in places if seen[place].cut <= SPARED * seen[place].traces]
    return whole or list(places)
