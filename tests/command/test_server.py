"""The process of a server: its pipes, its death, and that it never outlives us."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from radixcheck.protocol import Crashed, Hung
from radixcheck.targets import server as servers
from radixcheck.targets.server import Server, lend, take_back

PATIENCE_S = 20.0
"""A busy machine is slow, not wrong."""

Script = Callable[[str], str]


@pytest.fixture
def script(tmp_path: Path) -> Script:
    """Write a Python program, and return the command that runs it."""

    def script(body: str) -> str:
        path = tmp_path / "script.py"
        path.write_text("import os, subprocess, sys, time\n" + body)
        return f"{sys.executable} {path}"

    return script


ECHO = "for line in sys.stdin:\n    print(line, end='', flush=True)\n"


def is_gone(pid: int) -> bool:
    """Wait until a process is gone, or has ended and only its parent has not looked."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.01)
    return False


# ---------------------------------------------------------------------------------------- pipes


def test_a_line_is_answered_by_a_line(script: Script) -> None:
    server = lend(script(ECHO))
    assert [b"one", b"two"] == [server.ask(line, PATIENCE_S) for line in (b"one", b"two")]


def test_a_server_that_writes_before_it_has_read_blocks_nobody(script: Script) -> None:
    body = """
while (data := os.read(0, 1000)):
    os.write(2, b"." * 10_000)
    os.write(1, data)
"""
    line = b"x" * 3_000_000
    assert line == lend(script(body)).ask(line, PATIENCE_S * 3)


def test_of_stderr_the_end_is_kept(script: Script) -> None:
    body = "sys.stderr.write('a' * 100_000 + 'the end')\nsys.stderr.flush()\n" + ECHO
    server = lend(script(body))
    server.ask(b"", PATIENCE_S)
    said = server.said()
    assert ("the end", True) == (said[-7:], len(said) <= servers.KEPT_STDERR_BYTES)


def test_a_server_may_close_its_stderr(script: Script) -> None:
    server = lend(script("os.close(2)\n" + ECHO))
    assert [b"one", b"two"] == [server.ask(line, PATIENCE_S) for line in (b"one", b"two")]


def test_a_dead_server_answers_with_its_death(script: Script) -> None:
    server = lend(script("sys.stderr.write('oh')\nsys.exit(9)"))
    for _ in range(2):
        with pytest.raises(Crashed) as caught:
            server.ask(b"", PATIENCE_S)
        assert ("exited with status 9", "oh") == (caught.value.what, caught.value.said)


def test_a_server_that_is_silent_is_ended(script: Script) -> None:
    server = lend(script("time.sleep(60)"))
    with pytest.raises(Hung):
        server.ask(b"", 0.2)
    assert is_gone(server.pid)


# --------------------------------------------------------------------------------- who has one


def test_a_server_is_lent_again_when_it_is_back(script: Script) -> None:
    command = script(ECHO)
    first = lend(command)
    take_back(command, os.getcwd(), first)
    assert (True, True) == (lend(command) is first, lend(command) is not first)


def test_a_server_that_owes_an_answer_is_not_lent_again(script: Script) -> None:
    command = script("time.sleep(60)")
    server = lend(command)
    with suppress(KeyboardInterrupt):
        _interrupted(server)
    take_back(command, os.getcwd(), server)
    assert (True, True) == (lend(command) is not server, is_gone(server.pid))


def _interrupted(server: Server) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    try:
        server.ask(b"", PATIENCE_S)
    finally:
        signal.signal(signal.SIGALRM, before)


def test_a_server_that_has_died_meanwhile_is_not_lent_again(script: Script) -> None:
    command = script(ECHO)
    server = lend(command)
    take_back(command, os.getcwd(), server)
    os.kill(server.pid, signal.SIGKILL)
    assert is_gone(server.pid)
    assert lend(command) is not server


def test_a_fork_leaves_the_servers_to_its_parent(script: Script) -> None:
    command = script(ECHO)
    server = lend(command)
    if (child := os.fork()) == 0:
        os._exit(0 if lend(command).ask(b"", PATIENCE_S) == b"" and not server.is_idle() else 1)
    assert 0 == os.waitpid(child, 0)[1]
    assert b"still here" == server.ask(b"still here", PATIENCE_S)


# -------------------------------------------------------------------------------- nobody is left

HARNESS = """
import sys, time
from radixcheck.targets.server import lend
server = lend({command!r})
print(server.ask(b"", 60).decode(), flush=True)
{then}
"""

STUBBORN = """
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
sys.stdin.readline()
print(os.getpid(), child.pid, flush=True)
while True:
    time.sleep(600)
"""
"""A server that looks at its stdin only once, and has a process of its own."""

LISTENING = STUBBORN.replace("while True:\n    time.sleep(600)", "sys.stdin.read()")


def started(script: Script, body: str, then: str) -> tuple[subprocess.Popen[str], list[int]]:
    """Start a harness with a server; return it and the processes of the server."""
    program = HARNESS.format(command=script(body), then=then)
    harness = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert harness.stdout is not None
    return harness, list(map(int, harness.stdout.readline().split()))


@pytest.mark.parametrize(
    "then", ["", "sys.exit(1)", "raise KeyboardInterrupt", "server.close(); time.sleep(600)"]
)
def test_a_harness_that_ends_takes_its_server_and_all_it_started_along(
    script: Script, then: str
) -> None:
    harness, processes = started(script, STUBBORN, then)
    try:
        assert [True, True] == [is_gone(pid) for pid in processes]
    finally:
        harness.kill()
        harness.wait()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux kills whose parent has died")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_a_harness_that_is_killed_leaves_no_server(script: Script, number: int) -> None:
    harness, (server, grandchild) = started(script, STUBBORN, "time.sleep(600)")
    harness.send_signal(number)
    harness.wait()
    assert is_gone(server)
    os.kill(grandchild, signal.SIGKILL)  # it was not ours to end


def test_stdin_ends_with_the_harness_whatever_else_runs(script: Script) -> None:
    harness, (server, grandchild) = started(script, LISTENING, "lend('sleep 600'); time.sleep(600)")
    harness.kill()
    harness.wait()
    assert is_gone(server)
    os.kill(grandchild, signal.SIGKILL)
