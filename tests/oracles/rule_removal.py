"""Find every place where the verifier records a violation, and load the verifier without one of them."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

PACKAGE = "lowtide.models.verifier"
ENTRY = f"{PACKAGE}.verify"
APART = {"__init__", "flow", "hybrid", "sharding", "stages", "tiles", "verdict"}
"""What judges no plan and no allocation: these have tests of their own."""
MAKERS = ("Violation", "_violation", "_overlap", "replace")
"""Functions that return a violation; a list that takes one up records it."""


@dataclass(frozen=True)
class Site:
    """A statement that records a violation, or hands one on to be recorded."""

    module: str
    function: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.module}:{self.function}:{self.line}"


def verifier_sources() -> dict[str, Path]:
    """Return the files of the verifier, the entrance and its parts, by module name within `PACKAGE`."""
    spec = importlib.util.find_spec(ENTRY)
    assert spec is not None
    assert spec.origin is not None
    folder = Path(spec.origin).parent
    return {path.stem: path for path in sorted(folder.glob("*.py")) if path.stem not in APART}


def callee(node: ast.expr) -> str:
    """Return the last name of what a call calls, '' for anything else."""
    if not isinstance(node, ast.Call):
        return ""
    return getattr(node.func, "attr", getattr(node.func, "id", ""))


def records(node: ast.stmt) -> bool:
    """Does the statement record a violation, itself or through a function named after that?"""
    if isinstance(node, ast.AugAssign):
        return isinstance(node.target, ast.Name) and node.target.id == "found"
    if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Call):
        return False
    name, arguments = callee(node.value), node.value.args
    if name == "append":
        return any(callee(argument) in MAKERS for argument in arguments)
    return "report" in name


def functions(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            yield node.name, node


def sites() -> list[Site]:
    """Return every statement of the verifier that records a violation."""
    found = []
    for module, path in verifier_sources().items():
        text = path.read_text()
        for name, function in functions(ast.parse(text)):
            for node in ast.walk(function):
                if isinstance(node, ast.stmt) and records(node):
                    line = ast.get_source_segment(text, node) or ""
                    found.append(Site(module, name, node.lineno, line))
    return found


def constructors() -> list[tuple[str, str]]:
    """Return module and function of every expression of the verifier that makes a violation from nothing."""
    return [
        (module, name)
        for module, path in verifier_sources().items()
        for name, function in functions(ast.parse(path.read_text()))
        for node in ast.walk(function)
        if isinstance(node, ast.Call) and callee(node) == "Violation"
    ]


class _Silence(ast.NodeTransformer):
    def __init__(self, line: int) -> None:
        self.line = line

    def visit(self, node: ast.AST) -> Any:
        if isinstance(node, ast.stmt) and node.lineno == self.line and records(node):
            return ast.copy_location(ast.Pass(), node)
        return self.generic_visit(node)


def verifier_without(site: Site) -> ModuleType:
    """Return a verifier in which that statement does nothing; the real one stays as it is."""
    tree = _Silence(site.line).visit(ast.parse(verifier_sources()[site.module].read_text()))
    return load(site.module, tree)


def load(module: str, tree: ast.Module) -> ModuleType:
    """Return a fresh copy of the verifier in which one module is compiled from the tree."""
    package = sys.modules[PACKAGE.rpartition(".")[0]]
    ours = {name: sys.modules[name] for name in loaded()}
    shown = vars(package)["verifier"]
    for name in ours:
        del sys.modules[name]
    try:
        changed = ModuleType(f"{PACKAGE}.{module}")
        changed.__package__ = changed.__name__.rpartition(".")[0]
        sys.modules[changed.__name__] = changed
        exec(compile(tree, f"<{module} changed>", "exec"), vars(changed))
        return importlib.import_module(ENTRY)
    finally:
        for name in loaded():
            del sys.modules[name]
        sys.modules.update(ours)
        vars(package)["verifier"] = shown


def loaded() -> list[str]:
    """Return the full names of the verifier's modules, and of their folder, that are loaded now."""
    return [name for name in sys.modules if f"{name}.".startswith(f"{PACKAGE}.")]
