"""A GPU that is measured, and runs plans, on a model of one: what its clock says is what the files say."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import lowtide as lt
from lowtide.instances.torch_import import measure
from lowtide.instances.torch_import.recording import Step, record
from lowtide.instances.torch_import.running.carry_out import carry_out
from lowtide.models.measurement import Measurement

torch = pytest.importorskip("torch", reason="the package torch is not installed")
nn = torch.nn

from lowtide.instances.torch_import.running.run import WARM_UP, deterministic, run_plan  # noqa: E402  (needs torch)
from lowtide.instances.torch_import.running.streams import Streams  # noqa: E402
from tests.fake_cuda import FakeCuda  # noqa: E402
from tests.instances.torch_on_model import (  # noqa: E402
    BYTES_PER_S,
    COPY_NS,
    SLOWER,
    cost,
    perceptron,
)


def on_gpu(step: Step) -> Step:
    return replace(step, device="cuda")


@pytest.mark.slow  # a model of a device
@pytest.mark.parametrize("what", ["order", "copies", "period", "second runs"])
def test_plans_run_on_the_model(what: str) -> None:
    """The same code as on a GPU: order and bits of real operators, bytes, and the times of its clock."""
    step = perceptron()
    graph = step.graph
    order = lt.Plan.from_order(graph, range(len(graph.ops)))
    peak = lt.verify(graph, order).peaks["memory"]
    machine = lt.load_machine("v100-16g-pcie3", {"gpu": int(0.85 * peak)})
    questions: dict[str, tuple[Any, str]] = {
        "copies": (lt.Placement(graph, machine, whole=True), "planner"),
        "period": (lt.Placement(graph, machine, whole=True, periodic=True), "planner"),
        "second runs": (lt.Recompute(graph, memory=int(0.95 * peak)), "auto"),
    }
    plan = lt.solve(*questions[what]).plan if what in questions else order
    assert plan is not None
    with FakeCuda(cost=cost, pool=2**22) as fake:
        found = run_plan(on_gpu(step), plan, iterations=4)
    assert found.device == "cuda"
    assert found.same_profile
    assert found.differing == ()
    assert found.compared > 8
    assert found.measured_ns >= found.operators_ns > 0
    assert found.allocated_peak is not None
    assert found.allocated_peak > 0
    assert fake.fraction == 1.0
    assert not torch.are_deterministic_algorithms_enabled()


@pytest.mark.slow  # a model of a device
@pytest.mark.parametrize("periodic", [False, True])
def test_first_iterations_do_not_count(periodic: bool) -> None:
    """They load and choose and allocate; one more, in which ops are looked at one by one, is before them."""
    graph = perceptron().graph
    peak = lt.verify(graph, lt.Plan.from_order(graph, range(len(graph.ops)))).peaks["memory"]
    machine = lt.load_machine("v100-16g-pcie3", {"gpu": int(0.9 * peak)})
    plan = lt.solve(lt.Placement(graph, machine, whole=True, periodic=periodic), "planner").plan
    assert plan is not None
    begun = 0

    def slow_at_first(what: str, nbytes: int, fake: FakeCuda) -> int:
        nonlocal begun
        begun += what == "tanh"
        return 10**8 if what == "tanh" and begun <= 1 + WARM_UP else 1_000

    with FakeCuda(cost=slow_at_first, pool=2**22):
        assert run_plan(on_gpu(perceptron()), plan, iterations=3).measured_ns < 10**7


def test_predicted_tensors_are_compared_without_workspaces() -> None:
    graph = perceptron().graph
    more = replace(graph, ops=tuple(replace(op, workspace=10**6) for op in graph.ops))
    found = run_plan(perceptron(), lt.Plan.from_order(more, range(len(more.ops))), more)
    assert found.same_profile
    assert found.predicted_peaks["memory"] == found.measured_peaks["memory"] + 10**6


def test_algorithms_are_deterministic_where_there_are_some(monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch warns of others, and is left as it was; cuBLAS is told before its first product."""
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", "")
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG")
    with deterministic("cuda"):
        assert torch.are_deterministic_algorithms_enabled()
        assert torch.is_deterministic_algorithms_warn_only_enabled()
        assert not torch.utils.deterministic.fill_uninitialized_memory
    assert not torch.are_deterministic_algorithms_enabled()
    assert torch.utils.deterministic.fill_uninitialized_memory
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"


class Jitter:
    """Ops take ten times as long in the first steps, then each step another time."""

    def __init__(self, ops: int) -> None:
        self.ops, self.timed = ops, 0

    def __call__(self, what: str, nbytes: int, fake: FakeCuda) -> int:
        if what == "sleep":
            self.timed += 1
            return 10**6
        step = (self.timed - 1) // self.ops
        return 10**7 if step < measure.WARM_UP else 1_000 * (1 + 7 * step % 20)


