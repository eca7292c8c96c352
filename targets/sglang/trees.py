"""The trees that releases have: where each lies, and which of the release's modules run for it.

::

    classic        0.1.3 to 0.5.10, 0.5.23   `RadixCache`, all in one module
    cpp            0.5.6 to 0.5.10           `RadixCacheCpp`, around a tree in C++ that torch
                                             compiles when it is first wanted
    unified        0.5.23                    `UnifiedRadixCache` around a core in Python
    unified-rust   0.5.23                    the same around a core in Rust, compiled in the wheel

Of the components of a unified tree only the one for full attention is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

SRT = "sglang.srt."
BESIDE = SRT + "mem_cache."


def _beside(*names: str) -> frozenset[str]:
    return frozenset(BESIDE + name for name in names)


class Tree(NamedTuple):
    """One tree, in all the releases that have it."""

    homes: tuple[str, ...]
    """Where releases keep its module, newest first."""
    real: frozenset[str]
    """Modules that it works with, imported for real where a release has them."""
    borrows: tuple[str, ...] = ()
    """``module.name`` beside it: what its caller needs, and what it does not import itself."""
    needs: str = ""
    """A module beside it without which there is no such tree; `missing` says why it may be."""
    missing: str = ""
    core: str = ""
    """Where the class of its core lies, if it has a choice of cores."""
    settings: Mapping[str, str] = MappingProxyType({})
    """What its caches are told besides, if their release knows it."""
    is_compiled: bool = False
    """Whether torch compiles it when its module runs."""
    is_clocked: bool = False
    """Whether it tells the time by the `time` of its module, which is run anew for every cache."""


NEIGHBOURS = _beside(
    "base_prefix_cache",
    "cache_init_params",
    "events",
    "evict_policy",
    "unified_cache.component_type",
    "utils",
)
"""Modules that the classic tree works with."""

_CLASSIC = Tree(
    homes=(
        BESIDE + "radix_cache",
        SRT + "managers.controller.radix_cache",
        SRT + "managers.router.radix_cache",
    ),
    real=NEIGHBOURS,
    is_clocked=True,
)

_CPP = Tree(
    homes=(BESIDE + "radix_cache_cpp",),
    real=NEIGHBOURS | _beside("radix_cache", "cpp_radix_tree.radix_tree"),
    borrows=("cache_init_params.CacheInitParams",),
    needs="cpp_radix_tree.tree_v2",
    missing="its wheel leaves out the C++ of this tree",
    is_compiled=True,
)

_UNIFIED = Tree(
    homes=(BESIDE + "unified_radix_cache",),
    real=NEIGHBOURS
    | _beside(
        "allocator.page_interleave",
        "buffer_mode.storage_existence_cache",
        "radix_cache",
        "storage_prefetch",
        "unified_cache.cache_action",
        "unified_cache.components",
        "unified_cache.components.base",
        "unified_cache.components.full",
        "unified_cache.components.mamba",
        "unified_cache.components.swa",
        "unified_cache.session_ref_tracker",
        "unified_cache.tree_core_registry",
        "unified_cache.unified_tree_core",
        "unified_cache.unified_tree_core_interface",
    )
    | {
        SRT + "environ",
        SRT + "session.streaming_session",
        SRT + "utils.rank_consensus_checker",
    },
    borrows=("cache_init_params.CacheInitParams",),
    core=BESIDE + "unified_cache.unified_tree_core",
    settings=MappingProxyType({"tree_core_backend": "python"}),
)

_UNIFIED_RUST = _UNIFIED._replace(
    real=_UNIFIED.real
    | _beside("rust_tree_core.adapter", "rust_tree_core.extension", "rust_tree_core.mem_cache")
    | {
        SRT + "rust_extensions",
        SRT + "rust_extensions.loader",
        SRT + "rust_extensions.torch_build",
    },
    borrows=(*_UNIFIED.borrows, "rust_tree_core.adapter.RustUnifiedTreeCore"),
    needs="rust_tree_core.mem_cache",
    missing="its wheel brings no Rust core for this version of Python",
    core=BESIDE + "rust_tree_core.adapter",
    settings=MappingProxyType({"tree_core_backend": "rust"}),
)

TREES = {
    "classic": _CLASSIC,
    "cpp": _CPP,
    "unified": _UNIFIED,
    "unified-rust": _UNIFIED_RUST,
}
"""Every tree, by the name that a spec gives it."""


def tree_named(name: str) -> Tree:
    """Find a tree.

    Raises:
        ValueError: there is none of this name.
    """
    if name not in TREES:
        raise ValueError(f"tree={name!r}: choose one of {', '.join(TREES)}")
    return TREES[name]
