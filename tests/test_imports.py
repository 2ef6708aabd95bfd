"""What imports what: no circles, and rooms of problems use of each other what they declare."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import FrameType

import networkx as nx
import pytest

from lowtide.models.problems import PROBLEMS
from lowtide.solvers.registry import ROOMS, find_method
from tests.commands import within
from tests.package import ROOT, imported, modules, parsed


def shared() -> dict[str, set[str]]:
    """Return, by folder of a problem, the folders of others that its rooms declare."""
    found: dict[str, set[str]] = {}
    for room in ROOMS.values():
        folder = str(room.methods[0].run).split(".")[1]
        found.setdefault(folder, set()).update(room.shared)
    return found


@cache
def graph() -> nx.DiGraph[str]:
    """Return the modules, each with an arrow to every one that it imports."""
    known = modules()
    trees = ((name, ast.walk(tree)) for name, (_, tree) in parsed().items())
    arrows = [(name, other) for name, nodes in trees for other in imported(name, nodes, known)]
    found = nx.DiGraph((a, b) for a, b in arrows if a != b and b in known)
    assert len(found) > 500
    return found


def test_every_folder_of_modules_is_a_package() -> None:
    """Else import-linter sees nothing of what is in it."""
    assert [p for p in modules().values() if not (p.parent / "__init__.py").exists()] == []


@pytest.mark.slow
def test_no_circles() -> None:
    circles = [sorted(some) for some in nx.strongly_connected_components(graph()) if len(some) > 1]
    assert not circles


def test_a_room_uses_those_that_it_declares() -> None:
    rooms = shared()
    for a, b in graph().edges:
        (_, one, *_), (_, other, *_) = (*a.split("."), "", ""), (*b.split("."), "", "")
        if a.startswith("solvers.") and b.startswith("solvers.") and one in rooms and other in rooms:
            assert other == one or other in rooms[one], f"{a} imports {b}"


def test_the_contract_of_rooms_is_what_they_declare() -> None:
    table = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (contract,) = (c for c in table if c["type"] == "independence")
    rooms, home = shared(), "lowtide.solvers"
    assert contract["modules"] == [f"{home}.{name}" for name in sorted(rooms)]
    declared = {f"{home}.{a}.** -> {home}.{b}.**" for a, some in rooms.items() for b in some}
    assert set(contract["ignore_imports"]) - declared == {f"{home}.registry -> {home}.*.methods"}


WALK = (
    "cli.solve",
    "instances.problems",
    "models.problems.peak",
    "solvers.solve",
    "solvers.registry",
    "solvers.peak.methods",
    "solvers.peak.auto",
    "solvers.peak.series_parallel.dominant",
)
"""What a reader of `lowtide solve peak` opens, from the command line to the first line of an algorithm."""


def test_the_walk_of_a_solve(tmp_path: Path) -> None:
    """What a solve calls: in the order of the walk, and nothing of another problem."""
    run = ("solve", "peak", "catalogue:harpoon", "--quiet")
    assert within(*run, cwd=tmp_path).returncode == 0  # what is imported is imported now
    find_method.__globals__["registered"].cache_clear()
    called: dict[str, None] = {}
    names = {str(path): name for name, path in modules().items()}

    def note(frame: FrameType, event: str, arg: object) -> None:
        if event == "call" and (name := names.get(frame.f_code.co_filename)) is not None:
            called.setdefault(name)

    sys.setprofile(note)
    try:
        within(*run, cwd=tmp_path)
    finally:
        sys.setprofile(None)
    assert len(WALK) <= 9
    tables = ("solvers.registry", "solvers.peak.methods")  # asked before, and without a function
    expected = [name for name in WALK if name not in tables]
    assert [name for name in called if name in expected] == expected
    others = (shared().keys() | PROBLEMS.keys()) - {"peak"}
    deeper = {name for name in called if not name.startswith("cli.")}  # the parser has the flags of all verbs
    strangers = {name for name in deeper if others & set(name.split("."))}
    assert not strangers


def named_in(tree: ast.Module) -> Iterator[str]:
    """Yield the modules that imports, and programs in strings, name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            base = node.module or ""
            yield from (base, *(f"{base}.{alias.name}" for alias in node.names))
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from re.findall(r"\btests\.[\w.]+", node.value)


@pytest.mark.slow
def test_no_test_file_is_imported() -> None:
    """What test files share stands in modules of its own beside them."""
    own = Path(__file__).parent
    files = {path.relative_to(own).with_suffix("").as_posix(): path for path in own.rglob("*.py")}
    tests = {f"tests.{name.replace('/', '.')}" for name in files if Path(name).name.startswith("test_")}
    assert len(tests) > 300
    for name, path in files.items():
        # `tests.a.test_b.some_helper` names a test file too, and so does `.test_b`
        found = {
            ".".join(module.split(".")[:k])
            for module in named_in(ast.parse(path.read_bytes()))
            for k in range(1, module.count(".") + 2)
        }
        assert not [x for x in found if x in tests or x.startswith("test_")], name
