"""Recomputation on general graphs: models in stages, retention intervals, moments and heuristics.

Against two exhaustive searches: of all schedules, and of those in partitioned stages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest

import lowtide as lt
from lowtide.formulations.model import BuildTimeout
from lowtide.formulations.recompute import moccasin_cpsat, moments_hint
from lowtide.formulations.recompute import (
    moments_milp as recompute_moments,
)
from lowtide.formulations.recompute import (
    stages_milp as recompute_stages,
)
from lowtide.formulations.recompute.data import RecomputeData, fits, levels, recompute_data, time_of
from lowtide.formulations.recompute.stages_hint import set_values
from lowtide.models.errors import UsageError
from lowtide.solvers.context import Context
from lowtide.solvers.recompute.auto import solve_auto
from lowtide.solvers.recompute.heuristics import method as heuristics
from lowtide.solvers.recompute.heuristics.eviction import RULES, evicting, pruned
from lowtide.solvers.recompute.heuristics.segments import (
    ARTICULATION,
    LINEARIZED,
    gaps,
    greedy_boundaries,
    with_boundaries,
)
from lowtide.solvers.recompute.models.rounding import rounded
from tests.effort import share
from tests.oracles.brute_recompute import fastest_recomputation
from tests.oracles.brute_stages import fastest_in_stages
from tests.problems.recompute import (
    chain_with_disk,
    chained,
    check_values,
    milp,
    needed,
    tight_problem,
    with_copies,
    with_disk,
)
from tests.strategies import random_graph


def in_stages(
    problem: lt.Recompute, stages: int | None = None, hint: list[int] | None = None
) -> list[int] | None:
    """Return the runs of a fastest schedule in stages."""
    built = recompute_stages.build(recompute_data(problem), stages=stages)
    assert built is not None
    if hint is not None:
        set_values(built, hint)
        check_values(built.model)
    context = milp(problem, built.model, lambda value: recompute_stages.decode(built, value))
    return None if context.answer is None else [a.op for a in context.answer if hasattr(a, "op")]


def value_of(variable: Any) -> int:
    """The value of a variable, or the number that it is."""
    return variable if isinstance(variable, int) else variable.value


def check(seed: int) -> tuple[bool, bool]:
    """All models on one graph; return whether there was one, and whether stages cost time in it."""
    problem = tight_problem(seed)
    if problem is None:
        return False, False
    assert problem.memory is not None
    data = recompute_data(problem)
    best = fastest_recomputation(problem.graph, problem.machine)
    staged = fastest_in_stages(problem.graph, problem.memory)
    runs = in_stages(problem)
    assert (None if runs is None else data.ns(time_of(data, runs))) == staged
    assert with_copies(problem, data.n).incumbent == staged
    if runs is not None:
        assert problem.judge(problem.read(runs)).objective == staged
        assert in_stages(problem, hint=runs) is not None
        assert with_copies(problem, data.n, hint=runs).incumbent == staged
        many = recompute_stages.enough_stages(data, time_of(data, runs))
        free = in_stages(problem, many, hint=runs)
        assert free is not None
        assert data.ns(time_of(data, free)) == best
    path = recompute_moments.longest_path(data)
    for moments in ([], path[:1], path[-1:], path):
        built = recompute_moments.build(data, moments)
        assert built is not None
        if runs is not None:
            moments_hint.set_values(built, runs)
            check_values(built.model)
            again = [sum(map(value_of, column)) for column in zip(*built.runs, strict=True)]
            ticks = sum(d * many for d, many in zip(data.duration, again, strict=True))
            assert ticks <= time_of(data, runs)
        bound = milp(problem, built.model, lambda value: None).bound
        assert best is None or (bound is not None and bound <= best)
    for rule in RULES:
        found = evicting(data, rule)
        if found is not None:
            assert fits(data, found)
            assert best is not None
            assert best <= data.ns(time_of(data, pruned(data, found))) <= data.ns(time_of(data, found))
    return True, best != staged


@pytest.mark.slow
def test_models_find_what_exhaustive_searches_find() -> None:
    told = [check(seed) for seed in range(40)]
    assert sum(looked for looked, _ in told) >= 15
    assert any(costly for _, costly in told)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 5000, 1000))
def test_models_find_what_exhaustive_searches_find_on_fifty_graphs(seed: int) -> None:
    count = 0
    while count < share(50):
        count += check(seed)[0]
        seed += 1


def test_rounding_of_what_a_fastest_schedule_keeps_is_that_schedule() -> None:
    looked = 0
    for seed in range(40):
        problem = tight_problem(seed)
        if problem is None:
            continue
        data = recompute_data(problem)
        built = recompute_stages.build(data)
        assert built is not None
        found: list[tuple[float, list[int]]] = []

        def look(
            value: Any, built: Any = built, data: RecomputeData = data, found: list[Any] = found
        ) -> list[int]:
            kept = recompute_stages.kept_shares(built, value)
            found.append((recompute_stages.objective(built, value), rounded(data, kept, (0.5).__lt__)))
            return recompute_stages.decode(built, value)

        best = milp(problem, built.model, look).incumbent
        if best is not None:
            ticks, runs = found[-1]
            assert fits(data, runs)
            assert data.ns(round(ticks)) == data.ns(time_of(data, runs)) == best
            looked += 1
    assert looked >= 7


@pytest.mark.slow
def test_auto_claims_what_exhaustive_search_confirms() -> None:
    proved = 0
    for seed in (1, 2, 3, 5, 13, 14, 17, 25):
        problem = tight_problem(seed)
        assert problem is not None
        best = fastest_recomputation(problem.graph, problem.machine)
        result = lt.solve(problem, time_limit=None, threads=1)
        assert result.status in ("optimal", "feasible", "infeasible", "unknown"), result.detail
        assert result.objective is None or (best is not None and best <= result.objective)
        assert result.bound is None or best is None or result.bound <= best
        assert best is None or result.status != "infeasible"
        proved += result.status in ("optimal", "infeasible")
    assert proved >= 3


def test_levels_are_those_of_the_verifier() -> None:
    for seed in range(60):
        graph = random_graph(Random(seed), min_ops=2, max_ops=7)
        data = recompute_data(lt.Recompute(graph))
        used = {t for op in graph.ops for t in (*op.reads, *op.writes)}
        apart = sum(
            tensor.nbytes
            for t, tensor in enumerate(graph.tensors)
            if tensor.initial and tensor.final and t not in used
        )
        begin = sum(x.nbytes for x in data.values if x.at_start)  # under ``replace``, for no time at all
        peak = max(levels(data, range(data.n))) * data.unit + apart
        assert peak == max(needed(graph), begin * data.unit + apart)
        assert fits(recompute_data(lt.Recompute(graph, memory=peak)), range(data.n))
        if data.unit <= peak - apart:
            assert not fits(recompute_data(lt.Recompute(graph, memory=peak - 1)), range(data.n))


def test_stages_can_cost_time_even_where_ops_run_first_in_one_sequence_only() -> None:
    graph = chained([3, 2, 4, 1, 4, 1, 3], [(), (0,), (1,), (2,), (2,), (1, 3), (1,)])
    problem = lt.Recompute(graph, memory=8)
    assert fastest_recomputation(graph, problem.machine) == 10
    assert fastest_in_stages(graph, 8) == 11
    staged = lt.solve(problem, "checkmate", time_limit=None, threads=1, options={"start": "none"})
    assert staged.objective == 11
    assert staged.status != "optimal"
    assert staged.bound is not None
    assert staged.bound <= 10
    free = lt.solve(problem, "checkmate", time_limit=None, threads=1, options={"stages": "free"})
    assert (free.objective, free.status) == (10, "optimal")


def test_stages_can_have_no_schedule_where_there_is_one() -> None:
    graph = chained([1, 4, 2, 1, 3, 2, 1], [(), (0,), (1,), (0, 2), (1,), (1, 3), (4,)])
    problem = lt.Recompute(graph, memory=7)
    assert fastest_recomputation(graph, problem.machine) == 13
    result = lt.solve(problem, "checkmate", time_limit=None, threads=1, options={"start": "none"})
    assert result.status == "unknown"
    assert result.detail.startswith("no schedule in partitioned stages")
    assert (
        lt.solve(problem, "moccasin", time_limit=None, threads=1, options={"start": "none"}).status
        == "unknown"
    )


@pytest.mark.parametrize(("memory", "forwards"), [(4, 11), (5, 7), (6, 6), (7, 5)])
def test_backprop_chain_of_five_forwards(memory: int, forwards: int) -> None:
    problem = lt.Recompute(lt.load("gen:backprop-chain?l=5"), memory=memory)
    for method, options in (("checkmate", {}), ("moccasin", {"copies": "6"})):
        assert (
            lt.solve(problem, method, time_limit=None, threads=1, options=options).objective == forwards + 6
        )


def test_three_copies_are_too_few_for_four_cells() -> None:
    problem = lt.Recompute(lt.load("gen:backprop-chain?l=5"), memory=4)
    assert with_copies(problem, 3).incumbent is None
    assert with_copies(problem, 4).incumbent == 17


def test_no_chain_fits_in_less_than_one_op_needs() -> None:
    problem = lt.Recompute(lt.load("gen:backprop-chain?l=5"), memory=2)
    assert lt.solve(problem, "checkmate").status == "infeasible"


@pytest.mark.slow
def test_moments_prove_what_revolve_needs() -> None:
    for memory, forwards in ((5, 7), (6, 6)):
        problem = lt.Recompute(lt.load("gen:backprop-chain?l=5"), memory=memory)
        assert lt.solve(problem, "moments", time_limit=None, threads=1).bound == forwards + 6


def test_tensors_with_one_fate_are_one_value() -> None:
    tensors = [lt.Tensor(name=f"t{i}", nbytes=size) for i, size in enumerate((3, 6, 9))]
    ops = (lt.Op(name="a", writes=(0, 1)), lt.Op(name="b", reads=(0, 1), writes=(2,)))
    problem = lt.Recompute(lt.Graph(name="pair", tensors=tuple(tensors), ops=ops))
    together, apart = recompute_data(problem), recompute_data(problem, bundled=False)
    assert [x.nbytes * together.unit for x in together.values] == [9, 9]
    assert [x.nbytes * apart.unit for x in apart.values] == [3, 6, 9]


def data_of(spec: str, percent: int) -> RecomputeData:
    """A graph in so many percent of what the reference order needs beyond its largest op."""
    graph = lt.load(spec)
    problem = lt.Recompute(graph)
    least = max(problem.least_bytes(i) for i in range(len(graph.ops)))
    memory = least + (needed(graph) - least) * percent // 100
    return recompute_data(lt.Recompute(graph, memory=memory))


@pytest.mark.parametrize("kind", [LINEARIZED, ARTICULATION])
def test_segments_are_schedules(kind: str) -> None:
    data = data_of("gen:unet?depth=3&train=1", 50)
    whole = max(levels(data, range(data.n)))
    peaks = []
    for boundaries in greedy_boundaries(data, gaps(data, kind)):
        runs = with_boundaries(data, boundaries)
        peaks.append(max(levels(data, runs)))
        assert set(runs) == set(range(data.n))
        assert (len(runs) == data.n) == (peaks[-1] == whole) or boundaries
    assert min(peaks) < whole


def asked_more_than(times: int) -> Callable[[], bool]:
    """What holds from so many calls on."""
    left = iter(range(times))
    return lambda: next(left, None) is None


def test_rules_and_pruning_end_when_they_are_asked_to() -> None:
    data = recompute_data(lt.Recompute(lt.load("gen:backprop-chain?l=9"), memory=4))
    runs = evicting(data, RULES[0])
    assert runs is not None
    for allowed in (0, 5, 20):
        assert evicting(data, RULES[0], stop=asked_more_than(allowed)) is None
    wasteful = [0, *runs]
    assert fits(data, wasteful)
    assert pruned(data, wasteful, lambda: True) == wasteful
    some = pruned(data, wasteful, asked_more_than(3))
    assert fits(data, some)
    assert len(some) >= len(pruned(data, wasteful))


def test_rules_of_eviction_fit_and_pruning_loses_nothing() -> None:
    data = data_of("gen:unet?depth=3&train=1", 50)
    found = [runs for rule in RULES if (runs := evicting(data, rule)) is not None]
    assert found
    for runs in found:
        fewer = pruned(data, runs)
        assert fits(data, runs)
        assert fits(data, fewer)
        assert time_of(data, fewer) <= time_of(data, runs)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["eviction", "chen-sqrt", "chen-greedy", "segments", "checkmate-rounding"])
def test_heuristics_verify(method: str) -> None:
    graph = lt.load("gen:backprop-chain?l=9")
    problem = lt.Recompute(graph, memory=8)
    best = lt.solve(problem, "checkmate", time_limit=None, threads=1)
    result = lt.solve(problem, method, time_limit=None, threads=1)
    assert best.status == "optimal"
    assert result.verification is not None
    assert result.verification.valid
    assert result.objective is not None
    assert best.objective is not None
    assert result.objective >= best.objective


@pytest.mark.parametrize(
    ("method", "options", "fault"),
    [
        ("checkmate", {"stages": "some"}, "expected partitioned, free, or a number"),
        ("checkmate", {"start": "some"}, "expected one of lists, none"),
        ("moccasin", {"copies": "0"}, "expected a positive integer"),
        ("segments", {"segments": "0"}, "expected best, sqrt, or a number"),
        ("chen-sqrt", {"points": "some"}, "expected one of linearized, articulation"),
    ],
)
def test_wrong_options(method: str, options: dict[str, str], fault: str) -> None:
    problem = lt.Recompute(lt.load("gen:backprop-chain?l=5"), memory=5)
    with pytest.raises(UsageError, match=fault):
        lt.solve(problem, method, options=options)


def test_several_modes_are_refused() -> None:
    modes = (lt.Mode(duration_ns=1), lt.Mode(duration_ns=2))
    graph = lt.Graph(name="modes", tensors=(), ops=(lt.Op(name="a", modes=modes),))
    with pytest.raises(UsageError, match="expected one mode"):
        lt.solve(lt.Recompute(graph), "checkmate")


@pytest.mark.slow
def test_paging_of_chains_finds_what_exhaustive_search_finds() -> None:
    pays = 0
    for seed in range(8):
        problem = chain_with_disk(seed)
        if problem is None:
            continue
        assert problem.memory is not None
        result = lt.solve(problem, "poet", time_limit=None, threads=1, options={"start": "none"})
        assert result.objective == fastest_recomputation(problem.graph, problem.machine)
        pays += result.objective != fastest_in_stages(problem.graph, problem.memory)
    assert pays >= 5


@pytest.mark.slow
def test_paging_of_any_graph_is_never_better_than_all_schedules() -> None:
    told = []
    for seed in range(40):
        alone = tight_problem(seed)
        if alone is None or len(alone.graph.ops) > 4:
            continue
        problem = with_disk(alone, Random(seed))
        result = lt.solve(problem, "poet", time_limit=None, threads=1, options={"start": "none"})
        best = fastest_recomputation(problem.graph, problem.machine)
        assert result.status in ("feasible", "optimal", "unknown"), result.detail
        assert result.objective is None or (best is not None and best <= result.objective)
        told.append(result.objective)
    assert sum(objective is not None for objective in told) >= 3


@pytest.mark.slow
def test_free_stages_prove_nothing_where_values_come_back_from_a_slower_tier() -> None:
    for seed in (18, 19):
        problem = chain_with_disk(seed)
        assert problem is not None
        best = fastest_recomputation(problem.graph, problem.machine)
        result = lt.solve(problem, "checkmate", time_limit=None, threads=1, options={"stages": "free"})
        assert best is not None
        assert result.objective is not None
        assert result.bound is not None
        assert result.status == "feasible"
        assert result.bound <= best < result.objective


@pytest.mark.slow
def test_a_bound_above_a_plan_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = lt.Recompute(lt.load("gen:backprop-chain?l=5"), memory=5)
    build = recompute_moments.build

    def in_less_memory(data: RecomputeData, moments: Sequence[int], **more: Any) -> Any:
        return build(replace(data, memory=data.memory - 1), moments, **more)

    monkeypatch.setattr(recompute_moments, "build", in_less_memory)
    result = lt.solve(problem, "checkmate", time_limit=None, threads=1)
    assert result.status == "failed"
    assert "above the verified objective 13" in result.detail


def test_poet_wants_a_slower_tier() -> None:
    problem = lt.Recompute(lt.load("gen:backprop-chain?l=5"), memory=5)
    with pytest.raises(UsageError, match="found no slower tier with channels"):
        lt.solve(problem, "poet")


def test_auto_begins_nothing_when_the_time_is_up() -> None:
    problem = lt.Recompute(lt.load("gen:backprop-chain?l=20"), memory=6)
    context = Context(problem=problem, time_limit=0.0)
    outcome = solve_auto(problem, context)
    assert outcome.reason == "time"
    assert not context.known.turns


def test_models_in_stages_end_with_their_limit_or_say_that_they_are_too_large() -> None:
    problem = lt.Recompute(lt.load("gen:backprop-chain?l=5"), memory=4)
    data = recompute_data(problem)
    with pytest.raises(BuildTimeout):
        moccasin_cpsat.build(data, copies=3, expired=lambda: True)
    result = lt.solve(problem, "checkmate-rounding", memory_limit=1, threads=1)
    assert result.reason == "memory"
    assert result.detail.startswith("the relaxed MILP in partitioned stages was not built")


def test_the_data_are_not_made_where_each_op_once_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as every tensor is kept to its last access, or, found with the data, to the next write."""
    made: list[lt.Recompute] = []

    def noted(problem: lt.Recompute) -> RecomputeData:
        made.append(problem)
        return recompute_data(problem)

    monkeypatch.setattr(heuristics, "recompute_data", noted)
    tensors = (lt.Tensor(name="x", nbytes=4), lt.Tensor(name="y", nbytes=3))
    ops = (
        lt.Op(name="a", writes=(0,)),
        lt.Op(name="b", writes=(1,)),
        lt.Op(name="c", reads=(1,)),
        lt.Op(name="d", writes=(0,)),
    )
    graph = lt.Graph(name="x twice", tensors=tensors, ops=ops)
    for memory, count in ((7, 0), (4, 1)):
        problem = lt.Recompute(graph, memory=memory)
        result = lt.solve(problem, "eviction", time_limit=None)
        assert (result.status, result.objective, len(made)) == (lt.Status.OPTIMAL, 4, count)
