"""The slot model for whole tensors: as fast as exhaustive search, and every plan is a point of it."""

from dataclasses import replace

import pytest

import lowtide as lt
from lowtide.formulations.placement.slots import whole_milp as placement_slots_milp
from lowtide.formulations.placement.slots.pieces import Cut, coarse
from lowtide.formulations.placement.slots.whole_milp import build
from lowtide.formulations.placement.states import state_data
from lowtide.formulations.placement.whole.sequence import (
    Copying,
    EventResidency,
    Order,
    longest_stall,
    timing,
)
from lowtide.formulations.placement.whole.sequence_plan import plan
from lowtide.instances import load_problem
from lowtide.models.problems.placement import Placement
from lowtide.solvers.context import Context
from lowtide.solvers.engines.highs import solve_highs
from lowtide.solvers.placement.slots.sample import instants, set_values
from tests.effort import seeds
from tests.oracles.brute_placement import fastest
from tests.problems.placement import machine, tiny_placement
from tests.solvers.placement.slots.cases import case, ragged, start_of, worst_row

OPEN = (7, 20)
"""Seeds where copies in parts would be faster: the bound stays below."""


@pytest.mark.parametrize("seed", seeds(30))
def test_as_fast_as_exhaustive_search_and_proved(seed: int) -> None:
    problem = tiny_placement(seed)
    best = fastest(problem.graph, problem.machine, start_of(problem))
    result = lt.solve(problem, "slot-milp", threads=1, time_limit=None)
    assert result.objective == best
    assert best is not None
    assert result.bound is not None
    assert result.bound <= best
    assert (result.status is lt.Status.OPTIMAL) == (seed not in OPEN), result.detail


@pytest.mark.parametrize("seed", [2, 5, 9, 31, 40])
def test_as_fast_as_cpsat(seed: int) -> None:
    problem = tiny_placement(seed)
    other = lt.solve(problem, "cpsat", threads=1, time_limit=None)
    assert lt.solve(problem, "slot-milp", threads=1, time_limit=None).objective == other.objective


@pytest.mark.parametrize("method", ["belady", "autoswap", "demand-lru", "local-search"])
@pytest.mark.parametrize("seed", seeds(10))
def test_every_plan_is_a_point_of_the_lower_model(seed: int, method: str) -> None:
    problem = case(seed, latency=400 * (seed % 2))
    options = {"runs": "300"} if method == "local-search" else {"chunk": "1000"}
    found = lt.solve(problem, method, threads=1, options=options).plan
    if found is None:
        return
    data = state_data(problem)
    for cut in (coarse(data), ragged(coarse(data), seed)):
        built = build(cut, most=max(1, problem.evaluate(found) - data.ideal), upper=False)
        set_values(built, found)
        assert worst_row(built) <= 1e-9
        clock = instants(cut, found)
        stall = sum(clock[x + 1] - clock[x] for x, piece in enumerate(cut.pieces) if not piece.run)
        assert sum(x.value for x in built.model.stall.values()) == stall <= clock[-1] - data.ideal


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(10))
def test_plans_verify_and_bounds_are_below_them(seed: int) -> None:
    problem = case(seed)
    result = lt.solve(problem, "slot-milp", threads=1, time_limit=None)
    assert result.status is not lt.Status.FAILED, result.detail
    lru = lt.solve(problem, "belady", threads=1)
    assert result.bound is not None
    if lru.objective is not None:
        assert result.objective is not None
        assert result.bound <= min(result.objective, lru.objective)


