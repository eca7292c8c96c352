"""The driver that coverage guides, as far as Atheris is installed; and what stands when it is not.

Visible as skipped without Atheris; ``tox -e atheris`` has it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TypeAlias

import pytest
from typer.testing import CliRunner

from radixcheck.arena import arenas
from radixcheck.bytecode import VERSION
from radixcheck.cli.app import app
from radixcheck.fuzzing import dialect_of, plant, preload, signature_of, told
from radixcheck.operations import Alloc, Insert, MatchPrefix
from radixcheck.registry import TargetError, resolve
from radixcheck.targets.native.abi import HEADER
from radixcheck.targets.native.build import COVERAGE, Recipe, build
from radixcheck.targets.native.radix_cpp import SOURCES
from radixcheck.trace import Trace, save

Process: TypeAlias = Callable[..., "subprocess.CompletedProcess[str]"]

CACHES = """
import os
import sys

from radixcheck.targets.radix import Radix


class Dies(Radix):
    def insert(self, tokens, slots):
        if len(tokens) == 3:
            os.abort()
        return super().insert(tokens, slots)


class Once(Radix):
    def match_prefix(self, tokens, namespace=()):
        if sys.argv[0].endswith("launch"):  # nowhere but in the process that fuzzes
            raise KeyError("once")
        return super().match_prefix(tokens)
