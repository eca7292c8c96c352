"""The peer from Atheris: libFuzzer proposes bytes, coverage of the target decides which to keep.

libFuzzer owns the process that it runs in, so that each hunt has one; processor time counts from
the first input on. Two decoders: one reads numbers off the bytes for `plain`, the other one is
Hypothesis's own.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

import msgspec
from msgspec import Struct

from radixcheck.bite import plain
from radixcheck.bite.hunt import Hunt, Kill, host_of
from radixcheck.collecting import rare_collections
from radixcheck.registry import TargetError
from radixcheck.rules import Violation
from radixcheck.targets.mutants import MUTANTS
from radixcheck.trace import Trace

LAUNCH = "from radixcheck.bite.covering import main; main()"
OUTCOME = "outcome"
PATIENCE_S = 30.0
"""A process may take so much longer than its limit, by the wall and for its start."""

MOST_ERRORS = 8
MOST_BYTES = 4096
NO_TIMEOUT_S = 86_400
"""Atheris ends an input after so many seconds of the wall's; 0 means at once, on a busy machine."""

_TELLING = re.compile("error|exception|exit|timeout", re.IGNORECASE)
ENOUGH_BYTES = 8
"""With fewer left, a trace ends."""


class Orders(Struct, frozen=True):
    """What the process of one hunt is told."""

    mutant: str
    seed: int
    limit_s: float
    decoder: str
    outcome: str


class Outcome(Struct):
    """What it tells."""

    elapsed_s: float
    operations: int
    trace: Trace | None = None
    violation: Violation | None = None


def run(hunt: Hunt, decoder: str) -> Kill | None:
    """Hunt in a process of its own.

    Raises:
        TargetError: it ended without a word.
    """
    with TemporaryDirectory() as folder:
        place = Path(folder) / OUTCOME
        orders = Orders(hunt.mutant.id, hunt.seed, hunt.limit_s, decoder, str(place))
        flags = ["-len_control=0", f"-timeout={NO_TIMEOUT_S}", f"-max_len={MOST_BYTES}"]
        flags.append(f"-seed={hunt.seed + 1}")
        ended = subprocess.run(
            [sys.executable, "-c", LAUNCH, msgspec.json.encode(orders).decode(), *flags],
            cwd=folder,
            capture_output=True,
            timeout=4 * hunt.limit_s + PATIENCE_S,
            check=False,
        )
        if not place.exists():
            said = [f"exit status {ended.returncode}", *_errors(ended.stdout + ended.stderr)]
            raise TargetError(f"{hunt.mutant.id}: the fuzzer ended without a word", "; ".join(said))
        outcome = msgspec.json.decode(place.read_bytes(), type=Outcome)
    hunt.elapsed_s, hunt.operations = outcome.elapsed_s, outcome.operations
    if outcome.violation is None or outcome.trace is None:
        return None
    return Kill(outcome.trace, outcome.violation)


def _errors(said: bytes) -> list[str]:
    """Return the lines that tell of an error, of all that libFuzzer and Python print."""
    lines = said.decode(errors="replace").splitlines()
    telling = [each.strip() for each in lines if _TELLING.search(each)]
    return list(dict.fromkeys(telling))[:MOST_ERRORS]


# ---- in the process of libFuzzer ---------------------------------------------------------


def main() -> None:
    """Hunt as the first argument orders; the others are flags of libFuzzer's."""
    atheris: Any = import_module("atheris")
    instrument: Any = import_module("radixcheck.drivers.atheris")
    orders = msgspec.json.decode(sys.argv.pop(1), type=Orders)
    mutant = MUTANTS[orders.mutant]
    host = host_of(mutant)
    hunt = Hunt(mutant, host, host.arenas(), orders.seed, orders.limit_s)
    target = host.source.open(hunt.arenas[0].config, lambda: 0)
    instrument.instrument(instrument.modules_of(target))
    judged = _decoded if orders.decoder == "plain" else _drawn(hunt, orders)
    branches, began = instrument.Branches(), False

    def one_input(data: bytes) -> None:
        nonlocal began
        if not began:
            hunt.began_s, began = time.process_time(), True
        judged(hunt, orders, data)
        branches.tell()
        if hunt.is_over():
            _end(hunt, orders, None)

    atheris.Setup(sys.argv, one_input)
    with rare_collections():
        atheris.Fuzz()


def _decoded(hunt: Hunt, orders: Orders, data: bytes) -> None:
    """Judge the trace whose numbers are read off the bytes one after the other."""
    atheris: Any = import_module("atheris")
    provider = atheris.FuzzedDataProvider(data)
    length = min(plain.LENGTH, len(data) // ENOUGH_BYTES)
    trace = plain.trace(hunt.arenas[0], length, provider.ConsumeIntInRange)
    verdict = hunt.host.check(trace, thorough=False)
    hunt.operations += verdict.operations
    if verdict.violation is not None:
        _end(hunt, orders, Kill(trace, verdict.violation))


def _drawn(hunt: Hunt, orders: Orders) -> Callable[[Hunt, Orders, bytes], None]:
    """Return what lets Hypothesis draw a run of its machine from the bytes."""
    from radixcheck.bite.machine import reader_of_bytes, until

    read, ends = reader_of_bytes(hunt)

    def judged(hunt: Hunt, orders: Orders, data: bytes) -> None:
        with until(ends):
            read(data)
        if ends:
            _end(hunt, orders, ends[0])

    return judged


def _end(hunt: Hunt, orders: Orders, kill: Kill | None) -> NoReturn:
    """Tell the outcome. libFuzzer has no other way to be ended that leaves no crash behind."""
    trace, violation = kill or (None, None)
    outcome = Outcome(hunt.spent_s(), hunt.operations, trace, violation)
    Path(orders.outcome).write_bytes(msgspec.json.encode(outcome))
    os._exit(0)
