"""Which sources can change an answer to a problem: what its methods import, and what that imports.

The imports are read from the sources, those inside functions too, without carrying anything out. Of a package
only the modules that are imported count, and its ``__init__`` where something else is taken from it. Methods
are started by name (`lowtide.solvers.registry`), so that table is not followed; a method that starts methods
of other problems by it depends on all of them, one that imports the room of another problem on the methods of
that.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...solvers.method import Method

ROOT = Path(__file__).parents[2]
"""The folder of the package."""

FOLDERS = ("models", "formulations", "solvers")
"""The folders of the package whose code can change an answer."""

_SOLVE, _REGISTRY = "solvers.solve", "solvers.registry"


@cache
def used_sources(problem: str) -> tuple[Path, ...]:
    """Return the files whose code can change an answer of some method of the suite to a problem, sorted.

    Examples
    --------
    >>> names = {path.name for path in used_sources("peak")}
    >>> "spization.py" in names, "benders.py" in names
    (True, False)
    """
    from ...solvers.registry import METHODS, ROOMS

    modules = _started(m for m in METHODS if m.problem == problem)
    if trivial := ROOMS[problem].trivial.partition(":")[0]:
        modules.add(f"solvers{trivial}")
    modules |= {".".join([*name.split(".")[:2], "methods"]) for name in modules}  # defaults of options
    sources = _closure(modules)
    if _SOLVE in sources or _REGISTRY in sources:
        return all_sources()
    return tuple(sorted({path for name in sources | _closure({_SOLVE}) if (path := _file(name)) is not None}))


@cache
def all_sources() -> tuple[Path, ...]:
    """Return all files of `FOLDERS`, sorted."""
    return tuple(sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")))


def users_sources(file: Path) -> tuple[Path, ...]:
    """Return the sources that a user's method is made of, sorted.

    Parameters
    ----------
    file
        That of the module which defines it: its whole package counts; outside a package, the module and the
        modules and packages beside it that it imports (not where all that is installed lies side by side).
    """
    if (file.parent / "__init__.py").is_file():
        top = file.parent
        while (top.parent / "__init__.py").is_file():
            top = top.parent
        return tuple(sorted(top.rglob("*.py")))
    if file.parent.name in ("site-packages", "dist-packages"):
        return (file,)
    sources: set[Path] = set()
    waiting = [file]
    while waiting:
        path = waiting.pop()
        if path in sources:
            continue
        sources.add(path)
        if path.suffix != ".py":  # an extension module
            continue
        for node in _statements(ast.parse(path.read_bytes())):
            names = (
                [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            )
            for name in {name.partition(".")[0] for name in names if name}:
                module, package = file.parent / f"{name}.py", file.parent / name / "__init__.py"
                waiting += [module] if module.is_file() else []
                sources |= set(users_sources(package)) if package.is_file() else set()
    return tuple(sorted(sources))


def _started(methods: Iterable[Method]) -> set[str]:
    """Return the modules of what methods of the suite run."""
    runs = (m.run if isinstance(m.run, str) else m.run.__module__ for m in methods)
    return {f"solvers.{run.partition(':')[0].lstrip('.')}" for run in runs}


def _closure(modules: Iterable[str]) -> set[str]:
    """Return modules and all that they import, by names relative to the package; not through the registry."""
    reached: set[str] = set()
    waiting = sorted(modules)
    while waiting:
        name = waiting.pop()
        if name in reached:
            continue
        reached.add(name)
        if name != _REGISTRY:
            waiting += _imports(name)
    return reached


@cache
def _imports(name: str) -> tuple[str, ...]:
    """Return the modules of `FOLDERS` that a module imports itself."""
    file = _file(name)
    if file is None:
        return ()
    package = name.split(".") if file.name == "__init__.py" else name.split(".")[:-1]
    imports = []
    for node in _statements(ast.parse(file.read_bytes())):
        imported: list[tuple[str, list[ast.alias]]]
        if isinstance(node, ast.Import):
            imported = [(alias.name.removeprefix("lowtide."), []) for alias in node.names]
        elif node.level:
            base = package[: len(package) - node.level + 1]
            imported = [(".".join([*base, *((node.module or "").split("."))]).strip("."), node.names)]
        else:
            imported = [((node.module or "").removeprefix("lowtide."), node.names)]
        for module, names in imported:
            if module.partition(".")[0] not in FOLDERS:
                continue
            inside = [f"{module}.{alias.name}" for alias in names]
            modules = [each for each in inside if _file(each) is not None]
            imports += modules
            if len(modules) < len(inside) or not inside:
                imports.append(module)
            if module.endswith(".methods") and "ROOM" in (alias.name for alias in names):
                imports += sorted(_started(import_module(f"...{module}", __package__).ROOM.methods))
    return tuple(dict.fromkeys(imports))


def _statements(tree: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield the imports that can be carried out: not those for type checkers alone."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            waiting += node.orelse
        else:
            waiting += ast.iter_child_nodes(node)


def _file(name: str) -> Path | None:
    """Return the file of a module; None if there is none."""
    path = ROOT.joinpath(*name.split("."))
    for file in (path.with_suffix(".py"), path / "__init__.py"):
        if file.is_file():
            return file
    return None
