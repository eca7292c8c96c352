"""Answers that are given before the target has given them, so that many calls travel at once.

A target in another process costs a trip there and back for each call. But what most calls must
answer is known: the model has it. So the judge is answered from the model at once, and the call
waits until one comes whose answer only the target can give. Then all of them travel in one batch::

    judge     insert  match  inc_ref  match  evict            insert ...
                 |      |       |       |     |  ^               |
    model        +-0    +-4     +-      +-2   |  |               +-2
                                              v  |
    target    . . . . . . . . . [insert match inc_ref match evict]

When the batch is back, what was foreseen is compared with what came. While both are equal, the
judge has seen what it would have seen without batches. The first answer that is not as foreseen
ends the trial, and other trials decide (see `judged`). So a batch can change no verdict:

* No false alarm: all that is judged are answers that the target has really given, to calls that the
  judge would have made without batches, too.
* Nothing is hidden: what is not as foreseen is judged again, call by call, as it came.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

from radixcheck.capabilities import SILENT, Capabilities
from radixcheck.clock import Clock
from radixcheck.protocol import Crashed, Foreseen, Match, Slots, Target, level_name
from radixcheck.reference.model import Model
from radixcheck.rules import Violation
from radixcheck.trace import Config

Open: TypeAlias = Callable[[Config, Clock], Any]

METHODS = tuple(name for name in vars(Target) if not name.startswith("_"))
SIZES = {
    "evictable_size": "evictable_tokens",
    "protected_size": "covered_tokens",
    "total_size": "total_tokens",
}
"""Per size that a target tells: where the model has it."""

LOOKS = ("dump", *SIZES)
"""What is asked about the operation before, and changes nothing."""


FORESEEN = Foreseen()


class Call(Protocol):
    """A call that was prepared and not yet made."""

    @property
    def handle(self) -> Any:
        """What the answer to a match will be named by."""
        ...


class Reply(Protocol):
    """What came of a call."""

    @property
    def value(self) -> Any:
        """What the method answered; of a match, only (length, slots)."""
        ...

    @property
    def error(self) -> Callable[[], Exception] | None:
        """Makes what it raised instead."""
        ...

    @property
    def sizes(self) -> Mapping[str, int]:
        """The sizes right after the call, those that are promised to cost nothing."""
        ...


class Batching(Protocol):
    """A target that takes several calls at once."""

    capabilities: Capabilities
    most_calls: int
    """How many it takes."""

    def prepare(self, method: str, *arguments: Any) -> Call:
        """Write down a call of a method of `Target`, with copies of all its arguments."""
        ...

    def send(self, calls: Sequence[Call]) -> Sequence[Reply]:
        """Make `calls`, one after the other.

        Raises:
            Crashed, Hung, BadAnswer: then nobody knows how many of them were made.
        """
        ...


class Unforeseen(BaseException):
    """A target has not answered as the model foresaw. No judge may take it for an error of the
    target's, so it is no `Exception`."""


class _Handle:
    """A handle as the judge gets it."""

    __slots__ = ("inside", "locks", "upheavals")

    def __init__(self, inside: Any, upheavals: int) -> None:
        self.inside = inside
        self.locks = 0
        self.upheavals = upheavals
        """How many evictions and resets came before it."""


class _Waiting:
    """A call that waits to be made, and what is foreseen of it."""

    __slots__ = ("answer", "before", "call", "method", "sizes")

    def __init__(self, method: str, call: Call, answer: Any, before: int | None) -> None:
        self.method = method
        self.call = call
        self.answer = answer
        self.before = before
        """Of a lock: the evictable tokens before it, until the model has followed."""
        self.sizes: dict[str, int] = {}
        """What the judge was told when it asked."""

    def foreseen(self) -> Reply:
        """Return what should come."""
        reply: Any = SimpleNamespace(value=self.answer, error=None, sizes=self.sizes)
        return reply  # type: ignore[no-any-return]  # a protocol has no class to make it of

    def is_as_foreseen(self, reply: Reply, *, any_value: bool) -> bool:
        """Compare with what came."""
        return (
            reply.error is None
            and (any_value or reply.value == self.answer)
            and all(reply.sizes.get(name) == size for name, size in self.sizes.items())
        )


