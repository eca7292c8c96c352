"""Who owns which slot: what a match answered or an eviction freed, against what is stored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from os.path import commonprefix
from typing import NamedTuple

from radixcheck.finding import Edge, Snapshot, Step
from radixcheck.operations import Evict, Freed, Matched, MatchPrefix, Namespace, Tokens
from radixcheck.report.words import clean, counted, show_tokens


class Owner(NamedTuple):
    """The prefix for whose last token a slot is stored."""

    namespace: Namespace
    edge_key: Tokens
    """The prefix up to the end of the edge on which the slot lies."""
    length: int
    """Tokens of the slot's own prefix, which is the beginning of `edge_key`."""
    locks: int


class Claim(NamedTuple):
    """Neighbouring slots with the same owner and the same trouble."""

    slots: Sequence[int]
    owner: Owner | None
    """Who owns the last of the slots; None where it is not in the tree."""
    trouble: str
    """Why the target should not have answered the slots; empty if it should."""

    def __str__(self) -> str:
        return f"{whose(self.owner)}, {self.trouble}" if self.trouble else whose(self.owner)


def owners(snapshot: Snapshot) -> dict[int, Owner]:
    """Find the owner of every stored slot."""
    found: dict[int, Owner] = {}
    for namespace, tree in snapshot.trees.items():
        waiting: list[tuple[Edge, Tokens]] = [(edge, ()) for edge in tree]
        while waiting:
            edge, above = waiting.pop()
            key = above + edge.tokens
            for length, slot in enumerate(edge.slots, start=len(above) + 1):
                found[slot] = Owner(namespace, key, length, edge.locks)
            waiting += [(child, key) for child in edge.children]
    return found


def claims(step: Step, before: Snapshot) -> list[Claim]:
    """Tell whose the slots are that a match answered or an eviction freed, in its order."""
    match step.operation, step.outcome:
        case MatchPrefix() as operation, Matched(_, slots):
            return _answered(operation, slots, owners(before))
        case Evict(), Freed(groups):
            return _freed(groups, owners(before))
    return []


def whose(owner: Owner | None) -> str:
    """Name a prefix and its namespace."""
    if owner is None:
        return "not in the tree"
    name = f" in namespace {clean(repr(owner.namespace))}" if owner.namespace else ""
    return show_tokens(owner.edge_key[: owner.length]) + name


def _answered(operation: MatchPrefix, slots: Sequence[int], owned: dict[int, Owner]) -> list[Claim]:
    shared: dict[Tokens, int] = {}

    def trouble(place: int, owner: Owner | None) -> str:
        if owner is not None and owner.namespace == operation.namespace:
            if owner.edge_key not in shared:
                shared[owner.edge_key] = len(commonprefix([owner.edge_key, operation.tokens]))
            if owner.length == place + 1 <= shared[owner.edge_key]:
                return ""
        if place >= len(operation.tokens):
            return "answered beyond the key"
        return f"answered for {show_tokens(operation.tokens[: place + 1])}"

    owner_of = [owned.get(slot) for slot in slots]
    troubles = [trouble(place, owner) for place, owner in enumerate(owner_of)]
    return list(_merged(zip(slots, owner_of, troubles, strict=True)))


def _freed(groups: Iterable[Sequence[int]], owned: dict[int, Owner]) -> list[Claim]:
    seen: set[int] = set()
    found: list[Claim] = []
    for group in groups:
        stories = []
        for slot in group:
            owner = owned.get(slot)
            locks = counted(owner.locks, "lock") if owner and owner.locks else ""
            trouble = "freed twice" if slot in seen else f"under {locks}" if locks else ""
            stories.append((slot, owner, trouble))
            seen.add(slot)
        found += _merged(stories)
    return found


def _merged(stories: Iterable[tuple[int, Owner | None, str]]) -> Iterator[Claim]:
    """Fold neighbours with the same story; of the prefixes that they own, the longest names all."""

    def alike(story: tuple[int, Owner | None, str]) -> object:
        _, owner, trouble = story
        return (owner and (owner.namespace, owner.edge_key)), bool(trouble)

    for _, run in groupby(stories, key=alike):
        slots, owner_of, troubles = zip(*run, strict=True)
        yield Claim(slots, owner_of[-1], troubles[-1])
