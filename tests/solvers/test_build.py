"""Models in one's hands: named variables, added rows, solutions that other solvers write."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from random import Random
from typing import Any

import pytest

import lowtide as lt
from lowtide.instances import load_problem
from lowtide.models.derived.precedence import precedence
from lowtide.solvers.engines.pyomo_solver import available_solvers
from lowtide.solvers.export import export_model
from lowtide.solvers.registry import ROOMS
from tests.solvers.model_problems import RELAXED, problem_of
from tests.solvers.other_solvers import FILES, solve_elsewhere

MODELS = [(name, method) for name, room in ROOMS.items() for method in room.exports]


FORMULATIONS = Path(lt.__file__).parent / "formulations"

STEPS = {
    "offsets.banks_cpsat": "what auto solves where there are banks; method cpsat states one memory",
    "partition.latency_milp": "stated by partition.asked_milp",
    "partition.stages_milp": "stated by partition.asked_milp",
    "placement.slots.rounded_cpsat": "whole bytes near a solution of slots.bytes_lp",
    "placement.slots.rounded_milp": "whole bytes near a solution of slots.bytes_lp",
    "placement.whole.windows_cpsat": "bounds what method cpsat states as intervals",
    "recompute.layers_milp": "one of the blocks of hiremate",
}
"""Formulations that state no question, but a step of a method, with the reason."""

CLOSED = {("recompute", "hiremate"): "solves a program of each block, none of the whole"}
"""Methods that call an engine and have no program of their own, with the reason."""


def test_every_formulation_is_open() -> None:
    stated = {
        ".".join(path.relative_to(FORMULATIONS).with_suffix("").parts)
        for path in FORMULATIONS.rglob("*.py")
        if "\nENGINE = " in path.read_text("utf-8")
    }
    programs = {path for path in FORMULATIONS.rglob("*.py") if "as_pyomo(self" in path.read_text("utf-8")}
    assert len(programs) == 3
    assert all("\nENGINE = " in path.read_text("utf-8") for path in programs)
    named = {export.formulation for room in ROOMS.values() for export in room.exports.values()}
    assert stated == named - {"partition.asked_milp", "sharding.local_lp"} | {*STEPS}
    assert all(room.exports for room in ROOMS.values())


@pytest.mark.parametrize(("name", "method"), [(n, m.name) for n, room in ROOMS.items() for m in room.methods])
def test_every_method_that_calls_an_engine_has_a_model(name: str, method: str) -> None:
    found = next(m for m in ROOMS[name].methods if m.name == method)
    if method == "auto" or (name, method) in CLOSED:
        assert found.model is None
        return
    assert found.engine is None or found.model is not None
    whole = found.model is not None and found.model.formulation.endswith("_milp")
    assert not whole or "solver" in {option.name for option in found.options}


@pytest.mark.parametrize(("name", "method"), MODELS)
def test_without_rows_the_model_has_the_optimum(name: str, method: str) -> None:
    problem = problem_of(name, method)
    built = lt.build(problem, method)
    assert built.variables
    if built.engine == "cpsat":  # a name for each variable, of what it is; a number has its own
        assert len(built.variables) == len(built.model.proto.variables)
        unnamed = [x.domain for x in built.model.proto.variables if not x.name]
        assert all(low == high for low, high in unnamed)
    assert set(built.labels.values()) <= set(built.variables)
    assert built.method in repr(built)
    known = lt.solve(problem, method if built.scope else "auto", threads=1)
    result = lt.solve(problem, method, threads=1, constrain=lambda built: None)
    assert result.constrained
    assert result.record()["constrained"] is True
    assert "under the rows that were added (0 rows)" in result.detail
    assert "with added rows" in repr(result)
    if method in RELAXED and name != "sharding":
        assert result.status is lt.Status.UNKNOWN
        return
    assert result.objective == known.objective
    if built.scope:
        assert built.scope in result.detail
    else:
        assert result.status is lt.Status.OPTIMAL
        assert result.bound == result.objective
    if built.bound is not None and result.objective is not None:
        assert 0 < built.bound <= result.objective


def drawn(rng: Random) -> lt.Graph:
    """Return a graph of six ops, whose sizes are multiples of three."""
    g = lt.GraphBuilder()
    for i in range(6):
        reads = [f"t{j}" for j in range(i) if rng.random() < 0.3]
        g.op(f"op{i}", reads=reads, writes=[g.tensor(f"t{i}", 3 * rng.randint(1, 9))])
    return g.build()


def orders(graph: lt.Graph) -> list[tuple[int, ...]]:
    before = precedence(graph).predecessors
    return [
        order
        for order in permutations(range(len(graph.ops)))
        if all(order.index(j) < order.index(i) for i, some in enumerate(before) for j in some)
    ]


@pytest.mark.parametrize("method", ["cpsat", "milp-steps"])
@pytest.mark.parametrize("seed", [1, 2])
def test_with_a_row_it_is_the_best_order_that_obeys(method: str, seed: int) -> None:
    graph = drawn(Random(seed))
    problem, every = lt.Peak(graph), orders(graph)
    built = lt.build(problem, method)
    assert built.unit % 3 == 0
    free = {
        name: (int(found[1]), int(found[2]))
        for name in built.variables
        if (found := re.fullmatch(r"(?:done|y)\[(\d+)(?:,|\]\[)(\d+)\]", name))
    }
    assert free
    different = 0
    for name, (i, s) in free.items():
        chosen = [order for order in every if order.index(i) >= s]
        result = lt.solve(problem, method, threads=1, constrain=row(method, name, 0))
        assert result.status is lt.Status.OPTIMAL
        assert result.order in chosen
        best = min(problem.evaluate(order) for order in chosen)
        assert result.objective == result.bound == best
        different += best != min(problem.evaluate(order) for order in every)
    assert different  # a row that costs something


def row(method: str, name: str, value: int) -> Callable[[lt.Built], None]:
    def add(built: lt.Built) -> None:
        variable = built.variables[name]
        if built.engine == "cpsat":
            built.model.add(variable == value)
        else:
            from pyomo.environ import Constraint

            built.model.added = Constraint(expr=variable == value)

    return add


@pytest.mark.parametrize(("method", "name"), [("cpsat", "peak"), ("milp-steps", "peak")])
def test_bounds_of_what_the_answer_does_not_show_are_none(method: str, name: str) -> None:
    problem = problem_of("peak", method)
    result = lt.solve(problem, method, threads=1, constrain=row(method, name, 20))
    assert result.status is lt.Status.FEASIBLE
    assert (result.bound, result.verification is not None) == (None, True)
    assert "they bind variables that the answer does not show" in result.detail


def test_a_plan_that_reaches_more_than_its_moment_under_the_rows_is_kept_without_the_bound() -> None:
    problem = load_problem("parallel-memory", "gen:layered?layers=3&width=2&seed=1000")

    def not_the_first(built: lt.Built) -> None:
        from pyomo.environ import Constraint

        built.model.not_the_first = Constraint(expr=built.variables["p[0]"] <= 0)

    result = lt.solve(problem, "milp", constrain=not_the_first, threads=1)
    assert (str(result.status), result.objective, result.bound) == ("feasible", 43, None)
    assert "none reaches 12 in the model" in result.detail


@pytest.mark.parametrize("method", ["cpsat", "milp-steps"])
def test_rows_that_nothing_obeys(method: str) -> None:
    problem = problem_of("peak", method)
    result = lt.solve(problem, method, threads=1, constrain=row(method, "peak", 14))
    assert (result.status, result.objective) == (lt.Status.INFEASIBLE, None)
    assert "under the rows that were added" in result.detail


def test_beyond_the_horizon_nothing_is_claimed() -> None:
    problem = problem_of("makespan", "cpsat")

    def late(built: lt.Built) -> None:
        built.model.add(built.parts.makespan >= built.stated["horizon"] + 1)

    result = lt.solve(problem, "cpsat", threads=1, constrain=late)
    assert result.status is lt.Status.UNKNOWN
    assert "nothing ends within" in result.detail


def test_an_op_later_than_the_model_ends_is_no_proof_that_there_is_no_schedule() -> None:
    problem = problem_of("pipeline", "cpsat")

    def late(built: lt.Built) -> None:
        built.model.add(built.parts.start[0] >= built.parts.horizon + 1)

    result = lt.solve(problem, "cpsat", threads=1, constrain=late)
    assert result.status is lt.Status.UNKNOWN
    assert "nothing ends within 18 ns" in result.detail


@pytest.mark.parametrize(
    ("problem", "method"),
    [
        (lt.MemoryEdges(lt.load("gen:layered?layers=2&width=3&seed=32"), bound=34), "cpsat"),
        (load_problem("parallel-memory", "gen:layered?layers=2&width=4&seed=3&processors=1"), "lp"),
    ],
)
def test_solutions_that_are_no_answers_are_said(problem: lt.Problem, method: str) -> None:
    result = lt.solve(problem, method, threads=1, constrain=lambda built: None)
    assert (result.status, result.bound) == (lt.Status.UNKNOWN, None)
    assert "no solution that was found stands for an answer" in result.detail


@pytest.mark.parametrize("method", ["cpsat", "milp"])
def test_another_objective_is_refused(method: str) -> None:
    def other(built: lt.Built) -> None:
        if built.engine == "cpsat":
            built.model.minimize(-built.variables["peak"])
        else:
            built.model.component("objective").expr *= 2

    with pytest.raises(lt.UsageError, match="found another objective, expected rows only"):
        lt.solve(problem_of("peak", method), method, threads=1, constrain=other)


def test_what_a_model_is_stated_of_is_searched_within_the_limit() -> None:
    problem = lt.MemoryEdges(lt.load("gen:layered?layers=2&width=3&seed=32"), bound=34)
    assert lt.build(problem, "cpsat").parts.conflicts
    assert not lt.build(problem, "cpsat", seconds=0).parts.conflicts


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"method": "greedy"}, "found method 'greedy', expected one that builds a model: cpsat"),
        ({"constrain": 3}, "solve, constrain: found 3, expected a function of a Built model"),
        ({"hint": range(10)}, "solve, constrain: found a hint, which a model with added rows has no use for"),
        ({"options": {"plain": "1"}}, "solve, constrain: found option plain, which a model"),
    ],
)
def test_what_has_no_use_is_refused(arguments: dict[str, Any], message: str) -> None:
    given = {"method": "cpsat", "constrain": lambda built: None, **arguments}
    with pytest.raises(lt.UsageError) as info:
        lt.solve(problem_of("peak", "cpsat"), **given)
    assert str(info.value).startswith(message)


def test_parts_of_offsets_are_built_one_by_one() -> None:
    every = [
        lt.Buffer(id=f"{name}{part}", lower=9 * part, upper=9 * part + 2, size=4)
        for part in (0, 1)
        for name in "ab"
    ]
    problem = lt.Offsets(lt.Buffers(buffers=tuple(every)))
    with pytest.raises(lt.UsageError, match="expected one of 2 independent parts"):
        lt.build(problem, "cpsat")
    built = lt.build(problem, "cpsat", part=1)
    assert built.unit == 4
    result = built.result({"o[0]": 1, "o[1]": 0})
    assert result.allocation is not None
    assert (result.allocation["a1"], result.allocation["b1"]) == (4, 0)
    assert {result.allocation["a0"], result.allocation["b0"]} == {0, 4}


@pytest.mark.parametrize("method", ["cpsat", "cpsat-sections", "milp"])
@pytest.mark.parametrize("above", [0, 1])
def test_rows_may_tell_buffers_apart_that_are_alike(method: str, above: int) -> None:
    pair = tuple(lt.Buffer(id=name, lower=0, upper=2, size=4) for name in "ab")
    problem = lt.Offsets(lt.Buffers(buffers=pair))

    def add(built: lt.Built) -> None:
        name = "offset" if method == "milp" else "o"
        high, low = built.variables[f"{name}[{above}]"], built.variables[f"{name}[{1 - above}]"]
        if built.engine == "cpsat":
            built.model.add(high >= low + 1)
        else:
            from pyomo.environ import Constraint

            built.model.added = Constraint(expr=high >= low + 1)

    result = lt.solve(problem, method, threads=1, constrain=add)
    assert (result.status, result.objective) == (lt.Status.OPTIMAL, 8)
    assert result.allocation == {"ab"[above]: 4, "ab"[1 - above]: 0}


MILPS = [(n, m) for n, m in MODELS if ROOMS[n].exports[m].engine == "milp"]


@pytest.mark.parametrize("solver", FILES)
@pytest.mark.parametrize(("name", "method"), [(n, m) for n, m in MILPS if m not in RELAXED])
def test_solutions_of_other_solvers_are_read_back(
    name: str, method: str, solver: str, tmp_path: Path
) -> None:
    problem = problem_of(name, method)
    model, solution = tmp_path / "model.mps", tmp_path / "solution.txt"
    export_model(problem, method, model)
    solve_elsewhere(solver, model, solution)
    built = lt.build(problem, method, rows=False)
    result = built.read(solution)
    known = lt.solve(problem, method if built.scope else "auto", threads=1)
    assert (result.status, result.objective) == (lt.Status.FEASIBLE, known.objective)
    assert result.bound is None


@pytest.mark.parametrize(("name", "method"), MILPS)
@pytest.mark.parametrize("solver", ["cbc", "glpk", "scip_direct"])
def test_option_solver_takes_other_solvers(name: str, method: str, solver: str) -> None:
    if solver not in available_solvers():
        pytest.skip(f"{solver} is not installed")
    problem = problem_of(name, method)
    known = lt.solve(problem, method, threads=1, constrain=lambda built: None)
    options = {"solver": solver}
    result = lt.solve(problem, method, threads=1, options=options, constrain=lambda built: None)
    assert (result.objective, result.bound) == (known.objective, known.bound)
    assert solver in result.detail


@pytest.mark.parametrize("method", RELAXED)
def test_solutions_of_relaxations_are_no_answers(method: str) -> None:
    problem = problem_of("placement" if method == "lp-bound" else "recompute", method)
    built = lt.build(problem, method)
    with pytest.raises(lt.InstanceError, match=f"stand for no answer.*which is about {built.scope}"):
        built.decode({})


def test_a_response_of_cpsat_is_read_back(tmp_path: Path) -> None:
    from ortools.sat.python import cp_model

    problem = problem_of("peak", "cpsat")
    built = lt.build(problem, "cpsat")
    solver = cp_model.CpSolver()
    solver.solve(built.model)
    (tmp_path / "response.pb.txt").write_text(str(solver.response_proto))
    assert built.read(tmp_path / "response.pb.txt").objective == 15


def test_what_is_no_solution_is_said(tmp_path: Path) -> None:
    built = lt.build(problem_of("peak", "milp"), "milp")
    (tmp_path / "other.txt").write_text("alpha 1\nbeta 2\n")
    with pytest.raises(lt.InstanceError, match="found no value of a variable, expected lines such as"):
        built.read(tmp_path / "other.txt")
    with pytest.raises(lt.InstanceError, match=r"none.txt: found No such file"):
        built.read(tmp_path / "none.txt")
    with pytest.raises(lt.UsageError, match="solution: found value of 'alpha'"):
        built.decode({"alpha": 1})


@pytest.mark.parametrize("method", ["milp", "cpsat"])
def test_a_wrong_name_of_a_variable_is_answered_with_near_ones(method: str) -> None:
    built = lt.build(problem_of("peak", method), method)
    name = sorted(built.variables)[0]
    with pytest.raises(KeyError, match=re.escape(name)):
        built.variables[name[:-1] + "?"]


@pytest.mark.parametrize(
    ("name", "method"), [("peak", "milp"), ("makespan", "cpsat"), ("recompute", "checkmate")]
)
def test_a_result_says_how_large_its_model_was(name: str, method: str) -> None:
    problem = problem_of(name, method)
    facts = lt.solve(problem, method, threads=1, constrain=lambda built: None).facts
    assert facts["variables"] == len(lt.build(problem, method).variables)
    assert facts["constraints"] > 0