class Ahead:
    """A target whose answers are given in advance. `follow` a model before the first call.

    Args:
        target: a fresh one.
    """

    def __init__(self, target: Batching) -> None:
        self.capabilities = target.capabilities
        self.known: list[tuple[str, Reply]] = []
        """All methods that were called so far, and what came of each."""
        self.death: Crashed | None = None
        """What became of it in the midst of a batch: it ended, or did not come back."""
        self._target = target
        self._model: Model
        self._waiting: list[_Waiting] = []
        self._sizes: Mapping[str, int] = {}
        self._upheavals = 0
        self._surprised = False
        self._leaves_last = target.capabilities.longest_match == "n-1"
        self._silent = SILENT[target.capabilities.deltas]

    def follow(self, model: Model) -> None:
        """Foresee what `model` has stored."""
        self._model = model

    def settle(self) -> None:
        """Make all calls that wait.

        Raises:
            Unforeseen: one was answered otherwise.
        """
        self._begin()
        if self._waiting:
            self._send()

    # ---- the methods of a target -----------------------------------------------------------

    def match_prefix(self, tokens: Sequence[int], namespace: tuple[str, ...] = ()) -> Match:
        """Answer what is stored."""
        key = tuple(tokens[:-1] if self._leaves_last else tokens)
        found = self._model.find(key, namespace)
        call = self._wait((found.length, found.slots), "match_prefix", tokens, namespace)
        return Match(found.length, found.slots, _Handle(call.handle, self._upheavals))

    def insert(
        self,
        tokens: Sequence[int],
        slots: Slots,
        namespace: tuple[str, ...] = (),
        priority: int = 0,
        owned_from: int = 0,
    ) -> int:
        """Answer how much is stored."""
        existing = self._model.find(tuple(tokens), namespace).length
        self._wait(existing, "insert", tokens, slots, namespace, priority, owned_from)
        return existing

    def inc_ref(self, handle: _Handle) -> int | Foreseen | None:
        """Answer nothing in advance: what the evictable size changes by is known a moment later.

        What was idle while others were evicted may be dead, and then only the target can say.
        """
        idle_for_long = not handle.locks and handle.upheavals != self._upheavals
        delta = self._lock("inc_ref", handle, surely=not idle_for_long)
        handle.locks += 1
        return delta

    def dec_ref(self, handle: _Handle) -> int | Foreseen | None:
        """Answer nothing in advance, unless nothing is locked: then only the target can say."""
        delta = self._lock("dec_ref", handle, surely=handle.locks > 0)
        handle.locks -= 1
        return delta

    def evict(self, num_tokens: int) -> Any:
        """Let the target choose."""
        self._upheavals += 1
        return self._ask("evict", num_tokens)

    def reset(self) -> None:
        """Forget everything."""
        self._upheavals += 1
        self._ask("reset")

    def dump(self) -> Any:
        """Let the target show itself."""
        return self._ask("dump")

    def evictable_size(self) -> int:
        """Answer the model's number, or what came with the last answer."""
        return self._size("evictable_size")

    def protected_size(self) -> int:
        """Answer the model's number, or what came with the last answer."""
        return self._size("protected_size")

    def total_size(self) -> int:
        """Answer the model's number, or what came with the last answer."""
        return self._size("total_size")

    # ---- inside ----------------------------------------------------------------------------

    def _wait(self, answer: Any, method: str, *arguments: Any, before: int | None = None) -> Call:
        """Let a call wait whose answer is foreseen."""
        self._begin()
        if len(self._waiting) >= self._target.most_calls - 1:  # one more may come along
            self._send()
        call = self._target.prepare(method, *arguments)
        self._waiting.append(_Waiting(method, call, answer, before))
        return call

    def _lock(self, method: str, handle: _Handle, *, surely: bool) -> int | Foreseen | None:
        if not surely:
            delta: int | None = self._ask(method, handle.inside)
            return delta
        self._wait(FORESEEN, method, handle.inside, before=self._model.evictable_tokens)
        return FORESEEN

    def _begin(self) -> None:
        """Be done with the operation before."""
        if self._surprised:
            raise Unforeseen
        self._complete()

    def _complete(self) -> None:
        """Note what a lock must have answered, now that the model has followed."""
        if self._waiting and (last := self._waiting[-1]).before is not None:
            last.answer = self._model.evictable_tokens - last.before
            last.before = None

    def _size(self, name: str) -> int:
        if getattr(self.capabilities, name) == "walked":
            return int(self._ask(name))
        self._complete()
        if self._waiting:
            size = int(getattr(self._model, SIZES[name]))
            self._waiting[-1].sizes[name] = size
            return size
        known = self._sizes.get(name)
        return int(self._ask(name)) if known is None else known

    def _ask(self, method: str, *arguments: Any) -> Any:
        """Make a call whose answer only the target can give, and before it all that wait."""
        if method in LOOKS:
            self._complete()
        else:
            self._begin()
        reply = self._send(method, *arguments)
        if reply.error is not None:
            raise reply.error()
        return reply.value

    def _send(self, method: str = "", *arguments: Any) -> Reply:
        """Make the calls that wait, and one of `method` if there is any; return the last reply."""
        waiting, self._waiting = self._waiting, []
        calls = [each.call for each in waiting]
        if method:
            calls.append(self._target.prepare(method, *arguments))
        try:
            replies = self._target.send(calls)
        except Crashed as error:
            if not waiting:
                raise
            self._died(error, waiting, method)
            raise Unforeseen from None
        self._compare(waiting, replies, method)
        self._sizes = replies[-1].sizes
        return replies[-1]

    def _died(self, error: Crashed, waiting: list[_Waiting], method: str) -> None:
        """Note a death in the midst of a batch. Which call it was nobody knows; so the last one
        gets it, and those before it are taken to have answered as was foreseen::

            insert  match  inc_ref  match  evict
            +-0     +-4    +-       +-2    +-died
        """
        survived = waiting if method else waiting[:-1]
        self.known += ((each.method, each.foreseen()) for each in survived)
        size = len(waiting) + bool(method)
        what = f"{error.what} in a batch of {size} calls, and not when they came one by one"
        self.death = type(error)(what, error.said)

    def _compare(self, waiting: list[_Waiting], replies: Sequence[Reply], method: str) -> None:
        """Note the replies up to the first that is not as foreseen.

        A look belongs to the operation before it. So if that was a surprise, it is told only when
        the judge has looked at all it wants.
        """
        for each, reply in zip(waiting, replies, strict=False):
            self.known.append((each.method, reply))
            any_value = each.method in self._silent
            if not each.is_as_foreseen(reply, any_value=any_value):
                self._surprised = True
                if each is not waiting[-1] or method not in LOOKS:
                    raise Unforeseen
        if method:
            self.known.append((method, replies[-1]))


