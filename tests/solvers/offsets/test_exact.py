"""CP-SAT and MILP for offset allocation: the brute force's optimum, honest bounds, limits and logs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

import lowtide as lt
from lowtide.models.buffers import Buffer, Buffers
from lowtide.solvers.context import Context
from lowtide.solvers.offsets.component_context import checked, component_context
from lowtide.solvers.offsets.components import Components
from lowtide.solvers.offsets.first_come import place_as_they_come
from tests.oracles.brute_offsets import brute_offsets, random_set

METHODS = ("cpsat", "cpsat-sections", "milp")

each_method = pytest.mark.parametrize("method", METHODS)


def problems(count: int, *, satisfy: bool = False) -> list[tuple[lt.Offsets, int | None]]:
    found = []
    for seed in range(count):
        buffers = random_set(Random(seed))
        if satisfy:
            pools = {pool: 4 if most is None else most for pool, most in buffers.pools.items()}
            buffers = replace(buffers, pools=pools)
        least = brute_offsets(buffers)
        if all((b.offset or 0) % b.alignment == 0 for b in buffers.buffers):
            found.append((lt.Offsets(buffers, satisfy=satisfy), least))
    return found


def stairs(count: int) -> Buffers:
    """Return buffers of which first fit needs more than the load."""
    rng = Random(4)
    lives = [(rng.randint(0, 9), rng.randint(1, 6)) for _ in range(count)]
    return Buffers(
        buffers=tuple(
            Buffer(id=f"b{k}", lower=lower, upper=lower + length, size=rng.randint(1, 9))
            for k, (lower, length) in enumerate(lives)
        )
    )


@pytest.mark.slow
@each_method
def test_optimum_and_bound_are_those_of_the_brute_force(method: str) -> None:
    for problem, least in problems(80):
        result = lt.solve(problem, method, threads=1, time_limit=None)
        if least is None:
            assert result.status is lt.Status.INFEASIBLE, problem
        else:
            assert (result.status, result.objective) == (lt.Status.OPTIMAL, least), problem
        assert result.objective is None or result.bound == least


@each_method
def test_any_allocation_satisfies(method: str) -> None:
    feasible = 0
    for problem, least in problems(60, satisfy=True):
        result = lt.solve(problem, method, threads=1, time_limit=None)
        assert (result.status is lt.Status.INFEASIBLE) == (least is None), problem
        assert (result.objective is None) == (least is None)
        feasible += least is not None
    assert 20 <= feasible <= 55


@pytest.mark.parametrize("method", ["cpsat", "cpsat-sections"])
def test_first_fit_is_improved_to_a_proved_optimum(method: str) -> None:
    problem = lt.Offsets(stairs(30))
    greedy = lt.solve(problem, "greedy", threads=1)
    result = lt.solve(problem, method, threads=1, time_limit=None)
    assert result.status is lt.Status.OPTIMAL
    assert result.proof == "exact"
    assert greedy.objective is not None
    assert result.objective is not None
    assert result.objective <= greedy.objective


@pytest.mark.parametrize(
    ("method", "name", "optimum"),
    [
        ("cpsat", "C", 1039360),
        ("cpsat", "F", 1048576),
        pytest.param("cpsat", "K", 1048576, marks=pytest.mark.slow),
        ("cpsat-sections", "C", 1039360),
        ("cpsat-sections", "F", 1048576),
        ("cpsat-sections", "K", 1048576),
    ],
)
def test_challenging_instance_has_its_known_optimum(method: str, name: str, optimum: int) -> None:
    problem = lt.Offsets(lt.load_buffers(f"catalogue:minimalloc/{name}"))
    result = lt.solve(problem, method, threads=1, time_limit=None)
    assert (result.status, result.objective) == (lt.Status.OPTIMAL, optimum)


def test_hint_is_the_first_incumbent() -> None:
    problem = lt.Offsets(stairs(8))
    best = lt.solve(problem, "cpsat", threads=1, time_limit=None)
    again = lt.solve(problem, "milp", threads=1, time_limit=None, hint=best.allocation)
    assert again.status is lt.Status.OPTIMAL
    assert again.trace[0].incumbent == best.objective


@each_method
def test_time_that_is_up_at_once_ends_with_an_allocation_or_nothing(method: str) -> None:
    result = lt.solve(lt.Offsets(stairs(60)), method, threads=1, time_limit=1e-9)
    assert result.status in (lt.Status.FEASIBLE, lt.Status.UNKNOWN)
    assert result.reason == "time"


@each_method
def test_too_large_a_model_is_refused(method: str) -> None:
    buffers = Buffers(
        buffers=tuple(Buffer(id=str(k), lower=0, upper=9, size=3, alignment=1 + k % 2) for k in range(40))
    )
    result = lt.solve(lt.Offsets(buffers), method, threads=1, memory_limit=10)
    assert result.status is lt.Status.OPTIMAL or (result.reason, "GB" in result.detail) == ("memory", True)


def tight() -> Buffers:
    """Return a set whose first fit is not within the bound: some method has to run."""
    return next(
        buffers
        for buffers in map(stairs, range(8, 40))
        if not (found := opened(buffers))[1] and found[0].open()
    )


def opened(buffers: Buffers) -> tuple[Components, bool]:
    problem = lt.Offsets(buffers)
    components = Components(problem, Context(problem=problem, threads=1, time_limit=None))
    for component in components.all:
        components.offer(component, place_as_they_come(component.data))
    return components, components.infeasible


@each_method
def test_log_has_every_run(method: str, tmp_path: Path) -> None:
    path = tmp_path / "solver.log"
    path.write_text("old")
    result = lt.solve(lt.Offsets(tight()), method, threads=1, time_limit=None, log=path)
    assert result.status is lt.Status.OPTIMAL
    text = path.read_text()
    assert "old" not in text
    assert ("HiGHS" if method == "milp" else "CP-SAT solver") in text


@pytest.mark.parametrize("method", METHODS)
def test_unknown_option_is_a_usage_error(method: str) -> None:
    with pytest.raises(lt.UsageError, match="no_such"):
        lt.solve(lt.Offsets(stairs(4)), method, options={"no_such": "1"})


def test_runs_end_when_a_limit_among_the_options_ends_cpsat_early() -> None:
    problem = lt.Offsets(tight())
    options = {"max_deterministic_time": "0", "cp_model_presolve": "false"}
    result = lt.solve(problem, "cpsat", threads=1, options=options)
    assert result.status is lt.Status.FEASIBLE
    assert result.reason is None


def test_bounds_up_to_what_the_model_was_told_prove_nothing() -> None:
    components, _ = opened(tight())
    (component, *_) = components.open()
    own = component_context(components, component, components.context)
    run = own.run(seconds=1, floor=component.bound + 3, seed=0)
    before = component.bound
    run.raise_bound(component.bound + 3)
    assert component.bound == before
    run.raise_bound(component.bound + 4)
    assert component.bound == before + 4


def test_offsets_that_break_a_rule_are_dropped() -> None:
    components, _ = opened(stairs(8))
    component = components.all[0]
    assert component.offsets is not None
    good = tuple(component.offsets.tolist())
    context = component_context(components, component, components.context)
    assert checked(context, good) == good
    assert checked(context, (0,) * component.data.count) == ()
    assert context.offer(()) == component.height


def test_fixed_offsets_that_overlap_are_infeasible_for_every_method() -> None:
    both = Buffers(
        buffers=(
            Buffer(id="a", lower=0, upper=2, size=3, offset=0),
            Buffer(id="b", lower=1, upper=3, size=3, offset=1),
            Buffer(id="c", lower=1, upper=3, size=3),
        )
    )
    for method in (*METHODS, "auto", "greedy"):
        result = lt.solve(lt.Offsets(both), method, threads=1, time_limit=None)
        assert result.status is lt.Status.INFEASIBLE
        assert result.detail.startswith("fixed offsets: buffers 'a' at [0, 3) and 'b' at [1, 4)")
