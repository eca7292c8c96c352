"""A run as a Python program that imports nothing but the target, to be read, pasted and run.

Each step becomes one call, with the slots that it had in that run. The last line says what should
have come out::

    cache = RadixFirstRelease()
    cache.insert(array("q", [1, 2, 3]), [0, 1, 2])
    cache.insert(array("q", [1, 2, 3, 4]), [3, 4, 5, 6])
    h1 = cache.match_prefix(array("q", [1, 4]))
    assert h1.length == 1, h1.length  # was 2

What makes no difference is left out: skipped operations, arguments that have their default, handles
that nobody locks, and the clock, as long as it only ran forward.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from keyword import iskeyword
from typing import NamedTuple, TypeAlias

from radixcheck.finding import Step
from radixcheck.operations import (
    AddRefs,
    Alloc,
    Allocated,
    Audit,
    DecRef,
    Evict,
    Failure,
    Free,
    Freed,
    IncRef,
    Insert,
    Inserted,
    Matched,
    MatchPrefix,
    Outcome,
    Refusal,
    Returned,
    Skipped,
    Tick,
    Tokens,
    Unanswered,
    Weigh,
    Weighed,
)
from radixcheck.registry import Source
from radixcheck.rules import Violation
from radixcheck.spelling import LONG_TOKENS, spell_keys, spell_numbers
from radixcheck.trace import Config

SLOTS = {
    "list": "{}",
    "array": 'array("q", {})',
    "numpy": "np.array({})",
    "torch": "torch.tensor({})",
}
NO_SLOTS = {"numpy": "np.zeros(0, dtype=np.int64)", "torch": "torch.zeros(0, dtype=torch.int64)"}
OVERWRITTEN = {"list": "[-1] * {}", "array": 'array("q", [-1]) * {}', "numpy": "-1", "torch": "-1"}
"""What a caller writes over buffers that it had only lent, by their type and their length."""

IMPORTS = {
    "array(": "from array import array",
    "suppress(": "from contextlib import suppress",
    "np.": "import numpy as np",
    "torch.": "import torch",
}
"""What a program that says this needs."""

ANSWERS = {
    "match_prefix": "match",
    "insert": "existing",
    "evict": "freed",
    "inc_ref": "delta",
    "dec_ref": "delta",
    "alloc": "slots",
}
"""What the answer of the last call is named; that of a match after its handle, if it has one."""

FLAT = 'freed = [int(slot) for group in getattr(freed, "groups", [freed]) for slot in group]'
"""Reads the slots of an eviction, whether the target answers them flat or in groups."""

SUBJECTS = {
    ("match_prefix", "phantom-prefix"): "{}.length",
    ("match_prefix", "namespace-leak"): "{}.length",
    ("match_prefix", "unaligned-match"): "{}.length",
    ("match_prefix", "missed-prefix"): "{}.length",
    ("match_prefix", "lost-insert"): "{}.length",
    ("match_prefix", "length-mismatch"): "len({}.slots)",
    ("match_prefix", "foreign-slot"): "list({}.slots)",
    ("match_prefix", "changed-slot"): "list({}.slots)",
    ("insert", "wrong-existing-length"): "{}",
    ("insert", "unaligned-match"): "{}",
    ("evict", "under-evicted"): "len({})",
    ("inc_ref", "delta-mismatch"): "{}",
    ("dec_ref", "delta-mismatch"): "{}",
    ("alloc", "length-mismatch"): "len({})",
    ("alloc", "alloc-order"): "list({})",
}
"""What the last line looks at, by the kind of the last operation and the rule that it broke."""

WRONG_VICTIMS = frozenset(
    """evicted-locked evicted-unknown orphaned-suffix under-evicted leaked-slot eviction-order
    over-evicted""".split()
)
"""Rules that say which victims are wrong, not which are right; so does the last line."""

WRONG_SLOTS = frozenset(("double-owner", "outside-pool"))
"""Rules that say which slots an alloc must not answer."""

CONDITIONS = {
    r"(?:a change by )?(-?\d+)(?: tokens?| slots?)?": "{} == {}",
    r"(?:a change by )?(-?\d+) to (-?\d+)": "{1} <= {0} <= {2}",
    r"a multiple of (\d+)": "{} % {} == 0",
    r"at least (\d+) tokens?": "{} >= {}",
    r"(\[[\d, ]*\])": "{} == {}",
}
"""How an expectation in words becomes one in Python."""

AUDITS = {
    "cache": "# the audit: match what is stored, unlock, evict",
    "pool": "# the audit: give all back, take every slot once, give all back",
}
"""What an audit is, by the variable of the target."""

SHOW = 'print(*cache.dump(), sep="\\n")'
NODES = {
    r"nodes that hold slots (\[[\d, ]*\])": (
        "sorted(slot for node in cache.dump() for slot in node.slots)",
        "{0}",
    ),
    r"(\d+) locks on the edge .* at slots (\[[\d, ]*\])": (
        "[node.locks for node in cache.dump() if list(node.slots) == {1}]",
        "[{0}]",
    ),
    r"an edge (\[[\d, ]*\]) at slots (\[[\d, ]*\])": (
        "[list(node.tokens) for node in cache.dump() if list(node.slots) == {1}]",
        "[{0}]",
    ),
}
"""By what is expected of a dump: what to look at there, and what that should be. What else may be
wrong is only shown."""

_SIZE = re.compile(r"(\w+_size\(\)) (.*)")
_WORDS = re.compile(r"a change by |\w+_size\(\) | tokens?$| slots?$")
_HANDLE = re.compile(r"h\d+")

Numbers: TypeAlias = Sequence[int]

POOL = Alloc | Free | AddRefs
GIVEN_SLOTS = Insert | Free | AddRefs
"""The operations that name slots."""


class _Call(NamedTuple):
    """A step whose arguments are Python."""

    step: Step
    tokens: str
    slots: str
    handle: str
    """The variable of the handle, where the program needs one."""
    owned_from: int
    key: str
    """The line that names the key, where later ones refer to it."""
    target: str
    """The variable of the target."""

    @property
    def kind(self) -> str:
        return self.step.operation.kind

    @property
    def refused(self) -> bool:
        return isinstance(self.step.outcome, Refusal)


def render(
    steps: Sequence[Step],
    source: Source,
    config: Config | None = None,
    violation: Violation | None = None,
    *,
    slots_as: str = "list",
    overwrites: bool = False,
) -> str:
    """Write `steps` as a program that fails in its last line, where `violation` allows one.

    Args:
        source: the target that the program makes, under `config`.
        violation: the rule that the last step broke.
        slots_as: the capability of that name: the type in which the target is given slots.
        overwrites: show how the caller reuses its buffers after each call.
    """
    calls = list(_calls(steps, slots_as))
    clocked = source.accepts("clock") and not _runs_forward(calls)
    name = calls[0].target if calls else "cache"
    now = calls[0].step.clock if clocked else None
    lines = [*_opening(name, source, config or {}, now)]
    for earlier, call in zip([None, *calls], calls, strict=False):
        lines += _before(earlier, call, clocked)
        if call is calls[-1]:
            lines += _last(call, violation, named=overwrites)
        else:
            handle = call.handle if call.kind == "match_prefix" else ""
            lines += _made(call, handle, named=overwrites, suppressed=call.refused)
            lines += _reuse(call, slots_as) if overwrites else ()
    return "\n".join([*_imports(source, lines), "", *lines]) + "\n"


# ---- the frame ---------------------------------------------------------------------------


def _imports(source: Source, lines: Sequence[str]) -> Iterator[str]:
    code = "\n".join(line.partition("  # ")[0] for line in lines)
    yield from (line for word, line in IMPORTS.items() if re.search(rf"\b{re.escape(word)}", code))
    yield from importing(source)


def importing(source: Source) -> Iterator[str]:
    """Yield the lines that import a target, from its path where Python cannot say its name."""
    module, path, attribute = source.place
    name = attribute.partition(".")[0]
    if path is None:
        yield f"from {module} import {name}"
    elif module.isidentifier() and not iskeyword(module):
        yield f"from {module} import {name}  # {path}"
    else:
        yield "from runpy import run_path"
        yield f'{name} = run_path({json.dumps(str(path))})["{name}"]'


def _opening(name: str, source: Source, config: Config, now: float | None) -> Iterator[str]:
    keywords = {
        key: repr(value)
        for key, value in source.keywords(config).items()
        if key.isidentifier() and not _is_default(source, key, value)
    }
    if now is not None:
        yield f"now = {now:.17g}"
        keywords["clock"] = "lambda: now"
    arguments = ", ".join(f"{key}={value}" for key, value in keywords.items())
    yield f"{name} = {source.place.attribute}({arguments})"


def _is_default(source: Source, key: str, value: object) -> bool:
    return key in source.parameters and source.parameters[key].default == value


def _runs_forward(calls: Sequence[_Call]) -> bool:
    """Tell whether a clock of the target's own would order the calls as the injected one did."""
    readings = [call.step.clock for call in calls]
    return len(set(readings)) <= 1 or all(one < other for one, other in pairwise(readings))


