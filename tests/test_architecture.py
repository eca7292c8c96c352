"""The house rules, read from the source by `ast`: who imports whom, who prints, what is how long.

The tables below are the rules; a change of the architecture is an edit of a table. Everything is
read from the checkout that holds this file, so that the suite may run against an installed wheel.
"""

from __future__ import annotations

import ast
import fnmatch
import importlib.util
import math
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeAlias

import pytest

pytestmark = pytest.mark.slow

CHECKOUT = Path(__file__).resolve().parent.parent
PYPROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["tool"]["setuptools"]

FOLDERS = {"harness", "reference", "targets", "corpora", "tests", "bench", "docs"}

VOCABULARY = {"operations", "capabilities", "protocol", "rules", "trace", "finding"}
GROUND = VOCABULARY | {"registry", "arena", "promises", "situations", "levels"}
WORKSHOP = GROUND | {"buffers", "clock", "slots", "reference", "checker", "generate", "shrink"}
WORKSHOP |= {"pools", "requests", "verdict", "leaks", "devices", "claims", "hosts", "workloads"}
EVERYTHING = WORKSHOP | {"corpora", "corpus", "drivers", "loop", "program", "report", "targets"}

MAY_IMPORT = {  # layer: what it may import of radixcheck, itself aside
    "": {"live"},
    "operations": set(),
    "capabilities": set(),
    "protocol": {"capabilities"},
    "rules": set(),
    "trace": {"operations"},
    "finding": {"operations", "rules", "trace"},
    "reference": VOCABULARY,
    "targets": {"operations", "capabilities", "protocol", "buffers", "devices", "streams"}
    | {"sanitizers"},
    "corpora": set(),
    "registry": VOCABULARY,
    "promises": {"protocol", "buffers", "capabilities"},
    "situations": VOCABULARY | {"reference"},
    "levels": VOCABULARY
    | {"checker", "generate", "pools", "program", "promises", "requests", "situations"},
    "arena": VOCABULARY | {"registry", "levels", "situations", "devices"},
    "buffers": {"protocol"},
    "clock": {"capabilities"},
    "journal": {"clock"},
    "nesting": set(),
    "slots": set(),
    "storage": set(),
    "streams": set(),
    "devices": set(),
    "sanitizers": set(),
    "checker": VOCABULARY | {"reference", "buffers", "clock", "slots", "situations", "storage"},
    "generate": VOCABULARY,
    "workloads": VOCABULARY | {"generate"},
    "pools": VOCABULARY
    | {"reference", "buffers", "clock", "checker", "generate", "promises", "situations"},
    "requests": VOCABULARY
    | {"reference", "buffers", "clock", "checker", "generate", "pools", "promises", "situations"}
    | {"registry", "program", "spelling"},
    "ahead": VOCABULARY | {"buffers", "clock", "reference"},
    "verdict": VOCABULARY | {"ahead", "buffers", "clock", "journal", "levels", "nesting"},
    "leaks": VOCABULARY | {"clock", "devices", "verdict"},
    "claims": VOCABULARY
    | {"registry", "buffers", "checker", "clock", "journal", "levels", "slots", "verdict"},
    "hosts": GROUND
    | {"buffers", "checker", "claims", "clock", "collecting", "journal", "leaks"}
    | {"sanitizers", "verdict"},
    "live": VOCABULARY
    | {"buffers", "checker", "clock", "pools", "reference", "requests", "slots", "targets"},
    "shrink": {"operations", "trace"},
    "bytecode": {"operations", "trace"},
    "mutation": {"bytecode"},
    "fuzzing": GROUND | {"bytecode", "sanitizers"},
    "corpus": VOCABULARY | {"corpora"},
    "copies": set(),
    "drivers": GROUND
    | {"checker", "clock", "collecting", "copies", "generate", "hosts", "workloads"}
    | {"bytecode", "fuzzing", "mutation", "verdict"},
    "collecting": set(),
    "loop": WORKSHOP | {"drivers", "corpus", "collecting"},
    "guided": WORKSHOP | {"fuzzing", "loop"},
    "campaign": WORKSHOP
    | {"collecting", "corpus", "drivers", "fuzzing", "journal", "known", "loop"},
    "skeleton": set(),
    "bite": WORKSHOP | {"collecting", "corpus", "drivers", "loop", "targets"},
    "spelling": {"operations"},
    "program": VOCABULARY | {"registry", "spelling"},
    "report": GROUND | {"loop", "program"},
    "cli": EVERYTHING | {"known", "bite", "bytecode", "fuzzing", "guided", "campaign", "skeleton"},
    "__main__": {"cli"},
    "known": {"rules", "trace"},
    "strategies": WORKSHOP | {"cli", "drivers", "loop", "report"},
    "conformance": EVERYTHING | {"cli", "known"},
    "pytest_plugin": EVERYTHING | {"cli", "known", "conformance"},
}

