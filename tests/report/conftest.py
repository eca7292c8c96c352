"""Documents for the tests of reports: small, large and hostile."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from msgspec import structs

from radixcheck.finding import Finding
from radixcheck.operations import AnyOperation, Insert, MatchPrefix
from radixcheck.registry import resolve
from radixcheck.report.block import Origin
from radixcheck.report.document import (
    AnswerPart,
    CasePart,
    Document,
    DriverPart,
    FindingPart,
    KnownPart,
    RatePart,
    SituationPart,
    SkippedPart,
    TargetPart,
    UnjudgedPart,
)
from radixcheck.report.parts import finding_part
from radixcheck.trace import Trace
from radixcheck.verdict import replay

SPEC = "radix-first-release"

HOSTILE = (
    "</script><script>alert(1)</script> ]]> <img src=x onerror=alert(2)> | `a` **b** "
    "[c](javascript:alert(3)) @everyone &amp; "
    "\x00\x07\x1b[31m \u202eright to left\u202c \ud800 'q' \"p\""
)


def told(*operations: AnyOperation, spec: str = SPEC, number: int = 1) -> FindingPart:
    """Judge `operations`, and tell what they break."""
    source, trace = resolve(spec), Trace(operations)
    seen = replay(source.open, trace)
    violation = seen.verdict.violation
    assert violation is not None
    origin = Origin(source, seen.verdict.capabilities, None)
    finding = Finding(
        spec, trace, violation, seen.steps, 7, 92, ("match-misses",), pictures=seen.pictures
    )
    return structs.replace(finding_part(finding, origin), path=f"found/{number}.jsonl")


def phantom(length: int = 2) -> FindingPart:
    """Tell the oldest bug of them all: a match that follows a key beyond the edge that it left."""
    stored = tuple(range(1, length + 2))
    return told(Insert(stored[:-1]), Insert(stored), MatchPrefix((*stored[:-2], stored[-1])))


def document(findings: Sequence[FindingPart] = (), **changes: object) -> Document:
    """Return a document with all its parts, about one target with these findings."""
    target = TargetPart(
        spec=SPEC,
        verdict="violation" if findings else "clean",
        words=f"{len(findings)} violations" if findings else "no violation",
        seed=7,
        operations=1_234_567,
        traces=890,
        elapsed_s=12.5,
        configurations="2: page_size 1, 4",
        rules=("foreign-slot", "phantom-prefix", "unexpected-error"),
        situations=(
            SituationPart("match-misses", "a match finds nothing", True, 10_000),
            SituationPart("evict-locked", "an eviction meets a lock", False, 0),
        ),
        unjudged=(
            UnjudgedPart("it has no namespaces", ("namespace-leak",), 'namespaces="one"', 2),
        ),
        findings=tuple(findings),
        known=(KnownPart("size-drift", "evict", 3, "counts twice", "https://example.org/7"),),
        cut_short=1_204,
        drivers=(DriverPart("swarm", 1_234_567, 890, 12.5, 34),),
        rates=tuple(
            RatePart(each / 4, 1e5 + 1e3 * each % 7, 30 + each // 9, 0) for each in range(50)
        ),
        skipped=(SkippedPart("no such handle", 12),),
    )
    whole = Document(
        radixcheck_version="1.2.3",
        command=f"radixcheck run {SPEC}",
        began="2027-01-31T23:59:59Z",
        elapsed_s=12.75,
        exit_code=1 if findings else 0,
        targets=(structs.replace(target, **changes),),
    )
    return whole


def hostile() -> Document:
    """Return a document in which every text that a target or a project may choose is an attack."""
    long = f"RuntimeError: {HOSTILE} {'x' * 10_000}"
    finding = structs.replace(
        phantom(),
        config=HOSTILE,
        program=f"```\n{HOSTILE}\n```\n{HOSTILE}",
        expected=HOSTILE,
        actual=long,
        detail=f"{HOSTILE}\n{HOSTILE}",
        reproduce=HOSTILE,
        raised=HOSTILE,
        path=HOSTILE,
        trace=HOSTILE,
        answers=(AnswerPart(HOSTILE, long),),
        situations=(HOSTILE,),
    )
    case = CasePart(HOSTILE, "failed", HOSTILE, 1.0, "phantom-prefix")
    issues = ("javascript:alert(4)", "https://example.org/?<b>&'\"", HOSTILE, "data:text/html,<p>")
    whole = document(
        [finding],
        spec=HOSTILE,
        words=HOSTILE,
        error=HOSTILE,
        skipped=(SkippedPart(HOSTILE, 1),),
        missing=(HOSTILE,),
        known=tuple(KnownPart(HOSTILE, HOSTILE, 1, HOSTILE, issue) for issue in issues),
        cases=(case,),
    )
    return structs.replace(whole, command=HOSTILE, notes=(HOSTILE, "\ud800"))


@pytest.fixture(scope="session")
def found() -> FindingPart:
    """One finding, small as it should be."""
    return phantom()


@pytest.fixture(scope="session")
def long_found() -> FindingPart:
    """The same with keys of 3,000 tokens."""
    return phantom(3_000)


@pytest.fixture(scope="session")
def attack() -> Document:
    """A document in which every text that a target or a project may choose is an attack."""
    return hostile()


@pytest.fixture(scope="session")
def make() -> Callable[..., Document]:
    """Makes a document of findings: `document`."""
    return document
