"""An alloc's answer belongs to the caller until one of its slots is given back."""

from __future__ import annotations

from typing import Any

from radixcheck.operations import Alloc, Audit, Free
from radixcheck.protocol import Slots
from radixcheck.targets.pools.plain import PoolExclusive
from radixcheck.trace import Trace
from radixcheck.verdict import check


class AnswersTheSameList(PoolExclusive):
    def alloc(self, num_tokens: int) -> list[int]:
        self.answer: list[int] = getattr(self, "answer", [])
        self.answer[:] = super().alloc(num_tokens)
        return self.answer


class CutsItsAnswers(PoolExclusive):
    """Takes out of an answer what has been given back of it."""

    def alloc(self, num_tokens: int) -> list[int]:
        self.lent: list[list[int]] = [*getattr(self, "lent", []), super().alloc(num_tokens)]
        return self.lent[-1]

    def free(self, slots: Slots) -> None:
        super().free(slots)
        for answer in self.lent:
            answer[:] = [slot for slot in answer if slot not in slots]


def broken(pool: Any, *operations: Any) -> tuple[str, int] | None:
    violation = check(lambda *_: pool, Trace(operations)).violation
    return (violation.rule, violation.step) if violation else None


def test_an_answer_that_changes_before_its_slots_are_freed_is_an_alias() -> None:
    operations = Alloc(1, "h1"), Alloc(2, "h2"), Free("h2"), Free("h1")
    assert ("mutated-argument", 3) == broken(AnswersTheSameList(8), *operations)


def test_the_audit_looks_at_answers_too() -> None:
    operations = Alloc(1, "h1"), Alloc(2, "h2"), Audit()
    assert ("mutated-argument", 2) == broken(AnswersTheSameList(8), *operations)


def test_an_answer_may_change_once_a_slot_of_it_has_come_back() -> None:
    operations = Alloc(4, "h1"), Free("h1", 0, 1), Free("h1"), Audit()
    assert None is broken(CutsItsAnswers(8), *operations)
