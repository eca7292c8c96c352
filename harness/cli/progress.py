"""The progress bar: only where a person watches, and only where there is something to wait for."""

from __future__ import annotations

import time
from math import inf
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

from radixcheck.arena import required
from radixcheck.loop import Budget, Report
from radixcheck.report import Screen
from radixcheck.report.words import clean, counted, show_duration

if TYPE_CHECKING:
    from radixcheck.campaign.night import Night
    from radixcheck.campaign.standing import Standing

WORTH_SHOWING_S = 2.0
"""A run that may take no longer has no bar."""

EVERY_S = 0.1
"""The bar moves no more often than this."""


class Bar:
    """Shows how far a run is: a context manager, to be called with every report.

    Operations a second, situations reached, findings and the time left; nothing at all in a pipe.
    """

    def __init__(self, screen: Screen, title: str, budget: Budget) -> None:
        self._budget = budget
        self._next_s = 0.0
        limit_s = budget.max_time_s
        wanted = screen.verbosity >= 0 and (limit_s is None or limit_s > WORTH_SHOWING_S)
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=12),
            TextColumn("{task.fields[news]}", markup=False),
            console=screen.console,
            transient=True,
            disable=not (wanted and screen.animated),
        )
        self._task = self._progress.add_task(title, total=1.0, news="")

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def __call__(self, report: Report) -> None:
        """Show what `report` has seen by now."""
        now_s = time.monotonic()
        if self._progress.disable or now_s < self._next_s:
            return
        self._next_s = now_s + EVERY_S
        self._progress.update(self._task, completed=self._done(report), news=self._news(report))

    def _done(self, report: Report) -> float:
        spent = [0.0]
        if self._budget.max_time_s:
            spent.append(report.elapsed_s / self._budget.max_time_s)
        if self._budget.max_operations:
            spent.append(report.operations / self._budget.max_operations)
        return min(1.0, max(spent))

    def _news(self, report: Report) -> str:
        wanted = len(required(report.arenas))
        news = [
            f"{report.operations / max(report.elapsed_s, 1e-9):,.0f} operations/s",
            f"situations {wanted - len(report.missing)}/{wanted}",
            counted(len(report.findings), "finding"),
        ]
        if self._budget.max_time_s is not None:
            left_s = max(0.0, self._budget.max_time_s - report.elapsed_s)
            news.append(f"{show_duration(left_s)} left")
        return "  ".join(news)


class NightBar:
    """Shows how far a campaign is: one line for all of it, and one for each target."""

    def __init__(self, screen: Screen, night: Night) -> None:
        self._night = night
        self._next_s = 0.0
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=12),
            TextColumn("{task.fields[news]}", markup=False),
            console=screen.console,
            transient=True,
            disable=not (screen.verbosity >= 0 and screen.animated),
        )
        self._all = self._progress.add_task("campaign", total=1.0, news="")
        self._each = [
            self._progress.add_task(clean(standing.spec, 24), total=1.0, news="")
            for standing in night.standings
        ]

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def __call__(self, night: Night) -> None:
        """Show what was seen by now."""
        now_s = time.monotonic()
        if self._progress.disable or now_s < self._next_s:
            return
        self._next_s = now_s + EVERY_S
        self._progress.update(self._all, completed=night.done, news=self._all_news())
        for task, standing in zip(self._each, night.standings, strict=True):
            self._progress.update(task, completed=_reached(standing), news=self._news(standing))

    def _all_news(self) -> str:
        night = self._night
        found = sum(len(each.report.findings) for each in night.standings if not each.canary)
        news = [
            f"{night.operations / max(night.elapsed_s, 1e-9):,.0f} operations/s",
            counted(found, "finding"),
        ]
        if night.left_s != inf:
            news.append(f"{show_duration(max(0.0, night.left_s))} left")
        return "  ".join(news)

    def _news(self, standing: Standing) -> str:
        if standing.canary:
            return "canary found" if standing.found else "canary, not found yet"
        report, wanted = standing.report, len(required(standing.report.arenas))
        rate = report.operations / max(self._night.elapsed_s, 1e-9)
        return "  ".join(
            (
                f"{rate:,.0f} operations/s",
                f"situations {wanted - len(report.missing)}/{wanted}",
                counted(len(report.findings), "finding"),
            )
        )


def _reached(standing: Standing) -> float:
    """Return the part of the required situations that was reached."""
    wanted = len(required(standing.report.arenas))
    return 1 - len(standing.report.missing) / wanted if wanted else 1.0
