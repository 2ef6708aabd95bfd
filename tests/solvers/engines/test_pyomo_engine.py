"""Other solvers through Pyomo: found or not, honest statuses."""

from __future__ import annotations

from pathlib import Path

import pytest

import lowtide as lt
from lowtide.solvers.engines.pyomo_solver import check_available


@pytest.fixture(scope="module", autouse=True)
def pyomo_is_loaded() -> None:
    """Load Pyomo before a test has its output captured: its log goes to the output that it finds first."""
    import pyomo.environ  # noqa: F401


PROBLEM = lt.Peak(lt.load("gen:randwire?n=10&seed=1"))


def optimum() -> int:
    found = lt.solve(PROBLEM, "cpsat", threads=1).objective
    assert found is not None
    return found


@pytest.mark.parametrize("name", ["no_such_solver", "gurobi_persistent"])
def test_absent_solver_is_unavailable(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(lt.BackendUnavailable, match=f"solver '{name}': found none that Pyomo can run"):
        lt.solve(PROBLEM, "milp", options={"solver": name})
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("name", ["appsi_highs", "glpk", "cbc", "scip"])
def test_other_solver_proves_the_optimum(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    try:
        check_available(name)
    except lt.BackendUnavailable as error:
        pytest.skip(str(error))
    log = tmp_path / "solver.log"
    result = lt.solve(PROBLEM, "milp", options={"solver": name}, threads=1, log=log)
    assert (result.status, result.proof) == (lt.Status.OPTIMAL, "floating")
    assert result.objective == result.bound == optimum()
    assert log.stat().st_size > 0
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("name", ["appsi_highs", "glpk", "cbc", "scip"])
def test_other_solver_out_of_time_is_honest(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    try:
        check_available(name)
    except lt.BackendUnavailable as error:
        pytest.skip(str(error))
    problem = lt.Peak(lt.load("gen:randwire?n=26&seed=0"))
    result = lt.solve(problem, "milp", options={"solver": name}, threads=1, time_limit=1.0)
    assert (result.status, result.reason) == (lt.Status.FEASIBLE, "time")
    assert result.bound is not None
    assert result.objective is not None
    assert result.bound < result.objective
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("condition", "options", "reason"),
    [
        ("intermediateNonInteger", {}, "time"),
        ("maxTimeLimit", {"maxNodes": "5"}, "time"),
        ("intermediateNonInteger", {"maxNodes": "5"}, None),
        ("error", {}, None),
    ],
)
def test_a_solver_that_stops_without_a_word_ran_out_of_time(
    condition: str, options: dict[str, str], reason: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That was the only limit, unless the user set others; the clock is not asked."""
    import pyomo.environ
    from pyomo.opt import SolverResults, TerminationCondition

    class Stopped:
        def available(self, **named: object) -> bool:
            return True

        def solve(self, model: object, **named: object) -> SolverResults:
            results = SolverResults()
            results.solver.termination_condition = TerminationCondition(condition)
            return results

    monkeypatch.setattr(pyomo.environ, "SolverFactory", lambda name: Stopped())
    result = lt.solve(PROBLEM, "milp", options={"solver": "cbc", **options}, threads=1, time_limit=1e6)
    assert (result.status, result.reason) == (lt.Status.FEASIBLE, reason)
