"""The simulator of decisions: the verifier accepts every plan, and no plan that was tampered with."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import lowtide as lt
from lowtide.models.graph import Accounting
from lowtide.models.plan import Copy, Plan
from lowtide.solvers.placement.simulator import tables
from lowtide.solvers.placement.simulator.problem import simulated_problem
from lowtide.solvers.placement.simulator.simulator import SimulatedRun, simulate, stay
from tests.effort import seeds
from tests.problems.placement import machine, random_graph
from tests.random_decisions import random_decisions, random_problem


@pytest.mark.slow
@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("accounting", list(Accounting))
@pytest.mark.parametrize("block", seeds(8, least=1))
def test_every_plan_verifies(block: int, accounting: Accounting, weights: bool) -> None:
    found = 0
    for seed in range(100 * block, 100 * block + 100):
        problem = random_problem(seed, accounting=accounting, weights=weights)
        case = simulated_problem(problem, chunk=[None, 3, 5][seed % 3])
        for rule in range(4):
            run = simulate(case, random_decisions(case, seed, rule))
            if run.time is None:
                continue
            found += 1
            judgement = problem.judge(run.plan())
            assert not judgement.violations, (seed, rule, judgement.violations[0])
            assert judgement.objective == run.time
            assert run.time >= case.duration.sum()
    assert found > (200 if weights else 250)


def test_no_copy_begins_with_the_end_of_a_period() -> None:
    problem = random_problem(538, accounting=Accounting.REPLACE)
    case = simulated_problem(problem, chunk=3)
    run = simulate(case, random_decisions(case, 538, 2))
    assert run.time is None or not problem.judge(run.plan()).violations


@pytest.mark.parametrize("accounting", list(Accounting))
@pytest.mark.parametrize("seed", seeds(60))
def test_demand_finds_room_for_every_op(seed: int, accounting: Accounting) -> None:
    problem = random_problem(seed, accounting=accounting)
    case = simulated_problem(problem)
    for rule in (tables.FURTHEST, tables.LEAST_RECENT):
        run = simulate(case, replace(stay(case), victim=rule, eager=True))
        assert run.stuck is None, run.fault
        assert run.emergencies == 0 or accounting is Accounting.REPLACE  # operands are written in time


@pytest.mark.parametrize("accounting", list(Accounting))
@pytest.mark.parametrize("seed", seeds(40))
def test_everything_on_the_device_takes_the_sum_of_durations(seed: int, accounting: Accounting) -> None:
    graph = replace(random_graph(seed), accounting=accounting)
    start = dict.fromkeys(("input", "weight"), ("gpu",))
    for periodic in (False, True):
        problem = lt.Placement(graph, machine(10**3, 10), periodic=periodic, start=start)
        case = simulated_problem(problem)
        peak = int(case.live.max()) + sum(graph.tensors[t].nbytes for t, _ in case.idle)
        fitting = replace(problem, machine=machine(peak, 10))
        run = simulate(simulated_problem(fitting), stay(simulated_problem(fitting)))
        assert run.time == sum(op.duration_ns for op in graph.ops)
        assert lt.verify(graph, run.plan(), start_tiers=start).peaks["gpu"] == peak
        less = replace(problem, machine=machine(peak - 1, 10))
        assert simulate(simulated_problem(less), stay(simulated_problem(less))).time is None


def test_a_deadlock_names_its_op() -> None:
    problem = there_and_back(device=11)
    run = simulate(simulated_problem(problem), stay(simulated_problem(problem)))
    assert run.time is None
    assert run.fault == "the decisions do not fit: nothing goes on before op 1 'grow'"
    rescued = simulate(simulated_problem(problem), stay(simulated_problem(problem)).with_emergencies())
    assert rescued.emergencies > 0
    assert not problem.judge(rescued.plan()).violations


def there_and_back(device: int = 12) -> lt.Placement:
    """Two activations of 4 bytes and a weight of 2 that is updated; in the middle 10 bytes are needed."""
    graph = lt.Graph(
        name="there and back",
        tensors=(
            lt.Tensor(name="w", nbytes=2, kind="weight", initial=True, final=True),
            lt.Tensor(name="x", nbytes=4),
            lt.Tensor(name="y", nbytes=4),
            lt.Tensor(name="big", nbytes=10),
        ),
        ops=(
            lt.Op(name="make", reads=(0,), writes=(0, 1, 2), duration_ns=1000),
            lt.Op(name="grow", writes=(3,), duration_ns=1000),
            lt.Op(name="shrink", reads=(3,), duration_ns=1000),
            lt.Op(name="use", reads=(0, 1, 2), duration_ns=1000),
        ),
    )
    return lt.Placement(graph, machine(device, None, ssd=False), start={"weight": ("gpu", "host")})


def there_and_back_run() -> tuple[lt.Placement, SimulatedRun]:
    problem = there_and_back(device=10)
    case = simulated_problem(problem)
    decisions = stay(case)
    away = (case.absence_first == 0).astype(np.int64)
    return problem, simulate(case, replace(decisions, tier=away, back=np.where(away, 6, -1)))


def test_round_trips_by_hand() -> None:
    problem, run = there_and_back_run()
    # out: 2, 4, 4 bytes at 5 MB/s from 1000 ns on; grow, shrink; back at 6 MB/s, each rounded up; use
    assert run.time == 1000 + 400 + 800 + 800 + 2000 + 334 + 667 + 667 + 1000
    assert not problem.judge(run.plan()).violations


def copies(plan: Plan, src: str) -> list[Copy]:
    return [c for c in plan.copies if c.src == src]


def without(plan: Plan, copy: Copy) -> Plan:
    return replace(plan, copies=tuple(c for c in plan.copies if c != copy))


def moved(plan: Plan, copy: Copy, by: int) -> Plan:
    later = replace(copy, start=copy.start + by, end=copy.end + by)
    return replace(plan, copies=tuple(later if c == copy else c for c in plan.copies))


def swapped(plan: Plan) -> Plan:
    first, _, third = copies(plan, "gpu")
    length = third.end - third.start
    return replace(
        without(without(plan, first), third),
        copies=(
            *(c for c in plan.copies if c not in (first, third)),
            replace(third, start=first.start, end=first.start + length),
            replace(first, start=third.end - (first.end - first.start), end=third.end),
        ),
    )


def before_the_update(plan: Plan) -> Plan:
    """The weight's copy to the host is made before its update."""
    weight = next(c for c in copies(plan, "gpu") if c.tensor == 0)
    return moved(plan, weight, -weight.end)


