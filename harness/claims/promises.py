"""Whether a target is what it says: a claim of ``smoke``."""

from __future__ import annotations

from radixcheck.claims.bench import Bench, Trouble
from radixcheck.claims.scripts import Stand
from radixcheck.levels import level_of


def promises(bench: Bench | Stand) -> None:
    """The capabilities fit the configuration, and every method that they announce is there."""
    for seen, fault, hint in level_of(bench.target).unkept(
        bench.target, {**bench.source.arguments, **bench.config}
    ):
        raise Trouble(seen, fault, hint)
