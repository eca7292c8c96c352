"""What people see: safe, narrow, and the same for the same data."""

from __future__ import annotations

import io
from collections import Counter
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from radixcheck.arena import Arena, required
from radixcheck.capabilities import Capabilities
from radixcheck.finding import Edge, Finding, Snapshot, Step
from radixcheck.loop import Report
from radixcheck.operations import (
    Evict,
    Failure,
    Freed,
    IncRef,
    Insert,
    Matched,
    MatchPrefix,
    Operation,
)
from radixcheck.registry import METHODS, resolve
from radixcheck.report import Screen, show_finding, show_report
from radixcheck.report.block import Origin
from radixcheck.report.owners import claims
from radixcheck.report.steps import show_operation, show_outcome
from radixcheck.report.summary import describe_configs, short_count
from radixcheck.report.tree import show_trees
from radixcheck.report.unjudged import Promises, unjudged, unjudged_in
from radixcheck.report.words import clean, show_duration, show_slots, show_tokens
from radixcheck.trace import Trace
from radixcheck.verdict import replay

HOSTILE = "[red]bad[/red]\x1b[31m\nsecond \u202e line"
ALL_METHODS = frozenset(METHODS)


def screen(width: int = 80, *, encoding: str = "utf-8", verbosity: int = 0) -> Screen:
    """Return a screen that writes into memory, as into a pipe."""
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    console = Console(file=file, width=width, markup=False, emoji=False, highlight=False)
    return Screen(console, verbosity)


def text(shown: Screen) -> str:
    """Return what was printed on a screen of `screen`."""
    file = shown.console.file
    assert isinstance(file, io.TextIOWrapper)
    file.flush()
    assert isinstance(file.buffer, io.BytesIO)
    return file.buffer.getvalue().decode(file.encoding)


def finding(*operations: Operation, spec: str = "radix-first-release") -> Finding:
    """Judge `operations`, and make a finding of what they break."""
    trace = Trace(operations)  # type: ignore[arg-type]  # operations of any kind
    seen = replay(resolve(spec).open, trace)
    assert seen.verdict.violation is not None
    violation, pictures = seen.verdict.violation, seen.pictures
    return Finding(spec, trace, violation, seen.steps, 7, 92, pictures=pictures)


def block(
    found: Finding, shown: Screen | None = None, saved: Path | None = Path("dir/f.jsonl")
) -> str:
    """Print a finding, and return what was printed."""
    shown = shown or screen()
    source = resolve(found.target)
    show_finding(shown, found, Origin(source, source.open({}).capabilities, saved))
    return text(shown)


PHANTOM = (Insert((1, 2, 3)), Insert((1, 2, 3, 4)), MatchPrefix((1, 4)))


# ---- words -------------------------------------------------------------------------------


def test_untrusted_text_becomes_one_line_without_control_characters() -> None:
    assert clean(HOSTILE) == "[red]bad[/red]\\x1b[31m\\nsecond \\u202e line"


def test_long_text_says_how_much_was_cut() -> None:
    assert clean("x" * 500, 3) == "xxx [497 more characters]"


def test_lone_surrogates_are_escaped() -> None:
    assert clean("a\ud800b") == "a\\ud800b"


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [((), "[]"), ((1, 2), "[1, 2]"), (range(3000), "[0, 1, 2, ... 2999] (3,000 tokens)")],
)
def test_long_runs_of_tokens_show_their_ends(tokens: range, expected: str) -> None:
    assert expected == show_tokens(tokens)


@pytest.mark.parametrize(
    ("slots", "expected"),
    [
        ([], "none"),
        ([4], "4"),
        ([1, 2, 3, 9], "1-3 9"),
        ([3, 2, 1], "3 2 1"),
        (range(0, 60, 2), "0 2 4 6 8 10 12 14 ... (30 slots)"),
    ],
)
def test_neighbouring_slots_are_shown_as_ranges(slots: list[int], expected: str) -> None:
    assert expected == show_slots(slots)


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0, "0.0 s"), (2.54, "2.5 s"), (20, "20 s"), (600, "10 min"), (5400, "1 h 30 min")],
)
def test_durations_are_shown_in_the_unit_that_fits(seconds: float, expected: str) -> None:
    assert expected == show_duration(seconds)


