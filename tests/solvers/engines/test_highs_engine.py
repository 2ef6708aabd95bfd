"""HiGHS under a context: options, limits, honest statuses, log, warm start, threads, floating bounds."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pyomo.environ as pyo
import pytest

import lowtide as lt
from lowtide.solvers.context import Context, Outcome
from lowtide.solvers.engines.highs import check_options, integer_bound, solve_highs

PROBLEM = lt.Peak(lt.load("gen:randwire?n=10&seed=1"))


@pytest.fixture
def context() -> Context:
    return Context(problem=PROBLEM, threads=1, time_limit=30)


def run(model: Any, context: Context, **options: Any) -> Outcome:
    """Solve a model that has nothing to do with the problem; its solutions are the reference order."""
    order = range(len(PROBLEM.graph.ops))
    return solve_highs(
        model, context, **{"decode": lambda value: order, "to_objective": lambda units: units, **options}
    )


def knapsack(*, least: int = 7) -> Any:
    """Minimize 3a + 5b + 10 with a + b >= least over {0..9}: 31 for 7."""
    model = pyo.ConcreteModel()
    model.a = pyo.Var(domain=pyo.NonNegativeIntegers, bounds=(0, 9))
    model.b = pyo.Var(domain=pyo.NonNegativeIntegers, bounds=(0, 9))
    model.enough = pyo.Constraint(expr=model.a + model.b + 1 >= least + 1)
    model.objective = pyo.Objective(expr=3 * model.a + 5 * model.b + 10)
    return model


def test_optimum_gives_the_bound_scaled_back(context: Context) -> None:
    seen: list[tuple[float, float]] = []
    model = knapsack()

    def decode(value: Any) -> range:
        seen.append((value(model.a), value(model.b)))
        return range(len(PROBLEM.graph.ops))

    outcome = run(model, context, decode=decode, to_objective=lambda units: 2 * units)
    assert (outcome.reason, outcome.infeasible) == (None, False)
    assert seen[-1] == pytest.approx((7, 0))
    assert (context.bound, context.proof) == (62, "floating")


def test_infeasible_is_infeasible_and_reads_no_value(context: Context) -> None:
    outcome = run(knapsack(least=19), context)
    assert outcome.infeasible
    assert (context.answer, context.bound) == (None, None)


def test_no_time_left_does_not_start_the_solver() -> None:
    context = Context(problem=PROBLEM, threads=1, time_limit=1e-9)
    outcome = run(knapsack(), context)
    assert (outcome.reason, context.answer, context.bound) == ("time", None, None)


def test_error_in_decode_stops_the_solver_and_is_raised(context: Context) -> None:
    def broken(value: Any) -> list[int]:
        raise ZeroDivisionError("decode")

    with pytest.raises(ZeroDivisionError, match="decode"):
        run(knapsack(), context, decode=broken)


@pytest.mark.parametrize(
    ("bound", "expected"),
    [(6.0, 6), (6.0000001, 6), (5.9999999, 6), (6.01, 7), (5.4, 6), (-0.5, 0), (1e9, 10**9 - 1)],
)
def test_floating_bound_is_rounded_up_behind_its_margin(bound: float, expected: int) -> None:
    assert integer_bound(bound) == expected


def test_infinite_bound_is_none() -> None:
    assert integer_bound(-math.inf) is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mip_relgap": "0"}, "found 'mip_relgap', did you mean mip_rel_gap"),
        ({"solvr": "x"}, "found 'solvr', did you mean solver"),
        ({"qqqq": "0"}, "found 'qqqq', expected an option of HiGHS"),
        ({"mip_max_nodes": "many"}, "mip_max_nodes: found 'many', expected an integer that HiGHS takes"),
        ({"mip_rel_gap": "small"}, "found 'small', expected a number that HiGHS takes"),
        ({"mip_detect_symmetry": "2"}, "found '2', expected true or false that HiGHS takes"),
        ({"presolve": "sometimes"}, "found 'sometimes', expected a text that HiGHS takes"),
        ({"threads": "-5"}, "found '-5', expected an integer that HiGHS takes"),
    ],
)
def test_bad_options_are_usage_errors(
    options: dict[str, str], message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(lt.UsageError, match=message):
        check_options(options, ("solver",))
    with pytest.raises(lt.UsageError, match=message):
        lt.solve(PROBLEM, "milp", options=options)
    assert capfd.readouterr() == ("", "")


def test_option_reaches_highs(context: Context, tmp_path: Path) -> None:
    context.engine_options = {"presolve": "off", "mip_detect_symmetry": "false", "mip_max_nodes": "50"}
    context.log = tmp_path / "highs.log"
    run(knapsack(), context)
    text = context.log.read_text()
    assert "Running HiGHS" in text
    assert "Presolve is switched off" in text or "presolve" in text.lower()


def test_settings_of_a_method_reach_highs_and_give_way_to_options(context: Context, tmp_path: Path) -> None:
    context.log = tmp_path / "highs.log"
    run(knapsack(), context, settings={"presolve": "off"})
    assert "Presolve is switched off" in context.log.read_text()
    assert context.engine_options == {}
    context.engine_options = {"presolve": "on"}
    run(knapsack(), context, settings={"presolve": "off"})
    assert "Presolve is switched off" not in context.log.read_text()


def test_hint_is_the_mip_start_and_the_log_is_kept(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "solver.log"
    result = lt.solve(PROBLEM, "milp", hint=range(len(PROBLEM.graph.ops)), threads=1, log=log)
    assert "MIP start solution is feasible" in log.read_text()
    assert result.status is lt.Status.OPTIMAL
    assert capfd.readouterr().out == ""


def test_another_number_of_threads_in_the_same_process() -> None:
    for threads in (1, 2, 1):
        result = lt.solve(PROBLEM, "milp", threads=threads)
        assert (result.status, result.proof) == (lt.Status.OPTIMAL, "floating")


def test_node_limit_is_an_honest_stop() -> None:
    problem = lt.Peak(lt.load("gen:randwire?n=16&seed=0"))
    options = {"mip_max_nodes": "0", "mip_heuristic_effort": "0", "presolve": "off"}
    result = lt.solve(problem, "milp", options=options, threads=1)
    assert (result.status, result.reason) == (lt.Status.FEASIBLE, None)
    assert "limit" in result.detail.lower()
    assert result.bound is not None
    assert result.objective is not None
    assert result.bound < result.objective


def test_what_highs_itself_throws_loses_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    from lowtide.solvers.engines import highs

    def throw(*args: object, **named: object) -> None:
        raise IndexError("vector::_M_range_check")

    monkeypatch.setattr(highs, "run_in_turn", throw)
    result = lt.solve(lt.Peak(lt.load("gen:randwire?n=14&seed=1")), "milp", threads=1)
    words = "HiGHS failed: IndexError: vector::_M_range_check"
    assert (result.status, result.reason, result.detail) == (lt.Status.FAILED, "crash", words)
    assert result.objective is not None
