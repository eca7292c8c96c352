"""Shrink a failing trace: named passes, and a predicate that says whether a trace still fails.

Nothing here knows a rule, a target or the model: all of that hides behind the predicate. *Simpler*
means fewer operations, then fewer tokens, then better looks. Only what is simpler is ever tried, no
trace twice, and the passes take turns until none of them finds anything: so shrinking ends, and the
same input gets the same answer.

A **pass** is a generator of candidates, and is sent the simplest failing trace so far. The line ::

    trace = yield _without(trace, chunk)

reads: try it without this chunk, and go on from whatever is the simplest now. Passes repair
nothing: every subset of a valid trace is valid, and an edit that comes too late changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from itertools import (
    chain,
    combinations,
    count,
    cycle,
    filterfalse,
    pairwise,
    permutations,
    product,
    takewhile,
)
from types import MappingProxyType
from typing import Any, TypeAlias

from msgspec import NODEFAULT, Struct
from msgspec.structs import fields, replace

from radixcheck.operations import (
    AddRefs,
    Alloc,
    Arrive,
    Audit,
    Decode,
    DecRef,
    Evict,
    Free,
    IncRef,
    Insert,
    Interrupt,
    MatchPrefix,
    Namespace,
    Operation,
    Prefill,
    Schedule,
    Starve,
    Tick,
    Tokens,
    Weigh,
)
from radixcheck.trace import Keyed, Trace

MAX_STEPS = 2000
"""Predicate calls after which shrinking stops wherever it is. Most traces need fewer than 100."""

FEW, FEW_TOKENS = 24, 128
"""Up to so many things are tried each with each; what has more of them is left to other passes."""

Candidates: TypeAlias = Generator[Trace, Trace, None]
Pass: TypeAlias = Callable[[Trace], Candidates]
Predicate: TypeAlias = Callable[[Trace], bool]
Supports: TypeAlias = Mapping[str, Sequence[Any]]
"""Per name of the configuration the values that may be tried, the simplest first."""


class Shrunk(Struct, frozen=True):
    """The simplest failing trace that was found."""

    trace: Trace
    steps: int
    """Predicate calls made, including the one that saw the original fail."""
    exhausted: bool
    """Whether the steps ran out before the passes did."""


def shrink(
    trace: Trace,
    still_fails: Predicate,
    supports: Supports = MappingProxyType({}),
    max_steps: int = MAX_STEPS,
) -> Shrunk:
    """Look for the simplest trace for which `still_fails` holds, starting from `trace`.

    It pays to cut `trace` behind the operation that failed: what is close to its last operation is
    tried first.

    Raises:
        ValueError: `trace` itself does not fail.
    """
    search = _Search(trace, still_fails, supports, max_steps)
    try:
        search.run()
    except _OutOfSteps:
        return Shrunk(search.simplest, search.steps, exhausted=True)
    return Shrunk(search.simplest, search.steps, exhausted=False)


def tell_apart(trace: Trace, still_fails: Predicate) -> Trace:
    """Give each token a number of its own wherever the trace still fails so::

        [1, 1, 2]               [1, 2, 3]
        [1, 1]         ---->    [1, 2]
        [1, 2]                  [1, 3]

    Not simpler by any order, but easier to read: what is equal then is equal for a reason. Tokens
    at one place of the tree that the keys form stay one token.
    """
    keyed = [each for each in trace.operations if isinstance(each, Keyed)]
    keys = [operation.tokens for operation in keyed]
    if max(map(len, keys), default=0) > FEW_TOKENS:
        return trace
    ways = dict.fromkeys(key[:end] for key in keys for end in range(1, len(key) + 1))
    names = {way: way[-1] for way in ways}
    if len(names) > FEW_TOKENS:
        return trace
    for way in names:
        apart = names | {way: max(names.values()) + 1}
        if still_fails(_spelled(trace, apart)):
            names = apart
    order = {name: number for number, name in enumerate(dict.fromkeys(names.values()), start=1)}
    in_order = _spelled(trace, {way: order[name] for way, name in names.items()})
    return in_order if still_fails(in_order) else _spelled(trace, names)


def _spelled(trace: Trace, names: Mapping[Tokens, int]) -> Trace:
    return _mapped(
        trace,
        "tokens",
        lambda tokens: tuple(names[tokens[:end]] for end in range(1, len(tokens) + 1)),
    )


class _OutOfSteps(Exception):
    pass


class _Search:
    """The simplest failing trace so far, and all that was seen on the way to it."""

    def __init__(self, trace: Trace, still_fails: Predicate, supports: Supports, max_steps: int):
        if not still_fails(trace):
            raise ValueError("the trace does not fail, so there is nothing to shrink")
        self.simplest, self.still_fails, self.supports = trace, still_fails, supports
        self.steps, self.max_steps, self.seen = 1, max_steps, {_content(trace)}

    def run(self) -> None:
        """Let the passes take turns until each of them, in a row, has found nothing."""
        passes, idle = passes_for(self.supports, rounds=len(_rounds(self.simplest)) > 1), 0
        for shrink_pass in cycle(passes.values()):
            before = self.simplest
            self.exhaust(shrink_pass(before))
            idle = idle + 1 if self.simplest is before else 0
            if idle == len(passes):
                return

    def exhaust(self, candidates: Candidates) -> None:
        """Try whatever one pass proposes."""
        candidate = next(candidates, None)
        while candidate is not None:
            self.consider(candidate)
            candidate = None
            with suppress(StopIteration):
                candidate = candidates.send(self.simplest)

    def consider(self, candidate: Trace) -> None:
        """Keep `candidate` if it is new, simpler, and still fails."""
        if (content := _content(candidate)) in self.seen:
            return
        self.seen.add(content)
        if not is_simpler(candidate, self.simplest, self.supports):
            return
        if self.steps >= self.max_steps:
            raise _OutOfSteps
        self.steps += 1
        if self.still_fails(candidate):
            self.simplest = candidate


def _content(trace: Trace) -> tuple[Any, ...]:
    return trace.operations, trace.misuse, *trace.config.items()


# What is simpler


def is_simpler(one: Trace, other: Trace, supports: Supports = MappingProxyType({})) -> bool:
    """Whether `one` is to be preferred to `other`."""
    if (size := _size(one)) != (other_size := _size(other)):
        return size < other_size
    return _looks(one, supports) < _looks(other, supports)


def _size(trace: Trace) -> tuple[int, int]:
    return len(trace.operations), sum(map(len, _values(trace, "tokens")))


def _looks(trace: Trace, supports: Supports) -> tuple[Any, ...]:
    """Rank traces of one size: the less there is to wonder about, the better.

    A token counts from 1 and a string from one letter, so that a 0 or an empty string that is left
    in a shrunk trace is there for a reason.
    """
    keys, namespaces, names = _values(trace, "tokens"), _values(trace, "namespace"), _names(trace)
    numbers = [number for *_, number in _numbers(trace)]
    strings = list(chain(*namespaces))
    return (
        trace.misuse,
        [choices.index(trace.config[name]) for name, choices in _choices(trace, supports)],
        (len(set(namespaces)), len(strings), strings.count(""), sum(map(len, strings)), namespaces),
        len(names),
        (sum(map(abs, numbers)), sum(number < 0 for number in numbers)),
        (sum(key.count(0) for key in keys), keys),
        [(len(name), name) for name in names],
    )


# Passes: fewer operations


def keep_related(trace: Trace) -> Candidates:
    """Keep the 4, 8, 16, ... operations that have most tokens in common with the last one.

    Small candidates are cheap to try: all of them together cost about two runs of the original.
    """
    ranked = _by_kinship(trace)
    for size in takewhile(lambda size: size < len(ranked), (4 << n for n in count())):
        candidate = _without(trace, set(ranked[size:]))
        if (trace := (yield candidate)) is candidate:
            return


def drop_operations(trace: Trace) -> Candidates:
    """Drop chunks of operations: large ones first, and old ones, which are missed the least.

    The last operation is what failed, and goes alone. A match takes along what needs its handle.
    """
    for ago in _chunks(len(trace.operations) - 1):
        last = len(trace.operations) - 1
        trace = yield _without(trace, range(last - ago.stop, last - ago.start))
    yield _without(trace, [len(trace.operations) - 1])


def drop_pairs(trace: Trace) -> Candidates:
    """Drop two operations that lie apart, such as an insert and the evict that undoes it."""
    for pair in combinations(_few(range(len(trace.operations) - 1)), 2):
        trace = yield _without(trace, pair)


def drop_locks(trace: Trace) -> Candidates:
    """Drop all locks of a handle, then each `inc_ref` with the `dec_ref` that follows it; of a
    pool, all frees."""
    for handle in _handles(trace):
        trace = yield _without(trace, _locks(trace, handle))
        for pair in reversed(list(pairwise(_locks(trace, handle)))):
            trace = yield _without(trace, pair)


def drop_requests(trace: Trace) -> Candidates:
    """Drop all that is done with a request, its arrival too."""
    for request in _requests(trace):
        named = [place for place, name in _places(trace, Operation, "request") if name == request]
        trace = yield _without(trace, named)


def join_requests(trace: Trace) -> Candidates:
    """Drop a request, and give its tokens to another: two that fill a pool may as well be one."""
    for kept, dropped in permutations(_few(_requests(trace)), 2):
        trace = yield _with_joined(trace, kept, dropped)


def share_handles(trace: Trace) -> Candidates:
    """Drop a match, and let an earlier handle stand in for the one that it named."""
    for earlier, later in combinations(_few(_handles(trace)), 2):
        matches = [place for place, name in _places(trace, Maker, "handle") if name == later]
        trace = yield _without(_renamed(trace, {later: earlier}), matches)


def join_evicts(trace: Trace) -> Candidates:
    """Replace two evicts by one of their sum, where the earlier or the later one was; two allocs
    likewise."""
    for kind in (Evict, Alloc):
        for late in reversed(range(1, len(_evicts(trace, kind)))):
            pair = _evicts(trace, kind)[late - 1 : late + 1]
            amount = sum(amount for _, amount in pair)
            orders = permutations([place for place, _ in pair])
            for joined in [_with_evict(trace, kept, [other], amount) for kept, other in orders]:
                trace = yield joined


def trade_evicts(trace: Trace) -> Candidates:
    """Drop an insert or an evict, and give another evict the amount that makes up for it."""
    for dropped, _ in reversed(_few(_places(trace, Insert | Evict, "kind"))):
        before = trace
        for evict, _ in _evicts(before):
            traded = partial(_with_evict, before, evict, [dropped])
            trace = yield from _lowest(trace, _size(before)[1] + 1, traded)


# Passes: shorter keys


def shorten_edges(trace: Trace) -> Candidates:
    """Shorten each edge of the tree that the keys form: first all of them to one page, then each.

    The keys that share an edge lose the same tokens, so what they had in common they still have.
    """
    for size in sorted({1, _page_size(trace)}, reverse=True):
        trace = yield _with_short_edges(trace, size)
        for start, prefix in _deepest_first(trace, size):
            shorter = partial(_with_shorter_edge, trace, start, prefix)
            trace = yield from _lowest(trace, len(prefix) - start, shorter)


def shorten_evicted(trace: Trace) -> Candidates:
    """Shorten edges as `shorten_edges` does, and lower an evict that then has less to free."""
    size = _page_size(trace)
    for evict, amount in _few(_evicts(trace)):
        lower = partial(_with_evict, _with_short_edges(trace, size), evict, ())
        trace = yield from _lowest(trace, amount, lower)
        for start, prefix in _deepest_first(trace, size):
            shorter = partial(_with_shorter_edge_and_evict, trace, evict, start, prefix)
            trace = yield from _lowest(trace, len(prefix) - start, shorter)


def thin_edges(trace: Trace) -> Candidates:
    """Drop chunks of pages from anywhere in an edge, in all keys that share it."""
    for start, old in _deepest_first(trace, _page_size(trace)):
        prefix = old
        for chunk in _chunks(len(old) - start):
            thinner = prefix[: start + chunk.start] + prefix[start + chunk.stop :]
            candidate = _with_prefix(trace, _joined(prefix), _joined(thinner))
            if (trace := (yield candidate)) is candidate:
                prefix = thinner


def shorten_keys(trace: Trace) -> Candidates:
    """Drop chunks of tokens from one key alone."""
    for place, tokens in _places(trace, Keyed, "tokens"):
        for chunk in _chunks(len(tokens)):
            key = dict(_places(trace, Keyed, "tokens"))[place]
            trace = yield _edited(trace, place, tokens=key[: chunk.start] + key[chunk.stop :])


def detach_keys(trace: Trace) -> Candidates:
    """Replace a key, wherever it is used, by one page that is like no other."""
    for key in dict.fromkeys(_values(trace, "tokens")):
        page = (next(_fresh_tokens(trace)),) * _page_size(trace)
        trace = yield _substituted(trace, "tokens", {key: page})


def reuse_keys(trace: Trace) -> Candidates:
    """Replace one key by a prefix of another, or by such a prefix and the key's own last token."""
    for (place, key), prefix in product(_places(trace, Keyed, "tokens"), _prefixes(trace)):
        trace = yield _edited(trace, place, tokens=prefix)
        trace = yield _edited(trace, place, tokens=prefix + key[-1:])


