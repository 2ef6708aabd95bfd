"""The bound by moments: what is read off a fastest schedule satisfies the model, with slower tiers too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

import lowtide as lt
from lowtide.formulations import recompute_moments
from lowtide.formulations.recompute_data import RecomputeData
from lowtide.formulations.recompute_moments import MomentsModel, longest_path
from lowtide.solvers.context import Context
from lowtide.solvers.engines.highs import solve_highs
from lowtide.solvers.recompute_moments import relaxed_data
from tests.oracles.brute_recompute import Step, fastest_recomputation, fastest_steps
from tests.recompute_problems import chain_with_disk, check_values, tight_problem, with_disk


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
    for seed in range(30):
        problem = chain_with_disk(seed)
        if problem is not None:
            yield problem
        problem = tight_problem(seed)
        if problem is not None:
            yield with_disk(problem, Random(seed))


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
    assert looked >= 25
    assert written >= 10


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
    print(looked, met)
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
