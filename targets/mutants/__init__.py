"""Mutants: the bugs of public prefix caches, each planted in a small cache of our own.

A mutant is a correct tree with a method or two changed: the bug as its public reference tells it,
in code that was written for this package. `MUTANTS` lists them by id. The id is also the name of
the trace that kills the mutant, and no correct cache::

    sglang-7-edge-split      corpora/regressions/sglang-7-edge-split.jsonl

To add one, write the class in the module of its kind, put `mutant` above it, and save its trace.
"""

from importlib import import_module

from radixcheck.targets.mutants.catalogue import MUTANTS, Mutant

__all__ = ["CANARIES", "LATER", "MUTANTS", "Mutant"]

KINDS = (
    "tree",
    "locks",
    "order",
    "pages",
    "namespaces",
    "aliases",
    "clock",
    "pools",
    "blocks",
    "bookkeeping",
    "memory",
)
"""The modules that hold the mutants, one per kind of bug."""

_HASHES, _EVENTS, _PAIRS = "hashes of pages", "events", "keys of pairs of tokens"
_HOST, _WINDOW, _STATE = "a host tier", "a sliding window", "state checkpoints"
_THREADS = "threads"

LATER: dict[str, str] = {
    "sglang-10846-token-keys": _PAIRS,
    "sglang-051-inverted-parent": _EVENTS,
    "sglang-14934-split-removes": _EVENTS,
    "sglang-23678-hashes-cut-twice": _HASHES,
    "trtllm-3735-inner-block-free": _HOST,
    "gie-2579-evicted-in-own-add": "a cache that evicts on its own",
    "sglang-4987-evicts-whole-host": _HOST,
    "sglang-16946-split-before-ack": _HOST,
    "sglang-19212-host-leaf": _HOST,
    "sglang-23216-reset-keeps-host": _HOST,
    "sglang-27108-demoted-uncopied": _HOST,
    "sglang-35769-staged-target": _HOST,
    "bytedance-748-unlocks-unlocked": _HOST,
    "sglang-17061-run-not-reset": _WINDOW,
    "sglang-27038-no-receipt": _WINDOW,
    "sglang-29350-freed-window-stored": _WINDOW,
    "sglang-30339-ring-reuse": _WINDOW,
    "sglang-21379-lock-over-hole": _STATE,
    "sglang-38519-unmapped-zero": _WINDOW,
    "lmdeploy-4700-pinned-state": _STATE,
    "sglang-33442-rank-local-room": f"replicas with {_HOST}",
    "rtpllm-dcb161d-two-locks": _THREADS,
    "llmd-393-check-then-remove": _THREADS,
    "pstack-572-created-twice": _THREADS,
}
"""Public bugs that no target of ours can show yet, and what they need."""

CANARIES = (
    "sglang-7-edge-split",
    "sglang-0523-lock-below-zero",
    "minisgl-124-prefix-looks-old",
    "sglang-20070-unaligned-kept",
    "sglang-24638-joined-namespace",
    "minisgl-94fe255-slots-aliased",
    "sglang-6177-wall-clock",
    "vllm-42571-twice-in-one-free",
    "smg-2137-leaf-snapshot",
    "nanovllm-f64d821-stale-hash",
    "sglang-5556-evicts-whole-need",
    "sglang-17191-split-keeps-buffer",
)
"""The mutants of a nightly: one or two of each kind, and not the easiest. If one of them lives, the
night proves nothing."""

for kind in KINDS:
    import_module(f"{__name__}.{kind}")
