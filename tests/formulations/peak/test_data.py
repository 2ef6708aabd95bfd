"""Lifetimes, windows, units and the forced bound: what the peak formulations share."""

from __future__ import annotations

import pytest
from hypothesis import given

import lowtide as lt
from lowtide.formulations.model import BuildTimeout
from lowtide.formulations.peak import (
    olla_milp as peak_milp_olla,
)
from lowtide.formulations.peak import (
    steps_cpsat as peak_cpsat_steps,
)
from lowtide.formulations.peak import (
    steps_milp as peak_milp_steps,
)
from lowtide.formulations.peak.data import Lifetime, forced_bound, order_peak, peak_data
from lowtide.models.graph import Accounting, Graph, Op, Tensor
from tests.effort import many
from tests.oracles.brute_force import brute_force_peak, topological_orders
from tests.oracles.brute_force import order_peak as peak_of_order
from tests.problems.peak import FORMULATIONS
from tests.strategies import graphs


@many(100)
@given(graph=graphs(max_ops=5))
def test_peak_of_every_order_from_the_lifetimes(graph: Graph) -> None:
    data = peak_data(lt.Peak(graph))
    for order in topological_orders(graph):
        assert order_peak(data, order) * data.unit == peak_of_order(graph, order)
        for place, i in enumerate(order):
            assert data.earliest[i] <= place <= data.latest[i]
        place_of = {i: place for place, i in enumerate(order)}
        assert all(place_of[j] < place_of[i] for i, js in enumerate(data.predecessors) for j in js)


@many(100)
@given(graph=graphs(max_ops=6))
def test_forced_bound_is_at_most_the_optimum(graph: Graph) -> None:
    data = peak_data(lt.Peak(graph))
    assert 0 <= forced_bound(data) * data.unit <= brute_force_peak(graph)[0]


@pytest.mark.parametrize("accounting", list(Accounting))
def test_lifetimes_of_a_worked_graph(accounting: Accounting) -> None:
    graph = Graph(
        name="worked",
        tensors=(
            Tensor(name="weight", nbytes=40, initial=True, final=True),
            Tensor(name="input", nbytes=12, initial=True),
            Tensor(name="x", nbytes=20),
            Tensor(name="y", nbytes=28),
            Tensor(name="out", nbytes=4, final=True),
            Tensor(name="nothing", nbytes=0),
            Tensor(name="unused", nbytes=9, initial=True),
        ),
        ops=(
            Op(name="a", reads=(0, 1), writes=(2, 5), workspace=8),
            Op(name="b", reads=(2,), writes=(3,)),
            Op(name="c", reads=(2, 3), writes=(3,)),
            Op(name="d", reads=(2,), writes=(4,)),
        ),
        accounting=accounting,
    )
    data = peak_data(lt.Peak(graph))
    held = accounting is Accounting.COEXIST
    assert (data.unit, data.base, data.workspace) == (4, 10, (2, 0, 0, 0))
    assert data.predecessors == ((), (0,), (1,), (0,))
    assert (data.earliest, data.latest) == ((0, 1, 2, 1), (0, 2, 3, 3))
    assert set(data.lifetimes) == {
        Lifetime(None, (0,), held, 3),
        Lifetime(0, (2, 3), held, 5),
        Lifetime(1, (2,), True, 7),
        Lifetime(3, (), True, 1),
    }
    # coexist: weight 10, x 5, y 7 while b or c runs (22); replace: c is last to read x, or d is
    assert forced_bound(data) == 22 if held else 20
    assert forced_bound(data) * data.unit <= brute_force_peak(graph)[0]


def test_tensors_of_one_lifetime_are_merged() -> None:
    graph = Graph(
        name="twins",
        tensors=(Tensor(name="x", nbytes=2), Tensor(name="y", nbytes=4)),
        ops=(Op(name="a", writes=(0, 1)), Op(name="b", reads=(0, 1))),
    )
    data = peak_data(lt.Peak(graph))
    assert (data.unit, data.lifetimes) == (6, (Lifetime(0, (1,), True, 1),))


@pytest.mark.parametrize("formulation", FORMULATIONS.values(), ids=FORMULATIONS.keys())
def test_building_stops_when_the_time_is_up(formulation: object) -> None:
    data = peak_data(lt.Peak(lt.load("gen:randwire?n=20&seed=1")))
    calls = 0

    def expired() -> bool:
        nonlocal calls
        calls += 1
        return calls > 3

    with pytest.raises(BuildTimeout):
        formulation.build(data, expired=expired)  # type: ignore[attr-defined]


@many(50)
@given(graph=graphs(max_ops=8))
def test_size_is_the_number_of_variables_of_the_model(graph: Graph) -> None:
    data = peak_data(lt.Peak(graph))
    steps = peak_cpsat_steps.build(data)
    rows = [*steps.done, *(row for _, _, row in steps.dead)]
    assert peak_cpsat_steps.size(data).variables == sum(len(row.free) for row in rows)
    model = peak_milp_olla.build(data).model
    assert peak_milp_olla.size(data).variables == len(model.create) + len(model.preserve)
    other = peak_milp_steps.build(data).model
    assert peak_milp_steps.size(data).variables == len(other.done) + len(other.dead)


@pytest.mark.parametrize("name", ["milp", "milp-steps"])
def test_time_up_inside_a_rule_of_pyomo_prints_nothing(
    name: str, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    data = peak_data(lt.Peak(lt.load("gen:randwire?n=20&seed=1")))
    calls = 0

    def count() -> bool:
        nonlocal calls
        calls += 1
        return False

    FORMULATIONS[name].build(data, expired=count)
    last = calls
    calls = 0

    def expired() -> bool:
        nonlocal calls
        calls += 1
        return calls == last

    with pytest.raises(BuildTimeout):
        FORMULATIONS[name].build(data, expired=expired)
    assert (capfd.readouterr(), caplog.text) == (("", ""), "")


def test_sets_of_ops_and_the_bound_stop_when_the_time_is_up() -> None:
    problem = lt.Peak(lt.load("catalogue:harpoon"))
    with pytest.raises(BuildTimeout):
        peak_data(problem, expired=lambda: True)
    with pytest.raises(BuildTimeout):
        forced_bound(peak_data(problem), lambda: True)
