"""From an experiment's file to its runs; every mistake in one go, with its line."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from lowtide import load
from lowtide.instances import write_graph
from lowtide.models.errors import InstanceError
from lowtide.results.sweeps.estimate import Estimator
from lowtide.results.sweeps.experiment import Experiment, ExperimentError, read_experiment
from lowtide.results.sweeps.folder import read_run, read_runs, write_runs
from lowtide.results.sweeps.runspec import Limits, RunSpec, source_hash
from tests.run_records import random_records
from tests.sweep_methods import planned

HEAD = """\
[limits]
seconds = 10.0
memory = "1GiB"
"""
RUNS = """\
[[runs]]
problem = "peak"
instances = ["catalogue:diamond", "gen:chain?n=3,seed=1"]
methods = ["greedy", "reference"]
seeds = [1, 2]
"""

HERE = pytest.mark.usefixtures("trials_here")


def experiment(folder: Path, text: str = HEAD + RUNS) -> Experiment:
    path = folder / "exp.toml"
    path.write_text(text)
    return read_experiment(path)


def mistakes(folder: Path, text: str) -> list[str]:
    with pytest.raises(ExperimentError) as caught:
        experiment(folder, text)
    prefix = f"{folder / 'exp.toml'}:"
    assert all(problem.startswith(prefix) for problem in caught.value.problems)
    return [problem.removeprefix(prefix) for problem in caught.value.problems]


@HERE
def test_instances_may_have_names(tmp_path: Path) -> None:
    runs = RUNS.replace(
        '"gen:chain?n=3,seed=1"', '{ spec = "gen:chain?n=3,seed=1", name = "three in a row" }'
    )
    found = experiment(tmp_path, HEAD + runs).runs
    assert {(run.instance, run.source) for run in found} == {
        ("catalogue:diamond", "catalogue:diamond"),
        ("three in a row", "gen:chain?n=3,seed=1"),
    }
    assert {run.name for run in found} == {
        run.name for run in experiment(tmp_path).runs
    }  # the same questions
    several = RUNS.replace('"catalogue:diamond"', '{ spec = "catalogue:randwire-2*", name = "some" }')
    (mistake,) = mistakes(tmp_path, HEAD + several)
    assert "instances named 'some', expected one" in mistake
    (mistake,) = mistakes(
        tmp_path, HEAD + RUNS.replace('"catalogue:diamond"', '{ spec = "catalogue:diamond" }')
    )
    assert "expected a string, or a table of spec and name" in mistake


@HERE
def test_every_combination_once_in_an_order_by_seed(tmp_path: Path) -> None:
    found = experiment(tmp_path)
    assert (found.name, found.repeated, len(found.runs)) == ("exp", 0, 8)
    assert {(run.instance, run.method, run.seed) for run in found.runs} == {
        (instance, method, seed)
        for instance in ("catalogue:diamond", "gen:chain?n=3,seed=1")
        for method in ("greedy", "reference")
        for seed in (1, 2)
    }
    assert {run.limits for run in found.runs} == {Limits(seconds=10, memory=1 << 30, threads=1)}
    other = experiment(tmp_path, "[experiment]\nseed = 5\nsave_plans = true\nname = 'other'\n" + HEAD + RUNS)
    assert other.name == "other"
    assert all(run.save_plan for run in other.runs)
    assert [run.name for run in other.runs] != [run.name for run in found.runs]
    assert {run.name for run in other.runs} == {run.name for run in found.runs}


@HERE
def test_grid_of_parameters_and_own_limits(tmp_path: Path) -> None:
    text = HEAD + '[[runs]]\nproblem="peak"\ninstances=["catalogue:diamond"]\nmethods=["beam"]\n'
    text += 'parameters.width = [4, 8]\nlimits = {seconds = "none", memory = "none", threads = 2}\n'
    runs = experiment(tmp_path, text).runs
    assert sorted(str(run.parameters) for run in runs) == ["{'width': 4}", "{'width': 8}"]
    assert {run.limits for run in runs} == {Limits(seconds=None, memory=None, threads=2)}


@HERE
def test_globs_count_from_the_file_and_names_from_the_content(tmp_path: Path) -> None:
    (tmp_path / "graphs").mkdir()
    for n in (3, 4):
        write_graph(load(f"gen:chain?n={n}"), tmp_path / "graphs" / f"chain{n}.json.gz")
    text = '[[runs]]\nproblem="peak"\nmethods=["greedy"]\ninstances=["graphs/*.gz", "gen:chain?n=3"]\n'
    found = experiment(tmp_path, text)
    assert found.repeated == 1
    labels = {run.instance: run for run in found.runs}
    assert {*labels} == {"gen:chain?n=3", "graphs/chain4.json.gz"}
    assert labels["graphs/chain4.json.gz"].spec == str(tmp_path / "graphs" / "chain4.json.gz")
    moved = tmp_path / "moved"
    moved.mkdir()
    shutil.copytree(tmp_path / "graphs", moved / "graphs")
    assert {run.name for run in experiment(moved, text).runs} == {run.name for run in found.runs}


@HERE
def test_names_of_schemes_and_data_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_graph(load("gen:chain?n=5"), tmp_path / "a.json")
    monkeypatch.setenv("LOWTIDE_DATA", str(tmp_path))
    text = '[[runs]]\nproblem="peak"\nmethods=["greedy"]\n'
    text += 'instances=["data:*.json", "catalogue:randwire-*-train"]\n'
    found = {run.instance: run.spec for run in experiment(tmp_path, text).runs}
    assert found == dict.fromkeys(
        ["data:a.json", "catalogue:randwire-20-train", "catalogue:randwire-32-train"]
    )


@pytest.mark.slow
def test_all_mistakes_are_listed_with_their_lines(tmp_path: Path) -> None:
    text = """\
