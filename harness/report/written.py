"""Reports as files: ``radixcheck.html`` and its siblings, each written in one step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from os import W_OK, access
from pathlib import Path

from radixcheck.report import document, junit, markdown, page, sarif
from radixcheck.report.document import Document
from radixcheck.trace import write_in_one_step

KINDS: Mapping[str, tuple[str, Callable[[Document], bytes]]] = {
    "junit": ("radixcheck.xml", junit.dumps),
    "json": ("radixcheck.json", document.dumps),
    "sarif": ("radixcheck.sarif", sarif.dumps),
    "md": ("radixcheck.md", markdown.dumps),
    "html": ("radixcheck.html", page.dumps),
}
"""By what it is asked for: the name of the file, and what writes it."""


def check_folder(folder: Path) -> None:
    """See before a long run that reports can be written after it, and make their folder.

    Raises:
        OSError: `folder` is no folder, or nobody may write there.
    """
    there = next(each for each in (folder, *folder.absolute().parents) if each.exists())
    if not there.is_dir():
        raise NotADirectoryError(20, "not a folder, so no report can be written there", str(there))
    if not access(there, W_OK):
        raise PermissionError(13, "not writable, so no report can be written there", str(there))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        error.add_note(f"no report can be written in {folder}")
        raise


def write(told: Document, kinds: Iterable[str], folder: Path) -> list[Path]:
    """Write `told` in each of `kinds`, and answer where.

    Raises:
        OSError: a report could not be written, and says which; those before it are.
    """
    paths = []
    for kind in kinds:
        name, dumps = KINDS[kind]
        path = folder / name
        try:
            write_in_one_step(path, dumps(told))
        except OSError as error:
            error.add_note(f"the report {path} could not be written")
            raise
        paths.append(path)
    return paths
