"""Compile the C++ of a release once, under a name of its own.

A release lets torch compile into a folder named after the extension. There the releases displace
each other, and whoever is killed meanwhile leaves a lock that all others wait for. So it is done
here in a fresh folder, of which only the finished library stays.
"""

from __future__ import annotations

import hashlib
import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any


@contextmanager
def compiled_once() -> Iterator[None]:
    """Let modules that run now compile by `load_once` where they ask torch to."""
    extensions: Any = importlib.import_module("torch.utils.cpp_extension")
    load, folder = extensions.load, Path(extensions.get_default_build_root())
    extensions.load = partial(load_once, load, folder)
    try:
        yield
    finally:
        extensions.load = load


def load_once(
    compile_into: Callable[..., object],
    folder: Path,
    name: str,
    sources: Sequence[str],
    **options: Any,
) -> ModuleType:
    """Import the extension `name` from `folder`; if it is not there yet, compile it.

    Args:
        compile_into: torch's `load`, which this stands in for.
    """
    library = folder / f"radixcheck-{name}-{_digest(sources, options)}.so"
    if not library.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=folder) as fresh:
            compile_into(name, sources, build_directory=fresh, is_python_module=False, **options)
            (built,) = Path(fresh).glob("*.so")
            built.rename(library)
    loader = ExtensionFileLoader(name, str(library))
    spec = spec_from_loader(name, loader)
    assert spec is not None, name
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


def _digest(sources: Sequence[str], options: object) -> str:
    """Tell apart what differs in any file beside the sources, or in how and for what it is made."""
    torch = importlib.import_module("torch")
    digest = hashlib.sha256(repr((options, torch.__version__, sys.version)).encode())
    for folder in sorted({Path(source).parent for source in sources}):
        for file in sorted(each for each in folder.iterdir() if each.is_file()):
            digest.update(file.name.encode() + file.read_bytes())
    return digest.hexdigest()[:16]
