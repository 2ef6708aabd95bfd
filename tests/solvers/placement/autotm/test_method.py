"""AutoTM's model: its optima are those of its rules, its plans verify and take as long as it says."""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowtide as lt
from lowtide.models.graph import Accounting
from tests.effort import many, seeds
from tests.oracles.autotm_rules import fastest
from tests.solvers.placement.autotm.cases import FORMS, case
from tests.solvers.placement.machines import DRAM, PMM, node
from tests.strategies import random_graph as any_graph


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("in_place", [True, False])
def test_optimum_is_that_of_exhaustive_search(form: str, in_place: bool) -> None:
    found = 0
    for seed in range(40):
        problem = case(seed, in_place=in_place)
        options = {"read-beside": "100000000", "write-beside": "100000000"} if form == "async" else {}
        result = lt.solve(problem, f"autotm-{form}", threads=1, options=options)
        best = fastest(problem, form, beside=10**8 if form == "async" else None)
        assert result.objective == best, (seed, result.detail)
        if result.objective is not None:
            assert result.verification is not None
            assert result.verification.valid
            bound = result.facts.get("form_bound")
            assert bound is not None
            assert bound <= result.objective
            assert bound == result.objective or result.status is lt.Status.OPTIMAL
            found += 1
    assert found > 10


@given(seed=st.integers(0, 10**9), form=st.sampled_from(FORMS), in_place=st.booleans())
@many(60)
def test_optimum_on_any_structure_of_graph(seed: int, form: str, in_place: bool) -> None:
    rng = Random(seed)
    tiers = (DRAM, PMM) if in_place else ()
    graph = any_graph(
        rng, max_ops=5, max_tensors=6, max_nbytes=6, accountings=(Accounting.COEXIST,), mode_tiers=tiers
    )
    problem = lt.Placement(graph, node(rng.randint(0, 14), in_place=in_place), periodic=rng.random() < 0.3)
    result = lt.solve(problem, f"autotm-{form}", threads=1)
    assert result.objective == fastest(problem, form), result.detail


def test_window_limits_how_far_from_its_users_a_tensor_moves() -> None:
    # 10 bytes take 100 ns to PMM: beside `short`, 90 ns more than that op, or two ops away beside `long`
    lasting = {"make": (0,), "short": (1,), "long": (2,), "fill": (3,), "behind": (4,)}
    graph = lt.Graph(
        name="window",
        tensors=tuple(lt.Tensor(name=f"t{i}", nbytes=b) for i, b in enumerate((10, 5, 5, 20, 5))),
        ops=(
            *(
                lt.Op(name=name, writes=writes, duration_ns={"short": 10, "long": 200}.get(name, 100))
                for name, writes in lasting.items()
            ),
            lt.Op(name="use", reads=(0,), duration_ns=100),
        ),
    )
    problem = lt.Placement(graph, node(20, in_place=False))
    for window, best in ((1, 700), (2, 610)):
        assert fastest(problem, "async", window) == best
        result = lt.solve(problem, "autotm-async", threads=1, options={"window": str(window)})
        assert result.objective == best


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(12))
def test_static_is_never_faster_than_synchronous_nor_that_than_asynchronous(seed: int) -> None:
    problem = case(seed, in_place=seed % 2 == 0, ops=12)
    values = []
    for form in FORMS:
        result = lt.solve(problem, f"autotm-{form}", threads=1, time_limit=None)
        assert result.reason is None, result.detail
        assert result.status in (lt.Status.OPTIMAL, lt.Status.FEASIBLE, lt.Status.UNKNOWN)
        values.append(float("inf") if result.objective is None else result.objective)
    assert values[0] >= values[1] >= values[2]


def spill(room: int, *, in_place: bool) -> lt.Placement:
    """A tensor of 10 bytes that is idle while an op of 100 ns needs the room."""
    graph = lt.Graph(
        name="spill",
        tensors=(
            lt.Tensor(name="a", nbytes=10),
            lt.Tensor(name="b", nbytes=5),
            lt.Tensor(name="c", nbytes=20),
            lt.Tensor(name="d", nbytes=5),
        ),
        ops=(
            lt.Op(name="make", writes=(0,), duration_ns=100),
            lt.Op(name="before", writes=(1,), duration_ns=100),
            lt.Op(name="fill", writes=(2,), duration_ns=100),
            lt.Op(name="behind", writes=(3,), duration_ns=100),
            lt.Op(name="use", reads=(0,), duration_ns=100),
        ),
    )
    return lt.Placement(graph, node(room, in_place=in_place))


def test_device_form_moves_behind_and_before_ops_that_use_the_tensor() -> None:
    # 10 bytes out at 10 ns behind `make`, in at 5 ns before `use`
    result = lt.solve(spill(20, in_place=False), "autotm-sync", threads=1)
    assert result.objective == 500 + 100 + 50
    assert result.facts.get("form_bound") == 650
    assert result.bound == 500
    assert result.status is lt.Status.FEASIBLE