@pytest.mark.parametrize(
    ("number", "expected"),
    [(7, "7"), (999, "999"), (4_849, "4.8k"), (9_960, "9k"), (48_862, "48k"), (1_200_000, "1.2M")],
)
def test_counts_of_situations_take_four_characters_at_most(number: int, expected: str) -> None:
    assert expected == short_count(number)


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        (MatchPrefix((1,), ("a]",)), "match_prefix([1], namespace=('a]',))"),
        (Insert((1,), priority=2, lent="h\x1b"), "insert([1], priority=2, lent='h\\x1b')"),
        (Evict(3), "evict(3)"),
        (IncRef("h1"), "inc_ref(h1)"),
    ],
)
def test_a_call_is_written_as_a_person_would(operation: Operation, expected: str) -> None:
    assert expected == show_operation(operation)


def test_what_a_target_raised_is_shown_as_data() -> None:
    expected = "raised E: [red]bad[/red]\\x1b[31m\\nsecond \\u202e line (f.py, line 1: x)"
    assert expected == show_outcome(Failure("E", HOSTILE, "f.py, line 1: x"))


# ---- trees -------------------------------------------------------------------------------


BEFORE = Snapshot(
    {
        (): (
            Edge((1, 2), (1, 2), 1, (Edge((3,), (3,), 0), Edge((5,), (4,), 1, handles=("h[1]",)))),
            Edge((9, 8), (7, 8), 0),
        )
    }
)
AFTER = Snapshot({(): (Edge((1, 2), (1, 2), 1, (Edge((5,), (4,), 1, handles=("h[1]",)),)),)})


def drawn(before: Snapshot, after: Snapshot, shown: Screen) -> str:
    """Draw two snapshots, and return what was printed."""
    show_trees(shown, before, after, (), ())
    return text(shown)


def test_trees_stand_side_by_side_where_both_fit() -> None:
    assert drawn(BEFORE, AFTER, screen(90)) == (
        "stored before                         stored after\n"
        "├─ [1, 2]  slots 1-2  1 lock          └─ [1, 2]  slots 1-2  1 lock\n"
        "│  ├─ [3]  slots 3                       └─ [5]  slots 4    1 lock  h[1]\n"
        "│  └─ [5]  slots 4    1 lock  h[1]\n"
        "└─ [9, 8]  slots 7-8\n"
    )


def test_trees_stand_one_below_the_other_where_the_terminal_is_narrow() -> None:
    assert drawn(BEFORE, AFTER, screen(50)) == (
        "stored before\n"
        "├─ [1, 2]  slots 1-2  1 lock\n"
        "│  ├─ [3]  slots 3\n"
        "│  └─ [5]  slots 4    1 lock  h[1]\n"
        "└─ [9, 8]  slots 7-8\n"
        "stored after\n"
        "└─ [1, 2]  slots 1-2  1 lock\n"
        "   └─ [5]  slots 4    1 lock  h[1]\n"
    )


def test_a_tree_that_did_not_change_is_drawn_once() -> None:
    assert drawn(AFTER, AFTER, screen(encoding="ascii")) == (
        "stored before and after\n"
        "`- [1, 2]  slots 1-2  1 lock\n"
        "   `- [5]  slots 4    1 lock  h[1]\n"
    )


def test_namespaces_are_headings() -> None:
    trees = Snapshot(
        {(): (Edge((1,), (1,), 0),), ("a\x1b", ""): (Edge((1,), (2,), 0),), ("b",): ()}
    )
    assert drawn(trees, trees, screen()) == (
        "stored before and after\n"
        "namespace ()\n"
        "└─ [1]  slots 1\n"
        "namespace ('a\\x1b', '')\n"
        "└─ [1]  slots 2\n"
    )


def test_an_empty_cache_is_said_to_hold_nothing() -> None:
    assert drawn(Snapshot({}), Snapshot({}), screen()) == "stored before and after\n(nothing)\n"


def test_a_large_tree_shows_what_the_operation_passed() -> None:
    tree = Snapshot({(): tuple(Edge((token,), (token,), 0) for token in range(500))})
    shown = screen()
    show_trees(shown, tree, tree, (321, 4), ())
    lines = text(shown).splitlines()
    assert (14, True, "… and 488 more edges") == (
        len(lines),
        "├─ [321]  slots 321" in lines,
        lines[-1],
    )


