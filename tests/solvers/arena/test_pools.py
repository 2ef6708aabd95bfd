"""Arenas of several pools: exact on small graphs, in-place pairs within a pool, certificates."""

from __future__ import annotations

from dataclasses import replace

import pytest

import lowtide as lt
from lowtide.formulations.arena.stacks import apart, stacks
from lowtide.instances import decode_certificate, encode_certificate, load_problem
from lowtide.models.verifier.proofs.stacks import PoolsProof
from lowtide.solvers.certify import certified
from lowtide.solvers.context import Context
from tests.oracles.arena_certificates import EACH, GRAPH, RIGHT, stacked_at_least
from tests.oracles.brute_arena import least_sum, pool_cases
from tests.oracles.least_peak import least_peak


def tight(seeds: range, methods: tuple[str, ...] = ("auto",), most: int = 7) -> set[str | None]:
    kinds = set()
    for graph, alignment, pools in pool_cases(seeds):
        problem = lt.Arena(graph, alignment, pools=pools)
        for method in methods if len(graph.ops) <= most else ():
            result = lt.solve(problem, method, threads=1, time_limit=None)
            least = least_sum(graph, alignment, [pool.split("+") for pool in pools.split("/")])
            assert result.objective == result.bound == least
            assert result.plan is not None
            assert problem.evaluate(problem.read(result.plan)) == least
            kinds.add(result.bound_kind)
    return kinds


@pytest.mark.slow
def test_the_sum_of_heights_is_least() -> None:
    assert tight(range(6)) > {"least peaks of pools"}


@pytest.mark.slow(reason="every order and every address of 94 graphs")
def test_the_sum_of_heights_is_least_on_100_graphs() -> None:
    assert tight(range(6, 100)) == {"least peak", "least peaks of pools", "CP-SAT"}


@pytest.mark.slow(reason="60 models")
def test_joint_models_know_pools() -> None:
    tight(range(60, 100), ("cpsat", "milp"), most=4)


@pytest.mark.slow
def test_the_peak_of_all_bounds_the_sum() -> None:
    for graph, alignment, pools in pool_cases(range(500, 530)):
        problem = lt.Arena(graph, alignment, pools=pools)
        least = least_sum(graph, alignment, [pool.split("+") for pool in pools.split("/")])
        alone = [stacks(pool) for pool in apart(problem)]
        assert sum(pool.to_height(least_peak(pool.graph)) for pool in alone) <= least
        for threshold in range(alignment):
            found = stacks(problem, threshold)
            peak = least_peak(found.graph)
            assert found.to_height(peak) <= least
            assert found.to_height(found.to_peak(least)) >= least


def test_a_read_and_a_write_in_two_pools_share_nothing() -> None:
    tensors = tuple(lt.Tensor(name=kind, nbytes=4, kind=kind) for kind in ("activation", "gradient"))
    ops = (lt.Op(name="a", writes=(0,)), lt.Op(name="b", reads=(0,), writes=(1,), inplace=((0, 1),)))
    graph = lt.Graph(name="in place", tensors=tensors, ops=ops)
    assert lt.solve(lt.Arena(graph)).objective == 4
    problem = lt.Arena(graph, pools="gradient")
    result = lt.solve(problem)
    assert result.objective == 8
    claim, proof, _ = certified(problem, result, Context(problem=problem))
    assert proof is not None
    assert claim == proof.bound == 8
    assert lt.verify_certificate(graph, proof).valid


def test_pools_lie_one_behind_the_other_in_the_plan() -> None:
    tensors = (
        lt.Tensor(name="x", nbytes=5, kind="activation"),
        lt.Tensor(name="w", nbytes=3, kind="weight", initial=True, final=True),
    )
    graph = lt.Graph(name="two", tensors=tensors, ops=(lt.Op(name="a", reads=(1,), writes=(0,)),))
    problem = lt.Arena(graph, 4, pools="weight")
    result = lt.solve(problem, threads=1)
    assert result.objective == 8
    assert result.plan is not None
    assert sorted((result.plan.allocation or {}).values()) == [0, 8]
    assert problem.read(result.plan).addresses == (0, 0, None)
    above = problem.read(result.plan)._replace(addresses=(2, 0, None))
    assert problem.judge(above).violations[0].kind == "alignment"
    facts = {fact.name: fact.text for fact in result.about}
    assert facts["pool of the rest"] == "5 B"
    assert facts["pool weight"] == "3 B"


@pytest.mark.parametrize("pools", ["weights", "weight/weight", "weight+weight", "weight/", "+"])
def test_kinds_that_are_none_are_refused(pools: str) -> None:
    with pytest.raises(lt.InstanceError, match=r"arena, pools: found .* expected each at most once of input"):
        load_problem("arena", f"catalogue:diamond?pools={pools}")


@pytest.mark.slow
def test_optima_of_pools_are_certified() -> None:
    kinds = set()
    for graph, alignment, pools in pool_cases(range(12)):
        problem = lt.Arena(graph, alignment, pools=pools)
        result = lt.solve(problem, threads=1)
        if result.bound_kind == "CP-SAT":
            continue
        claim, proof, _ = certified(problem, result, Context(problem=problem))
        assert proof is not None
        assert claim == proof.bound == result.objective
        assert lt.verify_certificate(graph, proof).valid
        assert decode_certificate(encode_certificate(proof, "x.json"), "x.json") == proof
        assert not lt.verify_certificate(graph, replace(proof, bound=proof.bound + alignment)).valid
        kinds.add(proof.proof.kind)
    assert kinds == {"stacks", "pools"}


@pytest.mark.slow
def test_each_pool_has_a_threshold_of_its_own() -> None:
    """With one for all, the bound of this graph stays 4 B below its height."""
    problem = lt.Arena(lt.load("onnx:squeezenet?train=1"), 16, pools="gradient")
    result = lt.solve(problem, threads=1, time_limit=30)
    assert result.objective == result.bound == 24_746_728
    _, proof, _ = certified(problem, result, Context(problem=problem))
    assert proof is not None
    assert isinstance(proof.proof, PoolsProof)
    assert {part.threshold for part in proof.proof.stacks} > {0}
    assert lt.verify_certificate(problem.graph, proof).valid
    assert not lt.verify_certificate(problem.graph, replace(proof, bound=proof.bound + 1)).valid


def test_two_pools_need_what_each_needs() -> None:
    assert lt.verify_certificate(GRAPH, stacked_at_least(10, RIGHT, pools=("weight",))).valid
    right = stacked_at_least(13, EACH, pools=("weight",))
    assert lt.verify_certificate(GRAPH, right).valid
    assert isinstance(right.proof, PoolsProof)
    assert least_sum(GRAPH, 4, [["weight"]]) == 13
