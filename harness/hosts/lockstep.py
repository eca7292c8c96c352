"""Several hosts side by side: the same traces for all, and a word where they part.

Each target is judged beside a model of its own, under its own freedoms::

    trace ─┬─► target A and its model: keeps every rule up to the end
           ├─► target B and its model: breaks size-drift at step 7    ◄── divergence at step 7
           └─► target C and its model: keeps every rule up to the end

With `exact` the answers themselves must be equal, as those of replicas, or of two ports of one
tree. What a target does not tell, it does not tell otherwise: the change of a size, who the victims
were.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, product
from typing import Any

from msgspec import structs

from radixcheck.arena import Arena
from radixcheck.capabilities import AnyCapabilities, choices_of
from radixcheck.claims import Tried
from radixcheck.finding import Step
from radixcheck.hosts.host import Host
from radixcheck.operations import (
    Changed,
    Failure,
    Freed,
    Outcome,
    Refusal,
    Skipped,
    Unanswered,
    Weighed,
)
from radixcheck.registry import Source, TargetError
from radixcheck.rules import Violation
from radixcheck.trace import Config, Trace
from radixcheck.verdict import Replay, Verdict

DECIDES = ("namespaces", "priorities", "clock", "reset", "misuse", "storage", "disable")
"""The capabilities that decide which operations are generated. The choices of each begin with the
one that allows the fewest."""

GO_WITH = {"clock": ("resolution_s",)}
"""What means nothing without the capability that decides."""

UNTOLD = Skipped | Weighed
"""Outcomes that no other can contradict: nothing was asked, or what only the one target has."""


class Lockstep:
    """Judges several targets as one, on what they have in common.

    Args:
        hosts: two or more, of targets of one level.
        exact: want equal answers, and not only answers that each one's promises allow.
    """

    def __init__(self, hosts: Sequence[Host], *, exact: bool = False) -> None:
        self._hosts = hosts
        self._exact = exact
        spec = shlex.join(host.source.spec for host in hosts)
        self.source: Source = replace(
            hosts[0].source, spec=spec, name=spec, supports=_common([each.source for each in hosts])
        )

    @property
    def kills(self) -> int:
        """How often a worker was killed, of all hosts."""
        return sum(host.kills for host in self._hosts)

    def command(self, path: str) -> list[str]:
        """Return the command that replays a trace file on the same targets."""
        exact = ["--exact"] if self._exact else []
        return ["diff", *(host.source.spec for host in self._hosts), *exact, "--replay", path]

    def teller(self, violation: Violation) -> Host:
        """Return the host of the target that parts from the others."""
        specs = [host.source.spec for host in self._hosts]
        return self._hosts[specs.index(violation.cause) if violation.cause in specs else 0]

    def arenas(self) -> list[Arena]:
        """Join those configurations of the targets that go together.

        Raises:
            TargetError: none does.
        """
        own = [[_left_open(arena, host.source) for arena in host.arenas()] for host in self._hosts]
        joined = [_joined(each) for each in product(*own) if _go_together(each)]
        if not joined:
            hint = "the same level, page size and configuration is wanted of all"
            raise TargetError(f"{self.source.spec}: nothing that all of them support", hint)
        return joined

    def look(self, config: Config) -> Arena:
        """Open every target once under a configuration."""
        return _joined([host.look(config) for host in self._hosts])

    def begin(self, trace: Trace) -> None:
        """Let every host begin."""
        if not self._exact:
            for host in self._hosts:
                host.begin(trace)

    def check(self, trace: Trace, thorough: bool = True) -> Verdict:
        """Judge a trace, and see whether the targets part."""
        if self._exact:
            return self.record(trace).verdict
        verdicts = [host.check(trace, thorough=thorough) for host in self._hosts]
        return _folded(verdicts, self._by_rules(verdicts, trace))

    def record(self, trace: Trace) -> Replay:
        """Judge, and keep every step of the target that parts from the others."""
        return self._together([host.record(trace) for host in self._hosts], trace)

    def replay(self, trace: Trace) -> Replay:
        """Judge, and keep every step and the last pictures of the target that parts."""
        return self._together([host.replay(trace) for host in self._hosts], trace)

    def again(self, rule: str, trace: Trace) -> Violation | None:
        """Run a trace several times on each target, and return what the first one breaks."""
        for host in self._hosts:
            if (violation := host.again(rule, trace)) is not None:
                return structs.replace(violation, cause=host.source.spec)
        return None

    def raised(self, trace: Trace, what: str) -> list[str]:
        """Return the traceback of the first target that raises."""
        return next(filter(None, (host.raised(trace, what) for host in self._hosts)), [])

    def claims(self) -> Iterator[Tried]:
        """Check the plain claims of each target."""
        return chain.from_iterable(host.claims() for host in self._hosts)

    def hurried(self) -> Lockstep:
        """Return the same hosts with less patience."""
        return Lockstep([host.hurried() for host in self._hosts], exact=self._exact)

    def close(self) -> None:
        """End every host."""
        for host in self._hosts:
            host.close()

    # ---- where they part -----------------------------------------------------------------

    def _together(self, seen: Sequence[Replay], trace: Trace) -> Replay:
        """Fold what was seen of every target into one, and show the one that parts."""
        verdicts = [each.verdict for each in seen]
        violation = self._by_rules(verdicts, trace)
        if self._exact:
            other = self._by_answers([each.steps for each in seen], trace)
            if other and (violation is None or other.step < violation.step):
                violation = other
        verdict = _folded(verdicts, violation)
        if violation is None:
            return structs.replace(seen[0], verdict=verdict)
        shown = seen[self._hosts.index(self.teller(violation))]
        shown = shown.up_to(_steps_to(shown.steps, violation.step, trace))
        answers = tuple(
            (host.source.spec, each.steps[len(shown.steps) - 1].outcome)
            for host, each in zip(self._hosts, seen, strict=True)
            if len(each.steps) >= len(shown.steps)
        )
        return structs.replace(shown, verdict=verdict, answers=answers)

    def _by_rules(self, verdicts: Sequence[Verdict], trace: Trace) -> Violation | None:
        """Name the first step at which one breaks a rule that the others keep."""
        broken = [verdict.violation for verdict in verdicts]
        step = min((each.step for each in broken if each), default=-1)
        here = [each if each and each.step == step else None for each in broken]
        if len({each and each.rule for each in here}) == 1:
            return here[0]  # they agree with each other, if not with the model
        specs = [host.source.spec for host in self._hosts]
        spec, one = next((spec, each) for spec, each in zip(specs, here, strict=True) if each)
        others = " and ".join(each for each in specs if each != spec)
        actual = f"{spec} breaks {one.rule}: {one.actual}, where {one.expected} is right"
        expected = f"what {others} may answer"
        kind = trace.operations[step].kind
        return Violation("divergence", kind, step, expected, actual, one.detail, (), spec)

    def _by_answers(self, steps: Sequence[Sequence[Step]], trace: Trace) -> Violation | None:
        """Name the first step at which an answer is not that of the first target."""
        specs = [host.source.spec for host in self._hosts]
        places = _places(steps[0], trace)
        for place, first, *others in zip(places, *steps, strict=False):
            for spec, other in zip(specs[1:], others, strict=True):
                if not _agree(first.outcome, other.outcome):
                    kind = trace.operations[place].kind
                    told = (f"{specs[0]}: {first.outcome}", f"{spec}: {other.outcome}")
                    return Violation("divergence", kind, place, *told, cause=spec)
        return None


def _folded(verdicts: Sequence[Verdict], violation: Violation | None) -> Verdict:
    can = _weakest([verdict.capabilities for verdict in verdicts])
    operations = min(verdict.operations for verdict in verdicts)
    return Verdict(violation, can, operations, verdicts[0].reached, verdicts[0].skipped)


def _agree(one: Outcome, other: Outcome) -> bool:
    """Tell whether two answers say the same, as far as both say something."""
    if isinstance(one, UNTOLD) or isinstance(other, UNTOLD):
        return True
    match one, other:
        case Changed(delta), Changed(also):
            return delta is None or also is None or delta == also
        case Freed(groups), Freed(others):
            return list(chain(*groups)) == list(chain(*others))
        case ((Failure() | Refusal() | Unanswered()), _):
            return type(one) is type(other)
    return one == other


def _places(steps: Sequence[Step], trace: Trace) -> Iterator[int]:
    """Yield for each step the operation of `trace` that it belongs to: an audit has many steps."""
    place, audit = -1, False
    for step in steps:
        if not (step.audit and audit):
            place += 1
            while place < len(trace.operations) - 1 and not _is_of(step, trace, place):
                place += 1
        audit = step.audit
        yield place


def _is_of(step: Step, trace: Trace, place: int) -> bool:
    kind = trace.operations[place].kind
    return kind == ("audit" if step.audit else step.operation.kind)


def _steps_to(steps: Sequence[Step], last: int, trace: Trace) -> int:
    """Count the steps up to an operation, that one included."""
    return sum(place <= last for place in _places(steps, trace))


# ---- what they have in common ------------------------------------------------------------


def _common(sources: Sequence[Source]) -> dict[str, list[Any]]:
    """Return the values that may be swept, of those that every target which sweeps them has."""
    keys = dict.fromkeys(chain.from_iterable(source.supports for source in sources))
    return {
        key: [
            value
            for value in next(each.supports[key] for each in sources if key in each.supports)
            if all(value in each.supports.get(key, (value,)) for each in sources)
        ]
        for key in keys
    }


def _left_open(arena: Arena, source: Source) -> Arena:
    """Leave out of a configuration what the spec has fixed: it is nobody else's."""
    config = {key: value for key, value in arena.config.items() if key not in source.arguments}
    return arena._replace(config=config)


