"""A server that shows a Python target: which one, the configuration says under ``of``."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import msgspec

from radixcheck.buffers import make_slots, make_tokens, read_slots
from radixcheck.checker.calls import Calls
from radixcheck.protocol import Evicted, Refused
from radixcheck.registry import resolve
from radixcheck.targets.messages import METHODS, SIZES, VERSION


class Shown:
    """One cache, and the handles that were given out for it."""

    def __init__(self, config: dict[str, Any]) -> None:
        source = resolve(config.pop("of"))
        self.now = 0.0
        self.target = source.open(config, lambda: self.now)
        self.calls = Calls(self.target)
        self.handles: dict[int, Any] = {}
        self.can = self.target.capabilities

    def opened(self) -> dict[str, Any]:
        has = [name for name in METHODS if hasattr(self.target, name)]
        can = msgspec.to_builtins(self.can) | {"storage": "absent"}
        return {"methods": has, "capabilities": can}

    def answer(self, ask: dict[str, Any]) -> dict[str, Any]:
        self.now = ask.get("now", 0)
        for handle in ask.get("forget", ()):
            del self.handles[handle]
        try:
            return OPERATIONS[ask["op"]](self, ask) | self.sizes("present")
        except Refused as refusal:
            return {"refused": str(refusal)} | self.sizes("present")
        except Exception as error:
            return {"error": f"{type(error).__name__}: {error}"}

    def sizes(self, *presences: str) -> dict[str, Any]:
        told = [name for name in SIZES if getattr(self.can, name) in presences]
        return {name: getattr(self.target, name)() for name in told if hasattr(self.target, name)}


def match_prefix(shown: Shown, ask: dict[str, Any]) -> dict[str, Any]:
    tokens, namespace = make_tokens(ask["tokens"]), tuple(ask.get("namespace", ()))
    length, slots, shown.handles[ask["as"]] = shown.calls.match(tokens, namespace)
    return {"length": length, "slots": read_slots(slots)}


def insert(shown: Shown, ask: dict[str, Any]) -> dict[str, Any]:
    slots = make_slots(shown.can.slots_as, ask["slots"])
    namespace, rest = (
        tuple(ask.get("namespace", ())),
        (ask.get("priority", 0), ask.get("owned_from", 0)),
    )
    return {"existing": shown.calls.insert(make_tokens(ask["tokens"]), slots, namespace, *rest)}


def evict(shown: Shown, ask: dict[str, Any]) -> dict[str, Any]:
    freed = shown.target.evict(ask["num_tokens"])
    if isinstance(freed, Evicted):
        return {"groups": list(map(read_slots, freed.groups))}
    return {"slots": read_slots(freed)}


def dump(shown: Shown, ask: dict[str, Any]) -> dict[str, Any]:
    return {
        "nodes": [
            {"tokens": list(tokens), "slots": read_slots(slots), "locks": locks, "parent": parent}
            for tokens, slots, locks, parent in shown.target.dump()
        ]
    }


OPERATIONS: dict[str, Callable[[Shown, dict[str, Any]], dict[str, Any]]] = {
    "match_prefix": match_prefix,
    "insert": insert,
    "evict": evict,
    "inc_ref": lambda shown, ask: {"delta": shown.target.inc_ref(shown.handles[ask["handle"]])},
    "dec_ref": lambda shown, ask: {"delta": shown.target.dec_ref(shown.handles[ask["handle"]])},
    "reset": lambda shown, ask: shown.target.reset() or {},
    "dump": dump,
    "sizes": lambda shown, ask: shown.sizes("present", "walked"),
}

caches: list[Shown] = []
"""The one that was opened last, if any was."""


def answered(ask: dict[str, Any]) -> dict[str, Any]:
    """Answer one request."""
    match ask["op"]:
        case "hello":
            return {"version": VERSION}
        case "open":
            caches[:] = [Shown(ask["config"])]
            return caches[0].opened()
    return caches[0].answer(ask)


for line in sys.stdin:
    asked = json.loads(line)
    told = list(map(answered, asked)) if isinstance(asked, list) else answered(asked)
    print(json.dumps(told), flush=True)
