"""Every verb as a user types it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from lowtide import Plan, load
from lowtide.instances import read_plan, write_graph
from lowtide.solvers.engines import compilation
from lowtide.solvers.engines.compilation import Compilation
from tests.commands import answer, refused, within

RECORD = {
    "instance",
    "problem",
    "method",
    "status",
    "objective",
    "bound",
    "gap",
    "reason",
    "proof",
    "bound_kind",
    "verified",
    "seconds",
    "trace",
    "versions",
    "plan",
}


def test_list_has_problems_methods_and_instances(tmp_path: Path) -> None:
    found = answer("list", cwd=tmp_path)
    assert [row["name"] for row in found["problems"]] == [
        "peak",
        "offsets",
        "arena",
        "placement",
        "makespan",
        "distributed",
        "parallel-memory",
        "memory-edges",
        "recompute",
        "minio",
        "streams",
        "pipeline",
        "partition",
        "hybrid",
        "sharding",
        "tiles",
    ]
    assert {"auto", "reference", "greedy"} <= {row["name"] for row in found["methods"]}
    assert "catalogue:diamond" in {row["instance"] for row in found["instances"]}


def test_list_of_one_thing_has_nothing_else(tmp_path: Path) -> None:
    assert list(answer("list", "methods", cwd=tmp_path)) == ["methods"]


def test_compile_says_what_was_compiled_and_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int | None] = []

    def compile_all(*, jobs: int | None, progress: Callable[[str], None]) -> Compilation:
        asked.append(jobs)
        progress("compiling 2 kernels (once)")
        some = (("z.slow", 12.3456), ("a.quick", 0.5)) if jobs == 1 else ()
        return Compilation(folder=Path("/kept"), compiled=some, present=("m.there",), seconds=13.0004)

    monkeypatch.setattr(compilation, "compile_all", compile_all)
    said = within("compile", "--jobs", "1", cwd=tmp_path)
    assert said.returncode == 0
    assert said.stdout.splitlines() == [
        "",
        "kernel   seconds",
        "a.quick      0.5",
        "z.slow      12.3",
        "2 kernels compiled in 13.0 s, 1 were there: /kept",
    ]
    assert within("compile", "--quiet", cwd=tmp_path).stdout.splitlines() == [
        "0 kernels compiled in 13.0 s, 1 were there: /kept"
    ]
    assert answer("compile", "--jobs", "1", cwd=tmp_path) == {
        "folder": "/kept",
        "compiled": [{"kernel": "z.slow", "seconds": 12.346}, {"kernel": "a.quick", "seconds": 0.5}],
        "present": ["m.there"],
        "seconds": 13.0,
    }
    assert asked == [1, None, 1]
    assert "--jobs: found '0'" in refused("compile", "--jobs", "0", cwd=tmp_path)


def test_list_for_people_is_aligned(tmp_path: Path) -> None:
    lines = within("list", "problems", cwd=tmp_path).stdout.splitlines()
    assert lines[1:3] == ["problems", "--------"]
    assert lines[3].index("objective") == lines[4].index("bytes")


def test_show_counts_and_bounds(tmp_path: Path) -> None:
    found = answer("show", "catalogue:two-branches", "--largest", "2", cwd=tmp_path)
    graph = load("catalogue:two-branches")
    assert found["sha256"] == graph.sha256
    assert found["ops"] == len(graph.ops)
    assert found["reference_peak"] == 16
    assert found["working_set_bound"] <= 12
    sizes = sorted((t.nbytes for t in graph.tensors), reverse=True)
    assert [t["nbytes"] for t in found["largest"]] == sizes[:2]


def test_show_says_which_bytes_are_left_out(tmp_path: Path) -> None:
    graph = load("gen:unet?depth=1&weights=1").drop({"weight"})
    write_graph(graph, tmp_path / "g.json")
    lost = graph.dropped_bytes["weight"]
    assert lost > 0
    assert answer("show", "g.json", cwd=tmp_path)["dropped_bytes"] == {"weight": lost}
    text = within("show", "g.json", cwd=tmp_path).stdout
    assert f"weight tensors count 0 bytes; they are {lost:,} B" in text


@pytest.mark.parametrize("out", ["g.json", "g.json.gz", "g.graphml"])
def test_convert_keeps_the_graph(tmp_path: Path, out: str) -> None:
    found = answer("convert", "catalogue:harpoon", out, cwd=tmp_path)
    assert found["written"] == out
    assert load(tmp_path / out).sha256 == load("catalogue:harpoon").sha256 == found["sha256"]


def test_convert_sets_drops_and_changes_accounting(tmp_path: Path) -> None:
    found = answer(
        *("convert", "gen:unet", "g.json", "--set", "depth=1", "--set", "weights=1"),
        *("--drop", "weight", "--accounting", "replace"),
        cwd=tmp_path,
    )
    assert found["accounting"] == "replace"
    assert "weight" not in found["bytes_by_kind"]
    assert load(tmp_path / "g.json").sha256 == found["sha256"]


def test_solve_prints_the_run_record_and_writes_the_plan(tmp_path: Path) -> None:
    found = answer(
        *("solve", "peak", "catalogue:two-branches", "--method", "greedy", "--plan", "plan.json"),
        cwd=tmp_path,
    )
    assert set(found) >= RECORD
    assert set(found["seconds"]) == {"load", "build", "solve", "verify"}
    assert (found["problem"], found["method"], found["status"]) == ("peak", "greedy", "feasible")
    assert (found["objective"], found["verified"], found["plan"]) == (12, True, "plan.json")
    plan = read_plan(tmp_path / "plan.json")
    assert plan.graph_source == "catalogue:two-branches"


def test_solve_for_people_names_status_and_sizes(tmp_path: Path) -> None:
    done = within("solve", "peak", "catalogue:diamond", "--method", "reference", cwd=tmp_path)
    rows = dict(line.split(maxsplit=1) for line in done.stdout.splitlines())
    assert rows["status"] == "feasible"
    assert rows["objective"] == "8 B"
    assert done.stderr == ""


def test_plan_of_a_relative_graph_is_verified_from_anywhere(tmp_path: Path) -> None:
    write_graph(load("catalogue:harpoon"), tmp_path / "g.json")
    (tmp_path / "plans").mkdir()
    answer("solve", "peak", "g.json", "--method", "greedy", "--plan", "plans/p.json.gz", cwd=tmp_path)
    found = answer("verify", "p.json.gz", cwd=tmp_path / "plans")
    assert found["valid"]


def test_hint_is_the_first_incumbent(tmp_path: Path) -> None:
    spec = "catalogue:two-branches"
    best = answer("solve", "peak", spec, "--method", "greedy", "--plan", "p.json", cwd=tmp_path)
    hinted = answer("solve", "peak", spec, "--method", "reference", "--hint", "p.json", cwd=tmp_path)
    assert hinted["objective"] == best["objective"] == 12


def test_verify_gives_peak_and_gap_to_the_catalogue(tmp_path: Path) -> None:
    answer(
        "solve", "peak", "catalogue:two-branches", "--method", "reference", "--plan", "p.json", cwd=tmp_path
    )
    found = answer("verify", "p.json", cwd=tmp_path)
    assert found["valid"]
    assert found["violations"] == []
    assert (found["peaks"], found["bound"], found["gap"]) == ({"memory": 16}, 12, 0.25)
    assert found["best_known"] == 12


def test_verify_lists_violations_and_exits_1(tmp_path: Path) -> None:
    answer("solve", "peak", "catalogue:diamond", "--method", "reference", "--plan", "p.json", cwd=tmp_path)
    data = json.loads((tmp_path / "p.json").read_text())
    data["runs"][0]["start"], data["runs"][0]["end"] = 1, 2
    data["frees"] = []
    (tmp_path / "p.json").write_text(json.dumps(data))
    found = answer("verify", "p.json", cwd=tmp_path, status=1)
    assert not found["valid"]
    assert {"precedence", "processor-overlap"} <= {v["kind"] for v in found["violations"]}
    done = within("verify", "p.json", cwd=tmp_path)
    assert done.returncode == 1
    assert f"invalid: {len(found['violations'])} violations" in done.stdout


def test_graph_option_takes_the_place_of_the_source(tmp_path: Path) -> None:
    answer("solve", "peak", "catalogue:diamond", "--method", "reference", "--plan", "p.json", cwd=tmp_path)
    write_graph(load("catalogue:diamond"), tmp_path / "copy.json")
    found = answer("verify", "p.json", "--graph", "copy.json", cwd=tmp_path)
    assert found["graph"]["source"] == "copy.json"


def test_order_file_is_scored(tmp_path: Path) -> None:
    spec = "gen:randwire?n=10,seed=1"
    (tmp_path / "order.txt").write_text(" ".join(map(str, range(len(load(spec).ops)))))
    found = answer("verify", spec, "--order", "order.txt", cwd=tmp_path)
    (peak,) = found["peaks"].values()
    assert found["valid"]
    assert peak == found["reference_peak"]
    assert found["bound"] <= peak
    assert found["gap"] == (peak - found["bound"]) / peak
    given = answer("verify", spec, "--order", "order.txt", "--bound", "1", cwd=tmp_path)
    assert (given["bound"], given["bound_from"]) == (1, "given")


def test_order_that_breaks_rules_lists_them_all_and_exits_1(tmp_path: Path) -> None:
    (tmp_path / "order.txt").write_text("join left left")
    found = answer("verify", "catalogue:diamond", "--order", "order.txt", cwd=tmp_path, status=1)
    kinds = [v["kind"] for v in found["violations"]]
    assert sorted(kinds) == ["missing-run", "missing-run", "precedence", "repeated-run"]
    assert found["peaks"] is None


@pytest.mark.slow
@pytest.mark.parametrize(("ending", "begins"), [("svg", b"<?xml"), ("png", b"\x89PNG"), ("pdf", b"%PDF")])
def test_plot_writes_the_kind_of_the_ending(tmp_path: Path, ending: str, begins: bytes) -> None:
    answer("solve", "peak", "catalogue:diamond", "--method", "reference", "--plan", "p.json", cwd=tmp_path)
    found = answer("plot", "p.json", "-o", f"x.{ending}", cwd=tmp_path)
    assert found["peak"] == 8
    assert (tmp_path / f"x.{ending}").read_bytes().startswith(begins)


@pytest.mark.slow
def test_plot_takes_a_run_record_and_an_order(tmp_path: Path) -> None:
    spec = "catalogue:two-branches"
    record = answer("solve", "peak", spec, "--method", "greedy", "--plan", "p.json", cwd=tmp_path)
    (tmp_path / "record.json").write_text(json.dumps(record))
    assert answer("plot", "record.json", "-o", "a.svg", cwd=tmp_path)["peak"] == 12
    (tmp_path / "order.txt").write_text(" ".join(map(str, range(len(load(spec).ops)))))
    assert answer("plot", spec, "--order", "order.txt", "-o", "b.svg", cwd=tmp_path)["peak"] == 16


def test_nothing_is_drawn_of_an_invalid_plan(tmp_path: Path) -> None:
    answer("solve", "peak", "catalogue:diamond", "--method", "reference", "--plan", "p.json", cwd=tmp_path)
    data = json.loads((tmp_path / "p.json").read_text())
    data["runs"].pop()
    (tmp_path / "p.json").write_text(json.dumps(data))
    done = within("plot", "p.json", "-o", "x.svg", cwd=tmp_path)
    assert done.returncode == 1
    assert "missing-run" in done.stderr
    assert not (tmp_path / "x.svg").exists()


@pytest.mark.parametrize(("method", "name"), [("milp", "m.mps"), ("milp", "m.lp"), ("cpsat", "m.pb.txt")])
def test_export_writes_a_model(tmp_path: Path, method: str, name: str) -> None:
    found = answer("export", "peak", "catalogue:diamond", "--method", method, "-o", name, cwd=tmp_path)
    assert found["written"] == name
    assert found["nbytes"] == (tmp_path / name).stat().st_size > 100


@pytest.mark.slow
def test_demo_proves_verifies_and_draws(tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    pytest.importorskip("matplotlib")
    found = answer("demo", "--out", "pictures", cwd=tmp_path)
    assert (found["status"], found["verified"]) == ("optimal", True)
    assert found["objective"] == found["bound"] <= found["greedy"] <= found["reference"]
    for path in found["files"].values():
        assert (tmp_path / path).stat().st_size > 1000
    verdict = answer("verify", "pictures/plan.json", cwd=tmp_path)
    assert (verdict["valid"], verdict["heights"]) == (True, {"memory": found["height"]})
    assert found["height"] == found["height_bound"]


def test_python_and_command_line_agree(tmp_path: Path) -> None:
    graph = load("catalogue:harpoon")
    answer("solve", "peak", "catalogue:harpoon", "--method", "reference", "--plan", "p.json", cwd=tmp_path)
    assert read_plan(tmp_path / "p.json").runs == Plan.from_order(graph, range(len(graph.ops))).runs
