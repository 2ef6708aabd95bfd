"""Branch and bound on flows: the largest memory of brute force, and proofs that are judged apart."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

import lowtide as lt
from lowtide.formulations.parallel import cut_milp
from lowtide.formulations.parallel import network as parallel_cut
from lowtide.instances import decode_certificate, encode_certificate
from lowtide.models.flow_proof import FlowCase, FlowProof, ParallelSetting
from lowtide.models.problems.parallel_memory import Moment, moment_bytes
from lowtide.models.verifier.flow import verify_flow
from lowtide.solvers.parallel.cases import search
from tests.oracles.brute_parallel import most_memory
from tests.strategies import random_graph


def proofs(seeds: range, least_cases: int = 1) -> list[tuple[lt.Graph, int | None, FlowProof]]:
    """Proofs of the largest memory, of random graphs on some numbers of processors."""
    found = []
    for seed in seeds:
        graph = random_graph(Random(seed), min_ops=3, max_ops=6)
        for processors in (None, 1, 2):
            proof = search(parallel_cut.build(graph), processors).proof()
            if len(proof.cases) >= least_cases:
                found.append((graph, processors, proof))
    return found


def check_search(seed: int) -> int:
    """The search against brute force, and its proof; return the number of cases."""
    graph = random_graph(Random(seed), max_ops=6)
    network, cases = parallel_cut.build(graph), 0
    for processors in (None, 1, 2):
        largest = most_memory(graph, processors=processors)
        found = search(network, processors)
        assert found.nbytes == found.bound == largest
        assert found.moment is not None
        assert lt.ParallelMemory(graph, processors).judge(found.moment).objective == largest
        proof = found.proof()
        assert verify_flow(graph, (), proof, processors) == ()
        assert proof.value(processors) == largest
        cases = max(cases, len(proof.cases))
        below = search(network, processors, target=largest - 1)
        assert below.moment is not None
        within = search(network, processors, target=largest)
        assert within.moment is None
        assert within.bound <= largest
    return cases


@pytest.mark.slow
def test_search_is_brute_force_with_a_proof() -> None:
    assert max(check_search(seed) for seed in range(60)) > 1


@pytest.mark.slow
def test_search_is_brute_force_on_five_hundred_graphs() -> None:
    assert max(check_search(seed) for seed in range(1000, 1500)) > 2


@pytest.mark.slow
def test_search_is_the_milp_where_brute_force_does_not_reach() -> None:
    for spec, processors in (
        ("gen:randwire?n=24&seed=1", 2),
        ("gen:randwire?n=40&seed=2&accounting=replace", 4),
        ("gen:layered?layers=8&width=5&seed=1", 3),
        ("gen:sp?n=60&seed=2", 3),
    ):
        problem = lt.ParallelMemory(lt.load(spec), processors=processors)
        branch, milp = (lt.solve(problem, method, threads=1) for method in ("branch", "milp"))
        assert (branch.status, branch.proof, branch.objective) == ("optimal", "exact", milp.objective)


@pytest.mark.slow
def test_a_search_that_stops_early_still_proves_its_bound() -> None:
    graph = lt.load("gen:randwire?n=40&seed=1")
    network = parallel_cut.build(graph)
    bounds = [search(network, 2, most_nodes=nodes) for nodes in (0, 5, 40, None)]
    for found in bounds:
        proof = found.proof()
        assert verify_flow(graph, (), proof, 2) == ()
        assert proof.value(2) == found.bound
    assert bounds[0].bound > bounds[2].bound > bounds[3].bound == bounds[3].nbytes


def mutations(proof: FlowProof) -> list[FlowProof]:
    """Every number of a proof by one up and down, every case left out, every two neighbours swapped."""
    found = []
    for k, case in enumerate(proof.cases):
        changed: list[FlowCase] = []
        for name in ("price", "scale"):
            changed += [replace(case, **{name: getattr(case, name) + d}) for d in (-1, 1)]
        for a, arc in enumerate(case.arcs):
            for place in range(3):
                for d in (-1, 1):
                    new = tuple(x + d * (p == place) for p, x in enumerate(arc))
                    arcs = (*case.arcs[:a], new, *case.arcs[a + 1 :])
                    changed.append(replace(case, arcs=arcs))  # type: ignore[arg-type]
        for a, (event, yes) in enumerate(case.decisions):
            rest = (case.decisions[:a], case.decisions[a + 1 :])
            for other in ((event, not yes), (event - 1, yes), (event + 1, yes)):
                changed.append(replace(case, decisions=(*rest[0], other, *rest[1])))
            changed.append(replace(case, decisions=(*rest[0], *rest[1])))
        found += [FlowProof(cases=(*proof.cases[:k], new, *proof.cases[k + 1 :])) for new in changed]
        found.append(FlowProof(cases=(*proof.cases[:k], *proof.cases[k + 1 :])))
        if k:
            swapped = (*proof.cases[: k - 1], case, proof.cases[k - 1], *proof.cases[k + 1 :])
            found.append(FlowProof(cases=swapped))
    return found


@pytest.mark.slow
def test_every_changed_number_is_noticed_or_harmless() -> None:
    noticed = harmless = 0
    for graph, processors, proof in proofs(range(12)) + proofs(range(60), least_cases=2):
        largest = most_memory(graph, processors=processors)
        for changed in mutations(proof):
            if verify_flow(graph, (), changed, processors):
                noticed += 1
            else:
                harmless += 1
                assert changed.value(processors) >= largest
    assert noticed > 20 * harmless > 0


def test_cases_that_leave_a_moment_out_are_noticed() -> None:
    graph = lt.Graph(
        name="branches",
        tensors=(),
        ops=(lt.Op(name="a", workspace=4), lt.Op(name="b", workspace=6)),
    )
    free = (FlowCase(arcs=(), decisions=((0, False), (2, False))),)  # nothing has started: no bytes
    assert "without the case that it has" in verify_flow(graph, (), FlowProof(cases=free))[0].message
    for decisions in (((0, True), (0, False)), ((4, True),), ((-1, True),), ((0, True),), ((0, False),)):
        proof = FlowProof(cases=(FlowCase(arcs=(), decisions=decisions),))
        assert verify_flow(graph, (), proof), decisions
    assert verify_flow(graph, (), FlowProof(cases=()))


def test_a_price_needs_processors() -> None:
    graph = lt.Graph(name="one", tensors=(), ops=(lt.Op(name="a", workspace=4),))
    proof = FlowProof(cases=(FlowCase(arcs=(), price=4),))
    assert verify_flow(graph, (), proof, 1) == ()
    assert proof.value(1) == 4
    assert "any number" in verify_flow(graph, (), proof)[0].message


def test_prices_that_leave_64_bits_leave_a_weaker_bound() -> None:
    ops = tuple(lt.Op(name=str(k), workspace=2**57 + k) for k in range(6))
    graph = lt.Graph(name="huge", tensors=(), ops=ops)
    found = search(parallel_cut.build(graph), 2, most_nodes=20)
    assert found.nbytes == 2 * 2**57 + 9 <= found.bound
    proof = found.proof()
    assert verify_flow(graph, (), proof, 2) == ()
    assert proof.value(2) == found.bound


def test_certificates_are_confirmed_and_read_back() -> None:
    graph = lt.load("gen:randwire?n=16&seed=1")
    for processors in (None, 2):
        most = lt.solve(lt.ParallelMemory(graph, processors=processors), threads=1).objective
        assert most is not None
        assert lt.certify_parallel(graph, most - 1, processors=processors) is None
        certificate = lt.certify_parallel(graph, most, processors=processors)
        assert certificate is not None
        verdict = lt.verify_certificate(graph, certificate)
        assert (verdict.valid, verdict.bound, verdict.kind) == (True, most, "flow")
        again = decode_certificate(encode_certificate(certificate, "proof.json"), "proof.json")
        assert replace(again, graph_source=None) == replace(certificate, graph_source=None)
        lower = replace(certificate, bound=most - 1)
        assert "expected at most the bound" in lt.verify_certificate(graph, lower).witness
        assert not lt.verify_certificate(graph, replace(certificate, setting=None)).valid
        more = replace(certificate, setting=ParallelSetting(processors=None))
        assert lt.verify_certificate(graph, more).valid == (processors is None)


def test_a_certificate_of_edges_holds_with_them_only() -> None:
    graph = lt.load("gen:randwire?n=16&seed=1")
    result = lt.solve(lt.MemoryEdges(graph, 140), "respect-order", threads=1)
    assert result.edges
    certificate = lt.certify_parallel(graph, 140, edges=result.edges)
    assert certificate is not None
    assert lt.verify_certificate(graph, certificate).valid
    without = replace(certificate, setting=ParallelSetting(processors=None))
    assert not lt.verify_certificate(graph, without).valid


def test_a_hint_of_the_program_is_a_point_of_it_with_the_memory_of_its_moment() -> None:
    pyo = pytest.importorskip("pyomo.environ")
    shared = 0
    for seed in range(5):
        graph = random_graph(Random(seed), min_ops=3, max_ops=5)
        network, n = parallel_cut.build(graph), len(graph.ops)
        for k in (1, n // 2, n - 1):  # ops are in an order that runs
            moment = Moment(finished=tuple(range(k)), running=(k,))
            built = cut_milp.build(network, hint=moment)
            rows = [*built.model.component_data_objects(pyo.Constraint)]
            assert all(row.lslack() >= 0 and row.uslack() >= 0 for row in rows), seed
            assert -pyo.value(built.model.memory) * built.unit == moment_bytes(graph, moment), seed
            shared += len(network.shared)
    assert shared > 0
