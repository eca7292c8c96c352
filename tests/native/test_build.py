"""Building: what is built, where it is kept, and what a person is told when it cannot be."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from radixcheck.sanitizers import tells_coverage
from radixcheck.targets.native import native
from radixcheck.targets.native.abi import HEADER, open_library
from radixcheck.targets.native.build import COVERAGE, SANITIZERS, Recipe, build
from radixcheck.targets.native.radix_cpp import SOURCES
from radixcheck.targets.native.tools import MORE_SOURCES, BuildError

CMAKE = """
cmake_minimum_required(VERSION 3.16)
project(one LANGUAGES C)
add_library(one SHARED small.c)
"""


def trouble_of(path: Path, **options: Any) -> str:
    """Return what a person is told who builds `path`."""
    with pytest.raises(BuildError) as caught:
        build(Recipe(path, **options))
    return str(caught.value)


def test_what_was_built_is_not_built_again(source: Any) -> None:
    first = build(Recipe(source()))
    made = first.stat().st_mtime_ns
    assert (first, made) == ((again := build(Recipe(source()))), again.stat().st_mtime_ns)


def test_another_source_another_flag_or_another_definition_is_another_library(source: Any) -> None:
    path = source()
    recipes = [Recipe(path), Recipe(path, ("undefined",)), Recipe(path, (), {"ONE": "1"})]
    libraries = {build(recipe) for recipe in recipes}
    source(RESULT="7")
    assert 4 == len(libraries | {build(Recipe(path))})


def test_the_same_source_elsewhere_is_another_library(source: Any, tmp_path: Path) -> None:
    here, there = source(), tmp_path / "there" / "small.c"
    there.parent.mkdir()
    there.write_bytes(here.read_bytes())
    assert build(Recipe(here)) != build(Recipe(there))


def test_another_included_file_is_another_library(source: Any, tmp_path: Path) -> None:
    (tmp_path / "answer.h").write_text("#define ANSWER 1\n")
    path = source(more='#include "answer.h"\n')
    first = build(Recipe(path))
    (tmp_path / "answer.h").write_text("#define ANSWER 2\n")
    assert first != build(Recipe(path))


def test_a_folder_is_built_by_its_cmakelists(source: Any) -> None:
    folder = source().parent
    (folder / "CMakeLists.txt").write_text(CMAKE)
    assert "libone.so" == build(Recipe(folder)).name


def test_a_file_of_the_system_may_change_too(
    source: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine that is installed is included like a header of the system."""
    installed = tmp_path / "installed" / "engine.h"
    installed.parent.mkdir()
    monkeypatch.setenv("C_INCLUDE_PATH", str(installed.parent))
    path, libraries = source(more="#include <engine.h>\n"), set()
    for answer in (1, 2):
        installed.write_text(f"#define ANSWER {answer}\n")
        libraries.add(build(Recipe(path)))
    assert 2 == len(libraries)


