"""Published systems: verified plans, never below a bound, nothing lost where memory suffices, no chance."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import lowtide as lt
from lowtide.models.graph import Accounting
from lowtide.solvers.context import Context
from lowtide.solvers.placement.methods import ROOM
from lowtide.solvers.placement.policies import modnn
from lowtide.solvers.placement.simulator.problem import simulated_problem
from tests.effort import seeds
from tests.oracles.brute_placement import COPY, DEVICE, fastest
from tests.problems.placement import machine, random_graph, tiny_placement, training_problem
from tests.random_decisions import random_problem

SYSTEMS = tuple(m.name for m in ROOM.methods if any(option.name == "strict" for option in m.options))
BUDGETS = ("flashneuron", "g10", "swapadvisor")
"""Those that plan for less than the device, or in pools."""
PASSES = ("belady", "deeptm")
"""Those whose pass has all operands of an op there at once."""
INSTANCES = 1000
"""Of all accountings, each for all systems; the first few in `make test`."""
BLOCK = 50
FEW = {
    "autoswap": {"trials": "2"},
    "deeptm": {"trials": "1"},
    "swapadvisor": {"population": "3", "generations": "2"},
}


def test_all_policies_are_here() -> None:
    assert {"vdnn", "modnn", "sentinel", "dragon", "tflms-v1", "tflms-v2", "belady", "autoswap"} <= {*SYSTEMS}


class Carried(Context):
    """Takes verified plans; one that does not verify is an error."""

    def offer(self, item: object) -> int:
        value = super().offer(item)
        assert not self.refused
        return value


def carried_out(problem: lt.Placement, name: str, few: bool) -> Carried:
    """Return what a policy ends with, with no bound proved; `few`: its random search is short."""
    method = next(m for m in ROOM.methods if m.name == name)
    options, _ = method.typed(FEW.get(name, {}) if few else {})
    context = Carried(problem=problem, method=name, options=options, threads=1)
    outcome = method.load()(problem, context)
    assert context.judgement is not None or outcome.detail, name
    return context


@pytest.mark.parametrize("accounting", list(Accounting))
@pytest.mark.parametrize(
    ("first", "last"),
    [
        (0, 4),
        *(
            pytest.param(4 + BLOCK * k, 4 + BLOCK * (k + 1), marks=pytest.mark.slow)
            for k in seeds(INSTANCES // 2 // BLOCK)
        ),
    ],
)
def test_plans_verify_and_stay_above_the_bounds(first: int, last: int, accounting: Accounting) -> None:
    for seed in range(first, min(last, INSTANCES // 2)):
        ops = 5 + seed // 2 % 10
        problem = training_problem(seed, accounting) if seed % 2 else random_problem(seed, ops, accounting)
        ends = {name: carried_out(problem, name, seed % 8 > 0) for name in SYSTEMS}
        times = {name: c.incumbent for name, c in ends.items() if c.incumbent is not None}
        assert len(times) > len(SYSTEMS) // 2, seed
        best = min(times, key=lambda name: times[name])
        bound = lt.solve(problem, "lp-bound", hint=ends[best].answer, threads=1, time_limit=None).bound
        assert bound is not None
        assert sum(op.duration_ns for op in problem.graph.ops) <= bound <= times[best], (seed, best)


@pytest.mark.parametrize("accounting", list(Accounting))
@pytest.mark.parametrize("name", SYSTEMS)
def test_enough_memory_needs_no_time(name: str, accounting: Accounting) -> None:
    for seed in seeds(24):
        graph = replace(random_graph(seed), accounting=accounting)
        start = dict.fromkeys(("input", "weight"), ("gpu",))
        total = sum(t.nbytes for t in graph.tensors) + 10
        problem = lt.Placement(graph, machine(2 * total, None), periodic=bool(seed % 2), start=start)
        result = lt.solve(problem, name)
        assert result.status == "optimal", result.detail
        assert result.objective == sum(op.duration_ns for op in graph.ops)
        case = simulated_problem(problem)
        if name in BUDGETS or (name in PASSES and accounting is Accounting.REPLACE):
            continue
        enough = pool_height(problem) if name == "modnn" else int(case.live.max())
        idle = sum(graph.tensors[t].nbytes for t, _ in case.idle)
        assert lt.solve(replace(problem, machine=machine(enough + idle, None)), name).status == "optimal"


@pytest.mark.slow
@pytest.mark.parametrize("accounting", list(Accounting))
@pytest.mark.parametrize("tiers", [("gpu",), ("host",), ("ssd",), ("gpu", "ssd")])
def test_periods_begin_where_weights_may_start(tiers: tuple[str, ...], accounting: Accounting) -> None:
    for seed in seeds(24, least=4):
        problem = training_problem(seed, accounting)
        if not {*tiers} <= {tier.name for tier in problem.machine.tiers}:
            continue
        problem = replace(problem, periodic=True, start={"weight": tiers})
        for name in SYSTEMS:
            assert carried_out(problem, name, few=True).answer is not None, (seed, name)


def pool_height(problem: lt.Placement) -> int:
    """Return the least device on which moDNN's pool never fails: above the peak where it is fragmented."""
    case = simulated_problem(problem)
    least = int(case.live.max())
    while True:
        tight = simulated_problem(replace(problem, machine=machine(least, None)))
        ((_, decisions),) = modnn.decide(tight)
        if not decisions.tier.any():
            return least
        least += 1


