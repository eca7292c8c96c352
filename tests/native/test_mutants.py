"""radix-cpp on trial: it is green, and each bug that it can be built with is seen."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import pytest

from radixcheck import generate, loop
from radixcheck.finding import Finding
from radixcheck.hosts import Isolated, Limits
from radixcheck.loop import Budget, run
from radixcheck.operations import Audit
from radixcheck.registry import resolve
from radixcheck.targets.native.radix_cpp import MUTANTS, SOURCES, supports
from radixcheck.trace import Config, Trace
from radixcheck.verdict import check

pytestmark = pytest.mark.slow

OPERATIONS = 400
MOST_OPERATIONS = 6
BUDGET = Budget(max_time_s=120, max_operations=20_000, first_only=True)

SEEN = {
    "split-keeps-slots": {"orphaned-suffix", "evicted-unknown", "foreign-slot"},
    "stale-child": {"wrong-existing-length", "missed-prefix"},
    "stale-reference": {"heap-use-after-free"},
    "reads-past-edge": {"heap-buffer-overflow"},
    "double-free": {"hang", "foreign-slot", "evicted-unknown"},
    "climbs-past-root": {"SIGSEGV"},
    "endless-loop": {"hang"},
}
"""What each bug may be found as: a rule, or the cause of a crash."""

SANITIZED = ("stale-reference", "reads-past-edge")


SHRINK_TIME_S = 8.0
"""What is left after that is short enough."""


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Finding]]:
    """Look for the bug of a mutant in workers, and return what is found first."""
    monkeypatch.setattr(loop, "SHRINK_TIME_S", SHRINK_TIME_S)
    with ExitStack() as stack:

        def look(mutant: str) -> Finding:
            sanitize = "&sanitize=address,undefined" if mutant in SANITIZED else ""
            spec = f"radix-cpp?mutant={mutant}{sanitize}"
            host = stack.enter_context(closing(Isolated(spec, Limits(op_timeout_s=2))))
            (finding,) = run(host, seed=1, budget=BUDGET).findings
            again = host.check(finding.trace).violation
            assert finding.violation.signature == (again and again.signature)
            return finding

        yield look


@pytest.mark.parametrize("mutant", MUTANTS)
def test_every_bug_becomes_a_short_trace_that_can_be_replayed(
    mutant: str, found: Callable[[str], Finding]
) -> None:
    finding = found(mutant)
    assert {finding.violation.cause or finding.violation.rule} <= SEEN[mutant]
    assert len(finding.trace.operations) <= MOST_OPERATIONS


def test_python_and_cpp_know_the_same_mutants() -> None:
    enum = re.findall(
        r"enum class Mutant \{(.*?)\}", (SOURCES / "radix.hpp").read_text(), re.DOTALL
    )
    names = re.findall(r"\w+", enum[0])
    assert ["no", *(name.replace("-", "_") for name in MUTANTS)] == names


def test_every_mutant_is_explained_where_it_is_switched() -> None:
    text = (SOURCES / "radix.hpp").read_text()
    told = set(re.findall(r"^ *// (\w+): ", text, re.MULTILINE))
    assert {name.replace("-", "_") for name in MUTANTS} == told


@pytest.mark.parametrize("eviction", supports["eviction"])
@pytest.mark.parametrize("page_size", supports["page_size"])
def test_radix_cpp_is_green(page_size: int, eviction: str) -> None:
    source = resolve("radix-cpp")
    config: Config = {"page_size": page_size, "eviction": eviction}
    can = source.open(config).capabilities
    for seed in range(6):
        operations = generate.generate(seed, can, OPERATIONS, swarm=seed % 2 == 1)
        assert None is check(source.open, Trace((*operations, Audit()), config)).violation