def deep() -> Snapshot:
    """Build a tree that is deeper than Python's recursion limit."""
    edge = Edge((5000,), (5000,), 0)
    for token in reversed(range(5000)):
        edge = Edge((token,), (token,), 0, (edge,))
    return Snapshot({(): (edge,)})


def test_a_tree_deeper_than_the_recursion_limit_is_drawn_within_the_line() -> None:
    shown = screen()
    show_trees(shown, deep(), deep(), tuple(range(100)), ())
    first, *drawn_edges = text(shown).splitlines()
    assert (first, 13) == ("stored before and after", len(drawn_edges))
    assert max(map(len, drawn_edges)) <= 80


# ---- owners ------------------------------------------------------------------------------


def test_a_foreign_slot_names_its_owner_and_what_it_was_answered_for() -> None:
    step = Step(MatchPrefix((1, 4)), Matched(2, (1, 3)))
    before = Snapshot({(): (Edge((1, 2, 4), (1, 2, 3), 0),)})
    assert [str(claim) for claim in claims(step, before)] == [
        "[1]",
        "[1, 2, 4], answered for [1, 4]",
    ]


def test_slots_of_another_namespace_of_nobody_and_beyond_the_key_are_told() -> None:
    step = Step(MatchPrefix((1, 2), ("a",)), Matched(3, (1, 99, 99)))
    before = Snapshot({("b",): (Edge((1, 2), (1, 2), 0),)})
    assert [str(claim) for claim in claims(step, before)] == [
        "[1] in namespace ('b',), answered for [1]",
        "not in the tree, answered beyond the key",
    ]


def test_freed_slots_tell_locks_and_repetition() -> None:
    step = Step(Evict(3), Freed(((1, 2), (2, 8))))
    before = Snapshot({(): (Edge((1,), (1,), 2, (Edge((2,), (2,), 0),)),)})
    assert [str(claim) for claim in claims(step, before)] == [
        "[1], under 2 locks",
        "[1, 2]",
        "[1, 2], freed twice",
        "not in the tree",
    ]


def test_a_lock_answers_no_slots_to_be_owned() -> None:
    assert [] == claims(Step(IncRef("h1"), Matched(0, ())), BEFORE)


# ---- a finding ---------------------------------------------------------------------------


def test_a_finding_is_shown_in_one_block() -> None:
    assert block(finding(*PHANTOM)) == (
        "── finding 1: phantom-prefix (corruption) ──────────────────────────────────────\n"
        "A match is longer than any stored prefix: another context's KV can be served.\n"
        "Broken by radix-first-release, with seed 7. 3 operations, shrunk from 92.\n"
        "\n"
        "from array import array\n"
        "from radixcheck.targets.first_release import RadixFirstRelease\n"
        "\n"
        "cache = RadixFirstRelease()\n"
        'cache.insert(array("q", [1, 2, 3]), [1, 2, 3])\n'
        'cache.insert(array("q", [1, 2, 3, 4]), [4, 5, 6, 7])\n'
        'match = cache.match_prefix(array("q", [1, 4]))\n'
        "assert match.length == 1, match.length  # was 2\n"
        "\n"
        "step 3 of 3: match_prefix([1, 4])\n"
        "  answer: 2 tokens, slots 1 7\n"
        "  expected    actual\n"
        "  1 token     2 tokens\n"
        "\n"
        "stored before and after\n"
        "└─ [1, 2, 3, 4]  slots 1-3 7\n"
        "\n"
        "who owned the slots that were answered\n"
        "  slot 1  [1]\n"
        "  slot 7  [1, 2, 3, 4], answered for [1, 4]\n"
        "\n"
        "reproduce: radixcheck replay dir/f.jsonl --target radix-first-release\n"
        "\n"
    )


def test_a_finding_that_was_not_saved_is_reproduced_by_its_seed() -> None:
    shown = block(finding(*PHANTOM), saved=None)
    assert "reproduce: radixcheck run radix-first-release --seed 7" in shown.splitlines()


