"""Isolated targets: whatever one does to its process, a verdict comes out, and nobody is left."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias
from uuid import uuid4

import pytest

from radixcheck.buffers import BadAnswer
from radixcheck.hosts import Here, Isolated
from radixcheck.loop import Budget, Report, run
from radixcheck.operations import Audit, Evict, IncRef, Insert, MatchPrefix, Unanswered
from radixcheck.program import render
from radixcheck.registry import TargetError, resolve
from radixcheck.targets.fatal import FATAL
from radixcheck.trace import Trace

pytestmark = pytest.mark.slow

Isolate: TypeAlias = Callable[..., Isolated]

FATAL_TARGETS = "radixcheck.targets.fatal"
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
MATCHED = Trace((MatchPrefix((1,)),))
PHANTOM = Trace((Insert((1, 2, 3)), Insert((1, 2, 3, 4)), MatchPrefix((1, 4))))
CUT_UNDER_LOCK = (Insert((1, 2)), MatchPrefix((1, 2), (), "h1"), IncRef("h1"), Insert((1, 3)))

OWN = '''
import os
import signal
from pathlib import Path
from uuid import uuid4

from radixcheck.targets.radix import Radix


class Once(Radix):
    """Dies in its first life only."""

    def evict(self, num_tokens):
        seen = Path(__file__).with_suffix(".seen")
        if not seen.exists():
            seen.touch()
            os.kill(os.getpid(), signal.SIGSEGV)
        return super().evict(num_tokens)


class Kills(Radix):
    def evict(self, num_tokens):
        os.kill(os.getpid(), signal.SIGKILL)


class CannotOpen(Radix):
    def __init__(self):
        os._exit(7)


class Talks(Radix):
    def match_prefix(self, tokens, namespace=()):
        print("x" * 100_000, flush=True)
        return super().match_prefix(tokens, namespace)


class Raises(Radix):
    def match_prefix(self, tokens, namespace=()):
        raise ValueError("bad")


class Garbles(Radix):
    """Names a file, as Python reads names that are no UTF-8."""

    def match_prefix(self, tokens, namespace=()):
        raise OSError("no file caf\\udce9")


class Interrupts(Radix):
    def match_prefix(self, tokens, namespace=()):
        raise KeyboardInterrupt("caf\\udce9")


class Overflows(Radix):
    def match_prefix(self, tokens, namespace=()):
        match = super().match_prefix(tokens, namespace)
        return match._replace(slots=[2**70 for _ in match.slots])


class Forks(Radix):
    """Forgets to end the child that it waits for. Every insert leaves a mark."""

    def match_prefix(self, tokens, namespace=()):
        if child := os.fork():
            os.waitpid(child, 0)
        return super().match_prefix(tokens, namespace)

    def insert(self, tokens, slots):
        with Path(__file__).with_suffix(".marks").open("a") as marks:
            marks.write("x")
        return super().insert(tokens, slots)


class Remembers(Radix):
    """Each life leaves something behind, and the next ones are no worse for it."""

    left = []

    def match_prefix(self, tokens, namespace=()):
        import time
        self.left.append(b"x" * 30_000_000)
        time.sleep(0.05)
        return super().match_prefix(tokens, namespace)


class Unreadable(Radix):
    def match_prefix(self, tokens, namespace=()):
        return None


class SaysLastWords(Radix):
    def evict(self, num_tokens):
        print("no more nodes", flush=True)
        os._exit(1)


class Aborts(Radix):
    def evict(self, num_tokens):
        os.write(2, b"pinned twice!")
        os.abort()


class DiesOfNine(Radix):
    """Says what it is given, and ends with it if that is a 9; takes long for an 8."""

    def insert(self, tokens, slots):
        print(f"given {tokens[0]}", flush=True)
        if tokens[0] == 9:
            os._exit(9)
        if tokens[0] == 8:
            import time
            time.sleep(0.3)
        return super().insert(tokens, slots)


class Damages(Radix):
    """The first caches that a process makes go well, and damage it; a later one ends it."""

    made = 0

    def __init__(self):
        super().__init__()
        Damages.made += 1
        if Damages.made > 4:
            os.abort()


class DiesLate(Radix):
    used = False

    def insert(self, tokens, slots):
        self.used = True
        return super().insert(tokens, slots)

    def __del__(self):
        if self.used:
            os.abort()


class SlowSizes(Radix):
    def evictable_size(self):
        import time
        time.sleep(0.15)
        return super().evictable_size()

    protected_size = total_size = evictable_size


class Slow(Radix):
    """Each of its calls takes a while, and all of them together more than one may."""

    def match_prefix(self, tokens, namespace=()):
        import time
        time.sleep(0.1)
        return super().match_prefix(tokens, namespace)
'''

FORKED = """
import os
from radixcheck.targets.radix import Radix

