"""Kernels: types from annotations, kept where and under which name, compiled before the clock starts."""

from __future__ import annotations

import ast
import importlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numba
import numpy as np
import pytest
from numba.core import event, types
from numpy.typing import NDArray

import lowtide as lt
from lowtide.solvers import solve as solve_module
from lowtide.solvers.context import Context
from lowtide.solvers.engines import compilation, kernels
from lowtide.solvers.engines.compilation import compile_all
from lowtide.solvers.engines.kernels import inner, kernel, kernel_in_place, record, signature_of
from lowtide.solvers.registry import METHODS
from tests.problems.placement import machine, random_graph, working_set

SOLVERS = Path(solve_module.__file__).parent
needs_compiler = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="numba does not compile")


class Pair(NamedTuple):
    many: NDArray[np.int32]
    one: float


ROW = record(many="bytes", one="ns")


def test_types_are_those_of_the_annotations() -> None:
    def f(
        a: int,
        b: bool,
        c: NDArray[np.int64],
        d: Annotated[NDArray[np.uint64], 2],
        e: Annotated[Any, NDArray[np.int64]],
        g: Pair,
        h: tuple[int, NDArray[np.bool_]],
        k: Annotated[Any, ROW],
    ) -> None: ...

    vector = types.Array(types.int64, 1, "C")
    assert signature_of(f) == (
        types.int64,
        types.boolean,
        vector,
        types.Array(types.uint64, 2, "C"),
        vector,
        numba.typeof(Pair(np.zeros(1, np.int32), 1.0)),
        numba.typeof((1, np.zeros(1, np.bool_))),
        numba.typeof(np.zeros(1, ROW)),
    )


@needs_compiler
def test_rows_are_changed_by_name_in_kernels_as_in_plain_python() -> None:
    @kernel_in_place
    def add(rows: Annotated[Any, ROW], more: int) -> int:
        last = rows[len(rows) - 1]
        last.many += more
        return int(last.many - rows[0].one)

    for function in (add, add.py_func):
        rows = np.zeros(2, ROW)
        rows["one"] = 5
        assert (function(rows, 7), rows["many"].tolist()) == (2, [0, 7])
    with pytest.raises(ValueError, match=r"found fields \['size', 'nbytes'\]"):
        record(one="", size="", nbytes="")


def test_what_cannot_be_compiled_ahead_is_refused() -> None:
    def bare(a, b: int) -> None: ...  # type: ignore[no-untyped-def]

    def text(a: str) -> None: ...

    with pytest.raises(TypeError, match=r"no annotation of \['a'\]"):
        signature_of(bare)
    with pytest.raises(TypeError, match="argument of type <class 'str'>"):
        signature_of(text)


@needs_compiler
def test_inner_functions_are_plain_from_python_and_compiled_in_kernels() -> None:
    @inner
    def twice(a: int) -> int:
        return 2 * a

    @kernel
    def thrice(a: int) -> int:
        return int(twice(a)) + a

    assert (twice(5), thrice(5), thrice.py_func(5)) == (10, 15, 15)
    assert not twice.nopython_signatures or thrice.signatures  # compiled for the kernel alone


@cache
def imported_files(file: Path) -> set[Path]:
    """Return the files that a file of the package imports relatively, in functions too."""
    found: set[Path] = set()
    absent: list[ast.stmt] = []  # what is imported for type checkers is not there when it runs
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            absent += node.body
        if isinstance(node, ast.ImportFrom) and node.level and node not in absent:
            base = file.parents[node.level - 1].joinpath(*(node.module or "").split("."))
            found |= {base.with_suffix(".py"), *(base / f"{alias.name}.py" for alias in node.names)}
    return {path for path in found if path.exists()}


def reached(start: Path) -> set[Path]:
    """Return what is imported from a file on; not beyond `solve`, which prepares what it calls."""
    found, waiting = {start}, [start]
    while waiting:
        for path in imported_files(waiting.pop()):
            if path not in found and path.name not in ("solve.py", "registry.py"):
                found.add(path)
                waiting.append(path)
    return found


def with_kernels(files: set[Path]) -> set[str]:
    """Return the modules that have kernels, not only what kernels call."""
    here = Path(kernels.__file__)
    some = [
        path
        for path in files
        if here in imported_files(path) and re.search(r"^(@|\w+ = )kernel", path.read_text("utf-8"), re.M)
    ]
    return {"." + ".".join(path.relative_to(SOLVERS).with_suffix("").parts) for path in some}


@pytest.mark.parametrize("method", METHODS, ids=lambda m: f"{m.problem}-{m.name}")
def test_methods_name_the_kernels_that_they_can_reach(method: Any) -> None:
    module = method.run.partition(":")[0].strip(".").split(".")
    assert set(method.kernels) == with_kernels(reached(SOLVERS.joinpath(*module).with_suffix(".py")))


