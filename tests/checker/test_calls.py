"""What a target raises is told, whatever its exception does when it is read."""

from __future__ import annotations

from radixcheck.checker.calls import failure


class Mute(Exception):
    """Cannot be told."""

    def __str__(self) -> str:
        raise ValueError("no")


def test_an_exception_that_cannot_be_read_is_told_all_the_same() -> None:
    told = failure(Mute())
    assert ("Mute", "its message cannot be read: ValueError") == (told.error, told.message)
