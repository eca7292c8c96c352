"""SGLang's own pools, where a release is there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from radixcheck.hosts import Here
from radixcheck.loop import Budget, run
from radixcheck.registry import TargetError, resolve

RELEASES = Path(os.environ.get("RADIXCHECK_SGLANG_RELEASES", "/nowhere"))
DRIVEN = ("0.5.5", "0.5.9", "0.5.10", "0.5.23")


def spec_of(release: str) -> str:
    """Name the pool of a release, or skip."""
    pytest.importorskip("torch")
    if not (RELEASES / release / "sglang").is_dir():
        pytest.skip("RADIXCHECK_SGLANG_RELEASES names no folder with this release")
    return f"sglang-pool?path={RELEASES / release}"


@pytest.mark.parametrize("release", DRIVEN)
def test_the_pools_of_a_release_are_spared(release: str) -> None:
    report = run(Here(resolve(spec_of(release))), seed=1, budget=Budget(max_operations=6000))
    assert ([], []) == (report.findings, report.missing)


@pytest.mark.parametrize("release", DRIVEN)
def test_they_take_back_what_nobody_holds(release: str) -> None:
    budget = Budget(max_operations=6000, first_only=True)
    (finding,) = run(Here(resolve(spec_of(release))), seed=1, budget=budget, misuse=True).findings
    assert "double-free" == finding.violation.rule


def test_a_folder_without_sglang_is_the_user_s_mistake(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="holds no sglang/") as caught:
        resolve(f"sglang-pool?path={tmp_path}").open({})
    assert "user" == caught.value.fault