[experiment]
nam = "x"
seed = -1
[limits]
seconds = 0
memory = "4 apples"
graze = 3
[[runs]]
problem = "peek"
instances = ["gen:chain"]
methods = ["greedy"]
[[runs]]
problem = "peak"
instances = ["gen:chian", "nowhere.json",
  3, "x/*.json", "gen:chain?n=0"]
methods = ["gredy",
  "beam"]
seeds = [1, "a", 1]
parameters = { width = [16, -64, [3]], wdith = 3 }
limits = { second = 3 }
[[runs]]
problem = "peak"
colour = 1
"""
    expected = [
        ("2: experiment, nam: found an unknown key", "did you mean name?"),
        ("3: experiment, seed: found -1", "expected an integer >= 0"),
        ("5: limits, seconds: found 0", "expected seconds > 0"),
        ("6: limits, memory: found '4 apples'", "expected bytes"),
        ("7: limits, graze", "did you mean grace?"),
        ("9: runs 1, problem: found 'peek'", "did you mean peak or pipeline?"),
        ("14: runs 2, instances 1: ", "did you mean chain"),
        ("14: runs 2, instances 2: ", "found no such file"),
        ("15: runs 2, instances 3: found 3", "expected a string"),
        ("15: runs 2, instances 4: ", "expected one that matches"),
        ("15: runs 2, instances 5: ", "expected an integer >= 1"),
        ("16: runs 2, methods 1: found 'gredy'", "did you mean greedy"),
        ("18: runs 2, seeds 2: ", "expected an integer >= 0"),
        ("18: runs 2, seeds 3: found 1 twice", "once"),
        ("19: runs 2, parameters, wdith: ", "did you mean width?"),
        ("19: runs 2, parameters, width 3: ", "expected a number"),
        ("19: runs 2, parameters: option width: found '-64'", "positive integer"),
        ("20: runs 2, limits, second: ", "did you mean seconds?"),
        ("21: runs 3: found no key 'instances'", "expected one"),
        ("21: runs 3: found no key 'methods'", "expected one"),
        ("23: runs 3, colour: ", "expected one of"),
    ]
    found = mistakes(tmp_path, text)
    missing = [pair for pair in expected if not any(f.startswith(pair[0]) and pair[1] in f for f in found)]
    assert (missing, len(found)) == ([], len(expected)), found


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[limits]\nseconds = = 1\n", "2: found no TOML: Invalid value"),
        ("[limits]\nseconds = [1\n", "found no TOML"),
        ("", "1: runs: found no run"),
        ("\n\n[runs]\nproblem = 'peak'\n", "3: runs: found no run"),
        ("runs = [3]\n", "1: runs 1: found 3, expected a table"),
        ("[[runs]]\nproblem='peak'\ninstances=[]\nmethods=['greedy']", "3: runs 1, instances: found []"),
        ("limits = 3\n" + RUNS, "1: limits: found 3, expected a table"),
    ],
)
def test_one_mistake(tmp_path: Path, text: str, problem: str) -> None:
    assert any(problem in found for found in mistakes(tmp_path, text)), mistakes(tmp_path, text)


def test_files_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "exp.toml"
    path.write_bytes(b"[limits]\n# \xff\n")
    with pytest.raises(ExperimentError, match=r"exp\.toml:2: found bytes that are not UTF-8"):
        read_experiment(path)
    with pytest.raises(ExperimentError, match="found no such file"):
        read_experiment(tmp_path / "other.toml")


CHANGES = {
    "instance_sha256": "1" * 64,
    "method": "beam",
    "parameters": {"width": 8},
    "seed": 1,
    "limits": Limits(seconds=21),
    "version": "9.9.9",
    "source_hash": "0" * 16,
}


def test_name_follows_from_what_can_change_the_answer_and_nothing_else() -> None:
    run = planned("greedy", instance_sha256="0" * 64)
    other = {key: RunSpec.from_dict({**run.to_dict(), "name": run.name}) for key in CHANGES}
    assert {o.name for o in other.values()} == {run.name}
    names = {key: replace(run, **{key: value}).name for key, value in CHANGES.items()}  # type: ignore[arg-type]
    assert len({run.name, *names.values()}) == len(CHANGES) + 1
    same = replace(run, instance="other", spec="/elsewhere/other.json", grace=3, save_plan=True)
    assert same.name == run.name
    assert replace(run, parameters={"width": 8}).name == replace(run, parameters={"width": "8"}).name


def test_runs_are_written_and_read(tmp_path: Path) -> None:
    runs = [run for run, _ in random_records(20)]
    write_runs(tmp_path, runs)
    assert read_runs(tmp_path) == runs
    assert [read_run(tmp_path, run.name) for run in runs] == runs
    assert [row["name"] for row in json.loads((tmp_path / "runs.json").read_text())] == [r.name for r in runs]
    with pytest.raises(InstanceError, match="found no run 'abc'"):
        read_run(tmp_path, "abc")
    with pytest.raises(InstanceError, match=r"found no runs\.json"):
        read_runs(tmp_path / "elsewhere")


def test_edited_run_is_refused(tmp_path: Path) -> None:
    run = planned("greedy")
    write_runs(tmp_path, [run])
    path = tmp_path / "runs.json"
    path.write_text(path.read_text().replace('"seed": 0', '"seed": 1'))
    with pytest.raises(InstanceError, match=f"name: found '{run.name}', expected"):
        read_runs(tmp_path)


def test_estimate_learns_from_what_is_done() -> None:
    pairs = list(random_records(40, methods=("greedy", "cpsat")))
    runs = [run for run, _ in pairs]
    estimator = Estimator(runs, [])
    assert estimator.rest() == (40 * 11, False)
    quick = {"seconds": {"total": 0.5}}
    for run in runs[:10]:
        estimator.finish(run, quick)
    assert estimator.rest() == (15, True)
    for run in runs[10:]:
        estimator.finish(run, None)
    assert estimator.rest() == (0, True)


def test_hash_of_the_sources_is_short_and_that_of_the_plan() -> None:
    assert len(source_hash("peak", "greedy")) == 16
    assert source_hash("peak", "greedy") == planned("greedy").source_hash
