"""Sanitizers: what a process needs to load a library, and what is read from a report."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from radixcheck import sanitizers
from radixcheck.registry import TargetError, resolve
from radixcheck.sanitizers import EXIT_CODE, HEAD_LINES, NotPreloaded, environment, report
from radixcheck.targets.native.build import Recipe, build

OPEN = "import sys; from radixcheck.targets.native import native; tree = native(sys.argv[1]);"

BUGS = {
    "address": ("int64_t *p = malloc(8); free(p); return *p;", "heap-use-after-free"),
    "undefined": (
        "int x = 0x7fffffff; return x + (int)key->num_tokens;",
        "signed-integer-overflow",
    ),
}

INSERT = """
#include <stdlib.h>
int64_t radixcheck_insert(radixcheck_tree *tree, const radixcheck_key *key,
                          const radixcheck_given *given)
{
    (void)tree, (void)given, (void)key;
    BUG
}
"""


@pytest.fixture
def sanitized(source: Any, minimal: str) -> Any:
    """Build a library with a bug in its insert, under a sanitizer that sees it."""

    def make(sanitizer: str) -> Path:
        from_bug = INSERT.replace("BUG", BUGS[sanitizer][0])
        return build(Recipe(source(minimal + from_bug), (sanitizer,)))

    return make


def test_a_library_without_a_sanitizer_needs_nothing(built: Any) -> None:
    assert ({}, False) == (environment(built()), sanitizers.lacking(built()))


@pytest.mark.parametrize("sanitizer", BUGS)
def test_a_report_ends_the_process_and_is_read(sanitized: Any, python: Any, sanitizer: str) -> None:
    code = OPEN + "from array import array; tree.insert(array('q', [1]), array('q', [1]))"
    ended = python(sanitized(sanitizer), code)
    found = report(ended.stderr)
    assert found is not None, ended.stderr
    assert (EXIT_CODE, BUGS[sanitizer][1]) == (ended.returncode, found[0])
    assert "radixcheck_insert" in "".join(found[1])


def test_a_sanitized_library_says_what_it_needs_before_it_ends_the_process(sanitized: Any) -> None:
    library = sanitized("address")
    with pytest.raises(
        TargetError, match="run it isolated, or put before `python`: LD_PRELOAD="
    ) as caught:
        resolve(f"native:{library}")
    cause = caught.value.__cause__
    assert isinstance(cause, NotPreloaded)
    assert library == cause.library


def test_the_line_that_a_sanitized_library_asks_for_lets_it_be_loaded(sanitized: Any) -> None:
    library = sanitized("address")
    _, _, line = str(NotPreloaded(library)).partition("put before `python`: ")
    given = dict(word.split("=", 1) for word in shlex.split(line))
    ended = subprocess.run(
        [sys.executable, "-c", OPEN + "print(tree.match_prefix([]).length)", library],
        env=os.environ | given,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ("0\n", "", 0) == (ended.stdout, ended.stderr, ended.returncode)


def test_exceptions_can_be_thrown_under_the_address_sanitizer(
    source: Any, minimal: str, python: Any
) -> None:
    """Python is no C++ program: without its runtime, the sanitizer knows no ``__cxa_throw``."""
    throws = """
    #include <stdexcept>
    RADIXCHECK_API int64_t radixcheck_insert(radixcheck_tree *, const radixcheck_key *,
                                             const radixcheck_given *)
    {
        try { throw std::runtime_error{"caught"}; } catch (const std::exception &) { return 5; }
    }
    """
    body = minimal + throws
    library = build(Recipe(source(body, name="throws.cpp"), ("address",)))
    ended = python(library, OPEN + "print(tree.insert([1], [1]))")
    assert ("5\n", "") == (ended.stdout, ended.stderr)


REPORTS = {
    """
=================================================================
==7==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x60200 at pc 0x7f bp 0x7f sp 0x7f
READ of size 8 at 0x60200 thread T0
    #0 0x7fc0 in std::size(long) /usr/include/c++/12/range:3
    #1 0x7fc1 in Tree::find(long) /src/tree.cpp:12
    #2 0x7fc2 in ffi_call (/lib/libffi.so.8+0x6b0c)
    #3 0x7fc3 in main
""": (
        "heap-buffer-overflow",
        [
            "ERROR: AddressSanitizer: heap-buffer-overflow",
            "READ of size 8 thread T0",
            "#1 Tree::find(long) /src/tree.cpp:12",
        ],
    ),
    "==7==ERROR: AddressSanitizer: attempting double-free on 0x6020 in thread T0:": (
        "double-free",
        ["ERROR: AddressSanitizer: attempting double-free in thread T0:"],
    ),
    "==7==ERROR: AddressSanitizer: SEGV on unknown address 0x0 (pc 0x7f bp 0x7f sp 0x7f T0)": (
        "SEGV",
        ["ERROR: AddressSanitizer: SEGV on unknown address 0x0"],
    ),
    "WARNING: ThreadSanitizer: data race (pid=7)": (
        "data-race",
        ["WARNING: ThreadSanitizer: data race"],
    ),
    "loading\na.cpp:3:9: runtime error: index 4 out of bounds for type 'int [4]'": (
        "index-out-of-bounds",
        ["a.cpp:3:9: runtime error: index 4 out of bounds for type 'int [4]'"],
    ),
    "a.cpp:3:9: runtime error: signed integer overflow: 2147483647 + 1 cannot be represented": (
        "signed-integer-overflow",
        ["a.cpp:3:9: runtime error: signed integer overflow: 2147483647 + 1 cannot be represented"],
    ),
    "a.cpp:3:9: runtime error: load of null pointer of type 'long'": (
        "load-of-null-pointer",
        ["a.cpp:3:9: runtime error: load of null pointer of type 'long'"],
    ),
    "a.cpp:3:9: runtime error: store to misaligned address 0x7ffd for type 'int', which needs 8": (
        "store-to-misaligned-address",
        [
            "a.cpp:3:9: runtime error: store to misaligned address 0x7ffd for type 'int', which "
            "needs 8"
        ],
    ),
}


@pytest.mark.parametrize(("stderr", "expected"), REPORTS.items())
def test_a_report_is_told_without_what_is_another_number_next_time(
    stderr: str, expected: tuple[str, list[str]]
) -> None:
    assert expected == report(stderr)


def test_a_head_is_short() -> None:
    frames = "".join(f"    #{n} 0x{n:x} in f{n}()\n" for n in range(99))
    found = report(f"ERROR: AddressSanitizer: SEGV on unknown address\n{frames}")
    assert HEAD_LINES == len(found[1] if found else [])


def test_the_first_of_several_reports_counts() -> None:
    first = "a.c:1:1: runtime error: division by zero\n"
    found = report(first + "ERROR: AddressSanitizer: SEGV on unknown address")
    assert "division-by-zero" == (found and found[0])


def test_plain_errors_are_no_report() -> None:
    assert None is report("Segmentation fault (core dumped)\nterminate called")
