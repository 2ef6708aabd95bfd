"""CP-SAT and HiGHS in one process, and a real Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

BOTH = """
import lowtide as lt
problem = lt.Peak(lt.load("gen:randwire?n=10&seed=1"))
for method in ({first!r}, {second!r}, {first!r}):
    result = lt.solve(problem, method, threads=1)
    print(method, result.status, result.objective, result.bound)
"""

INTERRUPTED = """
import json, sys
import lowtide as lt
problem = lt.Peak(lt.load({spec!r}))
result = lt.solve(problem, {method!r}, threads=1, time_limit=None, progress=lambda x: print(x, flush=True))
print(json.dumps(result.record()))
"""


@pytest.mark.slow
@pytest.mark.parametrize(("first", "second"), [("cpsat", "milp"), ("milp", "cpsat")])
def test_both_engines_solve_in_one_process(first: str, second: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BOTH.format(first=first, second=second)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    )
    assert done.stdout.split("\n")[:3] == [f"{m} optimal 106 106" for m in (first, second, first)]
    assert done.stderr == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "spec"), [("cpsat", "gen:randwire?n=120&seed=0"), ("milp", "gen:randwire?n=30&seed=0")]
)
def test_ctrl_c_returns_the_incumbent_and_the_bound(method: str, spec: str, tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED.format(method=method, spec=spec)],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert process.stdout is not None
    for line in process.stdout:
        if "built in" in line:
            break
    os.kill(process.pid, signal.SIGINT)
    out, errors = process.communicate(timeout=600)
    assert (process.returncode, errors) == (0, "")
    record = json.loads(out.strip().splitlines()[-1])
    assert (record["status"], record["reason"], record["verified"]) == ("feasible", "interrupted", True)
    assert 0 < record["bound"] < record["objective"]