def test_a_flaky_finding_is_called_no_violation() -> None:
    import msgspec

    flaky = msgspec.structs.replace(finding(*PHANTOM), flaky=True)
    assert "Flaky. It did not come back" in block(flaky)


def test_a_finding_of_three_thousand_tokens_fits_the_terminal() -> None:
    key = tuple(range(5000, 8000))
    found = finding(
        Insert(key[:2000]),
        Insert(key),
        MatchPrefix(key[:1500], handle="h1"),
        MatchPrefix(key[:1000] + key[1500:2500]),
    )
    lines = block(found, screen(80)).splitlines()
    start, end = lines.index("from array import array"), lines.index("")
    wide = [line for line in lines if len(line) > 80 and "cache." not in line]
    assert (True, [], True) == (start > end, wide, len(lines) < 50)


def test_a_program_of_long_random_keys_is_cut_unless_all_is_wanted() -> None:
    key = tuple((token * 7919) % 100_003 for token in range(3000))
    found = finding(Insert(key), Insert((*key, 1)), MatchPrefix((*key[:1000], 1)))
    short, whole = block(found), block(found, screen(verbosity=1))
    assert (True, False) == ("# cut: -v shows it" in short, "# cut: -v shows it" in whole)


def test_text_of_a_trace_is_never_read_as_markup() -> None:
    found = finding(*PHANTOM[:2], MatchPrefix((1, 2, 3), handle="[bold]h[/bold]\x1b"), PHANTOM[2])
    shown = block(found)
    assert (True, False) == ("[bold]h[/bold]\\x1b" in shown, "\x1b" in shown)


# ---- what is not judged ------------------------------------------------------------------


def rules_left_out(capabilities: Capabilities, methods: frozenset[str] = ALL_METHODS) -> set[str]:
    """Name the rules that do not apply."""
    return {each.rule for each in unjudged(Promises(capabilities, methods, misuse=False))}


FULL = Capabilities(
    page_size=4,
    resolution_s=0.0,
    misuse="raises",
    namespaces="one",
    deltas="present",
    protected_size="present",
    total_size="present",
    reset="present",
    dump="present",
    deterministic=True,
    storage="present",
)


def test_a_target_that_promises_all_has_every_rule_judged() -> None:
    assert set() == rules_left_out(FULL)


def test_a_plain_target_is_told_what_is_not_judged() -> None:
    expected = {
        "namespace-leak",
        "unaligned-match",
        "eviction-order",
        "delta-mismatch",
        "lock-underflow",
        "structure",
        "nondeterminism",
        "retained-storage",
    }
    assert expected == rules_left_out(Capabilities())


def test_without_evict_nothing_about_evictions_is_judged() -> None:
    left_out = rules_left_out(FULL, ALL_METHODS - {"evict"})
    assert {"evicted-locked", "under-evicted", "eviction-order", "leaked-slot"} <= left_out


def test_without_a_method_no_size_is_judged_whatever_is_promised() -> None:
    sizes = {"evictable_size", "protected_size", "total_size"}
    assert {"size-drift"} == rules_left_out(FULL, ALL_METHODS - sizes)


def test_a_cache_of_requests_is_told_what_is_not_judged() -> None:
    promises = Promises(Capabilities(), frozenset(), misuse=False, level="requests")
    left_out = {each.rule: each.reason for each in unjudged(promises)}
    assert {"unaligned-match", "leaked-slot", "nondeterminism"} == left_out.keys()
    assert "there is no evict" in left_out["leaked-slot"]


def test_a_cache_of_requests_that_promises_all_has_every_rule_judged() -> None:
    full = msgspec.structs.replace(FULL, interrupted_evict="loses-nothing")
    promises = Promises(full, frozenset({"evict"}), misuse=False, level="requests")
    assert [] == list(unjudged(promises))


def test_an_own_clock_without_resolution_leaves_the_order_to_chance() -> None:
    (reason,) = (
        each
        for each in unjudged(Promises(Capabilities(), ALL_METHODS, misuse=True))
        if each.rule == "eviction-order"
    )
    assert "resolution_s=0" in reason.hint


