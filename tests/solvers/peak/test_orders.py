"""Greedy rules and beam search against the enumeration of every order."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given

from lowtide.models.derived.memory import sequential_memory
from lowtide.models.derived.precedence import check_order
from lowtide.models.graph import Accounting, Graph, Op, Tensor
from lowtide.models.problems.peak import Peak
from lowtide.solvers.context import Context
from lowtide.solvers.peak.orders.greedy import RULES, greedy_order, greedy_orders, solve_greedy
from lowtide.solvers.peak.search.beam import beam_pass, improve_by_beam, solve_beam
from lowtide.solvers.peak.search.state_space import state_space
from tests.effort import many
from tests.oracles.brute_force import brute_force_peak, memory_profile, order_peak
from tests.problems.peak import DEFAULTS
from tests.strategies import graphs, random_graph

CHECKED = many(100)


def in_tree(arity: int, depth: int, rng: Random) -> Graph:
    """Return a complete in-tree; every op writes one tensor for its parent."""
    ops: list[Op] = []
    sizes: list[int] = []

    def add(level: int) -> int:
        reads = tuple(add(level - 1) for _ in range(arity)) if level else ()
        sizes.append(rng.randint(1, 20))
        ops.append(Op(name=f"op{len(ops)}", reads=reads, writes=(len(sizes) - 1,)))
        return len(sizes) - 1

    add(depth)
    tensors = tuple(Tensor(name=f"t{i}", nbytes=n) for i, n in enumerate(sizes))
    return Graph(name="tree", tensors=tensors, ops=tuple(ops))


def best_post_order_peak(graph: Graph, op: int) -> int:
    """Return the peak of the best post-order of the subtree of an op, by Liu's recursion."""
    size = [t.nbytes for t in graph.tensors]
    parts = sorted(
        ((best_post_order_peak(graph, u), size[u]) for u in graph.ops[op].reads), key=lambda p: p[1] - p[0]
    )
    held = peak = 0
    for need, rest in parts:
        peak = max(peak, held + need)
        held += rest
    return max(peak, held + size[op])


@CHECKED
@given(graphs(max_ops=7))
def test_states_of_both_directions_have_the_memory_of_the_profile(graph: Graph) -> None:
    memory = sequential_memory(graph)
    for order in (tuple(range(len(graph.ops))), greedy_order(graph)):
        during, after = memory.profile(order)
        assert during == memory_profile(graph, order)
        for backward in (False, True):
            space = state_space(graph, backward=backward)
            states = [memory.initial_bytes, *after]
            walk = space.order(order)
            assert space.order(walk) == order
            now, seen = space.start, set[int]()
            for step, v in enumerate(walk):
                assert now == (states[-1 - step] if backward else states[step])
                assert set(space.before[v]) <= seen
                change = space.increase[v]
                for g in space.groups_of[v]:
                    done = len(seen & set(space.groups[g]))
                    change -= space.group_bytes[g] * (
                        done > 0 if backward else done == len(space.groups[g]) - 1
                    )
                cost = space.extra[v] + now + (0 if space.extra_before else change)
                assert cost == (during[-1 - step] if backward else during[step])
                now += change
                seen.add(v)
            assert now == (states[0] if backward else states[-1])


@CHECKED
@given(graphs(max_ops=7))
def test_every_rule_gives_a_valid_order_not_below_the_optimum(graph: Graph) -> None:
    optimum, _ = brute_force_peak(graph)
    orders = list(greedy_orders(graph))
    assert len(orders) == 2 * len(RULES)
    for order in orders:
        check_order(graph, order)
        assert order_peak(graph, order) >= optimum
    assert order_peak(graph, greedy_order(graph)) == min(order_peak(graph, order) for order in orders)


@pytest.mark.parametrize("accounting", Accounting)
def test_two_chains_are_run_one_after_the_other_by_greedy(accounting: Accounting) -> None:
    graph = Graph(
        name="two chains",
        tensors=tuple(Tensor(name=f"t{i}", nbytes=n) for i, n in enumerate((1, 9, 1, 9))),
        ops=(
            Op(name="a", writes=(1,)),
            Op(name="b", writes=(3,)),
            Op(name="c", reads=(1,), writes=(0,)),
            Op(name="d", reads=(3,), writes=(2,)),
            Op(name="e", reads=(0, 2)),
        ),
        accounting=accounting,
    )
    assert order_peak(graph, greedy_order(graph)) == brute_force_peak(graph)[0]


@pytest.mark.parametrize("seed", range(5))
def test_post_order_rule_is_the_best_post_order_of_an_in_tree(seed: int) -> None:
    graph = in_tree(3, 3, Random(seed))
    peak = sequential_memory(graph).peak(greedy_order(graph, "post-order"))
    assert peak == best_post_order_peak(graph, len(graph.ops) - 1)


@CHECKED
@given(graphs(max_ops=7))
def test_a_beam_that_drops_nothing_is_exact_in_both_directions(graph: Graph) -> None:
    optimum, _ = brute_force_peak(graph)
    for backward in (False, True):
        space = state_space(graph, backward=backward)
        found = beam_pass(space, optimum, 10**6)
        assert found.order is not None
        assert order_peak(graph, found.order) == optimum
        if graph.ops:
            assert beam_pass(space, optimum - 1, 10**6).bound == optimum


@CHECKED
@given(graphs(max_ops=8))
def test_a_narrow_beam_proves_nothing_wrong(graph: Graph) -> None:
    optimum, _ = brute_force_peak(graph)
    for width in (1, 2):
        context = Context(problem=Peak(graph))
        context.offer(range(len(graph.ops)))
        assert improve_by_beam(Peak(graph), context, width)
        assert context.answer is not None
        assert context.incumbent == order_peak(graph, context.answer) >= optimum
        assert context.bound is None or context.bound <= optimum


def test_methods_offer_orders_and_repeat_themselves() -> None:
    for seed in range(5):
        graph = random_graph(Random(seed), min_ops=30, max_ops=30, max_tensors=30, max_nbytes=20)
        results = []
        for method in (solve_greedy, solve_beam, solve_greedy, solve_beam):
            context = Context(problem=Peak(graph), options={"width": 8})
            outcome = method(Peak(graph), context)
            assert outcome.reason is None
            results.append((context.answer, context.incumbent, context.bound))
        assert results[:2] == results[2:]


def test_time_that_is_up_leaves_an_order() -> None:
    graph = random_graph(Random(3), min_ops=20, max_ops=20, max_tensors=20)
    for method in (solve_greedy, solve_beam):
        context = Context(problem=Peak(graph), time_limit=0.0, options=DEFAULTS)
        assert method(Peak(graph), context).reason == "time"
        assert context.answer is not None


def test_graph_without_ops() -> None:
    graph = Graph(
        name="empty",
        tensors=(Tensor(name="w", nbytes=7, initial=True, final=True),),
        ops=(),
    )
    for method in (solve_greedy, solve_beam):
        context = Context(problem=Peak(graph), options=DEFAULTS)
        method(Peak(graph), context)
        assert context.incumbent == 7
