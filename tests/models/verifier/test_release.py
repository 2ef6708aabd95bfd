"""Certificates by release times: what the checker works out is what the formulation does, and no more."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

import lowtide as lt
from lowtide.formulations.placement.bounds.releases import best_release, best_release_of_orders
from lowtide.instances import decode_certificate, encode_certificate, write_graph
from lowtide.models.problems.placement import Placement
from lowtide.models.setting import Setting
from lowtide.models.verifier.proofs.release import ReleaseProof, released_time
from tests.commands import answer, within
from tests.oracles.brute_force import topological_orders
from tests.oracles.release_certificates import BENCH, GRAPH, RIGHT, SETTING, bad_releases, released
from tests.problems.placement import machine, random_graph
from tests.random_plans import random_machine
from tests.strategies import random_graph as any_graph


def test_a_right_one_is_confirmed_and_survives_its_file() -> None:
    certificate = released(7000, RIGHT)
    verdict = lt.verify_certificate(GRAPH, certificate)
    assert (verdict.valid, verdict.kind, verdict.checked) == (True, "release", 1)
    assert decode_certificate(encode_certificate(certificate, "c.json"), "c.json") == certificate
    assert lt.verify_certificate(GRAPH, released(6000, RIGHT)).valid


@pytest.mark.parametrize("number", range(len(list(bad_releases()))))
def test_wrong_ones_are_refused(number: int) -> None:
    graph, certificate = list(bad_releases())[number]
    verdict = lt.verify_certificate(graph, certificate)
    assert not verdict.valid
    assert verdict.witness


def test_joint_caps_count_once_and_inputs_elsewhere_do_not() -> None:
    both = replace(SETTING, start={"input": ("host", "ssd")})
    wide = ReleaseProof(op=1, tiers=("host", "ssd"), groups=("in",))
    assert released_time(GRAPH, both, wide) == 2000 + 1000  # 6 MB/s
    assert released_time(GRAPH, both, replace(wide, groups=())) == 1500 + 1000  # 8 MB/s without the cap
    assert released_time(GRAPH, both, RIGHT) == 1000  # nothing must come from the SSD
    assert released_time(GRAPH, replace(SETTING, start={}), RIGHT) == 1000
    assert released_time(GRAPH, replace(SETTING, start=None), RIGHT) == 7000  # inputs in the last tier
    slow = replace(SETTING, machine=machine(100, None, latency=40))
    assert released_time(GRAPH, slow, RIGHT) == 7040


@pytest.mark.parametrize("seed", range(40))
def test_the_checker_finds_what_the_formulation_says(seed: int) -> None:
    """Any graph on any machine with tiers that no processor uses: the same number, from the raw fields."""
    rng = Random(seed)
    found = 0
    while found < 5:
        bench = random_machine(rng, "tiered")
        graph = any_graph(rng, min_ops=1, max_ops=6, max_tensors=6)
        names = [tier.name for tier in bench.tiers]
        kinds = sorted({tensor.kind for tensor in graph.tensors})
        start = {kind: tuple(x for x in names if rng.random() < 0.5) for kind in kinds}
        try:
            problem = Placement(graph, bench, periodic=rng.random() < 0.5, start=start)
        except lt.InstanceError:
            continue
        release = best_release(problem)
        if release is None:
            found += rng.random() < 0.1
            continue
        found += 1
        setting = Setting(machine=bench, periodic=problem.periodic, start=problem.starts)
        proof = ReleaseProof(op=release.op, tiers=release.tiers, groups=release.groups)
        assert released_time(graph, setting, proof) == release.time


@pytest.mark.parametrize("order", ["reference", "free"])
def test_only_what_the_op_needs_counts_its_latencies(order: str) -> None:
    """Slow is the way from the host; what is there at first is read later, and has met no latency."""
    tensors = (
        lt.Tensor(name="x", nbytes=4, kind="input", initial=True),
        lt.Tensor(name="y", nbytes=1, kind="weight", initial=True),
    )
    ops = (lt.Op(name="a", reads=(0,), duration_ns=9000), lt.Op(name="b", reads=(1,), duration_ns=1))
    graph = lt.Graph(name="near and far", tensors=tensors, ops=ops)
    pairs = (("gpu", "host", 2, 0), ("host", "gpu", 2, 0), ("host", "ssd", 90, 70), ("ssd", "host", 90, 70))
    ways = (lt.Channel(src=a, dst=b, bytes_per_s=r * 10**6, latency_ns=late) for a, b, r, late in pairs)
    bench = replace(machine(9, None), channels=tuple(ways), groups=())
    start = {"input": ("ssd",), "weight": ("host",)}
    problem = Placement(graph, bench, start=start, order=order)
    found = best_release(problem) if order == "reference" else best_release_of_orders(problem)
    assert found is not None
    assert found.time == 70 + 2000 + 9000 + (order == "reference")
    proof = ReleaseProof(op=found.op, tiers=found.tiers, groups=found.groups)
    assert released_time(graph, problem.setting(), proof) == found.time


def reordered(graph: lt.Graph, order: tuple[int, ...]) -> lt.Graph:
    """Return the graph that lists its ops in another order that keeps the precedence."""
    at = {i: k for k, i in enumerate(order)}
    ops = tuple(replace(graph.ops[i], after=tuple(sorted(at[j] for j in graph.ops[i].after))) for i in order)
    return replace(graph, ops=ops)


@pytest.mark.slow
def test_a_release_of_free_orders_holds_in_each() -> None:
    rng = Random(8)
    below = found = 0
    for _ in range(2500):
        bench = random_machine(rng, "tiered")
        graph = any_graph(rng, min_ops=2, max_ops=5, max_tensors=6)
        far = tuple(tier.name for tier in bench.tiers[1:])
        try:
            problem = Placement(graph, bench, periodic=rng.random() < 0.5, start={"input": far}, order="free")
        except lt.InstanceError:
            continue
        release = best_release_of_orders(problem)
        if release is None or len(bench.processors) > 1:
            continue
        proof = ReleaseProof(op=release.op, tiers=release.tiers, groups=release.groups)
        setting = problem.setting()
        assert released_time(graph, setting, proof) == release.time
        assert not verdict_of(graph, setting, release.time + 1, proof)
        assert verdict_of(graph, setting, release.time, proof)
        each = []
        for order in topological_orders(graph):
            moved = replace(proof, op=order.index(release.op))
            each.append(released_time(reordered(graph, order), replace(setting, order="reference"), moved))
        assert release.time <= min(each)
        found += 1
        below += release.time < max(each)
    assert found > 20
    assert below > 5


def test_only_ancestors_come_before_in_every_order() -> None:
    tensors = tuple(replace(GRAPH.tensors[0], name=name) for name in "xy")
    ops = (
        lt.Op(name="a", reads=(0,), duration_ns=1),
        lt.Op(name="b", reads=(1,), duration_ns=1000),
        lt.Op(name="c", reads=(1,), after=(0,), duration_ns=5000),
    )
    graph = lt.Graph(name="two inputs", tensors=tensors, ops=ops)
    free = replace(SETTING, order="free")
    assert released_time(graph, SETTING, RIGHT) == 12_000 + 6000
    assert released_time(graph, free, RIGHT) == 6000 + 1000
    release = best_release_of_orders(
        Placement(graph, BENCH, periodic=True, start={"input": ("ssd",)}, order="free")
    )
    assert release is not None
    assert (release.op, release.time) == (2, 12_000 + 5000)
    assert released_time(graph, free, replace(RIGHT, op=2)) == release.time


def verdict_of(graph: lt.Graph, setting: Setting, bound: int, proof: ReleaseProof) -> bool:
    """Return whether the checker takes the certificate."""
    certificate = replace(released(bound, proof, setting), graph_name=graph.name, graph_sha256=graph.sha256)
    return lt.verify_certificate(graph, certificate).valid


@pytest.mark.parametrize("accounting", lt.Accounting)
def test_late_inputs_and_sums_have_certificates_in_any_order(accounting: lt.Accounting) -> None:
    graph = replace(GRAPH, accounting=accounting)
    for start, bound in (({"input": ("ssd",)}, 7000), ({"input": ("gpu",)}, 1001)):
        problem = Placement(graph, BENCH, periodic=True, start=start, order="free")
        certificate = lt.certify_placement(problem, bound)
        assert certificate is not None
        assert certificate.bound == bound
        assert lt.verify_certificate(graph, certificate).valid
        assert not lt.verify_certificate(graph, replace(certificate, bound=bound + 1)).valid


def test_the_command_proves_and_confirms_what_it_solves(tmp_path: Path) -> None:
    graph = random_graph(4)
    late = [replace(t, nbytes=5000) if t.kind == "input" else t for t in graph.tensors]
    write_graph(replace(graph, tensors=tuple(late)), tmp_path / "g.json")
    bench = machine(6000, None)
    (tmp_path / "m.json").write_text(json.dumps(bench.to_dict()))
    solve = ("solve", "placement", "g.json", "--machine", "m.json", "--periodic", "--start", "input=ssd")
    files = ("--plan", "p.json", "--certificate", "c.json", "--threads", "1")
    found = answer(*solve, *files, cwd=tmp_path)
    assert found["certificate"]["kind"] == "release"
    both = answer("verify", "p.json", "--certificate", "c.json", cwd=tmp_path)
    assert (both["valid"], both["plan_valid"]) == (True, True)
    assert both["bound"] == found["bound"]
    assert "release" in within("verify", "--certificate", "c.json", cwd=tmp_path).stdout


def test_a_machine_that_prices_do_not_serve_gets_a_release() -> None:
    channels = (*BENCH.channels, lt.Channel(src="ssd", dst="host", bytes_per_s=10**6))
    problem = Placement(
        GRAPH, replace(BENCH, channels=channels, groups=()), periodic=True, start={"input": ("ssd",)}
    )
    certificate = lt.certify_placement(problem, 10**6)
    assert certificate is not None
    assert (certificate.proof.kind, certificate.bound) == ("release", 5000)  # 3 MB/s out of the SSD
    assert lt.verify_certificate(GRAPH, certificate).valid
