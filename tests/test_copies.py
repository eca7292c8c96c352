"""Going back: what is put back is the state that was saved, all of it, or it is refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import Any

import pytest

from radixcheck.checker.judge import Checker
from radixcheck.clock import Clock
from radixcheck.copies import Copies, Unfaithful
from radixcheck.operations import AnyOperation, DecRef, Evict, IncRef, Insert, MatchPrefix, Reset
from radixcheck.protocol import Target
from radixcheck.targets.radix import Radix
from radixcheck.targets.radix_paged import RadixPaged

STORY: tuple[AnyOperation, ...] = (
    Insert((1, 2, 3)),
    MatchPrefix((1, 2, 4), handle="h1"),
    IncRef("h1"),
    Insert((1, 1)),
    Evict(1),
    DecRef("h1"),
    Reset(),
    Insert((2,)),
)


class Plain:
    """Anything with attributes."""

    def __init__(self, **attributes: object) -> None:
        self.__dict__ |= attributes

    def first(self) -> Any:
        """Return the first attribute."""
        return next(iter(vars(self).values()))


class Slotted:
    """Attributes that lie in no dictionary, one of them private."""

    __slots__ = ("__hidden", "seen")

    def hide(self, value: object) -> None:
        self.__hidden = value

    @property
    def hidden(self) -> object:
        return self.__hidden


def judge_of(factory: Callable[..., Target]) -> Checker:
    clock = Clock()
    return Checker(factory(clock=clock), clock, thorough=True)


FACTORIES: dict[str, Callable[..., Target]] = {
    "radix": Radix,
    "pages of 2": lambda clock: RadixPaged(2, clock=clock),
    "lfu": lambda clock: RadixPaged(1, "lfu", clock),
    "a clock of its own": lambda clock: Radix(),
}


@pytest.mark.parametrize("name", FACTORIES)
def test_a_judge_goes_on_from_a_copy_as_it_went_on_before(name: str) -> None:
    judge = judge_of(FACTORIES[name])
    copies = Copies(judge, (judge.reached, judge.skipped))
    judge.record()
    saved = []
    for operation in STORY:
        saved.append(copies.save())
        judge.apply(operation)
    expected = [step.outcome for step in judge.steps]
    for place in (6, 2, 4, 0, 3):
        copies.restore(saved[place])
        for operation in STORY[place:]:
            judge.apply(operation)
        assert expected == [step.outcome for step in judge.steps]


@pytest.mark.parametrize("name", FACTORIES)
def test_what_is_put_back_has_the_same_bytes_again(name: str) -> None:
    judge = judge_of(FACTORIES[name])
    copies = Copies(judge, (judge.reached, judge.skipped))
    before = [copies.save()]
    for operation in STORY:
        judge.apply(operation)
        before.append(copies.save())
    after = []
    for saved in before:
        copies.restore(saved)
        after.append(copies.save())
    assert before == after


def test_objects_that_were_there_at_first_stay_the_same_ones() -> None:
    inner: Any = Plain(value=[1])
    outer: Any = Plain(inner=inner, ask=inner.first)
    copies = Copies(outer)
    saved = copies.save()
    inner.value.append(2)
    outer.inner = None
    copies.restore(saved)
    assert (inner, [1]) == (outer.inner, outer.ask())


def test_attributes_that_came_later_are_taken_away_again() -> None:
    plain: Any = Plain()
    slotted: Any = Slotted()
    copies = Copies([plain, slotted])
    saved = copies.save()
    plain.later, slotted.seen = 1, 2
    slotted.hide(3)
    copies.restore(saved)
    assert (False, False, False) == tuple(
        hasattr(*pair) for pair in ((plain, "later"), (slotted, "seen"), (slotted, "hidden"))
    )


def test_private_slots_are_copied_under_their_real_name() -> None:
    slotted = Slotted()
    slotted.hide([1])
    copies = Copies(slotted)
    saved = copies.save()
    slotted.hide([2])
    copies.restore(saved)
    assert [1] == slotted.hidden


def counter() -> Callable[[], int]:
    """Make a function that keeps a variable."""
    calls = 0

    def call() -> int:
        nonlocal calls
        calls += 1
        return calls

    return call


def test_the_variables_of_a_function_are_put_back() -> None:
    call = counter()
    copies = Copies(Plain(call=call))
    saved = copies.save()
    first = call(), call()
    copies.restore(saved)
    assert first == (call(), call())


def test_a_function_that_is_made_later_has_its_own_variables_in_each_copy() -> None:
    holder: Any = Plain(call=None)
    copies = Copies(holder)
    holder.call = counter()
    holder.call()
    saved = copies.save()
    first = holder.call(), holder.call()
    copies.restore(saved)
    assert first == (holder.call(), holder.call())


def test_a_method_of_a_list_is_one_of_the_copied_list() -> None:
    holder: Any = Plain(items=[], add=None)
    holder.add = holder.items.append
    copies = Copies(holder)
    saved = copies.save()
    for _ in range(2):
        copies.restore(saved)
        holder.add(1)
    assert [1] == holder.items


def test_what_is_shared_is_left_as_it_is() -> None:
    count = Counter[str]()
    holder: Any = Plain(count=count)
    copies = Copies(holder, (count,))
    saved = copies.save()
    count["seen"] += 1
    copies.restore(saved)
    assert (count, 1) == (holder.count, count["seen"])


def test_states_that_are_the_same_have_the_same_bytes_however_they_came_about() -> None:
    holder: Any = Plain(items={})
    copies = Copies(holder)
    saved = []
    for steps in ((1, 2), (2, 1), (2, 2)):
        holder.items = dict.fromkeys(("a", "b"), 0)
        for step in steps:
            holder.items["a"] += step
        saved.append(copies.save())
    assert (True, False) == (saved[0] == saved[1], saved[0] == saved[2])


def test_copying_the_same_states_again_keeps_nothing_more() -> None:
    judge = judge_of(FACTORIES["lfu"])
    copies = Copies(judge, (judge.reached, judge.skipped))
    start = copies.save()
    known = []
    for _ in range(3):
        copies.restore(start)
        for operation in STORY:
            judge.apply(operation)
            copies.save()
        known.append(len(copies._objects))
    assert known == [known[0]] * 3


class Colour(IntEnum):
    """A member stands for itself."""

    RED = 1


def test_a_member_of_an_enumeration_stays_itself() -> None:
    holder: Any = Plain(colour=None)
    copies = Copies(holder)
    holder.colour = Colour.RED
    copies.restore(copies.save())
    assert holder.colour is Colour.RED


class Hashed:
    """Hashes what a copy gets too late, if it is a key of what it refers to."""

    def __init__(self, name: str, friends: dict[Hashed, int]) -> None:
        self.friends = friends
        self.name = name

    def __hash__(self) -> int:
        return hash(self.name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Hashed) and other.name == self.name


def test_what_cannot_be_put_back_is_refused() -> None:
    holder: Any = Plain(thing=None)
    copies = Copies(holder)
    friends: dict[Hashed, int] = {}
    holder.thing = Hashed("a", friends)
    friends[holder.thing] = 1
    saved = copies.save()
    with pytest.raises(Unfaithful, match="AttributeError"):
        copies.restore(saved)


class Leaves:
    """Says itself how it is copied."""

    def __getstate__(self) -> dict[str, object]:
        return {}


class Ends:
    """Notices when a copy of it ends."""

    def __del__(self) -> None:
        pass


def numbers() -> Iterator[int]:
    yield 1


INSIDE: dict[str, Callable[[], object]] = {
    "memoryview": lambda: memoryview(b""),
    "generator": numbers,
    "list_iterator": lambda: iter([1]),
}
"""What keeps a state that is no attribute."""


@pytest.mark.parametrize("named", INSIDE)
def test_what_keeps_more_than_attributes_is_refused(named: str) -> None:
    with pytest.raises(Unfaithful, match=named):
        Copies([Plain(thing=INSIDE[named]())])


MADE: dict[str, Callable[[], object]] = {**INSIDE, "__getstate__": Leaves, "__del__": Ends}
"""What cannot be made anew for sure."""


@pytest.mark.parametrize("named", MADE)
def test_what_may_not_be_copied_whole_is_refused_when_it_comes(named: str) -> None:
    holder: Any = Plain(thing=None)
    copies = Copies(holder)
    holder.thing = MADE[named]()
    with pytest.raises(Unfaithful, match=named):
        copies.save()


def test_what_is_known_by_its_identity_is_not_copied() -> None:
    class Marks(Radix):
        def __init__(self) -> None:
            super().__init__()
            self.marks: list[object] = []

    target = Marks()
    copies = Copies(target)
    target.marks.append(object())
    with pytest.raises(Unfaithful, match="known by its identity"):
        copies.save()
