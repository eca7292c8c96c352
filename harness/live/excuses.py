"""What speaks for a cache: what its caller did wrong, what came from without, and what may have
been stored before anybody looked. Then nothing is said against it, and the watch is lost."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any

from radixcheck.checker.broken import counted
from radixcheck.live.naming import Words
from radixcheck.live.tape import TOKEN_BYTES, Called, Raised
from radixcheck.rules import Violation

OF_WHAT_WAS_BEFORE = frozenset(
    ("phantom-prefix", "wrong-existing-length", "evicted-unknown", "over-evicted")
)
"""Rules that a correct cache seems to break, if it stores more than is known of."""


KEYED = {"match_prefix": 1, "insert": 2}
"""Calls that are given a key, and the place of their namespace."""


class Excuses:
    """Says of the calls of one cache, one after the other, why they cannot be judged.

    Args:
        words: names their namespaces.
        most_names: parts of a namespace that the cache promises to tell apart.
        began_empty: whether it is known that nothing was stored before the first of them.
    """

    def __init__(self, words: Words, *, most_names: int, began_empty: bool) -> None:
        self._words = words
        self._most_names = most_names
        self._all_known = began_empty

    def __call__(self, call: Called, violation: Violation | None) -> str:
        """Answer why a call, or what it has broken, cannot be judged; nothing if it can."""
        kind, given, answer, _ = call
        if violation is None:
            self._all_known |= kind == "reset" and not isinstance(answer, Raised)
            return _of_insert(kind, given) or self._of_namespace(kind, given)
        if isinstance(answer, Raised) and violation.rule == "unexpected-error":
            return _of_error(kind, given, answer)
        if self._words.confused:
            return f"the namespace {self._words.confused} may be the same as another, or not"
        if violation.rule in OF_WHAT_WAS_BEFORE and not self._all_known:
            return "whether the cache was empty when the watch began, nobody can tell"
        return ""

    def _of_namespace(self, kind: str, given: Sequence[Any]) -> str:
        if kind not in KEYED:
            return ""
        names = len(self._words.namespace(given[KEYED[kind]]))
        if names <= self._most_names:
            return ""
        return f"{kind} was given a namespace, and the cache does not promise to know such ones"


def _of_insert(kind: str, given: Sequence[Any]) -> str:
    if kind != "insert":
        return ""
    if not _is_whole(given[3] or 0):
        return f"insert was given a priority of {given[3]!r}, and a trace holds whole numbers only"
    per_token = TOKEN_BYTES if type(given[0]) is bytes else 1
    tokens, slots = len(given[0]) // per_token, len(given[1])
    return "" if tokens == slots else f"insert was given {counted(tokens)} and slots for {slots}"


def _of_error(kind: str, given: Sequence[Any], answer: Raised) -> str:
    told = type(answer.error).__name__
    if answer.interrupted:
        return f"{told} came from without, in the midst of a {kind}"
    if kind in ("match_prefix", "insert") and not all(map(_is_whole, given[0])):
        return f"{kind} was given tokens that are no whole numbers, and raised {told}"
    if kind == "evict" and not (_is_whole(given[0]) and given[0] >= 0):
        return f"evict was given no number of tokens, and raised {told}"
    return ""


def _is_whole(number: Any) -> bool:
    try:
        index(number)
    except TypeError:
        return False
    return True
