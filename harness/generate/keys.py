"""Keys by shape. Radix bugs live in how keys relate, so most keys are made from keys that were used
before.

::

    stored   1 2 3 4 5 6          exact      1 2 3 4 5 6
                                  extended   1 2 3 4 5 6 7 8
                                  cut        1 2 3
                                  forked     1 2 3 9 9
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from struct import unpack
from typing import TypeAlias, TypeVar

from radixcheck.operations import Namespace, Tokens

T = TypeVar("T")
Shape: TypeAlias = Callable[["Keys"], Tokens]

REMEMBERED_KEYS = 48
NOISE_TOKENS = 1024
TYPICAL_TOKENS = (1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 40, 64)
LONG_TOKENS = (101, 128, 260)

ALPHABETS: Sequence[Sequence[int]] = (
    range(1, 3),
    range(1, 3),
    range(1, 4),
    range(1, 6),
    range(1, 51),
    range(30_000),
    (0, 1, 2, 1 + 2**8, 1 + 2**16, 2 + 2**16, 2**31 - 1),
)
"""Few tokens, so that keys are kin; as many as a vocabulary has; and some that are equal to whom
keeps too few bits of them."""

SEPARATORS = ("", "", "", ":", "/", "|", ",", "-", "_", ".", "#", " ", "::", "\x00", "\x1f")


def _colliding(joint: str) -> Sequence[Sequence[Namespace]]:
    """Return families of namespaces that are equal to whom joins parts with `joint`, drops later
    parts, or takes an empty one for none."""
    a, b, c = "a", "b", "c"
    return (
        ((), ("",), ("", "")),
        ((a + joint + b, c), (a, b + joint + c), (a + joint + b + joint + c,), (a, b, c)),
        ((), (a,), (b,)),
        ((a,), (a, ""), ("", a)),
        ((a, b, c), (a, b, "d"), (a, b), (a,)),
    )


def pick(rng: Random, choices: Sequence[T]) -> T:
    """Return one of `choices`; several times faster than `Random.choice`."""
    return choices[int(rng.random() * len(choices))]


class Keys:
    """Makes keys, and remembers what it made.

    Args:
        rng: the only source of chance.
        page_size: tokens per page; shapes aim at page boundaries and one token either side.
        most_names: how many strings a namespace may have.
        shapes: names of `SHAPES`, each as often as it is to be used.
        relations: names of `RELATIONS`, likewise.
    """

    def __init__(
        self,
        rng: Random,
        page_size: int,
        most_names: int,
        shapes: Sequence[str],
        relations: Sequence[str],
    ) -> None:
        self.rng = rng
        self.page_size = page_size
        self.used: list[Tokens] = []
        self._shapes = [SHAPES[name] for name in shapes]
        self._relations = [RELATIONS[name] for name in relations]
        self.noise = _random_tokens(rng, pick(rng, ALPHABETS))
        """Tokens of this trace's alphabet; keys are slices of it."""
        self.prompts = [self.some(pick(rng, TYPICAL_TOKENS[5:])) for _ in range(2)]
        """System prompts that many keys share."""
        family = pick(rng, _colliding(pick(rng, SEPARATORS)))
        self._namespaces = [name for name in family if len(name) <= most_names] or [()]

    def new(self) -> Tokens:
        """Make a key: related to a used one, or fresh."""
        if not self.used or self.rng.random() < 0.2:
            return self._remember(pick(self.rng, self._shapes)(self))
        return self._remember(pick(self.rng, self._relations)(self))

    def namespace(self) -> Namespace:
        """Choose a namespace of the trace's family."""
        return pick(self.rng, self._namespaces)

    def old(self) -> Tokens:
        """Return a used key; the cache may have evicted it since."""
        return pick(self.rng, self.used) if self.used else self.new()

    def grow(self, key: Tokens) -> Tokens:
        """Extend a key as a conversation does: by the answer and the next question."""
        return self._remember(key + self.some(self.length()))

    def some(self, count: int) -> Tokens:
        """Return `count` tokens of noise."""
        start = int(self.rng.random() * (NOISE_TOKENS - count))
        return self.noise[start : start + count]

    def length(self) -> int:
        """Return a typical number of tokens: small, or a few pages and one token either side."""
        if self.page_size > 1 and self.rng.random() < 0.6:
            return max(
                0, self.page_size * pick(self.rng, (1, 1, 2, 3, 4)) + pick(self.rng, (-1, 0, 0, 1))
            )
        return pick(self.rng, TYPICAL_TOKENS)

    def place(self, key: Tokens) -> int:
        """Return a place inside `key` to cut it: anywhere, or at a page boundary and one token
        either side."""
        size = self.page_size
        if size > 1 and self.rng.random() < 0.6:
            boundary = size * int(self.rng.random() * (len(key) // size + 1))
            return min(len(key), max(0, boundary + pick(self.rng, (-1, 0, 0, 1))))
        return int(self.rng.random() * (len(key) + 1))

    def _remember(self, key: Tokens) -> Tokens:
        if len(self.used) < REMEMBERED_KEYS:
            self.used.append(key)
        else:
            self.used[int(self.rng.random() * REMEMBERED_KEYS)] = key
        return key


def _random_tokens(rng: Random, alphabet: Sequence[int]) -> Tokens:
    """Return `NOISE_TOKENS` tokens of `alphabet`."""
    numbers = unpack(f"<{NOISE_TOKENS}H", rng.randbytes(2 * NOISE_TOKENS))
    size = len(alphabet)
    return tuple([alphabet[number % size] for number in numbers])


def _chain(keys: Keys) -> Tokens:
    return tuple(range(1, keys.length() + 1))


def _noise(keys: Keys) -> Tokens:
    return keys.some(keys.length())


def _shared_prompt(keys: Keys) -> Tokens:
    return pick(keys.rng, keys.prompts) + keys.some(keys.length())


def _repeated_token(keys: Keys) -> Tokens:
    return (keys.noise[0],) * keys.length()


def _page_boundary(keys: Keys) -> Tokens:
    pages = pick(keys.rng, (1, 2, 3))
    return keys.some(max(0, keys.page_size * pages + pick(keys.rng, (-1, 0, 1))))


def _short(keys: Keys) -> Tokens:
    return keys.some(int(keys.rng.random() * keys.page_size))


def _long(keys: Keys) -> Tokens:
    return keys.some(pick(keys.rng, LONG_TOKENS))


SHAPES: dict[str, Shape] = {
    "chain": _chain,
    "noise": _noise,
    "shared-prompt": _shared_prompt,
    "repeated-token": _repeated_token,
    "page-boundary": _page_boundary,
    "shorter-than-page": _short,
    "very-long": _long,
}
"""Fresh keys. At page size 1 a key shorter than a page is the empty key."""


def _exact(keys: Keys) -> Tokens:
    return pick(keys.rng, keys.used)


def _extended(keys: Keys) -> Tokens:
    return pick(keys.rng, keys.used) + keys.some(1 + int(keys.rng.random() * 2 * keys.page_size))


def _turn(keys: Keys) -> Tokens:
    key = pick(keys.rng, keys.used)
    return key + keys.some(keys.length()) if len(key) < LONG_TOKENS[0] else key


def _cut(keys: Keys) -> Tokens:
    key = pick(keys.rng, keys.used)
    return key[: keys.place(key)]


def _forked(keys: Keys) -> Tokens:
    key = pick(keys.rng, keys.used)
    start = keys.place(key)
    other = keys.noise[start % NOISE_TOKENS] + 1
    return (*key[:start], other, *key[start + 1 :][: keys.length()])


RELATIONS: dict[str, Shape] = {
    "exact": _exact,
    "extended": _extended,
    "multi-turn": _turn,
    "cut": _cut,
    "forked": _forked,
}
"""Keys made from a used one."""
