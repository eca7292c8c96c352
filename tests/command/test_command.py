"""Servers as targets: their verdicts, what goes wrong with them, and whose fault that is."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from radixcheck.buffers import BadAnswer
from radixcheck.cli.hosting import isolation, make_host
from radixcheck.hosts import Here
from radixcheck.loop import Budget, Report, run
from radixcheck.operations import DecRef, Evict, IncRef, Insert, MatchPrefix, Tick
from radixcheck.registry import TargetError, resolve
from radixcheck.rules import Violation
from radixcheck.targets import server as servers
from radixcheck.trace import Trace
from radixcheck.verdict import check, replay

pytestmark = pytest.mark.slow

Write = Callable[..., str]
Shown = Callable[..., str]

MATCH = Trace((MatchPrefix((1,)),))


def report_of(spec: str, operations: int, seed: int = 1) -> Report:
    """Run a target for so many operations."""
    return run(Here(resolve(spec)), seed=seed, budget=Budget(max_operations=operations))


def violation_of(spec: str, trace: Trace = MATCH) -> Violation:
    """Return the rule that a target breaks."""
    violation = check(resolve(spec).open, trace).violation
    assert violation is not None
    return violation


def error_of(spec: str) -> TargetError:
    """Return what is raised by opening a target."""
    with pytest.raises(TargetError) as caught:
        resolve(spec).open()
    return caught.value


def bad_answer_of(spec: str, trace: Trace = MATCH) -> BadAnswer:
    """Return what is raised about an answer that cannot be read."""
    source = resolve(spec)
    with pytest.raises(BadAnswer) as caught:
        check(source.open, trace)
    return caught.value


# ------------------------------------------------------------------------------------- verdicts


@pytest.mark.parametrize("batch", [64, 2, "off"])
def test_a_correct_cache_in_another_process_is_not_accused(shown: Shown, batch: object) -> None:
    report = report_of(shown("radix-paged", batch=batch), 1500)
    assert ([], 0) == (report.findings, len(report.skipped.keys() & {"the target has no evict"}))


@pytest.mark.parametrize("rule", ["foreign-slot", "evicted-locked", "eviction-order", "size-drift"])
@pytest.mark.parametrize("batch", [64, "off"])
def test_a_liar_in_another_process_is_convicted(shown: Shown, rule: str, batch: object) -> None:
    from radixcheck.targets.liars import LIARS

    spec = shown(f"radixcheck.targets.liars:{LIARS[rule].__name__}", batch=batch)
    budget = Budget(max_operations=6000, first_only=True)
    (finding,) = run(Here(resolve(spec)), seed=1, budget=budget).findings
    assert (rule, False, True) == (
        finding.violation.rule,
        finding.flaky,
        len(finding.trace.operations) <= 4,
    )


def test_an_injected_clock_ticks_in_the_other_process(shown: Shown) -> None:
    source = resolve(shown("radix-paged"))
    trace = Trace((Insert((1,)), Tick(-1), Insert((2,)), Tick(7), Insert((3,)), Evict(2)))
    seen = replay(source.open, trace)
    assert None is seen.verdict.violation
    assert "injected-steps" == getattr(seen.verdict.capabilities, "clock", "")


def test_a_spec_may_override_what_a_server_promises(shown: Shown) -> None:
    target = resolve(shown("radix-paged", stamps="matched", eviction="fifo")).open()
    assert ("matched", "fifo") == (target.capabilities.stamps, target.capabilities.eviction)


def test_a_server_says_what_a_run_may_sweep(write: Write) -> None:
    source = resolve(write('HELLO["supports"] = {"page_size": [1, 4]}\nserve(answer)'))
    assert [{"page_size": 1}, {"page_size": 4}] == source.configurations()


def test_a_target_has_the_methods_that_its_server_has(write: Write) -> None:
    target = resolve(write("serve(answer)")).open()
    has = [hasattr(target, name) for name in ("evict", "evictable_size", "inc_ref", "reset")]
    assert [True, True, False, False] == has


def test_a_server_may_tell_no_sizes(write: Write) -> None:
    body = 'METHODS.remove("evictable_size")\nEMPTY.clear()\nserve(answer)'
    assert None is check(resolve(write(body)).open, Trace((MatchPrefix((1,)), Evict(1)))).violation


# --------------------------------------------------------------------------- what is not opened

UNOPENED = {
    "exits": ("sys.exit(3)", "adapter", "exited with status 3"),
    "dies": ("os.kill(os.getpid(), signal.SIGSEGV)", "adapter", "died of SIGSEGV"),
    "complains": ('sys.exit("no such flag")', "adapter", "its stderr ends: no such flag"),
    "is silent": ("time.sleep(60)", "adapter", "gave no answer within 0.5 s"),
    "talks": ("print('Welcome!', flush=True)\nserve(answer)", "adapter", "Welcome!"),
    "is of later": ('HELLO["version"] = 2\nserve(answer)', "user", "speaks version 2"),
    "refuses": ('OPEN = {"refused": "no lfu here"}\nserve(answer)', "user", "no lfu here"),
    "fails": ('OPEN = {"error": "KeyError"}\nserve(answer)', "adapter", "ServerError: KeyError"),
    "invents": ('METHODS.append("fly")\nserve(answer)', "adapter", "has a method 'fly'"),
    "cannot match": ("del METHODS[0]\nserve(answer)", "adapter", "has no match_prefix"),
    "overpromises": (
        'OPEN["capabilities"] = {"eviction": "magic"}\nserve(answer)',
        "adapter",
        "Invalid enum value 'magic' - at `$.eviction`",
    ),
}


@pytest.mark.parametrize("case", UNOPENED)
def test_a_server_that_cannot_be_opened_is_told_by_fault(case: str, write: Write) -> None:
    body, fault, message = UNOPENED[case]
    error = error_of(write(body, op_timeout=60 if case != "is silent" else 0.5))
    assert (fault, True) == (error.fault, message in error.message), error.message


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("./no-such-server --flag", "'./no-such-server' cannot be started: No such file"),
        ("'half", "is no command line: No closing quotation"),
        (" ", "there is no command"),
    ],
)
def test_a_command_that_cannot_be_started_is_the_user_s_mistake(command: str, message: str) -> None:
    error = error_of(f"cmd:{command}")
    assert ("user", True) == (error.fault, message in error.message)


@pytest.mark.parametrize("batch", ["0", "some", "-1"])
def test_a_batch_is_a_number_or_off(batch: str, write: Write) -> None:
    error = error_of(write("serve(answer)", batch=batch))
    assert ("user", True) == (error.fault, "write a number of operations, or off" in error.message)


# ------------------------------------------------------------------------- what cannot be read

UNREADABLE = {
    "no JSON": ("print('debug: matching')", "cannot be read (JSON is malformed"),
    "an empty line": ("print()", "cannot be read"),
    "too few fields": (
        'print(json.dumps({"length": 0, "evictable_size": 0}))',
        "the answer to match_prefix has no slots",
    ),
    "a size left out": (
        'print(json.dumps({"length": 0, "slots": []}))',
        "the answer to match_prefix has no evictable_size",
    ),
    "a field too many": (
        'print(json.dumps({"length": 0, "slots": [], "hits": 2}))',
        "unknown field `hits`",
    ),
    "a wrong type": (
        'print(json.dumps({"length": "0", "slots": [], "evictable_size": 0}))',
        "Expected `int | null`, got `str` - at `$.length`",
    ),
    "a list": ("print([])", "Expected `object`, got `array`"),
    "two lines": ('print(json.dumps(answer(ask)) * 2 + "\\n{}")', "one line with more"),
    "bytes": ('sys.stdout.buffer.write(b"\\xff\\n")', "cannot be read"),
}


def failing_at_matches(code: str) -> str:
    """Write a server that does `code` when it is asked for a match."""
    return f"""
