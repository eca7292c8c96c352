"""Capabilities: defaults, choices, and the overrides that a spec may ask for."""

from __future__ import annotations

from typing import Any, get_type_hints

import msgspec
import pytest

from radixcheck.capabilities import (
    CHOICES,
    RESERVED_CAPABILITIES,
    Capabilities,
    override,
)
from radixcheck.rules import RESERVED_RULES, RULES

META = {
    name: hint.__metadata__[0]
    for name, hint in get_type_hints(Capabilities, include_extras=True).items()
}


def test_the_defaults_fit_a_plain_tree() -> None:
    expected = {"page_size": 1, "eviction": "lru", "arguments": "given", "namespaces": "absent"}
    actual = msgspec.structs.asdict(Capabilities())
    assert expected == {name: actual[name] for name in expected}


@pytest.mark.parametrize("name", [name for name in CHOICES if name != "closed"])
def test_the_default_is_the_first_choice_unless_it_is_safer(name: str) -> None:
    default = getattr(Capabilities(), name)
    safer = {"deterministic": False, "evictable_size": "present"}
    assert default == safer.get(name, CHOICES[name][0])


@pytest.mark.parametrize("name", CHOICES)
def test_every_choice_is_accepted(name: str) -> None:
    changes: list[dict[str, Any]] = [{name: choice} for choice in CHOICES[name]]
    accepted = tuple(getattr(Capabilities(**change), name) for change in changes)
    assert CHOICES[name] == accepted


@pytest.mark.parametrize("name", CHOICES)
def test_what_is_no_choice_is_refused_with_the_choices(name: str) -> None:
    wrong: dict[str, Any] = {name: "sometimes"}
    with pytest.raises(ValueError) as caught:
        Capabilities(**wrong)
    expected = ", ".join(map(repr, CHOICES[name]))
    assert str(caught.value) == f"capability {name}='sometimes': choose one of {expected}"


@pytest.mark.parametrize("page_size", [0, -4])
def test_a_page_holds_a_token_at_least(page_size: int) -> None:
    wanted = f"page_size={page_size}: must be a whole number, 1 or more"
    with pytest.raises(ValueError, match=wanted):
        Capabilities(page_size=page_size)


def test_a_later_capability_cannot_be_declared_yet() -> None:
    assert RESERVED_CAPABILITIES.isdisjoint(Capabilities.__struct_fields__)
    threads: dict[str, Any] = {"threads": 8}
    with pytest.raises(TypeError, match="threads"):
        Capabilities(**threads)


def test_every_capability_describes_itself_and_bends_rules_that_exist() -> None:
    assert Capabilities.__struct_fields__ == tuple(META)
    assert all(meta.description.endswith(".") for meta in META.values())
    bent = {rule for meta in META.values() for rule in meta.extra["rules"]}
    assert bent - set(RULES) - RESERVED_RULES == set()


def test_an_override_changes_what_it_names_and_nothing_else() -> None:
    before = Capabilities(page_size=4, deltas="present")
    after = override(before, {"stamps": "matched"})
    assert after == Capabilities(page_size=4, deltas="present", stamps="matched")
    assert before == Capabilities(page_size=4, deltas="present")


def test_an_override_reads_text_as_the_type_of_the_capability() -> None:
    changes = {"evict_batch": "8", "resolution_s": "0.5", "closed": "false"}
    expected = Capabilities(evict_batch=8, resolution_s=0.5, closed=False)
    assert expected == override(Capabilities(), changes)


@pytest.mark.parametrize(
    "changes", [{"stamps": "always"}, {"page_size": 0}, {"evict_batch": "many"}, {"threads": 8}]
)
def test_an_override_out_of_range_is_a_value_error(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(changes))):
        override(Capabilities(), changes)
