"""The methods that solve a model of `peak`: their options, on small graphs against brute force."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given

import lowtide as lt
from lowtide.models.graph import Graph
from lowtide.solvers.context import Context
from lowtide.solvers.peak.search.rounds import take_first_steps
from tests.effort import many, seeds
from tests.oracles.brute_force import brute_force_peak
from tests.problems.peak import FORMULATIONS
from tests.strategies import graphs, random_graph

METHODS = tuple(FORMULATIONS)
OPTIONS = [{"plain": plain, "start": start} for plain in "01" for start in ("reference", "bounds")]


def proves_the_optimum(graph: Graph, method: str, options: dict[str, str]) -> bool:
    """Whether a method ends with the optimum of enumeration as objective and bound, and a valid plan."""
    optimum, _ = brute_force_peak(graph)
    result = lt.solve(lt.Peak(graph), method, threads=1, options=options)
    valid = result.verification is not None and result.verification.valid
    return valid and (result.status, result.objective, result.bound) == (lt.Status.OPTIMAL, optimum, optimum)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("method", METHODS)
@many(15)
@given(graph=graphs(min_ops=3, max_ops=7))
def test_every_option_keeps_the_optimum(method: str, options: dict[str, str], graph: Graph) -> None:
    assert proves_the_optimum(graph, method, options)


@pytest.mark.slow
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("method", METHODS)
def test_every_option_keeps_the_optimum_of_300_graphs(method: str, options: dict[str, str]) -> None:
    """Slow: HiGHS takes some hundredths of a second for each."""
    for seed in seeds(300):
        graph = random_graph(Random(seed), min_ops=2, max_ops=8, max_nbytes=9)
        assert proves_the_optimum(graph, method, options), f"random_graph(Random({seed}))"


@pytest.mark.parametrize("method", METHODS)
def test_start_with_bounds_gives_what_auto_takes_first(method: str) -> None:
    problem = lt.Peak(lt.load("catalogue:harpoon"))
    context = Context(problem=problem)
    take_first_steps(problem, context)
    assert not context.closed
    result = lt.solve(problem, method, threads=1, options={"start": "bounds", "plain": "1"})
    steps = [(point.incumbent, point.bound) for point in result.trace]
    assert steps[: len(context.trace)] == [(point.incumbent, point.bound) for point in context.trace]
    assert result.status is lt.Status.OPTIMAL
    assert result.seconds["build"] > 0


@pytest.mark.parametrize("method", METHODS)
def test_no_model_is_built_if_the_first_steps_close_the_gap(method: str) -> None:
    problem = lt.Peak(lt.load("catalogue:randwire-20-0"))
    result = lt.solve(problem, method, options={"start": "bounds"})
    assert result.status is lt.Status.OPTIMAL
    assert "build" not in result.seconds


def test_forced_orders_alone_may_close_the_gap() -> None:
    problem = lt.Peak(lt.load("catalogue:randwire-20-1"))
    result = lt.solve(problem, "milp", options={"start": "bounds"})
    assert (result.status, result.bound_kind) == (lt.Status.OPTIMAL, "forced orders")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("name", "value"), [("start", "greedy"), ("plain", "yes")])
def test_option_with_another_value_is_refused(method: str, name: str, value: str) -> None:
    with pytest.raises(lt.UsageError, match=f"option {name}: found '{value}', expected"):
        lt.solve(lt.Peak(lt.load("catalogue:diamond")), method, options={name: value})