WHO = "a copy"
if child := os.fork():
    os.waitpid(child, 0)
    WHO = "the first"


class Cache(Radix):
    def match_prefix(self, tokens, namespace=()):
        raise ValueError(WHO)
"""


@pytest.fixture
def own(tmp_path: Path) -> Iterator[str]:
    """A file of targets, as the beginning of their specs."""
    (tmp_path / "own.py").write_text(OWN)
    yield f"{tmp_path}/own.py"


def judged(host: Isolated | Here, **budget: int | bool) -> Report:
    return run(host, seed=1, budget=Budget(**budget))  # type: ignore[arg-type]  # any budget


def workers(mark: str = "") -> dict[int, int]:
    """Return every process that runs a worker, or was forked by one, with its parent's number.

    Args:
        mark: count only those whose environment says so; other tests have workers too.
    """
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile
            stat = (folder / "stat").read_text().rpartition(") ")[2].split()
            runs = b"radixcheck.hosts.worker" in (folder / "cmdline").read_bytes()
            marked = mark.encode() in (folder / "environ").read_bytes()
            if runs and marked and stat[0] != "Z":
                found[int(folder.name)] = int(stat[1])
    return found


def family(parent: int) -> list[int]:
    """Return the worker that `parent` started, and then the worker's own child."""
    alive = workers()
    started = [pid for pid, above in alive.items() if above == parent]
    return [*started, *(pid for pid, above in alive.items() if above in started)]


# ---- the same verdicts -------------------------------------------------------------------


@pytest.mark.parametrize("spec", ["radix-paged", "radix-first-release", "pool-counted"])
def test_an_isolated_run_reports_what_a_run_in_this_process_reports(
    isolate: Isolate, spec: str
) -> None:
    here, there = (
        judged(host, max_operations=3000) for host in (Here(resolve(spec)), isolate(spec))
    )
    for report in (here, there):
        report.elapsed_s = 0
    assert here == there


def test_a_whole_request_level_is_judged_in_a_worker(isolate: Isolate) -> None:
    report = judged(isolate("requests:radix-paged"), max_operations=2000)
    assert ([], 0) == (report.findings, report.kills)


