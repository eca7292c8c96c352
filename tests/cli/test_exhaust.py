"""``radixcheck exhaust``: a sentence to quote, or the smallest counterexample as a trace file."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest
from typer.testing import Result

from radixcheck import trace
from radixcheck.cli.exhaust import progress, sentence
from radixcheck.drivers.exhaustive import Scope, Search, search
from radixcheck.hosts import Here
from radixcheck.operations import Insert, MatchPrefix
from radixcheck.registry import resolve

pytestmark = pytest.mark.slow

Call: TypeAlias = Callable[..., Result]

SMALL = ("--operations", "2", "--key-length", "2")


def said(result: Result) -> str:
    """Return all that was printed, as one line."""
    return " ".join(result.output.split())


def test_a_clean_search_ends_with_a_sentence_that_names_every_bound(call: Call) -> None:
    result = call("exhaust", "radix", *SMALL)
    expected = (
        "radix: no violation in all 161 traces of at most 2 operations over 2 tokens, "
        "keys up to length 2, page 1, one lock traces"
    )
    assert (0, True) == (result.exit_code, expected in said(result))


def test_the_sentence_names_namespaces_locks_and_pages_too(call: Call) -> None:
    bounds = ("--namespaces", "1", "--locks", "0", "--page-size", "2", "--tokens", "1")
    result = call("exhaust", "radix-paged", *SMALL, *bounds, "-q")
    expected = "over 1 token, keys up to length 2, page 2, no lock, 2 namespaces"
    assert (0, True) == (result.exit_code, said(result).endswith(expected))


def test_the_kinds_of_operations_are_named_with_the_amounts(call: Call) -> None:
    result = call("exhaust", "radix", "--operations", "1", "--evict", "0", "--evict", "3")
    expected = "match_prefix, insert, evict 0 or 3, inc_ref, dec_ref, reset, at the end an audit"
    assert expected in said(result)


def test_a_violation_is_shown_saved_and_fails_again(call: Call, folder: Path) -> None:
    result = call("exhaust", "radix-first-release", "--operations", "4")
    assert 1 == result.exit_code
    assert "phantom-prefix after 3 operations with 7 tokens; proven smallest" in said(result)
    (saved,) = (folder / "radixcheck-findings").glob("*.jsonl")
    expected = (Insert((1, 1)), Insert((1, 1, 2)), MatchPrefix((1, 2), handle="h1"))
    assert expected == trace.load(saved).operations
    assert 1 == call("replay", str(saved)).exit_code


def test_a_time_limit_is_success_and_says_what_is_not_done(call: Call) -> None:
    result = call("exhaust", "radix", "--operations", "9", "--max-time", "0.001s", "-q")
    assert (0, True) == (result.exit_code, "all 19 of at most 1 operation" in said(result))


SERVER = Path(__file__).parents[1] / "command" / "serve.py"


@pytest.mark.parametrize(
    "target", [("radix", "--isolate"), (f"cmd:{sys.executable} {SERVER}?of=radix",)]
)
def test_a_target_in_a_process_of_its_own_is_run_from_the_start(
    call: Call, target: tuple[str, ...]
) -> None:
    result = call("exhaust", *target, *SMALL, "--key-length", "1")
    expected = "each run from the start, because the target lives in a process of its own"
    assert (0, True) == (result.exit_code, expected in said(result))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("pool-exclusive",), "only a tree is searched"),
        (("radix", "--page-size", "4"), "radix has pages of 1, not of 4"),
        (("radix", "--namespaces", "1"), "radix has no namespaces"),
        (("radix", "--operations", "0"), "--operations"),
        (("radix", "--max-time", "soon"), "soon"),
        (("radics",), "unknown target"),
    ],
)
def test_what_cannot_be_searched_is_usage(
    arguments: tuple[str, ...], message: str, call: Call
) -> None:
    result = call("exhaust", *arguments)
    assert (2, True) == (result.exit_code, message in said(result))


def seen(operations: int, at_depth: int) -> Search:
    """Search up to the first state of a layer that has been judged."""

    def stop(found: Search) -> None:
        if found.depth == at_depth and found.traces > found.complete:
            raise KeyboardInterrupt

    return search(Here(resolve("radix")), Scope(operations=operations, key_length=1), watch=stop)


def test_progress_tells_how_far_how_fast_and_how_long() -> None:
    expected = r"[\d,]+ traces, [\d,]+/s, at 3 operations of 5, about .+ left"
    assert re.fullmatch(expected, progress(seen(5, at_depth=2)))


def test_what_is_not_all_is_never_called_all() -> None:
    expected = r"no violation in [\d,]+ traces over .*: all 55 of at most 2 operations, and some .*"
    assert re.fullmatch(expected, sentence(seen(5, at_depth=2)))
