"""Plans of real steps on real tensors: the bits of the eager step, and the verifier's profile."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import lowtide as lt
from lowtide.instances.torch_import import record_torch
from lowtide.instances.torch_import.recording import Step, record
from lowtide.instances.torch_import.running.carry_out import carry_out
from lowtide.models.errors import InstanceError, VerificationError
from lowtide.models.plan import Plan

torch = pytest.importorskip("torch", reason="the package torch is not installed")
nn = torch.nn
torch.set_num_threads(1)  # threads that wait for each other on busy cores take minutes

from lowtide.instances.torch_import.running.__main__ import main  # noqa: E402  (needs torch)
from lowtide.instances.torch_import.running.run import Comparison, run_plan  # noqa: E402
from lowtide.instances.torch_import.running.tensors import Tensors  # noqa: E402


def perceptron() -> Any:
    layers = (nn.Linear(24, 40), nn.ReLU(), nn.Linear(40, 40), nn.Tanh(), nn.Linear(40, 10))
    return nn.Sequential(*layers), {"x": torch.randn(16, 24)}


def convolutional() -> Any:
    layers = (
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3),
    )
    return nn.Sequential(*layers, nn.ReLU(), nn.Flatten(), nn.Linear(32, 10)), {"x": torch.randn(16, 3, 8, 8)}


def transformer() -> Any:
    from lowtide.instances.torch_import.architectures.attention import Block, Dropout

    layers = (Block(16, 2, causal=True), Dropout(0.2), Block(16, 2), nn.Flatten(), nn.Linear(96, 10))
    return nn.Sequential(*layers), {"x": torch.randn(16, 6, 16)}


NETWORKS = {"perceptron": perceptron, "convolutional": convolutional, "transformer": transformer}
"""The last one draws random numbers."""

CASES = [("perceptron", "sgd"), ("convolutional", "momentum"), ("transformer", "adamw")]


@cache
def step(name: str, optimizer: str) -> Step:
    torch.manual_seed(0)
    module, inputs = NETWORKS[name]()
    targets = {"y": torch.arange(16) % 10}
    return record(module, inputs, targets, nn.functional.cross_entropy, optimizer=optimizer, name=name)


def agrees(found: Comparison, parameters: int = 4) -> None:
    assert found.compared > 2 * parameters  # their gradients, and the loss
    assert found.same_profile
    assert found.measured_peaks == found.predicted_peaks
    assert found.differing == ()
    assert found.operators_ns > 0


def reference(of: Step) -> Plan:
    return Plan.from_order(of.graph, range(len(of.graph.ops)))


def peak_of(of: Step) -> int:
    return lt.verify(of.graph, reference(of)).peaks["memory"]


def placed(of: Step, *, share: float = 0.8, **question: Any) -> Plan:
    machine = lt.load_machine("v100-16g-pcie3", {"gpu": int(share * peak_of(of))})
    result = lt.solve(lt.Placement(of.graph, machine, whole=True, **question), "planner", seed=1)
    assert result.plan is not None
    assert result.plan.copies
    return result.plan


@pytest.mark.parametrize(("name", "optimizer"), CASES)
def test_an_order(name: str, optimizer: str) -> None:
    """The reference order, and another one; every parameter gets a gradient, which is compared too."""
    found = step(name, optimizer)
    agrees(run_plan(found, reference(found)))
    plan = lt.solve(lt.Peak(found.graph), "beam").plan
    assert plan is not None
    agrees(run_plan(found, plan))
    assert len(found.trace.gradients) == len([*found.module.parameters()])


@pytest.mark.parametrize(("name", "optimizer"), CASES)
def test_swapping_to_a_host(name: str, optimizer: str) -> None:
    found = step(name, optimizer)
    agrees(run_plan(found, placed(found), iterations=2))


@pytest.mark.parametrize(("name", "optimizer"), CASES)
def test_three_iterations_of_a_period(name: str, optimizer: str) -> None:
    """Parameters and states go on from iteration to iteration, and copies cross from one to the next."""
    found = step(name, optimizer)
    agrees(run_plan(found, placed(found, periodic=True), iterations=3))


@pytest.mark.parametrize(
    ("name", "optimizer", "method", "share"),
    [
        ("convolutional", "momentum", "auto", 0.8),
        ("transformer", "adamw", "segments", 0.7),
    ],
)
def test_ops_that_run_again(name: str, optimizer: str, method: str, share: float) -> None:
    """Also dropout: what an op drew it draws again."""
    found = step(name, optimizer)
    plan = lt.solve(lt.Recompute(found.graph, memory=int(share * peak_of(found))), method).plan
    assert plan is not None
    assert len(plan.runs) > len(found.graph.ops)
    agrees(run_plan(found, plan))
    again = [op for op in range(len(found.graph.ops)) if sum(run.op == op for run in plan.runs) > 1]
    assert any("dropout" in found.graph.ops[op].kind for op in again) == (name == "transformer")


@pytest.mark.slow  # auto searches until a limit
def test_copies_and_second_runs_together() -> None:
    found = step("transformer", "adamw")
    machine = lt.load_machine("v100-16g-pcie3", {"gpu": int(0.6 * peak_of(found))})
    problem = lt.Placement(found.graph, machine, whole=True, recompute=True)
    plan = lt.solve(problem, time_limit=4, seed=1).plan
    assert plan is not None
    assert plan.copies
    agrees(run_plan(found, plan))


def test_a_network_by_name() -> None:
    found = record_torch("resnet18", image=32, batch=2, train=1, weights=1)
    assert found.graph == lt.load("torch:resnet18?image=32&batch=2&train=1&weights=1")


@pytest.mark.parametrize("kind", ["autocast", "bf16", "checkpoint", "exported", "by name"])
def test_modules_of_all_kinds(kind: str) -> None:
    """As `lowtide.trace` takes them; torch's own step runs the module under the same autocast."""
    torch.manual_seed(0)
    module, rows, labels = perceptron()[0], torch.randn(16, 24), torch.arange(16) % 10
    given: Any = module
    if kind == "bf16":
        given, rows = module.bfloat16(), rows.bfloat16()
    elif kind == "checkpoint":
        given = nn.Sequential(*module[:2], Checkpointed(module[2:4]), module[4])
    elif kind == "exported":
        given = torch.export.export(module, (rows,))
    found = record(
        given,
        {"input": rows} if kind == "by name" else None if kind == "exported" else rows,
        labels,
        nn.functional.cross_entropy,
        optimizer="adamw",
        autocast="bf16" if kind == "autocast" else None,
    )
    agrees(run_plan(found, reference(found)))
    agrees(run_plan(found, placed(found)))
    assert (sum(op.kind == "tanh" for op in found.graph.ops) == 2) == (kind == "checkpoint")


