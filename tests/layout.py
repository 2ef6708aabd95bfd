"""Counts of what makes code hard to read, against committed limits: ``python -m tests.layout [ROOM]``.

The limits stand in ``layout.toml`` and only shrink: ``--shrink`` lowers each to today's count. The exit code
is 1 if a count is above its limit. A room is a folder of ``solvers`` and the one of the same name in
``formulations``; other modules count for their first folder.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import TypeAlias

from tests.package import ROOT, imported, modules, parsed

Function = ast.FunctionDef  # there is no asynchronous one
NAMED = (Function, ast.ClassDef)
Counts: TypeAlias = dict[str, dict[str, int]]
"""By table and key."""

FILE = Path(__file__).with_name("layout.toml")
COMPLEX = 25
"""Cyclomatic complexity above which a function is listed."""

TOO_COMPLEX = 50
"""Cyclomatic complexity above which there is to be no function outside kernels."""

KERNEL_LINES = 150
"""Lines of a kernel's function above which it is listed: it is to be cut by phases."""

ARGUMENTS = 8
"""Positional arguments above which a function is listed; kernels have no other kind."""

FEW_WORDS = 5
"""Words of a constant's docstring that have no room for subject, unit and reason."""

LIFE = 3
"""Lines that a variable with a reserved name may live."""

LISTS = ("complexity", "kernel_lines", "arguments", "shared_class_names")
"""Tables with a row for each offender; the others have sums."""

ERRORS = {"UsageError", "LowtideError", "InstanceError", "Refused"}
RESERVED = re.compile(
    r"(?:^|_)(said|told|called|late|found|some|(?<!under_)way|thing|serves|so_many|as_many)(?=_|$)"
)
SCOPES = (
    ast.Module,
    ast.ClassDef,
    Function,
    ast.Lambda,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
)


def room_of(path: str) -> str:
    """Return the room that a file of the package belongs to."""
    first, *rest = path.split("/")
    inside = first in ("solvers", "formulations") and len(rest) > 1
    return rest[0] if inside else first if rest else "root"


def complexity(function: Function) -> int:
    """Return the cyclomatic complexity of a function, by radon's definition: 1, and 1 for each choice.

    Choices are `if`, loops and their `else`, handlers, `assert`, cases, `and`, `or`, and `for` and `if` of
    comprehensions. Functions inside count for themselves.
    """
    count = 1
    queue: list[ast.AST] = [*function.body]
    while queue:
        x = queue.pop()
        match x:
            case ast.If() | ast.IfExp() | ast.Assert() | ast.ExceptHandler():
                count += 1
            case ast.For(orelse=rest) | ast.While(orelse=rest):
                count += 1 + bool(rest)
            case ast.Try(orelse=rest):
                count += bool(rest)
            case ast.comprehension(ifs=conditions):
                count += 1 + len(conditions)
            case ast.BoolOp(values=values):
                count += len(values) - 1
            case ast.match_case(pattern=ast.MatchAs(pattern=None)):
                pass
            case ast.match_case():
                count += 1
        queue += [] if isinstance(x, Function) else ast.iter_child_nodes(x)
    return count


