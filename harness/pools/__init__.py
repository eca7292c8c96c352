"""The level of pools: slots that are handed out and come back, and nothing stored in them.

``judge``      apply an operation to pool and ledger, compare, move the ledger on (start here)
``answers``    what an alloc answered, and which rules that breaks
``probe``      what a pool really does when its number of free slots is off
``stream``     from a seed to operations
``books``      what the caller of these operations holds
``situations`` what a run must have reached
``promises``   whether a pool is what it says
"""

from radixcheck.pools.judge import Checker
from radixcheck.pools.promises import unkept
from radixcheck.pools.situations import SITUATIONS
from radixcheck.pools.stream import generate

__all__ = ["SITUATIONS", "Checker", "generate", "unkept"]
