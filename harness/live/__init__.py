"""A living cache or pool: what is called on it is written down, and if asked for judged, while it
serves.

``calls``     how a cache is called: our protocol, or names of your own
``sglang``    what SGLang's caches are called with, and how their tree is walked
``served``    how pools and caches of requests are called
``taps``      the calls of one object, overheard and given back
``naming``    from calls to operations: names for tokens, namespaces and handles
``nodes``     what is stored at one moment, and the calls that store it again
``tape``      the last calls, and what was stored before them
``judging``   the ordinary checker, told what the living cache answered
``following`` a model that follows the calls, and keeps the last of them as operations
``requests``  from calls to a trace of whole requests, for SGLang's caches
``reading``   calls of pools and of requests, with names for what they are about
``ledgers``   the ledger of a pool, told what the living one answered
``books``     ... and the books of requests
``writing``   from these calls to operations
``filing``    a trace file that grows
``recording`` `record`
``watching``  `watch`
"""

from radixcheck.live.calls import Call
from radixcheck.live.nodes import Node
from radixcheck.live.recording import Recording, record
from radixcheck.live.watching import Violated, Watch, watch

__all__ = ["Call", "Node", "Recording", "Violated", "Watch", "record", "watch"]
