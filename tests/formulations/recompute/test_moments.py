"""The bound by moments: what is read off a fastest schedule satisfies the model, with slower tiers too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest

import lowtide as lt
from lowtide.formulations.recompute import moments_milp as recompute_moments
from lowtide.formulations.recompute.data import RecomputeData
from lowtide.formulations.recompute.moments_milp import MomentsModel, longest_path
from lowtide.solvers.context import Context, Outcome
from lowtide.solvers.engines.highs import solve_highs
from lowtide.solvers.recompute.models.moments import relaxed_data
from tests.oracles.brute_recompute import Step, fastest_recomputation, fastest_steps
from tests.problems.recompute import chain_with_disk, check_values, tight_problem, with_disk


def read_off(graph: lt.Graph, built: MomentsModel, steps: Sequence[Step]) -> None:
    """Give every variable its value in a schedule, by the words that define it."""
    data = built.data
    tensor = [data.tensors[x.tensor][0] for x in data.values]
    value = {(t, x.writer): u for u, (t, x) in enumerate(zip(tensor, data.values, strict=True))}
    held = {(0, t): u for u, t in enumerate(tensor) if data.values[u].writer is None}  # by tier and tensor
    waiting = list(built.moments)
    ran, came, stored = [set[int]()], [set[int]()], set[int]()
    at: list[set[int]] = [set(held.values())]
    through = [set(at[0])]
    for kind, item, tier, more in steps:
        if kind == "run":
            if waiting and item == waiting[0]:
                waiting.pop(0)
                at.append({u for (k, _), u in held.items() if k == 0})
                through.append(set(at[-1]))
                ran.append(set())
                came.append(set())
            assert all((0, t) in held for t in graph.ops[item].reads)
            ran[-1].add(item)
            for t in more:
                held.pop((0, t), None)
            held = {(k, t): u for (k, t), u in held.items() if t not in graph.ops[item].writes}
            held |= {(0, t): value[t, item] for t in graph.ops[item].writes}
        elif kind == "drop":
            del held[tier, item]
        else:
            (to,) = more
            u = held[to, item] = held[tier, item]
            if tier == 0:
                stored.add(u)
            if to == 0:
                came[-1].add(u)
        through[-1] &= {u for (k, _), u in held.items() if k == 0}
    assert not waiting
    at.append({u for (k, _), u in held.items() if k == 0})
    values = range(len(data.values))
    for k in range(len(built.moments) + 1):
        put(built.runs[k], ran[k], range(data.n))
        put(built.through[k], through[k], values)
        modelled = [u for u in through[k] if not isinstance(built.through[k][u], int)]
        built.levels[k].set_value(sum(built.weights[u] for u in modelled))
        put(built.back[k], came[k], values)
    for k, there in enumerate(at):
        put(built.there[k], there, values)
    put(built.written, stored, values)


def put(variables: Sequence[Any], chosen: set[int], of: Sequence[int]) -> None:
    for k in of:
        if not isinstance(variables[k], int):
            variables[k].set_value(int(k in chosen))


def without_bundles(problem: lt.Recompute) -> tuple[RecomputeData, recompute_moments.Slower | None]:
    """What the bound is made of."""
    found = relaxed_data(problem)
    assert found is not None
    return found


def with_disks() -> Iterator[lt.Recompute]:
    """Small chains and random graphs in little memory, with a disk."""
    for seed in range(14):
        problem = chain_with_disk(seed)
        if problem is not None:
            yield problem
        problem = tight_problem(seed)
        if problem is not None:
            yield with_disk(problem, Random(seed))
            yield with_disk(with_a_bystander(problem), Random(seed))


def with_a_bystander(problem: lt.Recompute) -> lt.Recompute:
    """The problem with two bytes that no op accesses and that are final, and half of the room for them."""
    assert problem.memory is not None
    more = lt.Tensor(name="bystander", nbytes=2, initial=True, final=True)
    graph = replace(problem.graph, tensors=(*problem.graph.tensors, more))
    return lt.Recompute(graph, memory=problem.memory + 1)


@pytest.mark.slow
def test_a_fastest_schedule_satisfies_the_model_with_slower_tiers() -> None:
    written = looked = 0
    for problem in with_disks():
        found = fastest_steps(problem.graph, problem.machine)
        if found is None:
            continue
        looked += 1
        data, slower = without_bundles(problem)
        path = longest_path(data)
        for moments in (path[:1], path[1::2], path):
            built = recompute_moments.build(data, moments, slower=slower)
            assert built is not None
            read_off(problem.graph, built, found[1])
            check_values(built.model)
            assert built.model.objective() <= found[0]
        written += any(kind == "move" for kind, *_ in found[1])
    assert looked >= 12
    assert written >= 5


@pytest.mark.slow
def test_bounds_with_slower_tiers_are_below_the_optimum_and_often_meet_it() -> None:
    met = looked = 0
    for problem in with_disks():
        best = fastest_recomputation(problem.graph, problem.machine)
        data, slower = without_bundles(problem)
        built = recompute_moments.build(data, longest_path(data), slower=slower)
        assert built is not None
        context = Context(problem=problem)
        outcome = solve_highs(built.model, context, decode=lambda value: None, to_objective=data.ns)
        assert outcome.reason is None
        if best is not None:
            assert context.bound is not None
            assert not outcome.infeasible
            assert context.bound <= best
            looked += 1
            met += context.bound == best
    assert looked >= 12
    assert met >= 0.5 * looked


def test_where_runs_read_slower_tiers_in_place_nothing_is_said() -> None:
    slow = lt.Access(tier="disk")
    machine = lt.Machine(
        tiers=(lt.Tier(name="memory"), lt.Tier(name="disk")),
        processors=(lt.Processor(name="p", tiers=(lt.Access(tier="memory"), slow)),),
        channels=(
            lt.Channel(src="memory", dst="disk", bytes_per_s=10**9),
            lt.Channel(src="disk", dst="memory", bytes_per_s=10**9),
        ),
    )
    problem = lt.Recompute(lt.load("gen:backprop-chain?l=5"), memory=5, machine=machine)
    assert relaxed_data(problem) is None
    assert lt.solve(problem, "moments", threads=1).bound == problem.least_time


@pytest.mark.parametrize("ways", [1, 2], ids=["one way", "both ways"])
def test_what_no_op_accesses_can_leave_to_make_room(ways: int) -> None:
    """Two bytes go to the disk for 2 ns; with them in the memory the first op would have to run again."""
    tensors = (
        lt.Tensor(name="bystander", nbytes=2, initial=True, final=True),
        lt.Tensor(name="a", nbytes=1),
        lt.Tensor(name="b", nbytes=0),
        lt.Tensor(name="c", nbytes=1, final=True),
    )
    ops = (
        lt.Op(name="long", writes=(1,), duration_ns=9),
        lt.Op(name="large", writes=(2,), after=(0,), workspace=2),
        lt.Op(name="end", reads=(1, 2), writes=(3,)),
    )
    disk = ("memory", "disk"), ("disk", "memory")
    machine = lt.Machine(
        tiers=(lt.Tier(name="memory"), lt.Tier(name="disk")),
        processors=(lt.Processor(name="p", tiers=(lt.Access(tier="memory"),)),),
        channels=tuple(lt.Channel(src=src, dst=dst, bytes_per_s=10**9) for src, dst in disk[:ways]),
    )
    problem = lt.Recompute(lt.Graph(name="room", tensors=tensors, ops=ops), memory=4, machine=machine)
    best = fastest_recomputation(problem.graph, problem.machine)
    assert best == 9 + 1 + 1 + 2
    assert lt.solve(problem, "moments", threads=1).bound == best
    result = lt.solve(problem, threads=1)
    assert result.bound == best
    if ways == 2:  # and a method pages
        assert (result.status, result.objective) == ("optimal", best)
    else:
        assert (result.status, result.objective) == ("feasible", 20)


@pytest.mark.slow
def test_an_interrupted_step_is_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def interrupted(model: Any, *given: Any, **more: Any) -> Outcome:
        asked.append(model)
        return Outcome(reason="interrupted")

    monkeypatch.setattr("lowtide.solvers.engines.model.solve_highs", interrupted)
    for method in ("moments", "checkmate", "moccasin", "rockmate", "hiremate", "auto"):
        asked.clear()
        result = lt.solve(lt.Recompute(lt.load("gen:backprop-chain?l=9"), memory=5), method, threads=1)
        assert (result.reason, len(asked)) == ("interrupted", 1)


def test_a_model_too_large_for_the_memory_is_told() -> None:
    problem = lt.Recompute(lt.load("gen:backprop-chain?l=9"), memory=5)
    result = lt.solve(problem, "moments", threads=1, memory_limit=1000)
    assert (result.status, result.reason) == ("unknown", "memory")
    assert "moments was not built" in result.detail
