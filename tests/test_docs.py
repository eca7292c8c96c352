"""The documents against the code: what they name exists, what they show runs, what they say holds.

A finding that a document shows may come out differently when the generator changes. Then the
document is to be brought up to date, and its explanation with it.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from radixcheck import trace as traces
from radixcheck.capabilities import CHOICES, Capabilities
from radixcheck.levels import TREE
from radixcheck.operations import (
    AnyOperation,
    Audit,
    DecRef,
    Evict,
    IncRef,
    Insert,
    MatchPrefix,
)
from radixcheck.reference.model import Model
from radixcheck.registry import Source, resolve
from radixcheck.rules import RULES, Violation
from radixcheck.situations import SITUATIONS
from radixcheck.targets import honest
from radixcheck.targets.liars import LIARS
from radixcheck.trace import Trace
from radixcheck.verdict import check, same_answers

pytestmark = pytest.mark.slow

CHECKOUT = Path(__file__).resolve().parent.parent
DOCUMENTS = {
    str(path.relative_to(CHECKOUT)): path.read_text(encoding="utf-8")
    for path in (CHECKOUT / "README.md", CHECKOUT / "ARCHITECTURE.md", *CHECKOUT.glob("docs/*.md"))
}
CONTRACT = DOCUMENTS["docs/contract.md"]
TREE_RULES = [name for name, rule in RULES.items() if rule.level == "tree"]

# ------------------------------------------------------------------- how contract.md is read


def section(heading: str, level: str = "##") -> str:
    """Return the text below a heading of contract.md, up to the next one of its level."""
    _, _, rest = CONTRACT.partition(f"\n{level} {heading}\n")
    return re.split(rf"^#{{1,{len(level)}}} ", rest, flags=re.MULTILINE)[0]


def rows(text: str) -> dict[str, list[str]]:
    """Return the rows of the first table in `text` by the name in their first cell."""
    table = [line for line in text.splitlines() if line.startswith("| `")]
    cells = [re.split(r" *\| *", line.strip("| ")) for line in table]
    return {first.strip("`"): rest for first, *rest in cells}


def names(text: str) -> set[str]:
    """Return what stands between backquotes."""
    return set(re.findall(r"`([^`]+)`", text))


def test_contract_lists_exactly_the_operations_of_the_code() -> None:
    assert TREE.kinds == set(rows(section("Operations")))


def test_contract_explains_exactly_the_rules_of_the_code() -> None:
    assert set(TREE_RULES) == set(re.findall(r"^#### `(.+)`$", CONTRACT, re.MULTILINE))


def test_contract_lists_exactly_the_situations_of_the_code() -> None:
    expected = {name: situation.statement for name, situation in SITUATIONS.items()}
    assert expected == {name: row[0] for name, row in rows(section("Situations")).items()}


# ----------------------------------------------------------------- each rule and its example

STEP = re.compile(
    r"(?:(?P<handle>\w+) = )?(?P<kind>\w+)(?: \[(?P<tokens>.*)\])?(?: in (?P<name>\w+))?"
    r"(?: (?P<rest>\w+))?"
)


def operation(step: str) -> AnyOperation:
    """Read one step of an example, such as ``h = match_prefix [1, 2] in a``."""
    found = STEP.fullmatch(step)
    assert found is not None, step
    tokens = tuple(map(int, re.findall(r"\d+", found["tokens"] or "")))
    namespace = (found["name"],) if found["name"] else ()
    made: dict[str, Any] = {
        "match_prefix": lambda: MatchPrefix(tokens, namespace, found["handle"]),
        "insert": lambda: Insert(tokens, namespace),
        "evict": lambda: Evict(int(found["rest"])),
        "inc_ref": lambda: IncRef(found["rest"]),
        "dec_ref": lambda: DecRef(found["rest"]),
        "audit": lambda: Audit(int(found["rest"] or 0)),
    }
    answer: AnyOperation = made[found["kind"]]()
    return answer


def example(text: str) -> Trace:
    """Read the example of a rule, its third paragraph."""
    _facts, _statement, line = text.strip().split("\n\n")[:3]
    page, _, steps = line.strip("`").rpartition(": ")
    page_size = int(page.removeprefix("page ") or 1)
    return Trace(tuple(map(operation, steps.split("; "))), {"page_size": page_size})


def judged(source: Source, trace: Trace) -> Violation | None:
    """Judge `trace`, and run it twice if that goes well."""
    return check(source.open, trace).violation or same_answers(source.open, trace)


@pytest.mark.parametrize("name", TREE_RULES)
def test_a_rule_is_explained_with_its_severity_source_statement_and_liar(name: str) -> None:
    facts, statement = section(f"`{name}`", "####").strip().split("\n\n")[:2]
    told = (*facts.split(" · ")[:3], statement)
    rule = RULES[name]
    opening = rule.statement[0].upper() + rule.statement[1:] + "."
    assert (rule.severity, rule.source, f"liar `{LIARS[name].__name__}`", opening) == told


@pytest.mark.parametrize("rule", TREE_RULES)
def test_the_example_of_a_rule_is_broken_by_its_liar(rule: str) -> None:
    source = resolve(f"radixcheck.targets.liars:{LIARS[rule].__name__}")
    violation = judged(source, example(section(f"`{rule}`", "####")))
    assert violation is not None
    assert rule == violation.rule


@pytest.mark.parametrize("rule", TREE_RULES)
def test_the_example_of_a_rule_is_kept_by_a_correct_cache(rule: str) -> None:
    assert None is judged(resolve("radix-paged"), example(section(f"`{rule}`", "####")))


# ----------------------------------------------------------------- capabilities and freedoms


def rules_bent_by(capability: str) -> tuple[str, ...]:
    """Return what the code says of a capability."""
    (meta,) = get_type_hints(Capabilities, include_extras=True)[capability].__metadata__
    rules: tuple[str, ...] = meta.extra["rules"]
    return rules


def test_contract_lists_each_capability_with_its_default_and_its_rules() -> None:
    can = Capabilities()
    expected = {
        name: (str(getattr(can, name)), set(rules_bent_by(name)))
        for name in Capabilities.__struct_fields__
    }
    table = rows(section("Capabilities"))
    assert expected == {name: (row[0].strip("`"), names(row[2])) for name, row in table.items()}


def test_contract_lists_each_value_of_a_capability() -> None:
    table = rows(section("Capabilities"))
    expected = {name: {str(choice) for choice in choices} for name, choices in CHOICES.items()}
    assert expected == {name: names(table[name][0]) | names(table[name][1]) for name in CHOICES}


def near_misses() -> set[str]:
    """Name every near-miss, also those whose libraries are missing here."""
    optional = {honest.AnswersNumpy, honest.AnswersTensors}
    return {target.__name__ for target in {*honest.HONEST.values(), *optional}}


def test_contract_gives_each_near_miss_a_freedom() -> None:
    lines = [line for line in section("Freedoms").splitlines() if line.startswith("| ")][1:]
    assert near_misses() == set().union(*(names(line.rpartition(" | ")[2]) for line in lines))


@pytest.mark.parametrize("rule", TREE_RULES)
def test_the_near_misses_of_a_rule_keep_its_example(rule: str) -> None:
    text = section(f"`{rule}`", "####")
    _, _, near = text.strip().split("\n\n")[0].partition("near-miss")
    for name in names(near):
        source = resolve(f"radixcheck.targets.honest:{name}")
        assert None is check(source.open, example(text)).violation, name


# -------------------------------------------------------------------------------- the order


def bounds(**promises: Any) -> dict[tuple[int, ...], tuple[float, float]]:
    """Return the interval of each leaf after the first worked example of contract.md."""
    model = Model(Capabilities(**promises))
    model.inserted(None, (1, 2, 3, 4), [1, 2, 3, 4], (), 0, 1)
    model.inserted(None, (7, 8), [5, 6], (), 0, 2)
    model.matched(model.find((1, 2), ()).end, 3)
    found = {key: model.order.bounds(leaf) for _, key, leaf in model.leaves()}
    return {key: (each.low, each.high) for key, each in found.items()}


def test_the_worked_example_has_the_intervals_that_are_drawn() -> None:
    assert {(1, 2, 3, 4): (1, 3), (7, 8): (2, 2)} == bounds()


def test_the_worked_example_has_points_where_only_the_matched_is_stamped() -> None:
    assert {(1, 2, 3, 4): (1, 1), (7, 8): (2, 2)} == bounds(stamps="matched")


# ------------------------------------------------------------------------------ trace files


def blocks(text: str, language: str) -> list[str]:
    """Return the fenced blocks of `language`."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def test_the_trace_file_of_contract_shows_every_operation() -> None:
    whole, _ = blocks(CONTRACT, "json")
    assert TREE.kinds == {each.kind for each in traces.loads(whole.encode()).operations}


