"""What is known of one request, from its arrival to its end."""

from __future__ import annotations

from array import array

from radixcheck.operations import Arrive
from radixcheck.reference.content import following, tags
from radixcheck.reference.scheduler import Waiting, claim


class Request:
    """One request. Its row is the slots of its tokens computed so far::

        tokens   [0 ..... lent ..... computed ..... to_prefill ..... sampled)
        row       the tree's   its own              nothing yet

    The last token that was sampled has no slot: a sequence of n tokens owns n-1.
    """

    __slots__ = (
        "frees_seen",
        "last_matched",
        "lent",
        "matched",
        "max_new_tokens",
        "name",
        "named",
        "namespace",
        "own",
        "row",
        "sampled",
        "starts",
        "tags",
        "to_prefill",
        "tokens",
    )

    def __init__(self, operation: Arrive) -> None:
        self.name = operation.request
        self.namespace = operation.namespace
        self.tokens = array("q", operation.tokens)
        self.tags = tags(operation.tokens, operation.namespace)
        """What each slot of the row must hold."""
        self.max_new_tokens = operation.max_new_tokens
        self.to_prefill = len(self.tokens)
        """Tokens that must be computed before it samples another one."""
        self.sampled = 0
        self.matched = 0
        """Tokens that its last match found while it waited."""
        self.last_matched: int | None = None
        """Tokens that its last admission found."""
        self.starts = 0
        """Calls since its admission that computed something."""
        self.row: list[int] = []
        self.named: set[int] = set()
        """The same slots, in no order."""
        self.own: set[int] = set()
        """Slots that the ledger says are this request's, in its row or waiting for a token."""
        self.frees_seen = -1
        """Calls that gave slots back until all of the row was looked at."""
        self.lent = 0
        """Leading places of the row that name the tree's slots."""

    @property
    def computed(self) -> int:
        """Tokens that have a slot."""
        return len(self.row)

    @property
    def may_generate(self) -> int:
        """Tokens that it may still sample."""
        return self.max_new_tokens - self.sampled

    @property
    def claim(self) -> int:
        """Tokens that it claims of the pool's room until it has computed anything."""
        return claim(len(self.tokens) - self.matched, self.max_new_tokens - self.sampled)

    @property
    def waiting(self) -> Waiting:
        """The request as the queue knows it."""
        return Waiting(
            self.name, tuple(self.tokens), self.may_generate, self.namespace, self.matched
        )

    def sample(self, token: int) -> None:
        """Grow by one token, which has no slot yet."""
        self.tags += following(self.tags[-1], (token,))
        self.tokens.append(token)
        self.sampled += 1

    def release(self) -> None:
        """Hold no slot any more; what was sampled must be computed again."""
        self.row, self.named, self.own, self.lent, self.starts = [], set(), set(), 0, 0
        self.to_prefill = len(self.tokens)
