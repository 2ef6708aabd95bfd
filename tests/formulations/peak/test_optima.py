"""Every formulation of minimum peak memory has the optimum of enumeration, and they agree with each other."""

from __future__ import annotations

import pytest
from hypothesis import given

import lowtide as lt
from lowtide.formulations.peak.data import order_peak, peak_data
from lowtide.models.graph import Accounting, Graph, Op, Tensor
from tests.effort import many
from tests.oracles.brute_force import brute_force_peak
from tests.problems.peak import FORMULATIONS, solve_model
from tests.strategies import graphs

METHODS = tuple(FORMULATIONS)


@pytest.mark.parametrize("method", METHODS)
@many(40)
@given(graph=graphs(max_ops=6))
def test_method_finds_and_proves_the_optimum(method: str, graph: Graph) -> None:
    optimum, _ = brute_force_peak(graph)
    result = lt.solve(lt.Peak(graph), method, threads=1)
    assert (result.status, result.objective, result.bound) == (lt.Status.OPTIMAL, optimum, optimum)
    assert result.verification is not None
    assert result.verification.valid


@pytest.mark.parametrize("method", METHODS)
@many(25)
@given(graph=graphs(max_ops=6))
def test_model_without_incumbent_and_cutoff_has_the_optimum(method: str, graph: Graph) -> None:
    optimum, _ = brute_force_peak(graph)
    context, outcome = solve_model(FORMULATIONS[method], graph)
    assert (context.incumbent, context.bound, outcome.reason) == (optimum, optimum, None)


@pytest.mark.parametrize("method", METHODS)
@many(25)
@given(graph=graphs(max_ops=6))
def test_hint_lower_and_upper_bound_keep_the_optimum(method: str, graph: Graph) -> None:
    optimum, order = brute_force_peak(graph)
    data = peak_data(lt.Peak(graph))
    units = order_peak(data, order)
    assert units * data.unit == optimum
    context, _ = solve_model(FORMULATIONS[method], graph, lower=units, upper=units, hint=order)
    assert (context.incumbent, context.bound) == (optimum, optimum)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("accounting", "peak"), [("coexist", 8), ("replace", 5)])
def test_chain_needs_its_largest_neighbours_or_its_largest_tensor(
    method: str, accounting: str, peak: int
) -> None:
    graph = Graph(
        name="chain",
        tensors=tuple(Tensor(name=f"t{i}", nbytes=n) for i, n in enumerate((3, 5, 2))),
        ops=(
            Op(name="a", writes=(0,)),
            Op(name="b", reads=(0,), writes=(1,)),
            Op(name="c", reads=(1,), writes=(2,)),
        ),
        accounting=Accounting(accounting),
    )
    context, _ = solve_model(FORMULATIONS[method], graph)
    assert (context.incumbent, context.bound) == (peak, peak)


@pytest.mark.parametrize("method", METHODS)
def test_two_chains_of_1_9_need_11_one_after_the_other(method: str) -> None:
    context, _ = solve_model(FORMULATIONS[method], two_chains(factor=1))
    assert context.answer in ((0, 2, 1, 3, 4), (1, 3, 0, 2, 4))
    assert (context.incumbent, context.bound) == (11, 11)


@pytest.mark.parametrize("method", METHODS)
def test_sizes_times_a_large_factor_give_the_optimum_times_the_factor(method: str) -> None:
    factor = 10**15
    context, _ = solve_model(FORMULATIONS[method], two_chains(factor=factor))
    assert (context.incumbent, context.bound) == (11 * factor, 11 * factor)


@pytest.mark.parametrize("method", METHODS)
def test_graph_without_ops_holds_what_is_initial_and_final(method: str) -> None:
    tensors = (
        Tensor(name="weight", nbytes=7, initial=True, final=True),
        Tensor(name="unused", nbytes=5, initial=True),
    )
    result = lt.solve(lt.Peak(Graph(name="no ops", tensors=tensors, ops=())), method)
    assert (result.status, result.objective, result.bound) == (lt.Status.OPTIMAL, 7, 7)


@pytest.mark.parametrize("method", METHODS)
def test_sizes_beyond_a_double_are_refused(method: str) -> None:
    tensors = (Tensor(name="x", nbytes=2**53), Tensor(name="y", nbytes=1))
    graph = Graph(
        name="huge",
        tensors=tensors,
        ops=(Op(name="a", writes=(0,)), Op(name="b", reads=(0,), writes=(1,))),
    )
    with pytest.raises(lt.LowtideError, match=r"found 9007199254740993 units of 1 bytes in total"):
        lt.solve(lt.Peak(graph), method)


@pytest.mark.parametrize(
    "spec",
    [
        "gen:randwire?n=12&seed=1",
        "gen:sp?n=12&seed=2",
        "gen:layered?layers=4&width=3&seed=3",
        "gen:intree?n=10&seed=4",
    ],
)
def test_formulations_agree_on_generated_graphs(spec: str) -> None:
    problem = lt.Peak(lt.load(spec))
    results = [lt.solve(problem, method, threads=1) for method in METHODS]
    assert {r.status for r in results} == {lt.Status.OPTIMAL}
    assert len({r.objective for r in results}) == 1


@pytest.mark.slow
@pytest.mark.parametrize("method", ["cpsat", "cpsat-positions"])
def test_resnet18_training_needs_31749648_bytes(method: str) -> None:
    result = lt.solve(lt.Peak(lt.load("catalogue:aten/resnet18_tr")), method, threads=1, time_limit=None)
    assert (result.status, result.objective, result.bound) == (lt.Status.OPTIMAL, 31749648, 31749648)


def two_chains(factor: int) -> Graph:
    """Two chains, each a tensor of 9 and then one of 1, and an op that reads both small ones."""
    return Graph(
        name="two chains",
        tensors=tuple(Tensor(name=f"t{i}", nbytes=n * factor) for i, n in enumerate((1, 9, 1, 9))),
        ops=(
            Op(name="a", writes=(1,)),
            Op(name="b", writes=(3,)),
            Op(name="c", reads=(1,), writes=(0,)),
            Op(name="d", reads=(3,), writes=(2,)),
            Op(name="e", reads=(0, 2)),
        ),
    )
