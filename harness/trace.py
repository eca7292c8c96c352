"""Traces: a configuration and a list of operations, kept as data that a person can read in a diff.

A trace file is JSON lines. The first line is the header, every further line one operation::

    {"radixcheck": 1, "config": {"page_size": 1}}
    {"op": "insert", "tokens": [1, 2, 3]}
    {"op": "match_prefix", "tokens": [1, 4], "as": "h1"}

Long keys are written as a back reference to an earlier operation of the same file: ``{"of": 0,
"take": 30, "then": [7]}`` is the first 30 tokens of operation 0, and then token 7. A trace file is
never code: it is validated field by field.

A file of an older format is read as if it had been written today: each of its lines goes through
the steps of `UPGRADES`, and only then is looked at.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct, field

from radixcheck.operations import (
    RESERVED_OPERATIONS,
    AnyOperation,
    Arrive,
    Insert,
    MatchPrefix,
    Tokens,
)

FORMAT = 1
"""The version that this release writes. Older versions are upgraded on load, newer ones refused."""

MAX_LINE_BYTES = 4_000_000
MAX_TOTAL_TOKENS = 20_000_000
MAX_TOKEN = 2**63 - 1
SHORT_KEY_TOKENS = 32
"""Keys up to this length are always written out, so that small traces read well."""

Keyed: TypeAlias = MatchPrefix | Insert | Arrive
"""The operations that carry a key."""

Config: TypeAlias = dict[str, bool | int | float | str]

Fields: TypeAlias = dict[str, Any]
"""A line of a file, before anybody knows what it says."""

Upgrade: TypeAlias = Callable[[Fields], Fields]

UPGRADES: dict[int, Upgrade] = {}
"""Per format before this one: from a line of it, the header or an operation, to the same line of
the next. Whoever raises `FORMAT` adds one, and a file to tests/data/formats."""


class Found(Struct, frozen=True, omit_defaults=True):
    """What a trace showed when it was saved as a finding."""

    rule: str
    operation: str
    target: str
    seed: int | None = None
    source: str = ""
    """A public bug that the trace stands for, such as ``SGLang #7``."""
    situations: tuple[str, ...] = ()


class Trace(Struct, frozen=True):
    """A configuration and the operations to run under it."""

    operations: tuple[AnyOperation, ...]
    config: Config = field(default_factory=dict)
    """Keyword arguments of the factory, such as ``page_size``."""
    misuse: bool = False
    """Whether calls that no caller should make are made all the same."""
    found: Found | None = None
    note: str = ""
    """What a reader must know of it, such as how it was recorded. It changes nothing."""

    def replace(self, **changes: Any) -> Trace:
        """Return a copy with some fields changed."""
        return msgspec.structs.replace(self, **changes)


class TraceError(ValueError):
    """A trace file is damaged, hostile or too new; the message names file, line and field."""


class _Header(Struct, forbid_unknown_fields=True, omit_defaults=True):
    version: int = field(name="radixcheck")
    config: Config = field(default_factory=dict)
    misuse: bool = False
    found: Found | None = None
    note: str = ""


class _Versioned(Struct):
    """What a header of any format has."""

    version: int = field(name="radixcheck")


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Fields).decode
_decode_version = msgspec.json.Decoder(_Versioned).decode


def dumps(trace: Trace) -> bytes:
    """Write `trace` in the file format."""
    header = _Header(FORMAT, trace.config, trace.misuse, trace.found, trace.note)
    return b"".join(line + b"\n" for line in (_encode(header), *_operation_lines(trace.operations)))


def save(trace: Trace, path: Path) -> None:
    """Write `trace` to `path` in one step.

    Raises:
        OSError: the file could not be written.
    """
    write_in_one_step(path, dumps(trace))


