"""Every place where the checker of certificates refuses a proof, and the checker without one of them."""

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
ENTRY = f"{PACKAGE}.certificate"
PARTS = f"{PACKAGE}.proofs"


@dataclass(frozen=True)
class Rule:
    """A statement that refuses."""

    module: str
    line: int
    end: int
    text: str

    def __str__(self) -> str:
        return f"{self.module.removeprefix(PACKAGE + '.')}:{self.line}"


def sources() -> dict[str, Path]:
    """Return the files of the checker by module name."""
    spec = importlib.util.find_spec(ENTRY)
    assert spec is not None
    assert spec.origin is not None
    entry = Path(spec.origin)
    parts = sorted((entry.parent / "proofs").glob("*.py"))
    return {ENTRY: entry, **{f"{PARTS}.{p.stem}": p for p in parts if p.stem != "__init__"}}


def refuses(node: ast.AST) -> bool:
    """Whether a node is a statement that refuses."""
    if not isinstance(node, ast.Raise) or not isinstance(node.exc, ast.Call):
        return False
    return isinstance(node.exc.func, ast.Name) and node.exc.func.id == "Refused"


def rules() -> list[Rule]:
    """Return every statement that refuses."""
    return list(_rules())


def _rules() -> Iterator[Rule]:
    for module, path in sources().items():
        text = path.read_text()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Raise) and refuses(node):
                source = ast.get_source_segment(text, node) or ""
                yield Rule(module, node.lineno, node.end_lineno or node.lineno, source)


class _Silence(ast.NodeTransformer):
    def __init__(self, line: int) -> None:
        self.line = line

    def visit_Raise(self, node: ast.Raise) -> Any:
        return ast.copy_location(ast.Pass(), node) if node.lineno == self.line and refuses(node) else node


def checker_without(rule: Rule) -> ModuleType:
    """Return a copy of the checker in which that statement does nothing; the real one stays as it is."""
    package = sys.modules[PACKAGE]
    ours = {name: module for name, module in sys.modules.items() if name.startswith((ENTRY, PARTS))}
    shown = {name: vars(package)[name] for name in ("certificate", "proofs")}
    for name in ours:
        del sys.modules[name]
    try:
        if rule.module != ENTRY:
            importlib.import_module(PARTS)
        tree = _Silence(rule.line).visit(ast.parse(sources()[rule.module].read_text()))
        changed = ModuleType(rule.module)
        changed.__package__ = rule.module.rpartition(".")[0]
        sys.modules[rule.module] = changed
        exec(compile(ast.fix_missing_locations(tree), f"<{rule} left out>", "exec"), vars(changed))
        checker = importlib.import_module(ENTRY)
        for name, module in ours.items():  # the data of proofs is the same for both
            data = {k: x for k, x in vars(module).items() if isinstance(x, type) and hasattr(x, "to_dict")}
            if name in sys.modules and name != ENTRY:
                vars(sys.modules[name]).update(data)
            vars(checker).update({k: x for k, x in data.items() if k in vars(checker) and "Proof" in k})
        return checker
    finally:
        for name in [name for name in sys.modules if name.startswith((ENTRY, PARTS))]:
            del sys.modules[name]
        sys.modules.update(ours)
        vars(package).update(shown)
