"""The slot model for whole tensors on two and three tiers, runs and periods, against exhaustive search."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pytest

import lowtide as lt
from lowtide.formulations.placement.slots.pieces import coarse
from lowtide.formulations.placement.slots.whole_milp import build
from lowtide.formulations.placement.states import state_data
from lowtide.formulations.placement.whole.sequence import longest_stall
from lowtide.models.problems.placement import Placement
from lowtide.solvers.placement.slots import whole as slots_milp
from lowtide.solvers.placement.slots.sample import set_values
from tests.effort import seeds
from tests.oracles.brute_placement import fastest
from tests.oracles.brute_tiers import TooLarge, faster
from tests.oracles.random_placement import brief_period, random_placement
from tests.problems.placement import machine, tiny_placement
from tests.solvers.placement.slots.cases import plan_by, ragged, start_of, worst_row

pytestmark = pytest.mark.slow

WHOLE, IN_BYTES, OTHERS = ("slot-milp", "cpsat"), ("slot-lp", "tmof"), ("autotm-sync", "autotm-async")
"""Forms of whole tensors on any tiers; in bytes, whose bounds hold for those too; AutoTM's."""
MOST = 20_000
"""States of an exhaustive search; the few problems that need more are judged by their bounds only."""


BOTH = pytest.mark.parametrize("accounting", list(lt.Accounting))


@pytest.fixture(autouse=True)
def _few_cuts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots_milp, "ROUNDS", 3)


def question(seed: int, accounting: lt.Accounting) -> Placement:
    """Up to five ops, any channels and joint caps, in whole tensors; a third tier in two of five."""
    return replace(random_placement(seed, ops=5, accounting=accounting), whole=True)


def of_form(problem: Placement, form: str) -> lt.Result:
    """Return the result of a form, which serves every such problem."""
    some = replace(problem, whole=form not in IN_BYTES)
    options = {"max_deterministic_time": "0.1"} if form == "cpsat" else {}
    result = lt.solve(some, form, threads=1, time_limit=None, options=options)
    assert result.status is not lt.Status.FAILED, result.detail
    assert result.objective is None or (result.verification is not None and result.verification.valid)
    return result


@BOTH
@pytest.mark.parametrize("seed", seeds(150))
def test_no_form_proves_more_than_exhaustive_search_finds(seed: int, accounting: lt.Accounting) -> None:
    """Its optimum is that of the forms of whole tensors where they prove one, and no bound is above it."""
    problem = question(seed, accounting)
    results = {form: of_form(problem, form) for form in (*WHOLE, *IN_BYTES, *OTHERS)}
    found = [value for form in WHOLE if (value := results[form].objective) is not None]
    with suppress(TooLarge):
        most = sum(op.duration_ns for op in problem.graph.ops)
        most += longest_stall(state_data(problem))
        if (best := faster(problem, max(found, default=most + 1), MOST)) is not None:
            found.append(best)
    for form, result in results.items():
        if not found:
            continue
        assert result.status is not lt.Status.INFEASIBLE, form
        assert result.bound is not None, form
        assert result.bound <= min(found), form
        if result.status is lt.Status.OPTIMAL and form in WHOLE:
            assert result.objective == min(found), form


@BOTH
@pytest.mark.parametrize("seed", [36 + seed for seed in seeds(28)])
def test_periods_whose_tensors_may_not_start_everywhere_are_as_fast_as_exhaustive_search(
    seed: int, accounting: lt.Accounting
) -> None:
    problem = brief_period(seed, accounting)
    result = of_form(problem, "slot-milp")
    try:
        best = faster(problem, 10**4, MOST)
    except TooLarge:
        return
    assert best is None or (result.bound is not None and result.bound <= best)
    far = [t for t in problem.graph.tensors if t.initial and not t.nbytes]
    if all("gpu" in problem.may_start(t.kind) for t in far):
        assert result.objective == best
    else:  # their copies take no rate, so that others pass beside them, and come before all else
        assert (result.objective is None) == (best is None)


@BOTH
@pytest.mark.parametrize("seed", seeds(60))
def test_the_exhaustive_searches_agree(seed: int, accounting: lt.Accounting) -> None:
    problem = tiny_placement(seed, accounting)
    assert faster(problem, 10**9) == fastest(problem.graph, problem.machine, start_of(problem))


