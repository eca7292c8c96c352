"""From sources to a shared library, kept in a cache folder, and never older than its sources.

    one .cpp or .c file                           a folder with CMakeLists.txt
            |                                                  |
    the compiler lists what it includes;          cmake is asked every time, in a
    the same contents are built once              build folder that is kept (`kept`)
            |                                                  |
    CACHE/radixcheck/native/<hash>/libNAME.so     .../<hash>/<hash of itself>/libNAME.so

Two processes may build the same thing at once: of a file both do, and the later one replaces equal
by equal; in a build folder one waits for the other.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from radixcheck import sanitizers
from radixcheck.targets.native.abi import HEADER
from radixcheck.targets.native.kept import by_cmake
from radixcheck.targets.native.tools import MORE_SOURCES, BuildError, prerequisites, run

STANDARDS = {".cpp": "c++20", ".cc": "c++20", ".cxx": "c++20", ".c": "c11"}
"""The files that are compiled without a CMakeLists.txt, and by which standard."""

COMPILERS = {"CXX": ("c++", "g++", "clang++"), "CC": ("cc", "gcc", "clang")}
"""What is looked for where the environment names no compiler."""

FLAGS_IN = {"CXX": "CXXFLAGS", "CC": "CFLAGS"}
"""Where a person's own flags for a compiler stand."""

FLAGS = ("-O2", "-g", "-fno-omit-frame-pointer")

COVERAGE = "fuzzer-no-link"
"""What clang calls counters that tell a fuzzer which branches were taken; others have none. They
and the sanitizers beside them are served by a library that `radixcheck atheris` preloads."""

SANITIZERS = ("address", "undefined", "thread", COVERAGE)

ENVIRONMENT = (
    *("CXX", "CC", "CXXFLAGS", "CFLAGS", "CPPFLAGS", "LDFLAGS"),
    *("CPATH", "CPLUS_INCLUDE_PATH", "C_INCLUDE_PATH", "LIBRARY_PATH"),
    *("CMAKE_GENERATOR", "CMAKE_BUILD_TYPE"),
)
"""What a person steers compilers and cmake by: another value is another library."""


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
    closed: bool = False
    """Whether a folder's own files are all that goes into its library; then nobody is asked."""

    def __post_init__(self) -> None:
        file = self.path if self.path.suffix in STANDARDS else self.path / "CMakeLists.txt"
        if not self.path.exists():
            raise BuildError(f"there is no {self.path}", "name a file or a folder")
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
    inputs = _inputs(recipe, compiler, flags)
    home = cache_folder() / _key(recipe, compiler, flags, inputs)
    if inputs is None:
        found = _asked(home, recipe, compiler, flags)
    else:
        found = _library_in(home) or _build_into(home, recipe, compiler, flags)
    if out is None:
        return found
    out.parent.mkdir(parents=True, exist_ok=True)
    return Path(shutil.copy(found, out))


