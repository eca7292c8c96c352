"""The page: nothing in it escapes, and a browser shows it without a complaint.

The tests with a browser need Chromium: ``apt-get install chromium``, then
``pytest tests/report/test_page.py``.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import structs

from radixcheck.report import page
from radixcheck.report.document import Document, FindingPart, encode

_place = Path(__file__).with_name("browser.py")  # folders of tests are no packages
_spec = importlib.util.spec_from_file_location("radixcheck_tests_browser", _place)
assert _spec is not None and _spec.loader is not None
_browser = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_browser)

Make = Callable[..., Document]

SPEC = "radix-first-release"


class Elements(HTMLParser):
    """Notes every element and its attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: dict[str, dict[str, str | None]] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        self.tags.append(tag)
        self.attributes[dict(attrs).get("http-equiv") or tag] = dict(attrs)


def elements(document: Document) -> Elements:
    """Parse what is written."""
    seen = Elements()
    seen.feed(page.dumps(document).decode())
    return seen


# ---- as text -----------------------------------------------------------------------------


def test_an_attack_adds_no_element(make: Make, attack: Document) -> None:
    assert elements(make()).tags == elements(attack).tags


def test_the_data_of_a_page_is_the_document(make: Make, found: FindingPart) -> None:
    text = page.dumps(make([found])).decode()
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    assert data is not None
    assert msgspec.json.decode(encode(make([found]))) == msgspec.json.decode(data[1])


def test_the_policy_of_a_page_allows_nothing_from_elsewhere(make: Make) -> None:
    policy = elements(make()).attributes["Content-Security-Policy"]["content"] or ""
    rules = dict(each.strip().split(" ", 1) for each in policy.split(";"))
    assert "'none'" == rules["default-src"]
    assert not re.search(r"https?:|unsafe|\*", policy)


def test_a_page_names_no_address(make: Make) -> None:
    text = page.dumps(make(known=())).decode()
    assert ["http://www.w3.org/2000/svg"] == re.findall(r"https?://[\w./]+", text)


def test_the_title_counts_what_is_a_violation(make: Make, found: FindingPart) -> None:
    old = structs.replace(found, new=False, excused=True)
    assert "<title>radixcheck: 1 finding</title>" in page.dumps(make([found, old])).decode()


def test_a_page_of_500_findings_is_small(make: Make, found: FindingPart) -> None:
    size = len(page.dumps(make([found] * 500)))
    assert size < 2_000_000


# ---- in a browser ------------------------------------------------------------------------


needs_browser = pytest.mark.skipif(not _browser.CHROMIUM, reason="no Chromium: see the docstring")


@pytest.fixture(scope="module")
def window() -> Iterator[Any]:
    """A browser, for all tests of this module."""
    with _browser.browser() as opened:
        yield opened


@pytest.fixture
def show(window: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Shows a document in the browser; afterwards nothing may have gone wrong in it."""

    def opened(document: Document, **options: Any) -> Any:
        path = tmp_path / "page.html"
        path.write_bytes(page.dumps(document))
        window.troubles.clear()
        window.requests.clear()
        window.open(path, **options)
        return window

    yield opened
    outside = [each for each in window.requests if not each.startswith(("file:", "data:"))]
    assert ([], []) == (window.troubles, outside)


STEP = "document.querySelector('.stepper').dataset.step"
WIDTH = "document.documentElement.scrollWidth"
"""Not to be held against `innerWidth`: a phone's window grows with what is in it."""


@needs_browser
@pytest.mark.slow
def test_the_arrow_keys_step_through_a_finding(
    show: Callable[..., Any], make: Make, found: FindingPart
) -> None:
    window = show(make([found]))
    seen = [window.run(STEP)]
    for key in ("ArrowLeft", "ArrowLeft", "ArrowLeft", "ArrowRight", "End", "Home"):
        window.press(key)
        seen.append(window.run(STEP))
    assert ["3", "2", "1", "1", "2", "3", "1"] == seen


@needs_browser
@pytest.mark.slow
def test_a_finding_is_reached_and_opened_by_keys_alone(
    show: Callable[..., Any], make: Make, found: FindingPart
) -> None:
    window = show(make([found] * 5))
    for key in ("j", "j", "Enter", "ArrowLeft"):
        window.press(key)
    where = "document.activeElement.closest('.finding').id"
    assert ("finding-2", "2") == (window.run(where), window.run(STEP))


@needs_browser
@pytest.mark.slow
def test_a_step_shows_what_was_stored_before_it_and_what_is_new(
    show: Callable[..., Any], make: Make, found: FindingPart
) -> None:
    window = show(make([found]))
    window.press("ArrowLeft")
    cells = "[...document.querySelectorAll('.picture')].map((each) => each.textContent)"
    assert ["before1122", "after112235new"] == window.run(cells)
    fresh = "[...document.querySelectorAll('.picture .cell.new b')].map((each) => each.textContent)"
    assert ["3"] == window.run(fresh)


@needs_browser
@pytest.mark.slow
def test_a_step_without_a_picture_says_so(
    show: Callable[..., Any], make: Make, found: FindingPart
) -> None:
    window = show(make([structs.replace(found, pictures=found.pictures[-2:])]))
    window.press("ArrowLeft")
    window.press("Home")
    text = "document.querySelector('.step .empty').textContent"
    assert "Of this step there is no picture." == window.run(text)


@needs_browser
@pytest.mark.slow
def test_a_wrong_answer_is_shown_below_what_is_stored_for_the_key(
    show: Callable[..., Any], make: Make, found: FindingPart
) -> None:
    window = show(make([found]))
    rows = "[...document.querySelectorAll('.key tr')].map((each) => each.textContent)"
    assert ["stored for the key113\u2013", "answered1135"] == window.run(rows)
    wrong = "[...document.querySelectorAll('.key .slot.off')].map((each) => each.textContent)"
    assert ["5"] == window.run(wrong)


@needs_browser
@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("findings", [0, 1, 500])
def test_a_page_is_no_wider_than_its_window(
    show: Callable[..., Any], make: Make, found: FindingPart, findings: int, width: int, dark: bool
) -> None:
    assert show(make([found] * findings), width=width, dark=dark).run(WIDTH) == width


@needs_browser
@pytest.mark.slow
def test_the_name_of_a_target_is_broken_where_a_phone_ends(
    show: Callable[..., Any], make: Make, found: FindingPart
) -> None:
    named = make([found], spec="./tests/radix/our_own_radix_cache.py:Target")
    assert show(named, width=390).run(WIDTH) == 390


@needs_browser
@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 390])
def test_a_key_of_3000_tokens_is_short_until_it_is_asked_for(
    show: Callable[..., Any], make: Make, long_found: FindingPart, width: int
) -> None:
    window = show(make([long_found]), width=width)
    count = "document.querySelectorAll('.picture .cell').length"
    short = window.run(count)
    window.run("document.querySelector('.picture .gap').click()")
    assert (True, 3001, width) == (short < 20, window.run(count), window.run(WIDTH))


