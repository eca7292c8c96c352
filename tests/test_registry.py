"""Specs: what they name, what they pass on, and what a person is told when they are wrong."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from radixcheck.capabilities import Capabilities
from radixcheck.protocol import Match
from radixcheck.registry import Clash, TargetError, names, resolve

HEAD = """
from radixcheck.capabilities import Capabilities
from radixcheck.protocol import Match, Refused

class Cache:
    def __init__(self, page_size=1, eviction="lru", clock=None, **rest):
        self.capabilities = Capabilities(page_size=page_size, eviction=eviction)
        self.clock, self.rest = clock, rest
    def match_prefix(self, tokens, namespace=()):
        return Match(0, [], None)
    def insert(self, tokens, slots, namespace=(), priority=0, owned_from=0):
        return 0
"""

Write = Callable[..., str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a target file and return the spec of one of its attributes."""

    def write(body: str = "", factory: str = "Cache", name: str = "target.py") -> str:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(HEAD + body)
        return f"{path}:{factory}"

    return write


def error_of(spec: str, **config: Any) -> TargetError:
    """Return what is raised by opening `spec`."""
    with pytest.raises(TargetError) as caught:
        resolve(spec).open(config)
    return caught.value


# ---- what a spec names -------------------------------------------------------------------


def test_registered_names_are_listed_in_order() -> None:
    assert names() == sorted(names())
    assert {"radix", "radix-first-release"} <= set(names())


def test_a_registered_name_opens_its_target() -> None:
    assert type(resolve("radix").open()).__name__ == "Radix"


def test_a_module_and_its_factory_open_a_target() -> None:
    assert type(resolve("radixcheck.targets.radix:Radix").open()).__name__ == "Radix"


