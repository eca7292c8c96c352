"""A folder with a CMakeLists.txt, and the build folder that is kept for it.

What goes into a library only its build can know: files beside the folder or behind a link, files
made on the way, other libraries. So cmake is asked every time, and has little to do if nothing has
changed::

    configure    always, and no variable is remembered: a new default, a new file in a glob counts
    compile      what is younger than its object, as make and ninja see it
    link         always: a library that is linked in may have changed, and no date tells

make and ninja go by dates, and dates deceive where an older file takes the place of another: a
backup that is moved back, a link that leads elsewhere now. So what went in is noted, file by file,
and where that has happened the build begins anew.
"""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from radixcheck.targets.native.tools import BuildError, prerequisites, run

LOADABLE = ("SHARED_LIBRARY", "MODULE_LIBRARY")
"""What cmake calls that which a process can load."""

Stamp: TypeAlias = list[int] | None
"""A file's number, date in ns and size: another file has another. None if there is no file."""


def by_cmake(folder: Path, source: Path, defined: Mapping[str, str]) -> Path:
    """Build the one shared library of `source` in ``folder/build``, and return where it is.

    Raises:
        BuildError: there is no cmake, it does not build, or makes no library or several.
    """
    if (cmake := shutil.which("cmake")) is None:
        raise BuildError("no cmake is installed, and a folder is built with it", "install cmake")
    work, notes = folder / "build", folder / "inputs.json"
    if _deceived(notes):
        shutil.rmtree(work, ignore_errors=True)
    notes.unlink(missing_ok=True)  # until it has built: half a build has no notes, and is not kept
    began = time.time_ns()
    _build(cmake, work, source, [f"-D{name}={value}" for name, value in defined.items()])
    _note(notes, work, began)
    return _only_library(work, source)


def _build(cmake: str, work: Path, source: Path, options: list[str]) -> None:
    (work / "CMakeCache.txt").unlink(missing_ok=True)
    query = work / ".cmake/api/v1/query/codemodel-v2"
    query.parent.mkdir(parents=True, exist_ok=True)
    query.touch()
    trouble = f"{source} does not build"
    run([cmake, "-S", str(source), "-B", str(work), *options], trouble)
    for target in _targets(work):
        if target["type"] in LOADABLE:
            _artifact(work, target).unlink(missing_ok=True)
    run([cmake, "--build", str(work), "--parallel"], trouble)


# ------------------------------------------------------------------------------ what it makes


def _targets(work: Path) -> list[dict[str, Any]]:
    """List what the folder makes, as cmake tells it through its file API."""
    told = (work / ".cmake/api/v1/reply").glob("target-*.json")
    targets: list[dict[str, Any]] = [json.loads(file.read_bytes()) for file in sorted(told)]
    return [target for target in targets if target.get("artifacts")]


def _artifact(work: Path, target: Mapping[str, Any]) -> Path:
    path: str = target["artifacts"][0]["path"]
    return work / path


def _only_library(work: Path, source: Path) -> Path:
    made = {_artifact(work, each): each["type"] for each in _targets(work)}
    made = {path: kind for path, kind in made.items() if path.is_file()}
    loadable = [path for path in made if made[path] in LOADABLE]
    if len(loadable) == 1:
        return loadable[0]
    names = ", ".join(sorted(path.name for path in loadable or made))
    if loadable:
        raise BuildError(
            f"{source} makes {len(loadable)} shared libraries, and one is wanted: {names}",
            "let the others be STATIC: what is linked into the one that exports the functions of "
            "the header comes along",
        )
    raise BuildError(
        f"{source} makes no shared library{f', but {names}' if names else ''}",
        "write add_library(NAME SHARED FILE ...) in its CMakeLists.txt",
    )


# ------------------------------------------------------------------------------ what goes in


def _note(notes: Path, work: Path, began: int) -> None:
    """Note what went into a build. A file that changed meanwhile has no stamp: nobody knows which
    of its contents was read. What lies in the build folder, the build has made itself."""
    inputs = {path for path in _inputs(work) if work not in path.parents}
    stamps = {str(path): _stamp(path) for path in inputs}
    known = {path: at if at is None or at[1] < began else None for path, at in stamps.items()}
    if known:
        notes.write_text(json.dumps({"ended": time.time_ns(), "inputs": known}))


def _deceived(notes: Path) -> bool:
    """Tell whether another build would not see what has changed since the last one."""
    try:
        told = json.loads(notes.read_bytes())
    except (OSError, ValueError):
        return True
    return any(_hides(Path(path), at, told["ended"]) for path, at in told["inputs"].items())


def _hides(path: Path, stamp: Stamp, built: int) -> bool:
    now = _stamp(path)
    return now != stamp and (now is None or now[1] <= built)


def _stamp(path: Path) -> Stamp:
    try:
        told = path.stat()
    except OSError:
        return None
    return [told.st_ino, told.st_mtime_ns, told.st_size]


def _inputs(work: Path) -> Iterator[Path]:
    """Yield the files that were compiled and included: make leaves the compilers' lists where they
    are, ninja takes them in."""
    for rule in work.rglob("*.d"):
        yield from (work / path for path in prerequisites(rule.read_text(errors="replace")))
    if (work / "build.ninja").is_file():
        cached = (work / "CMakeCache.txt").read_text(errors="replace")
        ninja = re.findall(r"^CMAKE_MAKE_PROGRAM:\w+=(.+)$", cached, re.MULTILINE)[0]
        told = run([ninja, "-C", str(work), "-t", "deps"], "ninja tells no dependencies")
        yield from (work / path for path in re.findall(r"^    (.+)$", told, re.MULTILINE))
