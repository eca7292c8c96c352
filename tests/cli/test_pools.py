"""Pools on the command line: exit codes, and whose fault bad input is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest
from typer.testing import Result

Call: TypeAlias = Callable[..., Result]

LIARS = "radixcheck.targets.pools.liars:"


@pytest.mark.parametrize(
    ("spec", "code", "said"),
    [
        ("pool-paged", 0, "no violation"),
        (f"{LIARS}CutsLongAllocs", 1, "length-mismatch at alloc"),
        (f"{LIARS}Overlaps", 1, "double-owner at alloc"),
        (f"{LIARS}AnswersFloats", 2, "the adapter, not the cache behind it"),
        (f"{LIARS}AnswersTables", 2, "the adapter, not the cache behind it"),
        ("pool-paged?capacity=2&page_size=4", 2, "capacity=2: a page has 4 slots"),
        ("pool-paged?eviction=lru", 2, "a pool target promises no eviction"),
        ("pool-exclusive?misuse=maybe", 2, "choose one of unspecified, raises, ignored"),
    ],
)
def test_a_pool_ends_a_run_with_the_code_that_it_deserves(
    call: Call, spec: str, code: int, said: str
) -> None:
    result = call("run", spec, "--seed", "1", "--max-ops", "4000", "-x")
    assert (code, True) == (result.exit_code, said in " ".join(result.output.split()))


def test_a_device_that_is_not_there_is_the_user_s_mistake(call: Call) -> None:
    pytest.importorskip("torch")
    result = call("run", "pool-torch?device=cuda:99", "--seed", "1", "--max-ops", "10")
    assert (2, True) == (result.exit_code, "is not there" in result.output)


@pytest.mark.parametrize(
    ("spec", "code"),
    [("pool-counted", 0), (f"{LIARS}HandsOutPadding", 1), (f"{LIARS}AnswersFloats", 2)],
)
def test_smoke_tells_a_broken_adapter_from_a_broken_pool(call: Call, spec: str, code: int) -> None:
    assert code == call("smoke", spec, "--seed", "1", "--max-ops", "3000").exit_code


def test_a_finding_is_a_program_of_the_pool_and_a_drawing(call: Call) -> None:
    said = call("run", f"{LIARS}LosesTheSixth", "--seed", "1", "--max-ops", "4000", "-x").output
    assert (
        "pool = LosesTheSixth(capacity=8)\n"
        "pool.alloc(6)  # slots [1, 2, 3, 4, 5, 6]\n"
        "pool.free([1, 2, 3, 4, 5, 6])\n"
        "assert pool.available_size() == 8, pool.available_size()  # was 7\n"
    ) in said
    assert "  h1    [0, 6)   slots 1-6\n  free  2 slots  slots 7-8\n" in said


BAD_POOLS = """
from radixcheck.targets.pools.plain import PoolExclusive

class Unreadable:
    ndim = 1
    def tolist(self):
        raise NotImplementedError

class AnswersNoData(PoolExclusive):
    def alloc(self, num_tokens):
        return Unreadable()

class TakesNothing(PoolExclusive):
    def alloc(self):
        return []

class FreesNothing(PoolExclusive):
    def free(self):
        pass

class HasNoAlloc(PoolExclusive):
    alloc = None

class RaisesLate(PoolExclusive):
    capabilities = property(lambda self: 1 // 0, lambda self, value: None)
    def reset(self):
        pass

class RaisesNoException(PoolExclusive):
    class Stop(BaseException):
        pass
    def alloc(self, num_tokens):
        raise self.Stop("enough")
"""


@pytest.mark.parametrize("command", ["run", "smoke"])
@pytest.mark.parametrize(
    ("pool", "said"),
    [
        ("AnswersNoData", "Unreadable cannot be read (NotImplementedError)"),
        ("TakesNothing", "alloc cannot be called as alloc(num_tokens)"),
        ("FreesNothing", "free cannot be called as free(slots)"),
        ("HasNoAlloc", "alloc cannot be called as alloc(num_tokens)"),
        ("RaisesLate", "its capabilities cannot be read: ZeroDivisionError"),
        ("RaisesNoException", "Stop, which is no Exception: enough"),
    ],
)
def test_an_adapter_that_cannot_be_used_ends_with_a_message(
    call: Call, tmp_path: Path, command: str, pool: str, said: str
) -> None:
    (tmp_path / "bad_pools.py").write_text(BAD_POOLS, encoding="utf-8")
    result = call(command, f"{tmp_path}/bad_pools.py:{pool}", "--seed", "1", "--max-ops", "100")
    assert (2, True) == (result.exit_code, said in " ".join(result.output.split()))
