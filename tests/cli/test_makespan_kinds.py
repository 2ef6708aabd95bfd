"""``lowtide solve makespan … --processors cpu=2,gpu=1``: plans, the same in specifications, errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lowtide import Graph, Mode, Op
from lowtide.instances import save
from tests.commands import answer, refused, within

MODES = (Mode(duration_ns=9, processors=("cpu",)), Mode(duration_ns=2, workspace=6, processors=("gpu",)))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with ten equal tasks for two kinds of processors."""
    save(
        Graph(name="ten", tensors=(), ops=tuple(Op(name=f"op{i}", modes=MODES) for i in range(10))),
        tmp_path / "g.json",
    )
    return tmp_path


@pytest.mark.slow
def test_option_and_specification_ask_the_same(folder: Path) -> None:
    words = ("--threads", "1", "--plan", "plan.json")
    record = answer(
        "solve", "makespan", "g.json", "--processors", "cpu=2,gpu=1", "--memory", "6", *words, cwd=folder
    )
    assert (record["status"], record["objective"], record["verified"]) == ("optimal", 16, True)
    assert record["instance"] == "ten on 2 cpu and 1 gpu processors, 6 bytes"
    verdict = answer("verify", "plan.json", cwd=folder)
    assert (verdict["makespan"], verdict["peaks"]) == (16, {"memory": 6})
    used = {run["processor"] for run in json.loads((folder / "plan.json").read_text())["runs"]}
    assert used == {"cpu-0", "cpu-1", "gpu-0"}
    again = answer(
        "solve", "makespan", "g.json?processors=cpu=2+gpu=1&memory=6", "--threads", "1", cwd=folder
    )
    assert (again["instance"], again["objective"]) == (record["instance"], 16)
    less = answer("solve", "makespan", "g.json?processors=cpu=2+gpu=1&memory=5", "--threads", "1", cwd=folder)
    assert less["objective"] == 45


@pytest.mark.parametrize(
    ("problem", "processors", "message"),
    [
        ("makespan", "cpu=2,npu=1", "found kind 'npu', on which no op can run, expected one of cpu, gpu"),
        ("makespan", "3", "found no processor that can run it (3 of kind any)"),
        ("makespan", "cpu=0", "processors of kind 'cpu': found 0, expected an integer >= 1"),
        (
            "makespan",
            "cpu",
            "found 'cpu', expected an integer >= 1, or kinds with counts such as cpu=4,gpu=1",
        ),
        ("parallel-memory", "cpu=2", "found 'cpu=2', expected an integer >= 1"),
    ],
)
def test_wrong_processors_are_refused(problem: str, processors: str, message: str, folder: Path) -> None:
    assert message in refused("solve", problem, "g.json", "--processors", processors, cwd=folder, run=within)