def test_the_back_reference_of_contract_is_what_is_written() -> None:
    _, line = blocks(CONTRACT, "json")
    first = tuple(range(1, 61))
    written = traces.dumps(Trace((MatchPrefix(first), MatchPrefix((*first[:50], 7)))))
    assert line.replace(" ", "").encode() == written.splitlines(keepends=True)[2]


# ------------------------------------------------------- what a reader types, and what is said

MARK = re.compile(
    r"^(?:<!-- (?P<what>file|in): (?P<name>\S+) -->\n)?```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
"""A fenced block; ``file`` is written before what follows is run, ``in`` changes its methods."""

RUN = ("run", "smoke", "diff")
SHORT = ("--seed", "1", "--max-ops", "4000")
"""What a command is limited to that would take its time."""


def with_methods(source: str, methods: str) -> str:
    """Put `methods` in the place of those of the same name in `source`, or at its end."""
    found = re.findall(r"^def .*?(?=^def |\Z)", methods, re.MULTILINE | re.DOTALL)
    assert found, methods
    for method in found:
        name = method[: method.index("(") + 1]
        old = re.compile(rf"^    {re.escape(name)}.*?(?=^    def |\Z)", re.MULTILINE | re.DOTALL)
        before, *after = old.split(source, maxsplit=1)
        new = textwrap.indent(method.rstrip(), "    ")
        source = "\n".join([before.rstrip("\n"), "", new, "", *after])
    return source


def run_command(words: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run ``radixcheck`` as a reader does, in a terminal of 80 columns."""
    if words[1] in RUN:
        given = set(words)
        pairs = zip(SHORT[::2], SHORT[1::2], strict=True)
        words = [*words, *(word for pair in pairs if pair[0] not in given for word in pair)]
    settings = {"COLUMNS": "80", "NO_COLOR": "1", "PYTHONUTF8": "1"}
    kept = {key: value for key, value in os.environ.items() if not key.startswith("RADIXCHECK_")}
    return subprocess.run(
        [sys.executable, "-m", *words],
        cwd=folder,
        env=kept | settings,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


def first_unsaid(shown: list[str], said: list[str]) -> str:
    """Return the first of the lines `shown` that was not `said` there; empty if all were.

    ``...`` stands for any lines, and within a line for any text. Counts and durations may differ.
    """
    place, skip = 0, False
    for line in shown:
        if line.strip() == "...":
            skip = True
            continue
        pattern = re.compile(".*?".join(map(re.escape, uncounted(line).split("..."))))
        rest = said[place:] if skip else said[place : place + 1]
        found = (at for at, each in enumerate(rest) if pattern.fullmatch(uncounted(each)))
        if (at := next(found, None)) is None:
            return line
        place, skip = place + at + 1, False
    return ""


COUNTS = re.compile(r"\d+(\.\d+)? s\b|[\d,]+ (?=operations,|traces)|(?<=shrunk from )[\d,]+")
"""What another machine, or another release, counts otherwise."""


def uncounted(line: str) -> str:
    """Take out of a line what may differ."""
    return COUNTS.sub("some ", line).rstrip()


def commands_in(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each command of a console block with the lines shown below it."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, *shown = part.splitlines()
        yield command, shown


def follow(document: str, folder: Path) -> Iterator[tuple[str, str]]:
    """Do what a document tells, and yield per command what it shows and what is not so."""
    code = "0"
    for block in MARK.finditer(document):
        if block["what"] == "file":
            (folder / block["name"]).write_text(block["text"])
        elif block["what"] == "in":
            path = folder / block["name"]
            path.write_text(with_methods(path.read_text(), block["text"]))
        elif block["language"] == "console":
            for line, shown in commands_in(block["text"]):
                command = line.rpartition("&& ")[2]
                if command == "echo $?":
                    yield command, first_unsaid(shown, [code])
                elif command.startswith(("radixcheck ", "pytest ")):
                    ended = run_command(shlex.split(command), folder)
                    code = str(ended.returncode)
                    said = (ended.stdout + ended.stderr).splitlines()
                    yield command, first_unsaid(shown, said)


@pytest.mark.parametrize(
    "document",
    [
        "README.md",
        "docs/writing-a-target.md",
        "docs/reading-a-finding.md",
        "docs/pools.md",
        "docs/requests.md",
        "docs/isolation.md",
        "docs/exhaustive.md",
        "docs/hypothesis.md",
        "docs/ci.md",
    ],
)
def test_what_a_document_shows_is_what_a_reader_sees(document: str, tmp_path: Path) -> None:
    told = list(follow(DOCUMENTS[document], tmp_path))
    assert [(command, "") for command, _ in told] == told
    assert told


# ------------------------------------------------------------------------------- sglang.md

RELEASES = os.environ.get("RADIXCHECK_SGLANG_RELEASES")
SGLANG = DOCUMENTS["docs/sglang.md"]


def programs() -> Iterator[tuple[str, str, str, bool]]:
    """Yield each program of sglang.md with a release named for it, and whether it fails there."""
    for letter, told in re.findall(r"^### (\w)\. (.*?)^```$", SGLANG, re.MULTILINE | re.DOTALL):
        sentence, _, program = told.partition("```python\n")
        fails, _, passes = sentence.partition("Passes on")
        for part, failing in ((fails, True), (passes, False)):
            for release in re.findall(r"\d+\.\d+\.\d+", part):
                yield letter, release, program, failing


@pytest.mark.parametrize(("letter", "release", "program", "failing"), list(programs()))
def test_a_program_fails_on_exactly_the_releases_that_are_named(
    letter: str, release: str, program: str, failing: bool
) -> None:
    if RELEASES is None or not (folder := Path(RELEASES) / release).is_dir():
        pytest.skip("RADIXCHECK_SGLANG_RELEASES names no folder with this release")
    code = re.sub(r"PATH/TO/sglang-[\d.]+", str(folder), program)
    names: dict[str, Any] = {}
    exec(blocks(SGLANG, "python")[0], names)
    failed = False
    try:
        exec(code, names)
    except (AssertionError, IndexError):
        failed = True
    assert failing == failed, letter


# ------------------------------------------------------------------- names, links, commands


def anchors(text: str) -> set[str]:
    """Return what a link may name in a document, as GitHub makes it from its headings."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", each.lower()).replace(" ", "-") for each in headings}


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_link_leads_somewhere(document: str) -> None:
    home = (CHECKOUT / document).parent
    for link in re.findall(r"\]\(([^)]+)\)", DOCUMENTS[document]):
        path, _, anchor = link.partition("#")
        goal = (home / path).resolve() if path else CHECKOUT / document
        assert goal.exists(), link
        if anchor:
            assert anchor in anchors(goal.read_text(encoding="utf-8")), link


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_file_that_is_named_exists(document: str) -> None:
    roots = [CHECKOUT, CHECKOUT / "harness"]
    made = {block["name"] for block in MARK.finditer(DOCUMENTS[document])} | {"my_cache.py"}
    named = set(re.findall(r"`([\w/-]+\.(?:py|md|toml))`", DOCUMENTS[document])) - made
    assert {name for name in named if not any((root / name).exists() for root in roots)} == set()


