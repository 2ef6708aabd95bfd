r"""Mutants of product code, made by rule: one small change each, such as `<` for `<=`.

A mutant is a change of one expression or statement, at its place in the text: the rest of the file stays as
it is. Nothing is changed that has no effect on what is computed: annotations, texts, decorators, what is
raised, logging, constants of a module, estimates of a model's size.

Examples
--------
>>> for mutant in mutants("def f(x):\n    return x + 1 if x < 2 else max(x, 3)\n"):
...     print(mutant.line, mutant.rule, "|", mutant.old, "|", mutant.new)
2 arithmetic | x + 1 | x - 1
2 comparison | x < 2 | x <= 2
2 function | max | min
2 number | 1 | 2
2 number | 2 | 3
2 number | 3 | 4
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

COMPARISONS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
}
ARITHMETIC: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "+"),
    ast.FloorDiv: ("//", "*"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
}
FUNCTIONS = {"min": "max", "max": "min", "all": "any", "any": "all"}
LARGEST = 3
"""Whole numbers up to this one are changed; greater ones are mostly sizes of searches."""
ESTIMATES = {"size", "least_size"}
"""Functions of these names say how large a model will be."""
SILENT = {"debug", "info", "warning", "phase", "say", "progress", "add_hint"}
"""What calls of these names do changes no answer."""


class Mutant(NamedTuple):
    """A change of a text: `old`, at these positions in it, becomes `new`."""

    line: int
    rule: str
    begin: int
    end: int
    old: str
    new: str

    def of(self, text: bytes) -> bytes:
        """Return the text with the change."""
        return text[: self.begin] + self.new.encode() + text[self.end :]


def mutants(text: str) -> list[Mutant]:
    """Return all mutants of the functions of a module, by line."""
    tree = ast.parse(text)
    starts = [0]
    for row in text.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(row))
    made = [
        Mutant(node.lineno, rule, begin, end, text.encode()[begin:end].decode(), new)
        for function in _outermost(tree)
        for node, rule, begin, end, new in _changes(function, text.encode(), starts)
    ]
    return sorted(set(made))


def _outermost(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if node.name not in ESTIMATES:
                yield node
        elif isinstance(node, ast.ClassDef):
            yield from _outermost(node)


def _inside(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what is computed below a node, the node itself among it."""
    yield node
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "type_params", "type_comment"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if (
                isinstance(child, ast.Raise | ast.JoinedStr)
                or not isinstance(child, ast.AST)
                or _is_silent(child)
            ):
                continue
            yield from _inside(child)


def _is_silent(node: ast.AST) -> bool:
    if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
        return False
    function = node.value.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name in SILENT


def _changes(
    function: ast.AST, text: bytes, starts: list[int]
) -> Iterator[tuple[ast.expr | ast.stmt, str, int, int, str]]:
    """Yield node, rule, positions and what stands there instead."""

    def span(node: ast.expr | ast.stmt) -> tuple[int, int]:
        end_line, end_column = node.end_lineno or 0, node.end_col_offset or 0  # never None of what was parsed
        return starts[node.lineno - 1] + node.col_offset, starts[end_line - 1] + end_column

    def between(left: ast.expr, right: ast.expr, old: str, new: str) -> str | None:
        """Return the text from one operand to the other with another operator between them."""
        gap = text[span(left)[1] : span(right)[0]].decode()
        if gap.count(old) != 1 or "#" in gap:
            return None
        return text[slice(*span(left))].decode() + gap.replace(old, new) + text[slice(*span(right))].decode()

    for node in _inside(function):
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            new = between(node.left, node.comparators[0], *COMPARISONS[type(node.ops[0])])
            if new is not None:
                yield node, "comparison", span(node.left)[0], span(node.comparators[0])[1], new
        elif isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC and not _is_text(node):
            new = between(node.left, node.right, *ARITHMETIC[type(node.op)])
            if new is not None:
                yield node, "arithmetic", span(node.left)[0], span(node.right)[1], new
        elif isinstance(node, ast.BoolOp) and len(node.values) == 2:
            words = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
            new = between(node.values[0], node.values[1], *words)
            if new is not None:
                yield node, "and, or", span(node.values[0])[0], span(node.values[1])[1], new
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield node, "not", *span(node), f"({text[slice(*span(node.operand))].decode()})"
        elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add | ast.Sub):
            begin, end = span(node.target)[1], span(node.value)[0]
            sign = "+=" if isinstance(node.op, ast.Add) else "-="
            other = text[begin:end].decode().replace(sign, "-=" if sign == "+=" else "+=")
            yield node, "arithmetic", begin, end, other
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in FUNCTIONS:
            yield node.func, "function", *span(node.func), FUNCTIONS[node.func.id]
        elif isinstance(node, ast.Constant) and type(node.value) is int and 0 <= node.value <= LARGEST:
            yield node, "number", *span(node), str(node.value + 1)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            yield node, "call left out", *span(node), "pass"
        elif isinstance(node, ast.If | ast.IfExp) and not isinstance(node.test, ast.Compare | ast.BoolOp):
            yield node.test, "condition", *span(node.test), "False"


def _is_text(node: ast.BinOp) -> bool:
    return any(
        isinstance(side, ast.JoinedStr) or (isinstance(side, ast.Constant) and isinstance(side.value, str))
        for side in (node.left, node.right)
    )
