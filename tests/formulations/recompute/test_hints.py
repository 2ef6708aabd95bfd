"""Known schedules as hints of the models in stages: their stages, and values of all variables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

import lowtide as lt
from lowtide.formulations.recompute import stages_milp as recompute_stages
from lowtide.formulations.recompute.data import RecomputeData, in_ns, recompute_data, time_of
from lowtide.formulations.recompute.stages_hint import set_values, stages_of
from lowtide.formulations.recompute.stages_milp import StagesModel
from lowtide.solvers.recompute.models.paging import paging
from tests.problems.recompute import check_values

AGAIN = [0, 1, 2, 3, 1, 0, 4, 5, 6]
"""Runs of a chain of three forwards and four backwards; before op 4, ops 1 and 0 run again."""


def chain(memory: int | None = None, forwards: int = 3) -> RecomputeData:
    return recompute_data(lt.Recompute(lt.load(f"gen:backprop-chain?l={forwards}"), memory=memory))


def dead_branch() -> RecomputeData:
    """What the first op leaves is of use to the second one only, and what that leaves to none."""
    tensors = tuple(lt.Tensor(name=name, nbytes=1, final=name == "c") for name in "abc")
    ops = (
        lt.Op(name="one", writes=(0,)),
        lt.Op(name="two", reads=(0,), writes=(1,)),
        lt.Op(name="three", writes=(2,)),
    )
    return recompute_data(lt.Recompute(lt.Graph(name="dead", tensors=tensors, ops=ops)))


def test_stages_of_a_schedule() -> None:
    data = chain()
    assert stages_of(data, range(7)) == [[i] for i in range(7)]
    assert stages_of(data, AGAIN) == [[0], [1], [2], [3], [0, 1, 4], [5], [6]]
    assert stages_of(dead_branch(), [0, 1, 0, 2]) == [[0], [1], [2]]
    assert stages_of(dead_branch(), [0, 0, 1, 2]) == [[0], [0, 1], [2]]


@pytest.mark.parametrize(
    "runs",
    [
        [1, 0, 2, 3, 4, 5, 6],
        [0, 2, 1, 3, 4, 5, 6],
        [0, 1, 2, 3, 1, 1, 4, 5, 6],
        [0, 1, 2, 3, 4, 5],
        [0, 1, 2, 3, 4, 5, 6, 0],
    ],
    ids=["not first", "second before", "twice in a stage", "too few", "after the last"],
)
def test_other_schedules_have_none(runs: list[int]) -> None:
    assert stages_of(chain(), runs) is None
    built = recompute_stages.build(chain())
    assert built is not None
    set_values(built, runs)
    assert untouched(built)


def variables(built: StagesModel) -> list[Any]:
    import pyomo.environ as pyo

    return list(built.model.component_data_objects(pyo.Var))


def untouched(built: StagesModel) -> bool:
    return all(x.value is None for x in variables(built))


def satisfied(built: StagesModel, runs: Sequence[int]) -> bool:
    """Whether all variables have values that satisfy all rows and say these runs, and their time."""
    import pyomo.environ as pyo

    check_values(built.model)
    said = recompute_stages.decode(built, lambda x: x.value)
    return said == list(runs) and pyo.value(built.model.objective) == time_of(built.data, runs)


def test_hints_satisfy_the_partitioned_form() -> None:
    for memory in (4, 5, 6):
        data = chain(memory)
        result = lt.solve(lt.Recompute(lt.load("gen:backprop-chain?l=3"), memory=memory), "eviction")
        assert result.plan is not None
        runs = [run.op for run in sorted(result.plan.runs, key=lambda run: run.start)]
        built = recompute_stages.build(data)
        assert built is not None
        set_values(built, runs)
        stages = stages_of(data, runs)
        assert stages is not None
        assert satisfied(built, [i for stage in stages for i in stage])


def test_hints_satisfy_free_stages_if_there_are_enough() -> None:
    """`AGAIN` has three ascending parts: 0 1 2 3, then 1, then 0 4 5 6."""
    for stages in (2, 3, 4):
        built = recompute_stages.build(chain(), stages=stages)
        assert built is not None
        set_values(built, AGAIN)
        assert untouched(built) if stages < 3 else satisfied(built, AGAIN)
    for runs in ([0, 0, 1, 2, 3, 4, 5, 6], [0, 1, 0, 1, 2, 3, 4, 5, 6]):
        twice = recompute_stages.build(chain(), stages=2)
        assert twice is not None
        set_values(twice, runs)
        assert satisfied(twice, runs)


@pytest.mark.parametrize("stages", [None, 9])
def test_hints_beyond_the_memory_set_nothing(stages: int | None) -> None:
    built = recompute_stages.build(chain(4), stages=stages)
    assert built is not None
    set_values(built, range(7))
    assert untouched(built)


def test_hints_of_paging_move_nothing() -> None:
    machine = lt.Machine(
        tiers=(lt.Tier(name="memory"), lt.Tier(name="disk", capacity=3)),
        processors=(lt.Processor(name="p", tiers=(lt.Access(tier="memory"),)),),
        channels=(
            lt.Channel(src="memory", dst="disk", bytes_per_s=10**9),
            lt.Channel(src="disk", dst="memory", bytes_per_s=10**9),
        ),
    )
    problem = lt.Recompute(lt.load("gen:backprop-chain?l=3"), machine=machine)
    data = in_ns(recompute_data(problem))
    built = recompute_stages.build(data, paging=paging(problem, data))
    assert built is not None
    set_values(built, range(7))
    assert satisfied(built, range(7))
    moves = [*built.model.X.values(), *built.model.G.values()]
    assert {x.value for x in moves} == {0}


@pytest.mark.slow
def test_less_memory_than_that_of_the_data_costs_time() -> None:
    """Of 15 runs at least, the relaxation repeats 4 where integral runs repeat 5."""
    for relaxed, expected in ((False, 20), (True, 19)):
        for data, memory in ((chain(9, 7), 5), (chain(5, 7), None)):
            built = recompute_stages.build(data, memory=memory, relaxed=relaxed)
            assert built is not None
            assert least(built) == pytest.approx(expected)


def least(built: StagesModel) -> float:
    from lowtide.solvers.context import Context
    from lowtide.solvers.engines.highs import solve_highs

    told: list[float] = []
    problem = lt.Recompute(lt.load("gen:backprop-chain?l=3"))

    def look(value: Any) -> None:
        told.append(recompute_stages.objective(built, value))

    solve_highs(built.model, Context(problem=problem), decode=look, to_objective=lambda ticks: 0)
    return told[-1]