# Passes: fewer rounds, and less in each


def drop_rounds(trace: Trace) -> Candidates:
    """Drop chunks of whole rounds, each with the weighing that ends it."""
    for ago in _chunks(len(_rounds(trace))):
        rounds = _rounds(trace)[-ago.stop : len(_rounds(trace)) - ago.start]
        trace = yield _without(trace, [place for each in rounds for place in (*each, each.stop)])


def thin_rounds(trace: Trace) -> Candidates:
    """Drop the same operation of every round: to be judged, rounds must stay equal."""
    for place in reversed(range(max(map(len, _rounds(trace)), default=0))):
        trace = yield _without(trace, [each[place] for each in _rounds(trace) if place < len(each)])


# Passes: better looks


def simplify_config(trace: Trace, supports: Supports = MappingProxyType({})) -> Candidates:
    """Try each simpler value. For a smaller page, first let keys keep their number of pages."""
    trace = yield trace.replace(misuse=False)
    for name, choices in _choices(trace, supports):
        for value in choices[: choices.index(trace.config[name])]:
            if name == "page_size":
                trace = yield _with_pages_of(trace, value)
            trace = yield trace.replace(config=trace.config | {name: value})


def lower_numbers(trace: Trace) -> Candidates:
    """Leave out amounts, priorities, ticks and orders, or bring them towards 0."""
    for place, name, number in _numbers(trace):
        default = _with_default(trace, place, name)
        if default is not trace and (trace := (yield default)) is default:
            continue
        trace = yield _edited(trace, place, **{name: abs(number)})
        lower = partial(_with_magnitude, trace, place, name)
        trace = yield from _lowest(trace, abs(number), lower)