"""

needs_atheris = pytest.mark.skipif(find_spec("atheris") is None, reason="Atheris is not installed")


@pytest.fixture
def radixcheck(tmp_path: Path) -> Process:
    """Run a command in a process of its own, in a folder with ``caches.py``."""
    (tmp_path / "caches.py").write_text(CACHES)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "radixcheck", *arguments],
            cwd=tmp_path,
            env={name: each for name, each in os.environ.items() if "RADIXCHECK" not in name},
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=300,
            check=False,
        )

    return run


# ------------------------------------------------------------------------------ without Atheris


def test_without_atheris_the_command_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("radixcheck.cli.atheris.find_spec", lambda name: None)
    result = CliRunner().invoke(app, ["atheris", "radix"])
    assert (2, True) == (result.exit_code, "pip install 'radixcheck[atheris]'" in result.stderr)


def test_only_trees_can_be_spoken_of_in_bytes() -> None:
    with pytest.raises(TargetError, match="this is pool"):
        dialect_of(arenas(resolve("pool-paged")))


def test_a_disabled_cache_is_one_more_configuration() -> None:
    found = arenas(resolve("radix"))
    configs = dialect_of(found).configs
    assert [{}, {"disable": True}] == list(configs)


def test_a_corpus_of_bytes_begins_with_the_traces_that_can_be_said(tmp_path: Path) -> None:
    traces = [Trace((Insert((1,)),)), Trace((Alloc(1),)), Trace((MatchPrefix((1,)),))]
    assert (2, 2) == (plant(traces, tmp_path), len(list(tmp_path.iterdir())))


def test_a_library_without_counters_is_loaded_as_any_other(tmp_path: Path) -> None:
    library = tmp_path / "libtree.so"
    library.write_bytes(b"\x7fELF")
    assert {} == preload(library)


def test_a_signature_is_read_as_it_was_told() -> None:
    signature = ("phantom-prefix", "match_prefix")
    assert signature == signature_of(told(signature))


# --------------------------------------------------------------------------------- with Atheris


@needs_atheris
def test_a_bug_is_found_shrunk_and_saved_as_a_trace_that_replays(radixcheck: Process) -> None:
    found = radixcheck("atheris", "radix-first-release", "-x", "--max-time=60s", "--seed=1", "-q")
    replayed = radixcheck("replay", "radixcheck-findings", "--target=radix-first-release", "-q")
    assert (1, 1) == (found.returncode, replayed.returncode), found.stdout + found.stderr


@needs_atheris
def test_a_target_that_dies_is_a_finding_and_not_the_end(radixcheck: Process) -> None:
    ended = radixcheck("atheris", "./caches.py:Dies", "--max-time=60s", "--seed=1", "-q")
    assert (1, True) == (ended.returncode, "crash at insert" in ended.stdout), ended.stderr


@needs_atheris
def test_what_is_not_seen_again_is_flaky_and_not_green(radixcheck: Process) -> None:
    ended = radixcheck("atheris", "./caches.py:Once", "--max-time=60s", "--seed=1", "-q", "-x")
    assert (4, True) == (ended.returncode, "flaky" in ended.stdout), ended.stdout + ended.stderr


@needs_atheris
def test_a_correct_target_is_not_accused(radixcheck: Process) -> None:
    ended = radixcheck("atheris", "radix-paged", "--max-ops=4000", "--seed=1", "-q")
    assert (True, True) == (ended.returncode in (0, 4), "no violation" in ended.stdout)


@needs_atheris
def test_a_corpus_is_kept_and_can_be_minimised(radixcheck: Process, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus"
    save(Trace((Insert((1, 2, 3)), MatchPrefix((1, 4)))), corpus / "mine.jsonl")
    radixcheck("atheris", "radix", "--corpus=corpus", "--max-ops=2000", "--seed=1", "-q")
    kept = len(list((corpus / f"bytes-{VERSION}").iterdir()))
    reduced = radixcheck("atheris", "radix", "--corpus=corpus", "--minimise")
    left = len(list((corpus / f"bytes-{VERSION}").iterdir()))
    assert (0, True) == (reduced.returncode, 1 < left <= kept), reduced.stdout + reduced.stderr


@needs_atheris
def test_flags_of_libfuzzer_go_through(radixcheck: Process) -> None:
    ended = radixcheck("atheris", "radix", "--max-time=60s", "-q", "--", "-runs=1")
    assert ended.returncode in (0, 4), ended.stdout + ended.stderr


@needs_atheris
@pytest.mark.skipif(not shutil.which("clang++"), reason="clang is not installed")
@pytest.mark.skipif(not shutil.which("cmake"), reason="cmake is not installed")
def test_the_coverage_of_a_library_guides(
    radixcheck: Process, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CXX", raising=False)
    definitions = {"RADIX_MUTANT": "stale_child", "RADIXCHECK_INCLUDE_DIR": str(HEADER.parent)}
    recipe = Recipe(SOURCES, ("address", COVERAGE), definitions)
    build(recipe, tmp_path / "libradix.so")
    found = radixcheck("atheris", "native:./libradix.so", "-x", "--max-time=60s", "--seed=1", "-q")
    said = found.stdout + found.stderr
    assert (1, False) == (found.returncode, "tells no coverage" in said), said


@needs_atheris
def test_a_pool_is_refused(radixcheck: Process) -> None:
    assert 2 == radixcheck("atheris", "pool-paged").returncode


@needs_atheris
def test_whatever_a_module_defines_is_instrumented() -> None:
    from radixcheck.drivers.atheris import functions_of

    assert ["plain", "method", "kept", "made", "shown", "late", "inner"] == [
        function.__name__ for function in functions_of(_module())
    ]


def _module() -> ModuleType:
    module = ModuleType("defined")
    source = """
from functools import cached_property
from os.path import join

def plain(): pass

class Kind:
    def method(self): pass
    @staticmethod
    def kept(): pass
    @classmethod
    def made(cls): pass
    @property
    def shown(self): pass
    @cached_property
    def late(self): pass
    class Inner:
        def inner(self): pass
"""
    exec(source, vars(module))
    return module


@needs_atheris
def test_the_modules_of_a_target_are_those_of_its_parts_and_their_bases() -> None:
    from radixcheck.drivers.atheris import modules_of

    class Wrapped:
        def __init__(self) -> None:
            self.inner = resolve("radix-first-release").open()
            self.size = 3

        @cached_property
        def unused(self) -> int:
            raise AssertionError("looking must not run code")

    names = [module.__name__.rpartition(".")[2] for module in modules_of(Wrapped())]
    assert {"first_release", "radix"} <= set(names)
