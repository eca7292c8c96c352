"""Operators: the small mistakes that a programmer might make anywhere in a source, one at a time.

Replaced comparisons, numbers, keywords and signs, forced conditions and skipped loops come from
Cosmic Ray, whose operators are classes that change one node of a tree. What it lacks is here: a
dropped statement, condition or copy, a wrong name, arguments in the wrong order, a slice that is
off by one.

Nobody can tell a change of an annotation, of an `assert` that only narrows a type, of the words of
an error or of what draws a text for people; and what a target supports is where it is judged, not
what it does. Those are left alone.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from copy import deepcopy
from functools import cached_property
from importlib.util import find_spec
from itertools import accumulate, pairwise, permutations
from os.path import commonprefix
from typing import Any, NamedTuple, TypeAlias

from radixcheck.registry import TargetError

LIBRARY = "cosmic_ray"

ORDERS = ("Eq", "NotEq", "Lt", "LtE", "Gt", "GtE")

BORROWED: dict[str, Sequence[str]] = {
    "comparison": [
        f"ReplaceComparisonOperator_{old}_{new}"
        for old, new in (*permutations(ORDERS, 2), ("Is", "IsNot"), ("IsNot", "Is"))
    ],
    "number": ["NumberReplacer"],
    "arithmetic": [
        f"ReplaceBinaryOperator_{pair}"
        for pair in "Add_Sub Sub_Add Mul_FloorDiv Mul_Add FloorDiv_Mul FloorDiv_Mod Mod_FloorDiv "
        "Mod_Mul BitAnd_BitOr BitOr_BitAnd BitXor_BitOr BitXor_BitAnd".split()
    ],
    "sign": ["ReplaceUnaryOperator_Delete_Not", "ReplaceUnaryOperator_Delete_USub"],
    "keyword": [
        "ReplaceTrueWithFalse",
        "ReplaceFalseWithTrue",
        "ReplaceAndWithOr",
        "ReplaceOrWithAnd",
        "ReplaceBreakWithContinue",
        "ReplaceContinueWithBreak",
    ],
    "branches": ["AddNot"],
    "loop": ["ZeroIterationForLoop"],
}
"""Operators of Cosmic Ray, by what we call their kind. Identity never stands in for equality:
whether two equal numbers are one object is up to the interpreter."""

LOOK_ALIKE: Sequence[frozenset[str]] = [
    frozenset(each.split())
    for each in (
        "node leaf parent front child handle victim last top root",
        "front_slots node_slots",
        "tokens slots key run",
        "at end start shared inside size page existing known_bytes",
    )
]
"""Variables that one may take for another; only where both are there already."""

FUNCTIONS: Sequence[frozenset[str]] = [frozenset({"min", "max"}), frozenset({"any", "all"})]
"""Functions that one may take for another."""

ATTRIBUTES: Sequence[frozenset[str]] = [
    frozenset(each.split())
    for each in (
        "stamp created touched",
        "locks held hits priority",
        "slots run tokens",
        "put discard",
        "_lock _unlock",
        "_evictable_tokens _protected_tokens",
        "_grow_evictable _grow_protected",
        "_reading _time",
        "page_size reserved end",
        "update subtract",
    )
]
"""Attributes that one may take for another; only those that the source knows."""

COPIES = frozenset("list tuple reversed sorted set iter clone copy".split())
"""What gives back what it was given, or what it belongs to, in other hands or another order."""

Place: TypeAlias = tuple[int, int, str]
"""From where to where a source changes, in characters, and to what."""

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


class Change(NamedTuple):
    """One mistake in a source."""

    operator: str
    start: int
    end: int
    text: str

    def made_in(self, source: str) -> str:
        """Return the source with this mistake."""
        return source[: self.start] + self.text + source[self.end :]


def require() -> None:
    """See that Cosmic Ray is there.

    Raises:
        TargetError: it is not installed.
    """
    if find_spec(LIBRARY) is None:
        raise TargetError("generated mutants need Cosmic Ray", "pip install 'radixcheck[mutation]'")


def changes(source: str) -> Iterator[Change]:
    """Yield every mistake that some operator makes, in the order of the source. Some leave a text
    that is no Python any more.

    Raises:
        TargetError: Cosmic Ray is not installed.
    """
    require()
    text = Text(source)
    made = (_smallest(each, source) for each in (*_own(text), *_borrowed(source)))
    found = {each[1:]: each for each in made if each.start < each.end or each.text}
    for change in sorted(found.values(), key=lambda each: each[1:]):
        if not text.is_silent(change):
            yield change


def _smallest(change: Change, source: str) -> Change:
    """Leave out what stays the same at both ends."""
    old, new = source[change.start : change.end], change.text
    before = len(commonprefix([old, new]))
    after = len(commonprefix([old[before:][::-1], new[before:][::-1]]))
    return change._replace(
        start=change.start + before,
        end=change.end - after,
        text=new[before : len(new) - after],
    )


# ---- operators of Cosmic Ray -------------------------------------------------------------


def _borrowed(source: str) -> Iterator[Change]:
    """Yield what the operators of Cosmic Ray make, each of a node that is copied for it."""
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.operators.provider import OperatorProvider

    known, nodes = OperatorProvider(), list(ast_nodes(get_ast(source)))
    starts = _line_starts(source)
    for kind, names in BORROWED.items():
        for operator in (known[name]() for name in names):
            for node in nodes:
                for index, _ in enumerate(operator.mutation_positions(node)):
                    yield Change(
                        kind, *_replaced(node, operator.mutate(_copied(node), index), starts)
                    )


def _copied(node: Any) -> Any:
    """Copy a node and what is below it, not what is above."""
    return deepcopy(node, {id(node.parent): node.parent})


def _replaced(old: Any, new: Any, starts: Sequence[int]) -> Place:
    """Put a node's code in the place of another's, without the space before either."""
    start, end = (starts[line - 1] + column for line, column in (old.start_pos, old.end_pos))
    return start, end, new.get_code().lstrip()


# ---- a source, and what nobody can tell of it --------------------------------------------


def _line_starts(source: str) -> list[int]:
    return [0, *accumulate(len(line) for line in source.splitlines(keepends=True))]


class Text:
    """A source with its tree, and where in the one the nodes of the other are."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.tree = ast.parse(source)
        self._lines = source.splitlines(keepends=True)
        self._starts = _line_starts(source)

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Return where a statement or an expression begins and ends, in characters."""
        place: Any = node
        return (
            self._offset(place.lineno, place.col_offset),
            self._offset(place.end_lineno, place.end_col_offset),
        )

    def code(self, node: ast.AST) -> str:
        """Return the text of a node."""
        start, end = self.span(node)
        return self.source[start:end]

    def lines(self, start: int, end: int) -> tuple[int, int]:
        """Return the whole lines around a span, from where to where."""
        first = self.source.rfind("\n", 0, start) + 1
        last = self.source.find("\n", end)
        return first, len(self.source) if last < 0 else last

    def where(self, offset: int) -> str:
        """Name the class and the function that hold a place: ``Radix._cut``."""
        return ".".join(name for name, (start, end) in self._scopes if start <= offset < end)

    def functions(self) -> Iterator[Function]:
        """Yield every function, at whatever depth."""
        yield from (node for node in ast.walk(self.tree) if isinstance(node, Function))

    def is_silent(self, change: Change) -> bool:
        """Tell whether a change lies where nobody can tell it."""
        return any(start <= change.start and change.end <= end for start, end in self._silent)

    @cached_property
    def _scopes(self) -> list[tuple[str, tuple[int, int]]]:
        """Every class and function, from the outside in."""
        nodes = (each for each in ast.walk(self.tree) if isinstance(each, Function | ast.ClassDef))
        return [(node.name, self.span(node)) for node in nodes]

    @cached_property
    def _silent(self) -> list[tuple[int, int]]:
        return [self.span(node) for each in ast.walk(self.tree) for node in _silent(each)]

    def _offset(self, line: int, column: int) -> int:
        """Count characters, where the tree counts bytes of each line."""
        before = self._lines[line - 1].encode()[:column] if column else b""
        return self._starts[line - 1] + len(before.decode())


def _silent(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what says something only to people and to type checkers."""
    match node:
        case ast.arg(annotation=told) if told:
            yield told
        case ast.AnnAssign(ast.Name(name), told, value):
            yield told
            if value and (name == "supports" or ast.unparse(told) == "TypeAlias"):
                yield value
        case ast.AnnAssign(annotation=told):
            yield told
        case ast.FunctionDef(returns=told) if told:
            yield node if ast.unparse(told) == "str" else told
        case ast.Raise(exc=told) if told:
            yield told
        case ast.Assert():
            yield node
        case ast.Import() | ast.ImportFrom() | ast.Expr(ast.Constant()):
            yield node


