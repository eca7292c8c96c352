"""The driver that needs nothing but a seed: a portfolio of plain and swarm mixes over every
configuration.

Short traces come first and come back often, since a shallow bug found in a short trace is also
shrunk quickly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from radixcheck.arena import Arena
from radixcheck.capabilities import AnyCapabilities
from radixcheck.trace import Trace

LENGTHS = (25, 50, 100, 200, 50, 400)
"""Operations per trace, in turn."""

DISABLED_EVERY = 24
"""One trace in this many is run on a disabled cache, where the target can be disabled."""


def proposals(seed: int, arenas: Sequence[Arena], *, misuse: bool = False) -> Iterator[Trace]:
    """Yield traces without end; the same seed and arenas yield the same traces."""
    place = 0
    while True:
        turn, which = divmod(place, len(arenas))
        arena = arenas[which]
        config, capabilities = arena.config, arena.capabilities
        if _can_be_disabled(capabilities) and place % DISABLED_EVERY == DISABLED_EVERY - 1:
            config = config | {"disable": True}
        operations = arena.level.generate(
            _own_seed(seed, place),
            capabilities,
            LENGTHS[turn % len(LENGTHS)],
            swarm=bool(turn % 2),
            misuse=misuse,
            capacity=arena.capacity,
        )
        yield Trace(operations, config, misuse)
        place += 1


def _can_be_disabled(capabilities: AnyCapabilities) -> bool:
    return getattr(capabilities, "disable", "absent") == "present"


def _own_seed(seed: int, place: int) -> int:
    """Mix both, so that neighbouring seeds share no trace."""
    return ((seed + 1) * 0x9E3779B97F4A7C15 + place * 0xD1B54A32D192ED03) & (2**63 - 1)
