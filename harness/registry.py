"""From the text that names a target to the target itself.

A spec is what a person types: ``radix`` (registered under the entry-point group `ENTRY_POINTS`),
``package.module:factory``, ``./path.py:factory``, ``native:./libtree.so`` or ``cmd:./server``
(`SCHEMES`), each with ``?key=value&key=value`` behind it::

    radix?eviction=fifo&stamps=matched
          '-----------' '------------'
     the factory takes it    it does not, so the capability is overridden

`resolve` turns a spec into a `Source`; ``source.open(config)`` calls the factory. Whatever goes
wrong on the way is one `TargetError`, which says what to type instead or whose code to look at.
"""

from __future__ import annotations

import inspect
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import reduce
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.metadata import entry_points
from importlib.util import module_from_spec, spec_from_file_location
from itertools import product
from pathlib import Path
from types import FrameType, ModuleType, SimpleNamespace
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias, cast
from urllib.parse import unquote

import msgspec

from radixcheck.capabilities import (
    RESERVED_CAPABILITIES,
    AnyCapabilities,
    Capabilities,
    PoolCapabilities,
    choices_of,
    override,
)
from radixcheck.protocol import KINDS, REQUIRED, Factory, Refused, Supports, level_name
from radixcheck.trace import Config

ENTRY_POINTS = "radixcheck.targets"
CONFIG_KEYS = ("page_size", "eviction", "capacity", "device", "clock", "disable")
COUNT = (Annotated[int, msgspec.Meta(ge=1)], "a whole number, 1 or more")
FORMS: dict[str, tuple[Any, str]] = {
    "page_size": COUNT,
    "capacity": COUNT,
    "eviction": (str, "the name of a policy, such as lru"),
    "op_timeout": (Annotated[float, msgspec.Meta(gt=0)], "a number of seconds"),
}
"""Per configuration key that takes only one type of value: that type, and how to say it."""
SCHEMES = {
    "native": "radixcheck.targets.native:native",
    "cmd": "radixcheck.targets.command:command",
}
"""What a spec may begin with, as in ``native:./libtree.so``: a factory whose first parameter gets
what stands behind the colon."""
WRAPPERS = {"requests": "radixcheck.targets.bookkeeper:requests"}
"""What a spec may put before another one, as in ``requests:radix-paged``: a factory that gets the
target of the other as ``tree``."""
PROMISES = {"tree": Capabilities, "requests": Capabilities, "pool": PoolCapabilities}
"""What a target of each level promises."""

MADE = {"page_size", "capacity", "reserved", "device"}
OVERRIDABLE = frozenset().union(*(kind.__struct_fields__ for kind in PROMISES.values())) - MADE
"""What a spec may promise behind the target's back. Pages and slots are made, not promised."""

METHODS = tuple(
    dict.fromkeys(name for kind in KINDS.values() for name in vars(kind) if name[0] != "_")
)

Clock: TypeAlias = Callable[[], float]
Fault: TypeAlias = Literal["user", "adapter", "target"]
Value: TypeAlias = bool | int | float | str


class TargetError(Exception):
    """A target could not be named, imported or opened."""

    def __init__(self, message: str, hint: str = "", fault: Fault = "user") -> None:
        self.message = _legible(message)
        super().__init__(self.message)
        self.hint = _legible(hint)
        """What to type instead, or the line of code to look at."""
        self.fault: Fault = fault
        """Whose mistake it is: the spec's author, the adapter's, or the cache's behind it."""


def _legible(text: str) -> str:
    """Escape lone surrogates, as `radixcheck.buffers.legible`: a message may quote a target."""
    return text.encode(errors="backslashreplace").decode()


class Clash(TargetError):
    """Two targets each have a module of one name beside them, and this process has the first."""


