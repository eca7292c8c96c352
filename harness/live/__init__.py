"""A living cache: what is called on it is written down, and if asked for judged, while it serves.

``calls``     how a cache is called: our protocol, SGLang's family, or names of your own
``sglang``    what SGLang's caches are called with, and how their tree is walked
``taps``      the calls of one object, overheard and given back
``naming``    from calls to operations: names for tokens, namespaces and handles
``nodes``     what is stored at one moment, and the calls that store it again
``tape``      the last calls, and what was stored before them
``judging``   the ordinary checker, told what the living cache answered
``following`` a model that follows the calls, and keeps the last of them as operations
``requests``  from calls to a trace of whole requests
``recording`` `record`
``watching``  `watch`
"""

from radixcheck.live.calls import Call
from radixcheck.live.nodes import Node
from radixcheck.live.recording import Recording, record
from radixcheck.live.watching import Violated, Watch, watch

__all__ = ["Call", "Node", "Recording", "Violated", "Watch", "record", "watch"]
