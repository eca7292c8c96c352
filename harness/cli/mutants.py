"""``radixcheck mutants``: hunt planted bugs, and tell how fast each is found, by whom."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from radixcheck.cli.codes import Code
from radixcheck.cli.errors import guarded
from radixcheck.cli.options import Quiet, Verbose, duration_option

if TYPE_CHECKING:
    from radixcheck.bite.figures import Rows
    from radixcheck.bite.trial import Trial
    from radixcheck.bite.work import Task
    from radixcheck.report import Screen
    from radixcheck.report.screen import Cell

TRIALS = Path("radixcheck-bite.jsonl")
FATES = Path("radixcheck-generated.jsonl")
SEEDS = 10
LIMIT_S = 60.0
FATES_LIMIT_S = 3.0
DRIVER = "swarm"

Ids = Annotated[
    list[str] | None,
    Argument(
        metavar="[ID]...",
        help="Mutants, by their ids; or targets, if generated. Default: all.",
        show_default=False,
    ),
]
IsGenerated = Annotated[
    bool,
    Option(
        "--generated",
        help="Hunt every small mistake in the sources of our correct targets instead.",
        show_default=False,
    ),
]
Drivers = Annotated[
    str,
    Option(
        "--driver",
        metavar="NAME,...",
        help="Who hunts: swarm, uniform, hypothesis, atheris, atheris-hypothesis, sums; or all.",
    ),
]
Seeds = Annotated[
    int | None,
    Option(
        "--seeds",
        min=0,
        help="Hunts per mutant and driver; 0: only show the file. Default: 10; 1 if generated.",
        show_default=False,
    ),
]
Limit = Annotated[
    float | None,
    Option(
        "--max-time",
        metavar="TIME",
        parser=duration_option,
        help="Give a hunt up after so much processor time. Default: 60s; 3s if generated.",
        show_default=False,
    ),
]
Jobs = Annotated[int, Option("--jobs", "-j", min=1, help="Workers at a time.")]
CanarySet = Annotated[
    bool,
    Option("--canary-set", help="Only the few that a nightly hunts.", show_default=False),
]
TrialsFile = Annotated[
    Path | None,
    Option(
        "--trials",
        metavar="FILE",
        help="Each hunt is a line here, and is made only once. "
        f"Default: {TRIALS}; {FATES} if generated.",
        show_default=False,
    ),
]
Write = Annotated[
    Path | None,
    Option(
        "--write",
        metavar="FILE.md",
        help="Write the page, and FILE.svg beside it, from all lines of the file.",
        show_default=False,
    ),
]


@guarded
def mutants(
    ids: Ids = None,
    generated: IsGenerated = False,
    driver: Drivers = DRIVER,
    seeds: Seeds = None,
    max_time: Limit = None,
    jobs: Jobs = 1,
    canary_set: CanarySet = False,
    trials: TrialsFile = None,
    write: Write = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Hunt public bugs that are planted in our own caches. Exit code 1: the swarm missed one."""
    from radixcheck.bite.hunt import DRIVERS, known
    from radixcheck.bite.work import tasks
    from radixcheck.report import Screen

    if write is not None and write.suffix != ".md":
        raise typer.BadParameter(f"--write {write}: the page is Markdown, so name it FILE.md")
    screen = Screen(verbosity=verbose - quiet)
    if generated:
        if write is not None or canary_set or driver != DRIVER:
            raise typer.BadParameter("of --driver, --canary-set and --write, none is for generated")
        limit_s, path = max_time or FATES_LIMIT_S, trials or FATES
        raise typer.Exit(
            _generated(screen, ids, 1 if seeds is None else seeds, limit_s, path, jobs)
        )
    seeds, limit_s, path = SEEDS if seeds is None else seeds, max_time or LIMIT_S, trials or TRIALS
    chosen = _chosen(ids, canary_set)
    wanted = [each.strip() for each in driver.split(",") if each.strip()]
    here = [name for name, each in DRIVERS.items() if not each.missing()]
    names = here if wanted == ["all"] else known(wanted)
    _hunt(screen, list(tasks(chosen, names, seeds, limit_s)), path, jobs)
    made = _read(path)
    if write is not None:
        _write(screen, made, path, write)
    shown = [each for each in made if each.mutant in chosen and each.driver in names]
    raise typer.Exit(_show(screen, [each for each in shown if not seeds or each.seed < seeds]))


def _chosen(ids: Sequence[str] | None, canary_set: bool) -> list[str]:
    """Return the mutants that are asked for.

    Raises:
        TargetError: one is not known.
    """
    from difflib import get_close_matches

    from radixcheck.registry import TargetError
    from radixcheck.targets.mutants import CANARIES, LATER, MUTANTS

    for id in ids or ():
        if id in LATER:
            raise TargetError(f"{id} is not planted yet", f"it needs {LATER[id]}")
        if id not in MUTANTS:
            near = ", ".join(get_close_matches(id, MUTANTS)) or "see docs/bite.md"
            raise TargetError(f"no mutant {id!r}", near)
    return list(dict.fromkeys(ids or (CANARIES if canary_set else MUTANTS)))


