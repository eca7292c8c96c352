"""The garbage collector, asked to look seldom.

A target and a model are trees whose nodes know their parents: nothing of them can be freed early,
and each look at them is in vain. It would cost a tenth of a run, and with torch loaded far more.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

THRESHOLDS = (20_000, 20, 100)
"""New objects until the collector looks at them, and how many such looks until one at older ones,
and at the oldest."""


@contextmanager
def rare_collections() -> Iterator[None]:
    """Until the end, or during the function that this decorates, collect garbage seldom."""
    before = gc.get_threshold()
    gc.set_threshold(*THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