AT_IMPORT_TIME = {  # third-party library: the layers that need it as soon as they are imported
    "msgspec": set(MAY_IMPORT),
    "rich": {"report", "cli"},
    "typer": {"cli"},
    "pytest": {"conformance", "pytest_plugin"},
    "hypothesis": {"bite.machine", "drivers.hypothesis", "strategies"},
    "atheris": {"bite.covering", "drivers.atheris"},
}

WHEN_WANTED = {  # third-party library: where a function may import it
    "numpy": {"buffers", "targets"},
    "torch": {"buffers", "devices", "streams", "targets"},
    "sglang": {"targets.sglang"},
    "ray": {"campaign.ray"},
    "cosmic_ray": {"bite.operators"},
}

MAY_PRINT = {"report", "cli"}
MAY_READ_ENVIRONMENT = {"cli", "pytest_plugin", "targets.native.build"}  # CXX, XDG_CACHE_HOME

LONGEST_LINE = 100
LONGEST_FUNCTION = 60
LONGEST_OF_NINE_IN_TEN = 30
LONGEST_OF_HALF = 8
LONGEST_CLI_MODULE = 300

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


class Import(NamedTuple):
    """One imported name, and whether it is imported as soon as its module is."""

    name: str
    at_import_time: bool


class Module(NamedTuple):
    """One source file of the package."""

    name: str
    """Its name below ``radixcheck.``, such as ``cli.replay``; empty for the package itself."""
    path: Path
    tree: ast.Module

    def is_in(self, layers: set[str]) -> bool:
        """Tell whether this module is one of `layers` or lies below one."""
        return any(f"{self.name}.".startswith(f"{layer}.") for layer in layers)

    @property
    def layer(self) -> str:
        """The first part of the name, by which the tables know it."""
        return self.name.partition(".")[0]


def _folder(package: str) -> Path:
    """Return where a package lies in the checkout, by the longest mapping that fits."""
    mapping = PYPROJECT["package-dir"]
    root = max((root for root in mapping if f"{package}.".startswith(f"{root}.")), key=len)
    return CHECKOUT.joinpath(mapping[root], *package[len(root) :].split("."))


@cache
def modules() -> tuple[Module, ...]:
    """Parse every module of every listed package."""
    found = []
    for package in PYPROJECT["packages"]:
        for path in sorted(_folder(package).glob("*.py")):
            parts = [*package.split(".")[1:], path.stem]
            name = ".".join(parts).removesuffix("__init__").removesuffix(".")
            found.append(Module(name, path, ast.parse(path.read_text(), str(path))))
    return tuple(found)


def definitions() -> Iterator[tuple[Module, Function | ast.ClassDef]]:
    """Yield every class and function, at whatever depth."""
    for module in modules():
        for node in ast.walk(module.tree):
            if isinstance(node, Function | ast.ClassDef):
                yield module, node


def imports(module: Module) -> Iterator[Import]:
    """Yield what a module imports, by statement or by ``import_module("name")``."""
    late = {
        node
        for function in ast.walk(module.tree)
        if isinstance(function, Function | ast.Lambda) or _is_type_checking(function)
        for node in ast.walk(function)
    }
    for node in ast.walk(module.tree):
        for name in _names(node):
            yield Import(name, node not in late)


