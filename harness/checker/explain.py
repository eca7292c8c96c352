"""Which rule a wrong match broke. Only looked for when the answer is known to be wrong, so clarity
comes first here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from radixcheck.checker.broken import Broken, counted, listed
from radixcheck.operations import Namespace
from radixcheck.reference.model import Model, Pages, Path
from radixcheck.reference.positions import Position


def explain_match(
    model: Model,
    pages: Pages,
    namespace: Namespace,
    path: Path,
    length: int,
    slots: Sequence[int],
    returned: Mapping[int, Position],
) -> Iterator[Broken]:
    """Yield the rules that a match broke by answering `length` and `slots` where `path` is what is
    stored.

    Args:
        returned: the position for which each (first) slot of a page was last offered by an
            insert, and not taken.
    """
    expected = len(path) * model.page_size
    if length % model.page_size:
        yield Broken("unaligned-match", f"a multiple of {model.page_size}", str(length))
    if len(slots) != length:
        yield Broken("length-mismatch", counted(length, "slot"), counted(len(slots), "slot"))
    yield from _wrong_slots(model, path, slots, returned)
    if length > expected:
        yield _phantom(model, pages, namespace, expected, length)
    elif length < expected and not length % model.page_size:
        yield Broken("missed-prefix", counted(expected), counted(length))


def _wrong_slots(
    model: Model, path: Path, slots: Sequence[int], returned: Mapping[int, Position]
) -> Iterator[Broken]:
    size = model.page_size
    for place, position in enumerate(path):
        page = list(slots[place * size : (place + 1) * size])
        if not page:
            return
        stored = (position.slots, *position.copies)
        if page not in [copy[: len(page)] for copy in stored]:
            swapped = returned.get(page[0]) is position and page[0] not in model.owner
            rule = "changed-slot" if swapped else "foreign-slot"
            expected = listed(model.slots(path))
            yield Broken(rule, expected, listed(slots), _whose(model, page, place * size, swapped))
            return


def _whose(model: Model, page: Sequence[int], start: int, swapped: bool) -> str:
    where = f"from token {start} on, slots {listed(page)}"
    if swapped:
        return f"{where} are a duplicate that an insert offered, not what the tree owned"
    owner = model.owner.get(page[0])
    if owner is None:
        return f"{where} are not in the tree"
    return f"{where} belong to the prefix {listed(model.key(owner))}"


def _phantom(
    model: Model, pages: Pages, namespace: Namespace, expected: int, length: int
) -> Broken:
    wanted = -(-length // model.page_size)
    for other in model.roots:
        if other != namespace and wanted <= len(pages) and len(model.find(pages, other)) >= wanted:
            detail = f"the surplus is stored under namespace {other!r}, not {namespace!r}"
            return Broken("namespace-leak", counted(expected), counted(length), detail)
    return Broken("phantom-prefix", counted(expected), counted(length))