def _before(earlier: _Call | None, call: _Call, clocked: bool) -> Iterator[str]:
    if call.step.audit and not (earlier and earlier.step.audit):
        yield AUDITS[call.target]
    if clocked and earlier and earlier.step.clock != call.step.clock:
        yield f"now = {call.step.clock:.17g}"
    if call.key:
        yield call.key


# ---- one call ----------------------------------------------------------------------------


def _made(call: _Call, answer: str, *, named: bool, suppressed: bool) -> Iterator[str]:
    """Write a call: its answer bound to `answer`, its buffers `named`, its refusal `suppressed`."""
    if isinstance(call.step.operation, Weigh):
        yield f"# {_remark(call.step.outcome)}"
        return
    if named:
        buffers = {"tokens": call.tokens, "slots": call.slots}
        yield from (f"{name} = {buffer}" for name, buffer in buffers.items() if buffer)
        call = call._replace(tokens="tokens", slots="slots")
    line = f"{call.target}.{call.kind}({', '.join(_arguments(call))})"
    line = f"{answer} = {line}" if answer else line
    line = f"with suppress(Exception): {line}" if suppressed else line
    remark = _remark(call.step.outcome)
    yield f"{line}  # {remark}" if remark else line


def _arguments(call: _Call) -> list[str]:
    match call.step.operation:
        case MatchPrefix(_, namespace):
            return [call.tokens, *_given(namespace=namespace)]
        case Insert(_, namespace, priority):
            given = _given(namespace=namespace, priority=priority, owned_from=call.owned_from)
            return [call.tokens, call.slots, *given]
        case Evict(num_tokens) | Alloc(num_tokens):
            return [str(num_tokens)]
        case Free() | AddRefs():
            return [call.slots]
        case IncRef() | DecRef():
            return [f"{call.handle}.handle"]
    return []


