"""Generated mutants: every small mistake in the source of a correct target, and which of them no
caller can tell.

A mutant is known by its text, not by its line number, so that it keeps its name when something
else in the file is edited. Where a survivor behaves like the original, ``equivalent.toml`` beside
the planted mutants says why.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, NamedTuple, TypeAlias

import msgspec
from msgspec import Meta, Struct

from radixcheck.bite.document import percent, seconds
from radixcheck.bite.figures import quantile
from radixcheck.bite.operators import Change, Text, changes
from radixcheck.bite.trial import decoded
from radixcheck.registry import TargetError

Styled: TypeAlias = str | tuple[str, str]
"""A part of a line: text, or text and its style."""

STILLBORN = "stillborn"
"""Instead of a rule: the mutant cannot even be imported, and does not count."""

INCONCLUSIVE = "inconclusive"
"""Instead of a rule: nothing was broken, and situations that every run must reach were not reached
either, so that the run is not green."""


class Subject(NamedTuple):
    """A correct target whose source is mutated."""

    module: str
    specs: tuple[str, ...]
    """How its mutants are judged, in turn."""
    libraries: tuple[str, ...] = ()
    """What must be installed for it."""

    def source(self) -> str:
        """Return the text of the module."""
        found = find_spec(self.module)
        assert found is not None and found.origin is not None
        return Path(found.origin).read_text(encoding="utf-8")


SUBJECTS: dict[str, Subject] = {
    "radix": Subject("radixcheck.targets.radix", ("radix", "radix?clock=own")),
    "radix-paged": Subject(
        "radixcheck.targets.radix_paged",
        (
            "radix-paged",
            "radix-paged?clock=own",
            *(f"radix-paged?page_size=1&eviction={policy}" for policy in ("lru", "lfu", "slru")),
        ),
    ),
    "radix-torch": Subject(
        "radixcheck.targets.radix_torch",
        ("radix-torch", "radix-torch?clock=own", "requests:radix-torch"),
        ("torch",),
    ),
    "pool-plain": Subject(
        "radixcheck.targets.pools.plain", ("pool-exclusive", "pool-counted", "pool-paged")
    ),
    "pool-torch": Subject(
        "radixcheck.targets.pools.tensors",
        ("pool-torch", "requests:radix-torch"),
        ("torch",),
    ),
}
"""Every target that is mutated, by its name on the command line."""


def known(names: Sequence[str] | None) -> list[str]:
    """Check that all of these can be mutated here; without any, name all that can.

    Raises:
        TargetError: one is not known, or what it needs is not installed.
    """
    for name in names or ():
        if name not in SUBJECTS:
            raise TargetError(f"no generated mutants of {name!r}", f"of {', '.join(SUBJECTS)}")
        if lacking := missing(name):
            raise TargetError(f"{name} needs {', '.join(lacking)}", "it is not installed")
    return list(dict.fromkeys(names or (name for name in SUBJECTS if not missing(name))))


def left_out(names: Sequence[str] | None) -> list[str]:
    """Say which of all targets cannot be mutated here, if nobody names any."""
    lacking = {name: ", ".join(missing(name)) for name in SUBJECTS if not names}
    return [f"{name} is left out: it needs {what}" for name, what in lacking.items() if what]


def missing(name: str) -> list[str]:
    """Name the libraries without which a target cannot be judged here."""
    return [each for each in SUBJECTS[name].libraries if find_spec(each) is None]


# ---- mutants -----------------------------------------------------------------------------


class Generated(Struct, frozen=True, order=True, omit_defaults=True):
    """One mistake in one target, as its text tells it."""

    target: str
    where: str
    """The class and the function; empty at the top of the module."""
    line: str
    mutated: str
    operator: str
    nth: int = 0
    """Of several that read alike."""


class Litter(NamedTuple):
    """All mutants of one target."""

    target: str
    source: str
    """The digest of what was mutated: when that is edited, every mutant is hunted anew."""
    codes: dict[Generated, str]
    """The whole mutated source, by the mutant."""


def generate(target: str) -> Litter:
    """Make every mutant of a target.

    Raises:
        TargetError: the library of operators is not installed.
    """
    source = SUBJECTS[target].source()
    text, seen = Text(source), Counter[Generated]()
    litter = Litter(target, sha256(source.encode()).hexdigest()[:12], {})
    for change in changes(source):
        mutant = _told(target, text, change)
        numbered = msgspec.structs.replace(mutant, nth=seen[mutant])
        litter.codes[numbered] = change.made_in(source)
        seen[mutant] += 1
    return litter


def _told(target: str, text: Text, change: Change) -> Generated:
    start, end = text.lines(change.start, change.end)
    changed = change._replace(start=change.start - start, end=change.end - start)
    line = text.source[start:end]
    where, mutated = text.where(change.start), changed.made_in(line)
    return Generated(target, where, _in_a_line(line), _in_a_line(mutated), change.operator)


def _in_a_line(code: str) -> str:
    return " ".join(code.split())


# ---- how their hunts have ended ----------------------------------------------------------


Key: TypeAlias = tuple[Generated, str, int]
"""What makes a second hunt the same one: the mutant, the digest of the source, the seed."""


class Fate(Struct, frozen=True, omit_defaults=True):
    """How one hunt for one mutant has ended."""

    mutant: Generated
    source: str
    seed: int
    limit_s: float
    elapsed_s: float
    """Processor time until the kill, or until the hunt was given up."""
    operations: int
    rule: str = ""
    """What it was killed by: a rule, `STILLBORN`, ``hang``, ``crash``, or ``unusable`` where the
    target could not be opened or its answers not be read; empty for a survivor."""

    @property
    def key(self) -> Key:
        """Which hunt this was."""
        return self.mutant, self.source, self.seed


def read(path: Path) -> dict[Key, Fate]:
    """Read a file of fates, the last of each hunt.

    Raises:
        TrialsError: a whole line is none.
        OSError: it cannot be read.
    """
    return {each.key: each for each in decoded(path, Fate)}


def is_settled(fate: Fate | None, limit_s: float) -> bool:
    """Tell whether a hunt need not be made again: a kill, or what survived as long a one."""
    return fate is not None and (bool(fate.rule) or fate.limit_s >= limit_s)


# ---- equivalent ones ---------------------------------------------------------------------

LIST = "equivalent.toml"


class Equivalent(Struct, frozen=True, forbid_unknown_fields=True):
    """One line, and what may become of it without a caller who can tell::

    [[equivalent]]
    target = "radix"
    where = "Radix._cut"             # left out: the top of the module
    line = "return front"            # spaces count for nothing
    why = "..."
    mutated.name = ["return node"]   # by operators
    """

    target: str
    line: str
    why: Annotated[str, Meta(min_length=1)]
    mutated: dict[str, list[str]]
    where: str = ""

    def mutants(self) -> Iterator[Generated]:
        """Yield what the entry stands for."""
        for operator, lines in self.mutated.items():
            for each in lines:
                yield Generated(self.target, self.where, self.line, each, operator)


class _Listed(Struct, forbid_unknown_fields=True):
    equivalent: list[Equivalent] = []


def listed(text: str | None = None) -> dict[Generated, str]:
    """Read the list: why no caller can tell a mutant, by the mutant.

    Raises:
        tomllib.TOMLDecodeError, msgspec.ValidationError: it is no such list.
    """
    if text is None:
        text = (files("radixcheck.targets.mutants") / LIST).read_text(encoding="utf-8")
    entries = msgspec.convert(tomllib.loads(text), _Listed).equivalent
    return {mutant: entry.why for entry in entries for mutant in entry.mutants()}


# ---- figures -----------------------------------------------------------------------------


BALANCE = ("target", "mutants", "killed", "equivalent", "live", "time", "95 % within", "by")


class Balance(NamedTuple):
    """What became of the mutants of one target."""

    target: str
    killed: list[Fate]
    equivalent: list[Fate]
    """Survivors that are listed."""
    survivors: list[Fate]
    """Others."""
    stillborn: list[Fate]
    stale: list[Generated]
    """Entries of the list that no mutant answers to any more."""
    wrong: list[Generated]
    """Entries of the list whose mutants were all killed."""

    @property
    def total(self) -> int:
        """Count the mutants, those that cannot be imported left out."""
        return len(self.killed) + len(self.equivalent) + len(self.survivors)

    @property
    def share(self) -> float:
        """The share that was killed, before any is taken for equivalent."""
        return len(self.killed) / self.total if self.total else 0.0

    @property
    def rules(self) -> Counter[str]:
        """Count the kills by what did it."""
        return Counter(each.rule for each in self.killed)

    @property
    def times_s(self) -> tuple[float, float]:
        """The median time to a kill, and within which 95 % of them came; 0 without any."""
        times = [each.elapsed_s for each in self.killed] or [0.0]
        return quantile(times, 0.5), quantile(times, 0.95)

    def cells(self) -> Sequence[str]:
        """Return the row of a table whose heading is `BALANCE`."""
        rules = (f"{rule} {count}" for rule, count in self.rules.most_common(4))
        return (
            self.target,
            str(self.total),
            f"{len(self.killed)} ({percent(self.share)})",
            str(len(self.equivalent)),
            str(len(self.survivors)),
            *map(seconds, self.times_s),
            ", ".join(rules),
        )

    def verdict(self) -> str:
        """Say in a line what became of all."""
        told = f"{len(self.killed)} of {self.total} killed, {len(self.equivalent)} equivalent"
        return f"{told}, {len(self.survivors)} live" if self.survivors else told

    def troubles(self) -> Iterator[Sequence[Styled]]:
        """Yield the lines of a report, three for each mutant that wants a look: who it is, what was
        there, and what is there now."""
        for fate in self.survivors:
            yield from _shown(fate.mutant, f"lives after {fate.limit_s:g} s")
        for mutant in self.wrong:
            yield from _shown(mutant, "is listed as equivalent, and was killed")
        for mutant in self.stale:
            yield from _shown(mutant, "is listed as equivalent, and is not made any more")


def _shown(mutant: Generated, what: str) -> Iterator[Sequence[Styled]]:
    yield (f"{mutant.target} {mutant.where}", "bold"), f" ({mutant.operator}) {what}"
    yield [(f"- {mutant.line}", "red")]
    yield [(f"+ {mutant.mutated}", "green")]


def balance(
    litter: Litter, fates: Iterable[Fate], known: Mapping[Generated, str] | None = None
) -> Balance:
    """Sort the mutants of a target by what became of them; what was not hunted is left out.

    Args:
        known: those that no caller can tell; without it, the list.
    """
    known = listed() if known is None else known
    best: dict[Generated, Fate] = {}
    for fate in fates:
        if fate.source == litter.source and (fate.rule or fate.mutant not in best):
            best[fate.mutant] = fate
    ends = [best[each] for each in litter.codes if each in best]
    killed = [each for each in ends if each.rule not in ("", STILLBORN)]
    lives = [each for each in ends if not each.rule]
    own = [each for each in known if each.target == litter.target]
    return Balance(
        litter.target,
        killed,
        [each for each in lives if _first(each.mutant) in known],
        [each for each in lives if _first(each.mutant) not in known],
        [each for each in ends if each.rule == STILLBORN],
        [each for each in own if each not in litter.codes],
        sorted({*own} & _firsts(killed) - _firsts(lives)),
    )


def _first(mutant: Generated) -> Generated:
    """Return the first of the mutants that read alike."""
    return msgspec.structs.replace(mutant, nth=0)


def _firsts(fates: Iterable[Fate]) -> set[Generated]:
    """Return whose fates these are: an entry of the list is about all mutants that read alike."""
    return {_first(each.mutant) for each in fates}
