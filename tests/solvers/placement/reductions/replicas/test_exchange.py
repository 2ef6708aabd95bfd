"""Gradients that GPUs exchange at barriers: plans verify, bounds stay below, no bytes are as before."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import permutations, product

import pytest

import lowtide as lt
from lowtide.formulations.linear_program import LinearProgram
from lowtide.formulations.placement.lanes import lanes
from lowtide.formulations.placement.slots.bytes_lp import build
from lowtide.formulations.placement.states import state_data
from lowtide.instances import load_problem
from lowtide.instances.transforms.data_parallel import data_parallel
from lowtide.models.problems.placement import Placement
from lowtide.models.units import SECOND
from lowtide.solvers.context import Context
from lowtide.solvers.engines.highs_lp import primal_values
from lowtide.solvers.placement.policies.tmof_online import SHARES
from lowtide.solvers.placement.reductions.replicas import exchange, share
from lowtide.solvers.placement.reductions.replicas.exchange import joint_bound
from lowtide.solvers.placement.reductions.replicas.runtime import RULES, carry_out
from lowtide.solvers.placement.slots.bytes import longest_stall
from tests.solvers.placement.machines import RATE_IN, RATE_OUT, linked
from tests.solvers.placement.reductions.replicas.gpu_cases import CASES, exchanging, found_in, in_step_program

SOME = CASES[4::4]


def test_a_ring_of_three_sends_four_thirds_and_reads_what_the_last_one_sent() -> None:
    spec = "gen:chain?n=4,machine=v100x4-16g-shared-pcie3,replicas=3,barriers=1,exchange=1000000"
    graph = load_problem(Placement, spec).graph
    assert [op.name for op in graph.ops[::3]] == [
        f"{x}@gpu0" for x in ("op0", "op1", "exchange 0", "op2", "op3", "exchange 1")
    ]
    sent = [[t for t in graph.ops[k].writes if graph.tensors[t].kind == "gradient"] for k in range(3, 6)]
    assert [graph.ops[k].reads for k in range(6, 9)] == [(sent[2][0],), (sent[0][0],), (sent[1][0],)]
    assert {graph.tensors[t].nbytes for some in sent for t in some} == {1_333_334}
    assert all(graph.ops[k].after == (3, 4, 5) for k in range(6, 9))
    assert all(graph.ops[9 + g].after == (6 + g,) for g in range(3))


@pytest.mark.parametrize("barriers", [0, 2])
def test_nothing_to_exchange_or_nobody_to_exchange_it_with_is_as_before(barriers: int) -> None:
    graph, _ = CASES[-1]
    two = ["gpu0", "gpu1"]
    assert data_parallel(graph, two, barriers, 0).sha256 == data_parallel(graph, two, barriers).sha256
    assert (
        data_parallel(graph, two[:1], barriers, 999).sha256 == data_parallel(graph, two[:1], barriers).sha256
    )
    with pytest.raises(lt.LowtideError, match="found -1 bytes to exchange"):
        data_parallel(graph, two, barriers, -1)
    with pytest.raises(lt.LowtideError, match="found exchange, expected copies or replicas"):
        lt.load("gen:chain?n=4,exchange=1MB")


@pytest.mark.slow
@pytest.mark.parametrize(("graph", "device"), SOME)
@pytest.mark.parametrize(("many", "barriers"), [(2, 0), (3, 1), (2, 3)])
def test_plans_verify_and_no_bound_is_above_any_of_them(
    graph: lt.Graph, device: int, many: int, barriers: int
) -> None:
    problem = exchanging(graph, many, device, 40_000, barriers)
    results = [
        lt.solve(problem, m, threads=1, time_limit=None)
        for m in ("slot-lp", "planner", "belady", "tmof", "serial")
    ]
    for name in SHARES:
        results.append(lt.solve(problem, "tmof-online", threads=1, time_limit=None, options={"share": name}))
    assert all(r.status is not lt.Status.FAILED for r in results), [r.detail for r in results]
    bounds = [r.bound for r in results if r.bound is not None]
    times = [r.objective for r in results if r.objective is not None]
    in_step = [r.facts[key] for r in results for key in ("in_step_bound", "form_bound") if key in r.facts]
    assert len(times) == 9
    assert len(in_step) == (4 if many == 2 else 1)  # thirds of a rate are rounded
    assert max(bounds) <= min(times)
    assert max(in_step) <= min(r.facts["in_step"] for r in results if "in_step" in r.facts)
    assert max(in_step) <= (results[3].objective or 0)  # of TMOF's MILP, in step


@pytest.mark.slow
@pytest.mark.parametrize(("graph", "device"), SOME[::2])
def test_both_runtimes_carry_out_any_plan(graph: lt.Graph, device: int) -> None:
    for accounting in lt.Accounting:
        found = found_in(exchanging(replace(graph, accounting=accounting), 3, device, 30_000, 1))
        plans = [
            lt.solve(found.alone, m, threads=1, time_limit=None).plan
            for m in ("belady", "demand-lru", "serial")
        ]
        assert all(plans)
        for chosen in ([plans[0]] * 3, plans):
            for rule in RULES:
                for strict in (False, True):
                    plan = carry_out(found, [x for x in chosen if x is not None], rule, strict=strict)
                    assert found.problem.judge(plan).violations == ()


def test_what_is_not_exchanged_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, device = CASES[-1]
    found = found_in(exchanging(graph, 2, device, 30_000, 1))
    one = lt.solve(found.alone, "planner", threads=1, time_limit=None).plan
    assert one is not None
    assert found.problem.judge(carry_out(found, [one, one])).violations == ()
    monkeypatch.setattr(share, "with_windows", lambda problem, parts, plan: plan)
    assert "read" in {v.kind for v in found.problem.judge(found.spread([one, one])).violations}


@pytest.mark.slow
@pytest.mark.parametrize("latency", [0, 3000])
def test_channels_between_gpus_carry_the_ring(latency: int) -> None:
    graph, device = CASES[-1]
    bench = linked(2, device + 80_000, RATE_OUT, RATE_IN, between=RATE_OUT)
    channels = tuple(replace(c, latency_ns=latency) for c in bench.channels)
    problem = exchanging(graph, 2, device, 30_000, 1, bench=replace(bench, channels=channels))
    for method in ("planner", "tmof", "belady"):
        result = lt.solve(problem, method, threads=1, time_limit=None)
        assert result.plan is not None, result.detail
        direct = [c for c in result.plan.copies if {c.src, c.dst} == {"gpu0", "gpu1"}]
        assert sum((c.bytes or (0, 30_000))[1] - (c.bytes or (0, 30_000))[0] for c in direct) == 4 * 30_000
        assert result.bound is not None
        assert result.bound <= (result.objective or 0)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["planner", "slot-lp", "tmof"])
def test_a_period_with_exchange(method: str) -> None:
    spec = (
        "gen:skipchain?n=12,seed=1,machine=v100x4-16g-shared-pcie3,device=560MB,replicas=2,periodic=1,"
        "start.input=host,barriers=1,exchange=20MB"
    )
    result = lt.solve(load_problem(Placement, spec), method, threads=1, time_limit=None)
    assert result.objective is not None, result.detail
    assert result.bound is not None
    step = result.facts.get("in_step_bound", result.facts.get("form_bound", 0))
    assert result.bound <= step <= result.objective


def optimum(program: LinearProgram, problem: Placement) -> float:
    values = primal_values(program, Context(problem=problem), 60.0, vertex=True)
    assert values is not None
    return sum(c * x for c, x in zip(program.cost, values, strict=True))


@pytest.mark.parametrize(("graph", "device"), SOME)
@pytest.mark.parametrize("rate_in", [RATE_OUT, RATE_IN])
def test_the_program_in_step_has_the_optimum_of_one_on_its_share_and_the_windows(
    graph: lt.Graph, device: int, rate_in: int
) -> None:
    nbytes = 40_000
    bench = linked(2, device + 2 * nbytes, RATE_OUT, rate_in)
    found = found_in(exchanging(graph, 2, device, nbytes, 1, bench=bench))
    if found.problem.impossible():
        return
    one, shared = state_data(found.alone), state_data(found.shared)
    stall = 2 * longest_stall(shared) + 10**8
    slots = build(one, stall=stall)
    together = in_step_program(slots, 2)
    for place, op in enumerate(found.alone.graph.ops):
        if op.kind != "Exchange":
            continue
        column = slots.stalls[[p.op for p in slots.cut.pieces if not p.run].index(place)]
        for rate in (RATE_OUT, rate_in):  # also where nothing else passes
            together.low.append(2 * nbytes * SECOND)
            together.scale.append(SECOND)
            together.column.append(column)
            together.value.append(rate)
            together.first.append(len(together.column))
        for r in range(len(together.low) - 2):
            terms = range(together.first[r], together.first[r + 1])
            if any(together.value[k] == -SECOND for k in terms) and column in [
                together.column[k] for k in terms
            ]:
                together.low[r] += 2 * nbytes * SECOND
    least = optimum(build(shared, stall=stall).program, found.problem)
    windows = [Fraction(2 * 2 * nbytes * SECOND, rate) for rate in (max(RATE_OUT, rate_in), RATE_OUT)]
    assert found.step_delay == int(windows[0])
    assert least + windows[0] - 1 <= optimum(together, found.problem) <= least + windows[1] + 1


def served(
    many: int, stages: list[int], size: Fraction, orders: tuple[tuple[int, ...], ...]
) -> list[Fraction]:
    """Return when each GPU ends if the one link serves them, at each barrier, in an order."""
    ends = [Fraction(stages[0])] * many
    for length, order in zip(stages[1:], orders, strict=True):
        free, came = Fraction(0), [Fraction(0)] * many
        for g in order:
            free = max(free, ends[g]) + size
            came[(g + 1) % many] = free
        ends = [max(*ends, came[g]) + length for g in range(many)]
    return ends


@pytest.mark.parametrize(
    ("many", "stages"), [(2, [5, 3, 7, 2, 1]), (2, [1, 20, 1, 20]), (3, [4, 6, 1]), (3, [1, 1, 30])]
)
def test_no_order_of_service_beats_the_bound_of_all_plans(many: int, stages: list[int]) -> None:
    """Ops without tensors, all orders in which a link serves GPUs at barriers; and the shortest is near."""
    ops = tuple(lt.Op(name=str(i), duration_ns=length * 1000) for i, length in enumerate(stages[:-1]))
    graph = lt.Graph(name="ops", tensors=(), ops=ops)
    size = 3000
    bench = linked(many, 10**6, 10**9, 10**9)
    problem = exchanging(graph, many, 0, size, len(ops) - 1, bench=bench)
    parts = lanes(problem)
    assert [op.kind for op in parts[0].problem.graph.ops] == ["", "Exchange"] * len(ops)
    sent = problem.graph.tensors[-1].nbytes
    extra = parts[0].problem.graph.ops[1].duration_ns
    lengths = [1000 * stages[0], *(1000 * x + extra for x in stages[1:-1]), extra]
    bound = joint_bound(problem, parts, 10**9, 10**9)
    every = product(permutations(range(many)), repeat=len(ops))
    best = min(max(served(many, lengths, Fraction(sent), orders)) for orders in every)
    assert sum(lengths) < bound <= best
    assert exchange.last_delay(problem, parts, 10**9, 10**9, scattered=False) == many * sent
    assert exchange.last_delay(problem, parts, 10**9, 10**9, scattered=True) == sent
    result = lt.solve(problem, "planner", threads=1, time_limit=None)
    assert result.bound is not None
    assert result.bound >= bound
    assert (result.objective or 0) >= best
