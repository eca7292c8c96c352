"""Folders with a CMakeLists.txt: whatever has changed, and wherever, the library is never older."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from radixcheck.sanitizers import names_runtime
from radixcheck.targets.native import native
from radixcheck.targets.native.abi import HEADER
from radixcheck.targets.native.build import Recipe, build
from radixcheck.targets.native.radix_cpp import SOURCES
from radixcheck.targets.native.tools import BuildError

pytestmark = pytest.mark.slow

Answer: TypeAlias = Callable[[], int]


@pytest.fixture
def folder(engine: Path) -> Path:
    """The folder that is built; the engine lies beside it."""
    return engine.parents[1] / "wrapped"


@pytest.fixture
def answer(folder: Path) -> Answer:
    """Build the folder, and ask the library that comes of it."""
    return lambda: native(str(build(Recipe(folder)))).insert([], [])


def write(path: Path, answer: int) -> None:
    """Let an engine answer something else."""
    path.write_text(f"long engine(void) {{ return {answer}; }}\n")


def test_what_has_not_changed_is_the_same_library(folder: Path) -> None:
    first = build(Recipe(folder))
    made = first.stat().st_mtime_ns
    assert (first, made) == ((again := build(Recipe(folder))), again.stat().st_mtime_ns)


def test_a_change_beside_the_folder_is_seen(engine: Path, answer: Answer) -> None:
    before = answer()
    write(engine, 2)
    assert (1, 2) == (before, answer())


@pytest.mark.parametrize("generator", ["Unix Makefiles", "Ninja"])
def test_an_older_file_in_the_place_of_a_newer_one_is_seen(
    engine: Path, answer: Answer, generator: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not shutil.which({"Ninja": "ninja"}.get(generator, "make")):
        pytest.skip(f"nothing builds {generator}")
    monkeypatch.setenv("CMAKE_GENERATOR", generator)
    other = engine.with_suffix(".kept")
    write(other, 2)
    before = answer()
    other.replace(engine)
    assert (1, 2) == (before, answer())


def test_a_link_that_leads_elsewhere_is_seen(engine: Path, answer: Answer) -> None:
    first, second = (engine.parent.with_name(name) for name in ("first", "second"))
    shutil.copytree(engine.parent, first)
    shutil.copytree(engine.parent, second)
    write(second / "engine.c", 2)
    shutil.rmtree(engine.parent)
    engine.parent.symlink_to(first)
    before = answer()
    engine.parent.unlink()
    engine.parent.symlink_to(second)
    assert (1, 2) == (before, answer())


def test_after_a_build_that_failed_an_older_file_is_seen(
    engine: Path, folder: Path, answer: Answer
) -> None:
    """The object of a file may be newer than the library that was made last."""
    good, rest = engine.with_suffix(".good"), folder / "wrapped.c"
    kept = rest.read_text()
    before = answer()
    engine.rename(good)
    write(engine, 2)
    rest.write_text("int x = y;")
    with pytest.raises(BuildError, match="does not build"):
        answer()
    good.replace(engine)
    rest.write_text(kept)
    assert (1, 1) == (before, answer())


def test_a_library_that_is_linked_in_is_seen(engine: Path, folder: Path, answer: Answer) -> None:
    """It is named by ``-l``, and so no build knows which file that is."""
    words = f"""
        add_library(wrapped SHARED wrapped.c)
        target_link_libraries(wrapped PRIVATE -L{engine.parent} -lengine)
    """
    text = (folder / "CMakeLists.txt").read_text()
    (folder / "CMakeLists.txt").write_text(text.partition("add_library")[0] + words)
    answers = []
    for each in (1, 2):
        write(engine, each)
        subprocess.check_call(["cc", "-fPIC", "-c", engine, "-o", engine.with_suffix(".o")])
        subprocess.check_call(
            ["ar", "rcs", engine.parent / "libengine.a", engine.with_suffix(".o")]
        )
        answers.append(answer())
    assert [1, 2] == answers


def test_the_default_of_a_variable_is_seen(engine: Path, folder: Path, answer: Answer) -> None:
    """What cmake remembers in CMakeCache.txt would hide that it has changed."""
    engine.write_text("long engine(void) { return ANSWER; }\n")
    lists, text = folder / "CMakeLists.txt", (folder / "CMakeLists.txt").read_text()
    answers = []
    for each in (1, 2):
        default = (
            f'set(ANSWER {each} CACHE STRING "")\nadd_compile_definitions(ANSWER=${{ANSWER}})\n'
        )
        lists.write_text(text.replace("add_library", f"{default}add_library"))
        answers.append(answer())
    assert [1, 2] == answers


def test_two_processes_may_build_a_folder_at_once(folder: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from radixcheck.targets.native.build import *;"
        "print(build(Recipe(Path(sys.argv[1]))))"
    )
    words = [sys.executable, "-c", code, str(folder)]
    both = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = {process.communicate()[0].strip() for process in both}
    assert {str(build(Recipe(folder)))} == said


def test_flags_of_the_environment_reach_the_compiler(
    engine: Path, answer: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.write_text("#ifndef ANSWER\n#define ANSWER 1\n#endif\nlong engine(void){return ANSWER;}")
    before = answer()
    monkeypatch.setenv("CFLAGS", "-DANSWER=2")
    assert (1, 2) == (before, answer())


def trouble_of(folder: Path, rest: str) -> tuple[str, str]:
    """Return what is told of a folder that makes what `rest` says, and what to do."""
    lists = folder / "CMakeLists.txt"
    lists.write_text(lists.read_text().partition("add_library")[0] + rest)
    with pytest.raises(BuildError) as caught:
        build(Recipe(folder))
    return str(caught.value).removeprefix(f"{folder} "), caught.value.hint


SEVERAL = """
add_library(one SHARED ../engine/engine.c)
add_library(two MODULE ../engine/engine.c)
add_library(three STATIC ../engine/engine.c)
"""


def test_several_libraries_are_named(folder: Path) -> None:
    told, hint = trouble_of(folder, SEVERAL)
    assert "makes 2 shared libraries, and one is wanted: libone.so, libtwo.so" == told
    assert hint.startswith("let the others be STATIC")


def test_what_is_no_shared_library_is_named(folder: Path) -> None:
    told, hint = trouble_of(folder, "add_library(one STATIC ../engine/engine.c)\n")
    assert "makes no shared library, but libone.a" == told
    assert "write add_library(NAME SHARED FILE ...) in its CMakeLists.txt" == hint


def test_a_folder_that_makes_nothing_is_told_so(folder: Path) -> None:
    assert "makes no shared library" == trouble_of(folder, "")[0]


def test_a_library_may_be_versioned_and_lie_where_its_folder_says(
    folder: Path, answer: Answer
) -> None:
    lists = folder / "CMakeLists.txt"
    lists.write_text(
        lists.read_text().replace(
            "add_library", "set(CMAKE_LIBRARY_OUTPUT_DIRECTORY x)\nadd_library"
        )
        + "set_target_properties(wrapped PROPERTIES VERSION 1.2)\n"
    )
    assert (1, 1) == (answer(), answer())


def test_a_folder_that_drops_the_flags_of_a_sanitizer_is_told_so(folder: Path) -> None:
    lists = folder / "CMakeLists.txt"
    text = lists.read_text()
    own = f'set(CMAKE_C_FLAGS "-fPIC -I{HEADER.parent}")\nadd_library'
    lists.write_text(text.replace("add_library", own))
    with pytest.raises(BuildError, match="does not build with --sanitize address"):
        build(Recipe(folder, ("address",)))
    lists.write_text(text.replace("add_library", own.replace('"-', '"${CMAKE_C_FLAGS} -')))
    assert names_runtime(build(Recipe(folder, ("address",))))


@pytest.mark.usefixtures("cache")
def test_our_own_tree_is_closed() -> None:
    """So it need not be built to be opened: all that goes into it lies in its folder."""
    made = build(Recipe(SOURCES, (), {"RADIXCHECK_INCLUDE_DIR": str(HEADER.parent)}))
    told = json.loads((made.parents[1] / "inputs.json").read_text())["inputs"]
    ours = {path for path in map(Path, told) if HEADER.parents[1] in path.parents}
    assert {SOURCES / "target.cpp", SOURCES / "radix.hpp", HEADER} == ours
