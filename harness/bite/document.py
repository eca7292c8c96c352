"""docs/bite.md, made of trials and of nothing else."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from radixcheck.bite.figures import (
    SLOW_S,
    Comparison,
    Interval,
    Row,
    Rows,
    buckets_s,
    compare,
    quantile,
    rows,
    share_within,
)
from radixcheck.bite.hunt import DRIVERS, OURS
from radixcheck.bite.trial import Trial
from radixcheck.corpus import packaged
from radixcheck.targets.mutants import LATER, MUTANTS

HEAD = """\
# Proof of bite

Would radixcheck have found my bug? Every bug of a public prefix cache that our targets can show is
planted in one of them, in code of its own, and hunted: by `radixcheck run`'s swarm, and by peers
that know nothing but the same target and, all but one, the same checker.

This page is made by `radixcheck mutants`:

```console
{commands}
```
"""

HOW = """\
## How it is measured

A hunt is one mutant, one driver and one seed. It ends with the first rule that is broken, or after
{limits} of processor time. Time counts from a warm start on one core: the process has imported
everything, has judged a few traces of correct targets and has opened the mutant before the hunter
may begin; drawing operations, running the target and judging it all count. Whatever else the
machine does, does not. Where libFuzzer owns the process, time counts from its first input.

A median comes with the interval that holds it with 95 % confidence, by order statistics; of fewer
than 6 seeds it is the whole range. A hunt that was given up is longer than any; in ratios it counts
as its limit, which flatters the peer.

Trials: {trials}, on {machines}.
"""

BY_HAND = "<!-- by hand: what follows stays when the page is made again -->"

PLOT = """\
## Survival