for line in sys.stdin:
    ask = json.loads(line)
    if "match_prefix" in line:
        print("looking up", ask, file=sys.stderr, flush=True)
        {code}
        sys.stdout.flush()
    else:
        print(json.dumps(answer(ask)), flush=True)
"""


@pytest.mark.parametrize("case", UNREADABLE)
def test_an_answer_that_cannot_be_read_is_the_server_s_mistake(case: str, write: Write) -> None:
    code, message = UNREADABLE[case]
    error = bad_answer_of(write(failing_at_matches(code)))
    assert message in str(error)
    assert ["stderr: looking up", "operation 1 of the trace"] == [
        note[: len(start)]
        for note, start in zip(
            error.__notes__, ("stderr: looking up", "operation 1 of the trace"), strict=True
        )
    ]


def test_a_line_without_end_is_not_read_for_ever(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers, "LONGEST_LINE_BYTES", 100_000)
    error = bad_answer_of(write(failing_at_matches('print(" " * 200_000, end="")')))
    assert "a line of more than 100,000 bytes" in str(error)


def test_a_batch_with_too_few_answers_is_the_server_s_mistake(write: Write) -> None:
    body = """
OPEN["capabilities"] = {"resolution_s": 0}
for line in sys.stdin:
    asked = json.loads(line)
    print(json.dumps([answer(asked[0])] if isinstance(asked, list) else answer(asked)), flush=True)
