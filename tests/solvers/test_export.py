"""Exported models: whole files that other programs read back, with the same optimum."""

from __future__ import annotations

from pathlib import Path

import pytest

import lowtide as lt
from lowtide.solvers.export import export_model

PROBLEM = lt.Peak(lt.load("gen:randwire?n=9&seed=1"))
OPTIMUM = 91


@pytest.mark.parametrize(
    ("method", "row"), [("milp", "preserved_since_created"), ("milp-steps", "done_stays_done")]
)
@pytest.mark.parametrize("suffix", [".mps", ".lp"])
def test_milp_file_solved_by_highs_alone_has_the_optimum(
    method: str, row: str, suffix: str, tmp_path: Path
) -> None:
    import highspy

    path = tmp_path / f"model{suffix}"
    export_model(PROBLEM, method, path)
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    highs.setOptionValue("threads", 1)
    highs.resetGlobalScheduler(True)
    assert highs.readModel(str(path)) == highspy.HighsStatus.kOk
    highs.run()
    assert highs.getObjectiveValue() == pytest.approx(OPTIMUM)
    text = path.read_text()
    assert "peak_in_units_of_1_bytes" in text
    assert row in text


@pytest.mark.parametrize("method", ["cpsat", "cpsat-positions"])
@pytest.mark.parametrize("suffix", [".pb.txt", ".pbtxt", ".pb"])
def test_cpsat_file_solved_by_cpsat_alone_has_the_optimum(method: str, suffix: str, tmp_path: Path) -> None:
    from google.protobuf import text_format
    from ortools.sat import cp_model_pb2
    from ortools.sat.python.cp_model import OPTIMAL, CpModel, CpSolver

    path = tmp_path / f"model{suffix}"
    export_model(PROBLEM, method, path)
    proto = cp_model_pb2.CpModelProto()
    if suffix == ".pb":
        proto.ParseFromString(path.read_bytes())
    else:
        text_format.Parse(path.read_text(), proto)
    assert proto.name == "peak_in_units_of_1_bytes"
    assert {"peak"} < {v.name for v in proto.variables}
    model = CpModel()
    assert model.proto.parse_text_format(text_format.MessageToString(proto))
    solver = CpSolver()
    solver.parameters.num_workers = 1
    assert solver.solve(model) == OPTIMAL
    assert solver.objective_value == OPTIMUM


@pytest.mark.parametrize(
    ("method", "name", "message"),
    [
        ("greedy", "model.mps", "found method 'greedy', expected one that builds a model: cpsat"),
        ("milp", "model.pb", r"found another suffix, expected \.mps, \.lp for method milp"),
        ("cpsat", "model.mps", r"found another suffix, expected \.pb\.txt"),
        ("milp", "missing/model.mps", "found no folder"),
    ],
)
def test_bad_exports_are_usage_errors_and_write_nothing(
    method: str, name: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(lt.UsageError, match=message):
        export_model(PROBLEM, method, tmp_path / name)
    assert list(tmp_path.iterdir()) == []
