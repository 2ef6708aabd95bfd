"""What each column of a table is: claimed, part of the question, derived, of the run, measured or quoted.

``tables.toml`` says it, besides what rows claim (`lowtide.results.tables.declared`)::

    [columns.placement_latency]
    key = ["graph"]                              # tells rows of one question and method apart
    derived = { ops = "graph_ops", ratio = "period / ideal" }
    run = ["evictions"]                          # what the run said besides; only the ledger holds it
    measured = ["seconds"]                       # of one machine at one time
    quoted = { published = "Table 3 of the paper" }

A column that is none of these is an error. `derived` is arithmetic over cells of the row (a space in a name
is ``_``), ``graph_ops``, the number of ops (or buffers), and ``graph_work``, the sum of the shortest
durations of all ops. A cell that lacks one of its operands is empty. A formula after ``~`` holds within 5
%, since its operands are rounded. Two rows with the same question, method and key are an error.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...instances.formats.strict_json import Field, check_object, is_list, is_object, is_text, show
from ...models.errors import InstanceError
from ...models.problems.problem import Problem
from .declared import Declared, Row, declared_columns

EVERY = ("date", "version", "machine", "threads", "case_seconds", "seeds")
"""When, where and in how long a row was made (`case_seconds`: with all rows that were measured with it), and
what three seeds gave where luck decides; older rows lack them."""

_OPERATORS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
}
_FUNCTIONS: Mapping[str, Callable[..., Any]] = {"round": round, "min": min, "max": max}


@dataclass(frozen=True, kw_only=True)
class Columns:
    """The columns of a table that claim nothing, by what they are."""

    key: tuple[str, ...] = ()
    derived: Mapping[str, str] = field(default_factory=dict)
    run: tuple[str, ...] = ()
    measured: tuple[str, ...] = ()
    quoted: Mapping[str, str] = field(default_factory=dict)

    def named(self) -> list[str]:
        """Return all names."""
        return [*self.key, *self.derived, *self.run, *self.measured, *self.quoted]


def columns_from_dict(data: Any, where: str) -> Columns:
    """Return the columns of a table as ``tables.toml`` has them.

    Raises
    ------
    InstanceError
        If it is not of the format, or a column is said to be two things.
    """
    names = Field(lambda v: is_list(v) and all(map(is_text, v)), "a list of columns")
    words = Field(lambda v: is_object(v) and all(map(is_text, v.values())), "a text by column")
    check_object(
        data, {"key": names, "derived": words, "run": names, "measured": names, "quoted": words}, where
    )
    said: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in data.items()}
    columns = Columns(**said)
    twice = [name for name in columns.named() if columns.named().count(name) > 1]
    if twice:
        raise InstanceError(f"{where}: found column {twice[0]!r} twice, expected it once")
    return columns


def column_faults(declared: Declared, columns: Columns | None, names: Sequence[str]) -> Iterator[str]:
    """Yield what is wrong with the header of a table."""
    if columns is None:
        yield f"found no [columns.{declared.name}], expected what its columns are"
        return
    known = {*declared_columns(declared), *columns.named(), *EVERY}
    for name in names:
        if name not in known:
            yield f"found column {name!r}, which is claimed, derived, measured or quoted nowhere"
        if names.count(name) > 1:
            yield f"found column {name!r} twice"
    for name in columns.named():
        if name not in names:
            yield f"found no column {name!r}, expected what [columns.{declared.name}] tells of"


def key_of(declared: Declared, columns: Columns, row: Row) -> tuple[str, ...]:
    """Return what no two rows of a table have in common: question, method and key."""
    methods = [claim.method for question in declared.questions for claim in question.claims]
    names = [q.column for q in declared.questions]
    cells = [str(row.get(name) or "") for name in (*names, *columns.key)]
    return (*cells, *(text.format_map(_Cells(row)) for text in methods if "{" in text))


class _Cells(dict[str, Any]):
    def __missing__(self, key: str) -> str:
        return ""


def derived_faults(columns: Columns, row: Row, problem: Problem | None) -> Iterator[str]:
    """Yield which derived cells of a row are not what their formula gives.

    Parameters
    ----------
    problem
        The question of the row; None: formulas with facts of a graph are left out.
    """
    facts = None if problem is None else facts_of(problem)
    values = {name.replace(" ", "_"): number_of(text) for name, text in row.items()}
    for name, formula in columns.derived.items():
        tree = ast.parse(formula.removeprefix("~"), mode="eval").body
        needed = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} - _FUNCTIONS.keys()
        of_graph = {n for n in needed if n.startswith("graph_")}
        if of_graph and (facts is None or any(facts.get(n) is None for n in of_graph)):
            continue
        known = {**values, **(facts or {})}
        if missing := sorted(needed - known.keys()):
            yield f"{name}: found no column {missing[0]!r}, which its formula {formula!r} needs"
            continue
        lacking = any(known[n] is None for n in needed)
        expected = None if lacking else evaluated(tree, known)
        stated = number_of(row.get(name))
        if stated is None or expected is None:
            right = stated is expected
        else:
            right = math.isclose(stated, expected, rel_tol=0.05 if formula[0] == "~" else 1e-9, abs_tol=1e-12)
        if not right:
            said = "nothing" if expected is None else repr(expected)
            yield f"{name}: found {show(row.get(name))}, expected {said}, which is {formula}"


def facts_of(problem: Problem) -> dict[str, int | None]:
    """Return what formulas may use of a question's graph or buffers."""
    graph = getattr(problem, "graph", None)
    if graph is None:
        buffers = getattr(problem, "buffers", None)
        return {"graph_ops": None if buffers is None else len(buffers.buffers), "graph_work": None}
    work = sum(min((mode.duration_ns for mode in op.modes), default=op.duration_ns) for op in graph.ops)
    return {"graph_ops": len(graph.ops), "graph_work": work}


def number_of(value: Any) -> int | float | None:
    """Return a cell as a number; None if it is empty or none."""
    if isinstance(value, bool) or value is None or value == "":
        return None
    if isinstance(value, int | float):
        return value
    for read in (int, float):
        try:
            return read(value)
        except ValueError:
            continue
    return None


def evaluated(node: ast.expr, values: Mapping[str, Any]) -> Any:
    """Return the value of an arithmetic expression.

    Raises
    ------
    InstanceError
        If it has something else than numbers, names, ``+ - * / //``, ``round``, ``min`` and ``max``.

    Examples
    --------
    >>> evaluated(ast.parse("round(a / 3, 2)", mode="eval").body, {"a": 2})
    0.67
    """
    match node:
        case ast.Constant(value=int() | float() as number):
            return number
        case ast.Name(id=name) if name in values:
            return values[name]
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _OPERATORS:
            a, b = evaluated(left, values), evaluated(right, values)
            if b == 0 and isinstance(sign, ast.Div | ast.FloorDiv):
                return None
            return _OPERATORS[type(sign)](a, b)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS:
            return _FUNCTIONS[name](*(evaluated(arg, values) for arg in args))
    raise InstanceError(f"formula: found {ast.unparse(node)!r}, expected arithmetic over columns")