def _is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def _names(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Import(names):
            yield from (alias.name for alias in names)
        case ast.ImportFrom(source, names, 0):
            yield from (f"{source}.{alias.name}" for alias in names)
        case ast.ImportFrom(source, _, level):
            yield "." * level + (source or "")
        case ast.Call(ast.Name("__import__" | "import_module"), [ast.Constant(str(name)), *_]):
            yield name
        case ast.Call(ast.Attribute(attr="import_module"), [ast.Constant(str(name)), *_]):
            yield name


def of_radixcheck(name: str) -> str | None:
    """Return the module of radixcheck that an imported name is, or is in; None for any other."""
    first, _, rest = name.partition(".")
    if first != "radixcheck":
        return None
    known = {module.name for module in modules()}
    while rest not in known:
        rest = rest.rpartition(".")[0]
    return rest


def third_party(name: str) -> str | None:
    """Return the library that an imported name belongs to; None for Python's own and ours."""
    library = name.partition(".")[0]
    return None if library in sys.stdlib_module_names or library == "radixcheck" else library


def shown(module: Module, node: ast.stmt | ast.expr) -> str:
    """Return where a person finds `node`."""
    return f"{module.path.relative_to(CHECKOUT)}:{node.lineno}"


# ------------------------------------------------------------------- how the source is read

IMPORTS = {
    "import numpy.linalg": ("numpy.linalg", True),
    "from numpy import array": ("numpy.array", True),
    "from . import model": (".", True),
    "if x:\n    import numpy": ("numpy", True),
    "class A:\n    import numpy": ("numpy", True),
    "importlib.import_module('numpy')": ("numpy", True),
    "if TYPE_CHECKING:\n    import numpy": ("numpy", False),
    "def f():\n    import numpy": ("numpy", False),
    "def f():\n    import_module('numpy')": ("numpy", False),
    "lambda: __import__('numpy')": ("numpy", False),
}


@pytest.mark.parametrize(("source", "expected"), IMPORTS.items())
def test_imports_are_seen_however_they_are_written(source: str, expected: tuple[str, bool]) -> None:
    assert list(imports(Module("", Path(), ast.parse(source)))) == [expected]


# --------------------------------------------------------------------------------- the tree


def test_top_level_folders_are_the_documented_ones() -> None:
    ignored = [line.rstrip("/") for line in (CHECKOUT / ".gitignore").read_text().split()]
    actual = {
        path.name
        for path in CHECKOUT.iterdir()
        if path.is_dir()
        and not path.name.startswith(".")
        and not any(fnmatch.fnmatch(path.name, pattern) for pattern in ignored)
    }
    assert FOLDERS == actual


def test_every_folder_with_python_in_it_is_a_listed_package() -> None:
    roots = [CHECKOUT / folder for folder in PYPROJECT["package-dir"].values()]
    with_python = {path.parent for root in roots for path in root.rglob("*.py")}
    assert with_python == set(map(_folder, PYPROJECT["packages"]))


def test_the_installed_package_has_exactly_the_files_of_the_checkout() -> None:
    packages = PYPROJECT["packages"]
    checkout = {file for package in packages for file in _files(package, [_folder(package)])}
    installed = {file for package in packages for file in _files(package, _installed(package))}
    assert checkout == installed


def _installed(package: str) -> list[Path]:
    found = importlib.util.find_spec(package)
    return list(map(Path, found.submodule_search_locations or ())) if found else []


def _files(package: str, folders: list[Path]) -> Iterator[Path]:
    """Yield the modules of a package and the traces below it, by the names they have in a wheel."""
    for folder in folders:
        for kind in ("*.py", "py.typed", "**/*.jsonl"):
            for path in folder.glob(kind):
                yield Path(*package.split("."), path.relative_to(folder))


def test_corpora_hold_no_python_but_an_empty_init() -> None:
    python = list((CHECKOUT / "corpora").rglob("*.py"))
    assert [(CHECKOUT / "corpora" / "__init__.py", "")] == [(p, p.read_text()) for p in python]


# ------------------------------------------------------------------------------ the imports


def test_every_module_has_its_place_in_the_table() -> None:
    assert {module.layer for module in modules()} - set(MAY_IMPORT) == set()


def test_layers_import_only_what_lies_below_them() -> None:
    upward = {
        f"{module.name} imports {imported}"
        for module in modules()
        for name, _ in imports(module)
        if (imported := of_radixcheck(name)) is not None
        and imported.partition(".")[0] not in MAY_IMPORT.get(module.layer, set()) | {module.layer}
    }
    assert upward == set()


def test_no_driver_imports_another() -> None:
    across = {
        f"{module.name} imports {imported}"
        for module in modules()
        for name, _ in imports(module)
        if module.name.startswith("drivers.")
        and (imported := of_radixcheck(name) or "").startswith("drivers.")
        and imported != module.name
    }
    assert across == set()


def test_the_package_is_imported_by_its_own_name_only() -> None:
    folders = set(PYPROJECT["package-dir"].values())
    wrong = {
        f"{path.relative_to(CHECKOUT)} imports {name}"
        for folder in FOLDERS
        for path in (CHECKOUT / folder).rglob("*.py")
        for name, _ in imports(Module("", path, ast.parse(path.read_text())))
        if name.partition(".")[0] in folders | {""}
    }
    assert wrong == set()


def test_libraries_are_imported_only_by_those_who_need_them() -> None:
    misplaced = {
        f"{module.name} imports {library}"
        for module in modules()
        for name, _ in imports(module)
        if (library := third_party(name)) is not None
        and not module.is_in(AT_IMPORT_TIME.get(library, set()) | WHEN_WANTED.get(library, set()))
    }
    assert misplaced == set()


def test_optional_libraries_are_imported_only_when_they_are_wanted() -> None:
    too_early = {
        f"{module.name} imports {library}"
        for module in modules()
        for name, at_import_time in imports(module)
        if at_import_time
        and (library := third_party(name)) is not None
        and not module.is_in(AT_IMPORT_TIME.get(library, set()))
    }
    assert too_early == set()


# ------------------------------------------------------------------------------- the habits


def test_only_report_and_cli_print() -> None:
    printed = {
        shown(module, node)
        for module in modules()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.expr)
        and ast.unparse(node) in ("print", "sys.stdout", "sys.stderr")
        and not module.is_in(MAY_PRINT)
    }
    assert printed == set()


