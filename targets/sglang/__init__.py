"""SGLang's trees, as released in 0.1.3 to 0.5.10 and in 0.5.23, without a GPU.

``sglang`` drives the installed SGLang, ``sglang?path=DIR`` the one in an unpacked wheel. Which of
its trees that is, ``tree=`` says; by default it is the classic `RadixCache`. Only the tree is
imported, so `torch` (a CPU build will do) is all that must be there besides, and a compiler for the
tree in C++. `trees` says what there is, `release` finds and imports it, `eras` knows how releases
differ, and here is the target.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType

from radixcheck.capabilities import Capabilities
from radixcheck.protocol import Evicted, Handle, Match, Slots, Supports
from radixcheck.targets.sglang import eras
from radixcheck.targets.sglang.release import Release, open_release


class SGLang:
    """One tree of one release, over slots that the harness owns.

    Args:
        tree: one of `trees.TREES`.

    Raises:
        ImportError: there is no SGLang, its tree cannot be imported, compiled or driven, or it is
            of a version that was never tried and `untested` is false.
        ValueError: this release has no such policy, or no pages; or no tree is called so.
    """

    capabilities: Capabilities
    inc_ref: Callable[[Handle], int | None]
    dec_ref: Callable[[Handle], int | None]
    evictable_size: Callable[[], int]
    total_size: Callable[[], int]
    protected_size: Callable[[], int]
    reset: Callable[[], None]

    def __init__(
        self,
        path: str | None = None,
        *,
        tree: str = "classic",
        page_size: int = 1,
        eviction: str = "lru",
        clock: Callable[[], float] | None = None,
        disable: bool = False,
        untested: bool = False,
    ) -> None:
        release = open_release(path, untested, tree)
        module = release.tree(clock)
        refuse_what_it_lacks(release, module, page_size, eviction)
        self._allocator = eras.Allocator()
        settings = {"page_size": page_size, "eviction_policy": eviction, "disable": disable}
        settings |= release.kind.settings
        try:
            with release.shown():
                cache = eras.build(module, settings, self._allocator)
            self._bind(module, cache)
            self.capabilities = eras.promises(module, cache, page_size, eviction, clock is None)
        except (AttributeError, TypeError) as error:
            raise ImportError(changed(release, error)) from error
        refuse_another_core(release, cache)

    def _bind(self, tree: ModuleType, cache: eras.Cache) -> None:
        """Decide once how each call is made, so that no call has to."""
        self._key = eras.key_maker(tree)
        self._match = eras.matcher(tree, cache)
        self._insert = eras.inserter(tree, cache, self._allocator)
        self._evict = eras.evicter(tree, cache, self._allocator)
        self.inc_ref, self.dec_ref = eras.lockers(tree, cache)
        self.evictable_size, self.total_size = cache.evictable_size, eras.total_size(cache)
        for name in ("protected_size", "reset"):
            if hasattr(cache, name):
                setattr(self, name, getattr(cache, name))

    @staticmethod
    def supports(
        path: str | None = None, untested: bool = False, tree: str = "classic"
    ) -> Supports:
        """Answer the page sizes that a run sweeps; a policy other than lru is asked for by name."""
        release = open_release(path, untested, tree)
        paged = "page_size" in eras.constructor_arguments(release.tree(None))
        return {"page_size": [1, 4] if paged else [1]}

    def match_prefix(self, tokens: Sequence[int], namespace: tuple[str, ...] = ()) -> Match:
        """Find the longest stored prefix; the slots are the tree's tensor, the handle its node."""
        return self._match(self._key(tokens, namespace))

    def insert(
        self,
        tokens: Sequence[int],
        slots: Slots,
        namespace: tuple[str, ...] = (),
        priority: int = 0,
        owned_from: int = 0,
    ) -> int:
        """Store `tokens` with an int64 tensor of slots; return how many were stored before."""
        return self._insert(self._key(tokens, namespace), slots, priority, owned_from)

    def evict(self, num_tokens: int) -> Evicted:
        """Evict leaves; answer all that the tree gave back since it was last asked to."""
        self._evict(num_tokens)
        return Evicted(self._allocator.take())


def refuse_what_it_lacks(release: Release, tree: ModuleType, page_size: int, eviction: str) -> None:
    """Look at the settings of a new cache.

    Raises:
        ValueError: this release has no such policy, or no pages.
    """
    if page_size != 1 and "page_size" not in eras.constructor_arguments(tree):
        raise ValueError(
            f"page_size={page_size}: {release} has no pages, which came with 0.4.6; use 1"
        )
    choices = eras.policies(tree, release.neighbour("evict_policy"))
    if eviction not in choices:
        raise ValueError(f"eviction={eviction!r}: {release} has only {', '.join(choices)}")


def refuse_another_core(release: Release, cache: eras.Cache) -> None:
    """See that a cache has the core that was asked for.

    Raises:
        ImportError: the release fell back on another.
    """
    core = eras.core_of(cache)
    if core != release.kind.core:
        raise ImportError(
            f"{release} does not take {release.kind.core} here, and falls back on {core}: "
            "it wants Linux, and a torch of a version that it knows"
        )


def changed(release: Release, error: Exception) -> str:
    """Say that a release's tree is not what the adapter knows of others."""
    return (
        f"{release} cannot be driven: {error}. Its tree is not what radixcheck knows of other "
        "releases: a fault of the adapter"
    )


sglang = SGLang
