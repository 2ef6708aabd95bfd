"""Docstrings name what is there: parameters of the signature, modules of the package and names in them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.package import parsed

ITEM = re.compile(r"^([a-z_*][\w*., ]*?)(?: : .*)?$")
PATH = re.compile(r"(?<!`)`\.?([a-z_]\w*(?:\.[A-Za-z_]\w*){2,})`(?!`)")
"""What reads as a module of the package, from any folder on: `makespan.lists.lns`."""

MODULE = re.compile(r"(?<![\w./\x22-])lowtide((?:\.[A-Za-z_]\w*)+)(?![\w/-])")


def documented(text: str) -> Iterator[str]:
    """Yield the names that a section of parameters lists, `a, b` as two."""
    lines = text.splitlines()
    starts = [
        k
        for k, line in enumerate(lines[1:], 1)
        if set(line.strip()) == {"-"} and lines[k - 1] == "Parameters"
    ]
    for start in starts:
        for k in range(start + 1, len(lines)):
            line = lines[k]
            if k + 1 < len(lines) and set(lines[k + 1].strip()) == {"-"}:
                break
            if line and not line[0].isspace() and (found := ITEM.match(line)):
                yield from (name.strip().lstrip("*") for name in found[1].split(","))


def accepted(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> set[str]:
    """Return the parameters of a function, or the fields and those of the constructor of a class."""
    if isinstance(node, ast.ClassDef):
        fields = {
            x.target.id for x in node.body if isinstance(x, ast.AnnAssign) and isinstance(x.target, ast.Name)
        }
        inits = [
            x for x in node.body if isinstance(x, ast.FunctionDef) and x.name in ("__init__", "__new__", "of")
        ]
        return fields.union(*map(accepted, inits))
    a = node.args
    every = [*a.posonlyargs, *a.args, *a.kwonlyargs, *filter(None, (a.vararg, a.kwarg))]
    return {x.arg for x in every}


@pytest.fixture(scope="module")
def package() -> dict[str, tuple[str, ast.Module]]:
    return parsed()


def strangers(tree: ast.Module) -> Iterator[str]:
    """Yield documented parameters that a function or class does not have; a base class may have them."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.ClassDef) or (
            isinstance(node, ast.ClassDef) and node.bases
        ):
            continue
        told = set(documented(ast.get_docstring(node) or ""))
        if extra := told - accepted(node):
            yield f"{node.name}: {sorted(extra)}"


@pytest.mark.slow
def test_parameters_are_those_of_the_signature(package: dict[str, tuple[str, ast.Module]]) -> None:
    found = {name: list(strangers(tree)) for name, (text, tree) in package.items() if "Parameters\n" in text}
    assert {name: some for name, some in found.items() if some} == {}


def names_in(tree: ast.Module) -> set[str]:
    """Return what a module defines or imports, with attributes of its classes."""
    stored = {x.id for x in ast.walk(tree) if isinstance(x, ast.Name) and isinstance(x.ctx, ast.Store)}
    defined = {x.name for x in ast.walk(tree) if isinstance(x, ast.FunctionDef | ast.ClassDef)}
    imports = [x for x in ast.walk(tree) if isinstance(x, ast.ImportFrom | ast.Import)]
    return stored | defined | {a.asname or a.name for x in imports for a in x.names}


def may_be(path: str, package: dict[str, tuple[str, ast.Module]]) -> set[str]:
    """Return what a path may mean in full: it counts from any folder on."""
    heads = [path.rsplit(".", k)[0] for k in range(3)]
    ends = {(name, head) for name in package for head in heads if f".{name}".endswith(f".{head}")}
    return {name + path.removeprefix(head) for name, head in ends}


def is_there(path: str, package: dict[str, tuple[str, ast.Module]]) -> bool:
    """Return whether a dotted path is a module, or a name in the longest module that it begins with."""
    parts = path.split(".")
    for k in range(len(parts), -1, -1):
        module = ".".join(parts[:k])
        if module in package:
            return k == len(parts) or parts[k] in names_in(package[module][1]) | LAZY
    return False


LAZY = {"plot"}
"""What the package has beside its own names: `lowtide.plot`."""


@pytest.mark.slow
def test_modules_that_are_named_exist(package: dict[str, tuple[str, ast.Module]]) -> None:
    for name, (text, tree) in package.items():
        if not (MODULE.search(text) or PATH.search(text)):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef):
                for found in MODULE.finditer(ast.get_docstring(node) or ""):
                    assert is_there(found[1][1:], package), f"{name}: {found[0]}"
                for found in PATH.finditer(ast.get_docstring(node) or ""):
                    path = found[1].removeprefix("lowtide.")
                    assert any(is_there(x, package) for x in may_be(path, package)), f"{name}: {found[0]}"


@pytest.mark.parametrize(("text", "stale"), [("def f(a): ...", True), ("def f(a, expired): ...", False)])
def test_a_stale_parameter_is_seen(text: str, stale: bool) -> None:
    tree = ast.parse(
        text.replace("...", '"""X.\n\n    Parameters\n    ----------\n    expired\n        Y.\n    """')
    )
    assert bool(list(strangers(tree))) == stale
