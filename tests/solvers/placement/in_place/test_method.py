"""Questions whose ops use a second tier in place: bound and plans against exhaustive search."""

from dataclasses import replace
from functools import cache

import pytest

import lowtide as lt
from lowtide.formulations.placement.in_place.data import in_place_data
from lowtide.instances import load_problem
from lowtide.solvers.context import Context
from lowtide.solvers.placement.in_place.prices import InPlaceDual, beyond_prices
from tests.effort import seeds
from tests.oracles.brute_in_place import fastest, random_in_place

MANY = 200


@cache
def optimum(seed: int) -> int | None:
    return fastest(random_in_place(seed))


def solved(problem: lt.Placement) -> lt.Result:
    return lt.solve(problem, "in-place", threads=1)


@pytest.mark.parametrize("seed", seeds(MANY, least=25))
def test_bounds_and_plans_are_on_either_side_of_the_optimum(seed: int) -> None:
    result, best = solved(random_in_place(seed)), optimum(seed)
    if best is None:
        assert result.plan is None
        return
    assert result.status is not lt.Status.INFEASIBLE
    assert result.bound is not None
    assert result.bound <= best
    if result.plan is not None:
        assert result.verification is not None
        assert result.verification.valid
        assert result.objective is not None
        assert result.objective >= best


@pytest.mark.slow
def test_most_bounds_and_plans_are_optimal() -> None:
    feasible = [seed for seed in range(40) if optimum(seed) is not None]
    results = [solved(random_in_place(seed)) for seed in feasible]
    assert sum(r.bound == optimum(seed) for seed, r in zip(feasible, results, strict=True)) >= 33
    assert sum(r.objective == optimum(seed) for seed, r in zip(feasible, results, strict=True)) >= 38


@pytest.mark.parametrize("seed", [101, 580])
def test_a_tensor_without_room_beside_larger_ones_is_placed_first(seed: int) -> None:
    assert solved(random_in_place(seed)).plan is not None


@pytest.mark.parametrize("seed", [255, 263])
def test_outward_copies_go_beside_all_ops_since_the_last_write(seed: int) -> None:
    assert solved(random_in_place(seed)).objective == optimum(seed)


def changed(problem: lt.Placement, what: str) -> lt.Placement:
    """Return a question with less of something, whose bound is none of the question itself."""
    machine = problem.machine
    near, far = machine.tiers
    processor = machine.processors[0]
    if what == "memory":
        machine = replace(machine, tiers=(replace(near, capacity=(near.capacity or 0) - 1), far))
    elif what in ("inward", "outward"):
        src = far.name if what == "inward" else near.name
        machine = replace(
            machine,
            channels=tuple(
                replace(c, bytes_per_s=c.bytes_per_s // 8) if c.src == src else c for c in machine.channels
            ),
        )
    else:
        access = replace(processor.tiers[1], bytes_per_s=10**8)
        machine = replace(machine, processors=(replace(processor, tiers=(processor.tiers[0], access)),))
    return replace(problem, machine=machine)


@pytest.mark.slow
@pytest.mark.parametrize("what", ["memory", "inward", "outward", "in place"])
def test_a_bound_of_less_is_seen_to_be_wrong(what: str) -> None:
    """The comparison with exhaustive search notices each kind of row whose right-hand side is wrong."""
    wrong = 0
    for seed in range(40):
        best = optimum(seed)
        problem = changed(random_in_place(seed), what)
        if best is None or not InPlaceDual(in_place_data(problem)).possible:
            continue
        bound = solved(problem).bound
        wrong += bound is not None and bound > best
    assert wrong


@pytest.mark.parametrize("seed", seeds(60, least=12))
def test_periods_no_plan_of_another_method_is_below_the_bound(seed: int) -> None:
    problem = random_in_place(seed, periodic=True)
    result = solved(problem)
    for method in ("autotm-async", "first-touch"):
        other = lt.solve(problem, method, threads=1)
        if other.objective is not None:
            assert result.bound is not None
            assert result.bound <= other.objective
    assert result.plan is None or (result.verification is not None and result.verification.valid)


def test_an_op_without_room_for_what_it_needs_is_refuted() -> None:
    problem = load_problem(lt.Placement, "gen:chain?n=3&seed=1&machine=optane-node&device=1B")
    result = solved(problem)
    assert result.status is lt.Status.INFEASIBLE


def test_an_op_that_reads_what_never_fits_reads_it_in_place() -> None:
    """Two ops of 10 ns; 8 bytes are read in 7 bytes of fast memory: at 1 byte/ns each takes 18 ns."""
    graph = lt.Graph(
        name="large",
        tensors=(lt.Tensor(name="x", nbytes=8, kind="weight", initial=True, final=True),),
        ops=tuple(lt.Op(name=f"op{k}", reads=(0,), duration_ns=10) for k in range(2)),
    )
    machine = replace(random_in_place(0).machine, channels=random_in_place(0).machine.channels)
    machine = replace(
        machine,
        tiers=(lt.Tier(name="near", capacity=7), lt.Tier(name="far")),
        processors=(
            lt.Processor(name="p", tiers=(lt.Access(tier="near"), lt.Access(tier="far", bytes_per_s=10**9))),
        ),
    )
    result = solved(lt.Placement(graph, machine, periodic=True))
    assert (result.objective, result.bound, result.status) == (36, 36, lt.Status.OPTIMAL)


def test_prices_worth_more_than_a_stall_are_scaled() -> None:
    problem = random_in_place(1)
    dual = InPlaceDual(in_place_data(problem))
    point = dual.point()
    point.stall[:] = 10.0
    point.run[:] = 10.0
    bound, best = dual.evaluate(point), optimum(1)
    assert bound is not None
    assert best is not None
    assert bound <= best


def test_machines_of_three_tiers_are_refused() -> None:
    problem = random_in_place(0)
    far = lt.Tier(name="disk")
    machine = replace(
        problem.machine,
        tiers=(*problem.machine.tiers, far),
        channels=(
            *problem.machine.channels,
            lt.Channel(src="far", dst="disk", bytes_per_s=10**9),
            lt.Channel(src="disk", dst="far", bytes_per_s=10**9),
        ),
    )
    assert "found tiers" in beyond_prices(replace(problem, machine=machine))


def test_auto_closes_what_prices_close() -> None:
    problem = random_in_place(2)
    result = lt.solve(problem, "auto", threads=1)
    assert result.objective == optimum(2)


def test_it_stops_when_the_time_is_up() -> None:
    problem = load_problem(
        lt.Placement, "onnx:squeezenet?batch=64,train=1,node=optane&machine=optane-node&device=500MiB"
    )
    context = Context(problem=problem, threads=1, time_limit=0.0)
    from lowtide.solvers.placement.in_place.method import solve_in_place

    assert solve_in_place(problem, context).reason == "time"
