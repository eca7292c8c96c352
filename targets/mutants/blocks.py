"""Bugs of block managers and indexes: tables of pages beside a tree, counts, lists of leaves."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import ClassVar
from zlib import crc32

from radixcheck.protocol import Match, Slots
from radixcheck.targets import radix
from radixcheck.targets.memory_liars import RadixArrays
from radixcheck.targets.mutants.catalogue import mutant
from radixcheck.targets.radix_paged import TOKEN_BYTES, Node, RadixPaged


class RadixListed(RadixPaged):
    """A correct tree that looks pages up in a flat table, as block managers do.

    A page is listed by all tokens up to its end, so that it is found without the tree::

        1 1         slots 8 9            match 1 1 7 7 5:  1 1 is listed, 1 1 7 7 is, no more
        1 1 7 7     slots 4 5
    """

    def reset(self) -> None:
        """Forget everything, the table included."""
        super().reset()
        self._pages: dict[Hashable, Slots] = {}

    def match_prefix(self, tokens: Sequence[int], namespace: tuple[str, ...] = ()) -> Match:
        """Match as far as pages are listed; the tree says what is to be locked."""
        match = super().match_prefix(tokens, namespace)
        prefixes = self._prefixes(self._root(namespace), self._key(tokens))
        slots = [slot for page in self._listed(prefixes) for slot in page]
        return Match(len(slots), slots, match.handle)

    def _listed(self, prefixes: Iterator[tuple[Node, bytes]]) -> Iterator[Slots]:
        for root, prefix in prefixes:
            page = self._pages.get(self._name(root, prefix))
            if page is None or not self._is_hit(page, prefix[-self._page_bytes :]):
                return
            yield page

    def _prefixes(self, root: Node, key: bytes, start: int = 0) -> Iterator[tuple[Node, bytes]]:
        """Yield the prefixes of `key` that end with a page, those of `start` bytes left out."""
        size = self._page_bytes
        return ((root, key[:end]) for end in range(start + size, len(key) + 1, size))

    def _name(self, root: Node, prefix: bytes) -> Hashable:
        return root, prefix

    def _is_hit(self, page: Slots, tokens: bytes) -> bool:
        return True

    def _hang(self, parent: Node, run: bytes, slots: Slots, priority: int) -> None:
        super()._hang(parent, run, slots, priority)
        for start, name in self._names(parent, run):
            self._list(name, slots[start : start + self.capabilities.page_size], run, start)

    def _remove(self, leaf: Node) -> Slots:
        assert leaf.parent is not None
        for start, name in self._names(leaf.parent, leaf.run):
            self._unlist(name, leaf.slots[start : start + self.capabilities.page_size])
        return super()._remove(leaf)

    def _names(self, parent: Node, run: bytes) -> Iterator[tuple[int, Hashable]]:
        """Yield for each page below `parent` its first token in `run`, and its name."""
        *above, root = self._covered(parent)
        key = b"".join(node.run for node in reversed(above))
        for root_too, prefix in self._prefixes(root, key + run, len(key)):
            start = (len(prefix) - len(key)) // TOKEN_BYTES - self.capabilities.page_size
            yield start, self._name(root_too, prefix)

    def _list(self, name: Hashable, page: Slots, run: bytes, start: int) -> None:
        self._pages[name] = page

    def _unlist(self, name: Hashable, page: Slots) -> None:
        del self._pages[name]


class ComparesTheLastPageOnly(RadixListed):
    """Leaves a page listed when it is given away, and takes it for a hit if the tokens that it
    holds now are those of the last page that is asked for::

        1 1 | 7 7   given away, and reused for   2 2 | 7 7:   1 1 7 7 hits the page of 2 2 7 7
    """

    def reset(self) -> None:
        """Forget everything, also what was written."""
        super().reset()
        self._written: dict[int, bytes] = {}

    def _is_hit(self, page: Slots, tokens: bytes) -> bool:
        return self._written.get(page[0]) == tokens

    def _list(self, name: Hashable, page: Slots, run: bytes, start: int) -> None:
        super()._list(name, page, run, start)
        first = start * TOKEN_BYTES
        self._written[page[0]] = run[first : first + self._page_bytes]

    def _unlist(self, name: Hashable, page: Slots) -> None:
        self._written.pop(page[0], None)


@mutant(
    "vllm-4764-popped-still-listed", "vLLM #4764", "phantom-prefix", "use-after-free", page_size=2
)
class LeavesTheEvictedListed(RadixListed):
    """Leaves a page that was evicted in the table."""

    def _unlist(self, name: Hashable, page: Slots) -> None:
        pass


@mutant("openvino-3722-trusted-hash", "openvino.genai #3722", "foreign-slot", "hash-mismatch")
class TrustsTheHash(RadixListed):
    """Lists pages by a hash of 4 bits and compares no tokens; the first of two keeps the place."""

    def match_prefix(self, tokens: Sequence[int], namespace: tuple[str, ...] = ()) -> Match:
        """Match as far as the tree goes, with the slots that the hashes name."""
        length, slots, node = RadixPaged.match_prefix(self, tokens, namespace)
        prefixes = self._prefixes(self._root(namespace), self._key(tokens)[: length * TOKEN_BYTES])
        pages = (self._pages.get(self._name(*prefix)) for prefix in prefixes)
        found = [page[0] if page else slot for page, slot in zip(pages, slots, strict=True)]
        return Match(length, found, node)

    def _name(self, root: Node, prefix: bytes) -> Hashable:
        return root, crc32(prefix) & 0xF

    def _list(self, name: Hashable, page: Slots, run: bytes, start: int) -> None:
        self._pages.setdefault(name, page)

    def _unlist(self, name: Hashable, page: Slots) -> None:
        if self._pages.get(name) == page:
            del self._pages[name]


@mutant("dynamo-11678-zombie-nodes", "Dynamo #11678", "retained-storage")
class LinksTheEvicted(RadixArrays):
    """Keeps a node that was evicted linked to its parent, where no match and no count sees it."""

    def reset(self) -> None:
        """Forget everything, links included."""
        super().reset()
        self._links: dict[radix.Node, list[radix.Node]] = {}

    def _remove(self, leaf: radix.Node) -> radix.Node:
        parent = super()._remove(leaf)
        self._links.setdefault(parent, []).append(leaf)
        return parent


@mutant("smg-946-duplicate-store", "smg #946", "size-drift")
class CountsDuplicates(RadixPaged):
    """Counts what is stored already once more."""

    def _adopt(self, path: list[Node], slots: Slots, owned_from: int, existing: int) -> None:
        self._counted_again += existing

    def total_size(self) -> int:
        """Count all that was ever stored anew, less what was evicted."""
        return super().total_size() + self._counted_again

    def reset(self) -> None:
        """Forget everything."""
        super().reset()
        self._counted_again = 0


@mutant("smg-2137-leaf-snapshot", "smg #2137", "orphaned-suffix", "lost-insert")
class ListsLeavesTooEarly(RadixPaged):
    """Leaves a leaf on the list of those to evict when it gets a child.

    ::

        listed --1--> leaf      becomes      listed --1--> leaf --2--> child, out of reach
    """

    promises: ClassVar = {"deltas": "absent"}

    def _hang(self, parent: Node, run: bytes, slots: Slots, priority: int) -> None:
        was_listed = self._may_evict(parent)
        super()._hang(parent, run, slots, priority)
        if was_listed:
            self._candidates.put(parent)
