"""Which rule a wrong match broke. Only looked for when the answer is known to be wrong, so clarity
comes first here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from radixcheck.checker.broken import Broken, counted, listed
from radixcheck.operations import Namespace, Tokens
from radixcheck.reference.model import Found, Model


def explain_match(
    model: Model,
    key: Tokens,
    namespace: Namespace,
    found: Found,
    length: int,
    slots: Sequence[int],
    returned: Mapping[int, int],
) -> Iterator[Broken]:
    """Yield the rules that a match broke by answering `length` and `slots` where `found` is what
    is stored.

    Args:
        returned: the stored slot in whose place each slot was last offered by an insert, and not
            taken.
    """
    expected = found.length
    if length % model.page_size:
        yield Broken("unaligned-match", f"a multiple of {model.page_size}", str(length))
    if len(slots) != length:
        yield Broken("length-mismatch", counted(length, "slot"), counted(len(slots), "slot"))
    yield from _wrong_slots(model, found, slots, returned)
    if length > expected:
        yield _phantom(model, key, namespace, expected, length)
    elif length < expected and not length % model.page_size:
        yield Broken("missed-prefix", counted(expected), counted(length))


def _wrong_slots(
    model: Model, found: Found, slots: Sequence[int], returned: Mapping[int, int]
) -> Iterator[Broken]:
    size = model.page_size
    for start, copies in _pages(found, size):
        page = list(slots[start : start + size])
        if not page:
            return
        if page not in [copy[: len(page)] for copy in copies]:
            swapped = returned.get(page[0]) == copies[0][0] and page[0] not in model.owner
            rule = "changed-slot" if swapped else "foreign-slot"
            expected = listed(found.slots)
            yield Broken(rule, expected, listed(slots), _whose(model, page, start, swapped))
            return


def _pages(found: Found, size: int) -> Iterator[tuple[int, list[list[int]]]]:
    """Yield where each stored page begins, and the slots of every copy of it."""
    for position in found.path:
        begin = position.length - len(position.run)
        for start in range(0, len(position.run), size):
            copies = (position.slots, *position.copies)
            yield begin + start, [copy[start : start + size] for copy in copies]


def _whose(model: Model, page: Sequence[int], start: int, swapped: bool) -> str:
    where = f"from token {start} on, slots {listed(page)}"
    if swapped:
        return f"{where} are a duplicate that an insert offered, not what the tree owned"
    owner = model.owner.get(page[0])
    if owner is None:
        return f"{where} are not in the tree"
    return f"{where} belong to the prefix {listed(model.key(owner))}"


def _phantom(model: Model, key: Tokens, namespace: Namespace, expected: int, length: int) -> Broken:
    wanted = min(length, model.aligned(key))
    for other in model.roots:
        if other != namespace and model.find(key[:length], other).length >= wanted:
            detail = f"the surplus is stored under namespace {other!r}, not {namespace!r}"
            return Broken("namespace-leak", counted(expected), counted(length), detail)
    return Broken("phantom-prefix", counted(expected), counted(length))
