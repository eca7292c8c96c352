"""docs/writing-a-native-target.md against the code: what it shows runs, what it lists is there."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

from radixcheck.targets.native.abi import ABI_VERSION, HEADER, OPTIONAL, REQUIRED, open_library
from radixcheck.targets.native.build import SANITIZERS, Recipe, build
from radixcheck.targets.native.radix_cpp import MUTANTS

pytestmark = pytest.mark.slow

INSERT = """
RADIXCHECK_API int64_t radixcheck_insert(radixcheck_tree *, const radixcheck_key *,
                                         const radixcheck_given *) { return 0; }
"""

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


def test_the_folder_of_the_document_makes_one_library(source: Any, minimal: str) -> None:
    """An engine of several files, each of which the target needs."""
    lists = re.findall(r"^```cmake\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    files = re.findall(r"[\w./]+\.cpp", lists[0])
    names = [Path(file).stem for file in files if file != "target.cpp"]
    used = "".join(f"int64_t {name}(); static int64_t use_{name} = {name}();\n" for name in names)
    home = source("").parent / "wrapped"
    (home.parent / "engine").mkdir()
    home.mkdir()
    for name in names:
        (home / f"../engine/{name}.cpp").write_text(f"long {name}() {{ return 0; }}\n")
    source(minimal + used, INSERT, name="wrapped/target.cpp")
    (home / "CMakeLists.txt").write_text(lists[0])
    library = open_library(build(Recipe(home)))
    assert (["target", *names], "libshelf.so") == ([Path(f).stem for f in files], library.path.name)


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
