"""What all reports are made of: one document, as plain data.

A document holds whatever a report may want to say of a command; each writer leaves out what its
readers have no use for. ``--report json`` is the document itself, and ``docs/report.schema.json``
describes it. Nothing in it is made safe for any language: each writer escapes for its own.

A finding has one picture more than pictured steps: with n of them, ``pictures[k]`` is what was
stored before the k-th of the last n - 1 steps, and ``pictures[k + 1]`` what was stored after it.
Neighbours share nearly everything, so edges and holdings are kept once and named by their places::

    edges      0: [1, 2, 3]    1: [1, 2]    2: [3]    3: [4]
    pictures   before the insert of [1, 2, 4]      after it
               0                                   1
                                                   ├─ 2
                                                   └─ 3
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

FORMAT = 1
"""The version of the document that this release writes. A field may be added without a new one."""

Outcome: TypeAlias = Literal[
    "clean", "violation", "inconclusive", "nothing", "interrupted", "error"
]
"""What a command says of a target; ``nothing`` ran, or an ``error`` kept it from being judged."""

CaseStatus: TypeAlias = Literal["passed", "failed", "error", "skipped"]

Unfinished: TypeAlias = Literal["partly", "not"]
"""How far a finding is shrunk for which time was too short."""


class EdgePart(Struct, frozen=True):
    """A run of stored tokens without a branch."""

    tokens: str
    """The tokens in order, neighbours as a range: ``1-4 9``."""
    slots: str
    """The slots of these tokens, written alike."""
    locks: int = 0
    handles: tuple[str, ...] = ()
    """Names of the live handles that end where the run ends."""


class HoldingPart(Struct, frozen=True):
    """A run of slots of one owner: places from `start` on of what that owner holds."""

    owner: str
    """The name of a handle or of a request, or ``free``."""
    slots: str
    start: int = 0
    note: str = ""


class RowPart(Struct, frozen=True):
    """One edge of a tree."""

    edge: int
    """Its place in `FindingPart.edges`."""
    depth: int
    """0 for an edge that hangs on the root."""


class TreePart(Struct, frozen=True):
    """What one namespace stores."""

    namespace: str
    rows: tuple[RowPart, ...]
    """Each edge before those below it."""


class PicturePart(Struct, frozen=True):
    """All that is stored at one moment, and who holds what."""

    trees: tuple[TreePart, ...] = ()
    holdings: tuple[int, ...] = ()
    """Places in `FindingPart.holdings`."""


class OwnerPart(Struct, frozen=True):
    """Whose the slots are that a step answered or freed."""

    slots: str
    owner: str
    """The prefix for which they are stored, in words."""
    trouble: str = ""
    """Why the target should not have answered them; empty if it should."""


class StepPart(Struct, frozen=True):
    """One operation and what came back."""

    kind: str
    call: str
    """The call in one line, long keys by their ends."""
    answer: str
    clock: float = 0
    """Reading of the injected clock during the operation."""
    audit: bool = False
    """Whether the audit made this call, rather than the trace itself."""
    tokens: str = ""
    """The key, as in `EdgePart`."""
    namespace: str = ""
    slots: str = ""
    """The slots that the answer names, in its order."""
    owners: tuple[OwnerPart, ...] = ()


class AnswerPart(Struct, frozen=True):
    """What one of several targets answered at the last step."""

    target: str
    answer: str


class FindingPart(Struct, frozen=True, kw_only=True):
    """A violation, shrunk, with all that was seen of it."""

    rule: str
    severity: str
    statement: str
    """What the rule says, when broken."""
    cost: str
    """What a broken rule of this severity costs."""
    operation: str
    """The kind of the operation that broke the rule."""
    signature: tuple[str, str]
    """The rule, and the cause of a crash or else the kind of the operation."""
    config: str
    """The configuration: ``page_size=4, eviction=lru``."""
    program: str
    """A Python program that shows the violation."""
    expected: str
    actual: str
    detail: str = ""
    also: tuple[str, ...] = ()
    """Further rules that the same operation broke."""
    raised: str = ""
    """The traceback of what the target raised, if it is known."""
    flaky: bool = False
    """Whether it did not come back when the same trace ran again."""
    new: bool | None = None
    """Whether the baseline is free of it; None where there was none to ask."""
    excused: bool = False
    """Whether it is no violation: it is not new, and only what is new was asked for."""
    shrunk: Unfinished | None = None
    """How far it is shrunk, if time was too short for all of it."""
    repeats: int = 0
    """How often it was seen again."""
    seed: int | None = None
    level: str = "tree"
    situations: tuple[str, ...] = ()
    original_operations: int = 0
    """Length of the trace before it was shrunk."""
    reproduce: str = ""
    """The command that shows it again."""
    path: str = ""
    """The trace file that was saved; empty where none was."""
    trace: str = ""
    """The content of a trace file."""
    answers: tuple[AnswerPart, ...] = ()
    """Empty where there is only one target."""
    steps: tuple[StepPart, ...] = ()
    edges: tuple[EdgePart, ...] = ()
    holdings: tuple[HoldingPart, ...] = ()
    pictures: tuple[PicturePart, ...] = ()


class SituationPart(Struct, frozen=True):
    """A place where caches have failed, and how often the run was there."""

    name: str
    statement: str
    required: bool
    count: int


class UnjudgedPart(Struct, frozen=True):
    """Rules that do not apply to the target."""

    reason: str
    rules: tuple[str, ...]
    hint: str = ""
    """What the target could promise so that they would."""
    configurations: int = 0
    """In how many of the target's configurations they do not apply."""