def as_target(answers: Any, methods: Sequence[str], capabilities: Capabilities) -> Any:
    """Return a target with exactly `methods`, taken from `answers`."""
    return SimpleNamespace(
        capabilities=capabilities, **{name: getattr(answers, name) for name in methods}
    )


def foreseeable(target: Any, config: Config) -> bool:
    """Tell whether a target takes batches, and the model knows its answers.

    Not where it may keep one of several copies, or lock more than was matched: then there are
    several right answers. And not where it reads the time, for in a batch time stands still, and
    what is surely older to us might not be to the target.
    """
    if getattr(target, "most_calls", 1) < 2 or level_name(target) != "tree":
        return False
    can = target.capabilities
    exact = can.match_splits and can.closed and can.duplicates != "both-kept"
    timed = can.clock == "own" and can.resolution_s != 0
    return exact and not timed and not config.get("disable")


# --------------------------------------------------------------------------------- the verdict


class Verdict(Protocol):
    """What came out of a trial."""

    @property
    def violation(self) -> Violation | None:
        """The rule that was broken."""
        ...


Judged = TypeVar("Judged", bound=Verdict)
Judged_co = TypeVar("Judged_co", bound=Verdict, covariant=True)


class Trial(Protocol[Judged_co]):
    """One trace on its way through one fresh target."""

    @property
    def judge(self) -> Any:
        """Who compares the target with the model."""
        ...

    def run(self) -> Judged_co:
        """Answer the verdict."""
        ...


