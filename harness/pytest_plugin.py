"""The pytest plugin: ``pytest --radix-target SPEC`` runs the conformance suite, from any folder.

It collects a class of its own, as if a file held ``class TestTarget(ConformanceSuite)``, and serves
the classes that a project writes by itself. What a test shows is the finding, and not where in
radixcheck it was raised.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import json
from msgspec.structs import fields

if TYPE_CHECKING:
    from radixcheck.conformance import Conformance, Settings
    from radixcheck.known import Failure

NAME = "radixcheck"
"""What the collected module is called: ids begin with ``radixcheck::TestTarget``."""

OPERATIONS = {"smoke": 2_000, "pr": 10_000, "nightly": 500_000}
"""Operations per configuration, by the name of a profile."""

MARKERS = (
    "radixcheck: every test of the conformance suite",
    "radix_target(spec): what the test judges",
)

KNOWN = "radixcheck/known-failures"
"""Where pytest's cache counts the clean runs of known failures."""

_SUITES: pytest.StashKey[dict[type, Conformance]] = pytest.StashKey()
_KNOWN: pytest.StashKey[_Settled] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Take the options."""
    group = parser.getgroup("radixcheck", "radixcheck: judge a prefix cache")
    add = group.addoption
    add("--radix-target", metavar="SPEC", help="run the conformance suite on this target")
    add("--radix-seed", type=int, metavar="N", help="seed of generated traces (0)")
    add("--radix-profile", choices=[*OPERATIONS], help="how many generated traces (pr)")
    add("--radix-max-time", metavar="90s|10m", help="time for all generated traces instead")
    add("--radix-corpus", type=Path, metavar="DIR", help="replay the traces in this folder too")
    add("--radix-known-failures", type=Path, metavar="FILE", help="see docs/pytest.md")


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers."""
    config.stash[_SUITES] = {}
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)


def pytest_unconfigure(config: pytest.Config) -> None:
    """End what was started for the targets."""
    for conformance in config.stash.get(_SUITES, {}).values():
        conformance.close()


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Say what is judged."""
    if (spec := config.getoption("radix_target")) is None:
        return []
    try:
        conformance = _conformance(config, _suite(spec))
    except pytest.fail.Exception:
        return [f"radixcheck {_version()}: {spec}"]  # collecting will say what is wrong with it
    first = conformance.arenas[0]
    return [
        f"radixcheck {_version()}: {spec}, seed {conformance.settings.seed}, "
        f"{len(conformance.arenas)} configurations, a {first.level.name}",
        f"radixcheck promises: {_promised(first.capabilities)}",
    ]


def _promised(capabilities: Any) -> str:
    """Write what is promised beyond the defaults."""
    plain = {each.name: each.default for each in fields(capabilities)}
    told = {name: getattr(capabilities, name) for name in plain}
    return ", ".join(f"{name}={told[name]}" for name in told if told[name] != plain[name])


# ---- collecting --------------------------------------------------------------------------


class _Module(pytest.Module):
    """A module that no file holds."""

    suite: type

    def _getobj(self) -> ModuleType:
        module = ModuleType(NAME)
        module.TestTarget = self.suite  # type: ignore[attr-defined]  # a module is what it is given
        return module


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Add the suite of ``--radix-target``, before others choose among the items."""
    if (spec := config.getoption("radix_target")) is None:
        return
    module = _Module.from_parent(session, path=config.rootpath / NAME, nodeid=NAME)
    module.suite = _suite(spec)
    items += session.genitems(module)


_MADE: dict[str, type] = {}


