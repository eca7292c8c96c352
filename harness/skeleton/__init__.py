"""What ``radixcheck init`` writes: templates (``*.in``), and what a project puts into their gaps.

::

    tests/radix/NAME_target.py             the adapter, around a cache that stands in for theirs
                test_NAME_conformance.py   the conformance suite
                known_failures.toml        failures that are no news
                traces/                    replayed on every pull request
    .github/workflows/radixcheck.yml          the gate
                      radixcheck-nightly.yml  the night
    pyproject.toml, .gitignore             `SHARED` with other tools, so written only if missing

Below tests/, nothing is taken for a package of the project by those who look for packages there.
A gap is written ``%%word``, since dollars and at-signs mean something in a workflow.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import NamedTuple

FOLDER = "tests/radix"
GATE, NIGHTLY = ".github/workflows/radixcheck.yml", ".github/workflows/radixcheck-nightly.yml"

SHARED = ("pyproject.toml", ".gitignore")
"""Files that a project has for other reasons too: never changed, only written where missing."""

LONGEST_NAME = 40

Texts = Mapping[str, str]
"""Files by their path from the project's folder."""


class Filled(Template):
    """A template whose gaps are ``%%word``."""

    delimiter = "%%"


class Gaps(NamedTuple):
    """What the workflows need to know of a project. None of it is text that somebody else wrote."""

    specs: tuple[str, ...]
    """The targets. The first one also replays traces, and is compared with the base."""
    traces: str
    """Where traces are kept."""
    known: str
    """The file of known failures; empty for none."""
    install: str
    """What pip installs where targets are judged: the project and radixcheck."""
    tool: str
    """What pip installs where only radixcheck is wanted."""
    tool_from_checkout: bool = False
    """Whether that is the project itself."""
    base: str = ""
    """The adapter of what a pull request is merged into; empty to compare with nothing."""
    installable: bool = True
    """Whether pip can install the project, and so the base too."""


def name_of(folder: Path) -> str:
    """Make a name for modules from that of a folder: ``Prefix-Cache 2`` is ``prefix_cache_2``."""
    words = re.sub(r"[^a-z0-9]+", "_", folder.resolve().name.lower()).strip("_")
    name = words[:LONGEST_NAME].strip("_")
    return name if name and name[0].isalpha() else f"cache_{name}".strip("_")


def is_installable(folder: Path) -> bool:
    """Tell whether pip can install what lies in `folder`.

    Raises:
        tomllib.TOMLDecodeError, UnicodeDecodeError: its pyproject.toml cannot be read.
    """
    path = folder / "pyproject.toml"
    told = tomllib.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return bool(told.keys() & {"project", "build-system"}) or (folder / "setup.py").is_file()


def project(folder: Path, version: str) -> Texts:
    """Return all files for the project in `folder`.

    Args:
        version: of radixcheck, which the workflows install.

    Raises:
        tomllib.TOMLDecodeError, UnicodeDecodeError: its pyproject.toml cannot be read.
    """
    name, installable = name_of(folder), is_installable(folder)
    module, tool = f"{name}_target", f'"radixcheck=={version}"'
    spec = f"./{FOLDER}/{module}.py:Target"
    gaps = Gaps(
        specs=(spec,),
        traces=f"{FOLDER}/traces",
        known=f"{FOLDER}/known_failures.toml",
        install=f". {tool}" if installable else tool,
        tool=tool,
        base=f".base/{FOLDER}/{module}.py",
        installable=installable,
    )
    words = {"name": name, "module": module, "spec": spec, "traces": gaps.traces}
    words |= {"known": gaps.known, **(_INSTALLED if installable else _BESIDE)}
    texts = {path: _filled(template, words) for path, template in _templates(name).items()}
    return {**texts, **workflows(gaps)}


