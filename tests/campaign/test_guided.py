"""The driver that coverage guides, where it is installed."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from radixcheck.arena import arenas
from radixcheck.campaign.drivers import ATHERIS
from radixcheck.campaign.guided import is_able
from radixcheck.campaign.standing import Standing
from radixcheck.campaign.state import State
from radixcheck.campaign.unit import Task, work
from radixcheck.registry import resolve

pytestmark = pytest.mark.slow

INSTALLED = find_spec("atheris") is not None
needs_atheris = pytest.mark.skipif(not INSTALLED, reason="Atheris is not installed")


@needs_atheris
@pytest.mark.parametrize(
    ("spec", "expected"), [("radix", []), ("radix-first-release", ["phantom-prefix"])]
)
def test_what_it_leaves_is_judged_again(spec: str, expected: list[str]) -> None:
    harvest = work(Task(spec, ATHERIS, 1, max_time_s=12, isolate=True))
    assert (None, expected) == (harvest.failed, [each.violation.rule for each in harvest.failing])
    assert harvest.operations > 1_000


@needs_atheris
def test_it_begins_with_the_corpus() -> None:
    swarm = work(Task("radix", "swarm", 1, max_operations=3_000))
    corpus = tuple(each.content for each in swarm.kept)
    assert work(Task("radix", ATHERIS, 1, max_time_s=6, corpus=corpus, isolate=True)).failed is None


@pytest.mark.parametrize("spec", ["radix", "pool-counted", "requests:radix"])
def test_only_trees_are_guided_and_only_where_it_is_installed(spec: str, state: State) -> None:
    found = arenas(resolve(spec))
    names = {share.driver for share in Standing(spec, found, 1, state).shares}
    assert (INSTALLED and spec == "radix") == is_able(found) == (ATHERIS in names)


@pytest.mark.skipif(INSTALLED, reason="Atheris is installed")
def test_without_it_a_task_says_so() -> None:
    failed = work(Task("radix", ATHERIS, 1, isolate=True)).failed
    assert failed is not None
    assert "not installed" in failed.message
