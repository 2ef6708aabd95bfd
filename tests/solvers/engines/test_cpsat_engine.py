"""CP-SAT under a context: options, limits, honest statuses, log, hint, errors in callbacks."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import pytest
from ortools.sat.python.cp_model import CpModel

import lowtide as lt
from lowtide.solvers.context import Context, Outcome
from lowtide.solvers.engines.cpsat import _is_wide, check_options, set_parameters, solve_cpsat
from lowtide.solvers.engines.master import Master
from lowtide.solvers.peak.models import search_defaults
from tests.problems.peak import FORMULATIONS

PROBLEM = lt.Peak(lt.load("gen:randwire?n=14&seed=1"))


@pytest.fixture
def context() -> Context:
    return Context(problem=PROBLEM, threads=1, time_limit=30)


def run(model: CpModel, context: Context, **options: Any) -> Outcome:
    """Solve a model that has nothing to do with the problem; its solutions are the reference order."""
    order = range(len(PROBLEM.graph.ops))
    return solve_cpsat(
        model, context, **{"decode": lambda value: order, "to_objective": lambda units: units, **options}
    )


def knapsack(*, feasible: bool = True) -> CpModel:
    """Minimize 3a + 5b with a + b >= 7 over {0..9}: 21."""
    model = CpModel()
    a, b = (model.new_int_var(0, 9, name) for name in "ab")
    model.add(a + b >= (7 if feasible else 19))
    model.minimize(3 * a + 5 * b)
    return model


def test_optimum_gives_the_bound_scaled_back(context: Context) -> None:
    outcome = run(knapsack(), context, to_objective=lambda units: 2 * units)
    assert (outcome.reason, outcome.infeasible) == (None, False)
    assert (context.bound, context.proof) == (42, "exact")
    assert context.answer == tuple(range(len(PROBLEM.graph.ops)))


LARGE = 3 * 10**9
"""Sums of two such numbers need more than 32 bits."""


class Units(Master):
    """Stands for any problem whose answers are numbers."""

    name = "units"
    unit = "units"

    def evaluate(self, answer: int) -> int:
        """Return the answer."""
        return answer


def covering(seed: int) -> tuple[CpModel, int | None]:
    """Return a random model: large rows to be covered by literals of which pairs exclude each other."""
    rng, model = Random(seed), CpModel()
    chosen = [model.new_bool_var(f"x{i}") for i in range(7)]
    rows = []
    for _ in range(3):
        factor = {i: rng.randint(LARGE // 2, LARGE) for i in rng.sample(range(7), rng.randint(3, 5))}
        rows.append((factor, rng.randint(LARGE // 2, sum(factor.values()) // 2)))
    apart = [rng.sample(range(7), rng.randint(2, 3)) for _ in range(3)]
    cost = [rng.randint(1, 20) for _ in range(7)]
    for factor, least in rows:
        model.add(sum(c * chosen[i] for i, c in factor.items()) >= least)
    for some in apart:
        model.add_at_most_one(chosen[i] for i in some)
    model.minimize(sum(c * x for c, x in zip(cost, chosen, strict=True)))
    values = [
        sum(c * x for c, x in zip(cost, point, strict=True))
        for point in product((0, 1), repeat=7)
        if all(sum(c * point[i] for i, c in factor.items()) >= least for factor, least in rows)
        and all(sum(point[i] for i in some) <= 1 for some in apart)
    ]
    return model, min(values, default=None)


@pytest.mark.parametrize("seed", [88, 269, *range(4)])
def test_optima_of_rows_with_large_numbers_are_optima(seed: int) -> None:
    """Presolve of CP-SAT 9.15, left to itself, loses those of the first two."""
    model, best = covering(seed)
    context = Context(problem=Units(PROBLEM.graph), threads=1)
    outcome = run(model, context, decode=lambda value: 10**6)
    assert outcome.infeasible == (best is None)
    assert context.bound == best


def test_rows_are_wide_by_what_their_terms_span() -> None:
    def wide(part: int, *, literal: bool = True) -> bool:
        model = CpModel()
        x, y = model.new_int_var(-2, 2, "x"), model.new_int_var(0, 1 if literal else 2, "y")
        model.add(2**28 * x + part * y <= 7)
        return _is_wide(model)

    def stacked(demand: int) -> bool:
        model = CpModel()
        some = [model.new_fixed_size_interval_var(model.new_int_var(0, 9, ""), 2, "") for _ in range(2)]
        model.add_cumulative(some, [2**30, demand], 2**31)
        return _is_wide(model)

    assert [wide(2**30), wide(2**30 - 1), wide(2**30, literal=False)] == [True, False, False]
    assert [stacked(2**30), stacked(2**30 - 1)] == [True, False]


def test_infeasible_is_infeasible_and_reads_no_value(context: Context) -> None:
    outcome = run(knapsack(feasible=False), context)
    assert outcome.infeasible
    assert (context.answer, context.bound) == (None, None)


def test_no_time_left_does_not_start_the_solver() -> None:
    context = Context(problem=PROBLEM, threads=1, time_limit=1e-9)
    outcome = run(knapsack(), context)
    assert (outcome.reason, context.answer, context.bound) == ("time", None, None)


def test_stopping_without_a_solution_reads_no_value(context: Context) -> None:
    model = CpModel()
    order = [model.new_int_var(0, 59, "") for _ in range(60)]
    model.add_all_different(order)
    for i in range(50):
        model.add(order[i] + 2 * order[i + 3] != order[i + 7])
    model.minimize(order[0])
    context.engine_options = {"max_deterministic_time": "0", "cp_model_presolve": "false"}
    outcome = run(model, context)
    assert (outcome.reason, outcome.detail) == (None, "CP-SAT: UNKNOWN")
    assert (context.answer, context.bound) == (None, None) or context.bound == 0


def test_error_in_decode_stops_the_solver_and_is_raised(context: Context) -> None:
    def broken(value: Any) -> list[int]:
        raise ZeroDivisionError("decode")

    with pytest.raises(ZeroDivisionError, match="decode"):
        run(knapsack(), context, decode=broken)


def test_invalid_model_is_refused(context: Context) -> None:
    model = knapsack()
    a = model.new_int_var(0, 1, "twice")
    model.add_hint(a, 0)
    model.add_hint(a, 1)
    with pytest.raises(RuntimeError, match="invalid CP-SAT model"):
        run(model, context)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_wrkers": "2"}, "found 'num_wrkers', did you mean num_workers"),
        ({"qqqq": "2"}, "found 'qqqq', expected a field of SatParameters"),
        ({"linearization_level": "high"}, "linearization_level: found 'high', expected an integer"),
        ({"linearization_level": "3000000000"}, "expected an integer of 32 bits"),
        ({"max_deterministic_time": "soon"}, "found 'soon', expected a number"),
        ({"cp_model_presolve": "maybe"}, "found 'maybe', expected true or false"),
        ({"search_branching": "BEST"}, "found 'BEST', expected one of AUTOMATIC_SEARCH"),
        ({"subsolver_params": "x"}, "subsolver_params: found 'x'"),
    ],
)
def test_bad_options_are_usage_errors(options: dict[str, str], message: str) -> None:
    with pytest.raises(lt.UsageError, match=message):
        check_options(options)
    with pytest.raises(lt.UsageError, match=message):
        lt.solve(PROBLEM, "cpsat", options=options)


def test_option_that_cpsat_itself_refuses_is_a_usage_error() -> None:
    with pytest.raises(lt.UsageError, match="CP-SAT refuses them"):
        lt.solve(PROBLEM, "cpsat", options={"subsolvers": "no_such_worker"}, threads=2)


def test_options_limits_and_seed_reach_the_parameters() -> None:
    from ortools.sat.python.cp_model import CpSolver

    context = Context(
        problem=PROBLEM,
        threads=3,
        seed=2**31 + 5,
        time_limit=1000,
        memory_limit=512 * 2**20,
        engine_options={
            "linearization_level": "2",
            "cp_model_presolve": "off",
            "relative_gap_limit": "0.5",
            "search_branching": "fixed_search",
            "subsolvers": "no_lp, core",
        },
    )
    parameters = CpSolver().parameters
    defaults = {"linearization_level": "0", "max_presolve_iterations": "1", "subsolvers": "default_lp"}
    set_parameters(parameters, context, defaults)
    assert parameters.num_workers == 3
    assert parameters.random_seed == 6
    assert 0 < parameters.max_time_in_seconds <= 1000
    assert parameters.max_memory_in_mb == 512
    assert (parameters.linearization_level, parameters.max_presolve_iterations) == (2, 1)
    assert (parameters.relative_gap_limit, parameters.absolute_gap_limit) == (0.5, 0)
    assert not parameters.cp_model_presolve
    assert not parameters.catch_sigint_signal
    assert parameters.search_branching.name == "FIXED_SEARCH"
    assert list(parameters.subsolvers) == ["no_lp", "core"]


def test_gap_that_the_user_allows_is_not_called_optimal() -> None:
    result = lt.solve(PROBLEM, "cpsat", options={"relative_gap_limit": "0.9"}, threads=1)
    assert result.status is lt.Status.FEASIBLE
    assert result.bound is not None
    assert result.objective is not None
    assert result.bound < result.objective


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_defaults_of_the_search_are_options_of_cpsat(threads: int) -> None:
    check_options(search_defaults(threads))


@pytest.mark.parametrize("method", ["cpsat", "cpsat-positions"])
def test_hint_is_complete_and_the_log_is_kept(method: str, tmp_path: Path) -> None:
    log = tmp_path / "solver.log"
    lt.solve(PROBLEM, method, hint=range(len(PROBLEM.graph.ops)), threads=1, log=log)
    text = log.read_text()
    assert "Starting CP-SAT solver" in text
    assert "The solution hint is complete and is feasible." in text


def test_log_that_cannot_be_written_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(lt.UsageError, match="expected a file that can be written"):
        lt.solve(PROBLEM, "cpsat", log=tmp_path / "missing" / "solver.log")


def test_same_seed_and_one_thread_give_the_same_order() -> None:
    first, second = (lt.solve(PROBLEM, "cpsat", seed=3, threads=1, time_limit=None).plan for _ in range(2))
    assert first is not None
    assert second is not None
    assert first.order == second.order


@pytest.mark.parametrize("method", list(FORMULATIONS))
def test_tiny_time_limit_leaves_the_reference_order_and_a_bound_below(method: str) -> None:
    problem = lt.Peak(lt.load("gen:randwire?n=60&seed=1"))
    result = lt.solve(problem, method, time_limit=1e-6, threads=1)
    assert (result.status, result.reason) == (lt.Status.FEASIBLE, "time")
    assert result.plan is not None
    assert result.plan.order == tuple(range(len(problem.graph.ops)))
    assert result.objective is not None
    assert result.bound is not None
    assert 0 < result.bound < result.objective


@pytest.mark.parametrize("method", list(FORMULATIONS))
def test_model_that_does_not_fit_the_memory_is_not_built(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unwanted(*_: object, **__: object) -> None:
        raise AssertionError("built")

    monkeypatch.setattr(FORMULATIONS[method], "build", unwanted)
    problem = lt.Peak(lt.load("gen:layered?layers=40&width=10&seed=1"))
    result = lt.solve(problem, method, memory_limit=2**20, threads=1)
    assert (result.status, result.reason) == (lt.Status.FEASIBLE, "memory")
    assert "was not built" in result.detail
    assert result.bound is not None


@pytest.mark.slow
@pytest.mark.parametrize("method", list(FORMULATIONS))
def test_seconds_of_building_are_apart_from_those_of_solving(method: str) -> None:
    seconds = lt.solve(PROBLEM, method, threads=1).seconds
    assert list(seconds) == ["build", "solve", "verify"]
    assert min(seconds.values()) > 0
    assert "build" not in lt.solve(PROBLEM, "reference").seconds


def test_what_cpsat_itself_throws_loses_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """As ``_Map_base::at`` from within a search: after a solution, and before any."""
    from ortools.sat.python import cp_model

    solve, calls = cp_model.CpSolver.solve, 0

    def late(self: Any, *args: Any) -> Any:
        nonlocal calls
        calls += 1
        solve(self, *args)
        raise IndexError("_Map_base::at")

    def early(self: Any, *args: Any) -> Any:
        raise IndexError("_Map_base::at")

    thrown = "IndexError: _Map_base::at"
    words = f"CP-SAT failed: {thrown}, without symmetries after {thrown}"
    monkeypatch.setattr(cp_model.CpSolver, "solve", late)
    context = Context(problem=PROBLEM, threads=1, time_limit=30)
    outcome = run(knapsack(), context)
    assert (outcome.reason, outcome.detail) == ("crash", words)
    assert calls == 2  # once more without symmetries
    assert context.answer == tuple(range(len(PROBLEM.graph.ops)))
    monkeypatch.setattr(cp_model.CpSolver, "solve", early)
    for problem in (lt.Arena(lt.load("catalogue:randwire-20-0")), lt.Peak(PROBLEM.graph)):
        result = lt.solve(problem, "cpsat", threads=1, time_limit=30)
        assert (result.status, result.reason, result.detail) == (lt.Status.FAILED, "crash", words)
        assert result.objective is not None  # what was known before stays


def test_a_graph_on_which_the_search_for_symmetries_throws() -> None:
    """CP-SAT 9.15 throws ``absl::btree_map::at``; without symmetries it proves the optimum."""
    x = lt.Tensor(name="x", nbytes=0)
    y = lt.Tensor(name="y", nbytes=1, kind="output", final=True)
    ops = (
        lt.Op(name="a", writes=(0, 1), duration_ns=2),
        lt.Op(name="b", reads=(0, 1)),
        lt.Op(name="c", reads=(0,), after=(0, 1)),
        lt.Op(name="d", reads=(0, 1)),
        lt.Op(name="e", after=(1,)),
        lt.Op(name="f", after=(0, 1)),
    )
    problem = lt.Arena(lt.Graph(name="g", tensors=(x, y), ops=ops))
    for threads in (1, 2):
        result = lt.solve(problem, "cpsat", threads=threads)
        assert (result.status, result.objective) == (lt.Status.OPTIMAL, 1), result.detail