@pytest.mark.parametrize("seed", [0, 9, 20, 36])
def test_finer_pieces_raise_the_bound(seed: int) -> None:
    problem = tiny_placement(seed)
    data = state_data(problem)
    exact = fastest(problem.graph, problem.machine, start_of(problem))
    assert exact is not None
    one = lower_bound(problem, coarse(data))
    halves = [
        replace(piece, length=length)
        for piece in coarse(data).pieces
        for length in (
            [piece.length // 2, piece.length - piece.length // 2] if piece.length else [100, 100, None]
        )
    ]
    assert one <= lower_bound(problem, Cut(data, tuple(halves))) <= exact


def lower_bound(problem: Placement, cut: Cut) -> int:
    """Return what the lower model proves."""
    context = Context(problem=problem, time_limit=None, threads=1)
    built = build(cut, most=longest_stall(cut.data), upper=False)
    solve_highs(
        built.model, context, decode=lambda value: None, to_objective=lambda units: cut.data.ideal + units
    )
    assert context.bound is not None
    return context.bound


def exchange() -> Placement:
    """A weight must leave (2,000 ns), and only then an input can come (1,000 ns): 3,000 ns of stall."""
    graph = lt.Graph(
        name="exchange",
        tensors=(
            lt.Tensor(name="w", nbytes=10, kind="weight", initial=True, final=True),
            lt.Tensor(name="in", nbytes=10, kind="input", initial=True),
        ),
        ops=(
            lt.Op(name="first", reads=(0,), writes=(0,), duration_ns=100),
            lt.Op(name="second", reads=(1,), duration_ns=100),
        ),
    )
    bench = tiny_placement(0).machine
    room = replace(bench.tiers[0], capacity=15)
    start = {"weight": ("gpu",), "input": ("host",)}
    return Placement(graph, replace(bench, tiers=(room, bench.tiers[1])), whole=True, start=start)


@pytest.mark.slow
def test_pieces_of_a_stall_come_one_after_the_other() -> None:
    problem = exchange()
    data = state_data(problem)
    assert lower_bound(problem, coarse(data)) == 200 + 2000  # out and in at once
    pieces = list(coarse(data).pieces)
    pieces.insert(2, replace(pieces[2], length=1500))
    assert lower_bound(problem, Cut(data, tuple(pieces))) == 200 + 2500  # nothing comes in the first 1,500
    assert lt.solve(problem, "slot-milp", threads=1).objective == 3200


def test_what_is_in_neither_of_two_tiers_does_not_come_by_going_round_between_them() -> None:
    graph = lt.Graph(
        name="one",
        tensors=(lt.Tensor(name="in", nbytes=10, kind="input", initial=True),),
        ops=(lt.Op(name="read", reads=(0,), duration_ns=100),),
    )
    problem = Placement(graph, machine(10, None, shared=False), whole=True, start={"input": ("ssd",)})
    assert lower_bound(problem, coarse(state_data(problem))) == 100 + 5000  # 10 bytes at 2 MB/s


@pytest.mark.parametrize(
    "part", ["_somewhere", "_places", "_moves", "_starts", "_memory", "_channels", "_stalls"]
)
def test_every_part_of_the_model_matters(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [exchange(), *(tiny_placement(seed) for seed in (0, 20, 31, 35, 46))]
    data = [state_data(problem) for problem in cases]
    cuts = [
        Cut(x, tuple(q for p in coarse(x).pieces for q in ([p] if p.run else [replace(p, length=1500), p])))
        for x in data
    ]
    before = [lower_bound(problem, cut) for problem, cut in zip(cases, cuts, strict=True)]
    monkeypatch.setattr(placement_slots_milp, part, lambda *arguments: None)
    assert any(
        lower_bound(problem, cut) < good for problem, cut, good in zip(cases, cuts, before, strict=True)
    )


def spill() -> lt.Graph:
    return lt.Graph(
        name="spill",
        tensors=(lt.Tensor(name="a", nbytes=10_000), lt.Tensor(name="b", nbytes=20_000)),
        ops=(
            lt.Op(name="make", writes=(0,), duration_ns=100_000),
            lt.Op(name="fill", writes=(1,), duration_ns=100_000),
            lt.Op(name="use", reads=(0,), duration_ns=100_000),
        ),
    )


def out_and_in(begin: float, back: float) -> Order:
    """The order in which `a` of `spill` leaves and returns, by instants."""
    stays = [
        EventResidency(life=0, tier=0, begin=(0, 0), uses=[(4, 0)], since=2.0),
        EventResidency(life=0, tier=1, begin=(4, 0), uses=[(5, 0)], since=3.0),
        EventResidency(life=0, tier=0, begin=(5, 0), uses=[(2, 0)], since=5.0, last=True),
    ]
    copies = [Copying(life=0, way=w, begin=x, end=x + 0.5) for w, x in ((0, begin), (1, back))]
    return Order(stays=stays, copies=copies, place=[(1.0, 2.0), (3.0, 4.0), (5.0, 6.0)], length=6)


def test_an_order_is_timed_by_hand() -> None:
    problem = Placement(spill(), machine(25_000, None, latency=10, ssd=False), whole=True)
    data = state_data(problem)
    order = out_and_in(2.25, 4.25)
    times = timing(data, order)
    assert times is not None
    # out 2,000,010 from 100,000; then `fill`; then 1,666,667 + 10 in
    assert list(times.start[:3]) == [0, 2_100_010, 2_200_010 + 1_666_677]
    assert problem.judge(plan(data, problem, order, times)).objective == 2_300_010 + 1_666_677


def test_an_order_that_contradicts_itself_has_no_timing() -> None:
    problem = Placement(spill(), machine(25_000, None, ssd=False), whole=True)
    data = state_data(problem)
    assert timing(data, out_and_in(3.25, 4.25)) is None  # it leaves too late
    assert timing(data, out_and_in(2.25, 2.75)) is None  # it returns too early
    stays = [EventResidency(life=0, tier=0, begin=(0, 0), uses=[(2, 0)], since=2.0, last=True)]
    assert timing(data, replace(out_and_in(2.25, 4.25), stays=stays, copies=[])) is None  # it does not fit


def test_what_cannot_start_is_infeasible() -> None:
    weights = tuple(
        lt.Tensor(name=f"w{i}", nbytes=10, kind="weight", initial=True, final=True) for i in range(3)
    )
    graph = lt.Graph(
        name="weights",
        tensors=weights,
        ops=tuple(lt.Op(name=f"op{i}", reads=(i,), duration_ns=100) for i in range(3)),
    )
    problem = Placement(graph, machine(20, None, ssd=False), whole=True, start={"weight": ("gpu",)})
    assert lt.solve(problem, "slot-milp", threads=1).status is lt.Status.INFEASIBLE
    free = replace(problem, start={"weight": ("gpu", "host")})
    assert lt.solve(free, "slot-milp", threads=1).status is lt.Status.OPTIMAL


@pytest.mark.slow
@pytest.mark.parametrize(("ops", "seed", "megabytes"), [(14, 1, 460), (18, 3, 480)])
def test_training_chains_are_solved(ops: int, seed: int, megabytes: int) -> None:
    spec = f"gen:skipchain?n={ops}&seed={seed}&machine=v100-16g-pcie3&start=gpu&whole=1&device={megabytes}MB"
    result = lt.solve(load_problem(lt.Placement, spec), "slot-milp", threads=1, time_limit=None)
    assert result.gap is not None
    assert 0 < result.gap < 1e-5  # copies take whole ns, and a floating bound counts less
    assert result.objective is not None
    assert result.objective > 1.05 * sum(op.duration_ns for op in load_problem(lt.Placement, spec).graph.ops)


def test_too_large_a_model_is_not_built() -> None:
    result = lt.solve(tiny_placement(0), "slot-milp", threads=1, memory_limit=10_000)
    assert (result.status, result.reason) == (lt.Status.UNKNOWN, "memory")


def test_what_the_model_does_not_cover_is_refused() -> None:
    problem = tiny_placement(0)
    with pytest.raises(lt.UsageError, match="found no copies of whole tensors"):
        lt.solve(replace(problem, whole=False), "slot-milp")
