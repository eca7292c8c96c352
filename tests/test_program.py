"""Programs: what a run looks like in Python, and that it runs, and fails where it should."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixcheck.finding import Step
from radixcheck.operations import (
    AnyOperation,
    Audit,
    Changed,
    DecRef,
    Done,
    Evict,
    Failure,
    Freed,
    IncRef,
    Insert,
    Inserted,
    Matched,
    MatchPrefix,
    Outcome,
    Refusal,
    Reset,
    Skipped,
    Tick,
)
from radixcheck.program import render
from radixcheck.protocol import DumpedNode, Target
from radixcheck.registry import Source, resolve
from radixcheck.rules import Violation
from radixcheck.trace import Trace
from radixcheck.verdict import replay

RADIX = resolve("radix")
FIRST_RELEASE = resolve("radix-first-release")

INSERTED = Step(Insert((1, 2, 3)), Inserted(0, (0, 1, 2)))
MATCHED = Step(MatchPrefix((1, 4), handle="h1"), Matched(2, (0, 6)))
PHANTOM = Violation("phantom-prefix", "match_prefix", 2, "1 token", "2 tokens")


def body(steps: Sequence[Step], violation: Violation | None = None, **options: Any) -> list[str]:
    """Return the lines of a program below the one that makes the cache."""
    lines = render(steps, RADIX, None, violation, **options).splitlines()
    return lines[lines.index("cache = Radix()") + 1 :]


def last(
    operation: AnyOperation, outcome: Outcome, rule: str, expected: str, actual: str
) -> list[str]:
    """Return what a program says of its last step, which broke `rule`."""
    violation = Violation(rule, operation.kind, 0, expected, actual)
    return body([Step(operation, outcome)], violation)


# ---- the whole ---------------------------------------------------------------------------

FIRST_BUG = [
    INSERTED,
    Step(Insert((1, 2, 3, 4)), Inserted(3, (3, 4, 5, 6))),
    MATCHED,
]


def test_a_program_is_short_and_ends_in_what_should_have_come_out() -> None:
    assert render(FIRST_BUG, FIRST_RELEASE, {}, PHANTOM) == (
        "from array import array\n"
        "from radixcheck.targets.first_release import RadixFirstRelease\n"
        "\n"
        "cache = RadixFirstRelease()\n"
        'cache.insert(array("q", [1, 2, 3]), [0, 1, 2])\n'
        'cache.insert(array("q", [1, 2, 3, 4]), [3, 4, 5, 6])\n'
        'h1 = cache.match_prefix(array("q", [1, 4]))\n'
        "assert h1.length == 1, h1.length  # was 2\n"
    )


def test_a_program_fails_on_the_target_that_has_the_bug_and_passes_on_one_without() -> None:
    with pytest.raises(AssertionError, match=r"^2$"):
        exec(render(FIRST_BUG, FIRST_RELEASE, {}, PHANTOM), {})
    exec(render(FIRST_BUG, RADIX, {}, PHANTOM), {})


def test_a_program_without_a_violation_makes_its_calls_and_claims_nothing() -> None:
    assert body([INSERTED, MATCHED]) == [
        'cache.insert(array("q", [1, 2, 3]), [0, 1, 2])',
        'cache.match_prefix(array("q", [1, 4]))',
    ]


@pytest.mark.parametrize("name", ["my-cache.py", "class.py", "1.2.py", 'a"b.py'])
def test_a_file_that_no_import_can_name_is_loaded_from_its_path(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text("from radixcheck.targets.first_release import RadixFirstRelease as Cache\n")
    program = render(FIRST_BUG, resolve(f"{path}:Cache"), {}, PHANTOM)
    with pytest.raises(AssertionError, match=r"^2$"):
        exec(program, {})


def test_a_run_without_steps_is_a_program_too() -> None:
    assert "cache = Radix()\n" in render([], RADIX)


small_keys = st.lists(st.integers(0, 1), max_size=4).map(tuple)
some_handles = st.sampled_from(["h1", "h2", "not a name"])
some_operations: st.SearchStrategy[AnyOperation] = st.one_of(
    st.builds(Insert, small_keys, lent=st.none() | some_handles),
    st.builds(MatchPrefix, small_keys, handle=st.none() | some_handles),
    st.builds(IncRef, some_handles),
    st.builds(DecRef, some_handles),
    st.builds(Evict, st.integers(0, 4)),
    st.builds(Tick, st.integers(0, 2)),
    st.builds(Reset),
)


@given(st.lists(some_operations, max_size=24).map(tuple), st.booleans())
def test_a_program_does_to_its_target_what_the_run_did(
    operations: tuple[AnyOperation, ...], overwrites: bool
) -> None:
    opened: list[Target] = []

    def open_radix(config: Any, clock: Any) -> Target:
        opened.append(RADIX.open(config, clock))
        return opened[-1]

    steps = replay(open_radix, Trace(operations)).steps
    space: dict[str, Any] = {}
    exec(render(steps, RADIX, overwrites=overwrites), space)
    assert list(opened[0].dump()) == list(space["cache"].dump())


# ---- the target --------------------------------------------------------------------------


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Source:
    """A target in a file of a person's own, which answers what it was made with."""
    (tmp_path / "own_cache.py").write_text(
        "from radixcheck.targets.radix import Radix\n"
        "class Outer:\n"
        "    class Cache(Radix):\n"
        "        def __init__(self, page_size=1, path='', clock=None, **rest):\n"
        "            super().__init__(clock)\n"
        "            self.made_with = page_size, path, rest\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_cache", raising=False)  # a program has imported another
    return resolve("./own_cache.py:Outer.Cache?path=a'b")


