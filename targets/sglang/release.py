"""Import a tree of one SGLang release, beside other releases and without what it does not need.

While a release's modules run, ``import`` answers::

    the tree (Tree.homes)         the release's own file, run anew for every cache if it has a clock
    its neighbours (Tree.real)    the release's own files, run once
    other sglang.*, triton.*      a stand-in, in which every name exists
    everything else               as always

Afterwards `sys.modules` is what it was. So releases of several folders live side by side, also
beside an SGLang that was imported before; and since a tree that is run anew has its own clock and
its own counters, caches of the classic tree share nothing. Those of the others share counters,
which only ever grow.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import cache
from importlib import metadata
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec, SourceFileLoader
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from radixcheck.targets.sglang.compiled import compiled_once
from radixcheck.targets.sglang.trees import BESIDE, NEIGHBOURS, SRT, Tree, tree_named

DRIVEN = (("0.1.3", "0.5.10"), ("0.5.23", "0.5.23"))
"""First and last of each run of releases that this adapter was tried on."""

CHECKS = frozenset({SRT + "utils.assert_int64_array"})
"""Functions of modules that were left out which only look at an argument: they find nothing."""

_ROOTS = ("sglang", "triton")
_SUFFIXES = (".py", *EXTENSION_SUFFIXES, ".cpp")
_ONE_AT_A_TIME = threading.RLock()
_ADVICE = (
    "install one (pip install --no-deps sglang==0.5.23) "
    "or name the folder of an unpacked wheel (sglang?path=DIR)"
)


class StandIn:
    """A name of a module that was left out. It may be called, inherited from or decorate.

    Once the modules have run, calling it is an error: a stand-in has no part in a verdict.
    """

    def __init__(self, name: str, imports: Imports) -> None:
        self._name = name
        self._imports = imports

    def __getattr__(self, name: str) -> StandIn:
        if name.startswith("__"):
            raise AttributeError(name)
        return StandIn(f"{self._name}.{name}", self._imports)

    def __call__(self, *_arguments: object, **_keywords: object) -> StandIn:
        if self._imports.are_running:
            return self
        raise RuntimeError(
            f"SGLang called {self._name}, which radixcheck left out when it imported the tree: "
            "a fault of the adapter"
        )

    def __bool__(self) -> bool:
        return False

    def __mro_entries__(self, _bases: tuple[object, ...]) -> tuple[type, ...]:
        return ()


class _StandInModule(ModuleType):
    """A module, and a package, that has every name."""

    def __init__(self, name: str, imports: Imports) -> None:
        super().__init__(name)
        self._imports = imports

    def __getattr__(self, name: str) -> Any:
        whole_name = f"{self.__name__}.{name}"
        if name.startswith("__") or whole_name in self._imports.real:
            raise AttributeError(name)
        return _find_nothing if whole_name in CHECKS else StandIn(whole_name, self._imports)


def _find_nothing(*_arguments: object) -> None:
    """Stand in for one of `CHECKS`."""


class _StandInLoader(Loader):
    def __init__(self, imports: Imports) -> None:
        self._imports = imports

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _StandInModule(spec.name, self._imports)

    def exec_module(self, module: ModuleType) -> None:
        """Leave the module empty: its names are made when they are asked for."""


class Imports(MetaPathFinder):
    """The modules of the release in `directory`, and what ``import`` answers while they run: of
    its own names only those of `real` are its own files."""

    def __init__(self, directory: Path, real: frozenset[str] = NEIGHBOURS) -> None:
        self._directory = directory
        self.real = real
        self.modules: dict[str, ModuleType] = {}
        self.are_running = False

    def file(self, name: str) -> Path | None:
        """Where the release keeps the module `name`, if it has one."""
        place = self._directory.joinpath(*name.split("."))
        files = (place.with_suffix(suffix) for suffix in _SUFFIXES)
        return next((file for file in (place / "__init__.py", *files) if file.exists()), None)

    def find_spec(
        self, name: str, _path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Answer ``import`` for the release's own names, as the table above says."""
        if name.partition(".")[0] not in _ROOTS:
            return None
        if name in self.real and (file := self.file(name)):
            return importlib.util.spec_from_file_location(name, file)
        return importlib.util.spec_from_loader(name, _StandInLoader(self), is_package=True)

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show this release to ``import``, and then take away again all that it brought."""
        with _ONE_AT_A_TIME:
            hidden = _take_from_sys_modules()
            sys.modules.update(self.modules)
            sys.meta_path.insert(0, self)
            try:
                yield
            finally:
                sys.meta_path.remove(self)
                self.modules = _take_from_sys_modules()
                sys.modules.update(hidden)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Show this release to ``import``, and let its modules use stand-ins while they run."""
        with self.shown():
            self.are_running = True
            try:
                yield
            finally:
                self.are_running = False


def _take_from_sys_modules() -> dict[str, ModuleType]:
    near = [name for name in sys.modules if name.startswith(_ROOTS)]
    ours = [name for name in near if name.partition(".")[0] in _ROOTS]
    return {name: sys.modules.pop(name) for name in ours}


