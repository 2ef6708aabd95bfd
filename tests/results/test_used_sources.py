"""The sources that name a run: all that a method imports when it runs, and nothing of other problems."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lowtide.models.problems import PROBLEMS
from lowtide.results.sweeps import runspec, used_sources
from lowtide.results.sweeps.runspec import source_hash
from lowtide.results.sweeps.used_sources import users_sources

ASKED = {
    "peak": "gen:randwire?n=20&seed=1",
    "offsets": "gen:randwire?n=12&seed=1",
    "arena": "gen:randwire?n=12&seed=1",
    "placement": "gen:chain?n=6&seed=1&machine=v100-16g-pcie3&start=gpu&device=60B",
    "streams": "gen:layered?layers=3&width=3&seed=1",
    "partition": "gen:layered?layers=3&width=3&seed=1&processors=2",
    "hybrid": "gen:layered?layers=3&width=3&seed=1&processors=2&micro=2",
    "makespan": "gen:tasks?n=12&cores=2&processors=2&memory=120",
    "distributed": "gen:tasks?n=12&cores=2&machine=v100x4-16g-nvlink&processors=2",
    "parallel-memory": "gen:layered?layers=3&width=3&seed=1",
    "memory-edges": "gen:layered?layers=3&width=3&seed=1&bound=60",
    "recompute": "gen:backprop-chain?l=4&forward=1&backward=1&accounting=replace&memory=4",
    "minio": "catalogue:harpoon?memory=13",
    "sharding": "catalogue:iopddl/example",
    "pipeline": "gen:stages?p=2&m=4&memory=2",
    "tiles": "catalogue:mlsys2026/1",
}

SOLVE = """
import json, sys
import lowtide as lt
from lowtide.instances import load_problem
from lowtide.solvers.registry import methods
problem = load_problem(*sys.argv[1:3])
tables = set(sys.modules)
tried = []
for method in methods():
    if method.problem == sys.argv[1]:
        try:
            tried.append(str(lt.solve(problem, method.name, threads=1, time_limit=2).status))
        except lt.LowtideError as error:
            tried.append(str(error))
files = [getattr(module, "__file__", None) for name, module in sys.modules.items() if name not in tables]
print(json.dumps([[file for file in files if file], tried]))
"""


def test_every_problem_is_asked() -> None:
    assert set(ASKED) == set(PROBLEMS)


@pytest.mark.slow
@pytest.mark.parametrize("problem", PROBLEMS)
def test_all_that_methods_import_counts(problem: str) -> None:
    command = [sys.executable, "-c", SOLVE, problem, ASKED[problem]]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    files, tried = json.loads(done.stdout)
    assert {"optimal", "feasible"} & {*tried}, tried
    loaded = {Path(file).resolve() for file in files}
    ours = {path.resolve() for path in used_sources.all_sources()}
    used = {path.resolve() for path in used_sources.used_sources(problem)}
    new = {path for path in loaded & ours if path.name != "__init__.py"}
    assert new
    assert new <= used, sorted(new - used)


@pytest.mark.slow
def test_what_other_problems_use_does_not_count() -> None:
    peak = {path.relative_to(used_sources.ROOT).as_posix() for path in used_sources.used_sources("peak")}
    assert {
        "solvers/solve.py",
        "solvers/peak/auto.py",
        "models/verifier/verify.py",
        "models/graph.py",
    } <= peak
    assert "solvers/engines/cpsat.py" in peak
    assert not {path for path in peak if re.match(r"(solvers|formulations)/(minio|placement)", path)}
    minio = {path.relative_to(used_sources.ROOT).as_posix() for path in used_sources.used_sources("minio")}
    assert "solvers/minio/rules.py" in minio
    assert "solvers/peak/auto.py" in minio
    assert not {path for path in minio if re.match(r"(solvers|formulations)/(placement|offsets)", path)}


@pytest.mark.slow
def test_a_docstring_elsewhere_renames_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in used_sources.FOLDERS:
        shutil.copytree(
            used_sources.ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__")
        )

    def hashes() -> dict[str, str]:
        for cached in (used_sources.used_sources, used_sources.all_sources, used_sources._imports):
            cached.cache_clear()
        runspec._hash_of.cache_clear()
        return {problem: source_hash(problem, "auto") for problem in ("peak", "minio")}

    monkeypatch.setattr(used_sources, "ROOT", tmp_path)
    monkeypatch.setattr(runspec, "ROOT", tmp_path)
    before = hashes()
    changes = {
        "solvers/minio/rules.py": {"minio"},
        "solvers/peak/auto.py": {"peak", "minio"},
        "solvers/peak/methods.py": {"peak", "minio"},  # where defaults of options are
        "models/verifier/verify.py": {"peak", "minio"},
        "formulations/peak/olla_milp.py": {"peak", "minio"},
        "formulations/minio/order_milp.py": {"minio"},
    }
    for name, renamed in changes.items():
        path = tmp_path / name
        path.write_text(path.read_text() + "\n# a remark\n")
        after = hashes()
        assert {problem for problem in after if after[problem] != before[problem]} == renamed, name
        before = after
    monkeypatch.undo()
    hashes()


def test_sources_of_a_user_are_the_package_or_the_modules_beside(tmp_path: Path) -> None:
    texts = {
        "mine/__init__.py": "",
        "mine/order.py": "from .helper import f",
        "mine/deep/__init__.py": "",
        "mine/deep/other.py": "",
        "alone.py": "import json\nimport beside\nfrom mine.deep import other",
        "beside.py": "import further",
        "further.py": "import alone",
        "unused.py": "",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)

    def found(name: str) -> set[str]:
        return {path.relative_to(tmp_path).as_posix() for path in users_sources(tmp_path / name)}

    package = {name for name in texts if name.startswith("mine/")}
    assert found("mine/deep/other.py") == package
    assert found("alone.py") == {"alone.py", "beside.py", "further.py"} | package