def test_a_file_of_a_persons_own_is_imported_with_a_word_on_where_it_lies(own: Source) -> None:
    assert render([INSERTED], own).splitlines()[1] == "from own_cache import Outer  # own_cache.py"


def test_the_factory_gets_what_is_not_its_default(own: Source) -> None:
    program = render([INSERTED], own, {"page_size": 1, "eviction": "lru"})
    assert "cache = Outer.Cache(eviction='lru', path=\"a'b\")\n" in program
    space: dict[str, Any] = {}
    exec(program, space)
    assert space["cache"].made_with == (1, "a'b", {"eviction": "lru"})


def test_a_configuration_is_never_code(own: Source) -> None:
    program = render([INSERTED], own, {"x=1, **print": "'\n"})
    assert 'cache = Outer.Cache(path="a\'b")\n' in program


# ---- calls -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operation", "outcome", "line"),
    [
        (
            Insert((1, 2, 3), ("a", "b"), 7, "h1"),
            Inserted(2, (0, 1, 9), 2),
            "cache.insert(array(\"q\", [1, 2, 3]), [0, 1, 9], namespace=('a', 'b'), priority=7, "
            "owned_from=2)",
        ),
        (
            MatchPrefix((1,), ("",)),
            Matched(0, ()),
            "cache.match_prefix(array(\"q\", [1]), namespace=('',))",
        ),
        (
            Insert((1, 2, 3)),
            Inserted(0, (4, 5)),
            'cache.insert(array("q", [1, 2]), [4, 5])',
        ),
        (Insert(()), Inserted(0, ()), 'cache.insert(array("q", []), [])'),
        (Evict(2), Freed(((0, 1),)), "cache.evict(2)  # freed [0, 1]"),
        (Evict(3), Freed(((0, 1), (7,))), "cache.evict(3)  # freed [0, 1], then [7]"),
        (Evict(3), Freed(((),)), "cache.evict(3)  # freed 0 slots"),
        (Evict(99), Freed((tuple(range(50)),)), "cache.evict(99)  # freed 50 slots"),
        (Evict(9), Refusal("no"), "with suppress(Exception): cache.evict(9)  # refused"),
        (Reset(), Done(), "cache.reset()"),
    ],
)
def test_each_operation_becomes_one_call(
    operation: AnyOperation, outcome: Outcome, line: str
) -> None:
    assert line in body([Step(operation, outcome), Step(Reset(), Done())])


def test_a_handle_has_a_variable_only_if_it_is_locked() -> None:
    steps = [
        Step(MatchPrefix((1,), handle="h1"), Matched(0, ())),
        Step(MatchPrefix((2,), handle="h2"), Matched(0, ())),
        Step(IncRef("h2"), Changed(0)),
        Step(DecRef("h2"), Changed(0)),
    ]
    assert body(steps) == [
        'cache.match_prefix(array("q", [1]))',
        'h2 = cache.match_prefix(array("q", [2]))',
        "cache.inc_ref(h2.handle)",
        "cache.dec_ref(h2.handle)",
    ]