def _read(path: Path) -> list[Trial]:
    from radixcheck.bite.trial import TrialsError, read

    try:
        return read(path)
    except TrialsError as error:
        raise typer.BadParameter(str(error)) from None


def _hunt(screen: Screen, asked: Sequence[Task], path: Path, jobs: int) -> None:
    """Make those of the hunts that are not in the file, and put each down as soon as it ends."""
    from radixcheck.bite.trial import append, mend, settled
    from radixcheck.bite.work import hunts

    made = _read(path)
    todo = [
        each
        for each in asked
        if (each.mutant, each.driver, each.seed) not in settled(made, each.limit_s)
    ]
    if not todo:
        return
    mend(path)
    with screen.busy(f"{len(todo)} hunts"):
        for trial in hunts(todo, jobs):
            append(path, trial)


def _write(screen: Screen, made: Sequence[Trial], trials: Path, page: Path) -> None:
    """Write the page and its drawing, each in one step."""
    from radixcheck.bite.chart import draw
    from radixcheck.bite.document import by_hand, document
    from radixcheck.bite.hunt import DRIVERS
    from radixcheck.report.words import clean
    from radixcheck.trace import write_in_one_step

    plot = page.with_suffix(".svg")
    by_driver = {name: [each for each in made if each.driver == name] for name in DRIVERS}
    drawn = draw({name: own for name, own in by_driver.items() if own})
    write_in_one_step(plot, drawn.encode())
    end = by_hand(page.read_text(encoding="utf-8")) if page.exists() else ""
    write_in_one_step(page, document(made, plot.name, trials.name, end).encode())
    if screen.verbosity >= 0:
        screen.say_whole(f"wrote {clean(str(page))} and {clean(str(plot))}")


# ---- what is shown -----------------------------------------------------------------------


def _show(screen: Screen, shown: Sequence[Trial]) -> Code:
    """Show the table, then the verdict; what the swarm missed is red."""
    from radixcheck.bite.document import smallest_known
    from radixcheck.bite.figures import rows

    if not shown:
        screen.say(("no hunt was made", "bold yellow"))
        return Code.NOTHING
    found = rows(shown, smallest_known())
    if screen.verbosity >= 0:
        screen.table(_lines(found))
        screen.blank()
    _show_drivers(screen, shown)
    survived = [row for row in found.values() if row.kills < len(row.trials)]
    return Code.VIOLATION if any(row.driver == DRIVER for row in survived) else Code.CLEAN


HEADINGS = ("mutant", "driver", "killed", "time", "operations", "shrunk", "shrinking", "by")


def _lines(found: Rows) -> Iterable[Sequence[Cell]]:
    from radixcheck.bite.document import seconds, sizes, spread, spread_s
    from radixcheck.report.screen import line

    yield [line((each, "dim")) for each in HEADINGS]
    for row in found.values():
        alive = row.kills < len(row.trials)
        yield [
            line((row.mutant, "bold red" if alive else "bold")),
            row.driver,
            f"{row.kills} of {len(row.trials)}",
            spread_s(row.time_s, row.limit_s),
            spread(row.operations),
            sizes(row),
            "" if row.shrink_s is None else seconds(row.shrink_s),
            ", ".join(row.rules),
        ]


def _show_drivers(screen: Screen, shown: Sequence[Trial]) -> None:
    """Say for each driver how much it killed, and how fast."""
    from radixcheck.bite.document import percent, seconds
    from radixcheck.bite.figures import buckets_s, share_within

    for name in dict.fromkeys(each.driver for each in shown):
        own = [each for each in shown if each.driver == name]
        kills = sum(each.killed for each in own)
        good = kills == len(own)
        mark = screen.glyphs.good if good else screen.glyphs.bad
        within = ", ".join(
            f"{percent(share_within(own, s))} within {seconds(s)}" for s in buckets_s(own)
        )
        style = "bold green" if good else "bold red"
        screen.say((f"{mark} {name}: ", style), f"{kills} of {len(own)} hunts killed; {within}")


# ---- generated ones ----------------------------------------------------------------------


def _generated(
    screen: Screen, names: Sequence[str] | None, seeds: int, limit_s: float, path: Path, jobs: int
) -> Code:
    """Hunt every mistake in some targets, and show whoever lives without a reason."""
    from radixcheck.bite.alone import balances
    from radixcheck.bite.generated import BALANCE, left_out
    from radixcheck.bite.trial import TrialsError

    try:
        with screen.busy("mistakes"):
            found = balances(names, seeds, limit_s, path, jobs)
    except TrialsError as error:
        raise typer.BadParameter(str(error)) from None
    for told in left_out(names):
        screen.say((told, "yellow"))
    if not found:
        screen.say(("no hunt was made", "bold yellow"))
        return Code.NOTHING
    if screen.verbosity >= 0:
        screen.table([BALANCE, *(each.cells() for each in found)])
        screen.blank()
    for each in found:
        for line in each.troubles():
            screen.say_whole(*line)
        good = not each.survivors
        mark = screen.glyphs.good if good else screen.glyphs.bad
        style = "bold green" if good else "bold red"
        screen.say((f"{mark} {each.target}: ", style), each.verdict())
    return Code.VIOLATION if any(each.survivors for each in found) else Code.CLEAN