def test_flags_of_the_environment_come_last(source: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path = source(RESULT="GIVEN")
    monkeypatch.setenv("CPPFLAGS", "-DGIVEN=1")
    monkeypatch.setenv("CFLAGS", "-UGIVEN '-DGIVEN=1 + 1'")
    assert 2 == native(str(build(Recipe(path)))).insert([], [])


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ("-lm", "is built alone, and not with -lm"),
        ("../engine/tree.c", "is built alone, and not with ../engine/tree.c"),
        ("-DNAME='a", "CFLAGS cannot be read: No closing quotation"),
    ],
)
def test_flags_that_no_file_is_built_with_are_refused(
    source: Any, flags: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = source()
    monkeypatch.setenv("CFLAGS", flags)
    assert told in trouble_of(path)


LACKS = """
#include <radixcheck_target.h>
struct Engine { long find(int); };
int64_t radixcheck_abi_version() { return Engine{}.find(1); }
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other linkers say it in other words")
def test_a_file_that_needs_other_sources_does_not_link(source: Any) -> None:
    with pytest.raises(BuildError, match=r"undefined reference to .Engine::find\(int\)") as caught:
        build(Recipe(source(LACKS, name="lacks.cpp")))
    assert MORE_SOURCES == caught.value.hint


@pytest.mark.skipif(not shutil.which("c++filt"), reason="c++filt is not installed")
def test_a_library_that_lacks_a_source_says_which_function_in_its_words(
    source: Any, tmp_path: Path
) -> None:
    library = tmp_path / "liblacks.so"
    words = ["c++", "-shared", "-fPIC", f"-I{HEADER.parent}", source(LACKS, name="lacks.cpp")]
    subprocess.check_call([*words, "-o", library])
    with pytest.raises(ImportError) as caught:
        open_library(library)
    told = f"nothing in it defines Engine::find(int); {MORE_SOURCES}"
    assert f"{library} cannot be loaded: {told}" == str(caught.value)


def test_a_library_can_be_put_anywhere(source: Any, tmp_path: Path) -> None:
    out = tmp_path / "there" / "libmine.so"
    assert (out, True) == (build(Recipe(source()), out), out.is_file())


def test_two_processes_may_build_at_once(source: Any, cache: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from radixcheck.targets.native.build import *;"
        "print(build(Recipe(Path(sys.argv[1]))))"
    )
    words = [sys.executable, "-c", code, str(source())]
    both = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = {process.communicate()[0].strip() for process in both}
    assert [said.pop()] == [str(path) for path in cache.rglob("*") if path.is_file()]


def test_nothing_is_left_in_the_cache_of_what_does_not_build(source: Any, cache: Path) -> None:
    assert "does not compile" in trouble_of(source("int x = y;"))
    assert [] == list(cache.iterdir())


def test_the_compiler_is_quoted(source: Any) -> None:
    path = source("int x = y;")
    assert f"{path.name}:4:9: error:" in trouble_of(path)


@pytest.mark.parametrize(
    ("sanitize", "told"),
    [
        (("memory",), f"no sanitizer 'memory': choose of {', '.join(SANITIZERS)}"),
        (("address", "thread"), "the thread sanitizer goes with no other"),
    ],
)
def test_sanitizers_that_do_not_go_are_refused(
    source: Any, sanitize: tuple[str, ...], told: str
) -> None:
    assert told == trouble_of(source(), sanitize=sanitize)


needs_clang = pytest.mark.skipif(not shutil.which("clang"), reason="clang is not installed")


@needs_clang
@pytest.mark.parametrize("sanitize", [(COVERAGE,), ("address", COVERAGE)])
def test_a_library_that_tells_coverage_is_for_the_fuzzer_only(
    source: Any, sanitize: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CC", raising=False)
    library = build(Recipe(source(), sanitize))
    with pytest.raises(ImportError, match="`radixcheck atheris` can load it, and nothing else"):
        open_library(library)
    assert tells_coverage(library)


def test_coverage_is_asked_of_clang_only(source: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path = source()
    monkeypatch.setenv("CC", "gcc")
    told = "fuzzer-no-link is known to clang only, and CC names gcc"
    assert told == trouble_of(path, sanitize=(COVERAGE,))


def test_what_is_no_source_is_refused(tmp_path: Path) -> None:
    assert "neither a .cpp, .cc, .cxx, .c file nor a folder" in trouble_of(tmp_path)


def test_without_a_compiler_a_person_is_told(source: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path = source()
    monkeypatch.setenv("CC", "no-such-compiler")
    told = "no compiler is installed: looked for no-such-compiler; CC may name another"
    assert told == trouble_of(path)


def test_without_cmake_a_person_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = tmp_path / "bin" / "c++"
    compiler.parent.mkdir()
    compiler.write_text("#!/bin/sh\n")
    compiler.chmod(0o755)
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(compiler.parent))
    assert "no cmake is installed, and a folder is built with it" == trouble_of(SOURCES)


def test_the_header_is_c_and_cpp_without_a_warning(tmp_path: Path) -> None:
    code = "#include <radixcheck_target.h>\n"
    for name, language in (("plain.c", "-std=c99"), ("plain.cpp", "-std=c++11")):
        (tmp_path / name).write_text(code)
        compiler = "cc" if name.endswith(".c") else "c++"
        words = [compiler, language, "-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only"]
        assert 0 == subprocess.call([*words, f"-I{HEADER.parent}", str(tmp_path / name)])