def test_every_kernel_is_named_by_a_method() -> None:
    named = {name for method in METHODS for name in method.kernels}
    assert named == with_kernels(set(SOLVERS.rglob("*.py")))


def test_kernels_take_functions_and_constants_from_files_with_kernels_alone() -> None:
    """The name of the folder knows no change in other files; types are told by numba."""
    for file in SOLVERS.rglob("*_kernel.py"):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ImportFrom) and node.level:
                base = file.parents[node.level - 1].joinpath(*(node.module or "").split("."))
                source = base.with_suffix(".py")
                if source.exists() and Path(kernels.__file__) not in imported_files(source):
                    module = importlib.import_module(
                        "lowtide." + ".".join(source.relative_to(SOLVERS.parent).with_suffix("").parts)
                    )
                    taken = [getattr(module, alias.name) for alias in node.names]
                    assert not any(isinstance(item, int) or is_called(file, item) for item in taken), file


def is_called(file: Path, item: object) -> bool:
    """Return whether a plain function is called by a compiled one of a file (others may prepare arrays)."""
    if not isinstance(item, type(is_called)):
        return False
    module = importlib.import_module(
        "lowtide." + ".".join(file.relative_to(SOLVERS.parent).with_suffix("").parts)
    )
    compiled = [f.py_func for f in vars(module).values() if hasattr(f, "py_func")]
    return any(item.__name__ in f.__code__.co_names for f in compiled)


@pytest.fixture
def compilations() -> Iterator[list[str]]:
    """Yield the names of the functions that numba compiles."""
    names: list[str] = []

    class Listener(event.Listener):  # type: ignore[misc]
        def on_start(self, event: Any) -> None:
            names.append(str(event.data["dispatcher"]))

        def on_end(self, event: Any) -> None: ...

    listener = Listener()
    event.register("numba:compile", listener)
    yield names
    event.unregister("numba:compile", listener)


def questions() -> Iterator[tuple[lt.Problem, str]]:
    """Yield questions that take each problem's methods into their kernels, if the limit lets them."""
    wired, tree = lt.load("catalogue:randwire-40-0"), lt.load("catalogue:intree-50")
    for method in ("auto", "local-search", "beam"):
        yield lt.Peak(wired), method
    for graph in (wired, tree):
        memory = lt.solve(lt.Peak(graph), "greedy").objective or 0
        yield lt.Makespan(graph, 3, memory * 5 // 4), "auto"
        yield lt.Makespan(graph, 3, memory * 5 // 4), "lns"
        yield lt.MemoryEdges(graph, memory), "max-size"
        yield lt.Recompute(graph, memory * 9 // 10), "auto"
    network = random_graph(1)
    for name in ("auto", "local-search", "belady", "g10"):
        bench = machine(working_set(network) + 8, [None, 10][name == "auto"], latency=700)
        yield lt.Placement(network, bench, periodic=True), name
    small = lt.load("catalogue:randwire-20-0")
    for method in ("label-setting", "two-way-labels"):
        yield lt.Makespan(lt.load("gen:intree?n=14&seed=1"), 3, 10**6), method
    plan = lt.solve(lt.Peak(small), "greedy").plan
    assert plan is not None
    buffers = lt.Offsets.from_plan(small, plan)
    for method in ("auto", "search", "local-search"):
        yield buffers, method


@needs_compiler
@pytest.mark.slow(reason="compiles what does not lie on disk")
def test_after_compile_all_nothing_is_compiled(compilations: list[str]) -> None:
    done = compile_all()
    assert not set(done.present) & {name for name, _ in done.compiled}
    assert not compile_all().compiled
    compilations.clear()
    for problem, method in questions():
        result = lt.solve(problem, method, threads=1, time_limit=1.0)
        assert result.status is not lt.Status.FAILED
        assert not compilations, (problem.name, method)


def test_what_is_compiled_first_takes_nothing_of_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    def prepared(modules: Any, *, progress: Callable[[str], None]) -> None:
        assert modules
        progress("compiling 3 kernels (once)")

    def begun(**known: Any) -> Context:
        done.append("the clock runs")
        return Context(**known)

    monkeypatch.setattr(compilation, "prepare", prepared)
    monkeypatch.setattr(solve_module, "Context", begun)
    result = lt.solve(lt.Peak(lt.load("catalogue:diamond")), "downsets", progress=done.append)
    assert result.status is lt.Status.OPTIMAL
    assert done[:2] == ["compiling 3 kernels (once)", "the clock runs"]


FILES = {
    "base.py": "from .engines.kernels import inner\n",
    "first.py": "from .engines.kernels import kernel\nfrom .base import half\nfrom . import plain\n",
    "second.py": "from .engines.kernels import kernel\n",
    "plain.py": "",
    "engines/kernels.py": "",
}


def test_a_change_in_a_file_with_kernels_is_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "engines").mkdir()
    monkeypatch.setattr(kernels, "__file__", str(tmp_path / "engines/kernels.py"))

    def folders(changed: str) -> tuple[Path, Path]:
        for name, text in FILES.items():
            (tmp_path / name).write_text(text + ("# changed\n" if name == changed else ""), encoding="utf-8")
        for known in (kernels._imported, kernels._sources, kernels._folder):
            known.cache_clear()
        return kernels._folder(tmp_path / "first.py"), kernels._folder(tmp_path / "second.py")

    first, second = folders("")
    assert first.parent == second.parent
    assert first.name.startswith("first-")
    elsewhere = tmp_path / "elsewhere" / "second.py"
    elsewhere.parent.mkdir()
    elsewhere.write_text(FILES["second.py"], encoding="utf-8")
    assert kernels._folder(elsewhere) != second
    assert folders("base.py")[0] != first
    assert folders("base.py")[1] == second
    assert folders("second.py")[0] == first
    assert folders("second.py")[1] != second
    assert folders("plain.py") == (first, second)


def test_the_folder_is_the_one_that_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOWTIDE_CACHE_DIR", raising=False)
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    if sys.platform.startswith("linux"):
        assert kernels.cache_folder() == tmp_path / "user/lowtide/kernels"
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "numba"))
    assert kernels.cache_folder() == tmp_path / "numba/kernels"
    monkeypatch.setenv("LOWTIDE_CACHE_DIR", str(tmp_path / "own"))
    assert kernels.cache_folder() == tmp_path / "own/kernels"


