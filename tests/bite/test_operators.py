"""Operators make the mistakes that they are named after, and none that nobody could tell."""

from __future__ import annotations

import pytest

from radixcheck.bite.operators import BORROWED, OWN, OWN_WITHIN, changes

pytest.importorskip("cosmic_ray")


def made(source: str, operator: str) -> set[str]:
    """Return what an operator makes of a source."""
    return {each.made_in(source) for each in changes(source) if each.operator == operator}


MISTAKES: dict[str, tuple[str, set[str]]] = {
    "comparison": ("a is b\n", {"a is not b\n"}),
    "number": ("a = 3\n", {"a = 4\n", "a = 2\n"}),
    "arithmetic": ("a + b\n", {"a - b\n"}),
    "sign": ("a = -b\n", {"a = b\n"}),
    "keyword": ("a or b\n", {"a and b\n"}),
    "branches": ("while a:\n    b()\n", {"while not a:\n    b()\n"}),
    "loop": ("for a in b:\n    c(a)\n", {"for a in []:\n    c(a)\n"}),
    "membership": ("a not in b\n", {"a in b\n"}),
    "condition": ("a if b else c\n", {"a if True else c\n", "a if False else c\n"}),
    "operand": ("a and b() and c\n", {"b() and c\n", "a and c\n", "a and b()\n"}),
    "filter": ("[a for a in b if a]\n", {"[a for a in b]\n"}),
    "copy": ("list(a)\n", {"a\n"}),
    "arguments": ("f(a, b + 1)\n", {"f(b + 1, a)\n"}),
    "slice": ("a[:b]\n", {"a[:]\n", "a[:b + 1]\n", "a[:b - 1]\n", "a[b:]\n"}),
    "name": (
        "def f(node, leaf):\n    return node.hits\n",
        {"def f(node, leaf):\n    return leaf.hits\n"},
    ),
    "statement": ('def f():\n    """Do."""\n    g()\n', {'def f():\n    """Do."""\n    pass\n'}),
    "off-by-one": (
        "def f() -> int:\n    return n\n",
        {"def f() -> int:\n    return (n) + 1\n", "def f() -> int:\n    return (n) - 1\n"},
    ),
}
"""Per operator a source, and all that it makes of that."""


@pytest.mark.parametrize("operator", MISTAKES)
def test_an_operator_makes_what_it_is_named_after(operator: str) -> None:
    source, expected = MISTAKES[operator]
    assert expected == made(source, operator)


def test_every_operator_is_shown_at_work() -> None:
    assert {*BORROWED, *OWN, *OWN_WITHIN} == set(MISTAKES)


@pytest.mark.parametrize(
    "source",
    [
        "a: int | None\n",
        "A: TypeAlias = int | None\n",
        "def f(a: int | None) -> int | None: ...\n",
        "def f(a):\n    assert a is not None\n",
        '"""One of 2."""\n',
        "supports: ClassVar = [1, 2]\n",
        "def draw(a) -> str:\n    return 2 * str(a)\n",
    ],
)
def test_what_nobody_can_tell_is_left_alone(source: str) -> None:
    assert [] == list(changes(source))


def test_of_an_error_only_its_coming_counts() -> None:
    source = 'def f(a):\n    raise ValueError(f"{a + 1} of 2")\n'
    assert {"def f(a):\n    pass\n"} == {each.made_in(source) for each in changes(source)}


def test_a_mistake_is_made_once_whoever_makes_it() -> None:
    texts = [each.made_in("a = not b\n") for each in changes("a = not b\n")]
    assert len(set(texts)) == len(texts)


def test_a_name_that_has_no_value_yet_is_taken_for_none() -> None:
    source = "def f(node):\n    node.cut()\n    leaf = node\n    return leaf\n"
    expected = {source.replace("return leaf", "return node")}
    assert expected == made(source, "name")


def test_places_are_counted_in_characters() -> None:
    assert {'a = "é", 4\n', 'a = "é", 2\n'} == made('a = "é", 3\n', "number")
    assert {'f("é", b, a)\n', 'f(a, "é", b)\n'} == made('f("é", a, b)\n', "arguments")
