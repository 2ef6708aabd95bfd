"""SwapAdvisor's pools: against belady on one class, brute force on classes, slots that never run out."""

from dataclasses import replace
from itertools import combinations, pairwise
from random import Random

import numpy as np
import pytest

import lowtide as lt
from lowtide.solvers.placement.policies import belady, swapadvisor
from lowtide.solvers.placement.policies.follow import DoesNotFit
from lowtide.solvers.placement.policies.slot_pools import Planner, Sizes
from lowtide.solvers.placement.simulator.problem import NEVER, simulated_problem
from lowtide.solvers.placement.simulator.simulator import simulate
from tests.effort import seeds
from tests.problems.placement import machine, random_training, training_problem, working_set


def made_first(graph: lt.Graph, nbytes: int) -> lt.Graph:
    """Tensors of one size, all made by ops; no workspace."""
    tensors = tuple(replace(t, nbytes=nbytes, initial=False, final=False) for t in graph.tensors)
    initial = [t for t, x in enumerate(graph.tensors) if x.initial]
    makers = tuple(lt.Op(name=f"make{t}", writes=(t,), duration_ns=1) for t in initial)
    return replace(graph, tensors=tensors, ops=(*makers, *(replace(op, workspace=0) for op in graph.ops)))


def test_the_planner_on_one_class_is_belady() -> None:
    moved = 0
    for seed in range(30):
        graph = made_first(random_training(seed), 4)
        room = working_set(graph) + 4 * (seed % 3)
        case = simulated_problem(lt.Placement(graph, machine(room + seed % 4, None, ssd=False)))
        sizes = Sizes(case)
        genome = sizes.repaired([0], [99])
        assert genome is not None
        assert genome[1][0] <= room // 4
        found = belady.evictions(case)
        assert Planner(case, sizes, genome).victims == found
        moved += bool(found)
    assert moved > 20


@pytest.mark.parametrize("seed", seeds(60, least=20))
def test_the_tightest_classes(seed: int) -> None:
    """Against all ways to divide the sizes."""
    sizes = Sizes(simulated_problem(training_problem(seed)))

    def cost(classes: list[int]) -> int:
        return sum(
            int(sizes.sizes[c]) * int(sizes.needed[[x for x, d in enumerate(classes) if d == c]].sum(0).max())
            for c in {*classes}
        )

    count, costs = len(sizes.sizes), []
    for r in range(count):
        for cuts in combinations(range(1, count), r):
            parts = pairwise((0, *cuts, count))
            costs.append(cost([high - 1 for low, high in parts for _ in range(low, high)]))
    tightest = sizes.tightest(lambda: None)
    assert cost(tightest) == min(costs)
    every = [99] * count
    assert (sizes.repaired(tightest, every) is None) == (min(costs) > sizes.room)


@pytest.mark.parametrize("seed", seeds(120, least=30))
def test_slots_never_run_out(seed: int) -> None:
    """A tensor that may come when its slot is free finds it, whatever the memory plan."""
    rng = Random(seed)
    problem = training_problem(seed)
    total = sum(t.nbytes for t in problem.graph.tensors)
    room = rng.randint(working_set(problem.graph), max(total, working_set(problem.graph)))
    problem = replace(problem, periodic=False, machine=machine(room, None), start={"input": ("gpu",)})
    case = simulated_problem(problem)
    sizes = Sizes(case, rng.choice((1, 3, 99)))
    assert (case.size <= np.append(sizes.sizes, 0)[sizes.of]).all()
    plans = swapadvisor.first_plans(sizes, lambda: None)
    for _ in range(6 * bool(plans)):
        child = sizes.repaired(*swapadvisor.bred(rng, rng.choice(plans), rng.choice(plans)))
        if child is not None:
            plans.append(child)
    for classes, slots in plans:
        assert np.dot(slots, sizes.sizes) <= sizes.room
        assert all(c >= x for x, c in enumerate(classes))
        planner = Planner(case, sizes, (classes, slots))
        taken = np.zeros((len(slots), case.ops), dtype=np.int64)
        for x, c in enumerate(classes):
            taken[c] += sizes.live[x]
        for g in planner.victims:
            back = planner.returns.get(g, min(int(case.absence_next[g]), case.ops))
            begin = int(case.absence_first[g]) + 1
            assert begin <= back <= case.absence_next[g]
            taken[planner.pool_of[int(case.absence_tensor[g])], begin:back] -= 1
        assert (taken <= np.array(slots)[:, None]).all()


@pytest.mark.slow
def test_no_stall_where_all_pools_fit() -> None:
    for seed in range(30):
        problem = training_problem(seed)
        problem = replace(problem, start={"input": ("gpu",)}, machine=machine(10**6, None))
        sizes = Sizes(simulated_problem(problem))
        enough = int(sizes.live.max(axis=1) @ sizes.sizes) + max(op.workspace for op in problem.graph.ops)
        result = lt.solve(replace(problem, machine=machine(enough, None)), "swapadvisor")
        assert result.status == "optimal", seed


@pytest.mark.slow
def test_what_the_search_adds_is_faster_than_where_it_begins() -> None:
    better = failed = 0
    for seed in range(40):
        case = simulated_problem(training_problem(seed))
        sizes = Sizes(case)
        plans = swapadvisor.first_plans(sizes, lambda: None)
        if not plans:
            with pytest.raises(DoesNotFit, match="no pools"):
                list(swapadvisor.decide(case))
            failed += 1
            continue
        times = [simulate(case, d).time or NEVER for _, d in swapadvisor.decide(case)]
        first, found = times[: len(plans)], times[len(plans) :]
        assert all(time < min(first) for time in found)
        better += len(found)
    assert failed > 3
    assert better > 3


def test_a_graph_without_bytes_has_no_pools() -> None:
    graph = lt.Graph(
        name="none", tensors=(lt.Tensor(name="a", nbytes=0),), ops=(lt.Op(name="op", writes=(0,)),)
    )
    result = lt.solve(lt.Placement(graph, lt.load_machine("v100-16g-pcie3")), "swapadvisor", threads=1)
    assert result.status is not lt.Status.FAILED, result.detail