@BOTH
@pytest.mark.parametrize("method", ["planner", "local-search", "belady", "serial"])
@pytest.mark.parametrize("seed", seeds(100))
def test_every_plan_is_a_point_of_the_lower_model(seed: int, method: str, accounting: lt.Accounting) -> None:
    problem = question(seed, accounting)
    found = plan_by(problem, method)
    if found is None:
        return
    data = state_data(problem)
    for cut in (coarse(data), ragged(coarse(data), seed)):
        built = build(cut, most=max(1, problem.evaluate(found) - data.ideal), upper=False)
        set_values(built, found)
        assert worst_row(built) <= 1e-9


def through() -> Placement:
    """A tensor that must leave a device that sees the host only, which holds one tensor of its size."""
    graph = lt.Graph(
        name="through",
        tensors=tuple(lt.Tensor(name=name, nbytes=10) for name in "abc"),
        ops=(
            lt.Op(name="a", writes=(0,), duration_ns=100),
            lt.Op(name="b", writes=(1,), duration_ns=100),
            lt.Op(name="c", writes=(2,), duration_ns=100),
            lt.Op(name="use c", reads=(2,), duration_ns=100),
            lt.Op(name="use b", reads=(1,), duration_ns=100),
            lt.Op(name="use a", reads=(0,), duration_ns=100),
        ),
    )
    pairs = [("gpu", "host", 10), ("host", "gpu", 10), ("host", "ssd", 5), ("ssd", "host", 5)]
    bench = lt.Machine(
        tiers=(lt.Tier(name="gpu", capacity=10), lt.Tier(name="host", capacity=10), lt.Tier(name="ssd")),
        processors=(lt.Processor(name="gpu0", tiers=(lt.Access(tier="gpu"),)),),
        channels=tuple(lt.Channel(src=a, dst=b, bytes_per_s=rate * 10**6) for a, b, rate in pairs),
    )
    return Placement(graph, bench, whole=True)


@pytest.mark.parametrize(("host", "time"), [(10, 8400), (20, 600 + 4_000)])
def test_a_chain_of_tiers_by_hand(host: int, time: int) -> None:
    # 20: both go out and in one after the other; 10: beside that, `a` goes on to the SSD and comes back, and
    # only `c` and `use b` run beside copies
    problem = through()
    tiers = problem.machine.tiers
    room = replace(problem.machine, tiers=(tiers[0], replace(tiers[1], capacity=host), tiers[2]))
    result = lt.solve(replace(problem, machine=room), "slot-milp", threads=1)
    assert result.verification is not None
    assert result.verification.valid
    assert result.objective is not None
    assert result.bound is not None
    assert faster(replace(problem, machine=room), 10**5) == time
    assert result.bound <= time <= result.objective


def test_a_host_without_room_is_no_tier() -> None:
    for seed in range(5):
        problem = tiny_placement(seed)
        rates = (("gpu", "host", 9), ("host", "gpu", 9), ("gpu", "ssd", 5), ("ssd", "gpu", 10))
        channels = tuple(lt.Channel(src=a, dst=b, bytes_per_s=rate * 10**6) for a, b, rate in rates)
        gpu = problem.machine.tiers[0]
        tiers = (gpu, lt.Tier(name="host", capacity=0), lt.Tier(name="ssd"))
        three = replace(problem.machine, tiers=tiers, channels=channels)
        start = {
            kind: tuple("ssd" if x == "host" else x for x in some) for kind, some in problem.starts.items()
        }
        other = replace(problem, machine=three, start=start)
        results = [lt.solve(p, "slot-milp", threads=1, time_limit=None) for p in (problem, other)]
        assert results[0].objective == results[1].objective


def test_a_tier_more_never_hurts() -> None:
    for seed in range(5):
        problem = tiny_placement(seed)
        bench = machine(problem.machine.tiers[0].capacity or 0, None, shared=False)
        two = replace(bench, tiers=bench.tiers[:2], channels=bench.channels[:2])
        few, many = (
            lt.solve(replace(problem, machine=some), "slot-milp", threads=1, time_limit=None)
            for some in (two, bench)
        )
        assert few.objective is not None
        assert many.bound is not None
        assert many.bound <= few.objective