![Share of hunts that go on, by time]({plot})
"""


def smallest_known() -> dict[tuple[str, str, str], int]:
    """Return by mutant, rule and kind of operation how long its regression trace is."""
    return {
        (entry.id, entry.trace.found.rule, entry.trace.found.operation): len(entry.trace.operations)
        for entry in packaged().entries
        if entry.trace.found
    }


def by_hand(page: str) -> str:
    """Return the end of a page that no trial has said: from `BY_HAND` on."""
    _, mark, rest = page.partition(BY_HAND)
    return mark + rest


def document(trials: Sequence[Trial], plot: str, source: str, end: str = "") -> str:
    """Write the page.

    Args:
        plot: the file name of the drawing.
        source: the file name of the trials.
        end: what a person has written behind all else.
    """
    found = rows(trials, smallest_known())
    drivers = [name for name in DRIVERS if any(driver == name for _, driver in found)]
    parts = [
        HEAD.format(commands="\n".join(_commands(trials, source))),
        "\n".join(_summary(trials, drivers)),
        "\n".join(_comparisons(found, drivers)),
        PLOT.format(plot=plot),
        "\n".join(_kills(found)),
        "\n".join(_medians(found, drivers)) if len(drivers) > 1 else "",
        "\n".join(_later()),
        _how(trials),
        end,
    ]
    return "\n".join(part.rstrip() + "\n" for part in parts if part)


def _commands(trials: Sequence[Trial], source: str) -> Iterator[str]:
    """Yield what makes these trials, and then this page."""
    groups: dict[tuple[int, float], list[str]] = {}
    for name in DRIVERS:
        own = [each for each in trials if each.driver == name]
        if own:
            key = 1 + max(each.seed for each in own), max(each.limit_s for each in own)
            groups.setdefault(key, []).append(name)
    for (seeds, limit_s), names in groups.items():
        chosen = f"--driver {','.join(names)} --seeds {seeds} --max-time {limit_s:g}s"
        yield f"$ radixcheck mutants {chosen} --trials {source}"
    yield f"$ radixcheck mutants --seeds 0 --trials {source} --write bite.md"


def _how(trials: Sequence[Trial]) -> str:
    limits = sorted({each.limit_s for each in trials})
    machines = dict.fromkeys(each.machine for each in trials)
    return HOW.format(
        trials=len(trials),
        limits=" or ".join(seconds(each) for each in limits) or "its limit",
        machines="; ".join(machines) or "no machine",
    )


# ---- the figures -------------------------------------------------------------------------


def _summary(trials: Sequence[Trial], drivers: Sequence[str]) -> Iterator[str]:
    buckets = buckets_s(trials)
    yield "## Killed within\n"
    yield from table(
        ("driver", "what it is", "hunts", *(seconds(each) for each in buckets), "missed"),
        (
            (
                f"`{name}`",
                DRIVERS[name].words,
                str(len(own)),
                *(percent(share_within(own, limit_s)) for limit_s in buckets),
                f"{len(missed(own))} of {len({each.mutant for each in own})} mutants",
            )
            for name in drivers
            if (own := [each for each in trials if each.driver == name])
        ),
    )
    yield "\n*Missed* is a mutant that survived at least half of its hunts.\n"


def missed(trials: Sequence[Trial]) -> list[str]:
    """Name the mutants that survived at least half of the hunts of one driver."""
    balance: dict[str, int] = {}
    for each in trials:
        balance[each.mutant] = balance.get(each.mutant, 0) + (1 if each.killed else -1)
    return [id for id, kills in balance.items() if kills <= 0]


def _comparisons(found: Rows, drivers: Sequence[str]) -> Iterator[str]:
    yield "## Against the peers\n"
    peers = [compare(found, OURS, name) for name in drivers if name not in (OURS, "sums")]
    if peers and OURS in drivers:
        yield "How many times longer a peer takes to the kill: the geometric mean of medians.\n"
        hard = f"those that take `uniform` {SLOW_S:g} s"
        yield from table(
            ("peer", "all mutants", hard, "others", "at worst"),
            (tuple(_compared(each)) for each in peers),
        )
        yield "\n*At worst*: the one of the others on which ours is slowest beside that peer.\n"
    else:
        yield "No peer was run.\n"
    if "sums" in drivers:
        own = [each for (_, name), row in found.items() if name == "sums" for each in row.trials]
        share = len(missed(own)) / len({each.mutant for each in own})
        yield f"Conservation sums alone miss {percent(share)} of the mutants.\n"
    yield from _shrinking([row for row in found.values() if row.driver == OURS])


def _compared(each: Comparison) -> Iterator[str]:
    yield f"`{each.peer}`"
    yield _times(each.all)
    yield f"{_times(each.hard)} ({each.num_hard} mutants)"
    yield _times(each.easy)
    yield f"{each.worst[1]:.1f} times as long (`{each.worst[0]}`)" if each.worst else ""


def _shrinking(ours: Sequence[Row]) -> Iterator[str]:
    excess = [each for row in ours for each in row.excess]
    shrink_s = [each.shrink_s for row in ours for each in row.trials if each.shrunk]
    if excess:
        yield (
            f"Shrunk traces have {quantile(excess, 0.5)} operations more than the smallest known "
            f"one of the same violation (median; 95th percentile {quantile(excess, 0.95)}). "
            f"Shrinking takes {seconds(quantile(shrink_s, 0.5))} "
            f"(95th percentile {seconds(quantile(shrink_s, 0.95))}).\n"
        )


# ---- the tables --------------------------------------------------------------------------


def _kills(found: Rows) -> Iterator[str]:
    ours = [row for row in found.values() if row.driver == OURS]
    yield "## The kill table\n"
    yield from table(
        ("mutant", "public bug", "killed", "by", "time", "operations", "shrunk", "shrinking"),
        (tuple(_killed(row)) for row in ours),
    )
    yield f"\n*By*: the rules of the kills. {_named(ours)}\n"


def _named(ours: Sequence[Row]) -> str:
    """Say how many kills go by a rule that the bug is known for."""
    kills = [each for row in ours for each in row.trials if each.killed]
    own = sum(each.rule in _rules(each.mutant) for each in kills)
    return (
        f"{own} of {len(kills)} go by one that the bug is known for, the others, in *italics*, by "
        "what it did first in that trace."
    )


def _rules(id: str) -> tuple[str, ...]:
    return MUTANTS[id].rules if id in MUTANTS else ()


def _killed(row: Row) -> Iterator[str]:
    yield f"`{row.mutant}`"
    yield MUTANTS[row.mutant].source if row.mutant in MUTANTS else ""
    yield f"{row.kills} of {len(row.trials)}"
    own = _rules(row.mutant)
    yield ", ".join(rule if rule in own else f"*{rule}*" for rule in row.rules)
    yield spread_s(row.time_s, row.limit_s)
    yield spread(row.operations)
    yield sizes(row)
    yield "" if row.shrink_s is None else seconds(row.shrink_s)


def _medians(found: Rows, drivers: Sequence[str]) -> Iterator[str]:
    yield "## Median time to the kill, by driver\n"
    ids = list(dict.fromkeys(id for id, _ in found))
    yield from table(
        ("mutant", *(f"`{name}`" for name in drivers)),
        (
            (f"`{id}`", *(middle_s(found[id, n]) if (id, n) in found else "" for n in drivers))
            for id in ids
        ),
    )
    yield ""


def _later() -> Iterator[str]:
    yield "## Not yet planted\n"
    yield "Public bugs that no target of ours can show yet, by what they need:\n"
    needs: dict[str, list[str]] = {}
    for id, need in LATER.items():
        needs.setdefault(need, []).append(f"`{id}`")
    yield from table(("needs", "bugs"), ((need, ", ".join(ids)) for need, ids in needs.items()))
    yield ""


# ---- how things are written --------------------------------------------------------------


def table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table in Markdown."""
    for cells in (head, ["---"] * len(head), *lines):
        yield f"| {' | '.join(each.replace('|', '&#124;') for each in cells)} |"


