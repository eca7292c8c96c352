"""Errors as a person meets them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from typer.testing import Result

Call: TypeAlias = Callable[..., Result]

COMPLAINS = r"""
import sys
sys.exit("Traceback:\n  line 3, in \x1b[31mopen\nKeyError: 'engine'")
"""


def test_what_a_server_wrote_before_it_ended_is_shown_line_by_line(
    call: Call, folder: Path
) -> None:
    (folder / "server.py").write_text(COMPLAINS)
    result = call("run", f"cmd:'{sys.executable}' server.py")
    shown = result.stderr.partition("ends: ")[2].splitlines()[:3]
    expected = ["Traceback:", "    line 3, in \\x1b[31mopen", "  KeyError: 'engine'"]
    assert (2, expected) == (result.exit_code, shown)
