"""docs/writing-a-native-target.md against the code: what it shows runs, what it lists is there."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

from radixcheck.targets.native.abi import ABI_VERSION, HEADER, OPTIONAL, REQUIRED
from radixcheck.targets.native.build import SANITIZERS
from radixcheck.targets.native.radix_cpp import MUTANTS

pytestmark = pytest.mark.slow

TESTS = Path(__file__).parents[1]
TEXT = (TESTS.parent / "docs" / "writing-a-native-target.md").read_text(encoding="utf-8")


def follow(text: str, folder: Path) -> Iterator[tuple[str, str]]:
    """Do what a part of the document tells, as tests/test_docs.py does for the others."""
    found = spec_from_file_location("how_documents_are_followed", TESTS / "test_docs.py")
    assert found is not None and found.loader is not None
    module: Any = module_from_spec(found)
    found.loader.exec_module(module)
    yield from module.follow(text, folder)


def apply(diff: str, path: Path) -> None:
    """Replace the lines that a diff takes out by those that it brings."""
    lines = {sign: re.findall(rf"^\{sign}(.*\n)", diff, re.MULTILINE) for sign in "-+"}
    old, new = ("".join(lines[sign]) for sign in "-+")
    source = path.read_text()
    assert 1 == source.count(old)
    path.write_text(source.replace(old, new))


@pytest.mark.skipif(not shutil.which("ldd"), reason="sanitizers are preloaded on Linux only")
@pytest.mark.usefixtures("cache")
def test_what_the_document_shows_is_what_an_author_sees(tmp_path: Path) -> None:
    before, diff, after = re.split(r"^```diff\n(.*?)^```$", TEXT, flags=re.MULTILINE | re.DOTALL)
    told = list(follow(before, tmp_path))
    apply(diff, tmp_path / "shelf.hpp")
    told += follow(after, tmp_path)
    assert [(command, "") for command, _ in told] == told
    assert len(told) >= 8


def rows(first: str) -> dict[str, str]:
    """Return the second cells of the table whose heading begins with `first`, by the first."""
    _, _, rest = TEXT.partition(f"\n| {first} |")
    lines = rest.partition("\n\n")[0].splitlines()[2:]
    cells = [line.strip("| ").split(" | ") for line in lines]
    return {name: told for names, told, *_ in cells for name in re.findall(r"`([^`]+)`", names)}


def test_every_function_of_the_header_is_told() -> None:
    assert {f"radixcheck_{name}" for name in (*REQUIRED, *OPTIONAL)} == set(rows("function"))


def test_every_sanitizer_is_told() -> None:
    assert {*SANITIZERS, "address,undefined"} == set(rows("`--sanitize`"))


def test_every_mutant_is_told() -> None:
    assert dict(MUTANTS) == rows("mutant")


def test_the_header_speaks_the_version_that_python_speaks() -> None:
    assert f"#define RADIXCHECK_ABI_VERSION {ABI_VERSION}\n" in HEADER.read_text()
