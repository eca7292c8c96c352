"""A target that breaks another rule than the planted one, and sooner."""

from __future__ import annotations

from radixcheck.targets.radix import Radix


class AlwaysOff(Radix):
    """Counts one token too many."""

    def evictable_size(self) -> int:
        """Count the tokens that can be evicted, and one more."""
        return super().evictable_size() + 1