def _templates(name: str) -> dict[str, str]:
    return {
        f"{FOLDER}/{name}_target.py": "target.py",
        f"{FOLDER}/test_{name}_conformance.py": "conformance.py",
        f"{FOLDER}/known_failures.toml": "known_failures.toml",
        f"{FOLDER}/traces/README.md": "traces.md",
        f"{FOLDER}/traces/first-steps.jsonl": "first-steps.jsonl",
        "pyproject.toml": "pyproject.toml",
        ".gitignore": "gitignore",
    }


_INSTALLED = {"imports": "", "beside": ""}
_BESIDE = {
    "imports": "import sys\nfrom pathlib import Path\n",
    "beside": "\n# Nothing here is installed, so the cache is found by its folder.\n"
    "sys.path.insert(0, str(Path(__file__).resolve().parents[2]))",
}


def missing_lines(path: str, wanted: str, there: str) -> str:
    """Return what a shared file lacks of what `wanted` would put there; empty if it lacks nothing.

    Raises:
        tomllib.TOMLDecodeError: `there` should be TOML and is not.
    """
    if path == "pyproject.toml":
        table = tomllib.loads(there).get("tool", {}).get("radixcheck", {})
        return "" if tomllib.loads(wanted)["tool"]["radixcheck"].keys() <= table.keys() else wanted
    lines = set(there.split())
    return "".join(f"{line}\n" for line in wanted.split() if line not in lines)


# ---- workflows ---------------------------------------------------------------------------


def workflows(gaps: Gaps) -> Texts:
    """Return the gate and the night, by their paths."""
    words = {
        "traces": gaps.traces,
        "install": gaps.install,
        "tool": gaps.tool,
        "first_spec": gaps.specs[0],
        "base": "\n".join(_base(gaps)),
        "fuzz": "\n".join(_gate(gaps)),
        "night": "\n".join(_fuzz(gaps)),
        "tool_permission": "contents: read # to check radixcheck out",
        "tool_checkout": _CHECKOUT,
    }
    if not gaps.tool_from_checkout:
        words |= {"tool_permission": "", "tool_checkout": ""}
    return {
        GATE: _filled("pull-request.yml", words),
        NIGHTLY: _filled("nightly.yml", words),
    }


def _base(gaps: Gaps) -> Iterator[str]:
    """Lay out what a pull request is merged into, its package beside its adapter: whoever imports
    that adapter, imports that package."""
    if not gaps.base:
        return
    yield "      - name: Lay out the base"
    yield "        run: |"
    yield "          git worktree add --detach .base HEAD^1 || exit 0 # there is none"
    if gaps.installable:
        folder = Path(gaps.base).parent.as_posix()
        yield f"          python -m pip install --no-deps --target {folder} ./.base ||"
        yield "            git worktree remove --force .base # nothing to compare with"


def _gate(gaps: Gaps) -> Iterator[str]:
    if gaps.base:
        yield "          new=()"
        yield f"          if [ -f {gaps.base} ]; then"
        yield f"            new=(--only-new --baseline ./{gaps.base}:Target)"
        yield "          fi"
    yield from _fuzz(gaps, *(['"${new[@]}"'] if gaps.base else []))


def _fuzz(gaps: Gaps, *more: str) -> Iterator[str]:
    """Write the beginning of a command, which the template ends."""
    yield " ".join(["          radixcheck fuzz", *gaps.specs, *more, "\\"])
    if gaps.known:
        yield f"            --known-failures {gaps.known} \\"


_CHECKOUT = """\
      - name: Check out
        uses: actions/checkout@de0fac2e4500dabe0009e67214ff5f5447ce83dd # v6.0.2
        with:
          persist-credentials: false"""


def _filled(template: str, words: Texts) -> str:
    text = (files(__name__) / f"{template}.in").read_text(encoding="utf-8")
    kept = _WHOLE_LINE.sub(lambda found: found[0] if words[found[1]] else "", text)
    return Filled(kept).substitute(words)


_WHOLE_LINE = re.compile(r"^ *%%(\w+)\n", re.MULTILINE)
"""A gap with a line of its own, which goes if nothing is put there."""

__all__ = ["GATE", "NIGHTLY", "SHARED", "Gaps", "missing_lines", "name_of", "project", "workflows"]
