"""Servers to be asked: small ones that go wrong in one way, and one that shows Python targets."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias
from urllib.parse import quote

import pytest

from radixcheck.targets import server as servers

CHECKOUT = Path(__file__).resolve().parents[2]

HEAD = """
import json, os, signal, subprocess, sys, time
METHODS = ["match_prefix", "insert", "evict", "evictable_size"]
HELLO = {"version": 1}
OPEN = {"methods": METHODS}
EMPTY = {"evictable_size": 0}
NOTHING = {"match_prefix": {"length": 0, "slots": []}, "evict": {"slots": []}, "sizes": {}}

def answer(ask):
    "Answer as a cache in which nothing is stored but with effort."
    if ask["op"] in ("hello", "open"):
        return HELLO if ask["op"] == "hello" else OPEN
    return {**NOTHING[ask["op"]], **EMPTY}

def serve(answer):
    for line in sys.stdin:
        asked = json.loads(line)
        told = [answer(each) for each in asked] if isinstance(asked, list) else answer(asked)
        print(json.dumps(told), flush=True)
"""

Write: TypeAlias = Callable[..., str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a server, and return its spec. After `HEAD` its `body` has all it needs."""

    def write(body: str, **query: object) -> str:
        path = tmp_path / "server.py"
        path.write_text(HEAD + body)
        return spec(f"{sys.executable} {path}", **query)

    return write


def spec(command: str, **query: object) -> str:
    """Write a spec of `command`."""
    pairs = "&".join(f"{key}={quote(str(value))}" for key, value in query.items())
    return f"cmd:{command}?{pairs}" if pairs else f"cmd:{command}"


@pytest.fixture(scope="session")
def shown() -> Callable[..., str]:
    """Return the spec of a server that shows the Python target of a spec."""
    command = f"{sys.executable} {Path(__file__).with_name('serve.py')}"
    return lambda inner, **query: spec(command, of=inner, **query)


@pytest.fixture(scope="session")
def node() -> str:
    """Return the spec of the example in JavaScript, where there is something to run it."""
    if shutil.which("node") is None:
        pytest.skip("there is no node")
    return f"cmd:node {CHECKOUT / 'targets' / 'node' / 'radix.js'}"


@pytest.fixture(autouse=True)
def _no_server_is_left() -> Iterator[None]:
    yield
    servers.close_all()