def write_in_one_step(path: Path, content: bytes) -> None:
    """Write a file such that a full disk or an interrupt leaves the old one, or none.

    Raises:
        OSError: it could not be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".tmp")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def load(path: Path) -> Trace:
    """Read a trace file.

    Raises:
        TraceError: the content is not a valid trace; the message names the file, the line and the
            field.
        OSError: the file cannot be read.
    """
    return loads(path.read_bytes(), str(path))


def loads(data: bytes, name: str = "<trace>") -> Trace:
    """Read a trace from the bytes of a file called `name`.

    Raises:
        TraceError: as `load`.
    """
    lines = data.splitlines()
    if not lines:
        raise TraceError(f"{name}: empty file, expected a header line")
    header, upgrade = _read_header(lines[0], name)
    operations = tuple(_read_operations(lines[1:], name, upgrade))
    return Trace(operations, header.config, header.misuse, header.found, header.note)


def _read_header(line: bytes, name: str) -> tuple[_Header, Upgrade]:
    """Read the first line; answer also what every line of the file must go through."""
    try:
        version = _decode_version(line).version
        if 1 <= version <= FORMAT:
            upgrade = partial(_upgraded, version)
            return msgspec.convert(upgrade(_decode(line)), _Header), upgrade
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise TraceError(f"{name}:1: not a trace header: {error}") from None
    known = f"this radixcheck reads 1 to {FORMAT}"
    what = "upgrade it" if version > FORMAT else "there is no such format"
    raise TraceError(f"{name}:1: trace format {version}, but {known}: {what}")


def _upgraded(version: int, fields: Fields) -> Fields:
    """Write a line of format `version` as this release would have."""
    for older in range(version, FORMAT):
        fields = UPGRADES[older](fields)
    return fields


def _read_operations(lines: list[bytes], name: str, upgrade: Upgrade) -> Iterator[AnyOperation]:
    keys: list[Tokens] = []
    total_tokens = 0
    for number, line in enumerate(lines, start=2):
        if not line.strip():
            keys.append(())
            continue
        operation = _read_operation(line, keys, f"{name}:{number}", upgrade)
        key = getattr(operation, "tokens", ())
        total_tokens += len(key)
        if total_tokens > MAX_TOTAL_TOKENS:
            raise TraceError(
                f"{name}:{number}: the trace holds more than {MAX_TOTAL_TOKENS} tokens"
            )
        keys.append(key)
        yield operation


def _read_operation(line: bytes, keys: list[Tokens], where: str, upgrade: Upgrade) -> AnyOperation:
    if len(line) > MAX_LINE_BYTES:
        raise TraceError(f"{where}: line of {len(line)} bytes, at most {MAX_LINE_BYTES} are read")
    try:
        fields = upgrade(_decode(line))
        if isinstance(fields.get("tokens"), dict):
            fields["tokens"] = _resolve(fields["tokens"], keys)
        operation: AnyOperation = msgspec.convert(fields, AnyOperation)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise TraceError(f"{where}: {_hint(line) or error}") from None
    for token in getattr(operation, "tokens", ()):
        if not 0 <= token <= MAX_TOKEN:
            raise TraceError(f"{where}: token {token} is outside 0 to 2**63-1 - at `$.tokens`")
    if not 0 <= (token := getattr(operation, "token", 0)) <= MAX_TOKEN:
        raise TraceError(f"{where}: token {token} is outside 0 to 2**63-1 - at `$.token`")
    return operation


def _hint(line: bytes) -> str:
    for kind in RESERVED_OPERATIONS:
        if b'"' + kind.encode() + b'"' in line:
            return f"operation {kind!r} belongs to a later radixcheck: upgrade to replay this trace"
    return ""


class _BackReference(Struct, forbid_unknown_fields=True, omit_defaults=True):
    of: int
    take: int
    then: Tokens = ()


def _resolve(fields: dict[str, Any], keys: list[Tokens]) -> Tokens:
    reference = msgspec.convert(fields, _BackReference)
    if not 0 <= reference.of < len(keys):
        raise ValueError(
            f"back reference to operation {reference.of}, which is not earlier - at `$.tokens.of`"
        )
    if not 0 <= reference.take <= len(keys[reference.of]):
        raise ValueError(f"back reference takes {reference.take} tokens - at `$.tokens.take`")
    return keys[reference.of][: reference.take] + reference.then


def _operation_lines(operations: Iterable[AnyOperation]) -> Iterator[bytes]:
    latest: int | None = None
    known: list[AnyOperation] = []
    for place, operation in enumerate(operations):
        known.append(operation)
        line = _encode(operation)
        if isinstance(operation, Keyed) and len(operation.tokens) > SHORT_KEY_TOKENS:
            if latest is not None:
                line = _with_back_reference(line, operation, latest, known[latest])
            latest = place
        yield line


def _with_back_reference(line: bytes, operation: Any, of: int, earlier: Any) -> bytes:
    shared = len(os.path.commonprefix([operation.tokens, earlier.tokens]))
    if shared < SHORT_KEY_TOKENS:
        return line
    fields = msgspec.json.decode(line)
    fields["tokens"] = _BackReference(of, shared, operation.tokens[shared:])
    return _encode(fields)