def test_architecture_names_every_module() -> None:
    _, _, layers = DOCUMENTS["ARCHITECTURE.md"].partition("## 3. ")
    layers = layers.partition("## 4. ")[0]
    found = [*(CHECKOUT / "harness").glob("*.py"), *(CHECKOUT / "harness").glob("*/__init__.py")]
    modules = {path.stem if path.stem != "__init__" else path.parent.name for path in found}
    assert modules - {"harness"} - set(re.findall(r"\w+", layers)) == set()


def test_readme_and_ci_run_the_tests_by_the_same_commands() -> None:
    run = (CHECKOUT / ".ci" / "run").read_text(encoding="utf-8")
    (shown,) = re.findall(r"## Tests\n\n```sh\n(.*?)```", DOCUMENTS["README.md"], re.DOTALL)
    assert shown == "".join(line for line in run.splitlines(keepends=True) if ".venv" in line)


def test_readme_counts_the_rules() -> None:
    assert f"{len(RULES)} rules" in DOCUMENTS["README.md"].replace("\n", " ")


def test_the_bug_that_readme_suggests_is_found(tmp_path: Path) -> None:
    (text,) = [block["text"] for block in MARK.finditer(DOCUMENTS["README.md"]) if block["what"]]
    assert "-len(prefix)" in text
    (tmp_path / "my_cache.py").write_text(text.replace("-len(prefix)", "len(prefix)"))
    ended = run_command(["radixcheck", "run", "./my_cache.py:MyCache", "-x", "-q"], tmp_path)
    assert ended.returncode == 1
    assert "orphaned-suffix at evict" in ended.stdout


# ------------------------------------------------------------------ how all this is looked at


def test_a_line_that_is_not_said_is_noticed() -> None:
    said = ["one", "two in 3 operations, 0.5 s", "three"]
    assert first_unsaid(["one", "...", "three"], said) == ""
    assert first_unsaid(["one", "two in ..."], said) == ""
    assert first_unsaid(["one", "two in 7 operations, 2 s"], said) == ""
    assert first_unsaid(["one", "three"], said) == "three"
    assert first_unsaid(["...", "four"], said) == "four"


def test_a_method_takes_the_place_of_its_namesake() -> None:
    source = "class A:\n    def f(self):\n        return 1\n\n    def g(self):\n        return 2\n"
    changed = with_methods(source, "def f(self):\n    return 3\n")
    names: dict[str, Any] = {}
    exec(changed, names)
    assert (names["A"]().f(), names["A"]().g()) == (3, 2)
