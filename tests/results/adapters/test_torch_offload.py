"""Offload of saved tensors: what the device holds, and when tensors come back, is what was planned."""

from __future__ import annotations

import doctest
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

import lowtide as lt
from lowtide.adapters import torch_offload
from tests.torch_allocations import measure

torch = pytest.importorskip("torch", reason="the package torch is not installed")

from tests.results.adapters.eager_modules import Regions, convolutional, residual  # noqa: E402


class Hooked(torch.nn.Module):  # type: ignore[misc, name-defined]
    """A module and its loss, under hooks."""

    def __init__(self, module: Any, offloads: Any) -> None:
        super().__init__()
        self.module, self.offloads = module, offloads

    def forward(self, x: Any, labels: Any) -> Any:
        with self.offloads.hooks():
            return torch.nn.functional.cross_entropy(self.module(x), labels)


def traced(parts: Any) -> tuple[Any, Any, Any, Any]:
    torch.manual_seed(3)
    blocks, head, x, labels = parts()
    offloads, module = torch_offload.Offloads(), Regions(blocks, head)
    offloads.trace(module, x, labels, torch.nn.functional.cross_entropy, durations="a100-40g")
    return offloads, Hooked(module, offloads), x, labels


def run(module: Any, x: Any, labels: Any) -> tuple[int, Counter[int], list[Any]]:
    module.zero_grad(set_to_none=True)
    torch.manual_seed(4)
    peak, sizes = measure(module, [x, labels], [], lambda value: value, keep=True)
    return peak, sizes, [*(p.grad for p in module.parameters())]


