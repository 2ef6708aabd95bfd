"""Largest parallel memory: brute force, flow, LP and MILP agree; what proves a bound is judged apart."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest

import lowtide as lt
from lowtide.formulations.parallel import network as parallel_cut
from lowtide.models.derived.precedence import descendants_with, precedence
from lowtide.models.flow_proof import FlowCase, FlowProof
from lowtide.models.problems.parallel_memory import moment_plan
from lowtide.models.verifier import followers
from lowtide.models.verifier.flow import verify_flow
from lowtide.models.verifier.followers import Followers
from lowtide.solvers.context import Context, Outcome
from lowtide.solvers.method import Method
from lowtide.solvers.parallel.flow import largest_cut
from tests.oracles.brute_force import must_precede
from tests.oracles.brute_parallel import memory_at, most_memory, states
from tests.strategies import random_graph


def proof_of(arcs: tuple[tuple[int, int, int], ...]) -> FlowProof:
    """A flow without cases."""
    return FlowProof(cases=(FlowCase(arcs=arcs),))


def per_edge(sizes: dict[tuple[int, int], int], n: int, accounting: str) -> lt.Graph:
    """One tensor per edge."""
    edges = sorted(sizes)
    reads: list[list[int]] = [[] for _ in range(n)]
    writes: list[list[int]] = [[] for _ in range(n)]
    for k, (i, j) in enumerate(edges):
        writes[i].append(k)
        reads[j].append(k)
    return lt.Graph(
        name="edges",
        tensors=tuple(lt.Tensor(name=f"{i}-{j}", nbytes=sizes[i, j]) for i, j in edges),
        ops=tuple(lt.Op(name=str(i), reads=tuple(reads[i]), writes=tuple(writes[i])) for i in range(n)),
        accounting=lt.Accounting(accounting),
    )


@pytest.mark.parametrize(
    ("sizes", "largest"), [((1, 1, 5, 5), 10), ((5, 1, 1, 5), 10), ((2, 3, 4, 1), 7), ((0, 0, 0, 0), 0)]
)
def test_diamond_needs_the_larger_datum_of_each_branch(sizes: tuple[int, ...], largest: int) -> None:
    graph = per_edge(dict(zip([(0, 1), (0, 2), (1, 3), (2, 3)], sizes, strict=True)), 4, "replace")
    for method in ("flow", "lp", "milp"):
        result = lt.solve(lt.ParallelMemory(graph), method, threads=1)
        assert (result.status, result.objective) == ("optimal", largest)


def test_every_moment_occurs_and_has_the_memory_of_the_definition() -> None:
    for seed in range(40):
        graph = random_graph(Random(seed), max_ops=5)
        problem = lt.ParallelMemory(graph)
        for finished, running in states(len(graph.ops), must_precede(graph)):
            moment = problem.read((sorted(finished), sorted(running)))
            assert problem.evaluate(moment) == memory_at(graph, (finished, running))
        largest = max(states(len(graph.ops), must_precede(graph)), key=lambda state: memory_at(graph, state))
        moment = problem.read(tuple(map(sorted, largest)))
        assert problem.judge(moment).objective == most_memory(graph)
        assert problem.evaluate(problem.read(moment_plan(graph, moment))) == most_memory(graph)


def check_methods(graph: lt.Graph) -> bool:
    """All methods against brute force; return whether the flow is exact."""
    problem, largest = lt.ParallelMemory(graph), most_memory(graph)
    flow, lp = (lt.solve(problem, method, threads=1) for method in ("flow", "lp"))
    assert flow.bound == lp.bound
    assert flow.objective is not None
    assert flow.bound is not None
    assert flow.objective <= largest <= flow.bound
    if not parallel_cut.build(graph).shared:
        assert flow.status == lp.status == "optimal"
        assert flow.objective == lp.objective == largest
    milp = lt.solve(problem, "milp", threads=1)
    assert (milp.status, milp.objective) == ("optimal", largest)
    return flow.bound == largest


@pytest.mark.slow
def test_flow_and_lp_agree_and_are_exact_without_shared_tensors() -> None:
    exact = [check_methods(random_graph(Random(seed), max_ops=6)) for seed in range(60)]
    assert 50 < sum(exact) < 60  # some shared tensors make the flow too large: then the MILP counts


@pytest.mark.slow
def test_flow_and_lp_agree_on_five_hundred_graphs() -> None:
    exact = [check_methods(random_graph(Random(seed), max_ops=6)) for seed in range(1000, 1500)]
    assert sum(exact) > 450


def test_processors_limit_what_runs_together() -> None:
    for seed in range(25):
        graph = random_graph(Random(seed), max_ops=6)
        for processors in (1, 2):
            result = lt.solve(lt.ParallelMemory(graph, processors=processors), threads=1)
            assert (result.status, result.objective) == ("optimal", most_memory(graph, processors=processors))
            assert result.plan is not None
            assert len(result.plan.machine.processors) <= processors


def test_auto_closes_what_shared_tensors_leave_open() -> None:
    graph = next(
        g
        for g in (random_graph(Random(seed), max_ops=6) for seed in range(400))
        if largest_cut(parallel_cut.build(g)).value > most_memory(g)
    )
    flow, auto = (lt.solve(lt.ParallelMemory(graph), method, threads=1) for method in ("flow", "auto"))
    assert flow.status == "feasible"
    assert "last accesses" in flow.detail
    assert (auto.status, auto.objective) == ("optimal", most_memory(graph))


@pytest.mark.slow
def test_flow_of_another_kind_proves_nothing() -> None:
    broken = 0
    for seed in range(60):
        graph = random_graph(Random(seed), min_ops=3, max_ops=6)
        flow = largest_cut(parallel_cut.build(graph)).flow
        assert verify_flow(graph, (), flow) == ()
        for k, (u, v, nbytes) in enumerate(flow.cases[0].arcs):
            arcs_ = flow.cases[0].arcs
            rest = arcs_[:k] + arcs_[k + 1 :]
            for arcs in (rest, (*rest, (u, v, nbytes - 1)), (*rest, (v, u, nbytes)), (*arcs_, (u, v, 0))):
                assert verify_flow(graph, (), proof_of(arcs)), (seed, arcs)
                broken += 1
    assert broken > 500


@pytest.mark.slow
def test_no_flow_is_accepted_below_the_largest_memory() -> None:
    accepted = 0
    for seed in range(300):
        rng = Random(seed)
        graph = random_graph(rng, max_ops=5)
        n, arcs = len(graph.ops), dict[tuple[int, int], int]()
        for u, v, nbytes in largest_cut(parallel_cut.build(graph)).flow.cases[0].arcs:
            arcs[u, v] = nbytes
        for _ in range(min(rng.randint(1, 3), len(arcs))):  # cut a path short, or send some of it another way
            u, v = rng.choice(sorted(arcs))
            w = rng.randrange(2 * n + len(graph.tensors))
            moved = rng.randint(1, max(arcs[u, v], 1))
            arcs[u, v] -= moved
            if rng.random() < 0.7:
                arcs[u, w] = arcs.get((u, w), 0) + moved
                arcs[w, v] = arcs.get((w, v), 0) + moved
        flow = proof_of(tuple((u, v, nbytes) for (u, v), nbytes in arcs.items()))
        if not verify_flow(graph, (), flow):
            accepted += 1
            assert flow.value() >= most_memory(graph)
    assert accepted > 4


def test_edges_out_of_range_and_cycles_are_violations() -> None:
    graph = per_edge({(0, 1): 1, (0, 2): 1}, 3, "coexist")
    flow = proof_of(())
    assert verify_flow(graph, [(1, 3)], flow)[0].kind == "edge"
    assert "cycle" in verify_flow(graph, [(1, 2), (2, 1)], flow)[0].message


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (((), (1,)), "before op 0 has finished"),
        (((0, 0), ()), "twice"),
        (((0,), (0,)), "twice"),
        (((0,), (3,)), "expected one in [0, 3)"),
        (((0,), (1, 2)), "at most 1"),
        ("moment", "found str"),
    ],
)
def test_moments_that_cannot_occur_are_refused(answer: object, said: str) -> None:
    problem = lt.ParallelMemory(per_edge({(0, 1): 1, (0, 2): 1}, 3, "coexist"), processors=1)
    with pytest.raises(lt.InstanceError, match=said.replace("[", r"\[").replace(")", r"\)")):
        problem.read(answer)


def test_named_processors_are_refused() -> None:
    graph = per_edge({(0, 1): 1}, 2, "coexist")
    op = replace(graph.ops[0], modes=(lt.Mode(processors=("gpu",)),))
    with pytest.raises(lt.InstanceError, match="mode 0: found named processors"):
        lt.ParallelMemory(replace(graph, ops=(op, graph.ops[1])))


def test_an_upper_bound_below_the_memory_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = per_edge({(0, 1): 4}, 2, "coexist")

    def wrong(problem: lt.ParallelMemory, context: Context) -> Outcome:
        context.offer(((0,), (1,)))
        context.raise_bound(9)
        context.raise_bound(12)
        assert context.bound == 9
        context.raise_bound(3)
        return Outcome()

    method = Method(name="wrong", problem="parallel-memory", run=wrong, summary="")
    monkeypatch.setattr("lowtide.solvers.solve.find_method", lambda problem, name: method)
    result = lt.solve(lt.ParallelMemory(graph), "wrong")
    assert result.status == "failed"
    assert "below the verified objective 4" in result.detail


@pytest.mark.slow
def test_ten_thousand_ops_with_forty_thousand_edges() -> None:
    rng, sizes = Random(1), dict[tuple[int, int], int]()
    while len(sizes) < 40_000:
        j = rng.randrange(1, 10_000)
        i = j - 1 - int(rng.expovariate(1 / 60))
        if i >= 0:
            sizes[i, j] = rng.randint(1, 10**9)
    result = lt.solve(lt.ParallelMemory(per_edge(sizes, 10_000, "coexist")), "flow")
    assert (result.status, result.bound_kind) == ("optimal", "flow")
    assert result.objective == result.bound


def test_a_chain_needs_no_sets_of_followers(monkeypatch: pytest.MonkeyPatch) -> None:
    """They take n^2 / 4 bytes: gigabytes for 100,000 ops."""

    def never(*arguments: object) -> object:
        raise AssertionError("sets of followers were made")

    monkeypatch.setattr(parallel_cut, "descendants_with", never)
    monkeypatch.setattr(Followers, "later", property(never))
    result = lt.solve(lt.ParallelMemory(lt.load("gen:chain?n=50&seed=1")), threads=1)
    assert result.status is lt.Status.OPTIMAL


@pytest.mark.parametrize("targets", [1, 3, 100])
@pytest.mark.parametrize("seed", range(7))
def test_what_follows_is_told_directly_and_by_sweeps(
    monkeypatch: pytest.MonkeyPatch, seed: int, targets: int
) -> None:
    monkeypatch.setattr(followers, "_TARGETS", targets)
    graph = lt.load(f"gen:randwire?n=12&seed={seed}")
    n, order = len(graph.ops), precedence(graph)
    direct = [(i, j) for i, some in enumerate(order.successors) for j in some]
    for extra in ([], [(n - 2, 1)] if not order.descendants[1] >> n - 2 & 1 else []):
        after = Followers(n, np.array(sorted({i * n + j for i, j in [*direct, *extra]})))
        assert after.acyclic
        expected = descendants_with(graph, extra)
        pairs = np.arange(n * n)
        assert after.has(pairs // n, pairs % n).tolist() == [
            bool(expected[i] >> j & 1) for i in range(n) for j in range(n)
        ]
    assert not Followers(n, np.array([1, n])).acyclic


def test_flows_beyond_64_bits_are_added_and_arcs_that_are_none_are_named() -> None:
    graph = lt.Graph(
        name="one op",
        tensors=(lt.Tensor(name="x", nbytes=4),),
        ops=(lt.Op(name="make", writes=(0,)),),
    )
    way = ((-1, 0), (0, 2), (2, 1), (1, -2))
    large = FlowProof(cases=(FlowCase(arcs=tuple((*arc, 2**70) for arc in way), scale=2**68),))
    assert verify_flow(graph, (), large) == ()
    wrong = proof_of((*((*arc, 4) for arc in way), (0, 2, -1), (1, -2, 2**64), (2**80, -7, 1), (0, 2, True)))
    assert [x.message for x in verify_flow(graph, (), wrong)] == [
        "arc from 0 to 2 is listed twice, expected once",
        "arc from 0 to 2 carries -1, expected an integer >= 0",
        "arc from 1 to -2 is listed twice, expected once",
        f"arc from {2**80} to -7: nothing makes -7 happen after {2**80}",
        "arc from 0 to 2 is listed twice, expected once",
        "arc from 0 to 2 carries True, expected an integer >= 0",
        "event -7: 1 more arrives than leaves, expected as much",
        f"event 1: {-(2**64)} more arrives than leaves, expected as much",
        f"event {2**80}: -1 more arrives than leaves, expected as much",
    ]


@pytest.mark.parametrize("processors", [None, 2])
@pytest.mark.parametrize("method", ["auto", "flow", "branch", "lp", "milp"])
def test_without_time_a_moment_and_the_bound_by_all_bytes_are_offered(
    monkeypatch: pytest.MonkeyPatch, method: str, processors: int | None
) -> None:
    monkeypatch.setattr(Context, "expired", True)
    for seed in range(5):
        graph = random_graph(Random(seed))
        result = lt.solve(lt.ParallelMemory(graph, processors=processors), method, threads=1)
        assert result.reason in ("time", None)
        assert result.bound_kind == "all bytes"
        assert result.objective is not None
        assert result.bound is not None
        assert result.objective <= most_memory(graph, processors=processors) <= result.bound