def _suite(spec: str) -> type:
    from radixcheck.conformance import ConformanceSuite

    if spec not in _MADE:
        _MADE[spec] = type("TestTarget", (ConformanceSuite,), {"target": spec})
    return _MADE[spec]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make one test of each configuration, trace and rule."""
    if "radix_conformance" not in metafunc.fixturenames or metafunc.cls is None:
        return
    from radixcheck.conformance import arena_id

    conformance = _conformance(metafunc.config, metafunc.cls)
    if "radix_arena" in metafunc.fixturenames:
        metafunc.parametrize("radix_arena", conformance.arenas, ids=arena_id)
    if "radix_trace" in metafunc.fixturenames:
        traces = list(conformance.traces())
        metafunc.parametrize(
            "radix_trace", traces, ids=[_id(saved.name, conformance) for saved in traces]
        )
    if "radix_rule" in metafunc.fixturenames:
        metafunc.parametrize("radix_rule", conformance.rules())


def _id(name: str, conformance: Conformance) -> str:
    """Name a trace by its path below the corpus, so that it is called the same anywhere."""
    folder = conformance.settings.corpus
    inside = folder is not None and Path(name).is_relative_to(folder)
    return Path(name).relative_to(folder).as_posix() if inside and folder else name


def _conformance(config: pytest.Config, suite: Any) -> Conformance:
    """Return what the tests of a class share; a target that cannot be used fails in a sentence."""
    from radixcheck.buffers import BadAnswer
    from radixcheck.conformance import Conformance
    from radixcheck.known import KnownFailuresError
    from radixcheck.registry import TargetError

    known, trouble = config.stash[_SUITES], ""
    try:
        if suite not in known:
            known[suite] = Conformance(suite.target, _settings(config, suite.settings))
    except TargetError as error:
        trouble = _unusable(error)
    except (BadAnswer, KnownFailuresError, OSError) as error:
        trouble = str(error)
    if trouble:
        pytest.fail(trouble, pytrace=False)
    return known[suite]


def _unusable(error: Any) -> str:
    return "; ".join(filter(None, [error.message, error.hint, f"fault: {error.fault}"]))


def _settings(config: pytest.Config, own: Settings) -> Settings:
    """Put what the command line says over what the class says."""
    from radixcheck import known
    from radixcheck.cli.options import duration

    said: dict[str, Any] = {}
    if (seed := config.getoption("radix_seed")) is not None:
        said["seed"] = seed
    if (profile := config.getoption("radix_profile")) is not None:
        said["operations"] = OPERATIONS[str(profile)]
    if (limit := config.getoption("radix_max_time")) is not None:
        said["max_time_s"] = duration(limit)
    if (corpus := config.getoption("radix_corpus")) is not None:
        said["corpus"] = corpus
    if (path := config.getoption("radix_known_failures")) is not None:
        said["known"] = known.load(path)
    return own._replace(**said)


@pytest.fixture
def radix_conformance(request: pytest.FixtureRequest) -> Conformance:
    """All that is asked of the target of the class, shared by its tests."""
    return _conformance(request.config, request.cls)


# ---- results -----------------------------------------------------------------------------


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show a finding as it is, and what does not apply or is known as such."""
    report = yield
    if call.excinfo is None or "radix_conformance" not in getattr(item, "fixturenames", ()):
        return report
    from radixcheck.buffers import BadAnswer
    from radixcheck.conformance import Inconclusive, KnownFailure, NotJudged, Violated
    from radixcheck.registry import TargetError

    error = call.excinfo.value
    if isinstance(error, NotJudged):
        report.outcome = "skipped"
        report.longrepr = (str(item.path), 0, f"Skipped: {error}")
    elif isinstance(error, KnownFailure):
        report.outcome, report.wasxfail = "skipped", f"known: {error}"
    elif isinstance(error, TargetError):
        report.longrepr = _unusable(error)
    elif isinstance(error, Violated | Inconclusive | BadAnswer):
        report.longrepr = str(error)
    return report


# ---- known failures ----------------------------------------------------------------------


class _Settled:
    """The known failures that concern the targets of a session, and those that occurred."""

    def __init__(self) -> None:
        self.concerning: list[Failure] = []
        self.covered: list[Failure] = []

    def add(self, concerning: Iterable[Failure], covered: Iterable[Failure]) -> None:
        """Take in what a suite or a worker tells; two may tell of the same entry."""
        self.concerning = list(dict.fromkeys((*self.concerning, *concerning)))
        self.covered = list(dict.fromkeys((*self.covered, *covered)))


def _settled(config: pytest.Config) -> _Settled:
    """Return what is known by now, with what the suites of this process say."""
    settled = config.stash.setdefault(_KNOWN, _Settled())
    for conformance in config.stash.get(_SUITES, {}).values():
        spec = conformance.host.source.spec
        known = (each for each in conformance.settings.known if each.concerns(spec))
        settled.add(known, conformance.covered)
    return settled


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Let a worker of xdist tell the process that shows everything."""
    if (output := getattr(session.config, "workeroutput", None)) is not None:
        settled = _settled(session.config)
        output[NAME] = json.encode((settled.concerning, settled.covered)).decode()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Hear what a worker of xdist tells when it ends; one that has died tells nothing."""
    from radixcheck.known import Failure

    if told := getattr(node, "workeroutput", {}).get(NAME):
        _settled(node.config).add(*json.decode(told, type=tuple[list[Failure], list[Failure]]))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Say which known failures should go, if anything was run that could have shown them."""
    from radixcheck.known import settle, today

    if config.getoption("collectonly"):
        return
    cache = getattr(config, "cache", None)
    tally = cache.get(KNOWN, {}) if cache else {}
    settled = _settled(config)
    for notice in settle(settled.concerning, settled.covered, tally, today()):
        terminalreporter.write_line(f"radixcheck known failures: {notice}")
    if cache and tally:
        cache.set(KNOWN, tally)


def _version() -> str:
    from importlib.metadata import version

    return version("radixcheck")