def seconds(time_s: float) -> str:
    """Write a duration with two digits."""
    if time_s < 1:
        return f"{time_s * 1e3:.2g} ms" if time_s < 0.0995 else f"{time_s * 1e3:.0f} ms"
    return f"{time_s:.0f} s" if time_s >= 10 or time_s == int(time_s) else f"{time_s:.1f} s"


def middle_s(row: Row) -> str:
    """Write the median time to a kill."""
    time_s = row.time_s.middle
    return f"> {seconds(row.limit_s)}" if math.isinf(time_s) else seconds(time_s)


def spread_s(time_s: Interval, limit_s: float) -> str:
    """Write a time and its interval; what was given up took longer than its limit."""
    told = [
        f"> {seconds(limit_s)}" if math.isinf(each) else seconds(each) for each in _parts(time_s)
    ]
    return told[0] if len({*told}) == 1 else f"{told[0]} ({told[1]} to {told[2]})"


def spread(amount: Interval) -> str:
    """Write a number and its interval, or nothing where there is none."""
    if math.isinf(amount.middle):
        return ""
    told = ["more" if math.isinf(each) else f"{each:,.0f}" for each in _parts(amount)]
    return told[0] if len({*told}) == 1 else f"{told[0]} ({told[1]} to {told[2]})"


def sizes(row: Row) -> str:
    """Write how small a trace became, and by how much the smallest known one is smaller."""
    if row.shrunk is None:
        return ""
    more = quantile(row.excess, 0.5)
    return f"{row.shrunk}" if not more else f"{row.shrunk} ({more} more than the smallest)"


def _parts(each: Interval) -> tuple[float, float, float]:
    return each.middle, each.low, each.high


def _times(ratio: Interval | None) -> str:
    return "" if ratio is None else f"{ratio.middle:.1f} ({ratio.low:.1f} to {ratio.high:.1f})"


def percent(share: float) -> str:
    """Write a share in whole percents, cut off: only all of them are 100 %."""
    return f"{math.floor(100 * share + 1e-9)} %"
