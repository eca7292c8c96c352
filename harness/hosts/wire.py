"""What passes between a worker and its parent, as typed messages; never code, never a pickle.

A question names a method of `radixcheck.hosts.here.Here` and carries its arguments. It gets one
answer: what the method returned, what it raised, or how the process ended that tried. What is no
plain data on one side is *told* to the other::

    Verdict  --tell-->  _VerdictTold  ==msgpack==>  _VerdictTold  --heard-->  Verdict
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, NoReturn, TypeAlias

import msgspec
from msgspec import Raw, Struct

from radixcheck.arena import Arena
from radixcheck.buffers import BadAnswer, legible
from radixcheck.capabilities import AnyCapabilities, Capabilities, PoolCapabilities
from radixcheck.claims import BY_LEVEL, Claim, Tried
from radixcheck.claims.bench import Fault, Trouble
from radixcheck.finding import Snapshot, Step
from radixcheck.journal import OUTSIDE
from radixcheck.levels import LEVELS
from radixcheck.registry import Place, Source, TargetError, Value
from radixcheck.rules import Violation
from radixcheck.trace import Config, Trace
from radixcheck.verdict import Replay, Verdict

encode = msgspec.msgpack.Encoder().encode

# ---- capabilities, verdicts --------------------------------------------------------------


class _Promised(Struct, frozen=True):
    """Capabilities of any level. Two structs without a tag need a field each."""

    cache: Capabilities | None = None
    pool: PoolCapabilities | None = None

    @classmethod
    def tell(cls, promised: AnyCapabilities) -> _Promised:
        return cls(pool=promised) if isinstance(promised, PoolCapabilities) else cls(promised)

    def heard(self) -> AnyCapabilities:
        promised = self.cache or self.pool
        assert promised is not None
        return promised


class _VerdictTold(Struct, frozen=True):
    violation: Violation | None
    promised: _Promised
    operations: int
    reached: dict[str, int]
    skipped: dict[str, int]

    @classmethod
    def tell(cls, verdict: Verdict) -> _VerdictTold:
        promised = _Promised.tell(verdict.capabilities)
        counts = verdict.operations, verdict.reached, verdict.skipped
        return cls(verdict.violation, promised, *counts)

    def heard(self) -> Verdict:
        counts = self.operations, Counter(self.reached), Counter(self.skipped)
        return Verdict(self.violation, self.promised.heard(), *counts)


class _ReplayTold(Struct, frozen=True):
    verdict: _VerdictTold
    steps: tuple[Step, ...]
    pictures: tuple[Snapshot, ...]

    @classmethod
    def tell(cls, seen: Replay) -> _ReplayTold:
        return cls(_VerdictTold.tell(seen.verdict), seen.steps, seen.pictures)

    def heard(self) -> Replay:
        return Replay(self.verdict.heard(), self.steps, pictures=self.pictures)


# ---- arenas, claims ----------------------------------------------------------------------


class _ArenaTold(Struct, frozen=True):
    config: Config
    promised: _Promised
    operations: frozenset[str]
    level: str
    capacity: int | None
    methods: frozenset[str]
    counted: bool

    @classmethod
    def tell(cls, arena: Arena) -> _ArenaTold:
        promised, level = _Promised.tell(arena.capabilities), arena.level.name
        rest = arena.capacity, arena.methods, arena.counted
        return cls(arena.config, promised, arena.operations, level, *rest)

    def heard(self) -> Arena:
        level, rest = LEVELS[self.level], (self.capacity, self.methods, self.counted)
        return Arena(self.config, self.promised.heard(), self.operations, level, *rest)


class _TriedTold(Struct, frozen=True):
    words: str
    trouble: tuple[str, Fault, str] | None
    config: Config | None
    unneeded: str

    @classmethod
    def tell(cls, tried: Tried | None) -> _TriedTold | None:
        if tried is None:
            return None
        seen = tried.trouble
        trouble = (seen.seen, seen.fault, seen.hint) if seen else None
        return cls(tried.claim.words, trouble, tried.config, tried.unneeded)

    def heard(self) -> Tried:
        trouble = Trouble(*self.trouble) if self.trouble else None
        return Tried(_claim(self.words), trouble, self.config, self.unneeded)


@cache
def _claim(words: str) -> Claim:
    every = (claim for _, claims in BY_LEVEL.values() for claim in claims)
    return next(claim for claim in every if claim.words == words)


# ---- the source --------------------------------------------------------------------------


class _ParameterTold(Struct, frozen=True):
    name: str
    kind: int
    default: Value | None = None
    required: bool = False

    @classmethod
    def tell(cls, parameter: inspect.Parameter) -> _ParameterTold:
        default = parameter.default
        plain = default if isinstance(default, bool | int | float | str) else None
        required = default is parameter.empty
        return cls(parameter.name, int(parameter.kind), plain, required)

    def heard(self) -> inspect.Parameter:
        kind = inspect._ParameterKind(self.kind)
        default = inspect.Parameter.empty if self.required else self.default
        return inspect.Parameter(self.name, kind, default=default)


class _SourceTold(Struct, frozen=True):
    """A source in all but its factory."""

    spec: str
    name: str
    place: tuple[str, str | None, str]
    parameters: tuple[_ParameterTold, ...]
    arguments: dict[str, Value]
    overrides: dict[str, Value]
    supports: dict[str, list[Any]]
    methods: tuple[str, ...]

    @classmethod
    def tell(cls, source: Source) -> _SourceTold:
        module, path, attribute = source.place
        return cls(
            source.spec,
            source.name,
            (module, str(path) if path else None, attribute),
            tuple(map(_ParameterTold.tell, source.parameters.values())),
            dict(source.arguments),
            dict(source.overrides),
            {key: list(values) for key, values in source.supports.items()},
            tuple(name for name in dir(source.factory) if not name.startswith("_")),
        )

    def heard(self) -> Source:
        module, path, attribute = self.place
        return Source(
            self.spec,
            self.name,
            Place(module, Path(path) if path else None, attribute),
            _Elsewhere(self.name, self.methods),
            {each.name: each.heard() for each in self.parameters},
            self.arguments,
            self.overrides,
            self.supports,
        )


class _Elsewhere:
    """Stands for a factory that only a worker has: one can see what its targets can do."""

    def __init__(self, name: str, methods: tuple[str, ...]) -> None:
        self._name = name
        self.__dict__.update(dict.fromkeys(methods))

    def __call__(self, **_: Any) -> NoReturn:
        raise TargetError(f"{self._name} lives in a worker", "ask its host", "adapter")


# ---- questions ---------------------------------------------------------------------------


class Method(NamedTuple):
    """A method that a worker can be asked for."""

    takes: Any
    """The type of its arguments, as a tuple."""
    told: Any = None
    """The type in which its answer travels."""
    tell: Callable[[Any], Any] = lambda answer: answer
    heard: Callable[[Any], Any] = lambda told: told


def _method(takes: Any, told: Any) -> Method:
    return Method(takes, told, told.tell, told.heard)


READY = b"ready"
"""What a worker says first, when its target is imported, or cannot be."""

METHODS: dict[str, Method] = {
    "describe": _method(tuple[()], _SourceTold),
    "arenas": Method(
        tuple[()],
        list[_ArenaTold],
        lambda arenas: [_ArenaTold.tell(each) for each in arenas],
        lambda told: [each.heard() for each in told],
    ),
    "look": _method(tuple[Config], _ArenaTold),
    "check": _method(tuple[Trace, bool], _VerdictTold),
    "record": _method(tuple[Trace], _ReplayTold),
    "replay": _method(tuple[Trace], _ReplayTold),
    "until": _method(tuple[Trace, int], _ReplayTold),
    "again": Method(tuple[str, Trace], Violation | None),
    "raised": Method(tuple[Trace, str], list[str]),
    "claim": Method(
        tuple[int], _TriedTold | None, _TriedTold.tell, lambda told: told and told.heard()
    ),
}

Question: TypeAlias = tuple[float, bool, str, Raw]
"""The patience in seconds for each call, whether a child that has judged nothing is wanted, the
method, the arguments."""

read_question = msgspec.msgpack.Decoder(Question).decode


def read(told: Any, data: bytes | Raw) -> Any:
    """Read what travelled as `told`."""
    return _decoder(told).decode(data)


@cache
def _decoder(told: Any) -> msgspec.msgpack.Decoder[Any]:
    return msgspec.msgpack.Decoder(told)


# ---- answers -----------------------------------------------------------------------------


class Answered(Struct, frozen=True, tag="answered"):
    """The method returned this."""

    value: Raw


class Failed(Struct, frozen=True, tag="failed"):
    """The method raised."""

    kind: Literal["target", "adapter", "harness"]
    message: str
    hint: str = ""
    fault: Literal["user", "adapter", "target"] = "user"
    notes: tuple[str, ...] = ()
    library: str = ""
    """A library that needs its sanitizer in the process before anything else."""

    def error(self) -> Exception:
        """Make the exception anew."""
        error: Exception
        if self.kind == "target":
            error = TargetError(self.message, self.hint, self.fault)
        elif self.kind == "adapter":
            error = BadAnswer.__new__(BadAnswer, self.message)
        else:
            error = RuntimeError(self.message)
        for note in self.notes:
            error.add_note(note)
        return error


_TOO_MUCH: dict[type[Exception], str] = {
    OverflowError: "a number of more than 64 bits",
    UnicodeEncodeError: "text with a lone surrogate",
}
"""What no message can carry, by the error with which it is refused."""


def untold(error: Exception, name: str) -> Failed:
    """Say why an answer could not be encoded.

    Args:
        error: what the encoder raised.
        name: the target that has answered.
    """
    if what := _TOO_MUCH.get(type(error)):
        message = f"{name} answered {what}, which no message can carry"
        return Failed("adapter", legible(f"{message}. The adapter is at fault, not the cache."))
    return Failed("harness", legible(f"{type(error).__name__}: {error}"))


def answered(value: Any, name: str) -> bytes:
    """Encode what a method has returned; of what cannot travel, why.

    Args:
        name: the target that was asked.
    """
    try:
        return encode(Answered(Raw(encode(value))))
    except Exception as error:
        return encode(untold(error, name))


class Died(Struct, frozen=True, tag="died"):
    """The process ended that tried."""

    signal: int = 0
    status: int = 0
    limit: Literal["", "time", "memory"] = ""
    """The limit for which it was ended."""
    allowed: float = 0
    """What that limit was, in seconds or in bytes."""
    place: int = OUTSIDE
    """The operation that was running, or `OUTSIDE`, or `AFTER`."""
    calls: int = 0
    """How many calls had begun since the question came."""
    said: str = ""
    """What was written to stdout and stderr last."""


Answer: TypeAlias = Answered | Failed | Died

read_answer = msgspec.msgpack.Decoder(Answer).decode
