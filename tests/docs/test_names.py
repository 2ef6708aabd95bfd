"""Every name of the package that a docstring or a page of the documentation gives in full is there."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

import lowtide
from tests.docs.pages import PACKAGE, PAGES

ROOT = Path(lowtide.__file__).parent

NAME = re.compile(r"(?<![\w./@-])lowtide((?:\.[A-Za-z_]\w*)+)")

ENTRY_POINTS = "lowtide.methods"
"""The group of the methods of other packages; no module."""


def sources() -> list[Path]:
    """Return the files of the package and the pages, but the one that makes modules of a new problem."""
    code = [*ROOT.glob("*.py"), *(path for folder in PACKAGE for path in (ROOT / folder).rglob("*.py"))]
    pages = [path for path in PAGES.rglob("*.md") if "_build" not in path.parts]
    return [path for path in (*code, ROOT / "README.md", *pages) if path != PAGES / "extend" / "problem.md"]


@cache
def module(path: Path) -> ast.Module | None:
    """Return the module of a path without ending; a folder without files of its own is an empty one."""
    for file in (path.with_suffix(".py"), path / "__init__.py"):
        if file.exists():
            return ast.parse(file.read_bytes())
    return ast.parse("") if path.is_dir() else None


def names_in(scope: ast.AST) -> dict[str, ast.AST]:
    """Return what a module or a class names, attributes that its methods set too."""
    found: dict[str, ast.AST] = {}
    for node in ast.walk(scope):
        match node:
            case ast.ClassDef() | ast.FunctionDef():
                found[node.name] = node
            case ast.ImportFrom():
                found.update((alias.asname or alias.name, node) for alias in node.names)
            case ast.Name(ctx=ast.Store()):
                found[node.id] = node
            case ast.Attribute(ctx=ast.Store()):
                found[node.attr] = node
            case _:
                pass
    return found


def exists(name: str) -> bool:
    """Whether a module, or what stands in one, has a name; not followed to where it is imported from."""
    path, parts = ROOT, name.split(".")[1:]
    while parts and module(path / parts[0]) is not None:
        path /= parts.pop(0)
    scope: ast.AST | None = module(path)
    for part in parts:
        if isinstance(scope, ast.ImportFrom):
            return True
        scope = None if scope is None else names_in(scope).get(part)
    return scope is not None


@pytest.mark.slow
def test_names_in_full_are_there() -> None:
    missing = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in sources()
        for match in NAME.finditer(path.read_text())
        if (name := match[0]) != ENTRY_POINTS and not exists(name)
    }
    assert not missing


@pytest.mark.parametrize("tail", ["nothing", "solvers.nowhere", "solvers.context.nothing", "solve.Context"])
def test_a_name_that_is_nowhere_is_found(tail: str) -> None:
    assert exists("lowtide.solvers.context.Context.offer")
    assert not exists(f"lowtide.solvers.context.Context.{tail}")
    assert not exists(f"lowtide.instances.{tail}")
