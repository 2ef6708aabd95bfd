"""What is there: machines, and methods with their options and papers."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from lowtide import load, save
from lowtide.__main__ import main
from lowtide.instances import load_machine, load_problem
from lowtide.instances.machines import machine_names
from lowtide.models.errors import InstanceError
from lowtide.models.problems.makespan import Makespan
from tests.commands import answer, refused

MACHINE = """tiers = [{name = "gpu", capacity = "1GiB"}, {name = "host"}]
processors = [{name = "p", tiers = ["gpu"]}]
channels = [{src = "gpu", dst = "host", bytes_per_s = "RATE"}]
"""


def output_of(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(list(words)) == 0
    return capsys.readouterr().out


def test_machines_are_listed_and_shown(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    listed = answer("list", "machines", cwd=tmp_path)["machines"]
    assert [row["machine"] for row in listed] == list(machine_names())
    for name in machine_names():
        shown = answer("show", name, cwd=tmp_path)
        assert {key: shown[key] for key in load_machine(name).to_dict()} == load_machine(name).to_dict()
    assert "gpu -> host  15.754 GB/s" in output_of(capsys, "show", "a100-40g-pcie3")


@pytest.mark.parametrize(("folded", "shown"), [(1200, True), (0, False), ("many", False)])
def test_show_counts_the_views_of_a_model(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, folded: object, shown: bool
) -> None:
    path = tmp_path / "g.json"
    save(replace(load("catalogue:diamond"), provenance={"views_folded": folded}), path)
    assert ("1,200 nodes of the model" in output_of(capsys, "show", str(path))) == shown


def test_methods_of_a_problem_come_with_options_and_papers(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    listed = answer("list", "methods", "minio", cwd=tmp_path)["methods"]
    assert {row["problem"] for row in listed} == {"minio"}
    text = output_of(capsys, "list", "methods", "minio")
    assert "Jacquelin, Marchal, Robert, Ucar" in text
    assert "option order" in text


def test_help_takes_a_method_a_problem_or_a_verb(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "SwapAdvisor" in output_of(capsys, "help", "belady")
    assert "rests on       ours in its place\nabstracted" in output_of(capsys, "help", "placement", "deeptm")
    assert "rests on" not in output_of(capsys, "help", "placement", "auto")
    (row,) = answer("help", "placement", "vdnn", cwd=tmp_path)["methods"]
    assert (row["basis"], row["abstracted"][:8]) == ("published code", "The code")
    assert output_of(capsys, "help", "peak") == output_of(capsys, "list", "methods", "peak")
    assert [m["problem"] for m in answer("help", "minio", "benders", cwd=tmp_path)["methods"]] == ["minio"]
    assert output_of(capsys, "help", "show").startswith("usage: lowtide show")
    assert "did you mean belady" in refused("help", "beladi", cwd=tmp_path)
    assert "expected one of" in refused("list", "methods", "peaks", cwd=tmp_path)


def test_methods_of_placement_say_what_they_serve(capsys: pytest.CaptureFixture[str]) -> None:
    methods = json.loads(output_of(capsys, "list", "methods", "placement", "--json"))["methods"]
    matrix = {method["name"]: method["traits"] for method in methods}
    assert {len(row) for row in matrix.values()} == {len(matrix["auto"])}
    assert {*matrix["auto"].values()} == {"yes"}
    assert matrix["slot-milp"]["copies of whole tensors"] == "needed"
    assert matrix["pofo"]["copies of whole tensors"] == matrix["belady"]["one tier"] == "no"
    assert "refuses" in output_of(capsys, "help", "placement", "belady")


@pytest.mark.parametrize("rate", ["25GB/s", "25GB", "25 GB/s"])
def test_a_rate_may_say_that_it_is_per_second(tmp_path: Path, rate: str) -> None:
    path = tmp_path / "m.toml"
    path.write_text(MACHINE.replace("RATE", rate))
    assert load_machine(path).channels[0].bytes_per_s == 25 * 10**9


def test_a_capacity_is_no_rate(tmp_path: Path) -> None:
    path = tmp_path / "m.toml"
    path.write_text(MACHINE.replace("1GiB", "1GiB/s"))
    assert "bytes such as 40GiB" in refused("show", str(path), cwd=tmp_path)


def test_a_plan_is_json(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    text = refused("solve", "peak", "catalogue:harpoon", "--plan", str(path), cwd=tmp_path)
    assert "found ending .txt, expected .json or .json.gz" in text
    assert not path.exists()


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("peak", "onnx:resnet50?training=1"), "found unknown option training, did you mean train?"),
        (
            ("placement", "catalogue:harpoon"),
            "of a command --machine), expected a name that",
        ),
        (("peak", "wf.json"), "wf.json"),
        (("peak", "plan.json"), "lowtide verify and lowtide plot read plans"),
        (("wf.json",), "the problem comes first: peak wf.json"),
        (("peak", "catalogue:chain", "--method", "checkmate"), "a method of problem recompute"),
    ],
)
def test_what_is_missing_is_said(tmp_path: Path, words: tuple[str, ...], hint: str) -> None:
    (tmp_path / "plan.json").write_text('{"format": "lowtide/plan", "version": 1}')
    (tmp_path / "wf.json").write_text('{"schemaVersion": "1.5", "workflow": {}}')
    assert hint in refused("solve", *words, cwd=tmp_path)


def test_verbs_that_take_a_problem_have_its_flags(tmp_path: Path) -> None:
    spec, flags = "catalogue:randwire-20-0", ("--processors", "2", "--memory", "80%")
    told = answer("export", "makespan", spec, *flags, "--method", "cpsat", "-o", "x.pb.txt", cwd=tmp_path)
    solved = answer("solve", "makespan", f"{spec}?processors=2&memory=80%", "--method", "list", cwd=tmp_path)
    assert told["instance"] == solved["instance"] == "randwire?n=20 on 2 processors, 138 bytes"
    words = ("export", "peak", spec, *flags, "--method", "milp", "-o", "x.mps")
    assert "found --processors with problem peak, expected it with" in refused(*words, cwd=tmp_path)


def test_shares_are_of_the_peak_of_the_reference_order() -> None:
    for device, nbytes in (("80%", 138), ("100%", 173), ("0.5%", 1)):
        problem = load_problem("makespan", "catalogue:randwire-20-0", memory=device)
        assert isinstance(problem, Makespan)
        assert problem.memory == nbytes
    with pytest.raises(InstanceError, match="a share of the reference order's peak"):
        load_problem("makespan", "catalogue:randwire-20-0", memory="0%")
