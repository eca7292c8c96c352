"""``radixcheck smoke``: each way to get an adapter wrong is told apart from a bug of the cache."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import msgspec
import pytest
from typer.testing import Result

from radixcheck.capabilities import Capabilities
from radixcheck.claims import Tried
from radixcheck.hosts import Here
from radixcheck.protocol import Evicted, Match
from radixcheck.registry import resolve
from radixcheck.targets import radix as home
from radixcheck.targets.honest import HONEST
from radixcheck.targets.radix import Radix
from radixcheck.targets.radix_paged import RadixPaged

Call: TypeAlias = Callable[..., Result]
Target: TypeAlias = Callable[..., Any]


def altered(base: Target, **changes: Any) -> Target:
    """Make a factory whose targets have other methods and capabilities than those of `base`."""

    class Altered(base):  # type: ignore[misc, valid-type]  # given at run time
        def __init__(self, *arguments: Any, **keywords: Any) -> None:
            super().__init__(*arguments, **keywords)
            told = {name: value for name, value in changes.items() if not callable(value)}
            inside: dict[str, Any] = self.__dict__
            inside["capabilities"] = msgspec.structs.replace(inside["capabilities"], **told)

    for name, method in changes.items():
        if callable(method):
            setattr(Altered, name, method)
    return Altered


def bare(**changes: Any) -> Target:
    """Make a factory whose targets have no more than they must, but for `changes`."""
    told = {name: value for name, value in changes.items() if not callable(value)}
    methods = {name: value for name, value in changes.items() if callable(value)}

    class Bare:
        def __init__(self) -> None:
            self.capabilities = Capabilities(**told)
            inside = Radix()
            self.match_prefix, self.insert = inside.match_prefix, inside.insert

    for name, method in methods.items():
        setattr(Bare, name, method)
    return Bare


def troubles(monkeypatch: pytest.MonkeyPatch, factory: Target, spec: str = "") -> list[Tried]:
    """Check every claim about what `factory` makes, and return those that are false."""
    monkeypatch.setattr(home, "Altered", factory, raising=False)
    source = resolve(f"radixcheck.targets.radix:Altered{spec}")
    return [tried for tried in Here(source).claims() if tried.trouble is not None]


def first(monkeypatch: pytest.MonkeyPatch, factory: Target, spec: str = "") -> tuple[str, str, str]:
    """Return the first claim that is false: its words, whose fault that is, and the hint."""
    tried, *_ = troubles(monkeypatch, factory, spec)
    assert tried.trouble is not None
    return tried.claim.words, tried.trouble.fault, tried.trouble.hint


# ---- adapters that are wrong ---------------------------------------------------------------


def answers(change: Callable[[Match], Any]) -> Callable[..., Any]:
    """Make a match that answers `change` of the right answer."""

    def match_prefix(self: Any, tokens: Sequence[int], namespace: tuple[str, ...] = ()) -> Any:
        return change(Radix.match_prefix(self, tokens, namespace))

    return match_prefix


def inserts(change: Callable[[int, int], Any]) -> Callable[..., Any]:
    """Make an insert that answers `change` of the key's length and the right answer."""

    def insert(
        self: Any,
        tokens: Sequence[int],
        slots: Any,
        namespace: tuple[str, ...] = (),
        priority: int = 0,
        owned_from: int = 0,
    ) -> Any:
        return change(len(tokens), Radix.insert(self, tokens, slots, namespace))

    return insert


def evicts(change: Callable[[Evicted], Any]) -> Callable[..., Any]:
    """Make an eviction that answers `change` of the right answer."""
    return lambda self, num_tokens: change(Radix.evict(self, num_tokens))


ONE = Radix()
EMPTY, FINDS = "matches nothing when empty", "match finds it, with the same slots"
COUNTS, EVICTS = "insert tells what was stored before", "does not evict what is locked"

