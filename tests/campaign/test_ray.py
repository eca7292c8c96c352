"""A campaign on Ray: two machines, one of which is lost, and a head that goes away."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from radixcheck.campaign.pool import PoolError
from radixcheck.campaign.ray import Cluster, wants_gpu

pytestmark = pytest.mark.slow

PATIENCE_S = 120.0


@pytest.fixture
def cluster() -> Iterator[Any]:
    """Start two machines of one core each, as far as Ray can tell."""
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'radixcheck[ray]'")
    utils = import_module("ray.cluster_utils")
    found = utils.Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False}
    )
    found.add_node(num_cpus=1)
    try:
        yield found
    finally:
        found.shutdown()


def campaign(address: str, state: Path, seconds: int) -> subprocess.Popen[str]:
    """Start a campaign on a cluster."""
    command = [
        "fuzz",
        "radix",
        "--ray",
        address,
        "--state",
        str(state),
        "--max-time",
        f"{seconds}s",
    ]
    return subprocess.Popen(
        [sys.executable, "-m", "radixcheck", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=os.environ | {"COLUMNS": "200"},
        text=True,
    )


def operations(state: Path) -> int:
    """Read how many operations were judged."""
    path = state / "campaign.json"
    told = json.loads(path.read_text()) if path.exists() else {"targets": {}}
    return sum(each["operations"] for each in told["targets"].values())


def wait_for(what: Callable[[], bool]) -> None:
    """Wait until something holds.

    Raises:
        TimeoutError: it never does.
    """
    until_s = time.monotonic() + PATIENCE_S
    while not what():
        if time.monotonic() > until_s:
            raise TimeoutError
        time.sleep(0.2)


def test_a_machine_is_lost_and_the_night_goes_on(cluster: Any, tmp_path: Path) -> None:
    running = campaign(cluster.address, tmp_path, 40)
    wait_for(lambda: operations(tmp_path) > 0)
    other = next(node for node in cluster.list_all_nodes() if node is not cluster.head_node)
    cluster.remove_node(other, allow_graceful=False)
    before = operations(tmp_path)
    told, _ = running.communicate(timeout=PATIENCE_S)
    assert "canary  found" in told, told
    assert ("1 lost" in told, running.returncode) == (True, 0), told
    assert operations(tmp_path) > before


def test_a_head_that_goes_away_ends_the_night_with_a_message(cluster: Any, tmp_path: Path) -> None:
    running = campaign(cluster.address, tmp_path, 100)
    wait_for(lambda: operations(tmp_path) > 0)
    cluster.head_node.kill_gcs_server(check_alive=False)
    began_s = time.monotonic()
    told, _ = running.communicate(timeout=PATIENCE_S)
    assert "the Ray cluster is gone" in told, told
    assert "nothing that was found is lost" in told
    assert (2, True) == (running.returncode, time.monotonic() - began_s < 45), told


def test_without_ray_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(PoolError, match="Ray is not installed"):
        Cluster(None)


def test_an_address_where_nobody_is_ends_with_a_message() -> None:
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'radixcheck[ray]'")
    with pytest.raises(PoolError, match="no Ray at"):
        Cluster("127.0.0.1:1")


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("radix-torch?device=cuda", True),
        ("radix-torch?page_size=4&device=cuda", True),
        ("radix", False),
    ],
)
def test_a_target_on_cuda_wants_a_gpu(spec: str, expected: bool) -> None:
    assert expected == wants_gpu(spec)
