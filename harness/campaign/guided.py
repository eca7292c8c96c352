"""The driver that coverage guides, where Atheris is installed: trees only, in a process of its own.

libFuzzer judges as it proposes. What it leaves behind, inputs that were new to it and those that
broke a rule, is judged again by the task, like the traces of any other driver.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.util import find_spec
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from radixcheck.arena import Arena
from radixcheck.fuzzing import LONG_INPUTS, Fuzzer, Orders, Seen, dialect_of, plant, trace_of
from radixcheck.levels import TREE
from radixcheck.registry import TargetError
from radixcheck.trace import Trace, loads

if TYPE_CHECKING:
    from radixcheck.campaign.unit import Task


def is_able(arenas: Sequence[Arena]) -> bool:
    """Tell whether coverage can guide traces for a target here."""
    return find_spec("atheris") is not None and all(each.level is TREE for each in arenas)


def guided(task: Task, arenas: Sequence[Arena]) -> tuple[Seen, list[Trace]]:
    """Fuzz as long as a task may take; return what was counted, and the traces to judge again.

    Raises:
        TargetError: Atheris is not installed here, or did not begin.
    """
    if not is_able(arenas):
        raise TargetError("Atheris is not installed on this machine", "pip install atheris")
    with TemporaryDirectory(prefix="radixcheck-") as folder:
        inputs = Path(folder, "inputs")
        plant(list(map(loads, task.corpus)), inputs)
        planted = {path.name for path in inputs.iterdir()}
        op_timeout_s, memory_bytes = task.limits
        limit_s, parent = task.max_time_s / 2, os.getpid()  # the rest is for its start, and for us
        orders = Orders(task.spec, folder, task.misuse, limit_s, parent=parent)
        flags = [f"-seed={task.seed % 2**31 + 1}", *LONG_INPUTS]
        flags += [f"-timeout={ceil(op_timeout_s)}", f"-rss_limit_mb={memory_bytes >> 20}"]
        fuzzer = Fuzzer(orders, [*flags, str(inputs)], None)
        try:
            *_, seen = fuzzer.watch()
        finally:
            fuzzer.stop()
        found, dialect = fuzzer.found(), dialect_of(arenas)
        if not seen.traces and not found:
            raise TargetError("the fuzzer ended before its first trace", fuzzer.said())
        new = [path.read_bytes() for path in inputs.iterdir() if path.name not in planted]
        data = [*(each.data for each in found), *new]
        return seen, [trace_of(each, dialect, misuse=task.misuse) for each in data]