def test_a_handle_of_any_name_is_a_variable_and_never_code() -> None:
    name = "x; import os"
    steps = [Step(MatchPrefix((1,), handle=name), Matched(0, ())), Step(IncRef(name), Changed(0))]
    assert body(steps) == [
        'handle_0 = cache.match_prefix(array("q", [1]))',
        "cache.inc_ref(handle_0.handle)",
    ]


def test_what_was_skipped_and_what_is_no_call_is_left_out() -> None:
    steps = [
        Step(IncRef("h1"), Skipped("no such handle")),
        Step(Tick(3), Done()),
        Step(Audit(), Done()),
        Step(Reset(), Done()),
    ]
    assert body(steps) == ["cache.reset()"]


def test_the_audit_is_announced_once() -> None:
    steps = [
        Step(Reset(), Done()),
        Step(MatchPrefix((1,)), Matched(0, ()), audit=True),
        Step(Evict(0), Freed(((),)), audit=True),
    ]
    assert body(steps) == [
        "cache.reset()",
        "# the audit: match what is stored, unlock, evict",
        'cache.match_prefix(array("q", [1]))',
        "cache.evict(0)  # freed 0 slots",
    ]


def test_an_insert_that_raised_gets_the_lent_slots_and_new_ones() -> None:
    steps = [
        Step(Insert((1, 2)), Inserted(0, (70, 71))),
        Step(MatchPrefix((1, 2), handle="h1"), Matched(2, (70, 71))),
        Step(Insert((1, 2, 3, 4), lent="h1"), Failure("KeyError", "3\nimport os")),
    ]
    violation = Violation("unexpected-error", "insert", 2, "an answer", "KeyError: 3")
    line = 'cache.insert(array("q", [1, 2, 3, 4]), [70, 71, 128, 129], owned_from=2)'
    assert body(steps, violation)[-3:] == [
        f"{line}  # raised KeyError: 3 import os",
        "# expected: an answer",
        "# actual: KeyError: 3",
    ]


# ---- slots -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("slots_as", "some", "none", "statement"),
    [
        ("list", "[0, 1]", "[]", "from array import array"),
        ("array", 'array("q", [0, 1])', 'array("q", [])', "from array import array"),
        ("numpy", "np.array([0, 1])", "np.zeros(0, dtype=np.int64)", "import numpy as np"),
        ("torch", "torch.tensor([0, 1])", "torch.zeros(0, dtype=torch.int64)", "import torch"),
    ],
)
def test_slots_are_of_the_type_that_the_target_wants(
    slots_as: str, some: str, none: str, statement: str
) -> None:
    steps = [Step(Insert((1, 2)), Inserted(0, (0, 1))), Step(Insert(()), Inserted(0, ()))]
    program = render(steps, RADIX, slots_as=slots_as).splitlines()
    assert program[-2:] == [
        f'cache.insert(array("q", [1, 2]), {some})',
        f'cache.insert(array("q", []), {none})',
    ]
    assert statement in program


@pytest.mark.parametrize(
    ("slots_as", "overwritten"),
    [
        ("list", "[-1] * len(slots)"),
        ("array", 'array("q", [-1]) * len(slots)'),
        ("numpy", "-1"),
        ("torch", "-1"),
    ],
)
def test_reused_buffers_are_shown_when_asked_for(slots_as: str, overwritten: str) -> None:
    steps = [INSERTED, MATCHED, Step(Reset(), Done())]
    lines = body(steps, slots_as=slots_as, overwrites=True)
    assert [line for line in lines if "[:]" in line] == [
        'tokens[:] = array("q", [-1]) * len(tokens)',
        f"slots[:] = {overwritten}",
        'tokens[:] = array("q", [-1]) * len(tokens)',
    ]


def test_an_unknown_library_in_a_comment_is_not_imported() -> None:
    steps = [Step(Reset(), Failure("TypeError", "torch.tensor(3)")), Step(Reset(), Done())]
    assert "import torch" not in render(steps, RADIX)


# ---- the clock ---------------------------------------------------------------------------


def clocked(*readings: float) -> list[str]:
    """Return the lines about the clock in a run of resets at `readings`."""
    program = render([Step(Reset(), Done(), clock=reading) for reading in readings], RADIX)
    return [line for line in program.splitlines() if "now" in line]


@pytest.mark.parametrize("readings", [(), (3,), (0, 0, 0), (1, 2, 9)])
def test_a_clock_that_only_runs_forward_is_left_to_the_target(readings: tuple[float, ...]) -> None:
    assert clocked(*readings) == []