def simplify_namespaces(trace: Trace) -> Candidates:
    """Replace a namespace wherever it is used: by none, by other tokens, by a shorter one."""
    namespaces = sorted(set(_values(trace, "namespace")))
    trace = yield _substituted(trace, "namespace", dict.fromkeys(namespaces, ()))
    for old in reversed(namespaces):
        trace = yield _with_tokens_instead(trace, old)
        for new in ((), ("a",), ("b",), *namespaces, *_shorter_namespaces(old)):
            trace = yield _substituted(trace, "namespace", {old: new})


def rename_tokens(trace: Trace) -> Candidates:
    """Number the tokens 1, 2, 3, ... by first use: all of them, or each by changing places."""
    trace = yield _retokened(trace, {old: new for new, old in enumerate(_tokens(trace), 1)})
    for new, _ in enumerate(_tokens(trace), 1):
        old = _tokens(trace)[new - 1]
        trace = yield _retokened(trace, {old: new, new: old})


def merge_tokens(trace: Trace) -> Candidates:
    """Make two tokens one, wherever they are used."""
    for new, old in combinations(_few(sorted(_tokens(trace))), 2):
        trace = yield _retokened(trace, {old: new})


def lower_tokens(trace: Trace) -> Candidates:
    """Bring all tokens down together until one is 1, and then each, wherever it is used."""
    surplus = min(_tokens(trace), default=1) - 1
    trace = yield _retokened(trace, {old: old - surplus for old in _tokens(trace)})
    for old in _tokens(trace):
        trace = yield from _lowest(trace, old - 1, partial(_with_token, trace, old))


