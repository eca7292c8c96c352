"""The tester is tested at the level of requests: liars are convicted, and the honest are not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from radixcheck.arena import arenas
from radixcheck.drivers.swarm import proposals
from radixcheck.registry import Source, resolve
from radixcheck.targets.honest import HONEST
from radixcheck.targets.request_honest import REQUEST_HONEST
from radixcheck.targets.request_liars import REQUEST_LIARS
from radixcheck.verdict import check

SEEDS = range(3)
MOST_OPERATIONS = 30_000
OPERATIONS = 4000
OPERATIONS_PER_TREE = 500


def source_of(target: type) -> Source:
    """Return a target as a run opens it."""
    return resolve(f"{target.__module__}:{target.__qualname__}")


def rules_broken(source: Source, seed: int, most: int) -> Iterator[str]:
    """Yield what names each violation that fuzzing finds."""
    operations = 0
    for trace in proposals(seed, arenas(source)):
        verdict = check(source.open, trace)
        if verdict.violation is not None:
            yield verdict.violation.rule
        operations += verdict.operations
        if operations > most:
            return


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", REQUEST_LIARS)
def test_a_liar_is_convicted_of_its_lie(name: str, seed: int) -> None:
    liar, rule = REQUEST_LIARS[name]
    assert rule in rules_broken(source_of(liar), seed, MOST_OPERATIONS)


@pytest.mark.parametrize("name", REQUEST_HONEST)
def test_an_honest_cache_of_requests_is_never_accused(name: str) -> None:
    assert [] == list(rules_broken(source_of(REQUEST_HONEST[name]), 1, OPERATIONS))


@pytest.mark.parametrize("name", HONEST)
def test_an_honest_tree_makes_an_honest_cache_of_requests(name: str) -> None:
    tree = HONEST[name]
    source = resolve(f"requests:{tree.__module__}:{tree.__name__}")
    assert [] == list(rules_broken(source, 1, OPERATIONS_PER_TREE))
