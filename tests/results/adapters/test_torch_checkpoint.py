"""Selective checkpoints: what torch allocates, holds and computes is what was planned, to the byte."""

from __future__ import annotations

import doctest
import itertools
from collections import Counter
from typing import Any

import pytest

import lowtide as lt
from lowtide.adapters import torch_checkpoint
from tests.torch_allocations import measure

torch = pytest.importorskip("torch", reason="the package torch is not installed")
from tests.results.adapters.eager_modules import Regions, convolutional, residual  # noqa: E402

nn, checkpoint = torch.nn, torch.utils.checkpoint.checkpoint


def step_of(parts: Any, policy: Any = None) -> tuple[Any, Any, Any, Any]:
    torch.manual_seed(3)
    blocks, head, x, labels = parts()
    return Regions(blocks, head, policy), x, labels, nn.functional.cross_entropy


def run(step: tuple[Any, Any, Any, Any]) -> tuple[int, Counter[int], list[Any]]:
    """Run a step; return its peak, what it allocates, and its gradients and buffers."""
    module, x, labels, loss = step
    module.zero_grad(set_to_none=True)
    torch.manual_seed(4)
    peak, sizes = measure(module, [x], [labels], loss, keep=True)
    return peak, sizes, [*(p.grad for p in module.parameters()), *module.buffers()]


@pytest.mark.slow(reason="torch rehearses and runs steps")
@pytest.mark.parametrize(
    ("parts", "in_place"), [(residual, set()), (convolutional, {"empty_like", "bernoulli", "div"})]
)
def test_torch_holds_and_computes_what_was_planned(parts: Any, in_place: set[str]) -> None:
    plain_peak, plain_sizes, expected = run(step_of(parts))
    policy = torch_checkpoint.Checkpoints()
    step = step_of(parts, policy.context_fn)
    graph = policy.trace(*step)
    assert Counter(t.nbytes for t in graph.tensors) == plain_sizes
    with pytest.warns(UserWarning, match="found no choice within 0 B"):
        least = policy.choose(0)
    assert least.status == "infeasible"
    everything = policy.choose("1GiB")
    assert {name.rstrip("_0123456789") for name in everything.again} == in_place
    assert everything.time_ns == everything.bound_ns
    seen = set()
    for share in (0, 30, 60, 90):
        memory = least.peak + (everything.peak - least.peak) * share // 100
        report = policy.choose(memory)
        peak, sizes, found = run(step_of(parts, policy.context_fn))
        assert (report.status, report.time_ns) == ("optimal", report.bound_ns)
        assert peak == report.peak <= memory
        assert sizes == Counter(t.nbytes for t in report.graph.tensors)
        assert lt.verify(report.graph, report.plan).peaks == {"memory": peak}
        assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
        seen.add((peak, report.time_ns))
    assert len(seen) > 1
    assert min(seen)[0] < plain_peak
    # what torch does without the policy is something else in both
    peak, sizes, _ = run(step_of(parts, torch.utils.checkpoint.noop_context_fn))
    assert peak != report.peak
    assert sizes != Counter(t.nbytes for t in report.graph.tensors)


@pytest.mark.slow(reason="torch rehearses every policy")
def test_no_policy_is_better() -> None:
    policy = torch_checkpoint.Checkpoints()
    torch.manual_seed(3)
    blocks = [nn.Sequential(nn.Linear(6, 24), nn.Tanh(), nn.Linear(24, 6)) for _ in range(2)]
    policy.trace(Regions(blocks, nn.Linear(6, 1), policy.context_fn), torch.randn(30, 6), None, torch.sum)
    places = [place for place, op in policy.ops.items() if not op.is_view]
    assert len(places) == 6
    costs = []
    for kept in itertools.product((False, True), repeat=len(places)):
        report = policy.keep(place for place, x in zip(places, kept, strict=True) if x)
        costs.append((report.peak, report.time_ns))
    for memory in sorted({peak for peak, _ in costs})[::3]:
        report = policy.choose(memory)
        assert report.time_ns == min(time for peak, time in costs if peak <= memory)


