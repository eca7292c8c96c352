"""What runs in a worker of a campaign: whatever comes of a task, an answer that can be read."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from radixcheck.campaign.unit import Failing, Harvest, Task, read_harvest
from radixcheck.campaign.worker import Hosts, told
from radixcheck.hosts import Here, Isolated
from radixcheck.operations import MatchPrefix
from radixcheck.rules import Violation
from radixcheck.trace import Trace

TRACE = Trace((MatchPrefix((1,)),))

CACHE = """
from radixcheck.targets.radix import Radix

class Cache(Radix):
    def match_prefix(self, tokens, namespace=()):
        raise ValueError("of folder {}")
"""


@pytest.fixture
def two_folders(tmp_path: Path) -> Iterator[list[str]]:
    """Two targets, each with a module of one name beside it; their specs."""
    folders = [tmp_path / name for name in "ab"]
    for folder in folders:
        folder.mkdir()
        (folder / "kept_beside.py").write_text(CACHE.format(folder.name))
        (folder / "target.py").write_text("from kept_beside import Cache\n")
    yield [f"{folder}/target.py:Cache" for folder in folders]
    del sys.modules["kept_beside"]


def test_targets_that_need_modules_of_one_name_are_judged_apart(two_folders: list[str]) -> None:
    hosts, kinds, seen = Hosts(), [], []
    for spec in two_folders:
        with hosts.of(Task(spec, "swarm")) as host:
            violation = host.check(TRACE).violation
            kinds.append(type(host).__mro__[-2])
            seen.append(violation and violation.actual)
        if isinstance(host, Isolated):
            host.close()
    assert [Here, Isolated] == kinds
    assert ["ValueError: of folder a", "ValueError: of folder b"] == seen


def test_a_harvest_that_cannot_travel_says_so() -> None:
    violation = Violation("crash", "evict", 0, "an answer", "caf\udce9")
    harvest = read_harvest(told(Harvest(failing=[Failing(TRACE, violation)]), "own.py:Cache"))
    assert harvest.failed is not None
    message = "own.py:Cache answered text with a lone surrogate"
    assert ("adapter", message) == (harvest.failed.kind, harvest.failed.message[: len(message)])
