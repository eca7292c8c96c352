"""Hypothesis for caches: strategies for keys, operations and traces, and state machines.

::

    from radixcheck.strategies import judge, machine, traces

    TestMine = machine("package.module:Cache").TestCase      # one operation after the other

    @given(traces("package.module:Cache"))                   # or whole traces, as data
    def test_mine(trace):
        judge("package.module:Cache", trace)

All that Hypothesis has works as with any other test: settings and profiles, seeds, the example
database, statistics, which count our situations. What it has shrunk we shrink further, save as a
trace that ``radixcheck replay`` takes, and tell as a finding.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, NoReturn, TypeAlias, cast

from hypothesis import Phase, currently_in_test_context, event, settings
from hypothesis import strategies as st
from hypothesis.control import current_build_context
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from hypothesis.strategies import SearchStrategy
from msgspec import structs

from radixcheck.arena import Arena
from radixcheck.cli.runner import keep
from radixcheck.clock import Clock
from radixcheck.drivers import hypothesis as driver
from radixcheck.drivers.hypothesis import ALPHABET, WAYS, Numbers, Past
from radixcheck.hosts import Here, Host
from radixcheck.levels import Judge
from radixcheck.loop import investigate
from radixcheck.operations import AnyOperation, Audit, Tokens
from radixcheck.protocol import Factory
from radixcheck.registry import Source, resolve, source_of
from radixcheck.report.block import Origin
from radixcheck.report.plain import plain_text
from radixcheck.rules import RULES, Violation
from radixcheck.trace import Config, Trace

__all__ = [
    "Machine",
    "RuleBroken",
    "judge",
    "keys",
    "machine",
    "operations",
    "register_profiles",
    "traces",
]

FINDINGS_DIR = Path("radixcheck-findings")
"""Where findings are saved unless somebody says otherwise; the commands save theirs there too."""

MOST_OPERATIONS = 50

Target: TypeAlias = str | Factory | Host
"""A spec, a factory, or a host in which a target lives; a machine judges in its own process."""


class RuleBroken(AssertionError):
    """A target broke a rule. Each signature has a class of its own below this one, since Hypothesis
    tells failures apart by their types."""


# ------------------------------------------------------------------------------------ strategies


def keys(
    page_size: int = 1, near: Sequence[Tokens] = (), alphabet: Sequence[int] = range(1, 4)
) -> SearchStrategy[Tokens]:
    """Draw keys: runs of tokens of `alphabet`, and beginnings, extensions and forks of `near`."""
    drawn = driver.ALWAYS
    return st.builds(
        lambda **recipe: driver.key(page_size, alphabet, near, **recipe),
        **{name: drawn[name] for name in ("back", "dropped", "then")},
    )


def operations(
    target: Target,
    *,
    only: Iterable[str] | None = None,
    max_size: int = MOST_OPERATIONS,
    misuse: bool = False,
) -> SearchStrategy[tuple[AnyOperation, ...]]:
    """Draw operations that `target` can do in the first of its configurations.

    Args:
        only: names of kinds, such as ``insert``; all if it is left out.
        max_size: operations at most.
        misuse: also unlock what is not locked.
    """
    return driver.operations(_known(target).arenas[0], only, max_size, misuse=misuse)


def traces(
    target: Target,
    *,
    only: Iterable[str] | None = None,
    max_size: int = MOST_OPERATIONS,
    misuse: bool = False,
) -> SearchStrategy[Trace]:
    """Draw traces for `target`: a configuration that it supports, operations, and an audit.

    Args:
        only, max_size, misuse: as of `operations`.
    """
    return st.one_of(
        [
            st.builds(
                partial(_audited, arena.config, misuse),
                driver.operations(arena, only, max_size, misuse=misuse),
            )
            for arena in _known(target).arenas
        ]
    )


def _audited(config: Config, misuse: bool, drawn: tuple[AnyOperation, ...]) -> Trace:
    return Trace((*drawn, Audit()), config, misuse)


def judge(
    target: Target,
    trace: Trace,
    *,
    rules: Collection[str] | None = None,
    findings_dir: Path | None = FINDINGS_DIR,
) -> None:
    """Judge a fresh target by `trace`.

    Args:
        rules: those that count; all if it is left out.
        findings_dir: where a finding is saved; None to save none.

    Raises:
        RuleBroken: it broke one. The message is the finding.
        TargetError: the target cannot be opened.
        BadAnswer: its adapter answered what cannot be read.
    """
    __tracebackhide__ = True
    verdict = _known(target).host.check(trace)
    _tell(verdict.reached)
    if verdict.violation is not None and _counts(verdict.violation, rules):
        _fail(_known(target).host, trace, verdict.violation, findings_dir)


# --------------------------------------------------------------------------------- state machines


class Machine(RuleBasedStateMachine):
    """Applies one operation after the other to a fresh target, and audits it at the end.

    `machine` makes a class below this one for each target, with one rule of Hypothesis's for each
    way to go on.
    """

    host: ClassVar[Here]
    arenas: ClassVar[Sequence[Arena]]
    rules_that_count: ClassVar[Collection[str] | None]
    misuse: ClassVar[bool]
    findings_dir: ClassVar[Path | None]

    def __init__(self) -> None:
        super().__init__()
        self.operations: list[AnyOperation] = []
        self.judge: Judge | None = None
        """None before the target is opened, and after it broke a rule that does not count: target
        and model are out of step then."""

    def open(self, config: Config, alphabet: Sequence[int]) -> None:
        """Make a fresh target."""
        arena = next(each for each in self.arenas if each.config == config)
        clock = Clock()
        self.config = config
        self.past = Past(arena, alphabet, misuse=self.misuse)
        self.judge = arena.level.judge(
            self.host.source.open(config, clock),
            clock,
            misuse=self.misuse,
            disabled=bool(config.get("disable")),
            overwrites=True,
            thorough=False,
        )

    def apply(self, operation: AnyOperation) -> None:
        """Apply an operation, and raise what it broke."""
        __tracebackhide__ = True
        if self.judge is None:
            return
        self.operations.append(operation)
        violation = self.judge.apply(operation)
        if violation is None:
            return
        _tell(self.judge.reached)
        self.judge = None
        if _counts(violation, self.rules_that_count):
            trace = Trace(tuple(self.operations), self.config, self.misuse)
            here = structs.replace(violation, step=len(self.operations) - 1)
            _fail(self.host, trace, here, self.findings_dir)

    def teardown(self) -> None:
        """Audit the target, unless something has ended the trace before its time."""
        __tracebackhide__ = True
        if sys.exception() is None:
            self.apply(Audit())
        if self.judge is not None:
            _tell(self.judge.reached)


def machine(
    target: str | Factory,
    *,
    only: Iterable[str] | None = None,
    rules: Collection[str] | None = None,
    misuse: bool = False,
    findings_dir: Path | None = FINDINGS_DIR,
) -> type[Machine]:
    """Make a state machine for `target`; its ``TestCase`` is a test for pytest and unittest.

    Args:
        only: names of the kinds of operation that are its rules; all if it is left out.
        rules: names of the rules of ours that count; all if it is left out.
        misuse: also unlock what is not locked.
        findings_dir: where a finding is saved; None to save none.

    Raises:
        TargetError: the target cannot be opened.
        ValueError: `only` or `rules` has a name that nothing has.
    """
    host, arenas = _known(target)
    for name in set(rules or ()) - set(RULES):
        raise ValueError(f"no rule {name!r}: choose of {', '.join(RULES)}")
    configs = st.sampled_from([arena.config for arena in arenas])
    body: dict[str, Any] = {
        "__doc__": f"Judges {host.source.spec}.",
        "__module__": __name__,
        "host": host,
        "arenas": arenas,
        "rules_that_count": rules,
        "misuse": misuse,
        "findings_dir": findings_dir,
        "open": initialize(config=configs, alphabet=ALPHABET)(Machine.open),
    }
    steps = {name: _step(name, drawn) for name, drawn in driver.ways(arenas, only).items()}
    made: Any = type(_class_name(host.source), (Machine,), body | steps)
    phases = [each for each in settings().phases if each is not Phase.explain]
    made.TestCase.settings = settings(made.TestCase.settings, phases=phases)
    answer: type[Machine] = made
    return answer


def _step(name: str, numbers: Numbers) -> Any:
    """Make the rule of a state machine that goes one way."""
    way = WAYS[name]

    def step(self: Machine, **drawn: Any) -> None:
        __tracebackhide__ = True
        for operation in way.go(self.past, **drawn):
            self.apply(operation)

    def is_possible(self: Machine) -> bool:
        return way.is_open(self.past)

    step.__name__ = name
    made = cast(Any, rule)(**numbers)(step)
    return precondition(is_possible)(made) if way.needs else made


def _class_name(source: Source) -> str:
    """Name a machine by its factory and what the spec says, as Hypothesis remembers examples by the
    name."""
    return _joined(f"{source.place.attribute} {source.spec.partition('?')[2]}")


def _joined(words: str) -> str:
    """Write words as the name of a class."""
    return "".join(word[:1].upper() + word[1:] for word in re.findall(r"[^\W_]+", words))


# -------------------------------------------------------------------------------------- profiles


def register_profiles() -> None:
    """Register the profile ``nightly``: many long examples, and new ones every night.

    Call it in ``conftest.py``, then ``pytest --hypothesis-profile nightly`` finds it. Where CI is
    set, Hypothesis draws the same examples each time and remembers no failure; so this profile is
    made from ``default``, which does neither. Nothing is registered on import, as a test run's
    profiles are its owner's.
    """
    settings.register_profile(
        "nightly",
        settings.get_profile("default"),
        max_examples=5000,
        stateful_step_count=100,
        deadline=None,
        print_blob=True,
    )


# --------------------------------------------------------------------------------------- targets


class _Known(NamedTuple):
    host: Any
    arenas: Sequence[Arena]


def _known(target: Any) -> _Known:
    """Open the target once in each configuration, the disabled one last."""
    return _opened(target)


def _source(target: Any) -> Source:
    return resolve(target) if isinstance(target, str) else source_of(target)


@cache
def _opened(target: Any) -> _Known:
    host = target if _is_host(target) else Here(_source(target))
    arenas = host.arenas()
    if getattr(arenas[0].capabilities, "disable", "absent") == "present":
        arenas.append(arenas[0]._replace(config=arenas[0].config | {"disable": True}))
    return _Known(host, arenas)


def _is_host(target: Any) -> bool:
    return hasattr(target, "arenas") and hasattr(target, "check")


# -------------------------------------------------------------------------------------- findings


def _tell(reached: Iterable[str]) -> None:
    """Let Hypothesis count what situations an example has reached."""
    if currently_in_test_context():
        for situation in reached:
            event(situation)


def _counts(violation: Violation, rules: Collection[str] | None) -> bool:
    return rules is None or violation.rule in rules


def _fail(host: Host, trace: Trace, violation: Violation, findings_dir: Path | None) -> NoReturn:
    """Raise what `trace` broke. Hypothesis runs a failing test hundreds of times and shows the last
    run, so only that one is made a finding."""
    __tracebackhide__ = True
    broken = _exception(*violation.signature)
    if currently_in_test_context() and not current_build_context().is_final:
        raise broken(f"expected {violation.expected}, got {violation.actual}")
    finding = investigate(host, trace, violation, None)
    saved = keep(finding, findings_dir)
    arena = host.look(finding.trace.config)
    origin = Origin(host.source, arena.capabilities, saved, arena.level)
    raise broken("\n" + plain_text(finding, origin))


@cache
def _exception(rule: str, where: str) -> type[RuleBroken]:
    name = _joined(f"{rule} at {where}")
    return type(name, (RuleBroken,), {"__doc__": f"{rule} at {where}.", "__module__": __name__})