@pytest.mark.slow  # a model of a device
def test_durations_are_medians_of_what_counts() -> None:
    step = on_gpu(perceptron())
    single = {"relu", "tanh", "tanh_backward", "threshold_backward"}  # one operator each, and nothing beside
    with FakeCuda(cost=Jitter(len(step.graph.ops)), pool=2**22):
        graph = measure.measured_graph(step, measure.measurement("cuda", 20, "x"))
    steps = sorted(1_000 * (1 + 7 * k % 20) for k in range(measure.WARM_UP, measure.WARM_UP + 20))
    wanted = (steps[9] + steps[10]) // 2
    found = Counter(op.duration_ns for op in graph.ops if op.kind in single)
    assert found == {wanted: sum(op.kind in single for op in graph.ops)}
    measured = Measurement(**graph.provenance["measured"])
    assert measured.device == "Model of a GPU"
    assert measured.repetitions == 20
    assert measured.conditions.startswith("deterministic algorithms, TF32 in ")
    assert measured.conditions.endswith(", x")
    assert set(measured.versions) == {"torch", "python", "cuda", "cudnn"}


def test_workspaces_are_what_an_op_took_and_gave_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here only updates do; a sum of three gradients adds to its partial sum in place."""

    class Fan(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(24, 8), nn.Linear(8, 10)

        def forward(self, x: Any) -> Any:
            y = self.first(x)
            return self.last(y.sin() + y.cos() + y.tanh())

    torch.manual_seed(0)
    labels = {"y": torch.arange(16) % 10}
    step = on_gpu(record(Fan(), {"x": torch.randn(16, 24)}, labels, nn.functional.cross_entropy))
    like = torch.empty_like

    def update(optimizer: str, parameter: Any, gradient: Any, states: Any, count: int) -> None:
        like(parameter, device="cuda")
        parameter.add_(gradient, alpha=-0.01)

    monkeypatch.setattr("lowtide.instances.torch_import.running.tensors.update", update)
    with FakeCuda(cost=cost, pool=2**22):
        graph = measure.measured_graph(step, measure.measurement("cuda", 1, ""))
        plan = lt.Plan.from_order(graph, range(len(graph.ops)))
        backend = Streams(step, plan.machine, alone=True)
        carry_out(graph, plan, backend, watch=False)
    assert backend.frugal == {i for i, op in enumerate(graph.ops) if op.kind != "sgd"}
    for op in graph.ops:
        wanted = graph.tensors[op.reads[0]].nbytes if op.kind == "sgd" else 0
        assert op.workspace == wanted, op


@pytest.mark.slow  # a model of a device
def test_machine_has_the_rates_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "SIZES", (2**10, 2**14, 2**18))
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", "")
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG")

    def told(what: str, nbytes: int, fake: FakeCuda) -> int:
        assert what != "mm" or os.environ["CUBLAS_WORKSPACE_CONFIG"]
        return cost(what, nbytes, fake)

    with FakeCuda(cost=told, total=10**10, pool=2**22):
        machine = measure.measured_machine("cuda", measure.measurement("cuda", 20, ""))
    rate = measure.SIZES[-1] * 10**9 // BYTES_PER_S
    for channel in machine.channels:
        assert channel.latency_ns == pytest.approx(COPY_NS + measure.SIZES[0] / 20, abs=2)
        assert channel.bytes_per_s == pytest.approx(BYTES_PER_S, rel=5e-3)
    (group,) = machine.groups
    assert group.bytes_per_s == pytest.approx(
        2 * measure.SIZES[-1] * 1e9 / (1.6 * (COPY_NS + rate)), rel=1e-3
    )
    assert [tier.capacity for tier in machine.tiers] == [10**10, None]
    assert machine.provenance is not None
    found = {(x.src, x.beside, x.nbytes): x.duration_ns for x in machine.provenance.transfers}
    assert len(found) == 2 * 3 * len(measure.SIZES)
    for (_, beside, nbytes), took in found.items():
        wanted = (COPY_NS + nbytes * 10**9 // BYTES_PER_S) * SLOWER[beside]
        assert took == pytest.approx(wanted, abs=2)


def test_command_writes_files_that_need_no_torch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        measure, "record_torch", lambda *_, device, **options: replace(perceptron(), device=device)
    )
    monkeypatch.setattr(measure, "SIZES", (2**10, 2**14))
    words = ["resnet18", "--device", "cuda", "--cap", "1GiB", "--repeat", "1", "--out", str(tmp_path)]
    with FakeCuda(cost=cost, total=2**33, pool=2**22) as fake:
        assert measure.main(words) == 0
    assert fake.fraction == 1 / 8
    paths = capsys.readouterr().out.split()
    code = (
        "import sys; sys.modules['torch'] = None; import lowtide as lt\n"
        f"machine, graph = lt.load_machine({paths[0]!r}), lt.load({paths[1]!r})\n"
        "plan = lt.Plan.from_order(graph, range(len(graph.ops)))\n"
        "assert lt.verify(graph, plan).valid and machine.tiers[0].capacity == 2**30\n"
        "assert graph.provenance['measured']['conditions'].endswith('cap of 1073741824 bytes')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
