"""The modules of the package by name, and each parsed once in a process."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import lowtide

ROOT = Path(lowtide.__file__).parent
FOLDERS = ("models", "formulations", "instances", "solvers", "results", "cli")


def modules() -> dict[str, Path]:
    """Return the files of the package by the names of their modules in it."""
    files = [*ROOT.glob("*.py"), *(p for folder in FOLDERS for p in (ROOT / folder).rglob("*.py"))]
    parts = {path: path.relative_to(ROOT).with_suffix("").parts for path in files}
    return {".".join(p[:-1] if p[-1] == "__init__" else p): path for path, p in parts.items()}


@cache
def parsed() -> dict[str, tuple[str, ast.Module]]:
    """Return the text of every module and what it parses to."""
    texts = {name: path.read_text() for name, path in modules().items()}
    collects = gc.isenabled()
    gc.disable()  # a million objects that stay to the end
    try:
        trees = {name: (text, ast.parse(text)) for name, text in texts.items()}
    finally:
        gc.freeze()
        if collects:
            gc.enable()
    return trees


def imported(name: str, nodes: Iterable[ast.AST], known: dict[str, Path]) -> Iterator[str]:
    """Yield the modules of the package that the imports among the nodes of one of them name."""
    own = name.split(".") if name else []
    package = own if known[name].name == "__init__.py" else own[:-1]
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.level:
            base = [*package[: len(package) + 1 - node.level], *(node.module or "").split(".")]
            module = ".".join(part for part in base if part)
            for alias in node.names:
                inside = f"{module}.{alias.name}".strip(".")
                yield inside if inside in known else module