def _given(**arguments: object) -> list[str]:
    return [f"{name}={value!r}" for name, value in arguments.items() if value]


def _remark(outcome: Outcome) -> str:
    match outcome:
        case Freed(groups):
            return _freed([list(group) for group in groups if group])
        case Allocated(slots) if slots:
            return f"slots {_few(slots)}"
        case Failure(error, message):
            return _one_line(f"raised {error}: {message}")
        case Unanswered(how):
            return _one_line(how)
        case Refusal():
            return "refused"
        case Weighed(num_bytes, stored):
            return f"{num_bytes} bytes of tensors and arrays, {stored} tokens stored"
    return ""


def _few(slots: Numbers) -> str:
    return f"{slots[0]} to {slots[-1]}" if len(slots) > LONG_TOKENS else str(list(slots))


def _freed(groups: list[list[int]]) -> str:
    count = sum(map(len, groups))
    if not 0 < count <= LONG_TOKENS:
        return f"freed {count} slots"
    return f"freed {', then '.join(map(str, groups))}"


def _one_line(text: str) -> str:
    """Keep a target's words within a comment: their second line would be code."""
    return " ".join(text.split())


def _reuse(call: _Call, slots_as: str) -> Iterator[str]:
    if call.tokens:
        yield f"tokens[:] = {OVERWRITTEN['array'].format('len(tokens)')}"
    if call.slots:
        yield f"slots[:] = {OVERWRITTEN[slots_as].format('len(slots)')}"