class SkippedPart(Struct, frozen=True):
    """Operations that were not tried."""

    reason: str
    times: int


class KnownPart(Struct, frozen=True):
    """A failure that is no news."""

    rule: str
    operation: str
    times: int
    reason: str = ""
    issue: str = ""
    """A link or a number, as the project wrote it. Nobody vouches for it."""


class DriverPart(Struct, frozen=True):
    """Who proposed traces, and what came of them."""

    name: str
    operations: int
    traces: int
    elapsed_s: float
    """Time that was given to it."""
    discovered: int = 0
    """Situations first reached and findings first found by its traces."""


class RatePart(Struct, frozen=True):
    """What had been seen at one moment, and how fast things went."""

    elapsed_s: float
    operations_per_s: float
    """Since the moment before."""
    situations: int = 0
    findings: int = 0


class CasePart(Struct, frozen=True):
    """One trace that was replayed."""

    name: str
    status: CaseStatus
    words: str = ""
    elapsed_s: float = 0
    rule: str = ""
    """The rule that it broke."""


class TargetPart(Struct, frozen=True, kw_only=True):
    """All that a command says of one target."""

    spec: str
    verdict: Outcome
    words: str
    """The verdict in a few words: ``no violation``."""
    level: str = "tree"
    seed: int | None = None
    operations: int = 0
    traces: int = 0
    elapsed_s: float = 0
    configurations: str = ""
    """What the run swept: ``10: page_size 1, 4; eviction lru, mru``."""
    rules: tuple[str, ...] = ()
    """The rules by which it was judged."""
    situations: tuple[SituationPart, ...] = ()
    missing: tuple[str, ...] = ()
    """Required situations that were never reached."""
    unjudged: tuple[UnjudgedPart, ...] = ()
    skipped: tuple[SkippedPart, ...] = ()
    findings: tuple[FindingPart, ...] = ()
    pending: tuple[str, ...] = ()
    """Files of findings of earlier runs that were neither seen again nor seen to be gone."""
    known: tuple[KnownPart, ...] = ()
    cut_short: int = 0
    """Operations that were not judged, since a known failure had ended their trace."""
    drivers: tuple[DriverPart, ...] = ()
    rates: tuple[RatePart, ...] = ()
    cases: tuple[CasePart, ...] = ()
    """One per replayed trace."""
    canary: bool = False
    """Whether it must be found broken, or the night proves nothing."""
    error: str = ""
    """What kept it from being judged."""


class Document(Struct, frozen=True, kw_only=True):
    """All that one command has to report."""

    format: int = FORMAT
    radixcheck_version: str
    command: str
    """What was called, ready for a shell."""
    began: str
    """When, in UTC: ``2027-01-31T23:59:59Z``."""
    elapsed_s: float
    exit_code: int
    targets: tuple[TargetPart, ...] = ()
    notes: tuple[str, ...] = ()
    """What else is to be said, a sentence each."""


def dumps(document: Document) -> bytes:
    """Write `document` as JSON, laid out for people."""
    return msgspec.json.format(encode(document), indent=1) + b"\n"


def encode(told: Any) -> bytes:
    """Write anything as JSON, even text with halves of characters, which no file can hold."""
    try:
        return msgspec.json.encode(told)
    except UnicodeEncodeError:
        return msgspec.json.encode(_writable(msgspec.to_builtins(told)))


def _writable(told: Any) -> Any:
    if isinstance(told, str):
        return told.encode("utf-8", "replace").decode()
    if isinstance(told, dict):
        return {key: _writable(value) for key, value in told.items()}
    return list(map(_writable, told)) if isinstance(told, list | tuple) else told


def schema() -> bytes:
    """Return the JSON schema of a document, as ``docs/report.schema.json`` holds it."""
    described = msgspec.json.schema(Document)
    pair = described["$defs"]["FindingPart"]["properties"]["signature"]
    pair["items"] = pair.pop("prefixItems")[0]  # every draft of JSON schema understands this
    described["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    described["title"] = f"A report of radixcheck, format {FORMAT}"
    return msgspec.json.format(msgspec.json.encode(described, order="sorted"), indent=2) + b"\n"