SMALL = (".makespan.bounds.chain_kernel", ".recompute.chains.hetero")
"""They compile fastest."""

PREPARE = f"""
import json
from lowtide.solvers.engines.compilation import prepare
names = [[name for name, _ in prepare({SMALL[:1]}).compiled] for _ in range(2)]
print(json.dumps(names))
"""

LOADED = f"""
import json
from lowtide.solvers.engines.kernels import compile_kernel, is_kept, kernels_of
(kernel,) = kernels_of("{SMALL[0]}")
compile_kernel(kernel)
print(json.dumps(is_kept(kernel)))
"""

INTERRUPTED = f"""
import json, subprocess
from lowtide.solvers.engines.compilation import prepare
started, Popen = [], subprocess.Popen

def popen(*words, **options):
    started.append(Popen(*words, **options))
    return started[-1]

def interrupt(line):
    if line.startswith("compiled"):
        raise KeyboardInterrupt

subprocess.Popen = popen
try:
    prepare({SMALL}, jobs=2, progress=interrupt)
except KeyboardInterrupt:
    print(json.dumps([process.poll() for process in started]))
"""


def python(code: str, folder: Path) -> subprocess.Popen[str]:
    environment = {**os.environ, "LOWTIDE_CACHE_DIR": str(folder)}
    return subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True)


def printed(process: subprocess.Popen[str]) -> Any:
    text, _ = process.communicate()
    assert process.returncode == 0
    return json.loads(text)


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("ending", ["nbi", "nbc"])
def test_what_is_damaged_is_compiled_anew(tmp_path: Path, ending: str) -> None:
    """As after a full disk; or from a version of the package whose modules had other names."""
    assert printed(python(PREPARE, tmp_path)) == [["chain_kernel.chain_lengths"], []]
    (kept,) = tmp_path.rglob(f"*.{ending}")
    kept.write_bytes(kept.read_bytes()[:-100])
    assert printed(python(LOADED, tmp_path)) is True
    assert printed(python(PREPARE, tmp_path)) == [[], []]


@pytest.mark.slow
@needs_compiler
def test_of_two_processes_one_compiles(tmp_path: Path) -> None:
    processes = [python(PREPARE, tmp_path) for _ in range(2)]
    first, second = (printed(process) for process in processes)
    assert sorted(first + second) == [[], [], [], ["chain_kernel.chain_lengths"]]
    assert printed(python(PREPARE, tmp_path)) == [[], []]


@needs_compiler
@pytest.mark.slow
def test_where_nothing_can_be_kept_a_process_compiles_for_itself(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert printed(python(PREPARE, tmp_path / "file/folder")) == [["chain_kernel.chain_lengths"], []]


@needs_compiler
@pytest.mark.slow
def test_ctrl_c_ends_the_processes_that_compile(tmp_path: Path) -> None:
    assert None not in printed(python(INTERRUPTED, tmp_path))