# ---- the last call -----------------------------------------------------------------------


class _Claim(NamedTuple):
    """What should have held after the last call, and the expression that shows what did."""

    condition: str
    subject: str

    def looks_at(self, *names: str) -> bool:
        return not set(re.findall(r"\w+", self.subject)).isdisjoint(names)


def _last(call: _Call, violation: Violation | None, *, named: bool) -> Iterator[str]:
    """Write the last call, and what should have come of it."""
    if violation is None or isinstance(call.step.outcome, Unanswered):
        yield from _made(call, "", named=named, suppressed=call.refused)
    elif violation.rule == "structure":
        yield from _made(call, "", named=named, suppressed=call.refused)
        yield from _look_at_nodes(violation)
    elif (claim := _claim(call, violation)) is None:
        yield from _made(call, "", named=named, suppressed=False)
        yield from _told(violation)
    else:
        answer = _answer(call) if claim.looks_at(_answer(call)) else ""
        named = named or claim.looks_at("tokens", "slots")
        yield from _made(call, answer, named=named, suppressed=call.refused)
        yield from [FLAT] if claim.looks_at("freed") else []
        was = _WORDS.sub("", _one_line(violation.actual))
        yield f"assert {claim.condition}, {claim.subject}  # was {was}"


def _told(violation: Violation) -> Iterator[str]:
    yield f"# expected: {_one_line(violation.expected)}"
    yield f"# actual: {_one_line(violation.actual)}"


def _look_at_nodes(violation: Violation) -> Iterator[str]:
    for words, (shown, right) in NODES.items():
        if found := re.fullmatch(words, violation.expected):
            yield f"shown = {shown.format(*found.groups())}"
            was = _one_line(violation.actual)
            yield f"assert shown == {right.format(*found.groups())}, shown  # was {was}"
            return
    yield SHOW
    yield from _told(violation)


def _answer(call: _Call) -> str:
    if call.kind == "match_prefix" and call.handle:
        return call.handle
    return ANSWERS.get(call.kind, "")


def _claim(call: _Call, violation: Violation) -> _Claim | None:
    expected, answer = violation.expected, _answer(call)
    subject = SUBJECTS.get((call.kind, violation.rule), "").format(answer)
    if size := _SIZE.fullmatch(expected):
        subject, expected = f"{call.target}.{size[1]}", size[2]
    elif violation.rule == "mutated-argument":
        subject = _changed_buffer(call.step, expected)
    for words, condition in CONDITIONS.items():
        if subject and (found := re.fullmatch(words, expected)):
            return _Claim(condition.format(subject, *found.groups()), subject)
    if violation.rule in WRONG_SLOTS and re.fullmatch(r"\[[\d, ]+\]", violation.actual):
        return _Claim(f"not set({answer}) & set({violation.actual})", answer)
    if violation.rule in WRONG_VICTIMS and isinstance(call.step.outcome, Freed):
        freed = [slot for group in call.step.outcome.groups for slot in group]
        return _Claim(f"freed != {freed}", "freed")
    return None


