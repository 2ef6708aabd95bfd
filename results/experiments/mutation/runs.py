"""Runs of tests in forked processes, by a server that has loaded what takes long to load.

`Server` starts it in a clone of the repository. It loads nothing of the clone itself, so each run sees the
files as they are then. A request and its answer are a line of JSON each: which files of tests, which of their
tests in which order, how many seconds of processor time each may take; what happened, and how it ended.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import importlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterator, Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import Any, TextIO

import pytest

LOADED = (
    "numpy",
    "numba",
    "pandas",
    "networkx",
    "matplotlib.figure",
    "hypothesis",
    "highspy",
    "pyomo.environ",
    "ortools.sat.python.cp_model",
)
"""Packages that most tests import: the server has them, so no run imports them again."""
COMPILED = {"kernel", "kernel_in_place", "inner"}
"""Decorators of functions that numba compiles: nothing can be inserted there."""
PLAIN = ("solvers/flows/closure_flow.py",)
"""Modules without these decorators whose functions `closure_kernel` compiles."""
ADDRESSES = 8 * 2**30
"""Bytes of addresses that a run has at most: a mutant must not take the machine's memory."""

Event = list[Any]


def blocks(node: ast.AST, inside: bool = False) -> Iterator[list[ast.stmt]]:
    """Yield the lists of statements in functions that are not compiled, outer ones first."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        if any(isinstance(name, ast.Name) and name.id in COMPILED for name in node.decorator_list):
            return
        inside = True
    if inside and not isinstance(node, ast.ClassDef):
        for field in ("body", "orelse", "finalbody"):
            if isinstance(found := getattr(node, field, None), list) and found:
                yield found
    for child in ast.iter_child_nodes(node):
        yield from blocks(child, inside)


class Server:
    """The server, as its user has it.

    Parameters
    ----------
    folder
        A clone of the repository whose name is that of the package.
    environment
        Variables of the tests.
    """

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            (sys.executable, "-P", __file__),
            cwd=folder,
            env={**environment, "OPENBLAS_NUM_THREADS": "1"},  # a process with threads must not fork
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(
        self,
        files: Sequence[str],
        words: Sequence[str],
        patience: float,
        limits: dict[str, float] | None = None,
    ) -> tuple[list[Event], str]:
        """Return the events of a run, and how it ended: ``exits``, ``hangs`` or ``crashes``.

        Parameters
        ----------
        files
            The files of tests.
        words
            More arguments of pytest.
        patience
            Seconds of wall time after which the run is stopped and hangs.
        limits
            The tests in their order with the seconds of processor time that each may take; the run ends with
            the first one that fails. None: all tests, and which blocks they reach.
        """
        request = {"files": list(files), "words": list(words), "patience": patience, "limits": limits}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        events, ended = json.loads(self._process.stdout.readline())
        return events, ended


class _ChosenTests:
    """A plugin of pytest: chooses the tests, limits each one's processor time, writes down what happens."""

    def __init__(self, report: TextIO, limits: dict[str, float] | None, seen: set[int]) -> None:
        self.report, self.limits, self.seen = report, limits, seen

    def say(self, *event: object) -> None:
        print(json.dumps(event), file=self.report, flush=True)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if self.limits is not None:
            place = {test: k for k, test in enumerate(self.limits)}
            items[:] = sorted((x for x in items if x.nodeid in place), key=lambda x: place[x.nodeid])
        self.say("collected", sorted(self.seen))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self.seen.clear()
        self.say("begins", item.nodeid)
        begun = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, (self.limits or {}).get(item.nodeid, 0))
        try:
            return (yield)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            self.say("ends", item.nodeid, round(time.process_time() - begun, 3), sorted(self.seen))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.say("fails", report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.say("fails", "at import")


class _Loader(SourceFileLoader):
    """Loads a module of the package so that each block of a function says that it is reached."""

    watch: _ChosenTests
    count = 0

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        tree = ast.parse(self.get_data(path))
        lines = []
        for block in [] if path.endswith(PLAIN) else list(blocks(tree)):
            first = block[0]
            lines.append(first.lineno)
            call = ast.parse(f"__reached__({_Loader.count})").body[0]
            for node in ast.walk(call):
                ast.copy_location(node, first)
            _Loader.count += 1
            is_text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
            block.insert(1 if is_text else 0, call)
        self.watch.say("blocks", os.path.relpath(path), lines)
        code: CodeType = compile(tree, path, "exec")
        return code


class _Finder:
    """Finds the modules of the package, for `_Loader`."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        if name.partition(".")[0] != "lowtide":
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


def _child(request: dict[str, Any], report: TextIO) -> None:
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nothing, stream)
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
    seen: set[int] = set()
    watch = _ChosenTests(report, request["limits"], seen)
    words = ["-q", "-p", "no:cacheprovider", "--tb=no"]
    if request["limits"] is None:
        builtins.__reached__ = seen.add  # type: ignore[attr-defined]
        _Loader.watch = watch
        sys.meta_path.insert(0, _Finder)
    else:
        words.append("-x")
    pytest.main([*words, *request["words"], *request["files"]], plugins=[watch])


def _run(request: dict[str, Any]) -> tuple[list[Event], str]:
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "events.jsonl"
        path.touch()
        process = os.fork()
        if not process:
            try:
                with path.open("a") as report:
                    _child(request, report)
            finally:
                os._exit(0)
        user, end = os.getppid(), time.monotonic() + request["patience"]
        while not (done := os.waitpid(process, os.WNOHANG))[0] and time.monotonic() < end:
            if os.getppid() != user:  # nobody is there to answer
                break
            time.sleep(0.02)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process, signal.SIGKILL)  # what it started goes with it
        if not done[0]:
            os.waitpid(process, 0)
        ended = {0: "exits", signal.SIGPROF: "hangs"}.get(done[1] & 0x7F, "crashes") if done[0] else "hangs"
        return [json.loads(line) for line in path.read_text().splitlines()], ended


def _serve() -> None:
    sys.path.insert(0, os.getcwd())  # as `python -m pytest` does
    for name in LOADED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    for line in sys.stdin:
        print(json.dumps(_run(json.loads(line))), flush=True)


if __name__ == "__main__":
    _serve()
