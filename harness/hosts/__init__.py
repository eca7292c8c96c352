"""Hosts: where a target lives while it is judged.

``host``      what the loop and the commands ask of any of them (start reading here)
``here``      in this process, at full speed; ``frames`` tells a target's frames from ours
``isolated``  in a worker, which may die of it: ``process`` is the worker as its parent sees it,
              ``worker`` what runs there, ``channel`` and ``wire`` what passes between the two,
              ``life`` and ``deaths`` what the system does, and what is said, when one dies
``lockstep``  several hosts side by side, on the same traces
"""

from radixcheck.hosts.here import Here
from radixcheck.hosts.host import Host
from radixcheck.hosts.isolated import Isolated, Limits

__all__ = ["Here", "Host", "Isolated", "Limits"]
