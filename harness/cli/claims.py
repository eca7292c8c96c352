"""What a target must get right before it is worth fuzzing, in the order in which it is checked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from radixcheck.cli import plain
from radixcheck.cli.bench import Bench, Fault, Trouble, Unneeded
from radixcheck.cli.promises import promises
from radixcheck.registry import Source, TargetError
from radixcheck.trace import Config

Check: TypeAlias = Callable[[Bench], None]


class Claim(NamedTuple):
    """A check, and what it claims."""

    words: str
    check: Check
    vital: bool = False
    """Whether nothing else can be told while it is false."""


def opens(bench: Bench) -> None:
    """That there is a bench says it all."""


CLAIMS = (
    Claim("opens", opens, vital=True),
    Claim("says what it is", promises, vital=True),
    Claim("matches nothing when empty", plain.empty_match),
    Claim("lets an empty match be locked", plain.empty_handle),
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
    Claim("stores nothing when disabled", plain.disabled_stores_nothing),
)


class Tried(NamedTuple):
    """What came of one claim in every configuration."""

    claim: Claim
    trouble: Trouble | None = None
    config: Config | None = None
    """The configuration of the trouble."""
    unneeded: str = ""
    """Why the claim applies in none of them."""


def try_claims(source: Source) -> Iterator[Tried]:
    """Check every claim, in turn, up to a vital one that is false."""
    configs = source.configurations()
    for claim in CLAIMS:
        tried = _try(claim, source, configs)
        yield tried
        if tried.trouble is not None and claim.vital:
            return


def _try(claim: Claim, source: Source, configs: Sequence[Config]) -> Tried:
    reasons: list[str] = []
    for config in configs:
        try:
            claim.check(Bench(source, config))
        except Unneeded as reason:
            reasons.append(str(reason))
        except Trouble as trouble:
            return Tried(claim, trouble, config)
        except TargetError as error:
            fault: Fault = "cache" if error.fault == "target" else "adapter"
            return Tried(claim, Trouble(error.message, fault, error.hint), config)
    return Tried(claim, unneeded=reasons[0] if len(reasons) == len(configs) else "")
