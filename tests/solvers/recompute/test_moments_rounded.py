"""What single moments bring: schedules that keep what their solutions keep, and proofs that none fits."""

from __future__ import annotations

from dataclasses import replace

import pytest

import lowtide as lt
from lowtide.formulations.recompute.data import fits, levels, recompute_data, time_of
from lowtide.formulations.recompute.moments_milp import by_need, longest_path, size
from lowtide.solvers.context import Context
from lowtide.solvers.recompute.models.moments import round_moments
from lowtide.solvers.recompute.models.rounding import from_moments
from tests.oracles.brute_recompute import fastest_recomputation
from tests.problems.recompute import tight_problem


def test_runs_are_those_that_what_is_kept_makes_necessary() -> None:
    """A chain x_0 .. x_3: at the first backward only x_1 and x_3 are kept, so F_1 runs again before B_2."""
    data = recompute_data(lt.Recompute(lt.load("gen:backprop-chain?l=3")))
    left_by = {x.writer: u for u, x in enumerate(data.values)}
    kept = {left_by[0], left_by[2]}
    assert from_moments(data, [], []) == [0, 1, 2, 3, 4, 5, 6]
    assert from_moments(data, [3], [kept]) == [0, 1, 2, 3, 1, 4, 5, 6]
    assert from_moments(data, [3], [{left_by[2]}]) == [0, 1, 2, 3, 0, 1, 4, 5, 6]


def test_the_moments_that_need_most_are_those_of_the_definition() -> None:
    """What an op accesses, what is resident, and what of the past a descendant still reads."""
    some = 0
    for seed in range(40):
        problem = tight_problem(seed)
        if problem is None:
            continue
        data = recompute_data(problem)
        data = replace(data, memory=data.memory // 2)
        after = [{i} for i in range(data.n)]
        for i in reversed(range(data.n)):
            for j in (*data.inputs[i], *data.after[i]):
                after[j] |= after[i]
        needed = {}
        for p in longest_path(data):
            own = {data.values[u].tensor for u in (*data.reads[p], *data.writes[p])}
            units = data.footprint[p]
            for b in {x.tensor for x in data.values} - own:
                versions = [x for x in data.values if x.tensor == b]
                past = [x for x in versions if x.writer is None or p in after[x.writer]]
                wanted = [x for x in past if x.final or after[p] & set(x.readers)]
                units += versions[0].nbytes * (1 if b in data.resident else len(wanted))
            needed[p] = units
        expected = sorted((p for p in needed if needed[p] > data.memory), key=lambda p: (-needed[p], p))
        assert by_need(data) == expected, seed
        some += len(longest_path(data)) > len(expected) > 1
    assert some >= 3


def updated(memory: int) -> lt.Recompute:
    """Two weights of 8 bytes with updates in place; x cannot be computed again once v is updated."""
    tensors = (
        lt.Tensor(name="v", nbytes=8, initial=True, final=True),
        lt.Tensor(name="w", nbytes=8, initial=True, final=True),
        *(lt.Tensor(name=name, nbytes=4) for name in ("x", "y", "dy", "dw")),
        lt.Tensor(name="out", nbytes=1, final=True),
    )
    ops = (
        lt.Op(name="x", reads=(0,), writes=(2,), duration_ns=5),
        lt.Op(name="y", reads=(1, 2), writes=(3,), duration_ns=7),
        lt.Op(name="dy", reads=(3,), writes=(4,), workspace=4),
        lt.Op(name="dw", reads=(2, 4), writes=(5,)),
        lt.Op(name="update", reads=(1, 5), writes=(1,)),
        lt.Op(name="first", reads=(0,), writes=(0,)),
        lt.Op(name="out", reads=(2,), writes=(6,), after=(5,)),
    )
    return lt.Recompute(lt.Graph(name="updated", tensors=tensors, ops=ops), memory=memory)


@pytest.mark.slow
def test_weights_are_there_all_the_time_and_what_needs_their_first_version_is_not_run_again() -> None:
    """Against exhaustive search: both weights are resident, and dy needs 12 bytes beside their 16."""
    for memory in (27, 28, 31, 32, 40):
        problem = updated(memory)
        data = recompute_data(problem)
        assert {data.tensors[b] for b in data.resident} == {(0,), (1,)}
        best = fastest_recomputation(problem.graph, problem.machine)
        bound = lt.solve(problem, "moments", threads=1, time_limit=None)
        assert (bound.status == "infeasible") == (best is None), memory
        if best is not None:
            assert bound.bound == best


def test_a_tensor_that_is_overwritten_unread_is_not_resident() -> None:
    graph = lt.Graph(
        name="overwritten",
        tensors=(lt.Tensor(name="s", nbytes=8, initial=True, final=True),),
        ops=(lt.Op(name="read", reads=(0,)), lt.Op(name="write", writes=(0,))),
    )
    assert not recompute_data(lt.Recompute(graph)).resident


@pytest.mark.parametrize("problem", [x for x in map(tight_problem, range(24)) if x is not None])
def test_single_moments_bound_and_what_comes_of_them_fits(problem: lt.Recompute) -> None:
    data = recompute_data(problem)
    context = Context(problem=problem)
    context.raise_bound(problem.least_time, kind="each op once")
    outcome, start = round_moments(problem, data, context, float("inf"))
    best = fastest_recomputation(problem.graph, problem.machine)
    if best is None:
        assert context.answer is None
        return
    assert not outcome.infeasible
    assert context.bound is not None
    assert context.bound <= best
    if context.incumbent is not None:
        assert context.incumbent >= best
    if start is not None:
        assert not fits(data, start)
        assert max(levels(data, start)) > data.memory
        assert time_of(data, start) >= sum(data.duration)


def test_the_model_of_two_thousand_ops_has_few_terms() -> None:
    """Its rows have the terms of what ops access, not of all values for each op."""
    data = recompute_data(lt.Recompute(lt.load("catalogue:llama-1b-train")))
    assert data.n * len(data.values) > 4_000_000
    assert size(data, 1).terms < 150_000


def test_what_is_there_all_the_time_leaves_too_little_for_an_op() -> None:
    """Op dy needs 12 bytes beside the 16 of two weights: 28 are enough for it, 27 are said to be too few."""
    assert updated(28).impossible() is None
    assert "beside what is there all the time" in (updated(27).impossible() or "")
