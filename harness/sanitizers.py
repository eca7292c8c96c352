"""Libraries that were built with a sanitizer: what a process needs to load one, and what it says.

A sanitizer's runtime must be in a process before anything else, so it is preloaded; which one, the
library itself tells. A report ends the process (``halt_on_error``) with a status of its own.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from functools import cache
from itertools import islice, takewhile
from pathlib import Path

EXIT_CODE = 86
"""The exit status of a process that a sanitizer has ended."""

HEAD_LINES = 8
"""How much of a report is worth showing: what, where, and the innermost frames."""

CALLER = re.compile(r"libffi|_ctypes")
"""The frame from which the library was called. What lies above it says nothing."""

LIBRARY = re.compile(r"/include/c\+\+/")
"""A frame inside the standard library, where no bug of ours is."""

THIS_TIME = re.compile(
    r"^==\d+==| on address 0x.*| (?:at|on) 0x[0-9a-f]+| 0x[0-9a-f]+ in(?= )| \(pc 0x.*| \(pid=\d+\)"
)
"""Numbers that are others next time: of processes, of memory, of code."""

OPTIONS = {
    "ASAN_OPTIONS": f"detect_leaks=0:halt_on_error=1:exitcode={EXIT_CODE}",
    "UBSAN_OPTIONS": f"halt_on_error=1:print_stacktrace=1:exitcode={EXIT_CODE}",
    "TSAN_OPTIONS": f"halt_on_error=1:exitcode={EXIT_CODE}",
}
"""Python itself leaks on purpose, so leaks are not looked for."""

RUNTIME = re.compile(r"lib(?:clang_rt\.)?(?:asan|tsan|ubsan)[\w.-]*\.so[.\d]*")
"""The file of a runtime, as GCC and as clang call it."""

COUNTERS = b"__sanitizer_cov_8bit_counters_init"
"""What a library calls that clang has built with ``-fsanitize=fuzzer-no-link``."""

COMPANION = re.compile(r"lib(?:stdc\+\+|c\+\+)\.so[.\d]*")
"""A sanitizer looks for ``__cxa_throw`` when it starts; Python alone does not have it."""

REPORTS = (
    re.compile(r"ERROR: \w+Sanitizer: (?:attempting )?(?P<kind>[\w-]+)"),
    re.compile(r"WARNING: ThreadSanitizer: (?P<kind>[\w -]+?) \("),
    re.compile(r": runtime error: (?P<kind>[^:\n]+)"),
)
"""How a report begins: of AddressSanitizer and its like, of threads, of undefined behaviour."""


class NotPreloaded(ImportError):
    """A library was built with a sanitizer whose runtime is not in this process, and cannot be put
    there any more. A worker that meets this starts itself anew under `environment`."""

    def __init__(self, library: Path) -> None:
        preload = environment(library)["LD_PRELOAD"]
        super().__init__(
            f"{library} was built with a sanitizer, which must be there before everything else: "
            "run it isolated, or put before `python`: "
            f'LD_PRELOAD="{preload}" ASAN_OPTIONS=detect_leaks=0'
        )
        self.library = library


def environment(library: Path) -> dict[str, str]:
    """Return the variables that a process needs to load `library`; none if it has no sanitizer."""
    if not (runtimes := _runtimes(library)):
        return {}
    return {"LD_PRELOAD": " ".join(runtimes), **OPTIONS}


def lacking(library: Path) -> bool:
    """Tell whether `library` cannot be loaded into this process, for want of its `environment`."""
    wanted = [runtime for runtime in _runtimes(library) if RUNTIME.fullmatch(Path(runtime).name)]
    if not wanted:
        return False
    loaded = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    return any(str(Path(runtime).resolve()) not in loaded for runtime in wanted)


def names_runtime(library: Path) -> bool:
    """Tell whether `library` was linked with the runtime of a sanitizer."""
    return RUNTIME.search(library.read_bytes().decode("latin-1")) is not None


def tells_coverage(library: Path) -> bool:
    """Tell whether `library` was built to guide a fuzzer, and so can be loaded beside one only."""
    return COUNTERS in library.read_bytes()


def report(stderr: str) -> tuple[str, list[str]] | None:
    """Find the first report in what a process has written: its kind, such as
    ``heap-buffer-overflow`` or ``signed-integer-overflow``, and its first lines."""
    found = [match for pattern in REPORTS if (match := pattern.search(stderr))]
    if not found:
        return None
    first = min(found, key=lambda match: match.start())
    begin = stderr.rfind("\n", 0, first.start()) + 1
    return _kind(first["kind"]), list(_head(stderr[begin:]))


def _kind(words: str) -> str:
    """Name a report so that two of one kind have one name: without values, types and quotes."""
    plain = re.sub(r"'[^']*'|\b0x[0-9a-f]+\b|-?\b\d[\w.+]*", " ", words)
    plain = re.sub(r"\b(?:for|of|in)? type\b.*|, which.*", " ", plain)
    return "-".join(re.findall(r"[A-Za-z][\w-]*", plain))


def _head(text: str) -> Iterator[str]:
    lines = map(str.strip, text.splitlines())
    told = takewhile(lambda line: not CALLER.search(line), filter(_tells, lines))
    for line in islice(told, HEAD_LINES):
        yield THIS_TIME.sub("", line)


def _tells(line: str) -> bool:
    return bool(line) and not line.startswith("=====") and not LIBRARY.search(line)


def _runtimes(library: Path) -> list[str]:
    """List what must be preloaded for `library`: the sanitizers' runtimes, then that of C++."""
    file = library.stat()
    return _linked(library, (file.st_ino, file.st_mtime_ns))


@cache
def _linked(library: Path, built: tuple[int, int]) -> list[str]:
    if not names_runtime(library):
        return []
    told = subprocess.run(["ldd", library], capture_output=True, text=True, check=False).stdout
    paths = re.findall(r"=> (\S+) \(", told)
    runtimes = [path for path in paths if RUNTIME.fullmatch(Path(path).name)]
    companions = [path for path in paths if COMPANION.fullmatch(Path(path).name)]
    return [*runtimes, *companions] if runtimes else []
