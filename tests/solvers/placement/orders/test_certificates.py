"""Certificates of bounds over all orders: never above what plans take, and mostly the suite's own bounds."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

import lowtide as lt
from lowtide.formulations.placement.bounds.lags import (
    ancestor_rows,
    deciding,
    heads_and_tails,
    lags,
    one_machine,
)
from lowtide.instances import decode_certificate, encode_certificate
from lowtide.models.derived.precedence import precedence
from lowtide.models.setting import Setting
from lowtide.models.verifier.proofs.lags import LagsProof, ordered_time
from lowtide.solvers.certify import certified
from lowtide.solvers.context import Context
from lowtide.solvers.placement.bounds.prices import sample_data
from tests.oracles.lag_certificates import GRAPH, RIGHT, SETTING, bad_lags, lagging, too_high
from tests.solvers.placement.orders.free_orders import MET, bound_of, fixed, free_problem, shuffled, small


def coexisting(seed: int) -> lt.Placement:
    problem = small(seed)
    return replace(problem, graph=replace(problem.graph, accounting=lt.Accounting.COEXIST))


def everything(problem: lt.Placement) -> LagsProof:
    """Return all pairs of ops that there are, and the least peak."""
    n, edges = len(problem.graph.ops), precedence(problem.graph)
    inward = [(c, j) for c in range(n) for j in range(n) if edges.descendants[c] >> j & 1]
    outward = [(i, c) for c in range(n) for i in range(n) if edges.ancestors[c] >> i & 1]
    around = [(c, c) for c in range(n)] if problem.periodic else []
    best = lt.solve(lt.Peak(problem.graph), threads=1).bound or 0
    overwritten = any(
        t in op.writes
        and t not in op.reads
        and (x.initial or any(t in o.writes for o in problem.graph.ops[:k]))
        for t, x in enumerate(problem.graph.tensors)
        for k, op in enumerate(problem.graph.ops)
    )
    return LagsProof(
        inward=(*inward, *((c, n) for c in range(n)), *around),
        outward=(*outward, *((-1, c) for c in range(n)), *around),
        peak=0 if overwritten else best,
    )


@pytest.mark.slow
def test_the_checker_proves_no_more_than_a_plan_takes() -> None:
    same = met = 0
    for seed in (*MET, *range(1000, 1016)):
        problem = coexisting(seed)
        proven = ordered_time(problem.graph, problem.setting(), everything(problem))
        one = fixed(problem, shuffled(problem.graph, Random(seed)))
        value = lt.solve(one, "slot-lp", threads=1, time_limit=None).objective
        assert proven <= bound_of(problem)
        assert value is None or proven <= value, seed
        same += proven == bound_of(problem)
        met += proven == value
    assert same > 25
    assert met >= 10


@pytest.mark.slow(reason="every order of 30 problems")
def test_no_order_has_a_faster_plan_than_the_checker_proves() -> None:
    for seed in range(2000, 2030):
        problem = coexisting(seed)
        proven = ordered_time(problem.graph, problem.setting(), everything(problem))
        result = lt.solve(problem, "orders", threads=1, time_limit=None)
        assert result.objective is None or proven <= result.objective, seed


def test_bounds_of_every_order_are_certified() -> None:
    kinds = set()
    for seed in range(12):
        problem = replace(free_problem(seed), start={})
        bound = bound_of(problem)
        certificate = lt.certify_placement(problem, bound)
        if certificate is None:
            continue
        assert certificate.bound <= bound
        assert lt.verify_certificate(problem.graph, certificate).valid
        assert decode_certificate(encode_certificate(certificate, "x.json"), "x.json") == certificate
        proof = certificate.proof
        assert isinstance(proof, LagsProof)
        value = ordered_time(problem.graph, problem.setting(), proof)
        above = replace(certificate, bound=value + 1)
        assert not lt.verify_certificate(problem.graph, above).valid
        kinds.add((certificate.bound == bound, bool(proof.peak)))
    assert (True, False) in kinds


def test_under_replace_releases_and_durations_are_certified() -> None:
    some = 0
    for seed in range(24):
        problem = replace(small(seed), order="free")
        problem = replace(problem, graph=replace(problem.graph, accounting=lt.Accounting.REPLACE))
        certificate = lt.certify_placement(problem, bound_of(problem))
        assert certificate is None or lt.verify_certificate(problem.graph, certificate).valid
        some += certificate is None
    assert some  # where only lags prove more


def test_few_lags_decide() -> None:
    graph = lt.load("catalogue:nasnet-3-train")
    machine = lt.load_machine("a100-40g-pcie3")
    tiers = (replace(machine.tiers[0], capacity=4 * 10**6), *machine.tiers[1:])
    problem = lt.Placement(graph, replace(machine, tiers=tiers), periodic=True, order="free")
    data, rows = sample_data(problem), ancestor_rows(precedence(graph).ancestors)
    found = [*lags(data, rows)]
    few = deciding(data, rows, found)
    ends = [x for x in found if x.before != x.after]
    most = heads_and_tails(data.duration, rows, ends)
    least = heads_and_tails(data.duration, rows, [x for x in few if x.before != x.after])
    assert len(few) < len(found) / 4
    assert one_machine(data.duration, *most) == one_machine(data.duration, *least)
    bound = ordered_time(
        graph,
        problem.setting(),
        LagsProof(
            inward=tuple((x.before, x.after) for x in few if not x.outward),
            outward=tuple((x.before, x.after) for x in few if x.outward),
        ),
    )
    assert bound >= one_machine(data.duration, *most)


def test_bad_certificates_are_refused() -> None:
    assert lt.verify_certificate(GRAPH, lagging(18)).valid
    assert lt.verify_certificate(GRAPH, lagging(18, setting=replace(SETTING, order="reference"))).valid
    assert ordered_time(GRAPH, SETTING, RIGHT) == 18
    for graph, bad in bad_lags():
        verdict = lt.verify_certificate(graph, bad)
        assert not verdict.valid
        assert "expected" in verdict.witness


def test_plans_take_less_than_what_is_refused() -> None:
    for graph, bad in too_high():
        setting = bad.setting
        assert isinstance(setting, Setting)
        problem = lt.Placement(graph, setting.machine, periodic=setting.periodic, start=setting.start)
        taken = lt.solve(problem, threads=1, time_limit=None).objective
        assert taken is not None
        assert ordered_time(graph, setting, bad.proof) <= taken < bad.bound  # type: ignore[arg-type]


@pytest.mark.slow
def test_where_ops_run_again_there_is_no_certificate() -> None:
    problem = replace(free_problem(1), periodic=False, recompute=True)
    result = lt.solve(problem, threads=1, time_limit=2)
    assert certified(problem, result, Context(problem=problem))[2] == "certificates do not speak of recompute"
    with pytest.raises(lt.UsageError, match="found recompute, expected each op once"):
        lt.certify_placement(problem, 1)