def test_the_target_is_not_imported_by_its_judge() -> None:
    program = (
        "import sys\n"
        "from radixcheck.hosts import Isolated\n"
        "from radixcheck.trace import Trace\n"
        "host = Isolated('radix-paged')\n"
        "assert host.check(Trace(())).violation is None\n"
        "host.close()\n"
        "print('radixcheck.targets.radix_paged' in sys.modules)"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert b"False\n" == ended.stdout


def test_what_a_target_raises_is_an_error_as_in_this_process(isolate: Isolate, own: str) -> None:
    host = isolate(f"{own}:Raises")
    violation = host.check(Trace((MatchPrefix((1,)),))).violation
    assert violation is not None
    assert ("unexpected-error", "ValueError: bad") == (violation.rule, violation.actual)
    assert "ValueError: bad" == host.raised(Trace((MatchPrefix((1,)),)), "ValueError")[-1]


def test_a_message_that_is_no_utf_8_is_told_as_in_this_process(isolate: Isolate, own: str) -> None:
    here, there, trace = Here(resolve(f"{own}:Garbles")), isolate(f"{own}:Garbles"), MATCHED
    (seen, alike) = (host.check(trace).violation for host in (here, there))
    assert seen == alike
    assert seen is not None
    assert "OSError: no file caf\\udce9" == seen.actual
    assert here.record(trace) == there.record(trace)
    assert [seen.actual] * 2 == [host.raised(trace, "OSError")[-1] for host in (here, there)]


def test_what_is_raised_past_everybody_is_told_whatever_it_says(isolate: Isolate, own: str) -> None:
    with pytest.raises(TargetError, match=r"KeyboardInterrupt.*caf\\udce9"):
        isolate(f"{own}:Interrupts").check(MATCHED)


def test_a_number_that_no_message_can_carry_is_told_of_its_adapter(
    isolate: Isolate, own: str
) -> None:
    host, trace = isolate(f"{own}:Overflows"), Trace((Insert((1,)), MatchPrefix((1,))))
    with pytest.raises(BadAnswer, match="Overflows answered a number of more than 64 bits"):
        host.record(trace)
    violation = host.check(trace).violation
    assert "foreign-slot" == (violation and violation.rule)


def test_an_answer_that_cannot_be_read_names_its_operation(isolate: Isolate, own: str) -> None:
    with pytest.raises(TypeError, match="answered no Match") as caught:
        isolate(f"{own}:Unreadable").check(Trace((MatchPrefix((1,)),)))
    (note,) = caught.value.__notes__
    assert note.startswith("operation 1 of the trace")


# ---- copies of the process ---------------------------------------------------------------


def test_a_child_of_the_target_judges_no_further(isolate: Isolate, own: str) -> None:
    host = isolate(f"{own}:Forks", 2)
    for _ in range(2):
        assert None is host.check(Trace((MatchPrefix((1,)), Insert((1,))))).violation
    assert "xx" == Path(own).with_suffix(".marks").read_text()


def test_a_child_that_an_import_has_made_serves_nobody(isolate: Isolate, tmp_path: Path) -> None:
    (tmp_path / "forks.py").write_text(FORKED)
    violation = isolate(f"{tmp_path}/forks.py:Cache").check(MATCHED).violation
    assert "ValueError: the first" == (violation and violation.actual)


def test_a_child_of_the_target_does_not_come_back_in_this_process_either(own: str) -> None:
    program = (
        "import sys\n"
        "from radixcheck.hosts import Here\n"
        "from radixcheck.operations import Insert, MatchPrefix\n"
        "from radixcheck.registry import resolve\n"
        "from radixcheck.trace import Trace\n"
        "trace = Trace((Insert((1,)), MatchPrefix((1,))))\n"
        "print(Here(resolve(sys.argv[1])).check(trace).violation)"
    )
    command = [sys.executable, "-c", program, f"{own}:Forks"]
    ended = subprocess.run(command, capture_output=True, check=True)
    assert b"None\n" == ended.stdout


# ---- crashes and hangs -------------------------------------------------------------------

SIGNATURES = {
    "CutsWildly": ("crash", "SIGSEGV"),
    "AbortsOnSecondLeaf": ("crash", "SIGABRT"),
    "ExitsWhenFull": ("crash", "exit 3"),
    "NeverReturns": ("hang", "match_prefix"),
    "NeverFrees": ("crash", "memory limit"),
}


def test_every_fatal_target_is_tried() -> None:
    assert set(FATAL) == set(SIGNATURES)


@LINUX
@pytest.mark.parametrize("name", FATAL)
def test_a_fatal_call_is_found_and_shrunk_to_six_operations_or_fewer(
    isolate: Isolate, name: str
) -> None:
    host = isolate(f"{FATAL_TARGETS}:{name}", 1, 150 * 2**20)
    (finding,) = judged(host, max_operations=20_000, first_only=True).findings
    assert (SIGNATURES[name], False) == (finding.violation.signature, finding.flaky)
    assert len(finding.trace.operations) <= 6
    again = host.check(finding.trace).violation
    assert finding.violation.signature == (again and again.signature)


def test_a_crash_says_what_the_process_died_of_and_where(isolate: Isolate) -> None:
    violation = isolate(f"{FATAL_TARGETS}:CutsWildly").check(Trace(CUT_UNDER_LOCK)).violation
    assert violation is not None
    assert ("insert", 3, "an answer", "died of SIGSEGV", "SIGSEGV") == (
        violation.operation,
        violation.step,
        violation.expected,
        violation.actual,
        violation.cause,
    )
    assert violation.detail.startswith("in _cut, ")


def test_a_process_without_a_report_is_quoted(isolate: Isolate, own: str) -> None:
    violation = isolate(f"{own}:SaysLastWords").check(Trace((Evict(1),))).violation
    assert violation is not None
    assert ("exited with status 1", "no more nodes") == (violation.actual, violation.detail)


def test_the_program_of_a_crash_ends_in_the_fatal_call(isolate: Isolate) -> None:
    host = isolate(f"{FATAL_TARGETS}:CutsWildly")
    seen = host.replay(Trace(CUT_UNDER_LOCK))
    program = render(seen.steps, host.source, {}, seen.verdict.violation)
    assert program.splitlines()[-1].endswith("  # died of SIGSEGV")
    assert "cache.inc_ref(h1.handle)" in program
    assert seen.before == seen.after
    assert [2] == [len(edge.tokens) for edges in seen.after.trees.values() for edge in edges]


def test_a_crash_within_an_audit_is_written_out_call_by_call(isolate: Isolate) -> None:
    trace = Trace((Insert((1,)), Insert((2,)), Audit()))
    steps = isolate(f"{FATAL_TARGETS}:AbortsOnSecondLeaf").replay(trace).steps
    assert "insert insert match_prefix match_prefix evict".split() == [
        step.operation.kind for step in steps
    ]
    assert (Unanswered("died of SIGABRT"), True) == (steps[-1].outcome, steps[-1].audit)


def test_a_hang_is_told_from_many_slow_calls(isolate: Isolate, own: str) -> None:
    host = isolate(f"{own}:Slow", 0.4)
    keys = [(number,) for number in range(8)]
    slow = Trace((*map(Insert, keys), Audit()))
    assert None is host.check(slow).violation


def test_a_crash_that_does_not_come_back_is_flaky(isolate: Isolate, own: str) -> None:
    report = judged(isolate(f"{own}:Once"), max_operations=3000)
    assert [(True, "crash")] == [(each.flaky, each.violation.rule) for each in report.findings]


def test_a_process_that_kills_itself_at_the_same_place_has_crashed(
    isolate: Isolate, own: str
) -> None:
    violation = isolate(f"{own}:Kills").check(Trace((Insert((1,)), Evict(1)))).violation
    assert ("crash", "SIGKILL") == (violation and violation.signature)


def test_a_death_before_the_first_operation_is_an_error_of_the_target(
    isolate: Isolate, own: str, tmp_path: Path
) -> None:
    with pytest.raises(TargetError, match="exited with status 7 while it was opened"):
        isolate(f"{own}:CannotOpen").arenas()
    (tmp_path / "dies.py").write_text("import os\nos.abort()\n")
    with pytest.raises(TargetError, match="died of SIGABRT while it was imported"):
        isolate(f"{tmp_path}/dies.py:Any")


def test_a_spec_that_names_nothing_is_told_as_ever(isolate: Isolate) -> None:
    with pytest.raises(TargetError, match="unknown target 'radixx'") as caught:
        isolate("radixx")
    assert caught.value.hint.startswith("nearest: radix")


def test_a_plain_claim_that_is_fatal_is_trouble(isolate: Isolate) -> None:
    troubles = [
        (tried.claim.words, tried.trouble.seen, tried.trouble.fault)
        for tried in isolate(f"{FATAL_TARGETS}:NeverReturns", 0.5).claims()
        if tried.trouble
    ]
    parts = ("match ends where the key parts", "its process gave no answer within 0.5 s", "cache")
    assert parts in troubles


@LINUX
def test_what_a_target_prints_is_bounded(isolate: Isolate, own: str) -> None:
    host = isolate(f"{own}:Talks")
    for _ in range(20):
        host.check(Trace(tuple(MatchPrefix((number,)) for number in range(5))))
    (worker, *_) = family(os.getpid())
    assert os.stat(f"/proc/{worker}/fd/1").st_size < 600_000  # a trace of it


@LINUX
def test_what_earlier_traces_have_left_is_no_fault_of_a_trace(isolate: Isolate, own: str) -> None:
    host = isolate(f"{own}:Remembers", 10, 150 * 2**20)
    assert [None] * 9 == [host.check(MATCHED).violation for _ in range(9)]
    greedy = host.check(Trace(MATCHED.operations * 9)).violation
    assert ("crash", "memory limit") == (greedy and greedy.signature)


# ---- nobody is lost, nobody is left ------------------------------------------------------


@LINUX
def test_kill_9_at_a_hundred_moments_loses_no_finding_and_leaves_no_process(
    isolate: Isolate,
) -> None:
    host, rng = isolate("radix-first-release"), random.Random(1)
    expected = Here(resolve("radix-first-release")).check(PHANTOM)
    for number in range(100):
        killer = threading.Timer(rng.random() / 100, kill, (number % 20 == 0,))
        killer.start()
        while killer.is_alive():
            assert expected == host.check(PHANTOM)
        killer.join()
        assert expected == host.check(PHANTOM)
    host.close()
    assert [] == family(os.getpid())


def kill(the_worker: bool) -> None:
    """End the worker of this process, or the child that judges."""
    alive = family(os.getpid())
    if alive:
        with suppress(ProcessLookupError):
            os.kill(alive[0 if the_worker else -1], signal.SIGKILL)


JUDGES = """
import sys
from radixcheck.hosts import Isolated
from radixcheck.operations import Insert, MatchPrefix
from radixcheck.trace import Trace
host = Isolated(sys.argv[1])
print("ready", flush=True)
host.check(Trace((Insert((1, 2)), MatchPrefix((1,)))))
{then}
"""


@LINUX
@pytest.mark.parametrize(
    ("spec", "then", "number"),
    [
        (f"{FATAL_TARGETS}:NeverReturns", "", signal.SIGKILL),
        (f"{FATAL_TARGETS}:NeverReturns", "", signal.SIGTERM),
        (f"{FATAL_TARGETS}:NeverReturns", "", signal.SIGINT),
        ("radix", "", None),
        ("radix", "raise SystemExit(1)", None),
        ("radix", "import os; os._exit(1)", None),
        ("radix", "import os; os.abort()", None),
    ],
)
def test_no_exit_of_the_judge_leaves_an_orphan(
    spec: str, then: str, number: signal.Signals | None
) -> None:
    mark = f"RADIXCHECK_TEST={uuid4()}"
    judge = subprocess.Popen(
        [sys.executable, "-c", JUDGES.format(then=then), spec],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "RADIXCHECK_TEST": mark.partition("=")[2]},
    )
    assert judge.stdout is not None
    assert b"ready\n" == judge.stdout.readline()
    if number is not None:
        time.sleep(0.3)
        assert workers(mark)
        judge.send_signal(number)
    judge.communicate(timeout=30)
    deadline = time.monotonic() + 5
    while workers(mark) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert {} == workers(mark)


