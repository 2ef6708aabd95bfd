"""Chains beside each other: the program over positions against that over sets, the search against both."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise, product
from math import comb, prod
from random import Random

import pytest

import lowtide as lt
from lowtide.solvers.streams.stages import Pruning, program
from lowtide.solvers.streams.tenants import Tenant, program_of_tenants, search, tenants_of
from tests.effort import seeds
from tests.oracles.brute_force import must_precede
from tests.oracles.brute_streams import fastest_stages, price, stage_bytes


def tenants(seed: int, ops: int, *, memory: bool = True) -> lt.Streams:
    """Return chains with inner skips, interleaved in the reference order."""
    rng = Random(seed)
    left = [rng.randint(1, ops) for _ in range(rng.randint(1, 3))]
    while sum(left) > ops:
        left[left.index(max(left))] -= 1
    tensors = [lt.Tensor(name="in", nbytes=rng.randint(0, 2), initial=True)]
    made: list[lt.Op] = []
    written: list[list[int]] = [[] for _ in left]
    while any(left):
        k = rng.choice([k for k, count in enumerate(left) if count])
        left[k] -= 1
        reads = {0} if rng.random() < 0.3 else set()
        if written[k]:
            reads |= {written[k][-1], rng.choice(written[k])}
        written[k].append(len(tensors))
        final = rng.random() < 0.2
        tensors.append(lt.Tensor(name=f"t{len(tensors)}", nbytes=rng.randint(0, 5), final=final))
        op = lt.Op(
            name=f"o{len(made)}",
            reads=tuple(sorted(reads)),
            writes=(len(tensors) - 1,),
            duration_ns=rng.randint(1, 9),
            share=rng.randint(1, 4),
        )
        made.append(op)
    graph = lt.Graph(name="tenants", tensors=tuple(tensors), ops=tuple(made))
    return lt.Streams(
        graph,
        contention=rng.choice(("fluid", "half-serial")),
        parts=4,
        sync_ns=rng.choice((0, 1, 3)),
        memory=rng.choice((None, rng.randint(4, 16))) if memory else None,
    )


@pytest.mark.parametrize("seed", seeds(120))
def test_positions_lead_to_the_least_of_all_stages(seed: int) -> None:
    problem = tenants(seed, 5)
    known = fastest_stages(
        problem.graph,
        problem.contention,
        problem.device.parts,
        sync_ns=problem.sync_ns,
        memory=problem.memory,
    )
    result = lt.solve(problem, "tenants", threads=1)
    assert (result.status, result.objective) == ("infeasible" if known is None else "optimal", known)


@pytest.mark.parametrize("seed", seeds(40))
def test_the_search_never_beats_the_program_and_ios_agrees(seed: int) -> None:
    problem = tenants(seed, 9)
    by_sets = lt.solve(problem, "ios", options={"endings": "all", "r": "0", "s": "0"}, threads=1)
    exact = lt.solve(problem, "tenants", threads=1)
    assert (exact.status, exact.objective) == (by_sets.status, by_sets.objective)
    found = lt.solve(problem, "tenants", options={"by": "search", "moves": "300"}, seed=seed, threads=1)
    if found.objective is not None:
        assert exact.objective is not None
        assert found.objective >= exact.objective


def test_the_search_comes_to_the_optimum() -> None:
    problem = replace(tenants(5, 12, memory=False), contention="half-serial", sync_ns=2)
    exact = lt.solve(problem, "tenants", threads=1).objective
    chains = tenants_of(problem)
    assert len(chains) == 3
    results = [
        lt.solve(problem, "tenants", options={"by": "search", "moves": n}, threads=1).objective
        for n in ("0", "3000")
    ]
    assert results[0] != exact
    assert results[1] == exact
    assert search(problem, chains, 5, 500) == search(problem, chains, 5, 500)


@pytest.mark.parametrize("seed", seeds(40))
def test_the_programs_look_at_as_many_stages_as_there_are(seed: int) -> None:
    problem = tenants(seed, 7, memory=False)
    chains = tenants_of(problem)
    lengths = [len(chain.order) for chain in chains]
    _, transitions = program_of_tenants(problem, chains)
    found = program(problem, range(len(problem.graph.ops)), Pruning(endings="all"))
    states = prod(n + 1 for n in lengths)
    assert found.states == states - 1
    assert transitions == found.transitions == prod(comb(n + 2, 2) for n in lengths) - states


def networks(seed: int) -> lt.Streams:
    """Return two or three small graphs that share initial tensors alone."""
    rng = Random(seed)
    tensors = [lt.Tensor(name=f"in{k}", nbytes=rng.randint(0, 3), initial=True, final=k == 1) for k in (0, 1)]
    made: list[lt.Op] = []
    for most in rng.choice(((3, 3), (4, 2), (2, 2, 2))):
        own: list[int] = []
        for _ in range(rng.randint(1, most)):
            reads = {t for t in own if rng.random() < 0.6} | {t for t in (0, 1) if rng.random() < 0.3}
            own.append(len(tensors))
            tensors.append(
                lt.Tensor(name=f"t{len(tensors)}", nbytes=rng.randint(0, 5), final=rng.random() < 0.2)
            )
            made.append(
                lt.Op(
                    name=f"o{len(made)}",
                    reads=tuple(sorted(reads)),
                    writes=(own[-1],),
                    duration_ns=rng.randint(1, 9),
                    share=rng.randint(1, 4),
                    workspace=rng.choice((0, 0, 2)),
                )
            )
    return lt.Streams(
        lt.Graph(name="networks", tensors=tuple(tensors), ops=tuple(made)),
        contention=rng.choice(("fluid", "half-serial")),
        parts=4,
        sync_ns=rng.choice((0, 1, 3)),
        streams=rng.choice((None, None, 1, 2)),
        memory=rng.choice((None, rng.randint(8, 24))),
    )


def paths(ends: tuple[int, ...], at: tuple[int, ...]) -> Iterator[list[tuple[int, ...]]]:
    """Yield every sequence of vectors from one to the end."""
    if at == ends:
        yield [at]
    for q in product(*(range(a, n + 1) for a, n in zip(at, ends, strict=True))):
        if q != at:
            yield from ([at, *rest] for rest in paths(ends, q))


def cost_of(problem: lt.Streams, tenants: list[Tenant], path: list[tuple[int, ...]]) -> int | None:
    """Return the time of the stages between vectors, by the definition; None if one may not be."""
    graph, cost, past = problem.graph, 0, set[int]()
    near = {(i, j) for i, j in must_precede(graph) if set(graph.ops[i].writes) & set(graph.ops[j].reads)}
    for p, q in pairwise(path):
        stage = {i for t, a, b in zip(tenants, p, q, strict=True) for i in t.order[a:b]}
        left, groups = set(stage), []
        while left:
            group = {left.pop()}
            while more := {i for i in left if any({(i, j), (j, i)} & near for j in group)}:
                group |= more
                left -= more
            groups.append(sorted(group))
        if len(groups) > (problem.streams or len(groups)):
            return None
        if problem.memory is not None and stage_bytes(graph, past, groups) > problem.memory:
            return None
        cost += price(graph, groups, problem.contention, problem.device.parts, problem.sync_ns)
        past |= stage
    return cost


@pytest.mark.parametrize("seed", seeds(60))
def test_networks_get_the_least_of_all_cuts_of_their_orders(seed: int) -> None:
    problem = networks(seed)
    tenants = tenants_of(problem)
    assert sorted(i for t in tenants for i in t.order) == [*range(len(problem.graph.ops))]
    ends = tuple(len(t.order) for t in tenants)
    costs = [cost_of(problem, tenants, path) for path in paths(ends, tuple(0 for _ in ends))]
    result = lt.solve(problem, "tenants", threads=1)
    assert result.objective == min((cost for cost in costs if cost is not None), default=None)
    optimum = fastest_stages(
        problem.graph,
        problem.contention,
        problem.device.parts,
        sync_ns=problem.sync_ns,
        memory=problem.memory,
        streams=problem.streams,
    )
    if result.status == "optimal":
        assert result.objective == optimum
    if result.status == "infeasible":
        assert optimum is None


@pytest.mark.slow  # two seconds
def test_two_networks_of_ios_beside_each_other_are_optimal() -> None:
    """Their `ios` alone take 496,608 + 3,329,290 ns; `auto` without `tenants` came to 3,753,534."""
    graphs = [lt.load(f"catalogue:ios/{name}") for name in ("squeezenet", "inception_v3")]
    problem = lt.Streams(beside(graphs), contention="half-serial")
    result = lt.solve(problem, "tenants", threads=1)
    assert (result.status, result.objective) == ("optimal", 3_596_102)


def beside(graphs: list[lt.Graph]) -> lt.Graph:
    """Return a graph of graphs that have nothing to do with each other."""
    tensors: list[lt.Tensor] = []
    ops: list[lt.Op] = []
    for k, graph in enumerate(graphs):
        n = len(tensors)
        tensors += [replace(x, name=f"{k}/{x.name}") for x in graph.tensors]
        ops += [
            replace(
                op,
                name=f"{k}/{op.name}",
                reads=tuple(t + n for t in op.reads),
                writes=tuple(t + n for t in op.writes),
            )
            for op in graph.ops
        ]
    return lt.Graph(name="beside", tensors=tuple(tensors), ops=tuple(ops))