def test_only_cli_and_pytest_plugin_read_the_environment() -> None:
    read = {
        f"{module.name} imports {name}"
        for module in modules()
        for name, _ in imports(module)
        if name in ("os.environ", "os.getenv") and not module.is_in(MAY_READ_ENVIRONMENT)
    } | {
        shown(module, node)
        for module in modules()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Attribute)
        and ast.unparse(node) in ("os.environ", "os.getenv")
        and not module.is_in(MAY_READ_ENVIRONMENT)
    }
    assert read == set()


def test_trace_files_are_never_executed() -> None:
    trace = next(module for module in modules() if module.name == "trace")
    named = {node.id for node in ast.walk(trace.tree) if isinstance(node, ast.Name)}
    named |= {name.partition(".")[0] for name, _ in imports(trace)}
    assert named & {"eval", "exec", "compile", "pickle", "marshal", "shelve", "yaml"} == set()


# ------------------------------------------------------------------------------ the lengths


def _function_lines() -> list[tuple[int, str]]:
    return sorted(
        ((node.end_lineno or node.lineno) - node.lineno + 1, f"{shown(module, node)} {node.name}")
        for module, node in definitions()
        if isinstance(node, Function)
    )


@pytest.mark.parametrize(
    ("share", "longest"),
    [(0.5, LONGEST_OF_HALF), (0.9, LONGEST_OF_NINE_IN_TEN), (1.0, LONGEST_FUNCTION)],
)
def test_functions_are_short(share: float, longest: int) -> None:
    lengths = _function_lines()
    lines, where = lengths[math.ceil(share * len(lengths)) - 1]
    assert lines <= longest, where


def test_modules_of_the_command_line_are_short() -> None:
    lengths = {m.name: len(m.path.read_text().splitlines()) for m in modules() if m.layer == "cli"}
    assert {} == {name: lines for name, lines in lengths.items() if lines > LONGEST_CLI_MODULE}


def test_lines_are_narrow() -> None:
    wide = [
        f"{path.relative_to(CHECKOUT)}:{number}"
        for folder in sorted(FOLDERS)
        for path in sorted((CHECKOUT / folder).rglob("*.py"))
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if len(line) > LONGEST_LINE
    ]
    assert wide == []


def test_everything_public_has_a_docstring() -> None:
    bare = [
        f"{module.path.relative_to(CHECKOUT)}: {getattr(node, 'name', 'the module')}"
        for module in modules()
        for node in (module.tree, *_public(module.tree))
        if node.body and not ast.get_docstring(node)
    ]
    assert bare == []


def _public(scope: ast.Module | ast.ClassDef) -> Iterator[Function | ast.ClassDef]:
    for node in scope.body:
        if isinstance(node, Function | ast.ClassDef) and not node.name.startswith("_"):
            yield node
            if isinstance(node, ast.ClassDef):
                yield from _public(node)
