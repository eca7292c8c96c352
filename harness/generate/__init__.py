"""Seeded traces: from one integer to the operations that caches have failed on.

``keys``     what is asked for: named shapes of fresh keys, and keys near to those that were used
before ``activities`` what is done: from a single match to a request's whole life under pressure
``mix``      how often: the plain mix, and swarm mixes that leave out half of everything ``stream``
all of it together (start reading here)

Nothing here looks at a target's answers, so that the same seed gives the same trace for every
target and every run.
"""

from radixcheck.generate.stream import generate

__all__ = ["generate"]
