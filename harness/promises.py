"""Whether a target is what it says: its capabilities against its configuration, methods and
signatures.

What is broken here is the adapter's: no trace could tell it from a bug of the cache.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

from radixcheck.buffers import make_slots
from radixcheck.capabilities import AnyCapabilities
from radixcheck.protocol import Target

ANNOUNCED = ("protected_size", "total_size", "reset", "dump")
"""Methods that are there only because a capability of the same name says so."""


class Unkept(NamedTuple):
    """A promise that a target does not keep."""

    seen: str
    fault: Literal["capability", "adapter"]
    """``capability`` or ``adapter``: which of the two to mend."""
    hint: str


def unkept(target: Target, config: Mapping[str, Any]) -> Iterator[Unkept]:
    """Yield what does not fit together about a target that was opened with `config`."""
    can = target.capabilities
    for key in ("page_size", "eviction"):
        wanted, told = config.get(key), getattr(can, key)
        if wanted is not None and wanted != told:
            seen = f"the factory got {key}={wanted}, the capabilities say {told}"
            yield Unkept(seen, "capability", f"pass it on: Capabilities({key}={key}, ...)")
    for name in ANNOUNCED:
        if getattr(can, name) != "absent" and not hasattr(target, name):
            seen = f"the capability {name} is declared, but there is no method {name}()"
            yield Unkept(seen, "capability", f'write it, or leave {name}="absent"')
    if hasattr(target, "inc_ref") != hasattr(target, "dec_ref"):
        yield Unkept("of inc_ref and dec_ref, one is missing", "adapter", "write it")
    for promised, method, name in (
        (can.namespaces != "absent", target.match_prefix, "namespace"),
        (can.namespaces != "absent", target.insert, "namespace"),
        (can.priorities == "present", target.insert, "priority"),
    ):
        if promised and not _accepts(method, name):
            seen = f"{method.__name__} takes no {name}, although the capabilities promise it"
            yield Unkept(seen, "capability", f"add the parameter {name}, or promise none")
    yield from cannot_be_made(can)


def cannot_be_made(can: AnyCapabilities) -> Iterator[Unkept]:
    """Yield why slots of the promised type, on the promised device, cannot be made here."""
    try:
        make_slots(can.slots_as, [], can.device if can.slots_as == "torch" else None)
    except ImportError as error:
        seen = f"slots_as={can.slots_as!r}, but {error}"
        yield Unkept(seen, "capability", f"install {can.slots_as}")
    except (RuntimeError, AssertionError) as error:
        seen = f"device={can.device!r} is not there: {str(error).partition(chr(10))[0]}"
        yield Unkept(seen, "capability", "choose a device that this machine has, such as cpu")


def _accepts(method: Callable[..., Any], name: str) -> bool:
    parameters = inspect.signature(method).parameters
    return name in parameters or any(
        each.kind in (each.VAR_KEYWORD, each.VAR_POSITIONAL) for each in parameters.values()
    )