@dataclass(frozen=True)
class Source:
    """A spec that was understood: the factory, and what to call it with."""

    spec: str
    """What was typed."""
    name: str
    """The spec without its arguments."""
    place: Place
    factory: Factory
    parameters: Mapping[str, inspect.Parameter]
    arguments: Mapping[str, Value]
    """What the spec passes to the factory, whatever the configuration says."""
    overrides: Mapping[str, Value]
    """Capabilities that the spec changes."""
    supports: Supports

    def open(self, config: Mapping[str, Value] | None = None, clock: Clock | None = None) -> Any:
        """Make a fresh, empty target. Of `config` and `clock` the factory gets what it takes.

        Raises:
            TargetError: an argument is missing, the factory raised, or it answered no target.
        """
        keywords: dict[str, Any] = self.keywords(config or {})
        if clock is not None and self.accepts("clock") and self.overrides.get("clock") != "own":
            keywords["clock"] = clock
        self._check_required(keywords)
        try:
            target = self.factory(**keywords)
        except TargetError:
            raise
        except (Exception, SystemExit) as error:
            raise _raised(error, self) from error
        _check_target(target, self.name)
        return self._presented(target)

    def keywords(self, config: Mapping[str, Value]) -> dict[str, Value]:
        """Return the keyword arguments of the factory under `config`; the spec's own win."""
        return {key: config[key] for key in config if self.accepts(key)} | dict(self.arguments)

    def accepts(self, key: str) -> bool:
        """Tell whether the factory takes the keyword `key`."""
        return key in self.parameters or _takes_any(self.parameters)

    def configurations(self) -> list[Config]:
        """List what a run may sweep: each combination of what the target supports.

        What the spec fixes stays fixed. A target that declares nothing has one configuration, the
        empty one, in which every default is the factory's own.
        """
        fixed = {**self.arguments, **self.overrides}
        axes = {key: values for key, values in self.supports.items() if self.accepts(key)}
        axes |= {key: [fixed[key]] for key in fixed if key in axes or key in CONFIG_KEYS[:2]}
        return [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]

    def _check_required(self, keywords: Mapping[str, Any]) -> None:
        missing = [
            key
            for key, parameter in self.parameters.items()
            if parameter.default is parameter.empty
            and parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
            and key not in keywords
        ]
        if missing:
            added = "&".join(f"{key}=VALUE" for key in missing)
            joint = "&" if "?" in self.spec else "?"
            needs = ", ".join(missing)
            raise TargetError(f"{self.name} needs {needs}", f"write {self.spec}{joint}{added}")

    def _presented(self, target: Any) -> Any:
        if not self.overrides:
            return target
        strange = self.overrides.keys() - set(target.capabilities.__struct_fields__)
        if strange:
            word, level = min(strange), level_name(target)
            raise TargetError(f"{self.name}: a {level} target promises no {word}", "leave it out")
        if unseen := self.overrides.keys() & getattr(target, "cannot_promise", frozenset()):
            word = min(unseen)
            raise TargetError(f"{self.name}: nobody here can see its {word}", "leave it out")
        capabilities = override(target.capabilities, dict(self.overrides))
        try:
            target.capabilities = capabilities
        except (AttributeError, TypeError):
            methods = {name: getattr(target, name) for name in METHODS if hasattr(target, name)}
            return SimpleNamespace(capabilities=capabilities, **methods)
        return target


def _wrapped(spec: str, kind: str, inner: str, query: str) -> Source:
    """Resolve ``kind:inner?query``: what the wrapper takes is its own, the rest is for `inner`."""
    module, _, attribute = WRAPPERS[kind].partition(":")
    place = Place(module, None, attribute)
    wrapper = _factory(_import(place), place)
    own = {key: each for key, each in _parameters(wrapper).items() if key != "tree"}
    rest = "&".join(pair for pair in query.split("&") if pair.partition("=")[0] not in own)
    below = resolve(f"{inner}?{rest}" if rest else inner)

    def factory(**keywords: Any) -> Any:
        mine = {key: value for key, value in keywords.items() if key in own}
        others = {key: value for key, value in keywords.items() if key not in own}
        clock = others.pop("clock", None)
        return wrapper(below.open(others, clock), **mine)

    factory.__module__ = module
    given = {key: value for key, value in _parse(query, spec).items() if key in own}
    arguments = {**below.arguments, **given}
    supports = {**below.supports, **getattr(wrapper, "supports", {})}
    parameters = {**below.parameters, **own}
    name = f"{kind}:{inner}"
    return Source(spec, name, place, factory, parameters, arguments, {}, supports)


class Place(NamedTuple):
    """Where a factory is found: an attribute of a module, or of a file."""

    module: str
    path: Path | None
    attribute: str


def names() -> list[str]:
    """List the registered targets."""
    return sorted(_registered())


def resolve(spec: str) -> Source:
    """Find the factory that `spec` names and sort the spec's arguments.

    Raises:
        TargetError: the spec is malformed or names nothing, or its module cannot be imported.
    """
    name, _, query = spec.partition("?")
    kind, _, inner = name.partition(":")
    if inner and kind in WRAPPERS:
        return _wrapped(spec, kind, inner, query)
    place = _place(name)
    module = _import(place)
    factory = _factory(module, place)
    parameters = _parameters(factory)
    given = _parse(query, spec)
    if kind in SCHEMES:
        given = _joined(inner, given, parameters, spec)
    arguments, overrides = _sort(given, parameters, name)
    source = Source(spec, name, place, factory, parameters, arguments, overrides, {})
    return replace(source, supports=_supports(source, module))


