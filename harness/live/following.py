"""A model that follows a living cache: it knows what is stored at any time, also where nobody can
look inside, and what of the answers breaks a rule."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, TypeAlias

from radixcheck.buffers import read_slots
from radixcheck.checker import structure
from radixcheck.checker.broken import counted, listed
from radixcheck.live.calls import Level, Manner
from radixcheck.live.judging import Follower, fetched
from radixcheck.live.naming import Naming, Words
from radixcheck.live.nodes import Node, stored_again
from radixcheck.live.requests import KINDS, TELLING, requests_trace
from radixcheck.live.tape import LOST, Called, Tape
from radixcheck.live.writing import written
from radixcheck.operations import AnyOperation, Audit, DecRef, IncRef, Insert, MatchPrefix
from radixcheck.protocol import DumpedNode
from radixcheck.rules import Violation
from radixcheck.trace import Config, Trace


class Lost(Exception):
    """Something happened to the cache that was not seen; nothing more can be said about it."""


Excuse: TypeAlias = Callable[[Called, Violation | None], str]
"""Called with each call, and again with what it has broken; answers nothing, or why nobody can
judge that."""


class Following:
    """Follows calls, and keeps the last of them as operations.

    Args:
        last: operations that are kept at least.
        nodes: what is stored already, slots and tokens in lists.
        excuse: says why a call, or what it broke, may be nobody's fault but the caller's.
    """

    def __init__(
        self,
        manner: Manner,
        words: Words,
        last: int,
        nodes: Sequence[Node] = (),
        excuse: Excuse = lambda call, violation: "",
    ) -> None:
        self._manner = manner
        self.words = words
        self._excuse = excuse
        self._naming = Naming(words)
        self.follower = Follower(manner.capabilities)
        self._tape = Tape(last, self._look, _tokens_of)
        self._told = Tape(last, self._walk, _tokens_told, nodes)
        """The calls that a trace of requests is made of."""
        self.tells_requests = False
        for _ in self.judge(stored_again(nodes)):
            raise Lost("what is stored already contradicts itself")

    @property
    def dropped(self) -> int:
        """Operations that are no longer there."""
        return self._tape.dropped

    def judge(self, calls: Iterable[Called]) -> Iterator[Violation]:
        """Follow calls; yield what breaks a rule when it does.

        Raises:
            Lost: a lock is taken or given back whose handle is unknown, or a call is excused.
            BadAnswer: a call cannot be read: the cache is not what it was said to be.
        """
        for call in fetched(known(calls)):
            if why := self._excuse(call, None):
                raise Lost(why)
            violation = self._judge(call)
            if violation is not None:
                if why := self._excuse(call, violation):
                    raise Lost(why)
                yield violation

    def _judge(self, call: Called) -> Violation | None:
        kind, given, answer, _ = call
        if kind in KINDS:
            self._told.add(call)
            self.tells_requests |= kind in TELLING
        match kind:
            case "free":
                return self.follower.free(given[0], answer)
            case "left":
                return self.follower.left(given[0], given[1], answer)
            case "alloc":
                return self.follower.alloc(answer)
        for operation in self._operations(call):
            violation = self.follower.follow(operation, call)
            self._tape.add(operation)
            return violation
        return None

    def _operations(self, call: Called) -> list[AnyOperation]:
        naming, unknown = self._naming, self._naming.unknown
        operations = naming.write(call)
        if naming.unknown > unknown and not self._is_root(call[1][0]):
            raise Lost("a lock on a prefix that no match has answered")
        return operations

    def _is_root(self, handle: Any) -> bool:
        key = self._manner.key_of(handle) if self._manner.key_of is not None else None
        return key is not None and not key[0]

    def _look(self) -> list[Node]:
        self.follower.forget(self._naming.names())
        return self.follower.nodes()

    @property
    def stored_tokens(self) -> int:
        """Tokens that are stored."""
        return self.follower.model.total_tokens

    def contradiction(self, dump: Sequence[DumpedNode]) -> Violation | None:
        """Say what the cache's own nodes say against each other."""
        said = structure.contradictions(dump, self.follower.model, self._manner.capabilities)
        broken = next(said, None)
        if broken is None:
            return None
        return Violation(broken.rule, "audit", 0, broken.expected, broken.actual, broken.detail)

    def compare(self, nodes: Sequence[Node]) -> Violation | None:
        """Compare all that is stored, seen from inside, with what the answers so far said."""
        model, total = self.follower.model, sum(len(node.tokens) for node in nodes)
        inner = {node.parent for node in nodes}
        for place in range(len(nodes)):
            if place in inner:
                continue
            tokens, slots = _path(nodes, place)
            namespace = self.words.namespace(nodes[place].namespace)
            found = model.find(self.words.tokens(tokens), namespace)
            if found.slots != slots:
                rule = "phantom-prefix" if len(found.slots) < len(slots) else "foreign-slot"
                told = "seen on a walk of the whole tree"
                return Violation(rule, "audit", 0, listed(found.slots), listed(slots), told)
        if total < model.total_tokens:
            expected, seen = counted(model.total_tokens), counted(total)
            told = "seen on a walk of the whole tree"
            return Violation("lost-insert", "audit", 0, expected, seen, told)
        return None

    def inspect(self) -> Violation | None:
        """Look inside the cache, as far as anybody can."""
        manner, broken = self._manner, None
        if manner.dump is not None:
            broken = self.contradiction(list(manner.dump()))
        if manner.walk is not None:
            broken = broken or self.compare(in_lists(manner.walk()))
        return broken

    def _walk(self) -> list[Node]:
        return list(self._manner.walk()) if self._manner.walk is not None else []

    def trace(self, config: Config) -> Trace:
        """Return what is kept, and before it the operations that store what was stored then."""
        if self.tells_requests:
            return requests_trace(self.words, *self._told.content(), config)
        nodes, operations = self._tape.content()
        again = [*_written(nodes, operations), *operations]
        return Trace(tuple(again), config, misuse=self._naming.misuse)