def test_the_last_words_before_an_abort_are_told(isolate: Isolate, own: str) -> None:
    violation = isolate(f"{own}:Aborts").check(Trace((Insert((1,)), Evict(1)))).violation
    assert violation is not None
    assert violation.detail.startswith("pinned twice! (in evict, ")


FATAL_NINE, FINE_ONE = Trace((Insert((9,)),)), Trace((Insert((1,)), MatchPrefix((1,))))


def died_of_nine(host: Isolated) -> bool:
    verdict = host.check(FATAL_NINE, thorough=False)
    return getattr(verdict.violation, "detail", "") == "given 9"


def test_what_was_begun_behind_a_fatal_trace_is_judged_all_the_same(
    isolate: Isolate, own: str
) -> None:
    host = isolate(f"{own}:DiesOfNine")
    for trace in (FATAL_NINE, FINE_ONE, FATAL_NINE):
        host.begin(trace)
    assert died_of_nine(host)
    assert host.check(FINE_ONE, thorough=False).operations == 2
    assert died_of_nine(host)


def test_who_asks_something_else_meanwhile_gets_the_answer_to_that(
    isolate: Isolate, own: str
) -> None:
    host = isolate(f"{own}:DiesOfNine")
    host.begin(FATAL_NINE)
    host.begin(FINE_ONE)
    assert len(host.replay(FINE_ONE).steps) == 2
    assert died_of_nine(host)
    assert host.check(FINE_ONE, thorough=False).operations == 2


