"""From sources to a shared library, kept in a cache folder under a hash of all that went into it.

    one .cpp or .c file            a folder with CMakeLists.txt
            |                                   |
    $CXX -shared ...                   cmake, then cmake --build
            '---------------.-------------------'
                  a folder of this build alone
                            |   os.replace: there at once, or not yet
            CACHE/radixcheck/native/<hash>/libNAME.so

Two processes may build the same thing at once: both do, and the later one replaces equal by equal.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from radixcheck.targets.native.abi import HEADER

STANDARDS = {".cpp": "c++20", ".cc": "c++20", ".cxx": "c++20", ".c": "c11"}
"""The files that are compiled without a CMakeLists.txt, and by which standard."""

COMPILERS = {"CXX": ("c++", "g++", "clang++"), "CC": ("cc", "gcc", "clang")}
"""What is looked for where the environment names no compiler."""

FLAGS = ("-O2", "-g", "-fno-omit-frame-pointer")

COVERAGE = "fuzzer-no-link"
"""What clang calls counters that tell a fuzzer which branches were taken; others have none. They
and the sanitizers beside them are served by a library that `radixcheck atheris` preloads."""

SANITIZERS = ("address", "undefined", "thread", COVERAGE)

TAKES_NO_PART = frozenset(("build", ".git", "__pycache__"))
"""Folders beside a CMakeLists.txt that are not read for the hash."""


class BuildError(ImportError):
    """There is nothing to build with, or it does not build. The message ends with what was said."""


@dataclass(frozen=True)
class Recipe:
    """What to build, and how.

    Raises:
        BuildError: it is neither a source file nor a folder with a CMakeLists.txt, or it asks for a
            sanitizer that there is not.
    """

    path: Path
    """A ``.cpp`` or ``.c`` file, or a folder with a ``CMakeLists.txt``."""
    sanitize: tuple[str, ...] = ()
    """Of `SANITIZERS`; thread goes with no other."""
    definitions: Mapping[str, str] = field(default_factory=dict)
    """What is passed on as ``-DNAME=VALUE``, to the compiler or to cmake."""

    def __post_init__(self) -> None:
        file = self.path if self.path.suffix in STANDARDS else self.path / "CMakeLists.txt"
        if not self.path.exists():
            raise BuildError(f"there is no {self.path}")
        if not file.is_file():
            raise BuildError(
                f"{self.path} is neither a {', '.join(STANDARDS)} file nor a folder with a "
                "CMakeLists.txt"
            )
        if strange := set(self.sanitize) - set(SANITIZERS):
            raise BuildError(f"no sanitizer {min(strange)!r}: choose of {', '.join(SANITIZERS)}")
        if "thread" in self.sanitize and len(self.sanitize) > 1:
            raise BuildError("the thread sanitizer goes with no other")

    @property
    def by_cmake(self) -> bool:
        """Whether cmake builds it, and not the compiler alone."""
        return self.path.is_dir()

    @property
    def variable(self) -> str:
        """The variable that names the compiler: ``CXX`` or ``CC``."""
        return "CC" if self.path.suffix == ".c" else "CXX"


def build(recipe: Recipe, out: Path | None = None) -> Path:
    """Build a library, or find it built before; answer where it is: at `out`, or in the cache.

    Raises:
        BuildError: see there.
    """
    compiler = _compiler(recipe)
    flags = _flags(compiler, recipe)
    home = cache_folder() / _key(recipe, compiler, flags)
    if not (found := _library_in(home)):
        found = _build_into(home, recipe, compiler, flags)
    if out is None:
        return found
    out.parent.mkdir(parents=True, exist_ok=True)
    return Path(shutil.copy(found, out))


def cache_folder() -> Path:
    """Return where libraries are kept, by the XDG rules."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base, "radixcheck", "native")


def _build_into(home: Path, recipe: Recipe, compiler: str, flags: Sequence[str]) -> Path:
    home.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home.parent, prefix="building-") as name:
        folder = Path(name)
        make = _by_cmake if recipe.by_cmake else _by_compiler
        library = make(folder, recipe, compiler, flags)
        home.mkdir(exist_ok=True)
        return library.replace(home / library.name)


def _by_compiler(folder: Path, recipe: Recipe, compiler: str, flags: Sequence[str]) -> Path:
    library = folder / f"lib{recipe.path.stem}.so"
    words = [compiler, *_single(recipe, flags), "-shared", str(recipe.path), "-o", str(library)]
    _run(words, f"{recipe.path} does not compile")
    return library


def _single(recipe: Recipe, flags: Sequence[str]) -> list[str]:
    """Return the flags for a source file on its own."""
    defined = [f"-D{name}={value}" for name, value in recipe.definitions.items()]
    return [f"-std={STANDARDS[recipe.path.suffix]}", *flags, *defined]