WRONG_ADAPTERS: dict[str, tuple[Target, tuple[str, str, str]]] = {
    "no answer": (
        altered(Radix, match_prefix=answers(lambda match: None)),
        (EMPTY, "adapter", "where nothing matches, answer Match(0, [], handle of the root)"),
    ),
    "slots and node": (
        altered(Radix, match_prefix=answers(lambda match: (match.slots, match.handle))),
        (EMPTY, "adapter", "for (slots, node) answer Match(len(slots), slots, node)"),
    ),
    "None for a length": (
        altered(Radix, match_prefix=answers(lambda m: (m.length or None, m.slots, m.handle))),
        (EMPTY, "adapter", "the length is a number also where nothing matches: 0"),
    ),
    "None for slots": (
        altered(Radix, match_prefix=answers(lambda match: match._replace(slots=None))),
        (
            EMPTY,
            "adapter",
            "where nothing matches, the slots are empty, not None: Match(0, [], handle)",
        ),
    ),
    "slots in two dimensions": (
        altered(Radix, match_prefix=answers(lambda match: match._replace(slots=[match.slots]))),
        (EMPTY, "adapter", "answer one dimension, such as slots.flatten() or slots[0]"),
    ),
    "no handle of an empty match": (
        altered(
            Radix,
            match_prefix=answers(lambda m: m if m.length else m._replace(handle=None)),
        ),
        (
            "lets an empty match be locked",
            "adapter",
            "answer the root, or let inc_ref and dec_ref do nothing for it",
        ),
    ),
    "insert answers what is new": (
        altered(Radix, insert=inserts(lambda length, existing: length - existing)),
        (COUNTS, "adapter", "answer the tokens stored before, not those that are new"),
    ),
    "insert answers nothing": (
        altered(Radix, insert=inserts(lambda length, existing: None)),
        (COUNTS, "adapter", "return how many leading tokens were stored before: 0 for a new key"),
    ),
    "insert takes no slots": (
        altered(Radix, insert=lambda self, tokens: 0),
        (
            COUNTS,
            "adapter",
            "the protocol has insert(tokens, slots, namespace=(), priority=0, owned_from=0)",
        ),
    ),
    "tokens for slots": (
        altered(
            Radix,
            insert=lambda self, tokens, slots: Radix.insert(self, tokens, list(tokens)),
        ),
        (FINDS, "adapter", "store the slots that insert is given"),
    ),
    "a count of evicted tokens": (
        altered(Radix, evict=evicts(lambda evicted: sum(map(len, evicted.groups)))),
        (
            EVICTS,
            "adapter",
            "answer the freed slots, not their number: collect them where the cache frees them",
        ),
    ),
    "one cache for all": (
        lambda: ONE,
        (
            "shares nothing with a second cache",
            "adapter",
            "build a new cache in the factory, share no class attribute",
        ),
    ),
    "a delta of the wrong sign": (
        altered(Radix, inc_ref=lambda self, handle: -Radix.inc_ref(self, handle)),
        (
            "sizes follow inserts and locks",
            "adapter",
            "the change of the evictable size: below 0 for inc_ref, above for dec_ref",
        ),
    ),
    "a delta that is promised and not told": (
        altered(Radix, dec_ref=lambda self, handle: Radix.dec_ref(self, handle) and None),
        (
            "sizes follow inserts and locks",
            "adapter",
            "the change of the evictable size: below 0 for inc_ref, above for dec_ref",
        ),
    ),
    "a capability without its method": (
        bare(dump="present"),
        ("says what it is", "capability", 'write it, or leave dump="absent"'),
    ),
    "a page size that is not passed on": (
        altered(RadixPaged, page_size=1),
        ("says what it is", "capability", "pass it on: Capabilities(page_size=page_size, ...)"),
    ),
    "a match that takes no namespace": (
        altered(RadixPaged, match_prefix=lambda self, tokens: Match(0, [], None)),
        ("says what it is", "capability", "add the parameter namespace, or promise none"),
    ),
    "a lock that cannot be given back": (
        bare(inc_ref=lambda self, handle: None),
        ("says what it is", "adapter", "write it"),
    ),
    "namespaces that nobody takes": (
        altered(Radix, namespaces="one"),
        ("keeps namespaces apart", "capability", "take namespaces, or do not promise them"),
    ),
}