@LINUX
@pytest.mark.parametrize("place", [0, -1], ids=["the worker", "its child"])
def test_what_was_begun_is_begun_again_if_somebody_ends_the_process(
    isolate: Isolate, own: str, place: int
) -> None:
    host, slow = isolate(f"{own}:DiesOfNine"), Trace((Insert((8,)),))
    host.check(FINE_ONE)
    host.begin(slow)
    host.begin(FINE_ONE)
    time.sleep(0.1)
    os.kill(family(os.getpid())[place], signal.SIGKILL)
    assert host.check(slow, thorough=False).violation is None
    assert host.check(FINE_ONE, thorough=False).operations == 2
    assert host.kills == 1


def test_a_process_that_is_damaged_is_no_target_that_cannot_be_opened(
    isolate: Isolate, own: str
) -> None:
    report = judged(isolate(f"{own}:Damages"), max_operations=1_000)
    assert {("crash", True)} == {(each.violation.rule, each.flaky) for each in report.findings}
    assert "between two traces" in report.findings[0].violation.actual


def test_a_size_has_a_patience_of_its_own(isolate: Isolate, own: str) -> None:
    host = isolate(f"{own}:SlowSizes", 0.4)
    verdict = host.check(Trace((Insert((1,)),)))
    assert "hang" != getattr(verdict.violation, "rule", "")


def test_a_death_after_the_last_call_belongs_to_the_trace(isolate: Isolate, own: str) -> None:
    (finding,) = judged(isolate(f"{own}:DiesLate"), max_operations=200, first_only=True).findings
    assert (False, 1) == (finding.flaky, len(finding.trace.operations))
    assert "died of SIGABRT, when the target was let go" == finding.violation.actual
