"""Measured graphs and machines: what the files hold, and that plans of them run."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import lowtide as lt
from lowtide.instances import load_plan
from lowtide.instances.torch_import.measure import main, op_by_op
from lowtide.models.measurement import Measurement

torch = pytest.importorskip("torch", reason="the package torch is not installed")
torch.set_num_threads(1)  # threads that wait for each other on busy cores take minutes

from lowtide.instances.torch_import.running.__main__ import main as run  # noqa: E402  (needs torch)

MODEL = "resnet18?image=32&batch=2"


@pytest.mark.slow  # a network is traced and run several times
def test_measured_files_load_solve_and_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([MODEL, "--repeat", "2", "--out", str(tmp_path), "--cap", "1GiB"]) == 0
    paths = capsys.readouterr().out.split()
    assert [Path(path).name for path in paths] == [
        "machine.toml",
        "resnet18-image32-batch2-train-weights.json.gz",
    ]
    machine, graph = lt.load_machine(paths[0]), lt.load(paths[1])
    traced = lt.load(f"torch:{MODEL}&train=1&weights=1")
    assert graph.tensors == traced.tensors
    assert [(op.reads, op.writes) for op in graph.ops] == [(op.reads, op.writes) for op in traced.ops]
    assert [op.duration_ns for op in graph.ops] != [op.duration_ns for op in traced.ops]
    assert traced.states_work
    assert not graph.states_work  # no duration of another device takes the place of what was measured
    found = Measurement(**graph.provenance["measured"])
    assert found.repetitions == 2
    assert found.versions["torch"] == torch.__version__
    assert machine.provenance is not None
    assert machine.provenance.device == found.device
    assert len(machine.provenance.transfers) == 10
    assert [tier.capacity for tier in machine.tiers] == [2**30, None]
    peak = lt.verify(graph, lt.Plan.from_order(graph, range(len(graph.ops)))).peaks["memory"]
    small = lt.load_machine(paths[0], {"device": int(0.9 * peak)})
    result = lt.solve(lt.Placement(graph, small, whole=True), "planner")
    lt.save(result, tmp_path / "plan.json")
    assert load_plan(tmp_path / "plan.json")[0].copies
    assert run([str(tmp_path / "plan.json")]) == 0
    assert "memory at every instant: as predicted" in capsys.readouterr().out


@pytest.mark.slow
def test_a_cap_below_the_peak_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([MODEL, "--repeat", "1", "--out", str(tmp_path), "--cap", "60MB"]) == 0
    graph = lt.load(capsys.readouterr().out.split()[1])
    verdict = lt.verify(graph, op_by_op(graph))
    assert verdict.valid
    largest = max(sum(graph.tensors[t].nbytes for t in {*op.reads, *op.writes}) for op in graph.ops)
    assert verdict.peaks["device"] == largest < 60e6


NET = """
import torch
from torch import nn
from beside import WIDTH

def step():
    module = nn.Sequential(nn.Linear(8, WIDTH), nn.ReLU(), nn.Dropout(0.5), nn.Linear(WIDTH, 4))
    return module, torch.randn(5, 8), torch.zeros(5, dtype=torch.int64), nn.functional.cross_entropy

def inference():
    return nn.Linear(8, 16), torch.randn(5, 8)

def three():
    return 1, 2, 3

def broken():
    raise KeyError("weights")
"""


@pytest.fixture
def net(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the path of a file with functions that make modules."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net_of_user.py").write_text(NET)
    (tmp_path / "beside.py").write_text("WIDTH = 16")
    return "net_of_user.py"


@pytest.mark.slow  # modules are traced and run several times
def test_a_module_of_the_user_is_measured_and_its_plan_run(
    net: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([f"{net}:step?optimizer=adamw", f"{net}:inference", "--repeat", "1", "--out", "out"]) == 0
    assert capsys.readouterr().out.split() == [
        "out/machine.toml",
        "out/step.json.gz",
        "out/inference.json.gz",
    ]
    graph = lt.load("out/step.json.gz")
    assert graph.durations == "measured"
    assert graph.provenance["module"] == f"{net}:step?optimizer=adamw"
    assert sum(t.nbytes for t in graph.tensors if t.kind == "weight") == 4 * (8 * 16 + 16 + 16 * 4 + 4)
    assert len([op for op in graph.ops if op.kind == "adamw"]) == 4
    machine = lt.load_machine("out/machine.toml", {"device": 2 * sum(t.nbytes for t in graph.tensors)})
    lt.save(lt.solve(lt.Placement(graph, machine, whole=True), "demand-lru"), "plan.json")
    for words in ([f"{net}:step?optimizer=adamw"], ["net_of_user:step?optimizer=adamw", "--seed", "3"]):
        assert run(["plan.json", "--module", *words]) == 0
        text = capsys.readouterr().out
        assert "memory at every instant: as predicted" in text
        assert "bit by bit those of the eager step" in text
    for words, said in (
        ([], f"found a plan for a module, expected --module {net}:step?optimizer=adamw"),
        (["--module", f"{net}:inference"], "found other tensors than the recorded step 'inference' has"),
        (["--module", f"{net}:step"], "the recorded step 'step' has"),  # the optimizer is another
        (["--module", "step"], "found 'step', expected FILE.py:FUNCTION"),
    ):
        assert run(["plan.json", *words]) == 2
        assert said in capsys.readouterr().err
    for words, said in (
        ([f"{net}:three"], "returns 3 values, expected a tuple (module, inputs)"),
        ([f"{net}:broken"], "found KeyError ('weights') in its code, expected a function that runs"),
    ):
        assert main([*words, "--repeat", "1"]) == 2
        assert said in capsys.readouterr().err


def test_functions_that_are_not_there_are_refused(net: str, capsys: pytest.CaptureFixture[str]) -> None:
    for words, said in (
        ([f"{net}:nothing"], "found no function 'nothing' in net_of_user.py"),
        (["other.py:step"], "found no file other.py"),
        (["net_of_others:step"], "found no module 'net_of_others', expected package.module:function on"),
        ([f"{net}:step?optimizer=sgdd"], 'option optimizer: found "sgdd"'),
        ([f"{net}:step", "--batch", "3"], "--batch: found it with"),
    ):
        assert main([*words, "--repeat", "1"]) == 2
        assert said in capsys.readouterr().err


def test_refusals(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is measured, so that no file is left behind."""
    monkeypatch.chdir(tmp_path)
    for words, said in (
        (["catalogue:diamond"], "expected a network of torch:"),
        (["resnet18", "--repeat", "0"], "--repeat: found 0"),
        (["resnet18", "--seed", "-1"], "--seed: found -1"),
        (["resnet18", "resnet19"], "found unknown network 'resnet19'"),
        *(
            []
            if torch.cuda.is_available()
            else [(["resnet18", "--device", "cuda"], "torch sees no CUDA device")]
        ),
    ):
        assert main([*words, "--repeat", "1"] if "--repeat" not in words else words) == 2
        assert said in capsys.readouterr().err
        assert list(tmp_path.iterdir()) == []
