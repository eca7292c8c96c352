"""The level of requests: who owns each slot while requests come, run and go, and what is in it.

``judge``      apply an operation to the cache, compare, move the books on (start reading here)
``steps``      ... one function per kind of operation
``trial``      all that is known during one trace
``recorder``   stands between the cache and its pool, and keeps the ledger
``request``    what is known of one request
``content``    the KV buffer, and the tags in it
``surplus``    how much of an eviction was surely more than was wanted
``stream``     from a seed to operations
``situations`` what a run must have reached
``promises``   whether a cache is what it says
``program``    a run as Python
"""

from radixcheck.requests.judge import Checker
from radixcheck.requests.program import render
from radixcheck.requests.promises import unkept
from radixcheck.requests.situations import SITUATIONS
from radixcheck.requests.stream import generate

__all__ = ["SITUATIONS", "Checker", "generate", "render", "unkept"]
