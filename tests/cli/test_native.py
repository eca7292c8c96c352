"""``radixcheck native``: from sources to a spec."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest
from typer.testing import Result

from radixcheck.targets.native.abi import HEADER

Call: TypeAlias = Callable[..., Result]

needs_a_compiler = pytest.mark.skipif(not shutil.which("c++"), reason="no C++ compiler")


def test_header_prints_where_the_header_is(call: Call) -> None:
    result = call("native", "header")
    assert (0, f"{HEADER}\n", True) == (result.exit_code, result.stdout, HEADER.is_file())


def test_header_prints_the_folder_to_include(call: Call) -> None:
    assert f"{HEADER.parent}\n" == call("native", "header", "--include").stdout


@needs_a_compiler
def test_build_prints_the_library_and_how_to_run_it(call: Call, folder: Path) -> None:
    (folder / "tree.cpp").write_text("#include <radixcheck_target.h>\n")
    result = call("native", "build", "tree.cpp", "--out", "libtree.so", XDG_CACHE_HOME=str(folder))
    assert "libtree.so\nradixcheck run native:libtree.so\n" == result.stdout
    assert (0, True) == (result.exit_code, (folder / "libtree.so").is_file())


@needs_a_compiler
def test_what_does_not_compile_is_told_with_the_compilers_words(call: Call, folder: Path) -> None:
    (folder / "tree.cpp").write_text("int x = no_such_name;\n")
    result = call("native", "build", "tree.cpp")
    assert (2, True) == (result.exit_code, "no_such_name" in result.stderr)


def test_an_unknown_sanitizer_is_told_with_the_known_ones(call: Call, folder: Path) -> None:
    (folder / "tree.cpp").write_text("")
    result = call("native", "build", "tree.cpp", "--sanitize", "memory")
    assert 2 == result.exit_code
    assert "no sanitizer 'memory': choose of address, undefined, thread" in " ".join(
        result.stderr.split()
    )


def test_a_source_that_is_not_there_is_told_so(call: Call) -> None:
    result = call("native", "build", "nope.cpp")
    assert (2, True) == (result.exit_code, "there is no nope.cpp" in result.stderr)


@needs_a_compiler
def test_what_needs_other_sources_is_told_where_they_go(call: Call, folder: Path) -> None:
    (folder / "tree.cpp").write_text("int other(); int one() { return other(); }\n")
    result = call("native", "build", "tree.cpp", XDG_CACHE_HOME=str(folder))
    told = "give `radixcheck native build` a folder whose CMakeLists.txt names all"
    assert (2, True) == (result.exit_code, told in " ".join(result.stderr.split()))


@needs_a_compiler
def test_the_memory_of_a_library_cannot_be_promised(call: Call) -> None:
    result = call("run", "radix-cpp?storage=present", "--max-ops", "10")
    assert 2 == result.exit_code
    assert "nobody here can see its storage" in " ".join(result.stderr.split())