# ---- operators of our own ----------------------------------------------------------------


def _own(text: Text) -> Iterator[Change]:
    for node in ast.walk(text.tree):
        for kind, operator in OWN.items():
            for place in operator(text, node):
                yield Change(kind, *place)
    for function in text.functions():
        for kind, within in OWN_WITHIN.items():
            for place in within(text, function):
                yield Change(kind, *place)


def _membership(text: Text, node: ast.AST) -> Iterator[Place]:
    """``a in b`` becomes ``a not in b``, and the reverse."""
    match node:
        case ast.Compare(left, [ast.In() | ast.NotIn() as old], [right]):
            new = "not in" if isinstance(old, ast.In) else "in"
            yield text.span(left)[1], text.span(right)[0], f" {new} "


def _forced(text: Text, node: ast.AST) -> Iterator[Place]:
    """A condition is always met, or never."""
    match node:
        case ast.If(test=test) | ast.IfExp(test=test):
            yield from ((*text.span(test), each) for each in ("True", "False"))


def _one_sided(text: Text, node: ast.AST) -> Iterator[Place]:
    """``a and b`` becomes ``a``, or ``b``."""
    match node:
        case ast.BoolOp(values=values):
            for dropped in values:
                kept = [text.code(each) for each in values if each is not dropped]
                word = " and " if isinstance(node.op, ast.And) else " or "
                yield *text.span(node), word.join(kept)


