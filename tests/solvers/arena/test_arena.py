"""Order and addresses together: exact on small graphs, bounds that hold, answers that are read back."""

from __future__ import annotations

import re
from dataclasses import replace
from random import Random

import pytest

import lowtide as lt
from lowtide.formulations.arena.data import arena_data
from lowtide.formulations.arena.stacks import stacks, threshold_for
from lowtide.instances import decode_certificate, encode_certificate
from lowtide.models.lowering.buffers import buffers_from_plan
from lowtide.models.setting import ArenaSetting
from lowtide.models.verifier.proofs.stacks import StacksProof, stacked
from lowtide.models.verifier.proofs.working_set import WorkingSetProof
from lowtide.solvers.certify import certified
from lowtide.solvers.context import Context
from tests.oracles.arena_certificates import GRAPH, bad_stacks, stacked_at_least
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
    tight(range(4))


@pytest.mark.slow(reason="every order and every address of 496 graphs")
@pytest.mark.parametrize("first", range(4, 500, 124))
def test_auto_is_exact_on_500_graphs(first: int) -> None:
    tight(range(first, first + 124))


@pytest.mark.slow(reason="40 models")
@pytest.mark.parametrize("method", ["cpsat", "milp"])
def test_joint_models_are_exact(method: str) -> None:
    for graph, alignment in arena_cases(range(30, 50)):
        if len(graph.ops) <= 5:
            result = lt.solve(lt.Arena(graph, alignment), method, threads=1, time_limit=None)
            assert result.objective == result.bound == least_height(graph, alignment)


@pytest.mark.parametrize("method", ["auto", "cpsat", "milp"])
def test_what_is_gone_as_the_first_op_starts_is_there_before(method: str) -> None:
    sizes = (("x", 100), ("y", 1), ("z", 2))
    tensors = tuple(lt.Tensor(name=name, nbytes=size, initial=name == "x") for name, size in sizes)
    ops = (lt.Op(name="a", reads=(0,), writes=(1,)), lt.Op(name="b", writes=(2,)))
    graph = lt.Graph(name="replaced", tensors=tensors, ops=ops, accounting=lt.Accounting.REPLACE)
    assert lt.solve(lt.Arena(graph), method, threads=1).objective == 100


@pytest.mark.parametrize("method", ["auto", "cpsat", "milp"])
def test_without_ops_the_last_address_is_chosen_too(method: str) -> None:
    sizes = (9, 8, 7, 6)
    tensors = tuple(lt.Tensor(name=str(n), nbytes=n, initial=True, final=True) for n in sizes)
    result = lt.solve(lt.Arena(lt.Graph(name="no ops", tensors=tensors, ops=()), 4), method, threads=1)
    assert result.objective == result.bound == 33


def test_one_op_has_one_order() -> None:
    """One of two may be made in place, for which trees count both: the bound stays open."""
    tensors = [lt.Tensor(name=f"x{k}", nbytes=1, initial=True) for k in range(30)]
    tensors += [lt.Tensor(name=name, nbytes=1, final=True) for name in "yz"]
    op = lt.Op(name="all", reads=tuple(range(30)), writes=(30, 31), inplace=((0, 30), (0, 31)))
    problem = lt.Arena(lt.Graph(name="one op", tensors=tuple(tensors), ops=(op,)))
    result = lt.solve(problem, threads=1)
    assert result.objective == result.bound == 31


@pytest.mark.slow
def test_what_the_tolerances_of_a_milp_let_overlap_is_no_answer() -> None:
    graph, _ = next(arena_cases(range(1110, 1111)))
    k = 2**20 + 1
    tensors = tuple(replace(t, nbytes=t.nbytes * k + (n == 6)) for n, t in enumerate(graph.tensors))
    ops = tuple(replace(op, workspace=op.workspace * k) for op in graph.ops)
    problem = lt.Arena(replace(graph, tensors=tensors, ops=ops))
    result, best = lt.solve(problem, "milp", threads=1), lt.solve(problem, threads=1)
    assert result.verification is not None
    assert result.verification.valid
    assert result.objective is not None
    assert best.bound is not None
    assert (result.bound or 0) <= best.bound <= result.objective


def test_a_bound_of_cpsat_that_doubles_round_is_none() -> None:
    sizes = (2**57 + 1, 2**57 + 3, 5, 2**56 + 1)
    tensors = tuple(lt.Tensor(name=str(n), nbytes=x) for n, x in enumerate(sizes))
    reads, pairs = ((), (0,), (0, 1), (0, 2)), ((), ((0, 1),), (), ((0, 3),))
    ops = tuple(lt.Op(name=str(i), reads=reads[i], writes=(i,), inplace=pairs[i]) for i in range(4))
    result = lt.solve(lt.Arena(lt.Graph(name="2^57", tensors=tensors, ops=ops), 16), "cpsat", threads=1)
    assert result.objective == 2**58 + 33
    assert result.bound is not None
    assert result.bound <= result.objective


