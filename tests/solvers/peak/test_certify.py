"""Certificates against brute force: each kind proves optima, and none can prove more."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowtide as lt
from lowtide.models.graph import Graph, Op, Tensor
from lowtide.models.verifier.certificate import verify_certificate
from tests.effort import many
from tests.oracles.brute_force import brute_force_peak, start_bytes
from tests.oracles.certificates import EXACT, PROVERS, certificate, damaged, neighbour, round_trip
from tests.strategies import graphs, random_graph

EXAMPLES = many(60)
TREES = "gen:intree?n=300&seed=1", "gen:sp?n=200&seed=4&data=edge", "gen:outtree?n=60&seed=2"


@EXAMPLES
@given(graphs(max_ops=7, max_tensors=10, max_nbytes=9))
@pytest.mark.parametrize("prover", PROVERS)
def test_optima_are_certified_and_nothing_above_them(prover: str, graph: Graph) -> None:
    optimum, _ = brute_force_peak(graph)
    assert certificate(graph, optimum + 1, prover) is None
    found = certificate(graph, optimum, prover)
    if prover in EXACT and graph.ops and optimum > start_bytes(graph):
        assert found is not None
    if found is not None:
        assert verify_certificate(graph, round_trip(found)).valid
        assert not verify_certificate(graph, replace(found, bound=optimum + 1)).valid


@EXAMPLES
@given(st.integers(0, 10**6))
@pytest.mark.parametrize("prover", PROVERS)
def test_no_damage_makes_a_certificate_of_more_than_the_optimum(prover: str, seed: int) -> None:
    rng = Random(seed)
    graph = random_graph(rng, min_ops=2, max_ops=7, max_tensors=9, max_nbytes=9)
    optimum, _ = brute_force_peak(graph)
    found = certificate(graph, optimum, prover)
    if found is None:
        return
    for _ in range(8):
        other = damaged(rng, found)
        if other is not None:
            assert not verify_certificate(graph, replace(other, bound=optimum + 1)).valid


@EXAMPLES
@given(st.integers(0, 10**6))
@pytest.mark.parametrize("prover", PROVERS)
def test_a_certificate_of_a_graph_that_needs_more_is_refused(prover: str, seed: int) -> None:
    rng = Random(seed)
    graph = random_graph(rng, min_ops=2, max_ops=6, max_tensors=9, max_nbytes=9)
    optimum, _ = brute_force_peak(graph)
    for _ in range(6):
        other = neighbour(rng, graph)
        if other is None:
            continue
        found = certificate(other, brute_force_peak(other)[0], prover)
        if found is not None and verify_certificate(graph, replace(found, graph_sha256=graph.sha256)).valid:
            assert found.bound <= optimum


@pytest.mark.parametrize("spec", TREES)
def test_trees_and_series_parallel_graphs_are_certified_by_few_claims(spec: str) -> None:
    graph = lt.load(spec)
    optimum = lt.solve(lt.Peak(graph), method="downsets", threads=1).bound
    assert optimum is not None
    found = certificate(graph, optimum, "descents")
    assert found is not None
    verdict = verify_certificate(graph, round_trip(found))
    assert verdict.valid, verdict.witness
    assert verdict.checked < 3 * len(graph.ops)
    assert not verify_certificate(graph, replace(found, bound=optimum + 1)).valid


@pytest.mark.parametrize("spec", ["gen:randwire?n=24&seed=6", "gen:nasnet?cells=3&cell=random&seed=9"])
@pytest.mark.parametrize("prover", EXACT)
def test_what_needs_search_is_certified(spec: str, prover: str) -> None:
    graph = lt.load(spec)
    optimum = lt.solve(lt.Peak(graph), method="downsets", threads=1).bound
    assert optimum is not None
    found = certificate(graph, optimum, prover)
    assert found is not None
    verdict = verify_certificate(graph, round_trip(found))
    assert verdict.valid, verdict.witness
    assert certificate(graph, optimum + 1, prover) is None


def test_the_smallest_kind_is_tried_first() -> None:
    kinds = {}
    for spec in ("gen:chain?n=5&seed=1", "gen:sp?n=200&seed=4&data=edge", "gen:randwire?n=24&seed=6"):
        graph = lt.load(spec)
        found = lt.certify(graph, lt.solve(lt.Peak(graph), threads=1).bound or 0)
        assert found is not None
        kinds[spec.partition("?")[0]] = found.proof.kind
    assert kinds == {"gen:chain": "working-set", "gen:sp": "cut", "gen:randwire": "descents"}


def test_an_allowed_kind_only() -> None:
    graph = lt.load("gen:randwire?n=16&seed=1")
    bound = lt.solve(lt.Peak(graph), threads=1).bound
    assert bound is not None
    found = lt.certify(graph, bound, kinds=["states"])
    assert found is not None
    assert found.proof.kind == "states"
    assert lt.certify(graph, bound, kinds=["working-set"]) is None


def test_no_time_gives_no_search() -> None:
    graph = lt.load("gen:randwire?n=24&seed=6")
    bound = lt.solve(lt.Peak(graph), threads=1).bound
    assert bound is not None
    assert lt.certify(graph, bound, time_limit=0) is None


@pytest.mark.parametrize("accounting", ["coexist", "replace"])
def test_a_graph_without_ops(accounting: str) -> None:
    tensors = (Tensor(name="w", nbytes=5, initial=True, final=True), Tensor(name="x", nbytes=3))
    graph = Graph(name="empty", tensors=tensors, ops=(), accounting=accounting)  # type: ignore[arg-type]
    found = lt.certify(graph, 5)
    assert found is not None
    assert verify_certificate(graph, found).valid
    assert lt.certify(graph, 6) is None
    assert not verify_certificate(graph, replace(found, bound=6)).valid


def test_free_op_that_costs_too_much_ends_walks() -> None:
    """The second op frees memory but never fits: following it as free would lead to the end."""
    tensors = (Tensor(name="x", nbytes=4), Tensor(name="y", nbytes=1, final=True))
    ops = (Op(name="a", writes=(0,)), Op(name="b", reads=(0,), writes=(1,), workspace=9))
    graph = Graph(name="tall", tensors=tensors, ops=ops)
    for prover in EXACT:
        found = certificate(graph, 14, prover)
        assert found is not None, prover
        assert verify_certificate(graph, found).valid