def repeat_tokens(trace: Trace) -> Candidates:
    """Replace the last token of a prefix by a smaller one, in all keys that have the prefix."""
    for prefix, token in product(reversed(_prefixes(trace)), _tokens(trace)):
        trace = yield _with_prefix(trace, prefix, (*prefix[:-1], token))


def drop_names(trace: Trace) -> Candidates:
    """Drop lent slots, and the names of handles that nobody uses."""
    for place, _ in _places(trace, Insert, "lent"):
        trace = yield _edited(trace, place, lent=None)
    unused = [name for name in _handles(trace) if _names(trace).count(name) == 1]
    for names in (unused, *([name] for name in unused)):
        trace = yield _renamed(trace, dict.fromkeys(names, None))


def rename_handles(trace: Trace) -> Candidates:
    """Call the handles h1, h2, ... in order, and the requests r1, r2, ..."""
    handles = {old: f"h{number}" for number, old in enumerate(_handles(trace), 1)}
    requests = {old: f"r{number}" for number, old in enumerate(_requests(trace), 1)}
    yield _substituted(_renamed(trace, handles), "request", requests)


PASSES: dict[str, Pass] = {
    shrink_pass.__name__: shrink_pass
    for shrink_pass in (
        keep_related,
        drop_operations,
        drop_requests,
        join_requests,
        drop_locks,
        share_handles,
        join_evicts,
        simplify_config,
        lower_numbers,
        shorten_edges,
        shorten_evicted,
        trade_evicts,
        thin_edges,
        shorten_keys,
        detach_keys,
        simplify_namespaces,
        rename_tokens,
        merge_tokens,
        lower_tokens,
        repeat_tokens,
        reuse_keys,
        drop_pairs,
        drop_names,
        rename_handles,
    )
}
"""Every pass by name, in the order of their turns: what removes most for one call goes first."""