def source_of(factory: Factory) -> Source:
    """Return a factory that somebody has at hand as a source: its spec is where it lies.

    Raises:
        TargetError: what it `supports` makes no sense.
    """
    module = factory.__module__
    name = getattr(factory, "__qualname__", type(factory).__qualname__)
    file = getattr(sys.modules.get(module), "__file__", None)
    path = Path(file) if file and "." not in module else None
    spec, place = f"{path or module}:{name}", Place(module, path, name)
    source = Source(spec, spec, place, factory, _parameters(factory), {}, {}, {})
    return replace(source, supports=_supports(source, sys.modules.get(module, ModuleType(module))))


def module_of(spec: str) -> str:
    """Name the module that makes the target of `spec`, without importing it.

    Raises:
        TargetError: the spec names nothing.
    """
    name = spec.partition("?")[0]
    kind, _, inner = name.partition(":")
    return module_of(inner) if inner and kind in WRAPPERS else _place(name).module


# ------------------------------------------------------------------------------ the name


def _registered() -> dict[str, str]:
    return {entry.name: entry.value for entry in entry_points(group=ENTRY_POINTS)}


def _place(name: str) -> Place:
    kind, _, inner = name.partition(":")
    if kind in SCHEMES and not inner:
        raise TargetError(f"{name!r} names nothing", f"write {kind}:WHAT")
    known = SCHEMES.get(kind) or _registered().get(name, name)
    where, separator, attribute = known.rpartition(":")
    if not separator or not where or not attribute:
        raise _unknown(name)
    path = Path(where).expanduser() if where.endswith(".py") or "/" in where else None
    return Place(where if path is None else path.stem, path, attribute)


def _joined(
    inner: str,
    given: dict[str, Value],
    parameters: Mapping[str, inspect.Parameter],
    spec: str,
) -> dict[str, Value]:
    """Put what stands behind the colon of a scheme before the arguments behind the ``?``."""
    first = next(iter(parameters))
    if first in given:
        raise TargetError(f"{first!r} is given twice in {spec!r}", "it stands behind the colon")
    return {first: inner, **given}


def _unknown(name: str) -> TargetError:
    if name.endswith((".py", ":")):
        return TargetError(f"{name!r} names no factory", f"write {name.rstrip(':')}:FACTORY")
    known = names()
    forms = "package.module:factory, ./path.py:factory, native:LIBRARY or cmd:COMMAND"
    hint = f"{_nearest(name, known)}known: {', '.join(known)}; or {forms}"
    return TargetError(f"unknown target {name!r}", hint)


def _nearest(word: str, choices: Sequence[str]) -> str:
    near = get_close_matches(word, dict.fromkeys(choices))
    return f"nearest: {', '.join(near)}; " if near else ""


# ---------------------------------------------------------------------------- the module


def _import(place: Place) -> ModuleType:
    if place.path is not None and not place.path.is_file():
        beside = [file.name for file in place.path.parent.glob("*.py")]
        raise TargetError(f"no file {place.path}", _nearest(place.path.name, beside).rstrip("; "))
    folder = place.path.resolve().parent if place.path else Path.cwd()
    if place.path or PathFinder.find_spec(place.module.partition(".")[0], [str(folder)]):
        _claim_names(place, folder)
    try:
        with _importable(folder):
            return _execute(place.path) if place.path else import_module(place.module)
    except (Exception, SystemExit) as error:
        raise _not_imported(error, place) from error


def _claim_names(place: Place, folder: Path) -> None:
    """See that what lies beside a target can be imported under its own name.

    Raises:
        Clash: such a name means what lies beside another target, which was imported before.
    """
    for file in sorted(folder.glob("*")):
        taken = _origin(sys.modules.get(inspect.getmodulename(file) or file.name))
        if taken is not None and taken.parent != folder and taken.parent in _FOLDERS:
            raise Clash(
                f"{place.path or place.module} has {file.name} beside it, and this process has "
                f"imported {taken} under that name for another target",
                "judge them apart: with --isolate, or by one command each",
            )
    _FOLDERS.add(folder)


_FOLDERS: set[Path] = set()
"""Where the targets lie that may have imported what lies beside them."""


def _origin(module: ModuleType | None) -> Path | None:
    """Return the file of a module, or the folder of a package; of what has neither, nothing."""
    spec = getattr(module, "__spec__", None)
    if spec is None:
        return None
    places = spec.submodule_search_locations or ([spec.origin] if spec.has_location else [])
    return Path(next(iter(places))).resolve() if places else None