"""
    target = resolve(write(body)).open()
    with pytest.raises(BadAnswer) as caught:
        target.send([target.prepare("match_prefix", (1,), ()), target.prepare("evict", 1)])
    assert "2 operations in one line got 1 answers" in str(caught.value)


def test_an_answer_that_cannot_be_read_is_quoted(write: Write) -> None:
    answer = '{"length": 2, "slots": [7, 8], "evictable_size": 2, "colour": "blue"}'
    error = bad_answer_of(write(failing_at_matches(f"print({answer!r})")))
    assert answer in str(error)


# ----------------------------------------------------------------------------- errors and deaths


def test_an_error_of_a_server_is_told_with_its_own_line(write: Write) -> None:
    told = '{"error": "TypeError: x is undefined", "where": "tree.js:7"}'
    violation = violation_of(write(failing_at_matches(f"print('{told}')")))
    assert ("unexpected-error", "ServerError: TypeError: x is undefined", "tree.js:7") == (
        violation.rule,
        violation.actual,
        violation.detail,
    )


def test_a_refusal_where_none_may_be_is_an_error(write: Write) -> None:
    told = '{"refused": "busy", "evictable_size": 0}'
    violation = violation_of(write(failing_at_matches(f"print('{told}')")))
    assert ("unexpected-error", "Refused: busy") == (violation.rule, violation.actual)


DEATHS = {
    "sys.exit(3)": ("crash", "exited with status 3"),
    "os.kill(os.getpid(), signal.SIGSEGV)": ("crash", "died of SIGSEGV"),
    "os.close(1)\n        time.sleep(60)": ("crash", "closed its stdout"),
    "time.sleep(60)": ("hang", "gave no answer within 0.5 s"),
    "while True: pass": ("hang", "gave no answer within 0.5 s"),
    "print(end='{', flush=True)\n        time.sleep(60)": ("hang", "gave no answer within 0.5 s"),
}


@pytest.mark.parametrize("code", DEATHS)
def test_a_death_is_a_violation_with_the_end_of_stderr(code: str, write: Write) -> None:
    hangs = DEATHS[code][0] == "hang"
    violation = violation_of(write(failing_at_matches(code), op_timeout=0.5 if hangs else 60))
    assert DEATHS[code] == (violation.rule, violation.actual)
    assert violation.detail.startswith("looking up")


def test_a_death_in_disabled_mode_is_no_refusal(write: Write) -> None:
    body = failing_at_matches("pass").replace('"match_prefix" in line', '"evict" in line')
    source = resolve(write(body.replace("pass", "sys.exit(3)")))
    violation = check(source.open, Trace((Evict(1),), {"disable": True})).violation
    assert violation is not None
    assert "crash" == violation.rule


def test_a_death_is_shrunk_like_any_other_finding(write: Write) -> None:
    (finding,) = run(
        Here(resolve(write("serve(answer)"))), seed=1, budget=Budget(first_only=True)
    ).findings
    told = finding.violation
    assert ("crash", "exited with status 1", False) == (told.rule, told.actual, finding.flaky)
    assert told.detail.endswith("KeyError: 'insert'")
    assert 1 == len(finding.trace.operations)


# ----------------------------------------------------------------------------------- one process


def test_one_server_serves_all_traces_of_a_run(write: Write, tmp_path: Path) -> None:
    log = tmp_path / "started"
    body = f"open({str(log)!r}, 'a').write('x')\nserve(answer)"
    source = resolve(write(body))
    for _ in range(20):
        check(source.open, MATCH)
    assert "x" == log.read_text()


def test_two_caches_at_once_have_a_server_each(shown: Shown) -> None:
    source = resolve(shown("radix-paged"))
    one, other = source.open({"page_size": 1}), source.open({"page_size": 1})
    one.insert((1, 2), [5, 6])
    assert (2, 0) == (one.match_prefix((1, 2)).length, other.match_prefix((1, 2)).length)


def test_after_a_death_there_is_a_new_server(write: Write) -> None:
    source = resolve(write(failing_at_matches("sys.exit(3)")))
    rules = [getattr(check(source.open, MATCH).violation, "rule", "") for _ in range(3)]
    assert ["crash"] * 3 == rules


def test_handles_that_nobody_holds_are_forgotten(shown: Shown) -> None:
    target = resolve(shown("radix-paged")).open({"page_size": 1})
    kept = target.match_prefix((1,)).handle
    for _ in range(3):
        target.match_prefix((1,))
    call = target.prepare("inc_ref", kept)
    target.send([call])
    assert (1, [4]) == (kept.number, call.request.forget)


def test_the_program_of_a_finding_needs_only_the_target(write: Write) -> None:
    from radixcheck.program import render

    source = resolve(write(failing_at_matches("sys.exit(3)")))
    seen = replay(source.open, MATCH)
    violation = seen.verdict.violation
    assert violation is not None
    program = render(seen.steps, source, MATCH.config, violation)
    assert "from radixcheck.targets.command import command" in program


LOCKS = Trace((Insert((1,)), MatchPrefix((1,), handle="h"), IncRef("h"), DecRef("h"), Evict(1)))


def test_locks_are_counted_in_the_other_process(shown: Shown) -> None:
    assert None is check(resolve(shown("radix-paged")).open, LOCKS).violation


def test_the_patience_of_the_command_line_is_the_servers(write: Write) -> None:
    spec = write("serve(lambda ask: time.sleep(9) if ask['op'] == 'evict' else answer(ask))")
    limits = isolation(None, 0.5, 2**30)
    with closing(make_host(spec, limits)) as host:
        violation = host.check(Trace((Evict(1),))).violation
    assert violation is not None
    assert ("hang", True) == (violation.rule, "0.5 s" in violation.actual)