def _go_together(arenas: Sequence[Arena]) -> bool:
    """Tell whether one trace can be judged in all of these."""
    joint: Config = {}
    for arena in arenas:
        if any(joint.get(key, value) != value for key, value in arena.config.items()):
            return False
        joint |= arena.config
    alike = {(a.level.name, a.capabilities.page_size, a.capacity) for a in arenas}
    return len(alike) == 1


def _joined(arenas: Sequence[Arena]) -> Arena:
    """Make one arena of several that go together."""
    config: Config = {}
    for arena in arenas:
        config |= arena.config
    return arenas[0]._replace(
        config=config,
        capabilities=_weakest([arena.capabilities for arena in arenas]),
        operations=frozenset.intersection(*(arena.operations for arena in arenas)),
        methods=frozenset.intersection(*(arena.methods for arena in arenas)),
        counted=all(arena.counted for arena in arenas),
    )


def _weakest(promises: Sequence[AnyCapabilities]) -> AnyCapabilities:
    """Return the first promises, without what one of the others does not give."""
    choices = choices_of(type(promises[0]))
    least: dict[str, Any] = {"deterministic": all(each.deterministic for each in promises)}
    for name in DECIDES:
        if name in choices:
            weakest = min(promises, key=lambda each: choices[name].index(getattr(each, name)))
            for told in (name, *GO_WITH.get(name, ())):
                least[told] = getattr(weakest, told)
    return structs.replace(promises[0], **least)