def functions(tree: ast.AST, name: str = "") -> Iterator[tuple[str, Function]]:
    """Yield the functions of a module, the methods of its classes and the functions inside them by name."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, Function):
            yield name + node.name, node
        if isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case):
            yield from functions(node, f"{name}{node.name}." if isinstance(node, NAMED) else name)


def _is_number(node: ast.AST | None) -> bool:
    if isinstance(node, ast.Tuple):
        return bool(node.elts) and all(map(_is_number, node.elts))
    if isinstance(node, ast.BinOp):
        return _is_number(node.left) and _is_number(node.right)
    if isinstance(node, ast.UnaryOp):
        return _is_number(node.operand)
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def constants(tree: ast.Module) -> Iterator[tuple[str, str | None]]:
    """Yield the constants of a module that hold a number, with their docstrings."""
    for node, after in zip_longest(tree.body, tree.body[1:]):
        if not isinstance(node, ast.Assign | ast.AnnAssign) or not _is_number(node.value):
            continue
        doc = after.value if isinstance(after, ast.Expr) else None
        text = doc.value if isinstance(doc, ast.Constant) and isinstance(doc.value, str) else None
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            names = target.elts if isinstance(target, ast.Tuple) else [target]
            yield from ((x.id, text) for x in names if isinstance(x, ast.Name))


def reserved(module: str, tree: ast.Module) -> list[str]:
    """Return the names with a reserved word that a module gives to things; variables if they live longer."""
    names = [part for part in module.split(".")[-1:] if RESERVED.search(part)]
    scopes: list[tuple[dict[str, list[int]], set[str]]] = []

    def visit(node: ast.AST) -> None:
        is_scope = isinstance(node, SCOPES)
        match node:
            case ast.FunctionDef(name=name) if RESERVED.search(name):
                names.append(name)
            case ast.ClassDef(name=name) if RESERVED.search(_snake(name)):
                names.append(_snake(name))
            case ast.Attribute(attr=name, ctx=ast.Store()) if RESERVED.search(name):
                names.append(name)
            case ast.alias(asname=str(name)) if RESERVED.search(name):
                names.append(name)
            case ast.Name(id=name) | ast.arg(arg=name) if RESERVED.search(name):
                scopes[-1][0].setdefault(name, []).append(node.lineno)
                if isinstance(node, ast.arg) or isinstance(node.ctx, ast.Store):
                    scopes[-1][1].add(name)
        if is_scope:
            scopes.append(({}, set()))
        for child in ast.iter_child_nodes(node):
            visit(child)
        if is_scope:
            lines, bound = scopes.pop()
            lasting = isinstance(node, ast.Module | ast.ClassDef)
            names.extend(x for x in bound if lasting or max(lines[x]) - min(lines[x]) >= LIFE)
            for name in (lines.keys() - bound) if scopes else ():
                scopes[-1][0].setdefault(name, []).extend(lines[name])

    visit(tree)
    return names


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def _errors(node: ast.AST | None) -> int:
    names = {x.id if isinstance(x, ast.Name) else "" for x in (ast.walk(node) if node else ())}
    return bool(names & ERRORS)


def _catches(nodes: list[ast.AST]) -> int:
    handlers = sum(_errors(x.type) for x in nodes if isinstance(x, ast.ExceptHandler))
    calls = (x for x in nodes if isinstance(x, ast.Call))
    return handlers + sum(_errors(x) for x in calls if ast.unparse(x.func).endswith("suppress"))


def _raises(nodes: list[ast.AST]) -> int:
    return sum(_errors(x.exc) for x in nodes if isinstance(x, ast.Raise))


def _private_imports(nodes: list[ast.AST]) -> int:
    names = (alias.name for x in nodes if isinstance(x, ast.ImportFrom) and x.level for alias in x.names)
    return sum(name.startswith("_") and not name.endswith("_") for name in names)


def reading_set(start: str) -> set[str]:
    """Return the modules that one imports at its top, and those that they import; not by the registry."""
    known, queue, seen = modules(), [start], {start}
    while queue:
        name = queue.pop()
        for other in imported(name, parsed()[name][1].body, known):
            if other in known and other not in seen and other != "solvers.registry":
                seen.add(other)
                queue.append(other)
    return seen


def _tests_of_tests() -> int:
    files = Path(__file__).parent.rglob("test_*.py")
    pattern = re.compile(r"^\s*from (tests\.|\.)[\w.]*\btest_\w+ import", re.MULTILINE)
    return sum(bool(pattern.search(path.read_text())) for path in files)


def counts(room: str | None = None) -> Counts:
    """Return all counts, or those of one room."""
    known = {name: path.relative_to(ROOT).as_posix() for name, path in modules().items()}
    tables: Counts = {}
    classes: Counter[str] = Counter()
    for name, path in known.items():
        if room not in (None, room_of(path)):
            continue
        tree = parsed()[name][1]
        kernel, place, nodes = path.endswith("_kernel.py"), room_of(path), list(ast.walk(tree))
        for title, node in functions(tree):
            lines = (node.end_lineno or 0) - node.lineno + 1
            if kernel and lines > KERNEL_LINES:
                _add(tables, "kernel_lines", f"{path}:{title}", lines)
            elif not kernel and (value := complexity(node)) > COMPLEX:
                _add(tables, "complexity", f"{path}:{title}", value)
            if not kernel and len(node.args.posonlyargs) + len(node.args.args) > ARGUMENTS:
                _add(tables, "arguments", f"{path}:{title}", 1)
        for _, doc in constants(tree):
            _add(tables, "constants_without_docstring", place, doc is None)
            _add(tables, "constants_in_few_words", place, doc is not None and len(doc.split()) <= FEW_WORDS)
        _add(tables, "reserved_words", place, len(reserved(name, tree)))
        _add(tables, "private_imports", place, _private_imports(nodes))
        if place == "placement":
            _add(tables, "placement", "catches", _catches(nodes))
            _add(tables, "placement", "raises", _raises(nodes))
        classes.update(x.name for x in nodes if isinstance(x, ast.ClassDef))
    tables["shared_class_names"] = {name: n for name, n in sorted(classes.items()) if n > 1}
    if room in (None, "placement"):
        read = reading_set("solvers.placement.auto")
        rooms = {room_of(path) for path in known.values() if path.startswith("formulations/")}
        others = rooms - {"placement", "formulations"}
        _add(tables, "placement", "files_read_by_auto", len(read))
        lines = sum(parsed()[x][0].count("\n") for x in read)
        _add(tables, "placement", "thousand_lines_read_by_auto", -(-lines // 1000))
        _add(tables, "placement", "of_other_rooms", sum(room_of(known[x]) in others for x in read))
    if room is None:
        _add(tables, "tests", "files_that_import_tests", _tests_of_tests())
    return tables


def _add(tables: Counts, table: str, key: str, number: int) -> None:
    row = tables.setdefault(table, {})
    row[key] = row.get(key, 0) + number


def above(tables: Counts, limits: Counts) -> list[str]:
    """Return the counts that are above their limits, one a line."""
    return [
        f"{table}: {key} is {n}, expected <= {limits.get(table, {}).get(key, 0)}"
        for table, row in tables.items()
        for key, n in row.items()
        if n > limits.get(table, {}).get(key, 0)
    ]


def _written(tables: Counts, limits: Counts) -> str:
    lines = ["# What `python -m tests.layout` allows: numbers and lists only shrink."]
    for table, row in sorted(tables.items()):
        lowered = {key: min(n, limits.get(table, {}).get(key, 0)) for key, n in sorted(row.items())}
        lines += ["", f"[{table}]", *(f'"{key}" = {n}' for key, n in lowered.items() if n)]
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    """Print the table of counts; return 1 if one is above its limit."""
    room = next((x for x in arguments if x != "--shrink"), None)
    tables, limits = counts(room), tomllib.loads(FILE.read_text())
    for name, row in tables.items():
        print(f"{name:32}{len(row) if name in LISTS else sum(row.values()):6}")
        if name == "complexity":
            print(f"{f'  above {TOO_COMPLEX}':32}{sum(n > TOO_COMPLEX for n in row.values()):6}")
        if name == "placement" or room is not None:
            print("".join(f"  {key:70}{n:6}\n" for key, n in row.items() if n), end="")
    if "--shrink" in arguments and room is None:
        FILE.write_text(_written(tables, limits))
    problems = above(tables, limits)
    print("\n".join(problems), file=sys.stderr)
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