ROUND_PASSES: dict[str, Pass] = {
    shrink_pass.__name__: shrink_pass for shrink_pass in (drop_rounds, thin_rounds, simplify_config)
}
"""The passes for a trace of equal rounds. What edits a single one of them is of no use there."""


def passes_for(supports: Supports, *, rounds: bool = False) -> dict[str, Pass]:
    """Return `PASSES`, with `simplify_config` knowing the values that it may try."""
    passes = ROUND_PASSES if rounds else PASSES
    return passes | {"simplify_config": partial(simplify_config, supports=supports)}


# What passes are made of: searching


def _chunks(length: int) -> Iterator[range]:
    """Cut `length` places into chunks: all, then halves, then quarters, down to single places.

    Each time they come from the end. Dropping one leaves the places before it where they are, so
    the chunks stay right while a pass drops some of them.
    """
    size = length
    while size > 0:
        yield from (range(max(0, end - size), end) for end in range(length, 0, -size))
        size //= 2


def _lowest(
    trace: Trace, number: int, at: Callable[[int], Trace]
) -> Generator[Trace, Trace, Trace]:
    """Bring a number down: try 0, 1, 2, 4, ... and then bisect, down to the lowest that fails."""
    too_low, lowest = -1, number
    while lowest - too_low > 1:
        guess = min(max(too_low + 1, 2 * too_low), (too_low + lowest) // 2)
        candidate = at(guess)
        if (trace := (yield candidate)) is candidate:
            lowest = guess
        else:
            too_low = guess
    return trace


def _few(things: Sequence[Any]) -> Sequence[Any]:
    """The things themselves, or none if they are more than a few."""
    return things if len(things) <= FEW else ()


# What passes are made of: reading a trace

Maker = MatchPrefix | Alloc
"""What gives a handle its name."""

Lock = IncRef | DecRef | Free | AddRefs
"""What is done with a handle."""

NOTHING: tuple[Tokens, Namespace] = ((), ())
NUMBERS: dict[type[Operation], tuple[str, ...]] = {
    Evict: ("num_tokens",),
    Insert: ("priority",),
    Tick: ("delta",),
    Audit: ("order",),
    Alloc: ("num_tokens",),
    Free: ("start", "stop", "times"),
    AddRefs: ("start", "stop"),
    Arrive: ("max_new_tokens",),
    Schedule: ("draw",),
    Prefill: ("num_tokens",),
    Decode: ("token",),
    Starve: ("count",),
    Interrupt: ("after",),
}
LEAST = {"times": 1}
"""The least value of a number that is not 0."""


def _values(trace: Trace, field: str) -> list[Any]:
    """The values of a field, of all operations that have it."""
    return [value for _, value in _places(trace, Operation, field)]


def _places(trace: Trace, kind: Any, field: str) -> list[tuple[int, Any]]:
    """The operations of a kind that have a field, each as its place and the value."""
    return [
        (place, getattr(operation, field))
        for place, operation in enumerate(trace.operations)
        if isinstance(operation, kind) and hasattr(operation, field)
    ]


def _numbers(trace: Trace) -> list[tuple[int, str, int]]:
    """Every number that is not its default, as the place of its operation, its name there, and its
    value."""
    return [
        (place, name, number)
        for place, operation in enumerate(trace.operations)
        for name in NUMBERS.get(type(operation), ())
        if (number := getattr(operation, name)) != _default(type(operation), name)
    ]


@cache
def _default(kind: type[Operation], name: str) -> Any:
    return next(field.default for field in fields(kind) if field.name == name)


def _evicts(trace: Trace, kind: type[Operation] = Evict) -> list[tuple[int, int]]:
    return _places(trace, kind, "num_tokens")


def _locks(trace: Trace, handle: str) -> list[int]:
    return [place for place, name in _places(trace, Lock, "handle") if name == handle]


def _rounds(trace: Trace) -> list[range]:
    """Return the places of each round: what lies between two weighings."""
    weighings = [place for place, each in enumerate(trace.operations) if isinstance(each, Weigh)]
    return [range(one + 1, other) for one, other in pairwise(weighings)]


def _names(trace: Trace) -> list[str]:
    """The names of handles and requests, as often as they are written."""
    fields = ("handle", "lent", "request")
    return [name for field in fields for name in _values(trace, field) if name]


def _handles(trace: Trace) -> list[str]:
    """The names that matches and allocs give, in order."""
    return list(dict.fromkeys(name for _, name in _places(trace, Maker, "handle") if name))


def _requests(trace: Trace) -> list[str]:
    """The names of the requests that arrive, in order."""
    return list(dict.fromkeys(name for _, name in _places(trace, Arrive, "request")))


def _tokens(trace: Trace) -> list[int]:
    """The tokens in use, by first use."""
    return list(dict.fromkeys(chain(*_values(trace, "tokens"))))


def _fresh_tokens(trace: Trace) -> Iterator[int]:
    """Tokens that are not in use, the lowest first."""
    return filterfalse(set(_tokens(trace)).__contains__, count(1))


def _prefixes(trace: Trace) -> list[Tokens]:
    """All prefixes of all keys, shortest first, if they are few."""
    keys = _values(trace, "tokens") if _size(trace)[1] <= FEW_TOKENS else []
    found = {key[:end] for key in keys for end in range(1, len(key) + 1)}
    return sorted(found, key=lambda key: (len(key), key))


def _page_size(trace: Trace) -> int:
    return int(trace.config.get("page_size", 1))


def _choices(trace: Trace, supports: Supports) -> list[tuple[str, list[Any]]]:
    """What there is to choose in the configuration, the simplest value of each name first."""
    offers = [
        (name, list(dict.fromkeys([*supports[name], value])))
        for name, value in trace.config.items()
        if name in supports
    ]
    return [(name, sorted(values) if name == "page_size" else values) for name, values in offers]


def _by_kinship(trace: Trace) -> list[int]:
    """Rank the places: first what shares most with the subject of the last, then what is near."""
    subjects = _subjects(trace)
    tokens, namespace = subjects[-1] if subjects else NOTHING
    kinship = [(_common(key, tokens), space == namespace) for key, space in subjects]
    return sorted(range(len(kinship)), key=lambda place: (kinship[place], place), reverse=True)


def _subjects(trace: Trace) -> list[tuple[Tokens, Namespace]]:
    """What each operation is about: its key, the key behind its handle, or nothing."""
    subjects = []
    behind: dict[Any, tuple[Tokens, Namespace]] = {}
    for operation in trace.operations:
        if isinstance(operation, Keyed):
            subjects.append((operation.tokens, operation.namespace))
            behind[_name(operation)] = subjects[-1]
        else:
            subjects.append(behind.get(_name(operation) or "", NOTHING))
    return subjects


def _name(operation: Operation) -> str | None:
    """The handle or request that an operation names."""
    return getattr(operation, "handle", getattr(operation, "request", None))


# What passes are made of: changing a trace


def _without(trace: Trace, dropped: Container[int]) -> Trace:
    """Leave out operations, and what is done with handles and requests that are no longer named."""
    operations = enumerate(trace.operations)
    kept = tuple(operation for place, operation in operations if place not in dropped)
    fewer = trace.replace(operations=kept)
    lost = {*_handles(trace), *_requests(trace)} - {*_handles(fewer), *_requests(fewer)}
    if not lost:
        return fewer
    able = (op for op in kept if isinstance(op, Maker) or _name(op) not in lost)
    return _substituted(trace.replace(operations=tuple(able)), "lent", dict.fromkeys(lost))


def _edited(trace: Trace, place: int, **changes: Any) -> Trace:
    """Change fields of one operation, unless the pass has dropped it meanwhile."""
    before, rest = trace.operations[:place], trace.operations[place:]
    if not all(hasattr(operation, field) for operation in rest[:1] for field in changes):
        return trace
    changed = (replace(operation, **changes) for operation in rest[:1])
    return trace.replace(operations=(*before, *changed, *rest[1:]))


def _mapped(trace: Trace, field: str, change: Callable[[Any], Any]) -> Trace:
    """Change a field in every operation that has it."""
    operations = list(trace.operations)
    for place, value in _places(trace, Operation, field):
        operations[place] = replace(operations[place], **{field: change(value)})
    return trace.replace(operations=tuple(operations))


def _substituted(trace: Trace, field: str, new: Mapping[Any, Any]) -> Trace:
    return _mapped(trace, field, lambda value: new.get(value, value))


def _renamed(trace: Trace, new: Mapping[str, str | None]) -> Trace:
    return _substituted(_substituted(trace, "handle", new), "lent", new)


def _with_joined(trace: Trace, kept: str, dropped: str) -> Trace:
    """Let one request bring the tokens of two."""
    places = {name: place for place, name in reversed(_places(trace, Operation, "request"))}
    if kept not in places or dropped not in places:
        return trace
    one, other = (getattr(trace.operations[places[name]], "tokens", ()) for name in (kept, dropped))
    gone = {place for place, name in _places(trace, Operation, "request") if name == dropped}
    return _without(_edited(trace, places[kept], tokens=(*one, *other)), gone)


def _with_default(trace: Trace, place: int, name: str) -> Trace:
    """Leave out a number, if it may be left out."""
    default = _default(type(trace.operations[place]), name) if place < len(trace.operations) else 0
    return trace if default is NODEFAULT else _edited(trace, place, **{name: default})


def _retokened(trace: Trace, new: Mapping[int, int]) -> Trace:
    return _mapped(trace, "tokens", lambda key: tuple(new.get(token, token) for token in key))


def _with_token(trace: Trace, old: int, above_1: int) -> Trace:
    return _retokened(trace, {old: 1 + above_1})


def _with_magnitude(trace: Trace, place: int, name: str, magnitude: int) -> Trace:
    magnitude = max(magnitude, LEAST.get(name, 0))
    sign = -1 if getattr(trace.operations[place], name) < 0 else 1
    return _edited(trace, place, **{name: sign * magnitude})


def _with_evict(trace: Trace, place: int, dropped: Container[int], amount: int) -> Trace:
    return _without(_edited(trace, place, num_tokens=amount), dropped)


def _with_tokens_instead(trace: Trace, namespace: Namespace) -> Trace:
    """Give up a namespace, and write its keys in tokens that are used nowhere else."""
    fresh = dict(zip(_tokens(trace), _fresh_tokens(trace), strict=False))
    for place, operation in enumerate(trace.operations):
        if isinstance(operation, Keyed) and operation.namespace == namespace:
            tokens = tuple(fresh[token] for token in operation.tokens)
            trace = _edited(trace, place, namespace=(), tokens=tokens)
    return trace


def _shorter_namespaces(namespace: Namespace) -> Iterator[Namespace]:
    for place, string in enumerate(namespace):
        before, after = namespace[:place], namespace[place + 1 :]
        yield before + after
        for shorter in ("a", "b", string[: len(string) // 2], string[1:], string[:-1]):
            yield (*before, shorter, *after)


# What passes are made of: the tree that the keys form

Pages: TypeAlias = tuple[Tokens, ...]


def _paged(tokens: Tokens, size: int) -> Pages:
    """Cut a key into pages of `size` tokens; the last one may be shorter."""
    return tuple(tokens[start : start + size] for start in range(0, len(tokens), size))


def _joined(pages: Iterable[Tokens]) -> Tokens:
    return tuple(chain(*pages))


def _common(one: Sequence[Any], other: Sequence[Any]) -> int:
    """Count the items that two sequences share before they part."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _edges(keys: Iterable[Pages]) -> Iterator[tuple[int, Pages]]:
    """Each edge, as the page at which it starts and the prefix that it ends; parents first ::

    1 2 3 --+-- 4 5         The keys 12345, 12378 and 123789 form the edges
            +-- 7 8 -- 9    (0, 123), (3, 12345), (3, 12378) and (5, 123789).
    """
    ends = sorted(set(keys))
    forks = {one[: _common(one, other)] for one, other in pairwise(ends)}
    path: list[Pages] = [()]
    for prefix in sorted({*ends, *forks} - {()}):
        while prefix[: len(path[-1])] != path[-1]:
            path.pop()
        yield len(path[-1]), prefix
        path.append(prefix)


def _deepest_first(trace: Trace, size: int) -> list[tuple[int, Pages]]:
    """Edges, children before parents: shortening one leaves alone what the later ones name."""
    return list(_edges(_paged(key, size) for key in _values(trace, "tokens")))[::-1]


def _with_prefix(trace: Trace, old: Tokens, new: Tokens) -> Trace:
    """Replace the beginning of every key that begins with `old`."""
    return _mapped(
        trace, "tokens", lambda key: new + key[len(old) :] if key[: len(old)] == old else key
    )


def _with_shorter_edge(trace: Trace, start: int, prefix: Pages, length: int) -> Trace:
    """Keep `length` pages of an edge, in every key that has it."""
    return _with_prefix(trace, _joined(prefix), _joined(prefix[: start + length]))


def _with_short_edges(trace: Trace, size: int) -> Trace:
    for start, prefix in _deepest_first(trace, size):
        trace = _with_shorter_edge(trace, start, prefix, 1)
    return trace


def _with_shorter_edge_and_evict(
    trace: Trace, evict: int, start: int, prefix: Pages, length: int
) -> Trace:
    gone = len(_joined(prefix[start + length :]))
    amount = max(0, dict(_evicts(trace))[evict] - gone)
    return _edited(_with_shorter_edge(trace, start, prefix, length), evict, num_tokens=amount)


def _with_pages_of(trace: Trace, size: int) -> Trace:
    """Make pages smaller: whole pages that are equal stay equal, and different ones different."""
    old_size, numbers = _page_size(trace), dict[Tokens, int]()

    def smaller(page: Tokens) -> Tokens:
        if len(page) < old_size:
            return page[: size - 1]
        return (*page[: size - 1], numbers.setdefault(page, len(numbers) + 1))

    trace = trace.replace(config=trace.config | {"page_size": size})
    for field in ("num_tokens", "start", "stop"):
        trace = _mapped(trace, field, lambda amount: amount and -(-amount * size // old_size))
    return _mapped(trace, "tokens", lambda key: _joined(map(smaller, _paged(key, old_size))))
