"""A finding as data: a shrunk trace, what it broke, and what was seen on the way."""

from __future__ import annotations

from msgspec import Struct

from radixcheck.operations import AnyOperation, Namespace, Outcome, Tokens
from radixcheck.rules import Violation
from radixcheck.trace import Trace


class Step(Struct, frozen=True):
    """One operation and what came back."""

    operation: AnyOperation
    outcome: Outcome
    clock: float = 0
    """Reading of the injected clock during the operation."""
    audit: bool = False
    """Whether the audit made this call, rather than the trace itself."""


class Edge(Struct, frozen=True):
    """A run of stored tokens without a branch, as the model knows it. Made for drawing, never for
    judging.

    A run is cut where the tree branches, where the number of locks changes and where a handle ends,
    so a target's own edges may differ.
    """

    tokens: Tokens
    slots: tuple[int, ...]
    locks: int
    """Locks that cover the run."""
    children: tuple[Edge, ...] = ()
    handles: tuple[str, ...] = ()
    """Names of the live handles that end where the run ends."""


class Holding(Struct, frozen=True):
    """A run of slots of one owner, as the ledger knows it: places ``[start, start + len(slots))``
    of what that owner holds."""

    owner: str
    """The name of a handle or of a request, or ``free``."""
    slots: tuple[int, ...]
    start: int = 0
    note: str = ""
    """What more is to be said, such as ``2 holders``, ``lent by the tree``."""


class Snapshot(Struct, frozen=True):
    """All that the model stores at one moment: one list of edges per namespace, and above a tree
    who holds which slots."""

    trees: dict[Namespace, tuple[Edge, ...]]
    holdings: tuple[Holding, ...] = ()


NOTHING = Snapshot({})


class Pictured(Struct, frozen=True, kw_only=True):
    """Whatever has pictures of what was stored."""

    pictures: tuple[Snapshot, ...] = ()
    """What the model stores before each of the last steps, and after the last."""

    @property
    def before(self) -> Snapshot:
        """What the model stores before the last step."""
        return self.pictures[-2] if len(self.pictures) > 1 else self.after

    @property
    def after(self) -> Snapshot:
        """What the model stores after the last step."""
        return self.pictures[-1] if self.pictures else NOTHING


class Finding(Pictured, frozen=True):
    """A violation, shrunk and ready to replay."""

    target: str
    """The target's spec, as the user wrote it."""
    trace: Trace
    violation: Violation
    steps: tuple[Step, ...]
    """What happened, the last step being the one that broke the rule. An audit is written out call
    by call."""
    seed: int | None = None
    original_operations: int = 0
    """Length of the trace before it was shrunk."""
    situations: tuple[str, ...] = ()
    """Situations that the shrunk trace reaches."""
    answers: tuple[tuple[str, Outcome], ...] = ()
    """What each of several targets answered at the last step, by its spec."""
    flaky: bool = False
    """Whether the violation did not come back when the same trace ran again."""
    unfinished: bool = False
    """Whether time was up before it was as small as it could be made."""
