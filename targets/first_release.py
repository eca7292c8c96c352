"""The match bug of the first public radix tree (SGLang #7, 2024-01-16), and nothing else.

The test for "the key ends inside this edge" also required that the key be used up. A longer key
that parts from the edge took the part that matched *and walked on into the child*. With
``[1, 2, 3]`` and ``[1, 2, 3, 4]`` stored::

    root --1 2 3--> . --4--> .      match [1, 4] answers the slot of 1, then the slot of 1 2 3 4

Right is one token. The KV of the second was computed in another context.
"""

from __future__ import annotations

from collections.abc import Sequence

from radixcheck.protocol import Match
from radixcheck.targets.radix import Node, Radix, common_prefix_tokens, match_of


class RadixFirstRelease(Radix):
    """`Radix`, whose match follows a key beyond the edge from which the key has parted.

    The edge is cut where it should be, and inserts are right, so that only the match is wrong.
    """

    def match_prefix(self, tokens: Sequence[int], namespace: tuple[str, ...] = ()) -> Match:
        """Find a prefix of `tokens`, which may be longer than any stored one."""
        key = () if self._disabled else self._key(tokens, namespace)
        return match_of(self._descend_too_far(key, self._clock()))

    def _descend_too_far(self, key: tuple[int, ...], now: float) -> list[Node]:
        path, children = [self._root], self._root.children
        while key and (child := children.get(key[0])) is not None:
            child.stamp = now
            shared = common_prefix_tokens(child.tokens, key)
            inside = shared < len(child.tokens)
            path.append(self._cut(child, shared) if inside else child)
            if inside and shared == len(key):  # the bug: a key that parts here is not used up
                break
            key = key[shared:]
            children = child.children
        return path
