"""The command line as a subprocess, and users' methods as a distribution that only the test has."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from lowtide.__main__ import main

METHODS = '''
"""Methods of a user."""
import sys
import time

from lowtide.solvers.context import Outcome


def backwards(problem, context):
    """As late as possible."""
    from lowtide.models.derived.precedence import precedence
    after, order = precedence(problem.graph).successors, []
    while len(order) < len(after):
        order.append(next(i for i in reversed(range(len(after)))
                          if i not in order and all(j in order for j in after[i])))
    return order[::-1]


def patient(problem, context):
    """Offers the reference order, then waits."""
    context.offer(range(len(problem.graph.ops)))
    empty_handed(problem, context)


def empty_handed(problem, context):
    """Waits for nothing."""
    print("ready", file=sys.stderr, flush=True)
    time.sleep(600)


def crash(problem, context):
    """Raises."""
    raise ValueError("no such luck")


def wrong(problem, context):
    """Returns an order that breaks the precedence."""
    return list(reversed(range(len(problem.graph.ops))))


def boastful(problem, context):
    """Claims a bound above its own answer."""
    context.raise_bound(10**9)
    return range(len(problem.graph.ops))


def gives_up(problem, context):
    """Finds nothing."""


def chatty(problem, context):
    """Writes what it thinks to standard output, as C libraries do."""
    import ctypes
    import os
    ctypes.CDLL(None).printf(b"held back until the process ends\\n")
    os.write(1, b"at once\\n")
    return range(len(problem.graph.ops))


def impossible(problem, context):
    """Claims that there is no plan."""
    return Outcome(infeasible=True)
'''


def lowtide(
    *arguments: str | Path, cwd: Path, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder."""
    return subprocess.run(
        command(*arguments),
        cwd=cwd,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def within(
    *arguments: str | Path, cwd: Path, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder, in this process."""
    assert env is None
    words, out, err = [*map(str, arguments)], io.StringIO(), io.StringIO()
    with contextlib.chdir(cwd), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(words)
    return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())


def command(*arguments: str | Path) -> list[str]:
    """Return the words of a command."""
    return [sys.executable, "-m", "lowtide", *map(str, arguments)]


def answer(
    *arguments: str | Path, cwd: Path, env: Mapping[str, str] | None = None, status: int = 0
) -> dict[str, Any]:
    """Run a command with ``--json`` and return the object that it prints.

    Without an environment of its own it runs in this process: there are many, and a new one takes a while.
    """
    run = within if env is None else lowtide
    done = run(*arguments, "--json", cwd=cwd, env=env)
    assert done.returncode == status, done.stderr
    assert done.stdout.count("\n") == 1
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


def refused(
    *arguments: str | Path,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    run: Callable[..., subprocess.CompletedProcess[str]] | None = None,
) -> str:
    """Run a command that must be refused; return its line, having checked that it is all that happened.

    Without an environment of its own it runs in this process, unless `run` is another way.
    """
    before = contents(cwd)
    run = run or (within if env is None else lowtide)
    done = run(*arguments, cwd=cwd, env=env)
    assert done.returncode == 2, (done.returncode, done.stdout, done.stderr)
    assert done.stdout == ""
    error = without_progress(done.stderr)
    assert error.startswith("lowtide: error: "), done.stderr
    assert error.count("\n") == 1, done.stderr
    assert contents(cwd) == before
    return error.removeprefix("lowtide: error: ").rstrip()


def without_progress(text: str) -> str:
    """Return what was said on standard error but for the progress, which a slow machine shows."""
    return re.sub(r"^lowtide: +[\d.]+ s  .*\n", "", text, flags=re.MULTILINE)


def contents(folder: Path) -> dict[str, bytes | None]:
    """Return every file under a folder with its bytes (None for folders)."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


def users_methods(folder: Path, source: str = METHODS) -> dict[str, str]:
    """Make a distribution with a module's methods; return the environment in which it is installed."""
    info = folder / "user_methods-1.0.dist-info"
    info.mkdir(parents=True)
    (folder / "user_methods.py").write_text(source)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: user-methods\nVersion: 1.0\n")
    names = [line.split("(")[0].removeprefix("def ") for line in source.splitlines() if line[:4] == "def "]
    lines = [f"user-{name} = user_methods:{name}" for name in names]
    (info / "entry_points.txt").write_text("\n".join(["[lowtide.methods]", *lines, ""]))
    return {"PYTHONPATH": str(folder)}