@pytest.mark.parametrize(
    ("readings", "changes"),
    [((1, 1, 2), ["now = 2"]), ((5, 4), ["now = 4"]), ((1, 1.5, 1.5), ["now = 1.5"])],
)
def test_a_clock_that_is_held_or_runs_back_is_shown_where_it_changes(
    readings: tuple[float, ...], changes: list[str]
) -> None:
    first = [f"now = {readings[0]}", "cache = Radix(clock=lambda: now)"]
    assert first + changes == clocked(*readings)


# ---- the end -----------------------------------------------------------------------------

LAST = {
    "match": Step(MatchPrefix((1, 2)), Matched(2, (0, 5))),
    "insert": Step(Insert((1, 2)), Inserted(1, (3, 4))),
    "evict": Step(Evict(2), Freed(((0, 1), (2,)))),
    "lock": Step(IncRef("h1"), Changed(-2)),
    "unlock": Step(DecRef("h1"), Changed(-2)),
    "done": Step(Reset(), Done()),
}

CLAIMS = [
    ("match", "namespace-leak", "0 tokens", "2 tokens", "match.length == 0"),
    ("match", "missed-prefix", "3 tokens", "2 tokens", "match.length == 3"),
    ("match", "lost-insert", "1 token", "2 tokens", "match.length == 1"),
    ("match", "unaligned-match", "a multiple of 4", "2", "match.length % 4 == 0"),
    ("match", "length-mismatch", "2 slots", "1 slot", "len(match.slots) == 2"),
    ("match", "foreign-slot", "[0, 1]", "[0, 5]", "list(match.slots) == [0, 1]"),
    ("match", "changed-slot", "[]", "[0, 5]", "list(match.slots) == []"),
    ("match", "mutated-argument", "[1, 2]", "[2, 1]", "list(tokens) == [1, 2]"),
    ("match", "size-drift", "total_size() 3", "total_size() 4", "cache.total_size() == 3"),
    ("insert", "wrong-existing-length", "2 tokens", "1 token", "existing == 2"),
    ("insert", "unaligned-match", "a multiple of 2", "1", "existing % 2 == 0"),
    ("insert", "mutated-argument", "[1, 2]", "[2, 1]", "list(tokens) == [1, 2]"),
    ("insert", "mutated-argument", "[3, 4]", "[3, 3]", "list(slots) == [3, 4]"),
    ("evict", "under-evicted", "at least 4 tokens", "3 tokens", "len(freed) >= 4"),
    ("evict", "under-evicted", "at least 1 token", "0 tokens", "len(freed) >= 1"),
    ("evict", "over-evicted", "no further victim", "3 tokens", "freed != [0, 1, 2]"),
    ("evict", "evicted-locked", "unlocked prefixes", "[0, 1, 2]", "freed != [0, 1, 2]"),
    ("lock", "handle-mismatch", "total_size() 0", "total_size() 1", "cache.total_size() == 0"),
    ("lock", "delta-mismatch", "a change by -3", "a change by -2", "delta == -3"),
    ("unlock", "delta-mismatch", "a change by 1 to 3", "a change by -2", "1 <= delta <= 3"),
    ("unlock", "delta-mismatch", "a change by 3", "None", "delta == 3"),
    ("done", "size-drift", "total_size() 0 to 2", "total_size() 3", "0 <= cache.total_size() <= 2"),
]  # fmt: skip


@pytest.mark.parametrize(("step", "rule", "expected", "actual", "condition"), CLAIMS)
def test_the_last_line_claims_what_should_have_come_out(
    step: str, rule: str, expected: str, actual: str, condition: str
) -> None:
    line = body([LAST[step]], Violation(rule, "any", 0, expected, actual))[-1]
    claim, _, rest = line.partition("  # was ")
    compile(claim, "program", "exec")
    assert claim.startswith(f"assert {condition}, ")
    number = actual.removeprefix("a change by ").rpartition("_size() ")[2].partition(" t")[0]
    assert number.partition(" s")[0] == rest


def test_a_claim_is_true_of_a_right_answer_and_false_of_a_wrong_one() -> None:
    program = "\n".join(
        last(Evict(3), Freed(((0,),)), "under-evicted", "at least 2 tokens", "1 token")[1:]
    )
    exec(program, {"freed": [4, 5]})
    with pytest.raises(AssertionError, match=r"^1$"):
        exec(program, {"freed": [4]})