MUTATIONS: dict[str, tuple[Callable[[Plan], Plan], set[str]]] = {
    "drop a copy out": (lambda p: without(p, copies(p, "gpu")[1]), {"copy-source"}),
    "drop a return": (lambda p: without(p, copies(p, "host")[1]), {"read"}),
    "swap two on a channel": (swapped, {"channel-rate", "copy-source"}),
    "fetch before the write ends": (lambda p: moved(p, copies(p, "host")[0], -4000), {"copy-source"}),
    "stale copy after an update": (before_the_update, {"copy-source"}),
    "return too late": (lambda p: moved(p, copies(p, "host")[2], 1), {"read"}),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_mutations_are_rejected(name: str) -> None:
    problem, run = there_and_back_run()
    change, kinds = MUTATIONS[name]
    changed = change(run.plan())
    if name.startswith("stale"):
        changed = replace(changed, copies=tuple(replace(c, start=max(c.start, 0)) for c in changed.copies))
    found = {v.kind for v in problem.judge(changed).violations}
    assert found & kinds, found


def test_random_plans_lose_their_validity_with_any_return_they_need() -> None:
    rejected = 0
    for seed in range(40):
        problem = random_problem(seed)
        run = simulate(simulated_problem(problem), random_decisions(simulated_problem(problem), seed, 3))
        if run.time is None:
            continue
        plan = run.plan()
        for copy in [c for c in plan.copies if c.dst == "gpu" and problem.graph.tensors[c.tensor].nbytes][:3]:
            needed = [r for r in plan.runs if r.start >= copy.end]
            if needed and copy.tensor in problem.graph.ops[needed[0].op].reads:
                assert problem.judge(without(plan, copy)).violations
                rejected += 1
    assert rejected > 20


PLAIN = """
from tests.random_decisions import random_decisions, random_problem
from lowtide.solvers.placement.simulator.simulator import simulate
from lowtide.solvers.placement.simulator.problem import simulated_problem
from tests.effort import seeds
for seed in range(12):
    case = simulated_problem(random_problem(seed), chunk=3)
    run = simulate(case, random_decisions(case, seed, seed % 4))
    print(seed, run.time, run.stuck, run.emergencies, run.evictions, run.log.tolist())
"""


@pytest.mark.slow
def test_compiled_as_written() -> None:
    found = []
    for flag in ("0", "1"):
        environment = {**os.environ, "NUMBA_DISABLE_JIT": flag}
        command = [sys.executable, "-W", "error", "-c", PLAIN]
        done = subprocess.run(
            command,
            env=environment,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        found.append(done.stdout)
    assert found[0] == found[1]


def test_what_it_does_not_simulate() -> None:
    problem = there_and_back()
    single = replace(problem, machine=lt.Machine.single(capacity=99), start=None)
    with pytest.raises(lt.UsageError, match="method belady: found one tier, expected none"):
        lt.solve(single, "belady")