def test_the_bound_holds_at_every_threshold() -> None:
    reached = 0
    for graph, alignment in arena_cases(range(500, 530)):
        best = least_height(graph, alignment)
        bounds = []
        for threshold in range(alignment):
            found = stacks(lt.Arena(graph, alignment), threshold)
            bounds.append(found.to_height(least_peak(found.graph)))
        assert max(bounds) <= best
        problem = lt.Arena(graph, alignment)
        found = stacks(problem, threshold_for(problem, best))
        assert found.to_height(least_peak(found.graph)) == max(bounds) or max(bounds) < best
        reached += max(bounds) == best
    assert reached > 25


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
    result = lt.solve(lt.Arena(graph))
    assert result.objective == 2
    assert result.plan is not None
    assert result.plan.allocation is not None
    shared = replace(result.plan, allocation=dict.fromkeys(result.plan.allocation, 0))
    assert [v.kind for v in lt.verify(graph, shared).violations] == ["allocation-overlap"]


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


def test_both_programs_make_the_same_graph_of_fewer_bytes() -> None:
    merged = 0
    for graph, alignment in arena_cases(range(100)):
        for threshold in range(alignment):
            mine = stacks(lt.Arena(graph, alignment), threshold)
            proof = StacksProof(threshold=threshold, peak=WorkingSetProof(at="first"))
            for bound in (0, 7, 8, 9, 10):
                theirs, peak = stacked(graph, ArenaSetting(alignment=alignment), bound, proof)
                assert theirs == mine.graph
                assert mine.to_height(peak) >= bound
                assert not peak or mine.to_height(peak - alignment) < bound
            merged += len(mine.graph.tensors) > len(graph.tensors)
    assert merged > 10


def test_optima_are_certified_and_wrong_certificates_refused() -> None:
    kinds = set()
    for graph, alignment in [*arena_cases(range(10)), (lt.load("gen:randwire?n=16&seed=3"), 16)]:
        problem = lt.Arena(graph, alignment)
        result = lt.solve(problem, threads=1)
        if result.bound_kind != "least peak":
            continue
        claim, certificate, _ = certified(problem, result, Context(problem=problem))
        assert certificate is not None
        assert (claim, certificate.bound) == (result.objective, result.objective)
        assert lt.verify_certificate(graph, certificate).valid
        assert decode_certificate(encode_certificate(certificate, "x.json"), "x.json") == certificate
        assert isinstance(certificate.proof, StacksProof)
        kinds.add(certificate.proof.peak.kind)
        above = replace(certificate, bound=certificate.bound + alignment)
        assert not lt.verify_certificate(graph, above).valid
    assert kinds >= {"working-set", "cut"}


def test_bad_certificates_are_refused_with_a_witness() -> None:
    assert lt.verify_certificate(GRAPH, stacked_at_least(least_height(GRAPH, 4))).valid
    for graph, bad in bad_stacks():
        verdict = lt.verify_certificate(graph, bad)
        assert not verdict.valid
        assert re.search(
            "at least the bound|0 <= threshold|another kind|at most once|one a pool", verdict.witness
        )


@pytest.mark.slow(reason="100 solves")
def test_two_steps_need_at_least_what_both_together_do() -> None:
    more = 0
    for graph, alignment in arena_cases(range(600, 606)):
        problem = lt.Arena(graph, alignment)
        least = lt.solve(problem, threads=1).objective
        assert least is not None
        for order in ("reference", "xla", "inductor-lpmf"):
            for allocation in ("tflm", "breadth", "usmp-size", "usmp-conflicts", "xla", "run-time"):
                chosen = {"order": order, "allocation": allocation}
                result = lt.solve(problem, "two-step", options=chosen, threads=1)
                assert result.verification is not None
                assert result.verification.valid
                assert result.objective is not None
                assert result.objective >= least
                more += result.objective > least
    assert more


def placed(allocation: str, *lives: tuple[int, int, int]) -> list[int | None]:
    """Return the addresses of buffers, given as first op, last op and bytes, in the order of their ops."""
    n = max(last for _, last, _ in lives) + 1
    tensors = tuple(lt.Tensor(name=str(t), nbytes=size) for t, (_, _, size) in enumerate(lives))
    ops = tuple(
        lt.Op(
            name=str(i),
            reads=tuple(t for t, (_, last, _) in enumerate(lives) if i == last and i != lives[t][0]),
            writes=tuple(t for t, (first, _, _) in enumerate(lives) if i == first),
            after=(i - 1,) if i else (),
        )
        for i in range(n)
    )
    problem = lt.Arena(lt.Graph(name="given", tensors=tensors, ops=ops))
    result = lt.solve(problem, "two-step", options={"allocation": allocation}, threads=1)
    return list(problem.read(result.plan).addresses[: len(lives)])


def test_tflm_takes_the_lowest_hole_and_usmp_none() -> None:
    lives = (0, 4, 4), (0, 1, 9), (1, 2, 8), (3, 4, 2)
    assert placed("tflm", *lives) == [17, 0, 9, 0]
    assert placed("usmp-size", *lives) == [17, 0, 9, 21]
