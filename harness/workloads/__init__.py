"""Workloads: the requests that a service sends, as operations for any level and any driver.

========== =======================================================================
`stream`   from a workload to the operations of a trace (start reading here)
`traffic`  requests, and in which order they begin and end
`shapes`   five kinds of services: what their prompts share
`mooncake` what a real service has recorded
`room`     what a server believes to be stored
`trees`    traffic as operations of one level; so do `pools` and `servers`
========== =======================================================================

Nothing here looks at a target's answers, so that the same seed gives the same trace for every
target and every run.
"""

from radixcheck.workloads.stream import WORKLOADS, named, play
from radixcheck.workloads.traffic import Workload

__all__ = ["WORKLOADS", "Workload", "named", "play"]