def cache_folder() -> Path:
    """Return where libraries are kept, by the XDG rules."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base, "radixcheck", "native")


def _asked(home: Path, recipe: Recipe, compiler: str, flags: Sequence[str]) -> Path:
    """Let cmake bring the build folder in `home` up to date, and copy what it makes: the same
    library has the same place."""
    with _alone_in(home):
        made = by_cmake(home, recipe.path, _for_cmake(recipe, compiler, flags))
        _check_sanitized(made, recipe)
        digest = hashlib.sha256(made.read_bytes()).hexdigest()[:16]
        library = home / digest / made.name
        if not library.is_file():
            library.parent.mkdir(exist_ok=True)
            Path(shutil.copy(made, library.with_suffix(".part"))).replace(library)
    return library


def _check_sanitized(library: Path, recipe: Recipe) -> None:
    """See that a folder has not put flags of its own in the place of ours, and judges blindly. What
    is built to guide a fuzzer is linked with no runtime: the fuzzer brings it."""
    if COVERAGE in recipe.sanitize:
        blind = not sanitizers.tells_coverage(library)
    else:
        wanted = {"address", "thread"} & {*recipe.sanitize}
        blind = bool(wanted) and not sanitizers.names_runtime(library)
    if blind:
        raise BuildError(
            f"{recipe.path} does not build with --sanitize {','.join(recipe.sanitize)}",
            'flags that its CMakeLists.txt sets, it must add to ours: "${CMAKE_CXX_FLAGS} -Wall"',
        )


@contextmanager
def _alone_in(home: Path) -> Iterator[None]:
    """Wait until nobody else builds in a folder, however they end."""
    home.mkdir(parents=True, exist_ok=True)
    with (home / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _build_into(home: Path, recipe: Recipe, compiler: str, flags: Sequence[str]) -> Path:
    """Build in a folder of this build alone: in `home` a library is there at once, or not yet."""
    home.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home.parent, prefix="building-") as name:
        if recipe.by_cmake:
            library = by_cmake(Path(name), recipe.path, _for_cmake(recipe, compiler, flags))
        else:
            library = _by_compiler(Path(name), recipe, compiler, flags)
        home.mkdir(exist_ok=True)
        return library.replace(home / library.name)


def _by_compiler(folder: Path, recipe: Recipe, compiler: str, flags: Sequence[str]) -> Path:
    library = folder / f"lib{recipe.path.stem}.so"
    whole = ["-Wl,-z,defs"] if sys.platform == "linux" and not recipe.sanitize else []
    words = [compiler, *_single(recipe, flags), "-shared", *whole, str(recipe.path)]
    try:
        run([*words, "-o", str(library)], f"{recipe.path} does not compile")
    except BuildError as error:
        if re.search("undefined (reference|symbol)", str(error), re.IGNORECASE):
            error.hint = MORE_SOURCES
        raise
    return library


def _single(recipe: Recipe, flags: Sequence[str]) -> list[str]:
    """Return the flags for a source file on its own, a person's last.

    Raises:
        BuildError: they would link what no list of included files tells.
    """
    defined = [f"-D{name}={value}" for name, value in recipe.definitions.items()]
    theirs = [*_told("CPPFLAGS"), *_told(FLAGS_IN[recipe.variable])]
    for word in theirs:
        if word.startswith("-l") or Path(word).suffix in {*STANDARDS, ".o", ".a", ".so"}:
            raise BuildError(f"{recipe.path} is built alone, and not with {word}", MORE_SOURCES)
    return [f"-std={STANDARDS[recipe.path.suffix]}", *flags, *defined, *theirs]


def _for_cmake(recipe: Recipe, compiler: str, flags: Sequence[str]) -> dict[str, str]:
    """Return the variables that cmake gets; from LDFLAGS it takes what there is to link."""
    return {
        "CMAKE_CXX_COMPILER": compiler,
        "CMAKE_CXX_FLAGS": shlex.join([*flags, *_told(FLAGS_IN["CXX"])]),
        "CMAKE_C_FLAGS": shlex.join([*flags, *_told(FLAGS_IN["CC"])]),
        **recipe.definitions,
    }


def _told(variable: str) -> list[str]:
    """Return the words of a variable such as ``CXXFLAGS``."""
    try:
        return shlex.split(os.environ.get(variable, ""))
    except ValueError as error:
        raise BuildError(f"{variable} cannot be read: {error}", "mind its quotes") from None


def _library_in(home: Path) -> Path | None:
    """Return the library that was built into `home`, if one was."""
    return next(home.glob("*"), None)


# -------------------------------------------------------------------------- what goes into it


def _inputs(recipe: Recipe, compiler: str, flags: Sequence[str]) -> list[Path] | None:
    """List all that goes into a library; None if only its build knows."""
    if not recipe.by_cmake:
        words = [compiler, *_single(recipe, flags), "-M", str(recipe.path)]
        return prerequisites(run(words, f"{recipe.path} does not compile"))
    return [file for file in recipe.path.rglob("*") if file.is_file()] if recipe.closed else None


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


@cache
def _version(compiler: str) -> str:
    return subprocess.run(
        [compiler, "--version"], capture_output=True, text=True, check=False
    ).stdout


def _key(recipe: Recipe, compiler: str, flags: Sequence[str], inputs: Iterable[Path] | None) -> str:
    """Name what would be built: sources, compiler, flags and environment, whatever their dates.

    Where the sources lie is part of it, for a sanitizer's report tells it.
    """
    digest = hashlib.sha256()
    for file in [HEADER, *sorted(inputs or ())]:
        digest.update(f"{file.name}\0".encode() + file.read_bytes() + b"\0")
    defined = map(str, sorted(recipe.definitions.items()))
    steered = [os.environ.get(name, "") for name in ENVIRONMENT]
    words = [str(recipe.path.resolve()), compiler, _version(compiler), *flags, *defined, *steered]
    digest.update("\0".join(words).encode())
    return f"{recipe.path.resolve().stem}-{digest.hexdigest()[:16]}"