class Followed:
    """Follows the calls of a pool or of a cache of requests, and keeps the last of them.

    Args:
        level: how they are read, judged and written.
        last: calls that are kept at least.
    """

    stored_tokens = 0
    """Nothing of what is stored is walked."""

    def __init__(
        self,
        level: Level,
        words: Words,
        last: int,
        excuse: Excuse = lambda call, violation: "",
    ) -> None:
        self._excuse = excuse
        self._writer = level.writer
        self._reader, self._follower = level.reader(words), level.follower()
        self._tape = Tape(last, self._follower.again, _numbers_of)

    @property
    def dropped(self) -> int:
        """Calls that are no longer there."""
        return self._tape.dropped

    def judge(self, calls: Iterable[Called]) -> Iterator[Violation]:
        """Follow calls; yield what breaks a rule when it does.

        Raises:
            Lost: a call is excused.
            BadAnswer: a call cannot be read: the object is not what it was said to be.
        """
        for noted in known(calls):
            for call in self._reader.read(noted):
                violation = self._follower.follow(call)
                self._tape.add((*call[:3], None))
                if violation is not None:
                    if why := self._excuse(call, violation):
                        raise Lost(why)
                    yield violation

    def inspect(self) -> Violation | None:
        """Nobody can look inside."""
        return None

    def trace(self, config: Config) -> Trace:
        """Return what is kept, and before it the operations that bring about what was held then.

        It ends with an audit, since only when all is given back it shows what is not.
        """
        before, calls = self._tape.content()
        writer = self._writer()
        operations = written(writer, [*before, *calls])
        return Trace((*operations, Audit()), config, misuse=writer.misuse)


def follow(
    manner: Manner, words: Words, last: int, nodes: Sequence[Node] = (), **judged: Excuse
) -> Following | Followed:
    """Begin to follow a living cache, or a pool; arguments as of `Following`."""
    if manner.level is None:
        return Following(manner, words, last, nodes, **judged)
    return Followed(manner.level, words, last, **judged)


def known(calls: Iterable[Called]) -> Iterator[Called]:
    """Yield calls as long as it is known what they met.

    Raises:
        Lost: something happened that nobody can judge.
    """
    for call in calls:
        if call[0] == LOST:
            raise Lost(call[1][0])
        yield call


def in_lists(nodes: Iterable[Node]) -> list[Node]:
    """Read the tokens and the slots of what is stored."""
    return [node._replace(tokens=list(node.tokens), slots=read_slots(node.slots)) for node in nodes]


def _numbers_of(calls: Iterable[Called]) -> int:
    """Count the tokens and the slots of calls."""
    named = chain.from_iterable((*call[1], call[2]) for call in calls)
    return sum(len(each) for each in named if isinstance(each, list | tuple))


def _tokens_of(operations: Iterable[AnyOperation]) -> int:
    return sum(len(getattr(each, "tokens", ())) for each in operations)


def _tokens_told(calls: Iterable[Called]) -> int:
    return sum(len(call[1][0].tokens) for call in calls if call[0] in TELLING)


def _path(nodes: Sequence[Node], place: int | None) -> tuple[list[Any], list[int]]:
    """Return the tokens and the slots from a root down to a node."""
    tokens: list[list[Any]] = []
    slots: list[list[int]] = []
    while place is not None:
        tokens.append(list(nodes[place].tokens))
        slots.append(list(nodes[place].slots))
        place = nodes[place].parent
    return list(chain(*reversed(tokens))), list(chain(*reversed(slots)))


def _written(nodes: Sequence[Node], then: Sequence[AnyOperation]) -> Iterator[AnyOperation]:
    """Write what is stored as operations; of the handles, those that are locked or used later."""
    wanted = set(_used_before_named(then))
    needed = [
        node._replace(handles=tuple(one for one in node.handles if one[1] or one[0] in wanted))
        for node in nodes
    ]
    for kind, given, answer, _ in stored_again(needed):
        if kind == "insert":
            tokens, _, namespace, priority, _ = given
            yield Insert(tuple(tokens), namespace, priority)
        elif kind == "match_prefix":
            yield MatchPrefix(tuple(given[0]), given[1], answer[2])
        else:
            yield IncRef(given[0])


def _used_before_named(operations: Iterable[AnyOperation]) -> Iterator[str]:
    named: set[str] = set()
    for each in operations:
        if isinstance(each, MatchPrefix) and each.handle is not None:
            named.add(each.handle)
        elif isinstance(each, IncRef | DecRef) and each.handle not in named:
            yield each.handle
        elif isinstance(each, Insert) and each.lent is not None and each.lent not in named:
            yield each.lent
