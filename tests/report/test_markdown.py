"""The step summary, as GitHub takes it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from msgspec import structs

from radixcheck.report import markdown
from radixcheck.report.document import CasePart, Document, FindingPart
from radixcheck.report.markdown import LIMIT_BYTES, code, is_link

GITHUB_BYTES = 2**20


def read(document: Document) -> str:
    """Return what is written."""
    return markdown.dumps(document).decode()


def outside_code(text: str) -> str:
    """Return `text` without its fenced blocks."""
    return re.sub(r"^(`{3,})\w*\n.*?^\1$", "", text, flags=re.M | re.S)


def test_a_target_is_a_row(make: Callable[..., Document]) -> None:
    row = "| ✅ | <code>radix-first-release</code> | no violation | 1,234,567 | 890 | 12 s | 7 |"
    assert row in read(make()).splitlines()


def test_a_finding_is_folded_with_its_program(
    make: Callable[..., Document], found: FindingPart
) -> None:
    text = read(make([found]))
    assert f"```python\n{found.program.rstrip()}\n```" in text
    assert text.count("<details>") == text.count("</details>")


@pytest.mark.parametrize(
    ("changes", "flags", "told"),
    [
        ({"new": True}, "new", ""),
        ({"new": False}, "not new", ""),
        ({"new": False, "excused": True}, "not new", "It fails on the baseline too: no violation."),
        (
            {"shrunk": "partly"},
            "partly shrunk",
            "⚠️ Partly shrunk, since time was up&#59; radixcheck shrink goes on with it.",
        ),
        ({"shrunk": "not", "flaky": True}, "flaky, not shrunk", "⚠️ Not shrunk"),
    ],
)
def test_a_finding_says_what_it_is_worth(
    make: Callable[..., Document],
    found: FindingPart,
    changes: dict[str, Any],
    flags: str,
    told: str,
) -> None:
    text = read(make([structs.replace(found, **changes)]))
    assert (True, True) == (f"<i>{flags}</i></summary>" in text, told in text)


@pytest.mark.parametrize(
    ("cut_short", "behind"), [(1_204, "; 1,204 operations behind them were not judged"), (0, "")]
)
def test_known_failures_say_what_they_have_cut_short(
    make: Callable[..., Document], cut_short: int, behind: str
) -> None:
    line = f"They cut short 3 of 890 traces{behind}."
    assert line in read(make(cut_short=cut_short)).splitlines()


def test_a_canary_owes_no_situation(make: Callable[..., Document]) -> None:
    text = read(make(canary=True, words="found", missing=("match-misses",)))
    assert (False, True) == ("was never there" in text, "(the canary) | found |" in text)


def test_situations_are_a_table(make: Callable[..., Document]) -> None:
    row = "| <code>match-misses</code> | a match finds nothing | yes | 10,000 |"
    assert row in read(make()).splitlines()


def test_replayed_traces_are_a_table(make: Callable[..., Document]) -> None:
    case = CasePart("a.jsonl", "passed", "was phantom-prefix")
    row = "| ✅ | <code>a&#46;jsonl</code> | was phantom-prefix |"
    assert row in read(make(cases=(case,))).splitlines()


@pytest.mark.parametrize("size", [500, 20_000])
def test_a_thousand_findings_fit_what_github_takes(
    make: Callable[..., Document], found: FindingPart, size: int
) -> None:
    many = [structs.replace(found, program="é" * size, operation=str(each)) for each in range(1000)]
    written = markdown.dumps(make(many))
    assert GITHUB_BYTES > LIMIT_BYTES >= len(written)
    left = re.search(r"([\d,]+) more block", written.decode())
    assert left is not None
    assert 1000 + 3 == int(left[1].replace(",", "")) + written.count(b"```python")


def test_an_attack_is_neither_tag_nor_link_nor_mention_nor_cell(attack: Document) -> None:
    text = outside_code(read(attack))
    tags = {each.lower() for each in re.findall(r"<\s*/?\s*(\w+)", text)}
    assert {"details", "summary", "code", "b", "a"} == tags
    assert ["https&#58;//example&#46;org/&#63;&#60;b&#62;&#38;'&#34;"] == re.findall(
        r'href="([^"]*)"', text
    )
    assert set() == set(text) & set("@[]`*")


def test_a_program_cannot_end_its_fence(make: Callable[..., Document], found: FindingPart) -> None:
    text = read(make([structs.replace(found, program="a\n````\n# b")]))
    assert "`````python\na\n````\n# b\n`````" in text


def test_code_keeps_a_table_together() -> None:
    assert "<code>a&#124;b c&#60;d</code>" == code("a|b\nc<d")


@pytest.mark.parametrize(
    ("address", "linked"),
    [
        ("https://example.org/7", True),
        ("http://example.org", True),
        ("javascript:alert(1)", False),
        ("data:text/html,x", False),
        ("https:alert", False),
        ("https://[", False),
        ("#7", False),
        ("https://a\u202eb", False),
    ],
)
def test_only_addresses_of_the_web_are_linked(address: str, linked: bool) -> None:
    assert linked == is_link(address)