class Release:
    """One tree of the SGLang in one folder.

    Raises:
        ImportError: this tree is not where releases keep it, or lacks a part.
    """

    def __init__(self, directory: Path, kind: Tree) -> None:
        self.directory = directory
        self.kind = kind
        self.version = _version(directory)
        run_once = frozenset() if kind.is_clocked else frozenset(kind.homes)
        self._imports = Imports(directory, kind.real | run_once)
        self._home, file = self._find_tree()
        self._loader = SourceFileLoader(self._home, str(file))
        self._code = self._loader.get_code(self._home)

    def __str__(self) -> str:
        return f"SGLang {self.version or 'of unknown version'} in {self.directory}"

    @property
    def is_driven(self) -> bool:
        """Whether this version was tried; a checkout, which has none, gets the benefit of doubt."""
        version = _numbers(self.version)
        return not version or any(
            _numbers(first) <= version <= _numbers(last) for first, last in DRIVEN
        )

    def tree(self, clock: Callable[[], float] | None = None) -> ModuleType:
        """Run the tree's module; if it has a clock, anew, and it tells the time by `clock` if that
        is given, or by the machine's.

        Raises:
            ImportError: the module needs what is not installed, or does not run on stand-ins.
        """
        with suppress(ImportError):
            importlib.import_module("torch")  # which looks for triton, and must find no stand-in
        try:
            compiling = compiled_once() if self.kind.is_compiled else nullcontext()
            with self._imports.running(), compiling:
                module = self._run()
                for name in self.kind.borrows:
                    home, _, attribute = (BESIDE + name).rpartition(".")
                    vars(module)[attribute] = getattr(importlib.import_module(home), attribute)
        except Exception as error:
            raise ImportError(self._why_not(error)) from error
        if clock is not None and self.kind.is_clocked:
            vars(module)["time"] = _time_by(clock)
        return module

    def shown(self) -> AbstractContextManager[None]:
        """Show the release to ``import``, for what a tree imports only while it is built."""
        return self._imports.shown()

    def neighbour(self, name: str) -> Mapping[str, Any]:
        """The content of a module beside the tree; empty if no tree has wanted it yet."""
        module = self._imports.modules.get(BESIDE + name)
        return {} if module is None else vars(module)

    def _run(self) -> ModuleType:
        if not self.kind.is_clocked:
            return importlib.import_module(self._home)
        spec = importlib.util.spec_from_loader(self._home, self._loader)
        assert spec is not None and self._code is not None, self._home
        module = sys.modules[self._home] = importlib.util.module_from_spec(spec)
        exec(self._code, vars(module))
        return module

    def _find_tree(self) -> tuple[str, Path]:
        for name in self.kind.homes:
            if file := self._imports.file(name):
                self._check_needs()
                return name, file
        raise ImportError(
            f"{self} has none of {', '.join(self.kind.homes)}: "
            "it is not SGLang, or radixcheck does not know where this release keeps its tree"
        )

    def _check_needs(self) -> None:
        if self.kind.needs and self._imports.file(BESIDE + self.kind.needs) is None:
            raise ImportError(f"{self}: {self.kind.missing}")

    def _why_not(self, error: Exception) -> str:
        if isinstance(error, ModuleNotFoundError) and error.name:
            package = error.name.partition(".")[0]
            return f"{self} needs {package!r}: install it (a CPU build will do)"
        if self.kind.is_compiled:
            lines = str(error).splitlines()
            telling = [line for line in lines if "error:" in line or "not found" in line]
            said = next(iter(telling or lines), type(error).__name__)
            return f"{self}: torch cannot compile {self._home} (it takes ninja and g++): {said}"
        return (
            f"{self}: {self._home} cannot be imported on a CPU: "
            f"{type(error).__name__}: {error}. The stand-ins do not fit it: a fault of the adapter"
        )


def _time_by(clock: Callable[[], float]) -> SimpleNamespace:
    """The module `time` for a tree: `clock` answers the two calls that stamp nodes."""
    return SimpleNamespace(**{**vars(time), "time": clock, "monotonic": clock})


def _version(directory: Path) -> str:
    found = metadata.distributions(name="sglang", path=[str(directory)])
    return next((distribution.version for distribution in found), "")


def _numbers(version: str) -> tuple[int, ...]:
    """``0.5.10.post1`` is (0, 5, 10)."""
    return tuple(map(int, re.findall(r"\d+", version)[:3]))


def open_release(path: str | None, untested: bool, tree: str = "classic") -> Release:
    """Find `tree` in the SGLang in the folder `path`, or in the installed one; each is read once a
    process.

    Raises:
        ImportError: there is none, or its version was never tried and `untested` is false.
        ValueError: no tree is called so.
    """
    release = _release_in(_installed() if path is None else _unpacked(path), tree)
    if release.is_driven or untested:
        return release
    driven = " and ".join(" to ".join(dict.fromkeys(ends)) for ends in DRIVEN)
    raise ImportError(
        f"untested release: {release}, but radixcheck was tried on {driven}; "
        "write untested=true to use it all the same"
    )


@cache
def _release_in(directory: Path, tree: str) -> Release:
    return Release(directory, tree_named(tree))


def _unpacked(path: str) -> Path:
    directory = Path(path).expanduser().resolve()
    if not (directory / "sglang").is_dir():
        trouble = "holds no sglang/" if directory.is_dir() else "is no folder"
        raise ImportError(f"path={path}: {directory} {trouble}; {_ADVICE}")
    return directory


def _installed() -> Path:
    spec = importlib.util.find_spec("sglang")
    if spec is None or not spec.submodule_search_locations:
        raise ImportError(f"SGLang is not installed; {_ADVICE}")
    return Path(spec.submodule_search_locations[0]).resolve().parent