@contextmanager
def _importable(folder: Path) -> Iterator[None]:
    """Let a target import what lies beside it, as a script may; only while it is imported."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        with suppress(ValueError):
            sys.path.remove(str(folder))


def _execute(path: Path) -> ModuleType:
    """Run a file as a module of its own, under a name that no second file of that name shares."""
    name = f"radixcheck_target_{path.stem}_{hash(path.resolve()):x}".replace("-", "_")
    found = spec_from_file_location(name, path)
    assert found is not None and found.loader is not None, path
    module = sys.modules[name] = module_from_spec(found)
    try:
        found.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _not_imported(error: BaseException, place: Place) -> TargetError:
    if (
        isinstance(error, ModuleNotFoundError)
        and place.path is None
        and f"{place.module}.".startswith(f"{error.name}.")
    ):
        return TargetError(
            f"no module {error.name!r}", "is it installed, or in the current folder?"
        )
    return TargetError(
        f"{place.path or place.module} cannot be imported: {_said(error)}", _where(error), "adapter"
    )


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _where(error: BaseException) -> str:
    """Show the line that raised. Where that is a `raise` of ours it has said itself what is wrong,
    and only who called us is worth a look, if anybody did."""
    if isinstance(error, SyntaxError):
        return f"{error.filename}:{error.lineno}: {(error.text or '').strip()}"
    places = list(traceback.walk_tb(error.__traceback__))
    lines = traceback.StackSummary.extract(iter(places))
    if _is_ours(places[-1][0]) and str(lines[-1].line).startswith("raise "):
        told = zip(places, lines, strict=True)
        lines[:] = [line for (frame, _), line in told if not _is_ours(frame)]
    return "{0.filename}:{0.lineno}, in {0.name}: {0.line}".format(lines[-1]) if lines else ""


def _is_ours(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__")).startswith("radixcheck.")


# --------------------------------------------------------------------------- the factory


def _factory(module: ModuleType, place: Place) -> Factory:
    try:
        factory = reduce(getattr, place.attribute.split("."), cast(Any, module))
    except AttributeError:
        offered = [name for name, value in vars(module).items() if callable(value)]
        hint = _nearest(place.attribute, offered).rstrip("; ")
        where = place.path or place.module
        raise TargetError(f"{where} has no {place.attribute!r}", hint) from None
    if not callable(factory):
        raise TargetError(
            f"{place.attribute} is {type(factory).__name__}, which cannot be called",
            "name a class or a function that makes a target",
        )
    return cast(Factory, factory)


def _parameters(factory: Factory) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(factory).parameters
    except (TypeError, ValueError):
        return inspect.signature(lambda **_: None).parameters


def _takes_any(parameters: Mapping[str, inspect.Parameter]) -> bool:
    return any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())


def _supports(source: Source, module: ModuleType) -> Supports:
    """Return what a run may sweep: declared beside the factory, or worked out from the spec."""
    supports = getattr(source.factory, "supports", getattr(module, "supports", {}))
    if callable(supports):
        takes = inspect.signature(supports).parameters
        known = {key: value for key, value in source.arguments.items() if key in takes}
        try:
            supports = supports(**known)
        except Exception as error:
            raise _raised(error, source) from error
    _check_supports(supports, source.name)
    return cast(Supports, supports)


def _check_supports(supports: object, name: str) -> None:
    sound = isinstance(supports, Mapping) and all(
        isinstance(values, Sequence) and not isinstance(values, str) and values
        for values in supports.values()
    )
    if not sound:
        raise TargetError(
            f"{name}: supports = {supports!r} is no mapping of keys to lists of values",
            'write supports = {"page_size": [1, 4], "eviction": ["lru"]}',
            "adapter",
        )


# ----------------------------------------------------------------------------- the query


def _parse(query: str, spec: str) -> dict[str, Value]:
    given: dict[str, Value] = {}
    for pair in query.split("&") if query else ():
        key, separator, value = pair.partition("=")
        if not key or not separator:
            raise TargetError(f"{pair!r} in {spec!r} is no key=value", "write ?key=value&key=value")
        if key in given:
            raise TargetError(f"{key!r} is given twice in {spec!r}", "give it once")
        given[key] = _value(unquote(value))
        _check_form(key, given[key], spec)
    return given


def _check_form(key: str, value: Value, spec: str) -> None:
    wanted, form = FORMS.get(key, (Value, ""))
    try:
        msgspec.convert(value, wanted)
    except msgspec.ValidationError:
        raise TargetError(f"{key}={value!r} in {spec!r}", f"write {form}") from None


def _value(text: str) -> Value:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        return msgspec.json.decode(text.encode(), type=int | float)
    except msgspec.MsgspecError:
        return text


def _sort(
    given: dict[str, Value], parameters: Mapping[str, inspect.Parameter], name: str
) -> tuple[dict[str, Value], dict[str, Value]]:
    arguments: dict[str, Value] = {}
    overrides: dict[str, Value] = {}
    for key, value in given.items():
        if _is_argument(key, value, parameters):
            arguments[key] = value
        elif key in OVERRIDABLE:
            _check_capability(key, value, name)
            overrides[key] = value
        else:
            raise _not_taken(key, parameters, name)
    return arguments, overrides


def _check_capability(key: str, value: Value, name: str) -> None:
    """See that some level has a capability of this name and value."""
    known: list[Any] = [Capabilities(), PoolCapabilities(capacity=1)]
    troubles = []
    for plain in known:
        if hasattr(plain, key):
            try:
                override(plain, {key: value})
            except ValueError as error:
                kind: type[AnyCapabilities] = type(plain)
                choices = ", ".join(map(str, choices_of(kind).get(key, ())))
                troubles.append(f"choose one of {choices}" if choices else str(error))
            else:
                return
    raise TargetError(f"{name}: capability {key}={value!r}", troubles[0])


def _is_argument(key: str, value: Value, parameters: Mapping[str, inspect.Parameter]) -> bool:
    """Tell what goes to the factory: what it names, and what else would have no meaning.

    ``clock`` and ``disable`` name both: an argument is a callable or a bool, a capability a word.
    """
    if key in ("clock", "disable") and not isinstance(value, bool):
        return False
    if key in parameters:
        return parameters[key].kind is not inspect.Parameter.VAR_KEYWORD
    return _takes_any(parameters) and (key in CONFIG_KEYS or key not in OVERRIDABLE)


def _not_taken(key: str, parameters: Mapping[str, inspect.Parameter], name: str) -> TargetError:
    if key in RESERVED_CAPABILITIES:
        return TargetError(f"{name}: capability {key!r} is not in this release", "leave it out")
    taken = [key for key in parameters if key != "clock"]
    hint = f"it takes {', '.join(taken) or 'nothing'}; every promise may be overridden"
    nearest = _nearest(key, [*taken, *sorted(OVERRIDABLE)])
    return TargetError(f"{name} does not take {key!r}", f"{nearest}{hint}")


# ---------------------------------------------------------------------------- the target


def _raised(error: BaseException, source: Source) -> TargetError:
    fault = _fault(error, getattr(source.factory, "__module__", ""))
    return TargetError(f"{source.name} cannot be opened: {_said(error)}", _where(error), fault)


def _fault(error: BaseException, module: str) -> Fault:
    """Tell whose mistake an error is by the line that raised it.

    An adapter's own `ImportError`, `ValueError` or `Refused` is its way to say that a person asked
    for what is not there: a package, a release, a configuration.
    """
    raised_in = Path(traceback.extract_tb(error.__traceback__)[-1].filename).parent
    home = Path(getattr(sys.modules.get(module), "__file__", None) or __file__).parent
    if raised_in == home or home in raised_in.parents:
        return "user" if isinstance(error, ImportError | ValueError | Refused) else "adapter"
    return "adapter" if raised_in == Path(__file__).parent else "target"


def _check_target(target: Any, name: str) -> None:
    level = level_name(target)
    if target is None or isinstance(target, type):
        trouble = f"the factory answered {target!r}, not a target"
    elif level is None:
        trouble = f"{type(target).__name__} has no {' and no '.join(_lacking(target))}"
    elif not isinstance(_promised(target, name), PROMISES[level]):
        promises = PROMISES[level].__name__
        trouble = f"{type(target).__name__} has no capabilities = {promises}(...)"
    else:
        return
    raise TargetError(f"{name}: {trouble}", "radixcheck.protocol says what a target is", "adapter")


def _promised(target: Any, name: str) -> Any:
    try:
        return getattr(target, "capabilities", None)
    except (Exception, SystemExit) as error:
        trouble = f"{name}: its capabilities cannot be read: {_said(error)}"
        raise TargetError(trouble, _where(error), "adapter") from error


def _lacking(target: object) -> list[str]:
    """Name what `target` lacks of the level that it has most of; of a tree if it has nothing."""
    lacks = {
        level: [method for method in methods if not hasattr(target, method)]
        for level, methods in REQUIRED.items()
    }
    begun = [level for level in lacks if len(lacks[level]) < len(REQUIRED[level])]
    return lacks[min(begun or ["tree"], key=lambda level: len(lacks[level]))]
