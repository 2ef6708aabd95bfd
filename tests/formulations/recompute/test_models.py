"""Models of recomputation: what their bounds, scaled sizes, copies and hints mean."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import networkx as nx
import pytest

import lowtide as lt
from lowtide.formulations.model import BuildTimeout
from lowtide.formulations.recompute import (
    moccasin_cpsat as recompute_moccasin,
)
from lowtide.formulations.recompute import (
    moments_milp as recompute_moments,
)
from lowtide.formulations.recompute import (
    stages_milp as recompute_stages,
)
from lowtide.formulations.recompute.data import recompute_data, time_of
from lowtide.formulations.recompute.stages_hint import stages_of
from lowtide.models.errors import UsageError
from lowtide.solvers.context import Context
from lowtide.solvers.engines.highs import solve_highs
from lowtide.solvers.recompute.models.moments import relaxed_data
from tests.oracles.brute_recompute import fastest_recomputation
from tests.oracles.brute_stages import fastest_in_stages
from tests.problems.recompute import battery, ends_on_the_disk, milp, with_copies

BATTERY = battery()


def bound(problem: lt.Recompute) -> int | None:
    """The bound by all moments of a longest path; None if the relaxation has no solution."""
    relaxed = relaxed_data(problem)
    assert relaxed is not None
    data, slower = relaxed
    built = recompute_moments.build(data, recompute_moments.longest_path(data), slower=slower)
    context = Context(problem=problem)
    outcome = solve_highs(built.model, context, decode=lambda value: None, to_objective=data.ns)
    assert outcome.reason is None
    return None if outcome.infeasible else context.bound


def test_what_ends_in_a_slower_tier_is_written_there() -> None:
    problem = ends_on_the_disk()
    assert bound(problem) == fastest_recomputation(problem.graph, problem.machine) == 100 + 1 + 15


def test_what_is_computed_again_need_not_be_there_all_through() -> None:
    """The first value is there as the second op starts, and at the end, but not while the third one runs."""
    tensors = tuple(lt.Tensor(name=f"t{k}", nbytes=size, final=k != 1) for k, size in enumerate((5, 1, 1)))
    ops = (
        lt.Op(name="a", writes=(0,)),
        lt.Op(name="b", reads=(0,), writes=(1,)),
        lt.Op(name="c", reads=(1,), writes=(2,), workspace=8),
    )
    problem = lt.Recompute(lt.Graph(name="again", tensors=tensors, ops=ops), memory=10)
    built = recompute_moments.build(recompute_data(problem), [1])
    best = fastest_recomputation(problem.graph, problem.machine)
    assert milp(problem, built.model, lambda value: None).bound == best == 4


def test_moments_are_on_a_longest_path() -> None:
    for problem in BATTERY:
        data = recompute_data(problem)
        path = recompute_moments.longest_path(data)
        assert all(data.ancestors[later] >> earlier & 1 for earlier, later in pairwise(path))
        steps = nx.DiGraph([(j, i) for i in range(data.n) for j in (*data.inputs[i], *data.after[i])])
        assert len(path) == max(1, nx.dag_longest_path_length(steps) + 1)


def test_models_are_not_built_after_the_time() -> None:
    data = recompute_data(BATTERY[0])
    with pytest.raises(BuildTimeout):
        recompute_moments.build(data, [0], expired=lambda: True)
    with pytest.raises(BuildTimeout):
        recompute_stages.build(data, expired=lambda: True)


@pytest.mark.parametrize("problem", [BATTERY[0], BATTERY[1]], ids=["one", "two"])
def test_sizes_of_many_units_change_nothing(problem: lt.Recompute) -> None:
    """Models of more units than `EXACT_UNITS` are scaled; one byte more than a multiple has that effect."""
    factor = 3 * recompute_stages.EXACT_UNITS + 1
    tensors = tuple(replace(x, nbytes=x.nbytes * factor + (x.nbytes > 0)) for x in problem.graph.tensors)
    ops = tuple(replace(op, workspace=op.workspace * factor) for op in problem.graph.ops)
    assert problem.memory is not None
    graph = replace(problem.graph, tensors=tensors, ops=ops)
    large = lt.Recompute(graph, memory=problem.memory * factor + len(tensors))
    assert recompute_data(large).memory > recompute_stages.EXACT_UNITS
    stages = recompute_stages.build(recompute_data(large))
    found = milp(large, stages.model, lambda value: recompute_stages.decode(stages, value))
    assert found.incumbent == fastest_in_stages(problem.graph, problem.memory)
    assert found.answer is None or not large.judge(found.answer).violations
    assert bound(large) == bound(problem)


def test_most_copies_are_as_many_as_are_said() -> None:
    problem = lt.Recompute(lt.load("gen:backprop-chain?l=5"), memory=5)
    assert with_copies(problem, 1).incumbent is None
    assert with_copies(problem, 2).incumbent == 13


def test_areas_beyond_sixty_four_bits_are_refused() -> None:
    tensors = (lt.Tensor(name="x", nbytes=1),)
    data = recompute_data(
        lt.Recompute(lt.Graph(name="one", tensors=tensors, ops=(lt.Op(name="a", writes=(0,)),)))
    )
    with pytest.raises(UsageError, match=r"times 1 slots, expected less than 2\^61"):
        recompute_moccasin.build(replace(data, memory=2**60 - 1), copies=1)
    assert recompute_moccasin.build(replace(data, memory=2**60 - 2), copies=1).complete


def decoded(built: recompute_moccasin.MoccasinModel, said: dict[int, int]) -> list[int]:
    return recompute_moccasin.decode(built, lambda variable: said[variable.index])


def test_hints_of_retention_intervals_say_everything() -> None:
    looked = 0
    chain = lt.Recompute(lt.load("gen:backprop-chain?l=3"), memory=4)
    for problem in (*BATTERY, chain):
        data = recompute_data(problem)
        answer = with_copies(problem, data.n).answer
        if answer is None:
            continue
        stages = stages_of(data, [action.op for action in answer if isinstance(action, lt.Compute)])
        assert stages is not None
        runs = [i for stage in stages for i in stage]
        built = recompute_moccasin.build(data, copies=data.n, hint=runs)
        hint = built.model.proto.solution_hint
        said = dict(zip(hint.vars, hint.values, strict=True))
        names = {k: x.name for k, x in enumerate(built.model.proto.variables)}
        silent = {name for k, name in names.items() if name and k not in said}
        absent = {name[2:] for k, name in names.items() if name.startswith("a ") and not said[k]}
        gone = {f"s {copy}" for copy in absent}
        for u, x in enumerate(data.values):
            gone |= {f"e {u} {c}" for c in range(data.n) if f"{x.writer} {c}" in absent}
        # Lengths and what stays to the end follow; copies that are not there are nowhere.
        assert {name for name in silent if name[0] not in "lf"} == gone
        assert decoded(built, said) == runs
        fixed = with_copies(problem, data.n, hint=runs)
        assert fixed.incumbent == data.ns(time_of(data, runs))
        looked += 1
    assert looked >= 3
