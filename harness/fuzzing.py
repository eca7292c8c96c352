"""A fuzzer in a process of its own: what it is told, how it is started, and what it leaves behind.

libFuzzer owns the process that it runs in: it ends it when it likes, with exit codes of its own,
and Python is not asked. So it gets a process and a folder, and whoever started it reads there::

    FOLDER/launch     a script: libFuzzer starts further processes by its path, for -merge and -jobs
           seen       the counts, twice a second
           found/     bytes that broke a rule, and those in which the process died: crash-, timeout-
           told/      of the former, by the same name, what they broke
           said       whatever was printed
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha1
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct

from radixcheck.arena import Arena
from radixcheck.bytecode import Dialect, NotExpressible, decode, encode
from radixcheck.levels import TREE
from radixcheck.operations import Audit
from radixcheck.registry import TargetError
from radixcheck.rules import Violation
from radixcheck.sanitizers import OPTIONS, tells_coverage
from radixcheck.trace import Trace

LAUNCH = """\
#!{python}
from radixcheck.drivers.atheris import main
from radixcheck.fuzzing import Orders
main({orders!r})
"""

LONG_INPUTS = ("-max_len=1024", "-len_control=0", "-reduce_inputs=0")
"""Up to a few hundred operations from the beginning, and what works is not made shorter: a trace
costs something too, and it is the shrinker who makes findings short."""

MOST_NAMES = {"absent": 0, "one": 1, "structured": None}

LAST = Audit()

PATIENCE_S = 10.0
"""A fuzzer that was told to end may take so long."""

DEATHS = {"crash": "crash", "oom": "crash", "timeout": "hang"}
"""The rule, by how libFuzzer calls bytes in which its process has died. Others were only slow."""

SAID_LINES = 12
"""So much of what was printed is worth showing where nothing else explains an end."""


class Orders(Struct, frozen=True):
    """What a fuzzer is told."""

    spec: str
    folder: str
    misuse: bool = False
    max_time_s: float | None = None
    max_operations: int | None = None
    first_only: bool = False
    key_length: int | None = None
    """So many tokens a key has at most."""
    cover: tuple[str, ...] = ()
    """Modules to instrument beside those of the target."""
    parent: int = 0
    """The process without which there is no reason to live."""


class Seen(Struct):
    """What a fuzzer has seen by now."""

    traces: int = 0
    operations: int = 0
    elapsed_s: float = 0
    busy_s: float = 0
    """Processor time, the start of the process left out."""
    reached: dict[str, int] = {}
    skipped: dict[str, int] = {}
    repeats: dict[str, int] = {}
    """How often each signature was seen; see `told`."""
    functions: int = 0
    """How many functions of the target are instrumented."""


class Found(NamedTuple):
    """Bytes that were put down, and what they did when they were."""

    data: bytes
    violation: Violation


class Fuzzer:
    """A fuzzer that runs, and its folder.

    Args:
        flags: flags and corpus folders for libFuzzer.
        environment: the whole environment of the process; None for that of this process.
    """

    def __init__(
        self, orders: Orders, flags: Sequence[str], environment: Mapping[str, str] | None
    ) -> None:
        self.folder = Path(orders.folder)
        for name in ("found", "told"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        launch = self.folder / "launch"
        launch.write_text(LAUNCH.format(python=sys.executable, orders=orders), encoding="utf-8")
        launch.chmod(0o755)
        with (self.folder / "said").open("wb") as said:
            self.process = subprocess.Popen(
                [str(launch), f"-artifact_prefix={self.folder}/found/", *flags],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,  # Ctrl-C is for whoever watches
            )

    def watch(self, every_s: float = 0.2) -> Iterator[Seen]:
        """Yield what it has seen, until it has ended."""
        while self.process.poll() is None:
            yield self.seen()
            time.sleep(every_s)
        yield self.seen()

    def stop(self) -> None:
        """End it, if it has not ended."""
        self.process.terminate()
        try:
            self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def seen(self) -> Seen:
        """Return what it has seen by now."""
        path = self.folder / "seen"
        return msgspec.json.decode(path.read_bytes(), type=Seen) if path.exists() else Seen()

    def found(self) -> list[Found]:
        """Return what is worth a look, the shortest first."""
        found = [
            Found(path.read_bytes(), why)
            for path in (self.folder / "found").iterdir()
            if (why := self._why(path.name)) is not None
        ]
        return sorted(found, key=lambda each: len(each.data))

    def _why(self, name: str) -> Violation | None:
        told = self.folder / "told" / name
        if told.exists():
            return msgspec.json.decode(told.read_bytes(), type=Violation)
        rule = DEATHS.get(name.partition("-")[0])
        if rule is None:
            return None
        return Violation(rule, LAST.kind, 0, "an answer", "the end of the process")

    def said(self) -> str:
        """Return the last lines that were printed."""
        text = (self.folder / "said").read_text(encoding="utf-8", errors="replace")
        return "\n".join(text.splitlines()[-SAID_LINES:])


def told(signature: tuple[str, str]) -> str:
    """Write a signature as a key of `Seen.repeats`."""
    return " at ".join(signature)


def signature_of(text: str) -> tuple[str, str]:
    """Read what `told` wrote."""
    rule, _, operation = text.partition(" at ")
    return rule, operation


def dialect_of(arenas: Sequence[Arena], key_length: int | None = None) -> Dialect:
    """Return what may be said to a target: its configurations, and disabled where it can be.

    Raises:
        TargetError: it is no tree.
    """
    for arena in arenas:
        if arena.level is not TREE:
            trouble = f"bytes say what is done to a tree, and this is {arena.level.name}"
            raise TargetError(trouble, "`radixcheck run` judges all levels")
    configs = [arena.config for arena in arenas]
    configs += [
        arena.config | {"disable": True}
        for arena in arenas
        if getattr(arena.capabilities, "disable", "absent") == "present"
    ]
    names = getattr(arenas[0].capabilities, "namespaces", "structured")
    return Dialect(tuple(configs), MOST_NAMES[names], key_length)


def trace_of(data: bytes, dialect: Dialect, *, misuse: bool) -> Trace:
    """Return the trace that is judged for `data`: what it says, and an audit at the end."""
    trace = decode(data, dialect)
    return trace.replace(operations=(*trace.operations, LAST), misuse=misuse)


def plant(traces: Sequence[Trace], folder: Path) -> int:
    """Write traces as bytes into a corpus folder, and tell how many of them bytes can express.

    Raises:
        OSError: they cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    planted = 0
    for trace in traces:
        try:
            data = encode(trace)
        except NotExpressible:
            continue
        (folder / sha1(data).hexdigest()).write_bytes(data)
        planted += 1
    return planted


def preload(library: Path) -> dict[str, str]:
    """Return the variables under which `library` can be loaded and tells its coverage; none if it
    was not built for that.

    Its counters, and with them AddressSanitizer, are in a library of Atheris's own.
    """
    atheris = find_spec("atheris")
    if atheris is None or not atheris.origin or not library.is_file():
        return {}
    if not tells_coverage(library):
        return {}
    runtime = Path(atheris.origin).parent.parent / "asan_with_fuzzer.so"
    return {"LD_PRELOAD": str(runtime), "ASAN_OPTIONS": OPTIONS["ASAN_OPTIONS"]}