def planned(graph: Any, share: int) -> Any:
    """Return a plan within a share of the least peak, in per cent."""
    peak = lt.solve(lt.Peak(graph)).objective or 0
    machine = lt.load_machine("a100-40g", {"gpu": peak * share // 100})
    result = lt.solve(lt.Placement(graph, machine, whole=True), "auto", time_limit=4)
    assert result.plan is not None
    return result


@pytest.mark.slow(reason="plans are searched for, and torch runs steps")
@pytest.mark.parametrize("parts", [residual, convolutional])
def test_the_device_holds_what_was_planned(parts: Any) -> None:
    offloads, module, x, labels = traced(parts)
    plain, sizes, expected = run(module, x, labels)
    module.zero_grad(set_to_none=True)
    assert plain == measure(module.module, [x], [labels], torch.nn.functional.cross_entropy, keep=True)[0]
    graph = offloads.graph
    assert Counter(t.nbytes for t in graph.tensors) == sizes
    peaks = set()
    for share in (90, 75):
        report = offloads.follow(planned(graph, share))
        peak, made, gradients = run(module, x, labels)
        assert peak == report.peak == lt.verify(graph, report.plan).peaks["gpu"] < plain
        back = [graph.tensors[copy.tensor].nbytes for copy in report.plan.copies if copy.dst == "gpu"]
        assert made == sizes + Counter(back)
        assert sum(back) == report.moved_bytes > 0
        assert all(torch.equal(a, b) for a, b in zip(gradients, expected, strict=True))
        peaks.add(peak)
    assert len(peaks) == 2


def copies_back(module: Any, x: Any, labels: Any) -> list[tuple[int, int]]:
    """Return for each copy to the device how many ops with new results ran before it, and its bytes."""
    from torch.utils._python_dispatch import TorchDispatchMode

    seen: list[tuple[int, int]] = []
    ran: list[Any] = []

    class Recorder(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            if func is torch.ops.aten._to_copy.default:
                seen.append((len(ran), result.untyped_storage().nbytes()))
            elif not func.is_view and func is not torch.ops.aten.detach.default:
                ran.append(func)
            return result

    module.zero_grad(set_to_none=True)
    with Recorder():
        module(x, labels).backward()
    return seen


@pytest.mark.slow(reason="torch runs steps")
def test_tensors_come_back_when_the_plan_has_them() -> None:
    offloads, module, x, labels = traced(residual)
    graph = offloads.graph
    result = planned(graph, 75)
    seen = []
    report = offloads.follow(result)
    for plan in (result.plan, early(graph, result.plan, {copy.tensor for copy in report.plan.copies})):
        report = offloads.follow(plan)
        runs = sorted(run.start for run in report.plan.runs)
        back = sorted((c.start, c.tensor) for c in report.plan.copies if c.dst == "gpu")
        lowered = [(sum(at < start for at in runs), graph.tensors[t].nbytes) for start, t in back]
        assert copies_back(module, x, labels) == lowered
        seen.append(lowered)
    assert seen[0] != seen[1]
    assert len({ran for ran, _ in seen[1]}) == 1 < len({ran for ran, _ in seen[0]})


def early(graph: Any, plan: Any, moved: set[int]) -> Any:
    """Return a plan without limits that moves these tensors, and has all back before the first gradient."""
    first = next(i for i, op in enumerate(graph.ops) if graph.tensors[op.writes[0]].kind == "gradient")
    tiers = (replace(plan.machine.tiers[0], capacity=None), *plan.machine.tiers[1:])
    order = lt.Plan.from_order(graph, range(len(graph.ops)))
    begin = sorted(order.runs, key=lambda run: run.start)[first].start
    hour = 3600 * 10**9
    late = [
        replace(run, start=run.start + hour, end=run.end + hour) for run in order.runs if run.start >= begin
    ]
    runs = [run for run in order.runs if run.start < begin] + late
    frees = [
        replace(free, tier="gpu", time=free.time + (hour if free.time > begin else 0))
        for free in order.frees
        if free.tensor not in moved or free.time > begin
    ]
    names = [tier.name for tier in plan.machine.tiers[:2]]
    copies, now = [], begin
    for src, dst in (names, names[::-1]):
        for t in sorted(moved):
            copies.append(type(plan.copies[0])(t, src, dst, now, now + 10**8))
            now += 10**8
            if src == "gpu":
                frees.append(type(order.frees[0])(t, "gpu", now))
    runs = [replace(run, processor=plan.machine.processors[0].name) for run in runs]
    machine = replace(plan.machine, tiers=tiers)
    return replace(order, machine=machine, runs=tuple(runs), copies=tuple(copies), frees=tuple(frees))


def test_another_module_is_named() -> None:
    _, module, x, labels = traced(residual)
    with pytest.raises(
        lt.UsageError, match=r"saved tensor 3: found \d+ B, expected what the traced step saves"
    ):
        module(x[:4], labels[:4])


def test_nothing_traced_and_no_plan() -> None:
    result = lt.solve(lt.Peak(lt.load("catalogue:diamond")))
    with pytest.raises(lt.UsageError, match="follow: found no traced step"):
        torch_offload.Offloads().follow(result)
    with pytest.raises(lt.InstanceError, match="follow: found 3, expected a Result or a Plan"):
        torch_offload.Offloads().follow(3)  # type: ignore[arg-type]
    offloads, *_ = traced(residual)
    with pytest.raises(lt.VerificationError, match="plan is not for graph 'Regions'"):
        offloads.follow(result)


@pytest.mark.slow(reason="a plan is searched for")
def test_a_plan_that_runs_ops_twice_is_refused() -> None:
    offloads, *_ = traced(residual)
    peak = lt.solve(lt.Peak(offloads.graph)).objective or 0
    result = lt.solve(lt.Recompute(offloads.graph, memory=peak * 9 // 10), time_limit=3)
    with pytest.raises(lt.UsageError, match="found no plan of one step"):
        offloads.follow(result)


@pytest.mark.slow(reason="a plan is searched for, and torch rehearses a step")
def test_the_example_is_true() -> None:
    tried = doctest.testmod(torch_offload)
    assert tried.attempted > 0
    assert not tried.failed
