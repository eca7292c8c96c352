"""Reports as a command's options ask for them: collected while it runs, written when it ends."""

from __future__ import annotations

import shlex
import sys
import time
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from msgspec import Struct, field

from radixcheck.cli.codes import Code
from radixcheck.cli.errors import show_error
from radixcheck.loop import Report
from radixcheck.report import Screen
from radixcheck.report.document import Document, RatePart, TargetPart
from radixcheck.report.words import clean
from radixcheck.report.written import check_folder, write

MOMENTS = 240
"""So many of them a chart can show; of more, every second one is dropped."""

LONGEST_COMMAND = 4_000


class Reports:
    """What is told of each target, and where it goes.

    Args:
        kinds: the kinds of report, with commas between; none where none is wanted.

    Raises:
        OSError: `folder` is no folder, or nobody may write there.
    """

    def __init__(self, kinds: str | None, folder: Path) -> None:
        self.kinds = kinds.split(",") if kinds else []
        self.folder = folder
        self.targets: list[TargetPart] = []
        self.notes: list[str] = []
        self._began = datetime.now(UTC)
        self._began_s = time.monotonic()
        if self.kinds:
            check_folder(folder)

    @property
    def wanted(self) -> bool:
        """Whether anybody asks for a report."""
        return bool(self.kinds)

    def add(self, part: TargetPart) -> None:
        """Take down what is to be said of one target."""
        self.targets.append(part)

    def failed(self, spec: str, error: Exception) -> None:
        """Take down that a target could not be judged."""
        told = clean(f"{type(error).__name__}: {error}", 2_000)
        self.add(TargetPart(spec=clean(spec), verdict="error", words="not judged", error=told))

    def written(self, screen: Screen, code: Code) -> Code:
        """Write all that is wanted, say where it lies, and answer the exit code.

        What cannot be written is an error of its own; the verdict was shown before.
        """
        if not self.wanted:
            return code
        try:
            paths = write(self._document(code), self.kinds, self.folder)
        except OSError as error:
            show_error(error)
            return Code.UNUSABLE
        if screen.verbosity >= 0:
            for path in paths:
                screen.say_whole(("report  ", "dim"), clean(str(path), 4096))
        return code

    def _document(self, code: Code) -> Document:
        return Document(
            radixcheck_version=version("radixcheck"),
            command=clean(shlex.join(["radixcheck", *sys.argv[1:]]), LONGEST_COMMAND),
            began=self._began.strftime("%Y-%m-%dT%H:%M:%SZ"),
            elapsed_s=round(time.monotonic() - self._began_s, 3),
            exit_code=int(code),
            targets=tuple(self.targets),
            notes=tuple(self.notes),
        )


class Rates(Struct):
    """Notes how fast a run goes: called with its report after every trace."""

    every_s: float = 0.25
    parts: list[RatePart] = field(default_factory=list)
    operations: int = 0
    """Operations at the last moment."""
    at_s: float = 0.0

    def __call__(self, report: Report, *, last: bool = False) -> None:
        """Note this moment, if it is long enough after the last one."""
        passed_s = report.elapsed_s - self.at_s
        if passed_s <= 0 or (passed_s < self.every_s and not last):
            return
        speed = (report.operations - self.operations) / passed_s
        reached = sum(1 for count in report.reached.values() if count)
        part = RatePart(report.elapsed_s, speed, reached, len(report.findings))
        self.parts.append(part)
        self.operations, self.at_s = report.operations, report.elapsed_s
        if len(self.parts) > MOMENTS:
            self.parts, self.every_s = self.parts[1::2], 2 * self.every_s
