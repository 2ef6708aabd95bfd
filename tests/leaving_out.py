"""Formulations without one of their numbered constraints, for tests that each one matters.

The number of a constraint is its place in ``CONSTRAINTS`` (functions that `build` calls, or names of rows). A
module without that tuple says the number beside each row, ``# (2)``, or in the docstring of the function that
adds it.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

Numbers = frozenset[int]

_NUMBERS = re.compile(r"\((\d+(?:, \d+)*)\)|^Constraint (\d+)")
_NO_ROWS = ("add_hint", "add_component", "add_decision_strategy")


def numbers(formulation: ModuleType) -> list[int]:
    """Return the numbers of the constraints that the code of a formulation names."""
    if hasattr(formulation, "CONSTRAINTS"):
        return list(range(1, len(formulation.CONSTRAINTS) + 1))
    tree = ast.parse(inspect.getsource(formulation))
    return sorted({n for _, _, some in _rows(tree, inspect.getsource(formulation)) for n in some})


def numbers_of_page(formulation: ModuleType) -> list[int]:
    """Return the numbers of the constraints on a formulation's page of mathematics."""
    return [int(n) for n in re.findall(r"^(\d+)\. ", formulation.__doc__ or "", re.MULTILINE)]


def without(formulation: ModuleType, part: int | str) -> ModuleType:
    """Return a formulation without a constraint, by its number or the name of its rows."""
    if isinstance(part, str):
        return _without_rows(formulation, part)
    source = inspect.getsource(formulation)
    tree = ast.parse(source)
    changed = ModuleType(formulation.__name__)
    vars(changed).update({k: vars(formulation)[k] for k in ("__file__", "__package__", "__spec__")})
    listed = hasattr(formulation, "CONSTRAINTS")
    if not listed:
        for body, k, some in list(_rows(tree, source)):
            if part in some:
                body[k] = ast.copy_location(ast.Pass(), body[k])
    exec(compile(tree, formulation.__file__ or "", "exec"), vars(changed))
    if listed:
        kept = formulation.CONSTRAINTS[: part - 1] + formulation.CONSTRAINTS[part:]
        vars(changed)["CONSTRAINTS"] = kept
    return changed


def _without_rows(formulation: ModuleType, name: str) -> ModuleType:
    """Return a formulation whose Pyomo models have lost a component."""
    changed = ModuleType(formulation.__name__)
    vars(changed).update(vars(formulation))

    def build(*given: Any, **named: Any) -> Any:
        built = formulation.build(*given, **named)
        built.model.del_component(name)
        return built

    vars(changed)["build"] = build
    return changed


def _rows(tree: ast.Module, source: str) -> Iterator[tuple[list[ast.stmt], int, Numbers]]:
    """Yield the statements that add rows, as place in a list of statements, with their numbers."""
    lines = source.splitlines()
    for function in (node for node in tree.body if isinstance(node, ast.FunctionDef)):
        said = _said(ast.get_docstring(function) or "")
        for node in ast.walk(function):
            for body in (getattr(node, field, None) for field in ("body", "orelse")):
                if not isinstance(body, list):
                    continue
                for k, statement in enumerate(body):
                    beside = " ".join(lines[statement.lineno - 1 : statement.end_lineno])
                    own = _said(beside.partition("#")[2])
                    if own and isinstance(statement, ast.Expr):
                        yield body, k, own
                    elif said and isinstance(statement, ast.Expr) and _adds_a_row(statement.value):
                        yield body, k, said


def _said(text: str) -> Numbers:
    found = _NUMBERS.search(text)
    return frozenset(int(n) for n in (found[1] or found[2]).split(", ")) if found else frozenset()


def _adds_a_row(node: Any) -> bool:
    """Whether an expression adds a row to a model, conditional or not."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        owner = ast.unparse(node.func.value)
        if node.func.attr.startswith("add") and owner.endswith(("model", "rows")):
            return node.func.attr not in _NO_ROWS
        node = node.func.value
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "add"
