"""Which target a trace is replayed on: the one that was asked for, or with care the trace's own."""

from __future__ import annotations

import re
import shlex
from functools import cache

from radixcheck.devices import allocator_of
from radixcheck.registry import CONFIG_KEYS, OVERRIDABLE, Source, TargetError, names, resolve
from radixcheck.trace import Trace

_resolve = cache(resolve)


def source_for(trace: Trace, target: str | None) -> Source:
    """Return the target called `target`, or else the one that `trace` was found on.

    A trace may come from anywhere, and a spec can name any code on this machine. So a trace's own
    is followed only to targets that are registered or come along, without arguments of their own.

    Raises:
        TargetError: there is none, it may not be followed, or it cannot be resolved.
    """
    if target is not None:
        return _resolve(target)
    if trace.found is None:
        raise TargetError("the trace names no target", "add --target SPEC")
    spec = trace.found.target
    if not _is_harmless(spec):
        hint = f"if you trust it, add --target {shlex.quote(spec)}"
        raise TargetError(f"the trace's own target {spec!r} may be any code", hint)
    return _resolve(spec)


def _is_harmless(spec: str) -> bool:
    name, _, query = spec.removeprefix("requests:").partition("?")
    ours = name in _registered() or re.fullmatch(r"radixcheck\.targets(\.\w+)+:\w+", name)
    keys = {pair.partition("=")[0] for pair in query.split("&") if pair}
    return bool(ours) and keys <= OVERRIDABLE.union(CONFIG_KEYS)


@cache
def _registered() -> frozenset[str]:
    return frozenset(names())


def why_unfit(source: Source, trace: Trace) -> str:
    """Say why `source` cannot take the configuration of `trace`; empty if it may.

    Only what configures a run is passed on to a factory, whatever else a trace may ask for.
    """
    strange = [key for key in trace.config if key not in (*CONFIG_KEYS, *source.supports)]
    if strange:
        return f"{source.name} is not configured by {', '.join(strange)}"
    if trace.misuse and not _answers_misuse(source, trace):
        return f"{source.name} promises no answer to misuse"
    if trace.config.get("disable") and not source.accepts("disable"):
        return f"{source.name} cannot be disabled"
    if trace.found is not None and trace.found.rule in ("retained-storage", "device-leak"):
        return _why_not_weighed(source, trace, trace.found.rule)
    return ""


def _why_not_weighed(source: Source, trace: Trace, rule: str) -> str:
    target = source.open(trace.config, lambda: 0)
    if rule == "device-leak":
        return "" if allocator_of(target) else f"nobody counts the memory of {source.name}'s device"
    seen = getattr(target.capabilities, "storage", "absent") == "present"
    return "" if seen else f"the memory of {source.name} cannot be looked at"


def _answers_misuse(source: Source, trace: Trace) -> bool:
    """Tell whether misuse says something: it was promised, or this is where it was found."""
    if trace.found is not None and trace.found.target.partition("?")[0] == source.name:
        return True
    return str(source.open(trace.config, lambda: 0).capabilities.misuse) != "unspecified"
