"""What a target must get right before it is worth fuzzing, in the order in which it is checked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any, NamedTuple, TypeAlias

from radixcheck.claims import plain, scripts
from radixcheck.claims.bench import Bench, Fault, Trouble, Unneeded
from radixcheck.claims.promises import promises
from radixcheck.claims.scripts import Stand
from radixcheck.levels import level_of
from radixcheck.registry import Source, TargetError
from radixcheck.trace import Config

Check: TypeAlias = Callable[[Any], None]
"""Called with a `Bench`, or a `Stand`."""


class Claim(NamedTuple):
    """A check, and what it claims."""

    words: str
    check: Check
    vital: bool = False
    """Whether nothing else can be told while it is false."""
    of_disabled: bool = False
    """Whether it holds of a cache that is configured to store nothing, too."""


def opens(bench: Bench | Stand) -> None:
    """That there is a bench says it all."""


OPENS = Claim("opens", opens, vital=True, of_disabled=True)
FIRST = (OPENS, Claim("says what it is", promises, vital=True, of_disabled=True))

CLAIMS = (
    *FIRST,
    Claim("matches nothing when empty", plain.empty_match, of_disabled=True),
    Claim("lets an empty match be locked", plain.empty_handle, of_disabled=True),
    Claim("insert tells what was stored before", plain.insert_counts),
    Claim("match finds it, with the same slots", plain.match_finds),
    Claim("shares nothing with a second cache", plain.own_state, vital=True),
    Claim("match ends where the key parts", plain.match_parts),
    Claim("stores whole pages only", plain.whole_pages),
    Claim("keeps copies, not the caller's buffers", plain.keeps_copies),
    Claim("sizes follow inserts and locks", plain.sizes_follow),
    Claim("does not evict what is locked", plain.locks_protect),
    Claim("evict frees exactly what was stored", plain.evict_frees),
    Claim("keeps namespaces apart", plain.namespaces_part),
    Claim("forgets all in a reset", plain.reset_forgets),
    Claim("stores nothing when disabled", plain.disabled_stores_nothing, of_disabled=True),
)


class Tried(NamedTuple):
    """What came of one claim in every configuration."""

    claim: Claim
    trouble: Trouble | None = None
    config: Config | None = None
    """The configuration of the trouble."""
    unneeded: str = ""
    """Why the claim applies in none of them."""


BY_LEVEL: dict[str, tuple[Callable[[Source, Config], Any], Sequence[Claim]]] = {
    "tree": (Bench, CLAIMS),
    "pool": (Stand, (*FIRST, *(Claim(*each) for each in scripts.OF_POOLS.items()))),
    "requests": (Stand, (*FIRST, *(Claim(*each) for each in scripts.OF_REQUESTS.items()))),
}
"""What a target of each level is put on, and what it is asked there."""


def try_claim(source: Source, number: int) -> Tried | None:
    """Check one claim, counted from 0; None if there are no more."""
    configs = source.configurations()
    bench, claims = BY_LEVEL[_level(source, configs[0])]
    return _try(claims[number], bench, source, configs) if number < len(claims) else None


def try_claims(try_one: Callable[[int], Tried | None]) -> Iterator[Tried]:
    """Check every claim, in turn, up to a vital one that is false."""
    for number in count():
        if (tried := try_one(number)) is None:
            return
        yield tried
        if tried.trouble is not None and tried.claim.vital:
            return


def _level(source: Source, config: Config) -> str:
    """Name the level of a target; of one that does not open, the level whose claims say so."""
    try:
        return level_of(source.open(config, lambda: 0)).name
    except TargetError:
        return "tree"


def _try(
    claim: Claim,
    bench: Callable[[Source, Config], Any],
    source: Source,
    configs: Sequence[Config],
) -> Tried:
    configs = [each for each in configs if claim.of_disabled or not each.get("disable")]
    reasons = [] if configs else ["it is disabled"]
    for config in configs:
        try:
            claim.check(bench(source, config))
        except Unneeded as reason:
            reasons.append(str(reason))
        except Trouble as trouble:
            return Tried(claim, trouble, config)
        except TargetError as error:
            fault: Fault = "cache" if error.fault == "target" else "adapter"
            return Tried(claim, Trouble(error.message, fault, error.hint), config)
    return Tried(claim, unneeded=reasons[0] if len(reasons) >= len(configs) else "")
