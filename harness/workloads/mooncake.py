"""The public trace format of Mooncake (FAST '25): one request per line, its prompt as hashes of
blocks.

::

    {"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47, 2353]}

`timestamp` is when the request arrives, in ms. A hash id stands for a block of 512 tokens and all
that come before it; the last block of a prompt may be cut short. Some writers leave the cut one
out: then what no id covers is the request's own.

What the file does not say is made up: the tokens, how long a request runs, and what it is answered.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from random import Random
from typing import Annotated

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from radixcheck.operations import Tokens
from radixcheck.trace import MAX_LINE_BYTES, TraceError
from radixcheck.workloads.traffic import Flow, Request, Terms, Workload, timed

BLOCK_TOKENS = 512
"""Tokens of a block in the file. A checker gets as many as fill a page, or a few."""

PREFILL_TOKENS_PER_MS = 8
DECODE_MS_PER_TOKEN = 20

OWN = 2**30
"""Tokens from here on belong to one request alone; tokens below are made of hash ids."""

LONGEST = 10_000_000
"""Tokens; no model has a context of so many."""


class Row(Struct, frozen=True):
    """One line of a file; further fields are ignored."""

    timestamp: Annotated[float, Meta(ge=0)]
    input_length: Annotated[int, Meta(ge=1, le=LONGEST)]
    output_length: Annotated[int, Meta(ge=0, le=LONGEST)]
    hash_ids: tuple[int, ...]

    @property
    def ends(self) -> float:
        """When it may have its answer, in ms."""
        computing_ms = self.input_length / PREFILL_TOKENS_PER_MS
        return self.timestamp + computing_ms + self.output_length * DECODE_MS_PER_TOKEN


def workload(path: Path) -> Workload:
    """Return the traffic that a file has recorded.

    Raises:
        TraceError: the content is not in this format; the message names the file, the line and the
            field.
        OSError: the file cannot be read.
    """
    return partial(_flow, load(path))


def load(path: Path) -> list[Row]:
    """Read a file. Its rows come sorted by their timestamps, and their ids numbered from 0: some
    writers use whole 64-bit hashes.

    Raises:
        TraceError, OSError: as `workload`.
    """
    numbers: dict[int, int] = {}
    with path.open("rb") as file:
        lines = enumerate(iter(partial(file.readline, MAX_LINE_BYTES + 1), b""), start=1)
        rows = [_read(line, f"{path}:{number}") for number, line in lines if line.strip()]
    if not rows:
        raise TraceError(f"{path}: no request in it")
    rows.sort(key=lambda row: row.timestamp)
    return [
        replace(row, hash_ids=tuple(numbers.setdefault(id, len(numbers)) for id in row.hash_ids))
        for row in rows
    ]


def requests(
    rows: Sequence[Row], terms: Terms, start: int = 0
) -> Iterator[tuple[float, float, Request]]:
    """Yield what the rows from place `start` on stand for, scaled down: when it begins, when it
    ends, and the request."""
    unit, longest = terms.unit, terms.longest
    for place, row in enumerate(islice(rows, start, None), start):
        own = (OWN + place,)
        length = min(longest, _scaled(row.input_length, unit))
        ids = row.hash_ids[: -(-length // unit)]
        shared = [token for id in ids for token in block(id, unit)][:length]
        prompt = (*shared, *own * (length - len(shared)))
        answer = own * min(longest, _scaled(row.output_length, unit))
        yield row.timestamp, row.ends, Request(prompt, answer)


def block(hash_id: int, size: int) -> Tokens:
    """Return `size` tokens that stand for a block.

    Where two blocks part is not in the file: it may be anywhere in them. So a block begins with a
    filler, as long as its id says::

        id 4   5 5 5 5        id 5   0 6 6 6        id 7   0 0 0 8
    """
    filler = hash_id % size
    return (0,) * filler + (hash_id + 1,) * (size - filler)


def _flow(rows: Sequence[Row], rng: Random, terms: Terms, earlier: int) -> Flow:
    return timed(requests(rows, terms, earlier % len(rows)))


def _scaled(length: int, size: int) -> int:
    """Return a number of the file's tokens in tokens of ours; what is something stays something."""
    return -(-length * size // BLOCK_TOKENS)


def _read(line: bytes, where: str) -> Row:
    if len(line) > MAX_LINE_BYTES:
        raise TraceError(f"{where}: a line of more than {MAX_LINE_BYTES} bytes")
    try:
        row = msgspec.json.decode(line, type=Row)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise TraceError(f"{where}: no request in Mooncake's format: {error}") from None
    most = -(-row.input_length // BLOCK_TOKENS)
    if len(row.hash_ids) > most:
        raise TraceError(
            f"{where}: {len(row.hash_ids)} hash ids for {row.input_length} tokens, which fill "
            f"{most} blocks of {BLOCK_TOKENS} - at `$.hash_ids`"
        )
    return row
