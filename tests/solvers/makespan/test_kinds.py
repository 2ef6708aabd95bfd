"""Makespan on processors of several kinds: all methods against exhaustive search, bounds, list schedules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

import numpy as np
import pytest

import lowtide as lt
from lowtide.formulations.makespan import ticks_milp
from lowtide.formulations.makespan.data import in_ticks, makespan_data
from lowtide.solvers.makespan.bounds.bounds import critical_path, load, memory_area
from lowtide.solvers.makespan.bounds.core import core_problem
from lowtide.solvers.makespan.lists.layout import shop_of
from lowtide.solvers.makespan.lists.list_kernel import schedule
from lowtide.solvers.makespan.lists.method import in_sequence
from tests.effort import chosen
from tests.oracles.brute_force import brute_force_peak
from tests.problems.makespan import optimum, problem_of_identical, problem_with_kinds


def chunks(start: int) -> Sequence[int]:
    return chosen(range(start, start + 40), least=16)


@pytest.mark.parametrize(
    ("method", "start"),
    [("cpsat", 0), ("cpsat", 40), ("cpsat-reservoir", 80), ("auto", 120), ("auto", 160)],
)
def test_exact_methods_equal_exhaustive_search(method: str, start: int) -> None:
    options = {} if method == "auto" else {"start": "none"}
    for seed in chunks(start):
        problem = problem_with_kinds(seed)
        best = optimum(problem)
        result = lt.solve(problem, method, threads=1, options=options)
        expected = ("infeasible", None) if best is None else ("optimal", best)
        assert (result.status, result.objective) == expected, f"seed {seed}: {result.detail}"


@pytest.mark.parametrize("start", ["none", "lists"])
@pytest.mark.parametrize("problem_of", [problem_with_kinds, problem_of_identical])
def test_milp_equals_exhaustive_search(problem_of: Callable[[int], lt.Makespan], start: str) -> None:
    for seed in range(700, 715):
        problem = problem_of(seed)
        best = optimum(problem)
        result = lt.solve(problem, "milp", threads=1, options={"start": start})
        expected = ("infeasible", None) if best is None else ("optimal", best)
        assert (result.status, result.objective) == expected, f"seed {seed}: {result.detail}"


@pytest.mark.parametrize("problem_of", [problem_with_kinds, problem_of_identical])
def test_milp_holds_the_fastest_schedule(problem_of: Callable[[int], lt.Makespan]) -> None:
    """As a hint it is a point of the model with its makespan, also where that is known as a bound."""
    import pyomo.environ as pyo

    shared = 0
    for seed in range(700, 708):
        problem = problem_of(seed)
        best = lt.solve(problem, "cpsat", threads=1)
        if best.plan is None or best.objective is None:
            continue
        data, answer = makespan_data(problem), problem.read(best.plan)
        least = best.objective // data.tick
        left = seed % 3  # ticks behind its end
        built = ticks_milp.build(data, horizon=least + left, lower=least, hint=in_ticks(data, answer))
        assert [x.ub for x in built.model.done.values()] == [0] * least + [1] * left
        assert all(x.lb <= x.value <= x.ub for x in built.model.component_data_objects(pyo.Var))
        rows = [*built.model.component_data_objects(pyo.Constraint)]
        assert min(min(row.lslack(), row.uslack()) for row in rows) >= 0
        assert pyo.value(built.model.objective) == least
        assert ticks_milp.decode(built, pyo.value) == tuple(answer)
        shared += len(built.deaths)
    assert shared > 0


def test_milp_refuses_too_many_ticks() -> None:
    ops = (lt.Op(name="a", duration_ns=999_983), lt.Op(name="b", duration_ns=999_979))
    problem = lt.Makespan(lt.Graph(name="two", tensors=(), ops=ops))
    with pytest.raises(lt.UsageError, match=r"found 2 ops and 1999962 ticks of 1 ns, .* expected at most"):
        lt.solve(problem, "milp", threads=1, options={"start": "none"})


@pytest.mark.parametrize("method", ["list", "local-search"])
def test_heuristics_are_valid_and_never_below_the_optimum(method: str) -> None:
    options = {"moves": "20"} if method == "local-search" else {}
    for seed in range(200, 240):
        problem = problem_with_kinds(seed)
        best = optimum(problem)
        result = lt.solve(problem, method, threads=1, options=options)
        if best is None:
            assert result.status in ("infeasible", "unknown")
        else:
            assert result.status in ("optimal", "feasible", "unknown"), f"seed {seed}: {result.detail}"
            assert result.bound is None or result.bound <= best
            assert result.objective is None or result.objective >= best
        if problem.graph.accounting == "coexist":
            assert (result.status == "infeasible") == (best is None)


@pytest.mark.slow
def test_bounds_are_valid_and_each_is_best_somewhere() -> None:
    best_one = set()
    for seed in range(300, 500):
        problem = problem_with_kinds(seed)
        best = optimum(problem)
        if best is None:
            continue
        data = makespan_data(problem)
        found = {
            "path": critical_path(data) * data.tick,
            "load": load(data) * data.tick,
            "area": (memory_area(problem, data) or 0) * data.tick,
        }
        assert max(found.values()) <= best, f"seed {seed}: {found}"
        assert best <= data.horizon * data.tick
        top = [name for name, value in found.items() if value == max(found.values())]
        if len(top) == 1:
            best_one.add(top[0])
    assert best_one == {"path", "load", "area"}


def ten_ops() -> lt.Makespan:
    """Return ten ops of 9 ns on either of two cores, or of 2 ns on the one accelerator."""
    modes = (lt.Mode(duration_ns=9, processors=("cpu",)), lt.Mode(duration_ns=2, processors=("gpu",)))
    graph = lt.Graph(name="ten", tensors=(), ops=tuple(lt.Op(name=f"op{i}", modes=modes) for i in range(10)))
    return lt.Makespan(graph, processors={"cpu": 2, "gpu": 1})


def test_load_of_two_kinds_is_that_of_the_linear_relaxation() -> None:
    """In t ns they do 2 t / 9 + t / 2 ops: ten in 180 / 13 ns (20 / 3 if all kinds have the same weight)."""
    assert load(makespan_data(ten_ops())) == 14


def list_schedule(problem: lt.Makespan, rng: Random, prefer: bool, compiled: bool) -> list[int]:
    n = len(problem.graph.ops)
    order = np.array(brute_force_peak(problem.relaxed)[1])
    rank = np.array(rng.sample(range(n), n))
    shop = shop_of(problem)
    if prefer:
        shop = shop._replace(prefer=np.array([rng.randrange(-1, len(x)) for x in problem.alternatives]))
    run = schedule if compiled else schedule.py_func
    return [int(x) for x in run(shop, order, rank)]


@pytest.mark.slow
def test_list_schedules_are_valid_with_any_rank_and_preference() -> None:
    tried = 0
    for seed in range(500, 650):
        problem = problem_with_kinds(seed)
        if problem.memory is not None and brute_force_peak(problem.relaxed)[0] > problem.memory:
            continue
        tried += 1
        for prefer in (False, True):
            answer = list_schedule(problem, Random(seed), prefer, compiled=False)
            verdict = problem.judge(problem.read(answer))
            assert not verdict.violations, f"seed {seed}: {verdict.violations[0].message}"
        order = brute_force_peak(problem.relaxed)[1]
        assert not problem.judge(in_sequence(problem, order)).violations
    assert tried >= 80


def test_compiled_list_schedule_equals_the_plain_one() -> None:
    for seed in range(500, 530):
        problem = problem_with_kinds(seed)
        if problem.memory is not None and brute_force_peak(problem.relaxed)[0] > problem.memory:
            continue
        plain, compiled = (list_schedule(problem, Random(seed), True, c) for c in (False, True))
        assert plain == compiled


def test_earliest_finish_waits_for_the_fast_processor_and_then_overflows() -> None:
    """The accelerator takes eight of the ten ops, although the cores are idle at first."""
    assert lt.solve(ten_ops(), "list", threads=1).objective == 16
    assert lt.solve(ten_ops(), threads=1).objective == 16


def test_several_modes_on_identical_processors_trade_memory_for_time() -> None:
    modes = (lt.Mode(duration_ns=2, workspace=8), lt.Mode(duration_ns=3))
    graph = lt.Graph(name="two", tensors=(), ops=tuple(lt.Op(name=x, modes=modes) for x in "ab"))
    for memory, best in ((0, 3), (7, 3), (8, 3), (16, 2)):
        assert lt.solve(lt.Makespan(graph, processors=2, memory=memory), threads=1).objective == best


def test_hint_is_the_first_incumbent() -> None:
    problem = next(p for p in map(problem_with_kinds, range(100)) if p.has_choice and optimum(p) is not None)
    known = lt.solve(problem, "list", threads=1)
    again = lt.solve(problem, "cpsat", threads=1, hint=known.plan)
    assert known.objective is not None
    assert again.trace[0].incumbent == known.objective
    assert again.objective == optimum(problem)


def test_processors_of_one_kind_are_identical_ones() -> None:
    for seed in range(800, 820):
        plain = problem_of_identical(seed)
        ops = tuple(
            replace(op, modes=(replace(op.all_modes[0], processors=("cpu",)),)) for op in plain.graph.ops
        )
        named = lt.Makespan(replace(plain.graph, ops=ops), {"cpu": plain.count}, plain.memory)
        assert named.identical
        found = [lt.solve(problem, "list", threads=1) for problem in (plain, named)]
        assert found[0].status == found[1].status
        if found[0].plan is not None:
            assert plain.read(found[0].plan) == named.read(found[1].plan)


@pytest.mark.slow
def test_kinds_that_all_ops_may_take_are_as_good_as_identical_ones() -> None:
    for seed in range(800, 830):
        plain = problem_of_identical(seed)
        if plain.count > 1:
            split = replace(plain, processors={"left": 1, "right": plain.count - 1})
            assert optimum(split) == optimum(plain)
            assert lt.solve(split, threads=1).objective == optimum(plain)


@pytest.mark.parametrize("method", ["auto", "lns"])
@pytest.mark.parametrize("modes", ["other kind first", "dominated first"])
def test_trees_whose_ops_list_a_mode_that_is_never_taken(method: str, modes: str) -> None:
    tree = lt.load("gen:tasks?shape=tree&n=14&cores=2&seed=1")
    few = {"gpu": 1} if modes == "other kind first" else {}
    unused = lt.Mode(duration_ns=1, processors=("gpu",)) if few else None
    ops = []
    for op in tree.ops:
        taken = lt.Mode(duration_ns=op.duration_ns, workspace=op.workspace)
        first = unused or replace(taken, workspace=op.workspace + 9)
        taken = replace(taken, processors=("cpu",)) if few else taken
        ops.append(replace(op, modes=(first, taken)))
    graph = replace(tree, ops=tuple(ops))
    least = lt.solve(lt.Peak(tree), threads=1).objective
    assert least is not None
    problem = lt.Makespan(graph, {"cpu": 2} if few else 2, memory=least + 5)
    plain = lt.solve(lt.Makespan(tree, 2, memory=least + 5), threads=1)
    assert plain.status is lt.Status.OPTIMAL
    options = {"windows": "50"} if method == "lns" else {}
    result = lt.solve(problem, method, threads=1, options=options)
    assert result.objective is not None
    assert result.objective >= (plain.objective or 0)
    assert result.objective == plain.objective or method == "lns"


def test_cores_take_the_durations_of_the_modes_that_are_left() -> None:
    graph = lt.load("gen:chain?n=3&seed=1")
    slow, fast = lt.Mode(duration_ns=90), lt.Mode(duration_ns=5)
    graph = replace(graph, ops=tuple(replace(op, modes=(slow, fast)) for op in graph.ops))
    core = core_problem(lt.Makespan(graph, 2), 2)
    assert [op.duration_ns for op in core.graph.ops] == [5, 5]