def _by_cmake(folder: Path, recipe: Recipe, compiler: str, flags: Sequence[str]) -> Path:
    cmake = shutil.which("cmake")
    if cmake is None:
        raise BuildError("no cmake is installed, and a folder is built with it")
    joined = shlex.join(flags)
    defined = {
        "CMAKE_CXX_COMPILER": compiler,
        "CMAKE_CXX_FLAGS": joined,
        "CMAKE_C_FLAGS": joined,
        "CMAKE_LIBRARY_OUTPUT_DIRECTORY": str(folder / "lib"),
        **recipe.definitions,
    }
    options = [f"-D{name}={value}" for name, value in defined.items()]
    trouble = f"{recipe.path} does not build"
    _run([cmake, "-S", str(recipe.path), "-B", str(folder / "build"), *options], trouble)
    _run([cmake, "--build", str(folder / "build"), "--parallel"], trouble)
    if (library := _library_in(folder / "lib")) is None:
        raise BuildError(f"{recipe.path} makes not one shared library, but none or several")
    return library


def _library_in(folder: Path) -> Path | None:
    """Return the one library in a folder; None if there is none, or more than one."""
    found = [*folder.glob("*.so"), *folder.glob("*.dylib")]
    return found[0] if len(found) == 1 else None


def _run(words: Sequence[str], trouble: str) -> str:
    ended = subprocess.run(words, capture_output=True, text=True, errors="replace", check=False)
    if ended.returncode:
        said = (ended.stderr or ended.stdout).strip()
        raise BuildError(f"{trouble}: {shlex.join(words)}\n{said}")
    return ended.stdout


# -------------------------------------------------------------------------- what goes into it


def _folder_files(folder: Path) -> Iterator[Path]:
    """Yield the files of a folder that cmake builds; any of them may matter."""
    for file in folder.rglob("*"):
        if file.is_file() and not set(file.relative_to(folder).parts[:-1]) & TAKES_NO_PART:
            yield file


def _included(recipe: Recipe, compiler: str, flags: Sequence[str]) -> list[Path]:
    """List a source file and all that it includes, system headers aside: the compiler knows."""
    words = [compiler, *_single(recipe, flags), "-MM", str(recipe.path)]
    told = _run(words, f"{recipe.path} does not compile")
    _, _, files = told.replace("\\\n", " ").partition(":")
    return [Path(file) for file in shlex.split(files)]


# --------------------------------------------------------------------------- what builds it


def _compiler(recipe: Recipe) -> str:
    """Find a compiler: what the environment names, or the first that is installed."""
    variable, covers = recipe.variable, COVERAGE in recipe.sanitize
    named = os.environ.get(variable)
    usual = [name for name in COMPILERS[variable] if "clang" in name or not covers]
    for name in [named] if named else usual:
        if found := shutil.which(name):
            if covers and "clang" not in _version(found):
                raise BuildError(f"{COVERAGE} is known to clang only, and {variable} names {name}")
            return found
    looked = named or ", ".join(usual)
    raise BuildError(f"no compiler is installed: looked for {looked}; {variable} may name another")


def _flags(compiler: str, recipe: Recipe) -> list[str]:
    flags = [*FLAGS, "-fPIC", f"-I{HEADER.parent}"]
    if recipe.sanitize:
        flags.append(f"-fsanitize={','.join(recipe.sanitize)}")
    if recipe.sanitize and COVERAGE not in recipe.sanitize:
        flags += _shared_runtime(compiler, recipe.sanitize)
    if "undefined" in recipe.sanitize:
        flags.append("-fno-sanitize-recover=undefined")
    return flags


def _shared_runtime(compiler: str, sanitize: Iterable[str]) -> list[str]:
    """Let clang link a runtime that can be preloaded, and let the library know where it is.

    GCC does the former by itself, and needs no latter.
    """
    if "clang" not in _version(compiler):
        return []
    name = (
        "tsan" if "thread" in sanitize else "asan" if "address" in sanitize else "ubsan_standalone"
    )
    runtime = f"libclang_rt.{name}-{platform.machine()}.so"
    found = subprocess.run(
        [compiler, f"-print-file-name={runtime}"], capture_output=True, text=True, check=False
    ).stdout.strip()
    return ["-shared-libasan", f"-Wl,-rpath,{Path(found).resolve().parent}"]


def _version(compiler: str) -> str:
    return subprocess.run(
        [compiler, "--version"], capture_output=True, text=True, check=False
    ).stdout


def _key(recipe: Recipe, compiler: str, flags: Sequence[str]) -> str:
    """Name what would be built: sources, compiler and flags, whatever their dates.

    Where the sources lie is part of it, for a sanitizer's report tells it.
    """
    digest = hashlib.sha256()
    read = _folder_files(recipe.path) if recipe.by_cmake else _included(recipe, compiler, flags)
    for file in [HEADER, *sorted(read)]:
        digest.update(f"{file.name}\0".encode() + file.read_bytes() + b"\0")
    defined = map(str, sorted(recipe.definitions.items()))
    words = [str(recipe.path.resolve()), compiler, _version(compiler), *flags, *defined]
    digest.update("\0".join(words).encode())
    return f"{recipe.path.stem}-{digest.hexdigest()[:16]}"
