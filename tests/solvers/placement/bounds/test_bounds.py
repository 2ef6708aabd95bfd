"""Bounds and plans of all methods together: no plan below a bound, and more memory never hurts."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import lowtide as lt
from lowtide.formulations.placement.bounds.single_ops import window_bound
from lowtide.formulations.placement.slots.pieces import coarse
from lowtide.formulations.placement.slots.whole_milp import build
from lowtide.formulations.placement.states import state_data
from lowtide.formulations.placement.whole.sequence import longest_stall
from lowtide.models.problems.placement import Placement
from lowtide.solvers.context import Context
from lowtide.solvers.engines.highs import solve_highs
from lowtide.solvers.placement.slots.bytes import raise_by_slots
from tests.effort import seeds, share
from tests.oracles.brute_placement import fastest
from tests.problems.placement import machine, random_graph, tiny_placement, working_set
from tests.solvers.placement.graphs import scaled
from tests.solvers.placement.slots.cases import start_of

BYTES = (
    "planner",
    "belady",
    "demand-lru",
    "deepum",
    "vdnn",
    "autoswap",
    "tmof-online",
    "g10",
    "local-search",
    "slot-lp",
    "tmof",
    "auto",
)
WHOLE = ("planner", "belady", "demand-lru", "autoswap", "tmof-online", "local-search", "slot-milp", "auto")
OPTIONS = {"local-search": {"runs": "200"}}
SCALE = 10_000


def random_run(seed: int) -> Placement:
    """A single run with little room; two tiers or three, latencies, a small host now and then."""
    rng = np.random.default_rng(seed)
    graph = scaled(random_graph(seed, 8), SCALE)
    room = working_set(graph) + int(rng.integers(0, 16)) * SCALE
    host = 200_000 if seed % 6 == 5 else None
    bench = machine(room, host, latency=700 * (seed % 3 == 1), shared=seed % 5 > 0, ssd=seed % 4 == 3)
    start = ("gpu", "host") if seed % 2 else ("gpu",)
    return Placement(graph, bench, start={"input": start, "weight": start})


def slot_bound(problem: Placement) -> int:
    context = Context(problem=problem)
    raise_by_slots(state_data(problem), context)
    assert context.bound is not None
    return context.bound


def whole_bound(problem: Placement) -> int | None:
    """Return the bound of the lower model on one piece per run and stall; None if there is no plan."""
    data = state_data(problem)
    context = Context(problem=problem, time_limit=None)
    built = build(coarse(data), most=longest_stall(data), upper=False)
    outcome = solve_highs(
        built.model, context, decode=lambda value: None, to_objective=lambda units: data.ideal + units
    )
    assert outcome.infeasible == (context.bound is None)
    return context.bound


def solved(problem: Placement, method: str, hint: lt.Plan | None = None) -> lt.Result | None:
    """Return the result, verified if it has a plan; None if the method does not serve the problem."""
    try:
        result = lt.solve(
            problem, method, threads=1, time_limit=None, hint=hint, options=OPTIONS.get(method, {})
        )
    except lt.UsageError:
        return None
    assert result.status is not lt.Status.FAILED, (method, result.detail)
    return result


@pytest.mark.slow
@pytest.mark.parametrize("block", range(3))
def test_no_plan_is_below_a_bound(block: int) -> None:
    plans = 0
    for seed in (6 * block + k for k in seeds(6, least=2)):
        problem = random_run(seed)
        data = state_data(problem)
        bounds = {"ideal": data.ideal, "window": window_bound(data), "slots": slot_bound(problem)}
        whole = replace(problem, whole=True)
        found = {name: solved(problem, name) for name in BYTES}
        found |= {f"whole {name}": solved(whole, name) for name in WHOLE}
        for name, result in found.items():
            if result is None:
                continue
            if problem.impossible():
                assert result.objective is None, (seed, name)
            if result.bound is not None:
                bounds[name] = result.bound
        times = {name: r.objective for name, r in found.items() if r is not None and r.objective is not None}
        if data.capacity[1:] == (None,):
            if (bound := whole_bound(whole)) is None:
                assert not any("whole" in name for name in times), (seed, times)
            else:
                bounds["whole slots"] = bound
        plans += len(times)
        for kind, bound in bounds.items():
            for name, time in times.items():
                if "whole" not in kind or "whole" in name:
                    assert bound <= time, (seed, kind, name)
    assert plans > share(30, least=10)


@pytest.mark.parametrize("seed", seeds(12))
def test_more_memory_never_hurts_an_optimum_or_a_bound(seed: int) -> None:
    problem = tiny_placement(seed)
    tier = problem.machine.tiers[0]
    assert tier.capacity is not None
    optima, bounds = [], list[tuple[int, ...]]()
    for more in (0, 1, 3, 8):
        larger = with_device(problem, tier.capacity + more)
        best = fastest(larger.graph, larger.machine, start_of(larger))
        assert best is not None
        assert lt.solve(larger, "slot-milp", threads=1, time_limit=None).objective == best
        optima.append(best)
        data = state_data(larger)
        bounds.append((window_bound(data), slot_bound(larger), whole_bound(larger) or 0))
    assert optima == sorted(optima, reverse=True)
    for small, large in pairwise(bounds):
        assert all(b <= a + 1 for a, b in zip(small, large, strict=True))  # 1 ns: safe duals are rounded


def with_device(problem: Placement, capacity: int) -> Placement:
    tier = replace(problem.machine.tiers[0], capacity=capacity)
    return replace(problem, machine=replace(problem.machine, tiers=(tier, *problem.machine.tiers[1:])))


@pytest.mark.parametrize("periodic", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_more_memory_never_hurts_auto_with_the_smaller_plan_as_hint(seed: int, periodic: bool) -> None:
    problem = random_run(4 * seed)
    if periodic:
        problem = replace(problem, periodic=True, start={"input": ("gpu",)})
    hint, last = None, None
    for more in (0, 2, 5, 9):
        device = problem.machine.tiers[0].capacity
        assert device is not None
        larger = with_device(problem, device + more * SCALE)
        if hint is not None:
            hint = replace(hint, machine=larger.machine)
        result = solved(larger, "auto", hint)
        assert result is not None
        if result.plan is not None:
            assert last is None or (result.objective is not None and result.objective <= last)
            hint, last = result.plan, result.objective
    assert last is not None


@pytest.mark.parametrize("seed", range(8))
def test_a_budget_of_the_peak_takes_the_sum_of_durations(seed: int) -> None:
    graph = scaled(random_graph(seed, 8), SCALE)
    peak = lt.Peak(graph).evaluate(tuple(range(len(graph.ops))))
    start = dict.fromkeys(("input", "weight"), ("gpu",))
    problem = Placement(graph, machine(peak, None, ssd=False), start=start)
    ideal = sum(op.duration_ns for op in graph.ops)
    for name in ("planner", "belady", "demand-lru", "autoswap", "slot-lp", "tmof", "auto"):
        result = solved(problem, name)
        assert result is not None
        assert (result.status, result.objective) == (lt.Status.OPTIMAL, ideal), name
    for name in ("slot-milp", "planner"):
        result = solved(replace(problem, whole=True), name)
        assert result is not None
        assert result.objective == ideal, name


def epochs(problem: Placement, length: int) -> int:
    """Return what a program over epochs of `length` ops claims: what one accesses is there for all of it."""
    import pyomo.environ as pyo

    graph, rates = problem.graph, {(c.src, c.dst): c.bytes_per_s for c in problem.machine.channels}
    blocks = [range(k, min(k + length, len(graph.ops))) for k in range(0, len(graph.ops), length)]
    accessed = [{t for k in block for t in (*graph.ops[k].reads, *graph.ops[k].writes)} for block in blocks]
    life = {t: [e for e, some in enumerate(accessed) if t in some] for t in range(len(graph.tensors))}
    model = pyo.ConcreteModel()
    keys = [(t, e) for t, some in life.items() for e in range(some[0], some[-1] + 1)]
    model.here = pyo.Var(keys, domain=pyo.Binary)
    model.stall = pyo.Var(range(len(blocks)), domain=pyo.NonNegativeReals)
    model.objective = pyo.Objective(expr=sum(model.stall.values()))
    model.rows = pyo.ConstraintList()
    for t, e in keys:
        if t in accessed[e]:
            model.rows.add(model.here[t, e] == 1)
    capacity = problem.machine.tiers[0].capacity
    for e, block in enumerate(blocks):
        some = [t for t, other in keys if other == e]
        if some:
            model.rows.add(sum(graph.tensors[t].nbytes * model.here[t, e] for t in some) <= capacity)
        time = sum(graph.ops[k].duration_ns for k in block) + model.stall[e]
        for pair, sign in ((("gpu", "host"), 1), (("host", "gpu"), -1)):
            moved = pyo.Var(some, domain=pyo.NonNegativeReals)
            model.add_component(f"moved {e} {pair}", moved)
            for t in some:
                if (t, e + 1) in model.here:
                    change = sign * (model.here[t, e] - model.here[t, e + 1])
                    model.rows.add(moved[t] >= graph.tensors[t].nbytes * change)
            if some:
                model.rows.add(sum(moved.values()) * (10**9 / rates[pair]) <= time)
    context = Context(problem=problem, time_limit=None)
    ideal = sum(op.duration_ns for op in graph.ops)
    solve_highs(model, context, decode=lambda value: None, to_objective=lambda units: ideal + units)
    assert context.bound is not None
    return context.bound


def test_aggregation_into_epochs_is_no_bound() -> None:
    # `keep` is idle while `first` and `second` need 10,000 bytes each, one after the other, never together
    graph = lt.Graph(
        name="one after the other",
        tensors=tuple(lt.Tensor(name=x, nbytes=10_000) for x in ("keep", "first", "second")),
        ops=(
            lt.Op(name="make", writes=(0,), duration_ns=100_000),
            lt.Op(name="wait", duration_ns=100_000),
            lt.Op(name="one", writes=(1,), duration_ns=100_000),
            lt.Op(name="two", writes=(2,), duration_ns=100_000),
            lt.Op(name="use", reads=(0,), duration_ns=100_000),
            lt.Op(name="end", duration_ns=100_000),
        ),
    )
    problem = Placement(graph, machine(20_000, None, ssd=False))
    result = lt.solve(problem, "slot-lp", threads=1)
    assert result.status is lt.Status.OPTIMAL
    assert result.objective == 600_000
    beside = 600_000 + 1_800_000 + 1_466_667  # out beside two ops, in beside two
    assert epochs(problem, 2) >= beside * 0.9999  # what the engine claims of an optimum
    assert slot_bound(problem) == epochs(problem, 1) == 600_000


def test_epochs_of_real_ops_claim_more_than_a_verified_plan_needs() -> None:
    graph = lt.load("gen:skipchain?n=20&seed=3")
    graph = replace(graph, tensors=tuple(replace(t, nbytes=t.nbytes // 2_000) for t in graph.tensors))
    device = lt.Peak(graph).evaluate(tuple(range(len(graph.ops)))) * 8 // 10
    problem = Placement(graph, machine(device, None, ssd=False))
    result = lt.solve(problem, "slot-lp", threads=1)
    assert result.objective is not None
    assert 1.2 * result.objective < epochs(problem, 2)
