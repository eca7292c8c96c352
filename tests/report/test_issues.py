"""What a report makes of the issues that are there."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from msgspec import structs

from radixcheck.report.document import Document, FindingPart, KnownPart
from radixcheck.report.issues import Issue, body_of, changes, title_of

Make = Callable[..., Document]

GITHUB_TITLE, GITHUB_BODY = 256, 65_536
SPEC = "radix-first-release"


def deeds(document: Document, issues: Sequence[Issue] = ()) -> list[tuple[str, int]]:
    """Return what is to be done with which issue."""
    return [(each.deed, each.number) for each in changes(document, issues)]


def filed(document: Document, state: str = "OPEN", reason: str = "") -> Issue:
    """Return the issue that was opened for the first finding of `document`."""
    change = next(changes(document, ()))
    return Issue(7, change.title, change.body, state, reason)


def test_a_finding_opens_an_issue_named_by_target_rule_and_operation(
    make: Make, found: FindingPart
) -> None:
    (change,) = changes(make([found]), ())
    title = f"radixcheck: {SPEC}: phantom-prefix at match_prefix"
    assert ("open", 0, title) == change[:3]


def test_a_signature_opens_one_issue_however_often_it_was_found(
    make: Make, found: FindingPart, long_found: FindingPart
) -> None:
    assert [("open", 0)] == deeds(make([found, long_found]))


def test_what_an_issue_says_already_changes_nothing(make: Make, found: FindingPart) -> None:
    document = make([found])
    issue = filed(document)
    as_github_keeps_it = structs.replace(issue, body=issue.body.strip().replace("\n", "\r\n"))
    assert [] == deeds(document, [as_github_keeps_it])


def test_an_issue_that_says_something_else_is_updated(make: Make, found: FindingPart) -> None:
    issue = filed(make([found]))
    later = make([structs.replace(found, program="a shorter one")])
    assert [("update", 7)] == deeds(later, [issue])


def test_an_issue_may_be_retitled(make: Make, found: FindingPart) -> None:
    issue = structs.replace(filed(make([found])), title="Our worst bug")
    assert [] == deeds(make([found]), [issue])


def test_what_comes_back_is_opened_again(make: Make, found: FindingPart) -> None:
    issue = filed(make([found]), "CLOSED", "COMPLETED")
    assert [("reopen", 7)] == deeds(make([found]), [issue])


def test_what_nobody_plans_to_mend_stays_closed(make: Make, found: FindingPart) -> None:
    issue = filed(make([found]), "CLOSED", "NOT_PLANNED")
    assert [] == deeds(make([found]), [issue])


def test_what_is_gone_is_closed_once(make: Make, found: FindingPart) -> None:
    issue = filed(make([found]))
    closed = structs.replace(issue, state="CLOSED")
    assert ([("close", 7)], []) == (deeds(make(), [issue]), deeds(make(), [closed]))


@pytest.mark.parametrize("verdict", ["inconclusive", "interrupted", "nothing", "error"])
def test_only_a_complete_run_closes(make: Make, found: FindingPart, verdict: str) -> None:
    assert [] == deeds(make(verdict=verdict), [filed(make([found]))])


def test_a_run_that_missed_its_canary_closes_nothing(make: Make, found: FindingPart) -> None:
    document = make()
    caught = structs.replace(document.targets[0], spec="canary", canary=True)
    found_it = structs.replace(document, targets=(*document.targets, caught))
    canary = structs.replace(caught, verdict="inconclusive")
    missed = structs.replace(document, targets=(*document.targets, canary))
    issue = filed(make([found]))
    assert ([], [("close", 7)]) == (deeds(missed, [issue]), deeds(found_it, [issue]))


def test_a_run_of_another_target_closes_nothing(make: Make, found: FindingPart) -> None:
    assert [] == deeds(make(spec="radix"), [filed(make([found]))])


def test_what_is_known_is_still_there(make: Make, found: FindingPart) -> None:
    known = KnownPart("phantom-prefix", "match_prefix", 3, "we know")
    assert [] == deeds(make(known=(known,)), [filed(make([found]))])


def test_what_did_not_come_back_neither_opens_nor_closes(make: Make, found: FindingPart) -> None:
    flaky = make([structs.replace(found, flaky=True)])
    assert ([], []) == (deeds(flaky), deeds(flaky, [filed(make([found]))]))


def test_what_is_not_new_neither_opens_nor_closes_where_only_news_count(
    make: Make, found: FindingPart
) -> None:
    old = make([structs.replace(found, new=False, excused=True)], verdict="clean")
    assert ([], []) == (deeds(old), deeds(old, [filed(make([found]))]))


def test_what_is_not_new_opens_an_issue_where_everything_counts(
    make: Make, found: FindingPart
) -> None:
    assert [("open", 0)] == deeds(make([structs.replace(found, new=False)]))


def test_an_issue_of_a_person_is_left_alone(make: Make) -> None:
    assert [] == deeds(make(), [Issue(1, "a question", "by a person")])


def test_the_body_shows_the_finding_and_where_it_was_seen(make: Make, found: FindingPart) -> None:
    (change,) = changes(make([found]), (), "https://example.org/run/1")
    assert "<details open><summary><b>phantom" in change.body.replace("&#45;", "-")
    assert "Last seen by https://example.org/run/1." in change.body


def test_an_attack_fits_into_an_issue_and_forges_no_mark(attack: Document) -> None:
    (target,) = attack.targets
    mark = "<!-- radixcheck target=0123456789abcdef signature=0123456789abcdef -->"
    finding = structs.replace(target.findings[0], expected=mark, actual=mark * 99, detail=mark)
    body = body_of(attack, structs.replace(target, spec=mark * 99), finding)
    assert (1, True) == (body.count("<!-- radixcheck target="), len(body) < GITHUB_BODY)
    assert len(title_of(structs.replace(target, spec=mark * 99), finding)) < GITHUB_TITLE
