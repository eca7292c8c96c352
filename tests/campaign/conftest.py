"""What the tests of campaigns share: a folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from radixcheck.campaign.state import State


@pytest.fixture
def state(tmp_path: Path) -> Iterator[State]:
    """A campaign's folder."""
    found = State(tmp_path / "campaign")
    yield found
    found.close()
