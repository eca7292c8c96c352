"""What the tests of native targets share: whether anything can be built here, and small sources."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from radixcheck import sanitizers
from radixcheck.targets.native.build import COMPILERS, Recipe, build, cache_folder

Source: TypeAlias = Callable[..., Path]
Python: TypeAlias = Callable[..., "subprocess.CompletedProcess[str]"]

MINIMAL = """
#include <radixcheck_target.h>

struct radixcheck_tree { int unused; };

int64_t radixcheck_abi_version(void) { return VERSION; }
radixcheck_tree *radixcheck_create(const radixcheck_config *config, char *error, int64_t capacity)
{
    (void)config, (void)error, (void)capacity;
    static radixcheck_tree tree;
    return &tree;
}
void radixcheck_destroy(radixcheck_tree *tree) { (void)tree; }
const char *radixcheck_capabilities(radixcheck_tree *tree) { (void)tree; return PROMISES; }
int64_t radixcheck_match(radixcheck_tree *tree, const radixcheck_key *key, radixcheck_matched *to)
{
    (void)tree, (void)key, (void)to;
    return 0;
}
"""
"""In C, all that a library must have but an insert; stores nothing."""

INSERT = """
int64_t radixcheck_insert(radixcheck_tree *tree, const radixcheck_key *key,
                          const radixcheck_given *given)
{
    (void)tree, (void)key, (void)given;
    return RESULT;
}
"""

WRAPPED = """
cmake_minimum_required(VERSION 3.16)
project(wrapped LANGUAGES C)
add_library(wrapped SHARED wrapped.c ../engine/engine.c)
"""


@pytest.fixture(autouse=True)
def _can_build() -> None:
    """Skip what cannot be built here, and say why."""
    named = os.environ.get("CXX")
    if not any(shutil.which(name) for name in ([named] if named else COMPILERS["CXX"])):
        pytest.skip("no C++ compiler is installed")
    if not shutil.which("cmake"):
        pytest.skip("cmake is not installed")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of this test's own, for sources that nobody will build again."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return cache_folder()


@pytest.fixture
def source(tmp_path: Path, cache: Path) -> Source:
    """Write a source file; without a body, the smallest library that can be loaded, and `more`."""

    def write(
        body: str = MINIMAL + INSERT, more: str = "", name: str = "small.c", **macros: str
    ) -> Path:
        defaults = {"VERSION": "RADIXCHECK_ABI_VERSION", "PROMISES": '""', "RESULT": "0"}
        defined = "".join(f"#define {key} {value}\n" for key, value in (defaults | macros).items())
        path = tmp_path / name
        path.write_text(defined + body + more)
        return path

    return write


@pytest.fixture
def engine(source: Source, tmp_path: Path) -> Path:
    """Write a folder ``wrapped`` with a library, and beside it an engine: a file that says what an
    insert answers."""
    for folder in ("wrapped", "engine"):
        (tmp_path / folder).mkdir()
    asks = MINIMAL + "int64_t engine(void);\n" + INSERT
    source(asks, name="wrapped/wrapped.c", RESULT="engine()")
    (tmp_path / "wrapped" / "CMakeLists.txt").write_text(WRAPPED)
    path = tmp_path / "engine" / "engine.c"
    path.write_text("long engine(void) { return 1; }\n")
    return path


@pytest.fixture
def minimal() -> str:
    """All that a library must have but an insert."""
    return MINIMAL


@pytest.fixture
def built(source: Source) -> Source:
    """Build what `source` writes, and return the library."""
    return lambda *body, **macros: build(Recipe(source(*body, **macros)))


@pytest.fixture
def python() -> Python:
    """Run Python code in a process that may load `library`, sanitized or not."""

    def run(library: Path, code: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", code, str(library)],
            env=os.environ | sanitizers.environment(library),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run
