"""What the tests of hosts share: hosts that are ended at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TypeAlias

import pytest

from radixcheck.hosts import Isolated, Limits

Isolate: TypeAlias = Callable[..., Isolated]


@pytest.fixture
def isolate() -> Iterator[Isolate]:
    """Make isolated hosts, and end them at the end."""
    with ExitStack() as ends:

        def make(spec: str, op_timeout_s: float = 10, memory_bytes: int = 2**31) -> Isolated:
            host = Isolated(spec, Limits(op_timeout_s, memory_bytes))
            ends.callback(host.close)
            return host

        yield make