def test_moves_beside_other_ops_cost_nothing_where_they_fit() -> None:
    result = lt.solve(spill(20, in_place=False), "autotm-async", threads=1)
    assert result.objective == 500  # out beside `before`, 100 ns; in beside `behind`, 50 ns
    assert result.status is lt.Status.OPTIMAL
    slower = lt.solve(spill(20, in_place=False), "autotm-async", threads=1, options={"write-beside": "80MB"})
    assert slower.objective == 500 + 25  # 125 ns beside an op of 100


def test_ops_read_slow_memory_in_place_where_that_is_shorter() -> None:
    # written behind `make` (100 ns), then read there by `use`: 10 bytes at 4 ns instead of a copy at 5
    assert lt.solve(spill(20, in_place=True), "autotm-sync", threads=1).objective == 500 + 100 + 40
    # nothing fits in the static form: `make` has no mode that writes in slow memory
    result = lt.solve(spill(20, in_place=True), "autotm-static", threads=1)
    assert result.status is lt.Status.UNKNOWN
    assert result.detail.startswith("HiGHS: Infeasible, no plan of this form: ")


def test_auto_ends_with_the_synchronous_form_where_ops_use_slow_memory() -> None:
    problem = case(1, in_place=True)
    result = lt.solve(problem, "auto", threads=1)
    assert result.objective == fastest(problem, "sync")
    assert result.objective != lt.solve(problem, "first-touch").objective


@pytest.mark.parametrize("form", FORMS)
def test_a_point_without_steps(form: str) -> None:
    # the only mode of the only op reads in slow memory what starts in fast memory
    graph = lt.Graph(
        name="contradiction",
        tensors=(lt.Tensor(name="a", nbytes=3, initial=True, kind="weight"),),
        ops=(lt.Op(name="x", reads=(0,), modes=(lt.Mode(duration_ns=5, operands=((0, PMM),)),)),),
    )
    result = lt.solve(lt.Placement(graph, node(10), start={"weight": (DRAM,)}), f"autotm-{form}", threads=1)
    assert result.status is lt.Status.UNKNOWN
    assert "no plan of this form: " in result.detail


def test_enough_memory_takes_the_sum_of_durations() -> None:
    for form in FORMS:
        result = lt.solve(spill(40, in_place=False), f"autotm-{form}", threads=1)
        assert result.status is lt.Status.OPTIMAL
        assert result.objective == 500


def test_slots_round_up_to_whole_ns() -> None:
    problem = spill(20, in_place=True)
    odd = replace(
        problem.machine.processors[0],
        tiers=(lt.Access(tier=DRAM), lt.Access(tier=PMM, bytes_per_s=300_000_000)),
    )
    problem = replace(problem, machine=replace(problem.machine, processors=(odd,)))
    result = lt.solve(problem, "autotm-sync", threads=1)
    assert result.objective == 500 + 100 + 34  # 10 bytes at 3.33 ns
    assert result.facts.get("form_bound") == 634


def test_what_the_model_does_not_cover_is_refused() -> None:
    problem = spill(20, in_place=True)
    five = lt.Machine(
        tiers=(*problem.machine.tiers, *(lt.Tier(name=f"drive{i}") for i in range(3))),
        processors=problem.machine.processors,
        channels=(
            *problem.machine.channels,
            *(lt.Channel(src=DRAM, dst=f"drive{i}", bytes_per_s=10**9) for i in range(3)),
            *(lt.Channel(src=f"drive{i}", dst=DRAM, bytes_per_s=10**9) for i in range(3)),
        ),
    )
    with pytest.raises(lt.UsageError, match="found more than four tiers, expected none"):
        lt.solve(lt.Placement(problem.graph, five), "autotm-sync")
    other = replace(problem, graph=replace(problem.graph, accounting=Accounting.REPLACE))
    with pytest.raises(lt.UsageError, match="outputs that take the place of inputs, read in place"):
        lt.solve(other, "autotm-sync")
    with pytest.raises(lt.UsageError, match="read-beside: found 'fast', expected bytes per second"):
        lt.solve(problem, "autotm-async", options={"read-beside": "fast"})
    with pytest.raises(lt.UsageError, match="window"):
        lt.solve(problem, "autotm-sync", options={"window": "3"})


@pytest.mark.parametrize("form", FORMS)
def test_no_time_ends_before_the_model_is_complete(form: str) -> None:
    problem = case(1, in_place=True, ops=12)
    result = lt.solve(problem, f"autotm-{form}", threads=1, time_limit=1e-6)
    assert result.status is lt.Status.UNKNOWN
    assert result.reason == "time"
    bound = result.facts.get("form_bound")
    assert bound is not None
    assert result.bound is not None
    assert bound >= result.bound
