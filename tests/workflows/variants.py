"""Lays out every kind of workflow that ``radixcheck init`` writes: ``variants.py FOLDER``."""

from __future__ import annotations

import sys
from pathlib import Path

from radixcheck.skeleton import GATE, NIGHTLY, project

KINDS = {"bare": "", "packaged": '[project]\nname = "my-cache"\nversion = "0.1"\n'}
"""What stands in pyproject.toml."""


def lay_out(folder: Path) -> None:
    """Write the workflows of each kind of project below `folder`."""
    for kind, text in KINDS.items():
        home = folder / kind
        (home / GATE).parent.mkdir(parents=True, exist_ok=True)
        (home / "pyproject.toml").write_text(text, encoding="utf-8")
        written = project(home, "1.2.3")
        for path in (GATE, NIGHTLY):
            (home / path).write_text(written[path], encoding="utf-8")


if __name__ == "__main__":
    lay_out(Path(sys.argv[1]))