@needs_browser
@pytest.mark.slow
def test_500_findings_are_filtered_by_words(
    show: Callable[..., Any], make: Make, found: FindingPart
) -> None:
    some = [
        structs.replace(found, operation="evict" if each % 5 else "reset") for each in range(500)
    ]
    window = show(make(some))
    window.press("/")
    for key in "reset":
        window.press(key)
    shown = "document.querySelectorAll('.finding:not([hidden])').length"
    assert 100 == window.run(shown)


@needs_browser
@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 390])
def test_an_attack_is_only_read(show: Callable[..., Any], attack: Document, width: int) -> None:
    window = show(attack, width=width)
    window.run("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    assert (0, width) == (window.run("document.querySelectorAll('img').length"), window.run(WIDTH))
    links = "[...document.querySelectorAll('a')].map((each) => each.protocol)"
    assert ["https:"] == window.run(links)
    assert not window.run("/[\\u202e\\u0007\\u001b]/.test(document.body.innerText)")


@needs_browser
@pytest.mark.slow
@pytest.mark.parametrize(
    ("verdict", "words", "headline"),
    [
        ("clean", "found", "radix: no violation"),
        ("inconclusive", "missed", "radix: no violation; canary missed"),
    ],
)
def test_a_canary_is_labelled_and_closed(
    show: Callable[..., Any], make: Make, verdict: str, words: str, headline: str
) -> None:
    document, missing = make(spec="radix"), ("match-misses",)
    (canary,) = make(canary=True, verdict=verdict, words=words, missing=missing).targets
    window = show(structs.replace(document, targets=(*document.targets, canary)))
    blocks = "[...document.querySelectorAll('.target')].map((each) => each.open)"
    label = "document.querySelector('.target:last-of-type > summary').textContent"
    assert headline == window.run("document.querySelector('h1').textContent")
    assert [True, False] == window.run(blocks)
    assert re.fullmatch(rf"Canary{SPEC}. {words}[\d,]+ operations", window.run(label))


@needs_browser
@pytest.mark.slow
def test_what_is_not_new_is_marked_and_no_violation(
    show: Callable[..., Any], make: Make, found: FindingPart
) -> None:
    old = structs.replace(found, new=False, excused=True)
    one, other = (make([old], spec=spec, verdict="clean").targets[0] for spec in ("a", "b"))
    window = show(structs.replace(make(), targets=(one, other)))
    assert "no violation in 2 targets" == window.run("document.querySelector('h1').textContent")
    tags = "[...document.querySelectorAll('.finding:first-child .tag')].map((e) => e.textContent)"
    assert ["on the baseline too", "corruption"] == window.run(tags)
    assert 0 == window.run("document.querySelectorAll('.finding .tag.bad, .stepper').length")


@needs_browser
@pytest.mark.slow
def test_a_finding_says_that_it_is_partly_shrunk(
    show: Callable[..., Any], make: Make, found: FindingPart
) -> None:
    window = show(make([structs.replace(found, shrunk="partly")]))
    note = "document.querySelector('.finding .note').textContent"
    words = "Partly shrunk, since time was up; radixcheck shrink goes on with it."
    assert words == window.run(note)


@needs_browser
@pytest.mark.slow
def test_known_failures_say_what_they_have_cut_short(show: Callable[..., Any], make: Make) -> None:
    told = "They cut short 3 of 890 traces; 1,204 operations behind them were not judged."
    assert told in show(make()).run("document.querySelector('.target').textContent")


@needs_browser
@pytest.mark.slow
def test_a_person_may_choose_the_colours(show: Callable[..., Any], make: Make) -> None:
    window = show(make())
    colour = "getComputedStyle(document.body).backgroundColor"
    seen = [window.run(colour)]
    for _ in range(3):
        window.run("document.querySelector('.top button').click()")
        seen.append(window.run(colour))
    light, dark = "rgb(251, 250, 248)", "rgb(21, 23, 26)"
    assert [light, light, dark, light] == seen


@needs_browser
@pytest.mark.slow
def test_every_control_has_a_name(show: Callable[..., Any], make: Make, found: FindingPart) -> None:
    nameless = """[...document.querySelectorAll('button, input, select, [role=img]')].filter(
        (each) => !each.textContent.trim() && !each.getAttribute('aria-label')).length"""
    assert 0 == show(make([found] * 2)).run(nameless)
