"""Other solvers through Pyomo: found or not, honest statuses."""

from __future__ import annotations

from pathlib import Path

import pytest

import lowtide as lt
from lowtide.instances import load_problem
from lowtide.solvers.context import Context
from lowtide.solvers.engines.pyomo_solver import available_solvers, solve_pyomo
from lowtide.solvers.method import PYOMO_SOLVER, Method, Proves
from lowtide.solvers.registry import methods
from tests.solvers.model_problems import problem_of


@pytest.fixture(scope="module", autouse=True)
def pyomo_is_loaded() -> None:
    """Load Pyomo before a test has its output captured: its log goes to the output that it finds first."""
    import pyomo.environ  # noqa: F401


PROBLEM = lt.Peak(lt.load("gen:randwire?n=10&seed=1"))


def optimum() -> int:
    found = lt.solve(PROBLEM, "cpsat", threads=1).objective
    assert found is not None
    return found


@pytest.mark.parametrize("name", ["no_such_solver", "gurobi_persistent", "scip_persistent", "ipopt"])
def test_a_solver_that_does_not_work_is_refused_with_those_that_do(
    name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    here = ", ".join(("highs", *available_solvers()))
    words = f"solver '{name}': found none that Pyomo can run, expected one that is here: {here};"
    with pytest.raises(lt.BackendUnavailable, match=words):
        lt.solve(PROBLEM, "milp", options={"solver": name})
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("name", available_solvers())
def test_other_solver_proves_the_optimum(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "solver.log"
    result = lt.solve(PROBLEM, "milp", options={"solver": name}, threads=1, log=log)
    assert (result.status, result.proof) == (lt.Status.OPTIMAL, "floating")
    assert result.objective == result.bound == optimum()
    assert log.stat().st_size > 0
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
def test_highs_by_pyomo_runs_behind_highs_with_another_number_of_threads() -> None:
    """HiGHS has one scheduler per process: one of other threads would make the run fail."""
    for threads in (1, 2, 1):
        for solver in ("highs", "appsi_highs"):
            result = lt.solve(PROBLEM, "milp", options={"solver": solver}, threads=threads)
            assert (result.status, result.objective) == (lt.Status.OPTIMAL, optimum()), (threads, solver)


@pytest.mark.slow
@pytest.mark.parametrize("name", available_solvers())
def test_other_solver_out_of_time_is_honest(name: str, capfd: pytest.CaptureFixture[str]) -> None:
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


CHAIN = lt.load("gen:chain?n=5")

CASES: dict[str, list[lt.Problem]] = {
    "peak": [lt.Peak(lt.load("gen:randwire?n=6&seed=1"))],
    "arena": [lt.Arena(lt.load("catalogue:diamond"))],
    "offsets": [lt.Offsets(lt.load_buffers("catalogue:minimalloc/example"))],
    "makespan": [lt.Makespan(lt.load("gen:sp?n=5&seed=2"), 2)],
    "parallel-memory": [lt.ParallelMemory(lt.load("catalogue:randwire-20-0"))],
    "memory-edges": [lt.MemoryEdges(lt.load("catalogue:diamond"), 8)],
    "recompute": [lt.Recompute(lt.load("gen:backprop-chain?l=3"), memory=5)],
    "hybrid": [lt.Hybrid(CHAIN, 2, micro=2)],
    "sharding": [load_problem("sharding", "catalogue:iopddl/example")],
    "partition": [
        lt.Partition(CHAIN, 2),
        lt.Partition(CHAIN, 2, contiguous=False),
        lt.Partition(CHAIN, 2, objective="latency", link=10**9),
    ],
}
METHODS = [m for m in methods() if PYOMO_SOLVER in m.options and m.name != "auto"]
OF_FORMS = ("poet",)
"""Methods whose programs are of some answers only, though they may prove an optimum."""
EXACT = [m for m in METHODS if m.proves is Proves.OPTIMUM and m.name not in OF_FORMS]


@pytest.mark.parametrize(
    "method", [m for m in METHODS if m not in EXACT], ids=lambda m: f"{m.problem}-{m.name}"
)
@pytest.mark.parametrize("name", available_solvers())
def test_what_a_method_finds_does_not_depend_on_the_solver(method: Method, name: str) -> None:
    problem = problem_of(method.problem, method.name)
    results = [lt.solve(problem, method.name, options={"solver": x}, threads=1) for x in ("highs", name)]
    first, second = ((result.objective, result.bound) for result in results)
    assert first == second


@pytest.mark.parametrize("method", EXACT, ids=lambda m: f"{m.problem}-{m.name}")
@pytest.mark.parametrize("name", ["highs", *available_solvers()])
def test_every_program_has_one_optimum_whatever_solves_it(method: Method, name: str) -> None:
    """Objectives have names of their own in models, and constants beside their terms."""
    for problem in CASES[method.problem]:
        result = lt.solve(problem, method.name, options={"solver": name}, threads=1)
        best = lt.solve(problem, "auto", threads=1).objective
        assert best is not None
        assert (result.status, result.objective, result.bound) == (lt.Status.OPTIMAL, best, best)


@pytest.mark.parametrize("name", available_solvers())
def test_a_program_alone_has_its_optimum(name: str) -> None:
    """From nothing: the solver's own bound and answer, with nothing known beside."""
    problem = CASES["parallel-memory"][0]
    built = lt.build(problem, "milp")
    context = Context(problem=problem, method="milp", threads=1, options={"solver": name})
    outcome = solve_pyomo(built.model, context, decode=built.decode, to_objective=built.objective)
    assert outcome.reason is None
    assert (context.incumbent, context.bound) == (197, 197)
