"""What the model stores at one moment, as edges that can be drawn."""

from __future__ import annotations

from collections.abc import Mapping

from radixcheck.finding import Edge, Snapshot
from radixcheck.operations import Tokens
from radixcheck.reference.model import Model
from radixcheck.reference.positions import Handle, Position, only_child


def picture(model: Model, handles: Mapping[str, Handle]) -> Snapshot:
    """Fold the positions of `model` into edges, cut where the tree branches, locks change or a
    handle ends."""
    names: dict[Position, list[str]] = {}
    for name, handle in handles.items():
        if handle.alive and handle.end is not None:
            names.setdefault(handle.end, []).append(name)
    return Snapshot({namespace: _edges(root, names) for namespace, root in model.roots.items()})


def _edges(above: Position, names: Mapping[Position, list[str]]) -> tuple[Edge, ...]:
    # Post-order with an explicit stack: a stored key may be longer than Python's recursion limit.
    runs = {top: _run(top, names) for top in _tops(above, names)}
    drawn: dict[Position, Edge] = {}
    for top in reversed(runs):
        run = runs[top]
        drawn[top] = Edge(
            _tokens(run),
            tuple(slot for position in run for slot in position.slots),
            _locks(run[-1]),
            tuple(drawn[child] for child in run[-1].children.values()),
            tuple(names.get(run[-1], ())),
        )
    return tuple(drawn[child] for child in above.children.values())


def _tops(above: Position, names: Mapping[Position, list[str]]) -> list[Position]:
    """Return the first position of every edge, parents before children."""
    found: list[Position] = []
    stack = list(above.children.values())
    while stack:
        top = stack.pop()
        found.append(top)
        stack.extend(_run(top, names)[-1].children.values())
    return found


def _run(top: Position, names: Mapping[Position, list[str]]) -> list[Position]:
    run = [top]
    while (below := only_child(run[-1])) is not None:
        if (
            run[-1] in names
            or run[-1].cover != bool(below.cover)
            or bool(below.slots) != bool(top.slots)
        ):
            break
        run.append(below)
    return run


def _locks(position: Position) -> int:
    """Count the locks that cover a position: those that end there, and those below."""
    stack, locks = [position], 0
    while stack:
        each = stack.pop()
        covered = [child for child in each.children.values() if child.cover]
        locks += each.cover - len(covered)
        stack.extend(covered)
    return locks


def _tokens(run: list[Position]) -> Tokens:
    return tuple(token for position in run for token in position.run)
