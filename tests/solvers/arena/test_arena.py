"""Order and addresses together: exact on small graphs, bounds that hold, answers that are read back."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

import lowtide as lt
from lowtide.formulations.arena.data import arena_data
from lowtide.formulations.arena.stacks import stacks, threshold_for
from lowtide.models.lowering.buffers import buffers_from_plan
from tests.oracles.brute_arena import arena_cases, arena_graph, least_height
from tests.oracles.brute_force import topological_orders
from tests.oracles.least_peak import least_peak
from tests.strategies import random_graph


def tight(seeds: range) -> None:
    for graph, alignment in arena_cases(seeds):
        result = lt.solve(lt.Arena(graph, alignment), threads=1, time_limit=None)
        assert result.status is lt.Status.OPTIMAL
        assert result.objective == least_height(graph, alignment)


def test_auto_is_exact_on_small_graphs() -> None:
    tight(range(12))


@pytest.mark.slow(reason="every order and every address of 488 graphs")
@pytest.mark.parametrize("first", range(12, 500, 122))
def test_auto_is_exact_on_500_graphs(first: int) -> None:
    tight(range(first, first + 122))


@pytest.mark.slow(reason="40 models")
def test_the_joint_model_is_exact() -> None:
    for graph, alignment in arena_cases(range(40)):
        result = lt.solve(lt.Arena(graph, alignment), "cpsat", threads=1, time_limit=None)
        assert result.objective == result.bound == least_height(graph, alignment)


def test_the_bound_holds_at_every_threshold() -> None:
    reached = 0
    for graph, alignment in arena_cases(range(500, 560)):
        best = least_height(graph, alignment)
        bounds = []
        for threshold in range(alignment):
            found = stacks(graph, alignment, threshold)
            bounds.append(found.to_height(least_peak(found.graph)))
        assert max(bounds) <= best
        found = stacks(graph, alignment, threshold_for(graph, alignment, best))
        assert found.to_height(least_peak(found.graph)) == max(bounds) or max(bounds) < best
        reached += max(bounds) == best
    assert reached > 50


def test_pairs_that_some_order_lets_share_are_those_of_plans() -> None:
    for seed in range(60):
        graph = arena_graph(Random(seed), most=5)
        data = arena_data(lt.Arena(graph))
        for order in topological_orders(graph):
            plan = lt.Plan.from_order(graph, order)
            mine, theirs = data.buffers(order), buffers_from_plan(graph, plan)
            sizes = {b.id: b.size for b in mine.buffers}
            assert sorted(sizes.values()) == sorted(b.size for b in theirs.buffers)
            assert len(mine.inplace) == len(theirs.inplace)


def test_what_dies_at_an_op_of_another_start_is_no_pair_in_replace() -> None:
    tensors = tuple(lt.Tensor(name=name, nbytes=1) for name in "abc")
    ops = (
        lt.Op(name="0", writes=(0,)),
        lt.Op(name="1", reads=(0,), writes=(1,), inplace=((0, 1),)),
        lt.Op(name="2", reads=(0, 1), writes=(2,)),
    )
    graph = lt.Graph(name="both are read", tensors=tensors, ops=ops, accounting=lt.Accounting.REPLACE)
    assert lt.solve(lt.Arena(graph)).objective == 2


def test_an_answer_is_read_back_from_its_plan() -> None:
    for seed in range(20):
        rng = Random(seed)
        problem = lt.Arena(random_graph(rng), rng.choice((1, 2, 8)))
        result = lt.solve(problem, threads=1, time_limit=5)
        assert result.status is lt.Status.OPTIMAL
        assert problem.evaluate(problem.read(result.plan)) == result.objective


def test_wrong_answers_are_refused_with_their_fault() -> None:
    problem = lt.Arena(lt.load("catalogue:harpoon"), 4)
    answer = problem.read(lt.solve(problem).plan)
    assert problem.judge(answer).violations == ()
    placed = [k for k, x in enumerate(answer.addresses) if x is not None]
    lowest = min(placed, key=lambda k: answer.addresses[k] or 0)
    for k in placed:
        addresses = list(answer.addresses)
        addresses[k] = (addresses[k] or 0) + 2
        assert problem.judge(answer._replace(addresses=tuple(addresses))).violations[0].kind == "alignment"
        addresses[k] = None
        assert problem.judge(answer._replace(addresses=tuple(addresses))).violations[0].kind == "missing"
        addresses[k] = -4
        assert problem.judge(answer._replace(addresses=tuple(addresses))).violations[0].kind == "offset"
    same = answer._replace(addresses=tuple(x if x is None else 0 for x in answer.addresses))
    assert problem.judge(same).violations[0].kind == "overlap"
    assert lowest in placed
    with pytest.raises(lt.InstanceError, match="found 1 addresses, expected"):
        problem.read(answer._replace(addresses=(0,)))
    with pytest.raises(lt.InstanceError, match="expected a Plan with an allocation"):
        problem.read((0, 1))
    plan = lt.solve(problem).plan
    assert plan is not None
    bare = replace(plan, allocation=None)
    with pytest.raises(lt.InstanceError, match="found a plan that is none with an allocation"):
        problem.read(bare)


def test_an_arena_is_one_memory() -> None:
    modes = (lt.Mode(operands=((0, "gpu"),)),)
    graph = lt.Graph(
        name="g", tensors=(lt.Tensor(name="x", nbytes=1),), ops=(lt.Op(name="a", writes=(0,), modes=modes),)
    )
    with pytest.raises(lt.InstanceError, match="found operands in stated tiers, expected none"):
        lt.Arena(graph)
