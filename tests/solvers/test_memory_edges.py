"""Edges that bound parallel memory: against enumeration of all extensions, and by what they promise."""

from __future__ import annotations

from random import Random

import pytest

import lowtide as lt
from lowtide.formulations import parallel_cut
from lowtide.models.flow_proof import FlowCase, FlowProof
from lowtide.models.memory_edges import apply_edges
from lowtide.models.parallel_memory import Moment, moment_bytes
from lowtide.solvers.algorithms.parallel.adding import RULES
from lowtide.solvers.parallel_flow import largest_cut
from tests.oracles.brute_force import brute_force_peak, must_precede
from tests.oracles.brute_parallel import critical_path, least_critical_path, most_memory
from tests.strategies import random_graph


def proof_of(arcs: tuple[tuple[int, int, int], ...]) -> FlowProof:
    """A flow without cases."""
    return FlowProof(cases=(FlowCase(arcs=arcs),))


def least_bound(graph: lt.Graph) -> int:
    """The least bound that edges can meet: one op at a time, and the memory before any op."""
    return max(brute_force_peak(graph)[0], moment_bytes(graph, Moment(finished=(), running=())))


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


def test_respect_order_never_fails_and_no_rule_breaks_its_promise() -> None:
    failed = [check_rules(seed) for seed in range(100)]
    assert not any("respect-order" in some for some in failed)
    assert any("min-levels" in some for some in failed)


@pytest.mark.slow
def test_respect_order_never_fails_on_a_thousand_graphs() -> None:
    assert not any("respect-order" in check_rules(seed) for seed in range(1000, 2000))


def check_optimum(seed: int) -> bool:
    """MILP and auto against enumeration, and below the heuristics; return whether there are such edges."""
    rng = Random(seed)
    graph = random_graph(rng, min_ops=3, max_ops=4, max_duration=4)
    bound = rng.randint(max(0, least_bound(graph) - 1), max(most_memory(graph), least_bound(graph)))
    least = least_critical_path(graph, bound)
    milp, auto = (lt.solve(lt.MemoryEdges(graph, bound), method, threads=1) for method in ("milp", "auto"))
    if least is None:
        assert bound < least_bound(graph)
        assert auto.status == "infeasible"
        assert milp.objective is None
    elif not parallel_cut.build(graph).shared:
        assert (milp.status, milp.objective) == ("optimal", least)
        assert (auto.status, auto.objective) == ("optimal", least)
    else:
        assert bound >= least_bound(graph)
        assert auto.objective is not None
        assert milp.objective is not None
        assert auto.objective >= milp.objective >= least
    for rule in RULES:
        heuristic = lt.solve(lt.MemoryEdges(graph, bound), rule, threads=1)
        if heuristic.objective is not None:
            assert milp.objective is not None
            assert milp.objective <= heuristic.objective
    return least is not None


def test_milp_is_the_optimum_of_enumeration() -> None:
    feasible = [check_optimum(seed) for seed in range(50)]
    assert 20 < sum(feasible) < 50


@pytest.mark.slow
def test_milp_is_the_optimum_of_enumeration_on_two_hundred_graphs() -> None:
    assert sum(check_optimum(seed) for seed in range(1000, 1200)) > 80


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


def test_edges_for_some_processors_keep_the_bound_on_them() -> None:
    for seed in range(40):
        check_processors(seed)


@pytest.mark.slow
def test_edges_for_some_processors_on_five_hundred_graphs() -> None:
    for seed in range(1000, 1500):
        check_processors(seed)


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
    with pytest.raises(lt.InstanceError, match="found -1, expected at least 0"):
        lt.MemoryEdges(two_branches(), -1)
