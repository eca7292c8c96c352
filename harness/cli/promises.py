"""Whether a target is what it says: a claim of ``smoke``."""

from __future__ import annotations

from radixcheck.cli.bench import Bench, Trouble
from radixcheck.promises import unkept


def promises(bench: Bench) -> None:
    """The capabilities fit the configuration, and every method that they announce is there."""
    for seen, fault, hint in unkept(bench.target, {**bench.source.arguments, **bench.config}):
        raise Trouble(seen, fault, hint)
