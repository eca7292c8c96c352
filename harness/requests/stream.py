"""From a seed to the operations of a server: requests that share prompts, in a pool that is always
too small.

The server that is played here looks at no answer, so that the same seed gives the same trace for
every cache. It knows how many slots there are, and estimates what becomes of them: nothing is
matched, and whoever has room is admitted. Where that is wrong, what a cache cannot do is skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from random import Random
from typing import TypeAlias, get_args

from radixcheck.capabilities import Capabilities
from radixcheck.generate import mix
from radixcheck.generate.keys import Keys, pick
from radixcheck.operations import (
    Abort,
    Admit,
    AnyOperation,
    Arrive,
    Audit,
    Decode,
    Evict,
    Finish,
    Idle,
    Interrupt,
    MatchRequest,
    Namespace,
    Prefill,
    QueueOrder,
    Reset,
    Retract,
    Schedule,
    Starve,
    Tokens,
)
from radixcheck.reference import scheduler

Story: TypeAlias = Iterator[AnyOperation]

MOST_NAMES = {"absent": 0, "one": 1, "structured": 9}
ORDERS: tuple[QueueOrder, ...] = get_args(QueueOrder)
EVERYTHING = 1_000_000
REMEMBERED = 32
TYPICAL_CAPACITY = 64
LONGEST_PAGES = (1, 2, 2, 3, 4, 6, 10, 16)
"""The longest prompt of a trace, in pages: pools are small, and so are most requests."""


@dataclass(eq=False)
class Known:
    """A request as its own server remembers it."""

    name: str
    tokens: Tokens
    namespace: Namespace
    most: int
    """Tokens that it may sample."""
    sampled: list[int] = field(default_factory=list)
    computed: int = 0
    to_prefill: int = 0
    runs: bool = False

    @property
    def may_generate(self) -> int:
        """Tokens that it may still sample."""
        return self.most - len(self.sampled)

    @property
    def is_due(self) -> bool:
        """Whether some of its prompt is to be computed next."""
        return self.runs and self.computed < self.to_prefill

    @property
    def claim(self) -> int:
        """Tokens that it claims when it is let in."""
        return self.to_prefill + self.may_generate

    def wait(self) -> None:
        """Hold nothing: all that it has must be computed once it is let in."""
        self.computed, self.to_prefill = 0, len(self.tokens) + len(self.sampled)
        self.runs = False


Begun: TypeAlias = Generator[AnyOperation, None, Known]
"""A story with somebody in it who runs in the end."""


class Server:
    """Plays a server: who waits, who runs, and what they sample."""

    def __init__(self, rng: Random, keys: Keys, capacity: int) -> None:
        self.rng = rng
        self.keys = keys
        self.size = keys.page_size
        self.capacity = capacity
        unit = max(self.size, 4)
        self.longest = unit * pick(rng, LONGEST_PAGES)
        self.most_running = pick(rng, (1, 2, 3, 4, 8))
        """Whoever comes when so many run makes the first of them end."""
        self.waiting: list[Known] = []
        self.running: list[Known] = []
        self.done: list[Known] = []
        """Who has ended: their tokens are worth asking for again."""
        self._names = 0

    # ---- whole lives ---------------------------------------------------------------------

    def serve(self) -> Story:
        """One request from its arrival to its end, alone."""
        request = yield from self._begun(self._prompt())
        yield from self._prefilled(request)
        yield from self._decoded(request)
        yield self._finished(request)

    def turn(self) -> Story:
        """The next turn of a conversation: all that was said so far, and a little more."""
        before = pick(self.rng, self.done) if self.done else None
        said = before.tokens + tuple(before.sampled) if before else self._prompt()
        request = yield from self._begun(
            (said + self.keys.some(1 + self._few()))[: 2 * self.longest],
            before.namespace if before else None,
        )
        yield from self._prefilled(request)
        yield from self._decoded(request)
        yield self._finished(request)

    def twins(self) -> Story:
        """Two that share a prompt are admitted before either has computed it."""
        prompt, namespace = self._prompt(self.capacity // 3), self.keys.namespace()
        if self.rng.random() < 0.5:  # the answer will fill the last page of both
            prompt = prompt[: len(prompt) // self.size * self.size - 1] or prompt
        other = prompt if self.rng.random() < 0.5 else prompt + self.keys.some(self._few())
        first = yield from self._begun(prompt, namespace, guests=2)
        second = yield from self._begun(other, namespace, guests=2, stays=(first,))
        pair = [first, second]
        if self.rng.random() < 0.5:
            pair.reverse()
        tokens = self._answer()
        for request in pair:
            yield from self._prefilled(request)
        for request in pair if self.rng.random() < 0.7 else pair[:1]:
            yield from self._decoded(request, tokens)
        for request in pair:
            yield self._finished(request) if self.rng.random() < 0.8 else self._aborted(request)

    def batch(self) -> Story:
        """Some arrive, are put in order, and as many as fit are let in from the head."""
        guests = pick(self.rng, (1, 2, 3, 4))
        for _ in range(guests):
            yield self._arrived(self._prompt(self.capacity // guests), guests=guests)
        yield self._scheduled()
        yield from self._room_for(sum(request.claim for request in self.waiting))
        batch = list(takewhile(self._admitted, list(self.waiting)))
        for _ in batch:
            yield Admit()
        for request in batch:
            yield from self._prefilled(request)
        while len(self.running) > self.most_running:
            yield from self._ended(self.running[0])

    def crowd(self) -> Story:
        """More are let in than the pool has room for: each begins with a token or a page only."""
        crowd: list[Known] = []
        for _ in range(pick(self.rng, (2, 3, 5, 8))):
            crowd.append((yield from self._begun(self._prompt(), stays=crowd)))
            if crowd[-1].runs:
                yield self._computed(crowd[-1], pick(self.rng, (1, self.size)))
        for request in crowd:
            yield from self._to_the_end(request)
            yield from self._decoded(request)
        for request in crowd:  # who knows whose prompt was computed
            if self.rng.random() < 0.8:
                yield self._aborted(request)

    # ---- one step ------------------------------------------------------------------------

    def come(self) -> Story:
        """One joins the queue, and may be matched there."""
        request = self._arrived(self._prompt())
        yield request
        if self.rng.random() < 0.4:
            yield MatchRequest(request.request)

    def begin(self) -> Story:
        """Let in who waits, or who comes just now."""
        if self.waiting:
            yield from self._let_in(pick(self.rng, self.waiting))
        else:
            yield from self._begun(self._prompt())

    def chunk(self) -> Story:
        """Compute one chunk of somebody's prompt."""
        if due := [each for each in self.running if each.is_due]:
            yield self._chunk(pick(self.rng, due))
        else:
            yield from self._begun(self._prompt())

    def decode(self) -> Story:
        """Let somebody sample a few tokens, or everybody one."""
        if not self.running:
            return
        if self.rng.random() < 0.5:
            request = pick(self.rng, self.running)
            yield from self._to_the_end(request)
            yield from self._decoded(request)
        else:
            for request in self.running:
                yield from self._decoded(request, (self._token(),))

    def finish(self) -> Story:
        """Let somebody end."""
        if self.running:
            request = pick(self.rng, self.running)
            yield from self._to_the_end(request)
            yield self._finished(request)

    # ---- what goes wrong -----------------------------------------------------------------

    def abort(self) -> Story:
        """Let somebody go away, wherever he is."""
        if known := self.waiting + self.running:
            yield self._aborted(pick(self.rng, known))

    def cut_short(self) -> Story:
        """A request goes away at any point of its life, and comes back."""
        prompt, namespace = self._prompt(), self.keys.namespace()
        for _ in range(2):
            request = yield from self._begun(prompt, namespace)
            for _ in range(pick(self.rng, (0, 1, 1, 2))):
                if request.is_due:
                    yield self._chunk(request)
            if self.rng.random() < 0.4:
                yield from self._decoded(request)
            yield self._aborted(request)

    def retract(self) -> Story:
        """Send somebody back to the queue; let him in again now, or some day."""
        if not self.running:
            return
        request = pick(self.rng, self.running)
        yield self._retracted(request)
        if self.rng.random() < 0.6:
            yield from self._let_in(request)
            yield from self._prefilled(request)

    def retract_for_longer(self) -> Story:
        """While one is back in the queue, another stores what it needs; or its own is evicted."""
        request = yield from self._begun(self._prompt())
        if not request.runs:
            return
        yield self._chunk(request)
        yield self._retracted(request)
        if self.rng.random() < 0.6:
            helper = yield from self._begun(request.tokens + self._answer(), request.namespace)
            yield from self._to_the_end(helper)
            yield self._finished(helper)
        else:
            yield Evict(EVERYTHING)
        yield from self._let_in(request)
        yield from self._prefilled(request)

    def grow_stale(self) -> Story:
        """Between a match and the admission much is evicted."""
        before = pick(self.rng, self.done) if self.done else None
        yield self._arrived(
            before.tokens if before else self._prompt(), before.namespace if before else None
        )
        request = self.waiting[-1]
        yield MatchRequest(request.name)
        yield Evict(pick(self.rng, (1, self.size, EVERYTHING)))
        yield from self._let_in(request)
        yield from self._prefilled(request)

    def starve(self) -> Story:
        """Refuse the next allocs, whatever they are for."""
        yield Starve(pick(self.rng, (1, 1, 2, 3)))
        yield from pick(self.rng, (self.chunk, self.decode, self.serve))()

    def interrupt(self) -> Story:
        """Interrupt the next eviction, and let everybody go on."""
        yield Interrupt(pick(self.rng, (0, 0, 1, 2)))
        yield from pick(self.rng, (self.evict, self.crowd, self.serve))()
        yield from self.evict()

    def evict(self) -> Story:
        """Evict beside the running requests, and let them go on."""
        yield Evict(pick(self.rng, (0, 1, self.size, 3 * self.size, EVERYTHING)))
        yield from self.decode()

    def reset(self) -> Story:
        """Forget everything in mid-flight."""
        yield Reset()
        self.done += self.running
        for request in self.running:
            request.runs = False
        self.waiting, self.running = [], []

    def idle(self) -> Story:
        """End everybody, and look at what is left."""
        for request in [*self.running]:
            yield self._finished(request) if self.rng.random() < 0.5 else self._aborted(request)
        yield Idle()

    # ---- inside --------------------------------------------------------------------------

    def _begun(
        self,
        prompt: Tokens,
        namespace: Namespace | None = None,
        *,
        guests: int = 1,
        stays: Sequence[Known] = (),
    ) -> Begun:
        """Let one in who has just come, of so many that are to run together."""
        yield self._arrived(prompt, namespace, guests=guests)
        request = self.waiting[-1]
        yield from self._let_in(request, stays)
        return request

    def _let_in(self, request: Known, stays: Sequence[Known] = ()) -> Story:
        """Admit one, mostly after others have made room."""
        if self.rng.random() < 0.95:
            yield from self._room_for(request.claim, stays)
        yield Admit(request.name)
        self._admitted(request)

    def _room_for(self, claim: int, stays: Sequence[Known] = ()) -> Story:
        """Let the first of those who run end until there is room, but not who `stays`."""
        for request in [each for each in self.running if each not in stays]:
            if len(self.running) < self.most_running and self._has_room(claim):
                return
            yield from self._ended(request)

    def _has_room(self, claim: int) -> bool:
        begun = [each for each in self.running if each.computed]
        held = sum(-(-each.computed // self.size) * self.size for each in begun)
        claimed = sum(each.claim for each in self.running if not each.computed)
        room = scheduler.room(self.capacity, -held, [each.may_generate for each in begun], "fcfs")
        return scheduler.fits(claim, room, claimed)

    def _admitted(self, request: Known) -> bool:
        """Estimate whether one is let in, and count on it."""
        if admitted := self._has_room(request.claim):
            self.waiting = [each for each in self.waiting if each is not request]
            self.running.append(request)
            request.runs = True
        return admitted

    def _ended(self, request: Known) -> Story:
        yield from self._to_the_end(request)
        yield self._finished(request) if self.rng.random() < 0.8 else self._aborted(request)

    def _prefilled(self, request: Known) -> Story:
        if self.rng.random() < 0.5:
            for _ in range(pick(self.rng, (1, 1, 2, 3))):
                if request.is_due:
                    yield self._chunk(request)
        if self.rng.random() < 0.9:
            yield from self._to_the_end(request)

    def _to_the_end(self, request: Known) -> Story:
        """Compute what is left of a prompt."""
        if request.is_due:
            yield self._computed(request)

    def _decoded(self, request: Known, tokens: Tokens | None = None) -> Story:
        if request.is_due or not request.runs:
            return
        for token in (self._answer() if tokens is None else tokens)[: request.may_generate]:
            request.computed = len(request.tokens) + len(request.sampled)
            request.sampled.append(token)
            yield Decode(request.name, token)

    def _arrived(
        self, prompt: Tokens, namespace: Namespace | None = None, *, guests: int = 1
    ) -> Arrive:
        """One joins the queue who, mostly, leaves room for as many guests as there are to be."""
        self._names += 1
        where = self.keys.namespace() if namespace is None else namespace
        most = pick(self.rng, (0, 1, 2, 4, 8, 8))
        if self.rng.random() < 0.95:
            room = max(1, self.capacity // guests - 1)
            most = min(most, room // 2)
            prompt = prompt[: room - most]
        request = Known(f"r{self._names}", prompt or self.keys.some(1), where, most)
        request.wait()
        self.waiting.append(request)
        return Arrive(request.name, request.tokens, most, where)

    def _scheduled(self) -> Schedule:
        order = pick(self.rng, ORDERS)
        return Schedule(order, int(self.rng.random() * 1000) if order == "random" else 0)

    def _chunk(self, request: Known) -> Prefill:
        size = self.size
        return self._computed(
            request, max(1, pick(self.rng, (1, 2, size - 1, size, size + 1, 2 * size)))
        )

    def _computed(self, request: Known, num_tokens: int | None = None) -> Prefill:
        if num_tokens is None:
            request.computed = request.to_prefill
            return Prefill(request.name)
        request.computed = min(request.computed + num_tokens, request.to_prefill)
        return Prefill(request.name, num_tokens)

    def _retracted(self, request: Known) -> Retract:
        request.wait()
        self.running = [other for other in self.running if other is not request]
        self.waiting.insert(0, request)
        return Retract(request.name)

    def _finished(self, request: Known) -> Finish | Abort:
        """Let one end, which is before its time if its prompt is not computed."""
        if request.is_due or not request.runs:
            return self._aborted(request)
        self._forget(request)
        return Finish(request.name)

    def _aborted(self, request: Known) -> Abort:
        self._forget(request)
        return Abort(request.name)

    def _forget(self, request: Known) -> None:
        self.running = [other for other in self.running if other is not request]
        self.waiting = [other for other in self.waiting if other is not request]
        request.runs = False
        self.done = [*self.done[-REMEMBERED:], request]

    def _prompt(self, most: int = EVERYTHING) -> Tokens:
        return self.keys.new()[: max(1, min(self.longest, most))]

    def _answer(self) -> Tokens:
        return tuple(self._token() for _ in range(self._few()))

    def _few(self) -> int:
        return pick(self.rng, (1, 1, 2, 3, self.size, self.size + 1))

    def _token(self) -> int:
        return pick(self.rng, self.keys.noise[:8])


STORIES: dict[str, tuple[int, Callable[[Server], Story]]] = {
    "serve": (8, Server.serve),
    "turn": (5, Server.turn),
    "twins": (5, Server.twins),
    "batch": (4, Server.batch),
    "crowd": (6, Server.crowd),
    "come": (5, Server.come),
    "begin": (8, Server.begin),
    "chunk": (10, Server.chunk),
    "decode": (8, Server.decode),
    "finish": (7, Server.finish),
    "abort": (4, Server.abort),
    "cut-short": (3, Server.cut_short),
    "retract": (4, Server.retract),
    "retract-for-longer": (3, Server.retract_for_longer),
    "grow-stale": (3, Server.grow_stale),
    "starve": (3, Server.starve),
    "interrupt": (2, Server.interrupt),
    "evict": (4, Server.evict),
    "reset": (1, Server.reset),
    "idle": (2, Server.idle),
}
"""How often each occurs in the plain mix, and what it is."""


def generate(
    seed: int,
    capabilities: Capabilities,
    num_operations: int,
    *,
    swarm: bool = False,
    misuse: bool = False,
    capacity: int | None = None,
) -> tuple[AnyOperation, ...]:
    """Return about `num_operations` operations on requests, and an audit at the end.

    Args:
        seed: the same seed and capabilities give the same operations.
        swarm: leave much out, and do more of the rest.
        misuse: means nothing at this level.
        capacity: slots of the pool behind the cache.
    """
    rng = Random(seed)
    weights = {name: weight for name, (weight, _) in STORIES.items()}
    if capabilities.interrupted_evict == "unspecified":
        del weights["interrupt"]
    chosen = mix.swarm(rng, weights) if swarm else mix.plain(weights)
    names = MOST_NAMES[capabilities.namespaces]
    keys = Keys(rng, capabilities.page_size, names, chosen.shapes, chosen.relations)
    server = Server(rng, keys, capacity or TYPICAL_CAPACITY)
    table = [STORIES[name][1] for name in chosen.activities]
    table.append(Server.begin)  # or there would be nobody
    operations: list[AnyOperation] = []
    while len(operations) < num_operations:
        operations += pick(rng, table)(server)
    operations.append(Audit(seed & 0xFFFF))
    return tuple(operations)
