"""Mutants: the bugs of public prefix caches, each planted in a small cache of our own.

A mutant is a correct tree with a method or two changed: the bug as its public reference tells it,
in code that was written for this package. `MUTANTS` lists them by id. The id is also the name of
the trace that kills the mutant, and no correct cache::

    sglang-7-edge-split      corpora/regressions/sglang-7-edge-split.jsonl

To add one, write the class in the module of its kind, put `mutant` above it, and save its trace.
"""

from importlib import import_module

from radixcheck.targets.mutants.catalogue import MUTANTS, Mutant

__all__ = ["LATER", "MUTANTS", "Mutant"]

KINDS = (
    "tree",
    "locks",
    "order",
    "pages",
    "namespaces",
    "aliases",
    "clock",
    "pools",
    "bookkeeping",
    "memory",
)
"""The modules that hold the mutants, one per kind of bug."""

LATER: dict[str, str] = {
    "sglang-10846-token-keys": "bigram keys",
    "sglang-051-inverted-parent": "events",
    "sglang-14934-split-removes": "events",
    "sglang-23678-hashes-cut-twice": "hashes",
    "openvino-3722-trusted-hash": "hashes",
    "sglang-053-key-rewritten": "bigram keys",
}
"""Public bugs of these kinds that operations on a tree alone cannot show, and what they need."""

for kind in KINDS:
    import_module(f"{__name__}.{kind}")