def test_a_sweep_counts_the_configurations_of_each_reason() -> None:
    sweep = [Promises(FULL, ALL_METHODS, misuse=False)] * 2
    unspecified = [Promises(Capabilities(eviction="unspecified"), ALL_METHODS, misuse=False)]
    counts = {each.rule: count for each, count in unjudged_in([*sweep, *unspecified])}
    assert (1, None) == (counts["eviction-order"], counts.get("size-drift"))


# ---- a run -------------------------------------------------------------------------------


def report(*, findings: tuple[Finding, ...] = (), missed: tuple[str, ...] = ()) -> Report:
    """Make the report of a run that reached all but `missed`."""
    arenas = [Arena({"page_size": size}, FULL) for size in (1, 4)]
    reached = Counter({name: 3 for name in required(arenas) if name not in missed})
    return Report(
        "radix",
        7,
        arenas,
        2,
        48_862,
        3.04,
        list(findings),
        reached=reached,
        skipped=Counter(dead=2),
    )


def shown_report(seen: Report, verbosity: int = 0) -> list[str]:
    """Print a report, and return the lines."""
    shown = screen(verbosity=verbosity)
    promises = [Promises(arena.capabilities, ALL_METHODS, misuse=False) for arena in seen.arenas]
    show_report(shown, seen, promises)
    return text(shown).splitlines()


def test_a_clean_run_says_so_first() -> None:
    first, *rest = shown_report(report())
    wanted = len(required(report().arenas))
    assert first == "✔ radix: no violation in 48,862 operations, 2 traces, 3.0 s"
    assert rest[:3] == [
        "  configurations  2: page_size 1, 4",
        f"  situations      {wanted} of {wanted} required reached",
        "  skipped         2 operations: dead (2)",
    ]


def test_a_missed_situation_is_named_with_what_it_means() -> None:
    lines = shown_report(report(missed=("split-under-lock",)))
    assert lines[0].startswith("? radix: no violation, but 1 required situation missed in")
    assert "    split-under-lock  an edge is cut while a lock covers both parts" in lines


def test_a_violation_is_the_verdict_and_its_repeats_are_counted() -> None:
    seen = report(findings=(finding(*PHANTOM),))
    seen.repeats["phantom-prefix", "match_prefix"] = 45
    lines = shown_report(seen)
    assert lines[:2] == [
        "✘ radix: 1 violation in 48,862 operations, 2 traces, 3.0 s",
        "  phantom-prefix at match_prefix, seen 45 more times",
    ]


def test_the_most_telling_finding_is_listed_first() -> None:
    one = finding(*PHANTOM)

    def named(rule: str, longer: int = 0, *, flaky: bool = False) -> Finding:
        violation = msgspec.structs.replace(one.violation, rule=rule)
        trace = one.trace.replace(operations=PHANTOM + PHANTOM[:longer])
        return msgspec.structs.replace(one, violation=violation, trace=trace, flaky=flaky)

    found = (
        named("foreign-slot", flaky=True),
        named("unexpected-error"),
        named("missed-prefix"),
        named("phantom-prefix", 2),
        named("leaked-slot"),
        named("foreign-slot", 1),
    )
    lines = shown_report(report(findings=found), -1)[1:]
    expected = "foreign-slot phantom-prefix leaked-slot missed-prefix unexpected-error foreign-slot"
    assert expected.split() == [line.split()[0] for line in lines]


def test_configurations_that_never_ran_are_not_claimed() -> None:
    seen = report()
    seen.traces = 1
    assert "  configurations  only the first 1 of 2: page_size 1, 4" in shown_report(seen)


def test_a_quiet_report_is_one_line() -> None:
    assert 1 == len(shown_report(report(), verbosity=-1))


@pytest.mark.parametrize(
    ("configs", "expected"),
    [
        ([{}], "its own defaults"),
        ([{"page_size": 4, "eviction": "lru"}], "page_size=4, eviction=lru"),
        (
            [{"page_size": size, "eviction": each} for size in (1, 4) for each in ("lru", "lfu")],
            "4: page_size 1, 4; eviction lru, lfu",
        ),
    ],
)
def test_a_sweep_is_told_by_its_axes(
    configs: list[dict[str, bool | int | float | str]], expected: str
) -> None:
    assert expected == describe_configs(configs)