class _Told(NamedTuple):
    """What is known of a target after a trial that did not go as foreseen."""

    capabilities: Capabilities
    methods: Sequence[str]
    known: list[tuple[str, Reply]]
    death: Crashed | None


def judged(open_target: Open, make: Callable[[Open], Trial[Judged]]) -> Judged:
    """Judge a target in batches if it takes them, or else as any other.

    What does not go as foreseen is judged again::

        a surprise: by the answers as they came --- it breaks a rule: that is the verdict
                                                 `-- it does not: a fresh cache, without batches
        a death:    a fresh cache, without batches --- it comes back: that is the verdict
                                                    `-- it does not: told where the batch ended

    Args:
        make: sets up a trial of what it is given to open.
    """
    verdict, told = _in_batches(open_target, make)
    if verdict is not None:
        return verdict
    assert told is not None
    if told.death is None:
        with suppress(Unforeseen):
            return make(_reciting(told)).run()
    verdict = make(open_target).run()
    if verdict.violation is None and told.death is not None:
        with suppress(Unforeseen):
            return make(_reciting(told)).run()
    return verdict


def _in_batches(
    open_target: Open, make: Callable[[Open], Trial[Judged]]
) -> tuple[Judged | None, _Told | None]:
    """Run a trial in batches. Whatever it used is let go of before another one begins."""
    opened: list[Ahead] = []
    methods: list[str] = []

    def open_ahead(config: Config, clock: Clock) -> Any:
        target = open_target(config, clock)
        if not foreseeable(target, config):
            return target
        opened.append(Ahead(target))
        methods.extend(name for name in METHODS if hasattr(target, name))
        return as_target(opened[0], methods, target.capabilities)

    trial = make(open_ahead)
    if not opened:
        return trial.run(), None
    (ahead,) = opened
    ahead.follow(trial.judge.trial.model)
    with suppress(Unforeseen):
        verdict = trial.run()
        ahead.settle()
        return verdict, None
    return None, _Told(ahead.capabilities, methods, ahead.known, ahead.death)


def _reciting(told: _Told) -> Open:
    """Return what opens a target that answers what is known, and then dies or knows no more."""
    return lambda config, clock: as_target(_Recital(told), told.methods, told.capabilities)


class _Recital:
    """Answers as a target has answered before."""

    def __init__(self, told: _Told) -> None:
        self._known = iter(told.known)
        self._death = told.death
        self._sizes: Mapping[str, int] = {}

    def __getattr__(self, method: str) -> Callable[..., Any]:
        return partial(self._size if method in SIZES else self._next, method)

    def match_prefix(self, *_: Any) -> Match:
        """Answer as the target did. Its handle needs no name any more."""
        length, slots = self._next("match_prefix")
        return Match(length, slots, None)

    def _size(self, name: str) -> Any:
        size = self._sizes.get(name)
        return self._next(name) if size is None else size

    def _next(self, method: str, *_: Any) -> Any:
        called, reply = next(self._known, (None, None))
        if reply is None and self._death is not None:
            raise self._death
        if reply is None or called != method:
            raise Unforeseen
        self._sizes = reply.sizes
        if reply.error is not None:
            raise reply.error()
        return reply.value
