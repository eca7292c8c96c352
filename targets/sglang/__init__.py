"""SGLang's classic `RadixCache`, as released in 0.1.3 to 0.5.10 and in 0.5.23, without a GPU.

``sglang`` drives the installed SGLang, ``sglang?path=DIR`` the one in an unpacked wheel. Only the
tree is imported, so `torch` (a CPU build will do) is all that must be there besides. `release`
finds and imports a release, `eras` knows how releases differ, and here is the target.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType

from radixcheck.capabilities import Capabilities
from radixcheck.protocol import Evicted, Handle, Match, Slots, Supports
from radixcheck.targets.sglang import eras
from radixcheck.targets.sglang.release import Release, open_release


class SGLang:
    """One `RadixCache` of one release, over slots that the harness owns.

    Raises:
        ImportError: there is no SGLang, it cannot be imported or driven, or it is of a version that
            was never tried and `untested` is false.
        ValueError: this release has no such policy, or no pages.
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
        page_size: int = 1,
        eviction: str = "lru",
        clock: Callable[[], float] | None = None,
        disable: bool = False,
        untested: bool = False,
    ) -> None:
        release = open_release(path, untested)
        tree = release.tree(clock)
        refuse_what_it_lacks(release, tree, page_size, eviction)
        self._allocator = eras.Allocator()
        settings = {"page_size": page_size, "eviction_policy": eviction, "disable": disable}
        try:
            cache = eras.build(tree, settings, self._allocator)
            self._bind(tree, cache)
            self.capabilities = eras.promises(tree, cache, page_size, eviction, clock is None)
        except (AttributeError, TypeError) as error:
            raise ImportError(changed(release, error)) from error

    def _bind(self, tree: ModuleType, cache: eras.Cache) -> None:
        """Decide once how each call is made, so that no call has to."""
        self._key = eras.key_maker(tree)
        self._match = eras.matcher(tree, cache)
        self._insert = eras.inserter(tree, cache)
        self._evict = eras.evicter(tree, cache, self._allocator)
        self.inc_ref, self.dec_ref = eras.lockers(tree, cache)
        self.evictable_size, self.total_size = cache.evictable_size, cache.total_size
        for name in ("protected_size", "reset"):
            if hasattr(cache, name):
                setattr(self, name, getattr(cache, name))

    @staticmethod
    def supports(path: str | None = None, untested: bool = False) -> Supports:
        """Answer the page sizes that a run sweeps; a policy other than lru is asked for by name."""
        release = open_release(path, untested)
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
        return self._insert(self._key(tokens, namespace), slots, priority)

    def evict(self, num_tokens: int) -> Evicted:
        """Evict leaves; answer all that the tree gave back since it was last asked to."""
        self._evict(num_tokens)
        return Evicted(self._allocator.take())


def refuse_what_it_lacks(release: Release, tree: ModuleType, page_size: int, eviction: str) -> None:
    """Look at the settings of a new cache.

    Raises:
        ValueError: this release has no such policy, or no pages.
    """
    known = eras.constructor_arguments(tree)
    if page_size != 1 and "page_size" not in known:
        raise ValueError(
            f"page_size={page_size}: {release} has no pages, which came with 0.4.6; use 1"
        )
    choices = eras.policies(known, release.neighbour("evict_policy"))
    if eviction not in choices:
        raise ValueError(f"eviction={eviction!r}: {release} has only {', '.join(choices)}")


def changed(release: Release, error: Exception) -> str:
    """Say that a release's tree is not what the adapter knows of others."""
    return (
        f"{release} cannot be driven: {error}. Its RadixCache is not what radixcheck knows of "
        "other releases: a fault of the adapter"
    )


sglang = SGLang
