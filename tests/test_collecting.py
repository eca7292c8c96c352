"""The garbage collector looks seldom during a run, and as before afterwards."""

from __future__ import annotations

import gc
from contextlib import suppress

from radixcheck.collecting import THRESHOLDS, rare_collections


def test_the_collector_looks_seldom_until_the_end_however_it_comes() -> None:
    before, during = gc.get_threshold(), None
    with suppress(KeyboardInterrupt), rare_collections():
        during = gc.get_threshold()
        raise KeyboardInterrupt
    assert (THRESHOLDS, before) == (during, gc.get_threshold())