@pytest.mark.parametrize("wrong", WRONG_ADAPTERS)
def test_a_wrong_adapter_is_told_whose_fault_it_is_and_what_to_do(
    monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    factory, expected = WRONG_ADAPTERS[wrong]
    assert expected == first(monkeypatch, factory)


# ---- caches that are wrong -----------------------------------------------------------------


def raises(self: Any, num_tokens: int) -> Any:
    """Fail as a cache does, in a file that is not the adapter's."""
    raise KeyError("no such node")


WRONG_CACHES: dict[str, tuple[Target, str]] = {
    "stores nothing": (altered(Radix, insert=lambda self, tokens, slots: 0), COUNTS),
    "locks protect nothing": (
        bare(
            inc_ref=lambda self, handle: None,
            dec_ref=lambda self, handle: None,
            evict=lambda self, num_tokens: [1, 2],
        ),
        EVICTS,
    ),
    "raises": (altered(Radix, evict=raises), EVICTS),
    "forgets nothing": (
        altered(Radix, reset=lambda self: None if hasattr(self, "_root") else Radix.reset(self)),
        "forgets all in a reset",
    ),
}


@pytest.mark.parametrize("wrong", WRONG_CACHES)
def test_a_wrong_cache_is_not_blamed_on_the_adapter(
    monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    factory, words = WRONG_CACHES[wrong]
    assert (words, "cache") == first(monkeypatch, factory)[:2]


@pytest.mark.parametrize(
    "spec", ["radix", "radix-paged", "radix-paged?longest_match=n", "radix-first-release"]
)
def test_a_target_that_is_right_in_plain_calls_passes_every_claim(spec: str) -> None:
    assert [] == [tried for tried in Here(resolve(spec)).claims() if tried.trouble is not None]


def test_an_honest_near_miss_is_never_blamed() -> None:
    names = {factory.__name__ for factory in HONEST.values()}
    sources = {name: resolve(f"radixcheck.targets.honest:{name}") for name in names}
    blamed = {
        name
        for name, source in sources.items()
        for tried in Here(replace(source, supports={"page_size": [1, 4]})).claims()
        if tried.trouble is not None
    }
    assert set() == blamed


def test_what_a_target_lacks_is_told_and_not_blamed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(home, "Altered", bare(), raising=False)
    tried = Here(resolve("radixcheck.targets.radix:Altered")).claims()
    unneeded = {each.claim.words: each.unneeded for each in tried if each.unneeded}
    assert (
        "it tells no size: write evictable_size()",
        "there is no inc_ref and no dec_ref",
        "there is no evict",
    ) == (
        unneeded["sizes follow inserts and locks"],
        unneeded["lets an empty match be locked"],
        unneeded["evict frees exactly what was stored"],
    )


# ---- the command ---------------------------------------------------------------------------


def test_a_right_target_is_fuzzed_after_its_checks(call: Call) -> None:
    result = call("smoke", "radix", "--seed", "3", "--max-ops", "20000")
    assert (0, 14, 2) == (
        result.exit_code,
        result.stdout.count("\n  OK    "),
        result.stdout.count("\n  -     "),
    )
    assert "✔ radix: no violation" in result.stdout


def test_a_bug_that_plain_calls_miss_is_found_by_the_fuzz(call: Call) -> None:
    result = call("smoke", "radix-first-release", "--seed", "3", "-x", "-q")
    assert (1, False) == (result.exit_code, "FAILED" in result.stdout)


def test_a_wrong_adapter_is_not_fuzzed(call: Call) -> None:
    result = call("smoke", "./cache.py:BadAnswers")
    assert (2, True, False) == (
        result.exit_code,
        "FAILED  matches nothing when empty" in result.stdout,
        "traces" in result.stdout,
    )


def test_the_same_hint_is_given_once(call: Call) -> None:
    result = call("smoke", "./cache.py:BadAnswers", "-q")
    hint = "where nothing matches, answer Match"
    assert (1, True) == (result.stdout.count(hint), "        as above" in result.stdout)


def test_a_target_that_cannot_open_has_nothing_else_checked(call: Call) -> None:
    result = call("smoke", "./cache.py:CannotOpen", "-q")
    assert (2, 1) == (result.exit_code, result.stdout.count("FAILED"))
    assert "no [bold]GPU[/bold]" in result.stdout


def test_no_fuzz_is_announced_for_a_target_that_cannot_open(call: Call) -> None:
    result = call("smoke", "./cache.py:CannotRead")
    assert (2, False) == (result.exit_code, "The fuzz below" in result.stdout)


@pytest.mark.parametrize("command", ["smoke", "run"])
def test_a_cache_that_ends_the_process_in_a_call_is_at_fault(call: Call, command: str) -> None:
    result = call(command, "./cache.py:Leaves", "--seed", "3", "-x")
    assert (1, True) == (result.exit_code, "unexpected-error" in result.stdout)


def test_a_cache_that_refuses_an_insert_is_not_blamed_and_what_was_not_tried_is_told(
    call: Call,
) -> None:
    result = call("smoke", "./cache.py:Tiny", "--seed", "3", "--max-ops", "100")
    told = "match finds it, with the same slots: it refused an insert: full"
    assert (False, True) == ("FAILED" in result.stdout, told in " ".join(result.stdout.split()))


@pytest.mark.parametrize("factory", [Radix, RadixPaged])
def test_a_cache_that_a_sweep_disables_owes_only_that_it_stores_nothing(
    monkeypatch: pytest.MonkeyPatch, factory: Target
) -> None:
    swept: Any = altered(factory)
    swept.supports = {"disable": [False, True]}
    assert [] == troubles(monkeypatch, swept)
    monkeypatch.setattr(home, "Altered", swept)
    told = {tried.claim.words: tried.unneeded for tried in _claims("?disable=true")}
    needed = {words for words, unneeded in told.items() if not unneeded}
    assert {"opens", "stores nothing when disabled"} < needed
    assert "it is disabled" == told["match finds it, with the same slots"]


def _claims(spec: str) -> list[Tried]:
    return [*Here(resolve(f"radixcheck.targets.radix:Altered{spec}")).claims()]
