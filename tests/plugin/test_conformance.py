"""`check_target`: the suite without pytest."""

from __future__ import annotations

from pathlib import Path

import pytest

from radixcheck.conformance import Inconclusive, Settings, Violated, check_target
from radixcheck.registry import TargetError
from radixcheck.targets.first_release import RadixFirstRelease
from radixcheck.targets.radix import Radix

pytestmark = pytest.mark.slow

SHORT = Settings(operations=3_000)


def test_a_correct_target_passes() -> None:
    check_target(Radix, SHORT)


def test_a_broken_target_raises_its_finding(tmp_path: Path) -> None:
    with pytest.raises(Violated, match="phantom-prefix") as error:
        check_target(RadixFirstRelease, SHORT._replace(findings_dir=tmp_path))
    assert "cache = RadixFirstRelease()" in str(error.value)


def test_what_was_found_is_saved(tmp_path: Path) -> None:
    with pytest.raises(Violated):
        check_target("radix-first-release", SHORT._replace(findings_dir=tmp_path))
    assert tmp_path.exists()


def test_a_run_that_is_too_short_proves_nothing() -> None:
    with pytest.raises(Inconclusive, match="never reached"):
        check_target(Radix, Settings(max_time_s=0.001))


def test_a_spec_that_names_nothing_is_the_user_s_mistake() -> None:
    with pytest.raises(TargetError) as error:
        check_target("radx")
    assert "user" == error.value.fault