class Checkpointed(nn.Module):  # type: ignore[misc,name-defined]
    """A module that runs again in the backward pass."""

    def __init__(self, module: Any) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: Any) -> Any:
        return torch.utils.checkpoint.checkpoint(self.module, x, use_reentrant=False)


def test_a_module_without_content_cannot_run() -> None:
    with torch.device("meta"):
        module = perceptron()[0]
    found = record(module, torch.zeros(16, 24))
    with pytest.raises(InstanceError, match=r"tensor '0.weight' .*without content, expected one on the CPU"):
        run_plan(found, reference(found))


def test_inference() -> None:
    torch.manual_seed(0)
    module, inputs = convolutional()
    found = record(module, inputs)
    seen = Tensors(found, keep=())
    carry_out(found.graph, reference(found), seen)
    (value,) = (seen.results[t] for t, x in enumerate(found.graph.tensors) if x.kind == "output")
    assert torch.equal(value, module.eval()(*inputs.values()))
    assert run_plan(found, reference(found)).differing is None


class InPlace(nn.Module):  # type: ignore[misc,name-defined]
    """Ops that change what they are given, a view of it, a buffer; and ops that look at shapes only."""

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.last = nn.Parameter(torch.rand(24)), nn.Linear(24, 10)
        self.register_buffer("total", torch.zeros(24))

    def forward(self, x: Any) -> Any:
        self.total.add_(x.detach().sum(0))
        y = torch.zeros_like(x) + torch.full_like(x, 0.5) + torch.rand_like(x) + torch.ones_like(x)
        y[:, 3:7] = (x * self.scale)[:, :4]
        z = (y.t().contiguous().t() * self.total).relu_()
        return self.last(torch.cat([z[:, 12:], z[:, :12]], 1)) + self.last(
            z * self.scale + torch.randn_like(z)
        )


def test_views_and_changes_in_place() -> None:
    torch.manual_seed(0)
    labels = {"y": torch.arange(16) % 10}
    found = record(InPlace(), {"x": torch.randn(16, 24)}, labels, nn.functional.cross_entropy)
    agrees(run_plan(found, reference(found)), parameters=3)
    agrees(run_plan(found, placed(found)), parameters=3)
    assert {"copy_", "relu_", "add_", "rand_like", "full_like"} <= {op.kind for op in found.graph.ops}


def test_what_kernels_return_otherwise_than_traced() -> None:
    """As cuDNN does: other strides, brought into the traced ones, and bytes that no trace knows of."""

    def operator(name: str, schema: str, real: Any, traced: Any) -> Any:
        found = torch.library.custom_op(f"lowtide_tests::{name}", real, mutates_args=(), schema=schema)
        found.register_fake(traced)
        return found

    otherwise = operator(
        "otherwise",
        "(Tensor x) -> (Tensor, Tensor)",
        lambda x: ((x * 2).t().contiguous().t(), torch.arange(5, dtype=torch.uint8)),
        lambda x: (torch.empty_like(x), x.new_empty(0, dtype=torch.uint8)),
    )
    both = operator(
        "both",
        "(Tensor x, Tensor reserve) -> Tensor",
        lambda x, reserve: x + reserve.sum(),
        lambda x, reserve: torch.empty_like(x),
    )

    class Module(nn.Module):  # type: ignore[misc,name-defined]
        def forward(self, x: Any) -> Any:
            return both(*otherwise(x + 1))

    x = torch.randn(3, 4)
    found = record(Module(), {"x": x})
    plan = reference(found)
    seen = Tensors(found, keep=())
    carry_out(found.graph, plan, seen)
    (value,) = (seen.results[t] for t, x in enumerate(found.graph.tensors) if x.kind == "output")
    assert torch.equal(value, (x + 1) * 2 + 10)
    assert value.stride() == (4, 1)
    assert not run_plan(found, plan).same_profile  # the five bytes are seen


