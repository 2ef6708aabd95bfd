"""Chains beside each other: the program over positions against that over sets, the search against both."""

from __future__ import annotations

from dataclasses import replace
from math import comb, prod
from random import Random

import pytest

import lowtide as lt
from lowtide.solvers.streams.stages import Pruning, program
from lowtide.solvers.streams.tenants import chains_of, program_of_chains, search
from tests.effort import seeds
from tests.oracles.brute_streams import fastest_stages


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
    chains = chains_of(problem.graph)
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
    chains = chains_of(problem.graph)
    lengths = [len(chain) for chain in chains]
    _, transitions = program_of_chains(problem, chains)
    found = program(problem, range(len(problem.graph.ops)), Pruning(endings="all"))
    states = prod(n + 1 for n in lengths)
    assert found.states == states - 1
    assert transitions == found.transitions == prod(comb(n + 2, 2) for n in lengths) - states


def test_what_is_no_chain_is_refused() -> None:
    with pytest.raises(lt.UsageError, match="expected chains"):
        lt.solve(lt.Streams(lt.load("catalogue:diamond"), contention="fluid"), "tenants")
    with pytest.raises(lt.UsageError, match="expected fluid or half-serial"):
        lt.solve(lt.Streams(lt.load("catalogue:diamond")), "tenants")
