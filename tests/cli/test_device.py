"""``--device``: where a target keeps its tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pytest
from typer.testing import Result

Call: TypeAlias = Callable[..., Result]

SHORT = ("--seed", "1", "--max-ops", "50")


def said(result: Result) -> str:
    """Return what was printed, in one line."""
    return " ".join(result.output.split())


@pytest.mark.parametrize("command", ["run", "smoke"])
def test_a_device_is_the_same_as_an_argument_of_the_spec(call: Call, command: str) -> None:
    pytest.importorskip("torch")
    assert "radix-torch?device=cpu" in said(call(command, "radix-torch", "--device", "cpu", *SHORT))


def test_a_device_joins_other_arguments(call: Call) -> None:
    pytest.importorskip("torch")
    result = call("run", "radix-torch?page_size=4", "--device", "cpu", *SHORT)
    assert "radix-torch?page_size=4&device=cpu" in said(result)


@pytest.mark.parametrize("spec", ["radix-torch", "requests:radix-torch", "pool-torch"])
def test_a_device_that_is_not_there_is_told(call: Call, spec: str) -> None:
    pytest.importorskip("torch")
    result = call("run", spec, "--device", "cuda:99", *SHORT)
    assert (2, True) == (result.exit_code, "is not there" in said(result))


def test_a_target_without_a_device_takes_none(call: Call) -> None:
    result = call("run", "radix", "--device", "cpu", *SHORT)
    assert (2, True) == (result.exit_code, "does not take 'device'" in said(result))
