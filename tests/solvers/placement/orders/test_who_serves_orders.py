"""Free orders: what the verifier takes, against exhaustive search over all orders, who refuses them."""

from dataclasses import replace
from random import Random

import pytest

import lowtide as lt
from lowtide.models.derived.precedence import check_order, precedence
from lowtide.models.derived.reordered import in_order
from lowtide.models.errors import InstanceError
from lowtide.models.graph import Accounting
from lowtide.solvers.placement.methods import ROOM
from lowtide.solvers.placement.reductions.orders import Order, crossed, mutated, of_first
from tests.effort import seeds
from tests.problems.placement import training_problem
from tests.solvers.placement.orders.free_orders import times_of_orders


def shuffled(graph: lt.Graph, random: Random) -> Order:
    return mutated(random, graph, tuple(range(len(graph.ops))), 0.7)


@pytest.mark.slow
@pytest.mark.parametrize("accounting", list(Accounting))
def test_plans_in_any_order_are_valid_if_the_order_is_free(accounting: Accounting) -> None:
    moved = refused = 0
    for seed in range(20):
        random = Random(seed)
        problem = training_problem(seed, accounting)
        order = shuffled(problem.graph, random)
        check_order(problem.graph, order)
        found = lt.solve(replace(problem, graph=in_order(problem.graph, order)), "belady", threads=1)
        if found.plan is None:
            continue
        plan, free = of_first(found.plan, problem.graph, order), replace(problem, order="free")
        assert free.judge(plan).objective == found.objective
        kinds = {v.kind for v in problem.judge(plan).violations}
        assert kinds == ({"order"} if list(order) != sorted(order) else set())
        moved += bool(kinds)
        k = random.randrange(1, len(order))
        runs = {run.op: run for run in plan.runs}
        a, b = runs[order[k - 1]], runs[order[k]]
        if a.op not in precedence(problem.graph).predecessors[b.op]:
            continue
        swapped = replace(
            plan,
            runs=tuple(replace(run, op={a.op: b.op, b.op: a.op}.get(run.op, run.op)) for run in plan.runs),
        )
        assert free.judge(swapped).violations
        refused += 1
    assert moved > 4
    assert refused > 2


@pytest.mark.slow
@pytest.mark.parametrize("accounting", list(Accounting))
@pytest.mark.parametrize("block", seeds(6, least=1))
def test_no_plan_is_faster_than_the_best_order(block: int, accounting: Accounting) -> None:
    better = 0
    for seed in range(10 * block, 10 * block + 10):
        problem, times = times_of_orders(seed, accounting)
        best = min((time for time in times if time is not None), default=None)
        found = lt.solve(problem, "swapadvisor", threads=1)
        assert found.objective is None or (best is not None and found.objective >= best), seed
        assert best is None or (found.bound or 0) <= best
        better += best is not None and (times[0] is None or best < times[0])
    assert better


@pytest.mark.slow
def test_a_free_order_is_never_slower_and_some_are_faster() -> None:
    faster = 0
    for seed in range(24):
        problem = training_problem(seed)
        fixed, free = (
            lt.solve(replace(problem, order=order), "swapadvisor", threads=1, seed=seed, time_limit=None)
            for order in ("reference", "free")
        )
        assert (fixed.plan is None) == (free.plan is None), seed
        if free.objective is not None and fixed.objective is not None:
            assert free.objective <= fixed.objective, seed
            faster += free.objective < fixed.objective
    assert faster > 2


def test_orders_of_parents_keep_the_precedence() -> None:
    for seed in range(30):
        random, graph = Random(seed), training_problem(seed).graph
        first, second = shuffled(graph, random), shuffled(graph, random)
        cut = random.randint(0, len(first))
        child = crossed(first, second, cut)
        check_order(graph, child)
        assert child[:cut] == first[:cut]
        assert [k for k in second if k in child[cut:]] == list(child[cut:])
        assert mutated(random, graph, child, 0.0) == child


def test_who_proves_things_of_one_order_refuses_a_free_one() -> None:
    problem = replace(training_problem(1), order="free")
    assert problem.instance.sha256 != training_problem(1).instance.sha256
    for method in ROOM.methods:
        if not method.freedoms:
            with pytest.raises(
                lt.UsageError, match=r"found order=free, expected .* knows it: auto, orders, swapadvisor"
            ):
                lt.solve(problem, method.name)
    with pytest.raises(lt.UsageError, match="order=free"):
        lt.build(replace(problem, periodic=False), "cpsat")
    with pytest.raises(InstanceError, match="expected reference or free"):
        replace(problem, order="any")


def test_a_limit_ends_the_search_for_an_order() -> None:
    result = lt.solve(replace(training_problem(1), order="free"), "swapadvisor", time_limit=1e-6, threads=1)
    assert result.objective is not None or "before the policy had decided" in result.detail
