"""The ledger: who holds each slot, and what is free."""

from __future__ import annotations

import pytest

from radixcheck.reference.ledger import Ledger


def test_what_nobody_holds_is_free() -> None:
    ledger = Ledger(8)
    ledger.take([3, 1], "h1")
    assert (6, [1], {3: "h1", 1: "h1"}) == (ledger.free_tokens, ledger.clash([1, 2]), ledger.owner)


def test_what_is_given_back_is_free_again() -> None:
    ledger = Ledger(8)
    ledger.take([1, 2, 3], "h1")
    assert ([2], 6) == (list(ledger.give([2])), ledger.free_tokens)


def test_a_slot_is_given_back_once() -> None:
    ledger = Ledger(8)
    ledger.take([1], "h1")
    ledger.give([1])
    with pytest.raises(KeyError):
        ledger.give([1])


def test_a_shared_slot_is_free_with_its_last_holder() -> None:
    ledger = Ledger(8)
    ledger.take([1, 2], "h1")
    ledger.share([1])
    assert [[2], [1], 8] == [list(ledger.give([1, 2])), list(ledger.give([1])), ledger.free_tokens]


def test_one_call_may_give_back_all_holders_of_a_slot() -> None:
    ledger = Ledger(8)
    ledger.take([1], "h1")
    ledger.share([1, 1])
    assert [1] == list(ledger.give([1, 1, 1]))


def test_a_page_is_free_with_its_last_slot() -> None:
    ledger = Ledger(8, together=4)
    ledger.take([4, 5, 6, 7], "h1")
    ledger.give([4, 5, 6])
    seen = ledger.free_tokens, ledger.waits(4), ledger.owner
    ledger.give([7])
    assert ((4, True, {}), 8) == (seen, ledger.free_tokens)


def test_a_slot_may_change_hands() -> None:
    ledger = Ledger(8)
    ledger.take([1, 2], "r1")
    ledger.move([1], "the tree")
    assert {1: "the tree", 2: "r1"} == ledger.owner
