"""The numbers that a target reports about itself, against what is stored."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from radixcheck.capabilities import Capabilities
from radixcheck.checker.calls import TARGET_ERRORS, read_length
from radixcheck.clock import Clock
from radixcheck.protocol import Target
from radixcheck.reference.model import Model


class Interval(NamedTuple):
    """The least and the most that a number may be."""

    low: int
    high: int

    def __str__(self) -> str:
        return str(self.low) if self.low == self.high else f"{self.low} to {self.high}"


class Drift(NamedTuple):
    """A size that is off."""

    name: str
    actual: int
    expected: Interval


class _Size(NamedTuple):
    name: str
    ask: Callable[[], Any]
    expected: Callable[[Sizes], Interval]


class Sizes:
    """Compares the sizes that a target can tell.

    Exact, but for one case: where a match does not cut edges, a lock may cover more than its
    prefix, and then the evictable and the protected size lie in an interval.
    """

    def __init__(
        self, target: Target, capabilities: Capabilities, model: Model, clock: Clock
    ) -> None:
        self._model = model
        self._nobody_knows = not capabilities.match_splits and capabilities.edges == "grow-or-merge"
        every = (
            ("evictable_size", Sizes.evictable),
            ("protected_size", Sizes.protected),
            ("total_size", Sizes.total),
        )
        sizes = {
            presence: [
                _Size(name, clock.counted(getattr(target, name)), expected)
                for name, expected in every
                if getattr(capabilities, name) == presence and hasattr(target, name)
            ]
            for presence in ("present", "walked")
        }
        self._cheap, self._walked = sizes["present"], sizes["walked"]
        cheap = {size.name: size.ask for size in self._cheap}
        self._quick = tuple(cheap.get(name) for name, _ in every)

    def evictable(self) -> Interval:
        """Tokens that an eviction may free."""
        most = self._model.evictable_tokens
        if self._nobody_knows and self._model.covered_tokens:
            return Interval(0, most)
        return Interval(most - self._model.maybe_tokens, most)

    def blurred(self, change: int, maybe_before: int) -> Interval:
        """What the evictable size may have changed by, if it surely changed by `change`."""
        if self._nobody_knows:
            return Interval(-self._model.total_tokens, self._model.total_tokens)
        return Interval(change - self._model.maybe_tokens, change + maybe_before)

    def protected(self) -> Interval:
        """Tokens that locks cover."""
        evictable, total = self.evictable(), self._model.total_tokens
        return Interval(total - evictable.high, total - evictable.low)

    def total(self) -> Interval:
        """All tokens stored."""
        return Interval(self._model.total_tokens, self._model.total_tokens)

    def drifts(self, *, walking: bool) -> Iterator[Drift]:
        """Yield every size that is off; ask for those that walk the tree only if `walking`."""
        for size in (*self._cheap, *self._walked) if walking else self._cheap:
            actual, expected = read_length(size.ask(), size.name), size.expected(self)
            if not expected.low <= actual <= expected.high:
                yield Drift(size.name, actual, expected)

    def agree(self) -> bool:
        """Tell quickly whether the sizes that cost nothing are exactly those of the model.

        An error is none of its business: `drifts` will meet it again.
        """
        model = self._model
        total, covered = model.total_tokens, model.covered_tokens
        evictable, protected, everything = self._quick
        try:
            return (
                (evictable is None or evictable() == total - covered)
                and (protected is None or protected() == covered)
                and (everything is None or everything() == total)
            )
        except TARGET_ERRORS:
            return False