def _unfiltered(text: Text, node: ast.AST) -> Iterator[Place]:
    """A comprehension takes everything."""
    match node:
        case ast.comprehension(iter=source, ifs=[*_, last]):
            yield text.span(source)[1], text.span(last)[1], ""


def _uncopied(text: Text, node: ast.AST) -> Iterator[Place]:
    """``list(a)`` and ``a.clone()`` become ``a``."""
    match node:
        case ast.Call(ast.Name(name), [only], []) if name in COPIES:
            yield *text.span(node), text.code(only)
        case ast.Call(ast.Attribute(only, name), [], []) if name in COPIES:
            yield *text.span(node), text.code(only)


def _argument_order(text: Text, node: ast.AST) -> Iterator[Place]:
    """``f(a, b)`` becomes ``f(b, a)``."""
    match node:
        case ast.Call(args=given) if not any(isinstance(each, ast.Starred) for each in given):
            for one, other in pairwise(given):
                start, end = text.span(one)[0], text.span(other)[1]
                yield start, end, f"{text.code(other)}, {text.code(one)}"


def _slice(text: Text, node: ast.AST) -> Iterator[Place]:
    """``a[:b]`` becomes ``a[:b + 1]``, ``a[:b - 1]``, ``a[:]`` or ``a[b:]``."""
    match node:
        case ast.Slice(lower, upper, None):
            bounds = [each for each in (lower, upper) if each is not None]
            for bound in bounds:
                start, end = text.span(bound)
                yield start, end, ""
                if not isinstance(bound, ast.Constant):
                    yield from ((start, end, f"{text.code(bound)} {by} 1") for by in "+-")
            if len(bounds) == 1:
                code = text.code(bounds[0])
                yield *text.span(node), f":{code}" if lower else f"{code}:"


def _fellow(text: Text, node: ast.AST) -> Iterator[Place]:
    """An attribute or a function becomes one that is easily taken for it."""
    match node:
        case ast.Attribute(attr=name):
            known = [each for each in _others(name, ATTRIBUTES) if f".{each}" in text.source]
        case ast.Name(id=name):
            known = list(_others(name, FUNCTIONS))
        case _:
            return
    end = text.span(node)[1]
    yield from ((end - len(name), end, other) for other in known)


def _others(name: str, families: Sequence[frozenset[str]]) -> Iterator[str]:
    return (other for each in families if name in each for other in sorted(each - {name}))


def _look_alike(text: Text, function: Function) -> Iterator[Place]:
    """A variable becomes another one of the same function, which has a value by then."""
    bound = {each.arg: 0 for each in ast.walk(function) if isinstance(each, ast.arg)}
    names = [each for each in ast.walk(function) if isinstance(each, ast.Name)]
    for name in names:
        if isinstance(name.ctx, ast.Store):
            bound[name.id] = min(name.lineno, bound.get(name.id, name.lineno))
    for name in names:
        if isinstance(name.ctx, ast.Load):
            for other in _others(name.id, LOOK_ALIKE):
                if bound.get(other, name.lineno) < name.lineno:
                    yield *text.span(name), other


def _dropped(text: Text, function: Function) -> Iterator[Place]:
    """A statement is not there."""
    for node in ast.walk(function):
        match node:
            case ast.Expr(ast.Constant()):  # a docstring
                pass
            case ast.AnnAssign(value=None):
                pass
            case (ast.Expr() | ast.Assign() | ast.AugAssign() | ast.AnnAssign() | ast.Delete()) | (
                ast.Return() | ast.Raise() | ast.Break() | ast.Continue()
            ):
                yield *text.span(node), "pass"


def _returned(text: Text, function: Function) -> Iterator[Place]:
    """A number that is returned is off by one."""
    if isinstance(function.returns, ast.Name) and function.returns.id == "int":
        for node in ast.walk(function):
            if isinstance(node, ast.Return) and node.value is not None:
                code = f"({text.code(node.value)})"
                yield from ((*text.span(node.value), f"{code} {by} 1") for by in "+-")


OWN = {
    "membership": _membership,
    "condition": _forced,
    "operand": _one_sided,
    "filter": _unfiltered,
    "copy": _uncopied,
    "arguments": _argument_order,
    "slice": _slice,
    "name": _fellow,
}
"""Operators on one node, by their kinds."""

OWN_WITHIN = {"name": _look_alike, "statement": _dropped, "off-by-one": _returned}
"""... on a function."""
