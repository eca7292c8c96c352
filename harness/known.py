"""Failures that a project knows of: a file that says which, why, and for how long.

    [[failure]]
    rule = "eviction-order"
    operation = "evict"                  # or what a crash died of; left out: any
    target = "sglang?*"                  # a shell pattern for specs; left out: any
    reason = "a full re-insert does not refresh its entry"
    issue = "https://github.com/example/project/issues/7"
    expires = 2027-06-30
    clean_runs = 20                      # runs without it after which it may go

What is known is counted, but neither shrunk nor red. An entry says itself when it should go: its
day is past, and it covers nothing any more; or it has not occurred for so many runs in a row.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, date, datetime
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta, Struct

from radixcheck.rules import RULES
from radixcheck.trace import write_in_one_step

Signature: TypeAlias = tuple[str, str]
"""The rule and the kind of the operation, or what a crash died of."""

TALLY = "known-failures.json"
"""The file in the findings folder that counts clean runs."""


class KnownFailuresError(ValueError):
    """The file cannot be understood; the message names it, and the entry."""


class Failure(Struct, frozen=True, forbid_unknown_fields=True):
    """One entry of the file."""

    rule: str
    reason: Annotated[str, Meta(min_length=1)]
    operation: str = ""
    target: str = "*"
    issue: str = ""
    expires: date | None = None
    clean_runs: Annotated[int, Meta(ge=1)] = 20

    @property
    def name(self) -> str:
        """What it is called in a report."""
        what = f"{self.rule} at {self.operation}" if self.operation else self.rule
        return what if self.target == "*" else f"{what} on {self.target}"

    def covers(self, spec: str, signature: Signature, today: date) -> bool:
        """Tell whether a violation of the target `spec` is this one."""
        rule, operation = signature
        alike = rule == self.rule and self.operation in ("", operation)
        return alike and self.concerns(spec) and not self.is_over(today)

    def concerns(self, spec: str) -> bool:
        """Tell whether it says anything about the target `spec`."""
        return fnmatchcase(spec, self.target)

    def is_over(self, today: date) -> bool:
        """Tell whether its day is past."""
        return self.expires is not None and today > self.expires


class _File(Struct, forbid_unknown_fields=True):
    failure: tuple[Failure, ...] = ()


def load(path: Path) -> tuple[Failure, ...]:
    """Read a file of known failures.

    Raises:
        KnownFailuresError: it is no TOML, or an entry is not understood.
        OSError: it cannot be read.
    """
    try:
        known = msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), _File).failure
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise KnownFailuresError(f"{path} is no TOML: {error}") from None
    except msgspec.ValidationError as error:
        raise KnownFailuresError(f"{path}: {error}") from None
    for number, each in enumerate(known, start=1):
        if each.rule not in RULES:
            near = ", ".join(get_close_matches(each.rule, RULES)) or "see docs/contract.md"
            raise KnownFailuresError(f"{path}: failure {number}: no rule {each.rule!r}: {near}")
    return known


def today() -> date:
    """Return the day by which entries expire, the same in every time zone."""
    return datetime.now(UTC).date()


def covering(
    known: Iterable[Failure], spec: str, signature: Signature, today: date
) -> Failure | None:
    """Return the entry that covers a violation, if there is one."""
    return next((each for each in known if each.covers(spec, signature, today)), None)


def settle(
    known: Iterable[Failure], seen: Iterable[Failure], tally: dict[str, int], today: date
) -> Iterator[str]:
    """Yield what a run tells about the entries that concern it, and count its clean runs in
    `tally`.

    Args:
        seen: the entries that covered a violation in this run.
    """
    occurred = set(seen)
    for each in known:
        key = f"{each.name}: {each.reason}"  # two entries may name the same
        clean = tally[key] = 0 if each in occurred else tally.get(key, 0) + 1
        if each.is_over(today):
            yield f"remove me: {each.name} expired on {each.expires}"
        elif clean >= each.clean_runs:
            yield f"remove me: {each.name} did not occur in {clean} runs"
        elif clean:
            yield f"{each.name} did not occur ({clean} of {each.clean_runs} clean runs)"


def read_tally(path: Path) -> dict[str, int]:
    """Read how often each entry stayed clean; what cannot be read counts anew."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, int])
    except (OSError, msgspec.DecodeError):
        return {}


def write_tally(path: Path, tally: Mapping[str, int]) -> None:
    """Save how often each entry stayed clean.

    Raises:
        OSError: it cannot be written.
    """
    write_in_one_step(path, msgspec.json.encode(tally, order="sorted"))
