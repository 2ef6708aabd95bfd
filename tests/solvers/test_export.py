"""Exported models: whole files that other programs read back, with the same optimum."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import lowtide as lt
from lowtide.models.buffers import Buffer, Buffers
from lowtide.solvers.export import export_model

PROBLEM = lt.Peak(lt.load("gen:randwire?n=9&seed=1"))
OPTIMUM = 91

ROW = (
    Buffer(id="a", lower=0, upper=2, size=30),
    Buffer(id="b", lower=1, upper=3, size=20, alignment=50),
    Buffer(id="c", lower=2, upper=4, size=50),
)
OFFSETS = lt.Offsets(Buffers(buffers=ROW))
HEIGHT = 70

MAKESPAN = lt.Makespan(lt.load("gen:sp?n=8&seed=1"), processors=2, memory=45)
FASTEST = 6

DISK = lt.Machine(
    tiers=(lt.Tier(name="memory"), lt.Tier(name="disk")),
    processors=(lt.Processor(name="p", tiers=(lt.Access(tier="memory"),)),),
    channels=(
        lt.Channel(src="memory", dst="disk", bytes_per_s=10**9),
        lt.Channel(src="disk", dst="memory", bytes_per_s=10**9),
    ),
)
RECOMPUTE = lt.Recompute(lt.load("gen:backprop-chain?l=5&forward=9&backward=9"), memory=6)
TICKS = 12
"""Eleven runs, and one forward again, as Revolve has it."""
PAGED = lt.Recompute(lt.load("gen:backprop-chain?l=3&forward=9&backward=9"), memory=4, machine=DISK)
NS = 65
"""Seven runs of 9 ns, and one value to the disk and back; exhaustive search finds the same."""

VALUES = {
    "peak": (OPTIMUM, "peak_in_units_of_1_bytes"),
    "offsets": (HEIGHT // 10, "height_in_units_of_10_bytes"),
    "makespan": (FASTEST, "makespan_in_ticks_of_1_ns"),
}
"""By problem: the optimum, and the name of its models."""


def optimum_and_name(problem: lt.Problem) -> tuple[int, str]:
    if isinstance(problem, lt.Recompute):
        return (NS, "time_in_ticks_of_1_ns") if problem is PAGED else (TICKS, "time_in_ticks_of_9_ns")
    return VALUES[problem.name]


@pytest.mark.parametrize(
    ("problem", "method", "row"),
    [
        (PROBLEM, "milp", "preserved_since_created"),
        (PROBLEM, "milp-steps", "done_stays_done"),
        (OFFSETS, "milp", "ends_below_height"),
        (MAKESPAN, "milp", "memory_suffices"),
        (RECOMPUTE, "checkmate", "finds_what_it_reads"),
        (RECOMPUTE, "moments", "there_all_through"),
        (PAGED, "poet", "slower_tier_has_it"),
        (PAGED, "moments", "comes_back_if_written"),
    ],
)
@pytest.mark.parametrize("suffix", [".mps", ".lp"])
def test_milp_file_solved_by_highs_alone_has_the_optimum(
    problem: lt.Problem, method: str, row: str, suffix: str, tmp_path: Path
) -> None:
    import highspy

    path = tmp_path / f"model{suffix}"
    export_model(problem, method, path)
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    highs.setOptionValue("threads", 1)
    highs.resetGlobalScheduler(True)
    assert highs.readModel(str(path)) == highspy.HighsStatus.kOk
    highs.run()
    optimum, name = optimum_and_name(problem)
    assert highs.getObjectiveValue() == pytest.approx(optimum)
    text = path.read_text()
    assert name in text
    assert row in text


@pytest.mark.parametrize(
    ("problem", "method"),
    [
        (PROBLEM, "cpsat"),
        (PROBLEM, "cpsat-positions"),
        (OFFSETS, "cpsat"),
        (OFFSETS, "cpsat-sections"),
        (MAKESPAN, "cpsat"),
        (MAKESPAN, "cpsat-reservoir"),
        (RECOMPUTE, "moccasin"),
    ],
)
@pytest.mark.parametrize("suffix", [".pb.txt", ".pbtxt", ".pb"])
def test_cpsat_file_solved_by_cpsat_alone_has_the_optimum(
    problem: lt.Problem, method: str, suffix: str, tmp_path: Path
) -> None:
    from google.protobuf import text_format
    from ortools.sat import cp_model_pb2
    from ortools.sat.python.cp_model import OPTIMAL, CpModel, CpSolver

    path = tmp_path / f"model{suffix}"
    export_model(problem, method, path)
    proto = cp_model_pb2.CpModelProto()
    if suffix == ".pb":
        proto.ParseFromString(path.read_bytes())
    else:
        text_format.Parse(path.read_text(), proto)
    optimum, name = optimum_and_name(problem)
    assert proto.name == name
    known = {"makespan": "C", "recompute": "a 0 1"}.get(problem.name, name.split("_")[0])
    assert known in {v.name for v in proto.variables}
    model = CpModel()
    assert model.proto.parse_text_format(text_format.MessageToString(proto))
    solver = CpSolver()
    solver.parameters.catch_sigint_signal = False
    solver.parameters.num_workers = 1
    assert solver.solve(model) == OPTIMAL
    assert solver.objective_value == optimum


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


def test_one_of_several_parts_is_named(tmp_path: Path) -> None:
    apart = lt.Offsets(Buffers(buffers=(*ROW, Buffer(id="d", lower=4, upper=6, size=9, pool=""))))
    path = tmp_path / "model.mps"
    message = (
        r"found no part, expected one of 2 independent parts \(0: 3 buffers, times 0 to 4; "
        r"1: 1 buffer, times 4 to 6\)"
    )
    with pytest.raises(lt.UsageError, match=message):
        export_model(apart, "milp", path)
    with pytest.raises(lt.UsageError, match="found part 2, expected one of 2"):
        export_model(apart, "milp", path, part=2)
    with pytest.raises(lt.UsageError, match="found part 0 of problem peak, expected none"):
        export_model(PROBLEM, "milp", path, part=0)
    with pytest.raises(lt.UsageError, match="found no buffer with bytes"):
        export_model(lt.Offsets(Buffers(buffers=())), "milp", path)
    assert not path.exists()
    export_model(apart, "milp", path, part=1)
    assert "height_in_units_of_9_bytes" in path.read_text()


def test_method_without_a_model_of_parallel_memory() -> None:
    with pytest.raises(lt.UsageError, match="expected one that builds a model: lp, milp"):
        export_model(lt.ParallelMemory(PROBLEM.graph), "flow", "model.mps")


def test_method_without_a_model_of_offsets() -> None:
    with pytest.raises(lt.UsageError, match="expected one that builds a model: cpsat, cpsat-sections, milp"):
        export_model(OFFSETS, "greedy", "model.mps")


def test_recompute_without_a_model(tmp_path: Path) -> None:
    path = tmp_path / "model.mps"
    with pytest.raises(
        lt.UsageError, match="expected one that builds a model: checkmate, moccasin, poet, moments"
    ):
        export_model(RECOMPUTE, "revolve", path)
    with pytest.raises(lt.UsageError, match="found no slower tier with channels"):
        export_model(RECOMPUTE, "poet", path)
    processor = lt.Processor(name="p", tiers=(lt.Access(tier="memory"), lt.Access(tier="disk")))
    reaching = lt.Recompute(PAGED.graph, memory=4, machine=replace(DISK, processors=(processor,)))
    with pytest.raises(lt.UsageError, match="expected one that accesses the fast memory only"):
        export_model(reaching, "moments", path)
    with pytest.raises(lt.UsageError, match=r"without schedules \(op 0 .* needs 2 B, of 1 B\)"):
        export_model(lt.Recompute(RECOMPUTE.graph, memory=1), "checkmate", path)
    assert not path.exists()
