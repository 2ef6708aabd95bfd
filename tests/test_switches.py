"""No module outside a problem's own rooms decides by which problem it is: it asks the problem or its room."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from lowtide.models.problems import PROBLEMS
from tests.package import modules

CLASSES = {problem.__name__ for problem in PROBLEMS.values()}
ABOUT = {"problem", "name"}
"""How variables, attributes and keys that hold a problem's name are called."""


def about_problems(name: str) -> bool:
    """Return whether a module is a problem, or an experiment, which is about some of them."""
    return name.startswith(("models.problems.", "results.experiments."))


def strings(node: ast.expr) -> list[str]:
    """Return the string that a node is, or those that are the elements or keys of a display of some."""
    if isinstance(node, ast.Constant):
        return [node.value] if isinstance(node.value, str) else []
    keys = [key for key in node.keys if key] if isinstance(node, ast.Dict) else []
    parts = node.elts if isinstance(node, ast.Tuple | ast.List | ast.Set) else keys
    return [text for part in parts for text in strings(part)]


def names_a_problem(node: ast.expr) -> bool:
    """Return whether an expression reads as the name of a problem: `problem.name`, `row["problem"]`."""
    if isinstance(node, ast.Call):  # row.get("problem"), str(name)
        inner = [node.func.value] if isinstance(node.func, ast.Attribute) else []
        return any(names_a_problem(x) or set(strings(x)) & ABOUT for x in [*inner, *node.args])
    if isinstance(node, ast.Subscript):
        return bool(set(strings(node.slice)) & ABOUT)
    if isinstance(node, ast.Tuple):
        return any(names_a_problem(x) for x in node.elts)
    return (isinstance(node, ast.Name) and node.id in ABOUT) or (
        isinstance(node, ast.Attribute) and node.attr in ABOUT
    )


def switches(tree: ast.Module) -> Iterator[str]:
    """Yield the code that asks which problem it is."""
    tables = {
        target.id: node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    }

    def of_problems(node: ast.expr) -> bool:
        node = tables.get(node.id, node) if isinstance(node, ast.Name) else node
        return bool(set(strings(node)) & PROBLEMS.keys())

    for node in ast.walk(tree):
        found = False
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            found = any(map(names_a_problem, sides)) and any(map(of_problems, sides))
            kinds = [x for x in sides if isinstance(x, ast.Name | ast.Attribute)]
            found |= any((x.id if isinstance(x, ast.Name) else x.attr) in CLASSES for x in kinds)
        elif isinstance(node, ast.Subscript):
            found = names_a_problem(node.slice) and of_problems(node.value)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
            found = any(map(names_a_problem, node.args)) and of_problems(node.func.value)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            classes = {
                x.id if isinstance(x, ast.Name) else getattr(x, "attr", "")
                for a in node.args
                for x in ast.walk(a)
            }
            found = node.func.id in ("isinstance", "issubclass") and bool(classes & CLASSES)
        elif isinstance(node, ast.Match):
            values = [x.value for x in ast.walk(node) if isinstance(x, ast.MatchValue)]
            classes = {getattr(x.cls, "id", "") for x in ast.walk(node) if isinstance(x, ast.MatchClass)}
            found = names_a_problem(node.subject) and any(map(of_problems, values))
            found |= bool(classes & CLASSES)
        if found and isinstance(node, ast.expr | ast.stmt):
            yield f"line {node.lineno}: {ast.unparse(node).splitlines()[0]}"


@pytest.mark.parametrize(
    "text",
    [
        'name == "pipeline"',
        '"peak" != result.problem',
        'problem.name in ("peak", "offsets")',
        'row["problem"] == "minio"',
        'row.get("problem") == "minio"',
        'T = {"peak": 1}\nT[problem.name]',
        'T = {"peak": 1}\nT.get(name)',
        'T: dict = {("peak", "milp"): 1}\nT[problem.name, method]',
        'T = ("parallel-memory",)\nname in T',
        "isinstance(problem, Peak)",
        "isinstance(problem, lt.Peak | lt.Offsets)",
        "type(problem) is Peak",
        'match problem.name:\n    case "peak":\n        pass',
        "match problem:\n    case Peak():\n        pass",
    ],
)
def test_switches_are_seen(text: str) -> None:
    assert len(list(switches(ast.parse(text)))) == 1


@pytest.mark.parametrize("text", ['objective == "makespan"', 'T = {"peak": 1}\nT["peak"]', "ROOMS[name]"])
def test_nothing_else_is_seen(text: str) -> None:
    assert not list(switches(ast.parse(text)))


@pytest.mark.slow
def test_no_module_switches_over_problems() -> None:
    known = {name: path for name, path in modules().items() if not about_problems(name)}
    assert len(known) > 500
    told = re.compile(rf"[\"']({'|'.join(PROBLEMS)})[\"']|\b({'|'.join(CLASSES)})\b")
    texts = {name: path.read_text() for name, path in known.items()}
    found = {name: list(switches(ast.parse(text))) for name, text in texts.items() if told.search(text)}
    assert {name: some for name, some in found.items() if some} == {}