def test_a_module_in_the_current_folder_is_found(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(name="cache_of_the_current_folder.py")
    monkeypatch.chdir(tmp_path)
    source = resolve("cache_of_the_current_folder:Cache")
    assert type(source.open()).__name__ == "Cache"
    del sys.modules["cache_of_the_current_folder"]


def test_a_file_may_be_named_by_a_relative_path(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write()
    monkeypatch.chdir(tmp_path)
    assert type(resolve("./target.py:Cache").open()).__name__ == "Cache"


def test_a_factory_may_be_an_attribute_of_a_class(write: Write) -> None:
    spec = write("class Outer:\n    Inner = Cache\n", "Outer.Inner")
    assert type(resolve(spec).open()).__name__ == "Cache"


def test_two_files_of_one_name_are_two_modules(write: Write) -> None:
    specs = [write(f"WHICH = {n}\n", name=f"folder{n}/target.py") for n in (1, 2)]
    modules = [sys.modules[type(resolve(spec).open()).__module__] for spec in specs]
    assert [1, 2] == [module.WHICH for module in modules]


def test_a_file_imports_what_lies_beside_it_and_leaves_the_path_alone(
    write: Write, tmp_path: Path
) -> None:
    (tmp_path / "lies_beside_the_target.py").write_text("ANSWER = 42\n")
    before = list(sys.path)
    resolve(write("from lies_beside_the_target import ANSWER\n"))
    assert sys.modules.pop("lies_beside_the_target").ANSWER == 42
    assert before == sys.path


HELPERS = ["lies_beside_two.py", "lies_beside_two/__init__.py"]


@pytest.fixture
def two_folders(
    tmp_path: Path, write: Write, request: pytest.FixtureRequest
) -> Iterator[list[str]]:
    """Two targets, each with a helper of one name beside it; their specs."""
    specs = []
    for number in (1, 2):
        helper = tmp_path / f"folder{number}" / request.param
        helper.parent.mkdir(parents=True)
        helper.write_text(f"WHICH = {number}\n")
        specs.append(write("from lies_beside_two import WHICH\n", name=f"folder{number}/target.py"))
    yield specs
    del sys.modules["lies_beside_two"]


@pytest.mark.parametrize("two_folders", HELPERS, indirect=True)
def test_a_target_never_gets_what_lies_beside_another(
    two_folders: list[str], tmp_path: Path
) -> None:
    first, second = two_folders
    resolve(first)
    with pytest.raises(Clash) as caught:
        resolve(second)
    name = HELPERS[0].removesuffix(".py")
    theirs, ours = tmp_path / "folder1" / name, tmp_path / "folder2/target.py"
    assert (True, True) == (str(theirs) in caught.value.message, str(ours) in caught.value.message)
    assert "--isolate" in caught.value.hint
    assert sys.modules[type(resolve(first).open()).__module__].WHICH == 1


@pytest.mark.parametrize("two_folders", HELPERS[:1], indirect=True)
def test_a_module_of_the_current_folder_counts_as_a_target_in_a_folder(
    two_folders: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve(two_folders[0])
    monkeypatch.chdir(tmp_path / "folder2")
    resolve("radix")  # it lies elsewhere, and what is here is nothing to it
    with pytest.raises(Clash, match="target has lies_beside_two"):
        resolve("target:Cache")


def test_what_lies_beside_a_target_may_be_called_like_a_module_of_python(
    write: Write, tmp_path: Path
) -> None:
    (tmp_path / "queue.py").write_text("")
    write(name="elsewhere/target.py")
    (tmp_path / "elsewhere" / "queue.py").write_text("")
    for name in ("target.py", "elsewhere/target.py"):
        assert type(resolve(write(name=name)).open()).__name__ == "Cache"


def test_a_file_that_fails_leaves_no_module_behind(write: Write) -> None:
    before = set(sys.modules)
    error_of(write("1 / 0\n"))
    assert before == set(sys.modules)


# ---- what a spec passes on ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("False", False),
        ("4", 4),
        ("-1", -1),
        ("0.5", 0.5),
        ("1e3", 1000.0),
        ("lru", "lru"),
        ("", ""),
        ("null", "null"),
        ("nan", "nan"),
        ("[1]", "[1]"),
        ("a%26b%20c", "a&b c"),
        ("./dir+x", "./dir+x"),
    ],
)
def test_values_are_read_as_bool_int_float_or_text(write: Write, text: str, value: Any) -> None:
    source = resolve(f"{write()}?size={text}")
    assert (source.arguments, type(source.arguments["size"])) == ({"size": value}, type(value))


def test_arguments_of_the_spec_win_over_the_configuration(write: Write) -> None:
    target = resolve(f"{write()}?page_size=4").open({"page_size": 16, "eviction": "lfu"})
    assert (4, "lfu") == (target.capabilities.page_size, target.capabilities.eviction)


def test_a_factory_gets_only_what_it_takes(write: Write) -> None:
    spec = write("def factory(page_size):\n    return Cache(page_size)\n", "factory")
    target = resolve(spec).open({"page_size": 4, "eviction": "lfu", "capacity": 9}, lambda: 0)
    assert Capabilities(page_size=4) == target.capabilities


def test_a_factory_that_takes_anything_gets_the_whole_configuration(write: Write) -> None:
    target: Any = resolve(f"{write()}?level=3").open({"page_size": 4, "capacity": 9})
    assert target.rest == {"capacity": 9, "level": 3}


def test_the_clock_is_passed_on(write: Write) -> None:
    target: Any = resolve(write()).open(clock=lambda: 7)
    assert target.clock() == 7


def test_a_capability_that_the_factory_does_not_take_is_overridden(write: Write) -> None:
    source = resolve(f"{write()}?stamps=matched&resolution_s=0.5&closed=false")
    assert source.arguments == {}
    expected = Capabilities(stamps="matched", resolution_s=0.5, closed=False)
    assert expected == source.open().capabilities


def test_an_eviction_policy_that_cannot_be_chosen_can_be_disclaimed() -> None:
    assert resolve("radix?eviction=unspecified").open().capabilities.eviction == "unspecified"


@pytest.mark.parametrize(("value", "presence"), [("true", "absent"), ("present", "present")])
def test_disable_is_an_argument_as_a_bool_and_a_capability_as_a_word(
    write: Write, value: str, presence: str
) -> None:
    target: Any = resolve(f"{write()}?disable={value}").open()
    assert (target.capabilities.disable, bool(target.rest)) == (presence, value == "true")


def test_an_override_leaves_the_target_itself_in_place(write: Write) -> None:
    assert type(resolve(f"{write()}?stamps=matched").open()).__name__ == "Cache"


FIXED_CAPABILITIES = """
class Fixed:
    __slots__ = ()
    capabilities = Capabilities()
    match_prefix = Cache.match_prefix
    insert = Cache.insert
    def evict(self, num_tokens):
        return [num_tokens]
"""


def test_an_override_reaches_a_target_that_cannot_be_changed(write: Write) -> None:
    target = resolve(f"{write(FIXED_CAPABILITIES, 'Fixed')}?stamps=matched").open()
    assert target.capabilities == Capabilities(stamps="matched")
    assert target.match_prefix([]) == Match(0, [], None)
    assert target.evict(3) == [3]
    assert not hasattr(target, "reset")


# ---- what a run may sweep ----------------------------------------------------------------

SUPPORTS = 'Cache.supports = {"page_size": [1, 4], "eviction": ["lru", "lfu"]}\n'


@pytest.mark.parametrize(
    ("body", "query", "expected"),
    [
        ("", "", [{}]),
        ("", "?page_size=4&level=3", [{"page_size": 4}]),
        (SUPPORTS, "?page_size=4", [(4, "lru"), (4, "lfu")]),
        (SUPPORTS, "?eviction=fifo", [(1, "fifo"), (4, "fifo")]),
        (SUPPORTS, "", [(1, "lru"), (1, "lfu"), (4, "lru"), (4, "lfu")]),
        (SUPPORTS.removeprefix("Cache."), "?page_size=4", [(4, "lru"), (4, "lfu")]),
    ],
)
def test_configurations_are_all_that_is_supported_and_not_fixed(
    write: Write, body: str, query: str, expected: list[Any]
) -> None:
    configurations = resolve(write(body) + query).configurations()
    keys = ("page_size", "eviction")
    as_dicts = [dict(zip(keys, e, strict=True)) if isinstance(e, tuple) else e for e in expected]
    assert as_dicts == configurations


def test_what_the_factory_does_not_take_is_not_swept(write: Write) -> None:
    body = (
        'def factory(page_size):\n    return Cache()\nsupports = {"page_size": [1], "x": [2, 3]}\n'
    )
    assert resolve(write(body, "factory")).configurations() == [{"page_size": 1}]


@pytest.mark.parametrize("supports", ['["page_size"]', '{"page_size": 4}', '{"eviction": "lru"}'])
def test_a_malformed_supports_is_the_adapters_fault(write: Write, supports: str) -> None:
    error = error_of(write(f"supports = {supports}\n"))
    assert (error.fault, "supports = " in error.message) == ("adapter", True)


# ---- what is wrong with a spec -----------------------------------------------------------

USERS = [
    ("radx", "unknown target 'radx'", "nearest: radix, radix-cpp"),
    ("nothing-like-it", "unknown target 'nothing-like-it'", "known: "),
    ("", "unknown target ''", "package.module:factory"),
    ("./cache.py", "'./cache.py' names no factory", "write ./cache.py:FACTORY"),
    ("package.module:", "'package.module:' names no factory", "write package.module:FACTORY"),
    ("native:", "'native:' names nothing", "write native:WHAT"),
    ("native:./libtree.so", "ImportError: no file ./libtree.so", ""),
    ("native:./libtree.so?path=x", "'path' is given twice", "behind the colon"),
    ("cmd:", "'cmd:' names nothing", "write cmd:WHAT"),
    ("no_such_package.x:Cache", "no module 'no_such_package'", "installed"),
    ("radixcheck.no_such:Cache", "no module 'radixcheck.no_such'", "installed"),
    ("radixcheck.targets.radix:Radixx", "has no 'Radixx'", "nearest: Radix"),
    ("json:__name__", "__name__ is str", "name a class or a function"),
    ("json:dumps", "json:dumps needs obj", "write json:dumps?obj=VALUE"),
    ("radix?stamps", "'stamps' in 'radix?stamps' is no key=value", "?key=value"),
    ("radix?=3", "'=3' in 'radix?=3' is no key=value", "?key=value"),
    ("radix?stamps=edge&&", "'' in 'radix?stamps=edge&&' is no key=value", "?key=value"),
    ("radix?stamps=edge&stamps=edge", "'stamps' is given twice", "once"),
    ("radix?stampz=edge", "radix does not take 'stampz'", "nearest: stamps; it takes disable"),
    ("radix?page_size=4", "radix does not take 'page_size'", "it takes disable"),
    ("radix?threads=8", "capability 'threads' is not in this release", "leave it out"),
    ("radix?stamps=always", "capability stamps='always'", "choose one of edge, matched"),
    ("radix?clock=5", "capability clock=5", "choose one of own, injected, injected-steps"),
    ("radix?evict_batch=many", "capability evict_batch='many'", "Expected `int`"),
]


@pytest.mark.parametrize(("spec", "message", "hint"), USERS)
def test_a_wrong_spec_is_the_users_fault_and_says_what_to_type(
    spec: str, message: str, hint: str
) -> None:
    error = error_of(spec)
    assert (message in error.message, hint in error.hint) == (True, True), (error, error.hint)
    assert error.fault == "user"


@pytest.mark.parametrize(
    ("argument", "form"),
    [
        ("page_size=banana", "write a whole number, 1 or more"),
        ("page_size=0", "write a whole number, 1 or more"),
        ("page_size=true", "write a whole number, 1 or more"),
        ("capacity=1.5", "write a whole number, 1 or more"),
        ("eviction=3", "write the name of a policy, such as lru"),
    ],
)
@pytest.mark.parametrize("kind", ["", "requests:"])
def test_a_value_of_the_wrong_type_is_the_users_fault_whoever_takes_it(
    write: Write, kind: str, argument: str, form: str
) -> None:
    error = error_of(f"{kind}{write()}?{argument}")
    assert (form, "user") == (error.hint, error.fault)


def test_a_missing_file_is_told_with_the_nearest_one(write: Write) -> None:
    spec = write().replace("target.py", "tragte.py")
    error = error_of(spec)
    assert (error.message, error.hint) == (
        f"no file {spec.partition(':')[0]}",
        "nearest: target.py",
    )


@pytest.mark.parametrize(
    ("body", "said", "where"),
    [
        ("import no_such_library\n", "ModuleNotFoundError: No module named", "import no_such_lib"),
        ("\ndef f(:\n", "SyntaxError", "def f(:"),
        ("raise SystemExit(3)\n", "SystemExit: 3", "raise SystemExit(3)"),
        ("1 / 0\n", "ZeroDivisionError: division by zero", "1 / 0"),
    ],
)
def test_a_file_that_cannot_be_imported_is_told_with_its_last_line(
    write: Write, body: str, said: str, where: str
) -> None:
    error = error_of(write(body))
    assert (said in error.message, where in error.hint) == (True, True), (error, error.hint)
    assert error.fault == "adapter"
    assert error.__cause__ is not None


def test_a_module_whose_own_import_fails_is_not_called_missing(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("import no_such_library\n", name="cache_with_a_bad_import.py")
    monkeypatch.chdir(tmp_path)
    error = error_of("cache_with_a_bad_import:Cache")
    assert error.message.startswith("cache_with_a_bad_import cannot be imported: ModuleNotFound")


# ---- what is wrong with a factory --------------------------------------------------------

FACTORIES = [
    ("return 1 / 0", "ZeroDivisionError: division by zero", "adapter"),
    ("return Cache(eviction='oldest')", "ValueError: capability eviction='oldest'", "adapter"),
    ("raise ValueError('page_size=3: no pages')", "ValueError: page_size=3: no pages", "user"),
    ("raise ImportError('install it')", "ImportError: install it", "user"),
    ("raise Refused('not on a CPU')", "Refused: not on a CPU", "user"),
    ("import fractions; fractions.Fraction('x')", "ValueError: Invalid literal", "target"),
    ("return None", "the factory answered None, not a target", "adapter"),
    ("return Cache", "the factory answered <class", "adapter"),
    ("return 3", "int has no match_prefix and no insert", "adapter"),
    ("c = Cache(); c.capabilities = 'lru'; return c", "Cache has no capabilities =", "adapter"),
]


@pytest.mark.parametrize(("body", "message", "fault"), FACTORIES)
def test_a_factory_that_fails_is_told_with_whose_fault_it_is(
    write: Write, body: str, message: str, fault: str
) -> None:
    error = error_of(write(f"def factory():\n    {body}\n", "factory"))
    assert (message in error.message, error.fault) == (True, fault), error


def test_an_error_can_be_written_whatever_the_factory_says(write: Write) -> None:
    error = error_of(write('def says(): raise OSError("caf\\udce9")\n', "says"))
    assert error.message.endswith("cannot be opened: OSError: caf\\udce9")


def test_a_factory_that_ends_the_process_is_told_like_one_that_raises(write: Write) -> None:
    error = error_of(write("def leaves(): raise SystemExit(3)\n", "leaves"))
    assert (True, "adapter") == ("cannot be opened: SystemExit: 3" in error.message, error.fault)


def test_a_factory_whose_signature_is_unknown_is_tried() -> None:
    error = error_of("builtins:dict?size=3", page_size=4)
    assert error.message == "builtins:dict: dict has no match_prefix and no insert"


def test_a_factory_that_raises_is_told_with_the_line_that_did(write: Write) -> None:
    error = error_of(write("def factory():\n    return 1 / 0\n", "factory"))
    assert error.hint.endswith("in factory: return 1 / 0")


def test_what_an_adapter_of_ours_says_on_purpose_needs_no_line_of_ours(write: Write) -> None:
    alone = error_of("radix-paged?eviction=first")
    assert (True, "") == ("choose one of lru" in alone.message, alone.hint)
    head = "from radixcheck.targets.radix_paged import RadixPaged\ndef factory():\n"
    called = error_of(write(f"{head}    return RadixPaged(eviction='first')\n", "factory"))
    assert called.hint.endswith("in factory: return RadixPaged(eviction='first')")