def _changed_buffer(step: Step, expected: str) -> str:
    if expected == str(list(_key(step))):
        return "list(tokens)"
    return "list(slots)" if expected == str(list(getattr(step.outcome, "slots", ()))) else ""


# ---- from steps to Python ----------------------------------------------------------------


def _calls(steps: Sequence[Step], slots_as: str) -> Iterator[_Call]:
    made = [step for step in steps if _is_made(step)]
    locked = {step.operation.handle for step in made if isinstance(step.operation, IncRef | DecRef)}
    variables: dict[str, str] = {}
    target = "pool" if any(isinstance(step.operation, POOL) for step in made) else "cache"
    keys, slots = spell_keys([_key(step) for step in made]), _slots(made)
    for step, (definition, tokens), (given, owned_from) in zip(made, keys, slots, strict=True):
        handle = getattr(step.operation, "handle", None)
        if handle is not None:
            variables.setdefault(handle, _variable(handle, len(variables)))
        needed = handle in locked or step is made[-1]
        yield _Call(
            step,
            tokens if isinstance(step.operation, MatchPrefix | Insert) else "",
            _slots_as(slots_as, given) if isinstance(step.operation, GIVEN_SLOTS) else "",
            variables[handle] if handle is not None and needed else "",
            owned_from,
            definition,
            target,
        )


def _is_made(step: Step) -> bool:
    return not isinstance(step.operation, Tick | Audit) and not isinstance(step.outcome, Skipped)


def _variable(handle: str, number: int) -> str:
    """Name a handle in the program: a trace may call it anything, also what would be code."""
    return handle if _HANDLE.fullmatch(handle) else f"handle_{number}"


def _key(step: Step) -> Tokens:
    """Return the tokens that the target got; an insert may have been cut to its slots."""
    tokens: Tokens = getattr(step.operation, "tokens", ())
    return tokens[: len(step.outcome.slots)] if isinstance(step.outcome, Inserted) else tokens


def _slots(made: Sequence[Step]) -> Iterator[tuple[Numbers, int]]:
    """Yield what each insert was given, and how much of it was lent.

    What an insert got that raised is not on record: it gets the slots of the match that it extends,
    and then slots that nobody else has.
    """
    matched: dict[str | None, Numbers] = {}
    allocated: dict[str | None, Numbers] = {}
    for step in made:
        operation, outcome = step.operation, step.outcome
        if isinstance(operation, MatchPrefix) and isinstance(outcome, Matched):
            matched[operation.handle] = outcome.slots
        if isinstance(operation, Alloc) and isinstance(outcome, Allocated):
            allocated[operation.handle] = outcome.slots
        if isinstance(outcome, Inserted):
            yield outcome.slots, outcome.owned_from
        elif isinstance(outcome, Returned):
            yield outcome.slots, 0
        elif isinstance(operation, Free | AddRefs):
            slots = allocated.get(operation.handle, (0,))[operation.start : operation.stop]
            yield list(slots) * getattr(operation, "times", 1), 0
        elif isinstance(operation, Insert):
            lent = matched.get(operation.lent, ()) if operation.lent else ()
            first = _unused_slot(made)
            yield [*lent, *range(first, first + len(operation.tokens) - len(lent))], len(lent)
        else:
            yield (), 0


def _unused_slot(made: Sequence[Step]) -> int:
    """Return a slot beyond all others, where any page begins."""
    seen = [slot for step in made for slot in getattr(step.outcome, "slots", ())]
    return 64 * (1 + max(seen, default=0) // 64)


def _slots_as(kind: str, slots: Numbers) -> str:
    if not slots and kind in NO_SLOTS:
        return NO_SLOTS[kind]
    numbers = spell_numbers(slots)
    return SLOTS[kind].format(f"list({numbers})" if numbers.startswith("range") else numbers)