def test_what_the_last_line_looks_at_is_bound_before() -> None:
    lines = last(Evict(3), Freed(((0,),)), "under-evicted", "at least 2 tokens", "1 token")
    assert lines[0] == "freed = cache.evict(3)  # freed [0]"
    assert lines[1].startswith("freed = [int(slot) for group in ")


@pytest.mark.parametrize("answer", [[[0, 1], [2]], [0, 1, 2]])
def test_slots_of_an_eviction_are_read_flat_or_in_groups(answer: list[Any], own: Source) -> None:
    lines = last(Evict(3), Freed(((0,),)), "under-evicted", "at least 2 tokens", "1 token")
    freed = type("Evicted", (), {"groups": answer})() if isinstance(answer[0], list) else answer
    space = {"freed": freed}
    exec(lines[1], space)
    assert space["freed"] == [0, 1, 2]


def test_an_answer_that_nobody_looks_at_is_not_bound() -> None:
    lines = last(Evict(3), Freed(((0,),)), "size-drift", "total_size() 3", "total_size() 4")
    assert lines[0] == "cache.evict(3)  # freed [0]"


@pytest.mark.parametrize(
    ("outcome", "rule", "line"),
    [
        (Refusal("no"), "under-evicted", "cache.evict(3)  # refused"),
        (Failure("KeyError", "3"), "unexpected-error", "cache.evict(3)  # raised KeyError: 3"),
    ],
)
def test_a_last_call_that_raises_is_left_to_raise(outcome: Outcome, rule: str, line: str) -> None:
    expected, actual = "# expected: an answer", "# actual: none"
    assert last(Evict(3), outcome, rule, "an answer", "none") == [line, expected, actual]


def test_a_refusal_with_an_effect_is_suppressed_and_the_effect_is_claimed() -> None:
    lines = last(Evict(3), Refusal("no"), "refused-with-effect", "total_size() 3", "total_size() 4")
    assert lines == [
        "with suppress(Exception): cache.evict(3)  # refused",
        "assert cache.total_size() == 3, cache.total_size()  # was 4",
    ]


NODES = [DumpedNode([1, 2], [7, 8], 1, None), DumpedNode([3], [9], 0, 0)]


@pytest.mark.parametrize(
    ("expected", "lie"),
    [
        ("nodes that hold slots [7, 8, 9]", NODES[:1]),
        ("1 locks on the edge [1, 2] at slots [7, 8]", [NODES[0]._replace(locks=0)]),
        ("an edge [3] at slots [9]", [NODES[1]._replace(tokens=[4])]),
    ],
)
def test_a_claim_about_a_dump_is_true_of_the_right_nodes_only(
    expected: str, lie: list[DumpedNode]
) -> None:
    program = "\n".join(last(Reset(), Done(), "structure", expected, "others"))
    nodes = NODES
    cache = SimpleNamespace(reset=lambda: None, dump=lambda: nodes)
    exec(program, {"cache": cache})
    nodes = lie
    with pytest.raises(AssertionError):
        exec(program, {"cache": cache})


def test_a_dump_is_looked_at_after_a_refusal_too() -> None:
    lines = last(Evict(1), Refusal("no"), "structure", "an edge of whole pages", "an edge []")
    assert "with suppress(Exception): cache.evict(1)  # refused" == lines[0]


def test_what_else_is_wrong_in_a_dump_is_shown() -> None:
    lines = last(Reset(), Done(), "structure", "an edge of whole pages", "an edge []")
    assert lines[1:] == [
        'print(*cache.dump(), sep="\\n")',
        "# expected: an edge of whole pages",
        "# actual: an edge []",
    ]


@pytest.mark.parametrize(
    ("operation", "outcome", "line"),
    [
        (Reset(), Done(), "cache.reset()"),
        (Evict(2), Freed(((0, 1),)), "cache.evict(2)  # freed [0, 1]"),
        (Insert(()), Inserted(0, ()), 'cache.insert(array("q", []), [])'),
    ],
)
def test_what_is_no_simple_claim_is_said_in_words(
    operation: AnyOperation, outcome: Outcome, line: str
) -> None:
    lines = last(operation, outcome, "divergence", "siblings that\npart", "import os\nboom")
    assert lines == [
        line,
        "# expected: siblings that part",
        "# actual: import os boom",
    ]
