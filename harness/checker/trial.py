"""All that is known during one trace: the target, the model beside it, and what has happened."""

from __future__ import annotations

import sys
from array import array
from collections import Counter
from typing import Any

from radixcheck.buffers import OVERWRITTEN, make_tokens, overwrite, slots_maker, unchanged
from radixcheck.checker.broken import Broken, listed
from radixcheck.checker.calls import Calls, failure, said
from radixcheck.checker.sizes import Sizes
from radixcheck.checker.weights import Scales
from radixcheck.checker.witness import Witness
from radixcheck.clock import Ages, Clock
from radixcheck.operations import Failure, Namespace, Outcome, Refusal, Skipped, Tokens
from radixcheck.protocol import Crashed, Hung, Refused, Target
from radixcheck.reference.model import Model
from radixcheck.reference.positions import Handle
from radixcheck.slots import SlotPool

BLANK = array("q", [OVERWRITTEN])
"""One token of a buffer that its owner has used for something else."""

MOST_NAMES = {"absent": 0, "one": 1, "structured": sys.maxsize}


class Held:
    """A handle on both sides: what the target calls it, and what the model knows it protects."""

    __slots__ = ("inside", "model", "mutations", "step")

    def __init__(self, inside: Any, model: Handle, step: int, mutations: int) -> None:
        self.inside = inside
        self.model = model
        self.step = step
        self.mutations = mutations


class Trial:
    """One fresh target on trial. The modules beside this one act on it, one per kind of operation.

    Args:
        target: an empty cache.
        clock: the clock that the target was built with.
        misuse: make calls that no caller should make, even where the target promises no answer.
        disabled: the target was built with ``disable=True``.
        overwrites: reuse the caller's buffers after a call, where the target only borrows them.
    """

    def __init__(
        self, target: Target, clock: Clock, *, misuse: bool, disabled: bool, overwrites: bool
    ) -> None:
        self.capabilities = can = target.capabilities
        self.calls = Calls(target)
        self.model = Model(can)
        self.sizes = Sizes(target, can, self.model, clock)
        self.pool = SlotPool(can.page_size)
        self.scales = Scales(target) if can.storage == "present" else None
        self.witness = Witness(can, self.model, self.pool)
        self.clock = clock
        self.ages = Ages(can, clock)

        self.step = -1
        self.now: float = 0
        """The age of the current operation."""
        self.mutations = 0
        self.handles: dict[str, Held] = {}
        self.returned: dict[int, int] = {}
        """The stored slot in whose place a slot was last offered in vain: it went back to the
        caller."""
        self.skipped: Counter[str] = Counter()
        self.broken: list[Broken] = []
        """What the current operation has broken so far."""
        self.refused = False
        """Whether the target said no to the current operation."""
        self.underflowed = False
        """Whether the target has ever accepted to unlock what was not locked."""
        self.recording = False
        """Whether outcomes are wanted, and not only verdicts."""

        self.disabled = disabled
        self.overwrites = overwrites and can.arguments == "borrowed"
        self.misuses = misuse or self.promises_misuse
        self.leaves_last = can.longest_match == "n-1"
        self.aligns = can.unaligned_insert == "caller-aligns"
        self.keeps_copies = can.duplicates == "both-kept"
        self.ranked = can.priorities == "present"
        self.make_slots = slots_maker(can.slots_as, can.device)
        self._fleeting = can.idle_handles == "until-next-mutation"
        self._last_tokens: Tokens = ()
        self._token_buffer = make_tokens(())

    @property
    def promises_misuse(self) -> bool:
        """Whether the target says what becomes of calls that no caller should make."""
        return self.capabilities.misuse != "unspecified"

    def breaks(self, rule: str, expected: str, actual: str, detail: str = "") -> None:
        """Write down that the current operation broke `rule`."""
        self.broken.append(Broken(rule, expected, actual, detail))

    def skip(self, reason: str) -> Outcome:
        """Do not try the current operation."""
        self.skipped[reason] += 1
        return Skipped(reason)

    def failed(self, error: BaseException, *, may_refuse: bool = False) -> Outcome:
        """Take an exception of the target for what it is: a refusal, or a broken rule."""
        if isinstance(error, Crashed):
            rule = "hang" if isinstance(error, Hung) else "crash"
            self.breaks(rule, "an answer", error.what, error.said)
            return Failure(type(error).__name__, error.what)
        if may_refuse and (isinstance(error, Refused) or self.disabled):
            self.refused = True
            return Refusal(said(error))
        what: Failure = failure(error)
        self.breaks("unexpected-error", "an answer", f"{what.error}: {what.message}", what.where)
        return what

    def alive(self, held: Held) -> bool:
        """Tell whether a handle may still be used."""
        if self._fleeting and not held.model.locks and held.mutations != self.mutations:
            return False
        return held.model.alive

    def takes(self, namespace: Namespace) -> bool:
        """Tell whether the target knows such namespaces."""
        return len(namespace) <= MOST_NAMES[self.capabilities.namespaces]

    def token_buffer(self, tokens: Tokens) -> array[int]:
        """Return what the target is given a copy of: an insert often brings the key of the match
        before."""
        if tokens is not self._last_tokens:
            self._last_tokens, self._token_buffer = tokens, make_tokens(tokens)
        return self._token_buffer

    def check_tokens(self, buffer: array[int], original: array[int]) -> None:
        """See that the target left the caller's key alone; then reuse a buffer that was lent."""
        if buffer != original:
            self.breaks("mutated-argument", listed(original), listed(buffer))
        if self.overwrites:
            buffer[:] = BLANK * len(buffer)

    def check_slots(self, buffer: Any, original: list[int]) -> None:
        """Do the same for the slots."""
        if not unchanged(buffer, original):
            self.breaks("mutated-argument", listed(original), listed(list(buffer)))
        if self.overwrites:
            overwrite(buffer)