@pytest.mark.slow(reason="torch rehearses and runs steps")
def test_a_plan_of_recompute_is_followed() -> None:
    policy = torch_checkpoint.Checkpoints()
    step = step_of(residual, policy.context_fn)
    graph = policy.trace(*step)
    peak = lt.solve(lt.Peak(graph)).objective or 0
    result = lt.solve(lt.Recompute(graph, memory=peak * 9 // 10), time_limit=5)
    report = policy.follow(result)
    assert result.plan is not None
    twice = Counter(run.op for run in result.plan.runs)
    planned = {graph.ops[i].name for i, count in twice.items() if count > 1}
    assert planned
    assert set(report.again) == planned & {*report.kept, *report.again}
    measured, sizes, _ = run(step)
    assert (measured, sizes) == (report.peak, Counter(t.nbytes for t in report.graph.tensors))


def test_passes_without_gradients_are_no_regions() -> None:
    policy = torch_checkpoint.Checkpoints()
    module, x, labels, loss = step_of(residual, policy.context_fn)
    policy.trace(module, x, labels, loss)
    with torch.no_grad():
        module.blocks[0](x)
        checkpoint(module.blocks[0], x, use_reentrant=False, context_fn=policy.context_fn)
    loss(module(x), labels).backward()


def test_another_module_is_named() -> None:
    policy = torch_checkpoint.Checkpoints()
    module, x, labels, loss = step_of(residual, policy.context_fn)
    policy.trace(module, x, labels, loss)
    module.blocks[1] = nn.Sequential(nn.Tanh())
    with pytest.raises(lt.UsageError, match=r"region 1, op 0: found aten\.tanh\.default, expected aten"):
        module(x)


@pytest.mark.parametrize(
    ("block", "match"),
    [
        (nn.Sequential(nn.BatchNorm1d(16), nn.ReLU(inplace=True)), "relu_: found a change in place"),
        (None, "found no region"),
    ],
)
def test_regions_that_are_refused(block: Any, match: str) -> None:
    policy = torch_checkpoint.Checkpoints()
    module = Regions([block] if block else [], nn.Linear(16, 1), policy.context_fn)
    with pytest.raises(lt.InstanceError, match=match):
        policy.trace(module, torch.zeros(4, 16), None, torch.sum)


def test_a_region_in_a_region_is_refused() -> None:
    policy = torch_checkpoint.Checkpoints()
    inner = Regions([nn.Linear(16, 16)], nn.Tanh(), policy.context_fn)
    module = Regions([inner], nn.Linear(16, 1), policy.context_fn)
    with pytest.raises(lt.InstanceError, match="a checkpoint within another one"):
        policy.trace(module, torch.zeros(4, 16), None, torch.sum)


def test_nothing_traced() -> None:
    policy, result = torch_checkpoint.Checkpoints(), lt.solve(lt.Peak(lt.load("catalogue:diamond")))
    with pytest.raises(lt.UsageError, match="keep: found no traced step"):
        policy.keep(())
    with pytest.raises(lt.UsageError, match="choose: found no traced step"):
        policy.choose(1)
    with pytest.raises(lt.UsageError, match="follow: found no traced step"):
        policy.follow(result)
    with pytest.raises(lt.InstanceError, match="follow: found 3, expected a Result or a Plan"):
        policy.follow(3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "options", [{"memory": "much"}, {"memory": -1}, {"memory": 1, "seed": -1}, {"memory": 1, "time_limit": 0}]
)
def test_options_out_of_range(options: dict[str, Any]) -> None:
    with pytest.raises(lt.LowtideError, match=f"choose, {[*options][-1]}: found"):
        torch_checkpoint.Checkpoints().choose(**options)


@pytest.mark.slow(reason="a plan is searched for, and torch rehearses a step")
def test_the_example_is_true() -> None:
    tried = doctest.testmod(torch_checkpoint)
    assert tried.attempted > 0
    assert not tried.failed
