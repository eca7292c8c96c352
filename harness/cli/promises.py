"""Whether a target is what it says: capabilities against methods and configuration."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from radixcheck.buffers import make_slots
from radixcheck.cli.bench import Bench, Trouble

ANNOUNCED = ("protected_size", "total_size", "reset", "dump")
"""Methods that are there only because a capability of the same name says so."""


def promises(bench: Bench) -> None:
    """The capabilities fit the configuration, and every method that they announce is there."""
    for key in ("page_size", "eviction"):
        wanted = bench.config.get(key, bench.source.arguments.get(key))
        told = getattr(bench.can, key)
        if wanted is not None and wanted != told:
            seen = f"the factory got {key}={wanted}, the capabilities say {told}"
            raise Trouble(seen, "capability", f"pass it on: Capabilities({key}={key}, ...)")
    for name in ANNOUNCED:
        if getattr(bench.can, name) != "absent" and not bench.has(name):
            seen = f"the capability {name} is declared, but there is no method {name}()"
            raise Trouble(seen, "capability", f'write it, or leave {name}="absent"')
    if bench.has("inc_ref") != bench.has("dec_ref"):
        raise Trouble("of inc_ref and dec_ref, one is missing", "adapter", "write it")
    _accepts_what_it_promises(bench)
    _takes_slots(bench)


def _accepts_what_it_promises(bench: Bench) -> None:
    target, can = bench.target, bench.can
    for promised, method, name in (
        (can.namespaces != "absent", target.match_prefix, "namespace"),
        (can.namespaces != "absent", target.insert, "namespace"),
        (can.priorities == "present", target.insert, "priority"),
    ):
        if promised and not _accepts(method, name):
            seen = f"{method.__name__} takes no {name}, although the capabilities promise it"
            raise Trouble(seen, "capability", f"add the parameter {name}, or promise none")


def _accepts(method: Callable[..., Any], name: str) -> bool:
    parameters = inspect.signature(method).parameters
    return name in parameters or any(
        each.kind in (each.VAR_KEYWORD, each.VAR_POSITIONAL) for each in parameters.values()
    )


def _takes_slots(bench: Bench) -> None:
    kind = bench.can.slots_as
    try:
        make_slots(kind, [])
    except ImportError as error:
        raise Trouble(f"slots_as={kind!r}, but {error}", "capability", f"install {kind}") from error