def test_sums_are_added_in_the_traced_order() -> None:
    """Also where both terms are sums themselves."""

    class Fan(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(24, 8), nn.Linear(8, 10)

        def forward(self, x: Any) -> Any:
            y = self.first(x)
            return self.last(y.sin() + y.cos() + y.tanh() + (y.exp() + y.sigmoid()) * 0.1)

    torch.manual_seed(0)
    labels = {"y": torch.arange(16) % 10}
    found = record(Fan(), {"x": torch.randn(16, 24)}, labels, nn.functional.cross_entropy)
    assert len(found.lowered.absorbed) > 2
    agrees(run_plan(found, reference(found)))


def test_what_is_left_out_is_found_out() -> None:
    """Missing copies, and tensors that are freed too early, by the runner itself and not by the verifier."""
    found = step("perceptron", "sgd")
    plan = placed(found)
    back = next(n for n, copy in enumerate(plan.copies) if copy.dst == "gpu" and copy.start > 0)
    copies = (*plan.copies[:back], *plan.copies[back + 1 :])
    with pytest.raises(VerificationError, match=r"tensor \d+ '.*' is .*, expected"):
        carry_out(found.graph, replace(plan, copies=copies), Tensors(found))
    early = max(range(len(plan.frees)), key=lambda n: plan.frees[n].time)
    frees = (*plan.frees[:early], replace(plan.frees[early], time=1), *plan.frees[early + 1 :])
    with pytest.raises(VerificationError, match=r"(run|copy|free) \d+ .*tensor \d+"):
        carry_out(found.graph, replace(plan, frees=frees), Tensors(found))
    with pytest.raises(VerificationError, match="plan: found"):
        run_plan(found, replace(plan, frees=frees))


def test_memory_that_is_not_released_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bytes are those that torch holds, not those that the runner believes to be there."""
    found = step("perceptron", "sgd")
    leaks: list[Any] = []

    class Leaking(Tensors):
        def free(self, tensor: int, tier: str) -> None:
            leaks.append(self._held[tensor, tier])
            super().free(tensor, tier)

    leaking = carry_out(found.graph, reference(found), Leaking(found)).profiles["memory"]
    right = carry_out(found.graph, reference(found), Tensors(found)).profiles["memory"]
    assert leaking[-1][1] == right[-1][1] + sum(storage.nbytes() for storage in leaks)
    module = "lowtide.instances.torch_import.running.run"
    monkeypatch.setattr(
        f"{module}.backend_of",
        lambda found, plan, keep=None, drawn=None, **_: Leaking(found, keep=keep, drawn=drawn),
    )
    assert not run_plan(found, reference(found)).same_profile


def test_another_graph_is_refused() -> None:
    found = step("perceptron", "sgd")
    dropped = found.graph.drop({"weight"})
    with pytest.raises(InstanceError, match="found other tensors than the recorded step"):
        run_plan(found, Plan.from_order(dropped, range(len(dropped.ops))), dropped)
    with pytest.raises(InstanceError, match=r"found \d+ ops, expected the \d+ of the recorded step"):
        run_plan(found, reference(found), replace(found.graph, ops=found.graph.ops[:-1]))
    with pytest.raises(InstanceError, match="iterations: found 0, expected at least 1"):
        run_plan(found, reference(found), iterations=0)


@pytest.mark.slow  # a whole network, traced and run three times
def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph = lt.load("torch:resnet18?image=32&batch=2&train=1&weights=1")
    path = str(tmp_path / "plan.json")
    lt.save(Plan.from_order(graph, range(len(graph.ops))), path)
    assert main([path, "--json", "--iterations", "2"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["measured_peaks"] == said["predicted_peaks"]
    assert said["differing"] == []
    assert main([path]) == 0
    assert "bit by bit those of the eager step" in capsys.readouterr().out
    assert main([path, "--seed", "-1"]) == 2
    assert "seed: found -1, expected an integer >= 0" in capsys.readouterr().err
    if not torch.cuda.is_available():
        assert main([path, "--device", "cuda"]) == 2
        assert "torch sees no CUDA device" in capsys.readouterr().err
    lt.save(Plan.from_order(lt.load("catalogue:diamond"), range(4)), path)
    assert main([path]) == 2
    assert "expected one for torch:NAME" in capsys.readouterr().err
