"""``radixcheck diff``: what is shown of several targets, saved, and replayed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest
from typer.testing import Result

from radixcheck import trace as traces
from radixcheck.operations import Evict, Insert, MatchPrefix
from radixcheck.trace import Trace

Call: TypeAlias = Callable[..., Result]

READ_AGAIN = Trace((Insert((1,)), Insert((2,)), MatchPrefix((1,)), Evict(1)), {"page_size": 1})


def test_diff_shows_saves_and_replays_where_two_targets_part(call: Call, folder: Path) -> None:
    arguments = ("diff", "radix", "radix-first-release", "--no-isolate")
    found = call(*arguments, "--seed", "1", "-x")
    assert (1, True) == (found.exit_code, "── finding 1: divergence" in found.stdout)
    assert "\n  radix: 1 token" in found.stdout
    assert "\n  radix-first-release: 2 tokens" in found.stdout
    assert "cache = RadixFirstRelease()" in found.stdout
    (path,) = (folder / "radixcheck-findings").iterdir()
    relative = path.relative_to(folder)
    told = f"reproduce: radixcheck diff radix radix-first-release --replay {relative}"
    assert told in found.stdout
    assert "radix radix-first-release" == (traces.load(path).found or pytest.fail()).target
    again = call(*arguments, "--replay", str(path))
    assert (1, True) == (again.exit_code, "1 FAILED" in again.stdout)
    fixed = call("diff", "radix", "radix-paged", "--no-isolate", "--replay", str(path))
    assert (0, True) == (fixed.exit_code, "1 FIXED" in fixed.stdout)


def test_diff_isolates_every_target(call: Call) -> None:
    result = call("diff", "radix", "radixcheck.targets.fatal:CutsWildly", "--seed", "1", "-x")
    assert (1, True) == (result.exit_code, "breaks crash: died of SIGSEGV" in result.stdout)


def test_a_divergence_is_not_replayed_on_one_target(call: Call, folder: Path) -> None:
    found = traces.Found("divergence", "evict", "radix radix-paged")
    traces.save(READ_AGAIN.replace(found=found), folder / "a.jsonl")
    result = call("replay", "a.jsonl")
    assert (2, True) == (result.exit_code, "radixcheck diff radix radix-paged" in result.stdout)


def test_diff_wants_two_targets(call: Call) -> None:
    result = call("diff", "radix")
    assert (2, True) == (result.exit_code, "give two or more" in result.output)