@pytest.mark.slow
@pytest.mark.parametrize("accounting", list(Accounting))
@pytest.mark.parametrize("block", seeds(8, least=2))
def test_no_plan_is_faster_than_exhaustive_search(block: int, accounting: Accounting) -> None:
    for seed in range(10 * block, 10 * block + 10):
        problem = tiny_placement(seed, accounting)
        host = problem.machine.tiers[1].name
        start = {
            t: COPY if problem.may_start(x.kind) == (host,) else DEVICE
            for t, x in enumerate(problem.graph.tensors)
            if x.initial
        }
        best = fastest(problem.graph, problem.machine, start)
        for name in SYSTEMS:
            found = carried_out(problem, name, few=False).incumbent
            assert found is None or (best is not None and found >= best), (seed, name)


@pytest.mark.parametrize("name", SYSTEMS)
def test_the_same_plan_twice(name: str) -> None:
    for seed in seeds(4, least=2):
        problem = training_problem(seed)
        first, second = (lt.solve(problem, name, threads=1) for _ in range(2))
        assert first.plan == second.plan
        assert first.detail == second.detail


@pytest.mark.parametrize("name", ["demand-lru", "dragon", "oc-dnn", "modnn", "sentinel", *PASSES])
def test_a_single_run_fits_while_every_op_does(name: str) -> None:
    """Those that fail only where an op's operands do not fit; nothing is done by force."""
    for seed in seeds(60):
        for make in (random_problem, training_problem):
            problem = make(seed)
            roomy = machine(problem.machine.tiers[0].capacity or 0, None, ssd=False)
            problem = replace(problem, machine=roomy, periodic=False, start={"input": ("gpu", "host")})
            result = lt.solve(problem, name, options={"strict": "1"}, threads=1)
            if name == "sentinel" and "short-lived" in result.detail:
                continue
            assert result.plan is not None, (seed, name, result.detail)
            assert result.facts["emergencies"] == 0, (seed, name)


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_limit_ends_them(name: str) -> None:
    result = lt.solve(training_problem(1), name, time_limit=1e-6, threads=1)
    assert result.objective is not None or "before the policy had decided" in result.detail


def test_systems_serve_no_other_machines() -> None:
    problem = replace(training_problem(1), machine=lt.Machine.single(capacity=999), start=None)
    for name in SYSTEMS:
        with pytest.raises(lt.UsageError, match=r"found one tier, expected (none|more)"):
            lt.solve(problem, name)


@pytest.mark.slow
def test_slow_tiers_take_what_the_host_cannot() -> None:
    """Systems of two memories go on to the slow tier where the host is full."""
    for name in ("chen-meng", "layrub", "tflms-v1", "modnn", "sentinel", "gtbm", "vdnn"):
        tiers = np.zeros(3, dtype=np.int64)
        for seed in range(2, 30, 4):
            problem = replace(training_problem(seed), machine=machine(40, 12), periodic=False)
            plan = lt.solve(problem, name, threads=1).plan
            if plan is not None:
                for copy in plan.copies:
                    tiers[[t.name for t in problem.machine.tiers].index(copy.dst)] += 1
        assert (tiers > 0).all(), name
