"""Which target a trace is replayed on: the one that was asked for, or with care the trace's own;
and whether it can be."""

from __future__ import annotations

import re
import shlex
from functools import cache

from radixcheck.hosts import Host
from radixcheck.registry import CONFIG_KEYS, OVERRIDABLE, TargetError, names
from radixcheck.trace import Trace


def spec_for(trace: Trace, target: str | None) -> str:
    """Return `target`, or else the spec of the target that `trace` was found on.

    A trace may come from anywhere, and a spec can name any code on this machine. So a trace's own
    is followed only to targets that are registered or come along, without arguments of their own.

    Raises:
        TargetError: there is none, or it may not be followed.
    """
    if target is not None:
        return target
    if trace.found is None:
        raise TargetError("the trace names no target", "add --target SPEC")
    spec = trace.found.target
    if trace.found.rule == "divergence":
        raise TargetError("it compares several targets", f"radixcheck diff {spec} --replay FILE")
    if not _is_harmless(spec):
        hint = f"if you trust it, add --target {shlex.quote(spec)}"
        raise TargetError(f"the trace's own target {spec!r} may be any code", hint)
    return spec


def _is_harmless(spec: str) -> bool:
    name, _, query = spec.removeprefix("requests:").partition("?")
    ours = name in _registered() or re.fullmatch(r"radixcheck\.targets(\.\w+)+:\w+", name)
    keys = {pair.partition("=")[0] for pair in query.split("&") if pair}
    return bool(ours) and keys <= OVERRIDABLE.union(CONFIG_KEYS)


@cache
def _registered() -> frozenset[str]:
    return frozenset(names())


def why_unfit(host: Host, trace: Trace) -> str:
    """Say why the target of `host` cannot take the configuration of `trace`; empty if it may.

    Only what configures a run is passed on to a factory, whatever else a trace may ask for.
    """
    source = host.source
    strange = [key for key in trace.config if key not in (*CONFIG_KEYS, *source.supports)]
    if strange:
        return f"{source.name} is not configured by {', '.join(strange)}"
    if trace.misuse and not _answers_misuse(host, trace):
        return f"{source.name} promises no answer to misuse"
    if trace.config.get("disable") and not source.accepts("disable"):
        return f"{source.name} cannot be disabled"
    if trace.found is not None and trace.found.rule in ("retained-storage", "device-leak"):
        return _why_not_weighed(host, trace, trace.found.rule)
    return ""


def _why_not_weighed(host: Host, trace: Trace, rule: str) -> str:
    arena, name = host.look(trace.config), host.source.name
    if rule == "device-leak":
        return "" if arena.counted else f"nobody counts the memory of {name}'s device"
    seen = getattr(arena.capabilities, "storage", "absent") == "present"
    return "" if seen else f"the memory of {name} cannot be looked at"


def _answers_misuse(host: Host, trace: Trace) -> bool:
    """Tell whether misuse says something: it was promised, or this is where it was found."""
    if trace.found is not None and trace.found.target.partition("?")[0] == host.source.name:
        return True
    return str(host.look(trace.config).capabilities.misuse) != "unspecified"
