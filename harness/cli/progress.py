"""The progress bar: only where a person watches, and only where there is something to wait for."""

from __future__ import annotations

import time
from collections.abc import Iterable
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


class _Lines:
    """Lines, each with a bar and some news: a context manager. Nothing at all in a pipe."""

    def __init__(self, screen: Screen, titles: Iterable[str], *, wanted: bool = True) -> None:
        self._next_s = 0.0
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=12),
            TextColumn("{task.fields[news]}", markup=False),
            console=screen.console,
            transient=True,
            disable=not (wanted and screen.verbosity >= 0 and screen.animated),
        )
        self._tasks = [self._progress.add_task(title, total=1.0, news="") for title in titles]

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

    def _is_due(self) -> bool:
        now_s = time.monotonic()
        if self._progress.disable or now_s < self._next_s:
            return False
        self._next_s = now_s + EVERY_S
        return True

    def _show(self, lines: Iterable[tuple[float, str]]) -> None:
        """Show of each line the part that is done, and what is new."""
        for task, (done, news) in zip(self._tasks, lines, strict=True):
            self._progress.update(task, completed=done, news=news)


class Bar(_Lines):
    """Shows how far a run is, to be called with every report: operations a second, situations
    reached, findings and the time left."""

    def __init__(self, screen: Screen, title: str, budget: Budget) -> None:
        limit_s = budget.max_time_s
        super().__init__(screen, [title], wanted=limit_s is None or limit_s > WORTH_SHOWING_S)
        self._budget = budget

    def __call__(self, report: Report) -> None:
        """Show what `report` has seen by now."""
        if self._is_due():
            self._show([(self._done(report), self._news(report))])

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


class NightBar(_Lines):
    """Shows how far a campaign is: one line for all of it, and one for each target."""

    def __init__(self, screen: Screen, night: Night) -> None:
        targets = (clean(standing.spec, 24) for standing in night.standings)
        super().__init__(screen, ["campaign", *targets])
        self._night = night

    def __call__(self, night: Night) -> None:
        """Show what was seen by now."""
        if self._is_due():
            each = ((_reached(standing), self._news(standing)) for standing in night.standings)
            self._show([(night.done, self._all_news()), *each])

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
