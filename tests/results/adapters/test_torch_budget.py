"""Budgets of torch.compile: what torch saves, runs again and needs is what was planned."""

from __future__ import annotations

import copy
import random
import warnings
from itertools import pairwise
from typing import Any

import pytest

import lowtide as lt
from lowtide.adapters import torch_budget

torch = pytest.importorskip("torch", reason="the package torch is not installed")

from lowtide.results.adapters.joint_graph import joint_graph  # noqa: E402
from lowtide.results.adapters.saved_sets import SavedSets  # noqa: E402

BACKEND = "aot_eager_decomp_partition"


class Blocks(torch.nn.Module):  # type: ignore[misc, name-defined]
    """A convolution with its norm and pooling, and residual blocks behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.head = torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.MaxPool2d(2)
        )
        self.down = torch.nn.Linear(8 * 49, 16)
        self.blocks = torch.nn.ModuleList(
            torch.nn.Sequential(
                torch.nn.LayerNorm(16), torch.nn.Linear(16, 64), torch.nn.GELU(), torch.nn.Linear(64, 16)
            )
            for _ in range(2)
        )

    def forward(self, x: Any) -> Any:
        x = self.down(self.head(x).flatten(1))
        for block in self.blocks:
            x = x + block(x)
        return x.square().mean()


def with_dropout() -> Any:
    """Return a perceptron that draws random numbers in forward."""
    widths = [*(32, 256) * 3, 32]
    parts: list[Any] = [torch.nn.Flatten(), torch.nn.Linear(768, 32)]
    for wide, narrow in pairwise(widths):
        parts += [torch.nn.Linear(wide, narrow), torch.nn.GELU(), torch.nn.Dropout(0.5)]
    return torch.nn.Sequential(*parts)


def run(module_of: Any = Blocks, **options: Any) -> tuple[Any, int, list[Any]]:
    """Compile and run a step; return its loss, the bytes that torch saved in forward, and the gradients."""
    from torch._functorch import config

    torch._dynamo.reset()
    torch.manual_seed(0)
    module, x = module_of(), torch.randn(64, 3, 16, 16)
    with config.patch(**options):
        loss = torch.compile(lambda x: module(x).mean(), backend=BACKEND)(x)
        held = {y.untyped_storage().data_ptr() for y in (x, *module.parameters(), *module.buffers())}
        saved = {
            y.untyped_storage().data_ptr(): y.untyped_storage().nbytes() for y in loss.grad_fn.saved_tensors
        }
        loss.backward()
    gradients = [parameter.grad for parameter in module.parameters()]
    return loss, sum(n for pointer, n in saved.items() if pointer not in held), gradients


@pytest.fixture(scope="module")
def joint() -> Any:
    """Return the joint module of the step."""
    found: list[Any] = []

    def keep(module: Any, joint_inputs: Any) -> Any:
        found.append(copy.deepcopy(module))
        return module

    run(joint_custom_pass=keep)
    return found[0]


@pytest.mark.slow(reason="torch partitions graphs again and again")
def test_torch_runs_what_a_saved_set_says(joint: Any) -> None:
    lowered = joint_graph(joint.graph)
    sets = SavedSets(lowered.graph, 10**12, wide=False, views=lowered.views)
    rng, seen = random.Random(0), set()
    some = sorted(sets.boundary())
    for k in range(12):
        planned = sets.partition(rng.sample(some, rng.randint(0, len(some)) if k else len(some)))
        found = torch_budget.true_peak(joint, torch_budget.marks_of(lowered, planned, wide=False))
        assert found.again == tuple(sorted(lowered.graph.ops[i].name for i in planned.again))
        assert (found.peak, found.time_ns) == (planned.peak, planned.time)
        assert found.saved_bytes == sum(lowered.graph.tensors[t].nbytes for t in planned.saved)
        seen.add((found.peak, found.time_ns))
    assert len(seen) > 4


@pytest.mark.slow(reason="torch partitions graphs again and again")
def test_a_budget_holds_and_torch_saves_what_was_planned(joint: Any) -> None:
    default = torch_budget.true_peak(joint, {})
    loss, nbytes, gradients = run()
    assert nbytes == default.saved_bytes
    limit = torch_budget.budget(default.peak * 8 // 10, time_limit=15)
    other, fewer, same = run(joint_custom_pass=limit.joint_pass)
    (report,) = limit.reports
    assert report.peak <= report.memory < default.peak
    assert report.least_ns <= (report.bound_ns or 0) <= report.time_ns
    assert fewer == report.saved_bytes < nbytes
    assert torch.equal(loss, other)
    assert all(torch.equal(a, b) for a, b in zip(gradients, same, strict=True))


@pytest.mark.slow(reason="torch partitions graphs again and again")
def test_random_numbers_are_drawn_once() -> None:
    generous = torch_budget.budget("1GiB", time_limit=3)
    _, nbytes, gradients = run(with_dropout, joint_custom_pass=generous.joint_pass)
    limit = torch_budget.budget(generous.reports[0].peak * 85 // 100, time_limit=10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _, fewer, same = run(with_dropout, joint_custom_pass=limit.joint_pass)
    assert limit.reports[0].again
    assert not [name for name in limit.reports[0].again if "rand" in name]
    assert limit.reports[0].saved_bytes == fewer != nbytes
    assert all(torch.equal(a, b) for a, b in zip(gradients, same, strict=True))


@pytest.mark.slow(reason="torch partitions graphs again and again")
def test_torch_asks_the_solver_and_follows_it() -> None:
    saved = []
    for memory in ("1GiB", "600KiB"):
        limit = torch_budget.budget(memory, time_limit=6)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _, nbytes, _ = run(activation_memory_budget=0.3, activation_memory_budget_solver=limit)
        (report,) = limit.reports
        saved.append(nbytes)
        assert (memory == "1GiB") == (not report.again)
    assert saved[1] < saved[0]


@pytest.mark.slow(reason="torch partitions graphs again and again")
def test_an_impossible_memory_is_named(joint: Any) -> None:
    limit = torch_budget.budget("4KiB", time_limit=3)
    with pytest.warns(UserWarning, match="found no partition within 4,096 B"):
        limit.joint_pass(copy.deepcopy(joint), None)
    (report,) = limit.reports
    assert (report.status, report.bound_ns) == ("infeasible", None)
    assert report.peak > report.memory


def test_symbolic_shapes_are_refused() -> None:
    from torch._functorch import config

    torch._dynamo.reset()
    limit, module = torch_budget.budget("1GiB", time_limit=3), torch.nn.Linear(8, 4)
    with config.patch(joint_custom_pass=limit.joint_pass):
        step = torch.compile(module, backend=BACKEND, dynamic=True)
        with pytest.raises(Exception, match=r"found symbolic shapes, expected fixed ones; torch\.compile"):
            step(torch.zeros(32, 8))


@pytest.mark.slow(reason="torch.compile builds kernels")
def test_inductor_takes_the_pass() -> None:
    from torch._inductor import config

    torch._dynamo.reset()
    limit = torch_budget.budget("1GiB", time_limit=3)
    module = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.GELU(), torch.nn.Linear(64, 1))
    with config.patch(joint_custom_post_pass=limit, force_disable_caches=True):
        loss = torch.compile(module)(torch.zeros(32, 8)).sum()
        loss.backward()
    (report,) = limit.reports
    assert report.peak <= report.memory
    assert report.status == "optimal"


def test_torch_takes_a_budget_for_one_of_its_own() -> None:
    from torch._inductor.custom_graph_pass import CustomGraphPass, CustomKnapsackSolver

    limit = torch_budget.budget("12GiB")
    assert limit.memory == 12 * 2**30
    assert isinstance(limit, CustomGraphPass)
    assert isinstance(limit, CustomKnapsackSolver)
    assert limit.uuid() != torch_budget.budget("11GiB").uuid() != torch_budget.budget("11GiB", seed=1).uuid()


@pytest.mark.parametrize(
    "options",
    [
        {"memory": "much"},
        {"memory": -1},
        {"memory": 1.5},
        {"memory": 1, "time_limit": None},
        {"memory": 1, "seed": -1},
    ],
)
def test_options_out_of_range(options: dict[str, Any]) -> None:
    with pytest.raises(lt.LowtideError, match=f"budget, {[*options][-1]}: found"):
        torch_budget.budget(**options)
