"""The ordinary checker of trees, told what a living cache has answered: so every rule that a run
holds against a target is held against a cache that serves.

The checker calls an `Echo`, which answers from the call at hand. Slots keep their numbers: where
the checker would draw fresh ones, it is handed those that the engine gave. Nothing is judged that
the checker cannot know: see `Follower`.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Any, cast

from msgspec.structs import replace

from radixcheck.buffers import read_slots
from radixcheck.capabilities import Capabilities
from radixcheck.checker import Checker
from radixcheck.checker.broken import listed
from radixcheck.clock import Clock
from radixcheck.live.nodes import Node
from radixcheck.live.tape import Called, Raised
from radixcheck.operations import AnyOperation, Insert
from radixcheck.protocol import Evicted, Match, Target
from radixcheck.reference.positions import NEVER, Position
from radixcheck.rules import Violation
from radixcheck.slots import SlotPool

EXACT_S = 1e-7
"""A clock that is no coarser gives every call a time of its own."""


AS_OPERATION = {"publish": "prefill", "end": "finish"}
"""The operation of a trace at which a request leaves slots behind."""


def judged_promises(can: Capabilities) -> Capabilities:
    """Return the promises that can be held against answers alone.

    Whose buffers are whose cannot be seen, nor the nodes. The order of evictions is judged where
    every call has a time of its own: then their number is their age.
    """
    exact = can.clock == "own" and can.resolution_s is not None and can.resolution_s <= EXACT_S
    return replace(
        can,
        eviction=can.eviction if exact else "unspecified",
        clock="own",
        resolution_s=0,
        arguments="given",
        slots_as="list",
        dump="absent",
        storage="absent",
        reset="present",
        evictable_size=_told(can.evictable_size),
        protected_size=_told(can.protected_size),
        total_size=_told(can.total_size),
    )


def _told(presence: str) -> Any:
    return presence if presence == "present" else "absent"


class Echo:
    """A target that answers what the cache has answered at the call that is set as `call`."""

    def __init__(self, capabilities: Capabilities) -> None:
        self.capabilities = capabilities
        self.call: Called = ("", (), None, None)
        self.model: Any = None
        """Answers sizes where none were noted."""
        for place, name in enumerate(("evictable_size", "protected_size", "total_size")):
            if getattr(capabilities, name) == "present":
                setattr(self, name, self._size(place))

    def match_prefix(self, tokens: Any, namespace: Any = ()) -> Match:
        """Answer the match that was."""
        length, slots, handle = self._answer()
        return Match(length, slots, handle)

    def insert(
        self, tokens: Any, slots: Any, namespace: Any = (), priority: int = 0, owned_from: int = 0
    ) -> int:
        """Answer the length that was."""
        existing: int = self._answer()
        return existing

    def evict(self, num_tokens: int) -> Any:
        """Answer what was freed."""
        return self._answer()

    def inc_ref(self, handle: Any) -> Any:
        """Answer the change that was."""
        return self._answer()

    def dec_ref(self, handle: Any) -> Any:
        """Answer the change that was."""
        return self._answer()

    def reset(self) -> None:
        """Answer nothing."""
        self._answer()

    def _answer(self) -> Any:
        answer = self.call[2]
        if isinstance(answer, Raised):
            raise answer.error
        return answer

    def _size(self, place: int) -> Any:
        def told() -> int:
            sizes = self.call[3]
            if sizes is None:
                model = self.model
                total, covered = model.total_tokens, model.covered_tokens
                return int((total - covered, covered, total)[place])
            return int(sizes[place])

        return told


class GivenSlots(SlotPool):
    """Hands out what the engine gave to the insert at hand, and keeps nothing."""

    def __init__(self, echo: Echo) -> None:
        super().__init__(1)
        self._echo = echo

    def take(self, num_tokens: int) -> list[int]:
        """Return the last `num_tokens` slots that the insert was given."""
        slots: list[int] = self._echo.call[1][1]
        return slots[len(slots) - num_tokens :]

    def give(self, slots: Sequence[int]) -> None:
        """The engine knows what it does with them."""

    def give_in_any_order(self, slots: Any) -> None:
        """The engine knows what it does with them."""


class Follower:
    """Follows a cache call by call, and judges it.

    Args:
        can: what the cache promises.
    """

    def __init__(self, can: Capabilities) -> None:
        self._echo = echo = Echo(judged_promises(can))
        self._checker = Checker(cast(Target, echo), Clock(), misuse=True)
        self._trial = trial = self._checker.trial
        echo.model = self.model = trial.model
        trial.pool = GivenSlots(echo)
        self.handles = trial.handles
        """By their names in the trace."""
        self._free: set[int] = set()
        """Pages that came back since they were last handed out or stored."""

    def follow(self, operation: AnyOperation, call: Called) -> Violation | None:
        """Judge one call, whose slots are lists by now; answer the rule that it broke.

        Raises:
            BadAnswer: the call cannot be read: whoever described the cache is at fault.
        """
        self._echo.call = call
        if (twice := self._stored_twice(operation, call)) is not None:
            return twice
        self._follow_slots(call)
        violation = self._checker.apply(operation)
        self._trial.broken.clear()
        return violation

    # ---- the ledger ----------------------------------------------------------------------

    def free(self, slots: list[int], kind: str) -> Violation | None:
        """Judge a free that is no part of an eviction: nothing that is stored may be freed."""
        self._give_back(slots)
        if not (stored := self._stored(slots)):
            return None
        told = f"{listed(stored)} are stored, and somebody else may get them now"
        wanted = "slots that the tree does not name"
        return Violation("use-after-free", kind or "free", 0, wanted, listed(slots), told)

    def alloc(self, slots: list[int]) -> Violation | None:
        """Judge what a pool hands out: nothing that is stored."""
        self._take(slots)
        if not (stored := self._stored(slots)):
            return None
        wanted, told = "slots that nobody holds", f"{listed(stored)} are stored in the tree"
        return Violation("double-owner", "alloc", 0, wanted, listed(slots), told)

    def left(self, before: list[int], after: list[int], kind: str) -> Violation | None:
        """Judge what a request has left: each slot of its row is stored now, or free, or still in
        the row."""
        size, kept = self.model.page_size, set(after)
        lost = [
            slot
            for slot in before
            if slot not in self.model.owner and slot // size not in self._free and slot not in kept
        ]
        if not lost:
            return None
        told = f"{listed(lost)} of a row are neither free, nor stored, nor in the row"
        return Violation(
            "leaked-slot", AS_OPERATION[kind], 0, "every slot has an owner", listed(lost), told
        )

    def _stored(self, slots: list[int]) -> list[int]:
        return [slot for slot in slots if slot in self.model.owner]

    def _give_back(self, slots: Iterable[int]) -> None:
        """A page is free with any of its slots, as pools of pages take them."""
        size = self.model.page_size
        self._free.update(slots if size == 1 else [slot // size for slot in slots])

    def _take(self, slots: Iterable[int]) -> None:
        size = self.model.page_size
        self._free.difference_update(slots if size == 1 else [slot // size for slot in slots])

    def _follow_slots(self, call: Called) -> None:
        kind, given, answer, _ = call
        if kind == "insert" and isinstance(answer, int):
            self._take(given[1][answer:])
        elif kind == "evict" and not isinstance(answer, Raised):
            groups = answer.groups if isinstance(answer, Evicted) else [answer]
            self._give_back(slot for group in groups for slot in group)

    def _stored_twice(self, operation: AnyOperation, call: Called) -> Violation | None:
        kind, given, answer, _ = call
        if not isinstance(operation, Insert) or not isinstance(answer, int):
            return None
        owner, new = self.model.owner, given[1][answer : self.model.aligned(operation.tokens)]
        if owner.keys().isdisjoint(new):
            return None
        twice = [slot for slot in new if slot in owner]
        told = f"{listed(twice)} are stored for another prefix already"
        return Violation("double-owner", kind, 0, "slots that are not stored", listed(new), told)

    # ---- what is stored ------------------------------------------------------------------

    def nodes(self) -> list[Node]:
        """List what is stored, as the model knows it; handles are called as in the trace."""
        handles: dict[Position, list[tuple[str, int]]] = {}
        for name, held in self._trial.handles.items():
            if held.model.alive and held.model.end is not None:
                handles.setdefault(held.model.end, []).append((name, held.model.locks))
        found: list[Node] = []
        for namespace, root in self.model.roots.items():
            found += _below(root, namespace, handles, len(found))
        return found

    def forget(self, remembered: Container[str]) -> None:
        """Forget the handles that no call can name any more, or they would grow for ever."""
        known = self._trial.handles
        gone = {name: known[name].model for name in known if name not in remembered}
        gone = {name: handle for name, handle in gone.items() if not handle.locks}
        dead = set(map(id, gone.values()))
        for name in gone:
            del known[name]
        for end in {id(each.end): each.end for each in gone.values() if each.end}.values():
            end.handles = [each for each in end.handles or () if id(each) not in dead] or None


def _below(
    root: Position, namespace: Any, handles: dict[Position, list[tuple[str, int]]], start: int
) -> Iterator[Node]:
    """List the positions below a root, parents first; `start` is the place of the first."""
    stack: list[tuple[Position, int | None]] = [(each, None) for each in root.children.values()]
    place = start
    while stack:
        position, parent = stack.pop()
        used = NEVER if position.uses is None else position.uses.touched
        named = tuple(handles.get(position, ()))
        yield Node(position.run, parent, named, used, namespace, tuple(position.slots))
        stack += [(each, place) for each in position.children.values()]
        place += 1


def fetched(calls: Iterable[Called]) -> Iterator[Called]:
    """Read the slots of calls. Only here a device is waited for.

    Raises:
        BadAnswer: there are none where a cache must answer some.
    """
    return map(_with_lists, calls)


def _with_lists(call: Called) -> Called:
    kind, given, answer, sizes = call
    if kind == "insert":
        given = (given[0], read_slots(given[1]), *given[2:])
    elif kind in ("free", "left"):
        given = tuple(map(read_slots, given))
    elif kind == "alloc":
        answer = read_slots(answer)
    elif kind == "match_prefix" and not isinstance(answer, Raised):
        answer = int(answer[0]), read_slots(answer[1]), answer[2]
    elif kind == "evict":
        answer = _groups(answer)
    return kind, given, answer, sizes


def _groups(answer: Any) -> Any:
    if isinstance(answer, Evicted):
        return Evicted([read_slots(group) for group in answer.groups])
    return answer if isinstance(answer, Raised) else read_slots(answer)
