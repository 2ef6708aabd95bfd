"""Edges that bound parallel memory: against enumeration of all partial orders, and by what they promise."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lowtide as lt
from lowtide.formulations.parallel import network as parallel_cut
from lowtide.formulations.parallel.edges_cpsat import conflict_pairs
from lowtide.models.flow_proof import FlowCase, FlowProof
from lowtide.models.problems.memory_edges import apply_edges
from lowtide.models.problems.parallel_memory import Moment
from lowtide.solvers.context import Context
from lowtide.solvers.parallel.adding import RULES
from lowtide.solvers.parallel.edges_cpsat import solve_cpsat
from lowtide.solvers.parallel.flow import largest_cut
from tests.effort import seeds
from tests.oracles.brute_force import brute_force_peak, must_precede
from tests.oracles.brute_orders import (
    longest_path,
    masks,
    partial_orders,
    shortest_within,
    states_above,
    within,
)
from tests.oracles.brute_parallel import critical_path, least_critical_path, most_memory
from tests.strategies import graphs, random_graph, readers_graph


def proof_of(arcs: tuple[tuple[int, int, int], ...]) -> FlowProof:
    """A flow without cases."""
    return FlowProof(cases=(FlowCase(arcs=arcs),))


def least_bound(graph: lt.Graph) -> int:
    """The least bound that edges can meet: one op at a time, and the memory before any op."""
    return brute_force_peak(graph)[0]


def check_rules(seed: int) -> set[str]:
    """All rules on one graph: what they promise is true; return those that failed."""
    rng = Random(seed)
    graph = random_graph(rng, min_ops=4, max_ops=7, max_duration=4)
    bound = rng.randint(least_bound(graph), max(most_memory(graph), least_bound(graph)))
    failed = set()
    for rule in RULES:
        result = lt.solve(lt.MemoryEdges(graph, bound), rule, threads=1)
        if result.edges is None:
            assert result.status == "unknown"
            failed.add(rule)
            continue
        assert most_memory(graph, set(result.edges)) <= bound
        assert critical_path(graph, must_precede(graph) | set(result.edges)) == result.objective
        changed = apply_edges(graph, result.edges)
        assert most_memory(changed) <= bound
        assert critical_path(changed, must_precede(changed)) == result.objective
    return failed


@pytest.mark.slow
def test_respect_order_never_fails_and_no_rule_breaks_its_promise() -> None:
    failed = [check_rules(seed) for seed in range(100)]
    assert not any("respect-order" in some for some in failed)
    assert any("min-levels" in some for some in failed)


@pytest.mark.slow
def test_respect_order_never_fails_on_a_thousand_graphs() -> None:
    assert not any("respect-order" in check_rules(1000 + seed) for seed in seeds(1000))


def check_optimum(seed: int, max_ops: int = 4) -> tuple[bool, bool]:
    """Every method against all partial orders; return whether any keeps the bound, and `milp` has none."""
    rng = Random(seed)
    if rng.random() < 0.5:
        graph = readers_graph(rng, max_ops=max_ops)
    else:
        graph = random_graph(rng, min_ops=2, max_ops=max_ops, max_duration=4)
    processors = rng.choice((None, None, 1, 2))
    most = most_memory(graph, processors=processors)
    bound = rng.randint(most // 2, most)
    least, above = shortest_within(graph, bound, processors), states_above(graph, bound, processors)
    methods = ("auto", "cpsat", *RULES) if processors else ("auto", "cpsat", "milp", *RULES)
    problem = lt.MemoryEdges(graph, bound, processors)
    found = {method: lt.solve(problem, method, threads=1) for method in methods}
    for method, result in found.items():
        assert result.status != "failed", method
        if result.edges is not None:
            order = masks(len(graph.ops), must_precede(graph) | set(result.edges))
            assert order is not None
            assert within(order, above)
            assert result.objective == longest_path(graph, order)
        if least is None:
            assert result.objective is None, method
            continue
        assert result.status != "infeasible", method
        assert result.bound is not None
        assert result.bound <= least, method
        assert result.objective is None or result.objective >= least, method
    for method in ("auto", "cpsat"):
        expected = "infeasible" if least is None else "optimal"
        assert (found[method].status, found[method].objective) == (expected, least), method
    if least is not None:
        assert found["respect-order"].objective is not None
    if processors is not None:
        return least is not None, False
    if not parallel_cut.build(graph).shared:
        assert (found["milp"].objective, found["milp"].status) == (
            found["auto"].objective,
            found["auto"].status,
        )
    return least is not None, found["milp"].objective != least


@pytest.mark.slow
def test_optimum_of_all_partial_orders() -> None:
    checked = [check_optimum(seed) for seed in range(120)]
    assert 40 < sum(feasible for feasible, _ in checked) < 120
    assert any(misses for _, misses in checked)


@pytest.mark.slow
@pytest.mark.parametrize("block", seeds(6, least=2))
def test_optimum_of_all_partial_orders_of_five_ops(block: int) -> None:
    for seed in range(100):
        check_optimum(10_000 + 100 * block + seed, max_ops=5)


@pytest.mark.slow
@given(graphs(max_ops=4), st.integers(0, 12), st.sampled_from((None, 1, 2)))
@settings(max_examples=60, deadline=None)
def test_cpsat_claims_what_enumeration_finds(graph: lt.Graph, bound: int, processors: int | None) -> None:
    result = lt.solve(lt.MemoryEdges(graph, bound, processors), "cpsat", threads=1)
    least = shortest_within(graph, bound, processors)
    expected = "infeasible" if least is None else "optimal"
    assert (result.status, result.objective) == (expected, least)


def test_enumerations_of_extensions_agree() -> None:
    for seed in range(25):
        rng = Random(seed)
        graph = readers_graph(rng)
        bound = rng.randint(0, most_memory(graph))
        assert shortest_within(graph, bound) == least_critical_path(graph, bound)


def test_every_order_within_the_bound_breaks_every_conflict() -> None:
    """The lemma of the formulation, for every moment of every graph, on every number of processors."""
    count = 0
    for seed in range(40):
        rng = Random(seed)
        graph = readers_graph(rng) if seed % 2 else random_graph(rng, min_ops=2, max_ops=4)
        base = masks(len(graph.ops), must_precede(graph))
        assert base is not None
        for processors in (None, 1, 2):
            bound = rng.randint(0, most_memory(graph, processors=processors))
            above = states_above(graph, bound, processors)
            orders = [order for order in partial_orders(graph) if within(order, above)]
            for state in above:
                if within(base, [state]):
                    continue
                finished, running = ([i for i in range(len(graph.ops)) if mask >> i & 1] for mask in state)
                moment = Moment(finished=tuple(finished), running=tuple(running))
                pairs = conflict_pairs(graph, moment, bound)
                assert all(any(order[v] >> u & 1 for u, v in pairs) for order in orders)
                assert all(u != v and not base[u] >> v & 1 and not base[v] >> u & 1 for u, v in pairs)
                count += 1
    assert count > 500


def several_readers() -> lt.Graph:
    """Two tensors that are released by whichever of their readers starts last."""
    tensors = tuple(lt.Tensor(name=name, nbytes=1, initial=True) for name in "xy")
    ops = (
        lt.Op(name="a", reads=(0, 1), workspace=2, duration_ns=2),
        lt.Op(name="b", reads=(1,), workspace=3),
        lt.Op(name="c", reads=(0, 1), workspace=2),
    )
    return lt.Graph(name="readers", tensors=tensors, ops=ops, accounting=lt.Accounting.REPLACE)


def test_edges_that_no_flow_alone_certifies_are_found() -> None:
    problem = lt.MemoryEdges(several_readers(), 5)
    assert shortest_within(several_readers(), 5) == 2
    for method in ("auto", "cpsat"):
        result = lt.solve(problem, method, threads=1)
        assert (result.status, result.objective, result.proof) == ("optimal", 2, "exact")
    milp = lt.solve(problem, "milp", threads=1)
    assert (milp.status, milp.objective, milp.bound) == ("feasible", 4, 2)
    assert "other edges may be better" in milp.detail


def test_one_op_above_the_bound_is_a_conflict_without_edges() -> None:
    result = lt.solve(lt.MemoryEdges(two_branches(), 5), "cpsat", threads=1)
    assert (result.status, result.objective) == ("infeasible", None)
    assert "no edge that could break it" in result.detail


def test_durations_beyond_the_integers_of_cpsat_are_refused_and_auto_goes_without() -> None:
    ops = tuple(replace(op, duration_ns=2**60 + k) for k, op in enumerate(two_branches().ops))
    problem = lt.MemoryEdges(replace(two_branches(), ops=ops), 9)
    with pytest.raises(lt.UsageError, match=r"expected fewer \(coarser durations\)"):
        lt.solve(problem, "cpsat", threads=1)
    assert lt.solve(problem, threads=1).objective == 2**61 + 1
    ticks = tuple(replace(op, duration_ns=2**60) for op in two_branches().ops)
    result = lt.solve(lt.MemoryEdges(replace(two_branches(), ops=ticks), 9), "cpsat", threads=1)
    assert (result.status, result.objective) == ("optimal", 2**61)


def test_a_search_without_time_says_so() -> None:
    problem = lt.MemoryEdges(lt.load("gen:randwire?n=40&seed=2"), 181)
    context = Context(problem=problem, threads=1, time_limit=0.0)
    outcome = solve_cpsat(problem, context)
    assert (outcome.reason, outcome.infeasible, context.answer) == ("time", False, None)


def check_processors(seed: int) -> None:
    """Edges for some processors keep the bound on them; `respect-order` finds some."""
    rng = Random(seed)
    graph = random_graph(rng, min_ops=4, max_ops=7, max_duration=4)
    for processors in (1, 2):
        most = most_memory(graph, processors=processors)
        bound = rng.randint(least_bound(graph), max(most, least_bound(graph)))
        for rule in ("respect-order", "min-levels"):
            problem = lt.MemoryEdges(graph, bound, processors)
            result = lt.solve(problem, rule, threads=1)
            assert result.edges is not None or rule != "respect-order"
            if result.edges is None:
                continue
            assert most_memory(graph, set(result.edges), processors) <= bound
            assert critical_path(graph, must_precede(graph) | set(result.edges)) == result.objective
            assert bound < most or not result.edges
            assert result.plan is not None
            assert len(result.plan.machine.processors) <= processors


@pytest.mark.slow
def test_edges_for_some_processors_keep_the_bound_on_them() -> None:
    for seed in range(40):
        check_processors(seed)


@pytest.mark.slow
def test_edges_for_some_processors_on_five_hundred_graphs() -> None:
    for seed in seeds(500):
        check_processors(1000 + seed)


def two_branches() -> lt.Graph:
    """Two ops of 4 and 6 bytes of workspace side by side."""
    return lt.Graph(
        name="branches",
        tensors=(),
        ops=(lt.Op(name="a", workspace=4, duration_ns=3), lt.Op(name="b", workspace=6, duration_ns=5)),
    )


def test_one_edge_puts_two_branches_in_a_row() -> None:
    result = lt.solve(lt.MemoryEdges(two_branches(), 9), threads=1)
    assert (result.status, result.objective) == ("optimal", 8)
    assert result.edges in (((0, 1),), ((1, 0),))
    assert lt.solve(lt.ParallelMemory(apply_edges(two_branches(), [(1, 0)]))).objective == 6


def test_no_edges_are_needed_within_the_bound() -> None:
    result = lt.solve(lt.MemoryEdges(two_branches(), 10), threads=1)
    assert (result.status, result.objective, result.edges) == ("optimal", 5, ())


def test_what_the_flow_does_not_prove_is_no_answer() -> None:
    problem = lt.MemoryEdges(two_branches(), 9)
    good = largest_cut(parallel_cut.build(two_branches(), [(0, 1)])).flow
    assert not problem.judge(lt.Edges(edges=((0, 1),), flow=good)).violations
    for edges, flow in (((), good), (((0, 1),), proof_of(()))):
        assert problem.judge(lt.Edges(edges=edges, flow=flow)).violations
    much = largest_cut(parallel_cut.build(two_branches())).flow
    assert "at most the bound 9" in problem.judge(lt.Edges(edges=(), flow=much)).violations[0].message


def test_edges_that_close_a_cycle_are_refused() -> None:
    with pytest.raises(lt.InstanceError, match="cycle"):
        lt.MemoryEdges(two_branches(), 9).read(lt.Edges(edges=((0, 1), (1, 0)), flow=proof_of(())))
    with pytest.raises(lt.InstanceError, match=r"\[0, 2\): found|found an unknown op"):
        apply_edges(two_branches(), [(0, 2)])
    with pytest.raises(lt.InstanceError, match="found -1, expected an integer >= 0"):
        lt.MemoryEdges(two_branches(), -1)
